# One image for web, worker and clock; compose.yaml says which is which.
FROM python:3.13-slim AS build
WORKDIR /app
ENV UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy
COPY requirements-uv.lock requirements.lock ./
RUN python -m venv /venv \
 && python -m pip install --quiet --require-hashes -r requirements-uv.lock \
 && VIRTUAL_ENV=/venv uv pip sync --quiet --require-hashes requirements.lock

FROM python:3.13-slim
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends bubblewrap git \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 10001 agentops \
 && install -d -o agentops -g agentops -m 0700 /state
COPY --from=build /venv /venv
WORKDIR /app
COPY . .
RUN /venv/bin/python -m compileall -qq agentops gates loops
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 AGENTOPS_STATE=/state HOST=0.0.0.0 PORT=8000
USER agentops
VOLUME /state
EXPOSE 8000
# Alone, without compose, the image brings its own Postgres and Valkey, like `make run`.
CMD ["python", "manage.py", "up"]
