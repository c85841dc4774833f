# One verb for each thing people do. Everything runs in .venv; nothing else on the machine is touched, but that root
# gets bubblewrap where apt-get has it, and a user `agentops` to run as.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
UV := $(BIN)/uv
export UV_LINK_MODE ?= copy
# Else every process compiles 1,400 modules at its start: many containers forbid all of theirs to keep what was compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run sandbox own-packages setup test unit adversary adversary-coders check fix walk smoke faults controls clock attacks ordinary projects reporters bench docs eval-confidence eval-errors eval-loops eval-recovery shots map trace-step spec lock system-tools compiler

help: ## show these verbs
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

run: sandbox .venv/.runtime own-packages $(BIN)/agentops ## start AgentOps: database, broker, web, worker, clock; Ctrl-C stops it
	@$(BIN)/python -m compileall -qq agentops gates loops || true
	@exec $(BIN)/python manage.py up $(ARGS)

# The first line of a start where bubblewrap is missing; as root on Debian it is installed.
sandbox:
	@$(PYTHON) loops/tools/sandbox/installation.py || true

setup: .venv/.development $(BIN)/agentops ## install everything a developer needs

# The order is one for each commit; SEED=n repeats another. A few that fail are tried again alone, and named if they pass.
test: export HYPOTHESIS_PROFILE ?= usual
test: .venv/.development system-tools ## the whole suite, on its own servers
	@$(BIN)/python -m compileall -qq agentops gates loops || true
	$(BIN)/python -m tests.suite $(ARGS)

unit: .venv/.development ## the tests that need no server
	@$(BIN)/pytest -q -p no:playwright tests/unit $(ARGS)

adversary: .venv/.development ## 2,000 adversarial models and tools: every run ends within its bounds
	HYPOTHESIS_PROFILE=full $(BIN)/pytest -q -p no:playwright tests/unit/engine/test_termination.py -k every_run $(ARGS)

adversary-coders: .venv/.development system-tools ## coders that cheat, beside honest ones: nothing wrong is committed unseen; needs the registry
	@$(BIN)/python -m tests.adversary_coders $(ARGS)

check: .venv/.development ## style, types, layers, migrations, settings, documentation
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy --strict -p loops.engine -p gates.policy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tests.architecture.ratchet
	$(BIN)/python manage.py makemigrations --check --dry-run --settings=tests.settings
	$(BIN)/python manage.py check --fail-level WARNING --settings=tests.settings
	@$(MAKE) --no-print-directory docs

# Anew each time: what is kept from a build before would not be warned about again.
docs: .venv/.development ## build the documentation site, strictly
	@$(BIN)/sphinx-build --fail-on-warning --keep-going --fresh-env --write-all --quiet -c agentops/docs/site . build/docs
	@echo "The documentation is at build/docs/index.html"

fix: .venv/.development ## repair style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

walk: .venv/.development system-tools ## the README's first five minutes on a fresh installation, with bubblewrap and without
	@$(BIN)/python -m tests.walk $(ARGS)

smoke: .venv/.development ## the same once, as this machine is
	@$(BIN)/python -m tests.walk clone $(ARGS)

faults: .venv/.development system-tools ## break everything thousands of times, and compare
	$(BIN)/python -m tests.faults $(ARGS)

# Without a network the peers stay away, and the bench says so.
bench: .venv/.development ## measure
	@$(MAKE) --silent .venv-bench/.peers 2>/dev/null || true
	$(BIN)/python -m tests.bench $(ARGS)

trace-step: .venv/.development ## count the files and functions that one ordinary step crosses
	@$(BIN)/python -m tests.bench.trace_step $(ARGS)

eval-confidence: .venv/.development ## how well measured confidence foretells failure, on recorded runs
	@$(BIN)/python -m tests.evals.confidence $(ARGS)

controls: .venv/.development system-tools ## switch every guard off once: a test has to fail
	@$(BIN)/python -m tests.controls $(ARGS)

# By hand and before a release: it takes as long as the suite for each of its clocks, logs are in build.
clock: .venv/.development system-tools compiler ## the suite without browsers at other times: far ahead, on a leap day, elsewhere, at midnight
	@$(BIN)/python -m tests.clock $(ARGS)

attacks: .venv/.development system-tools ## try every attack of tests/attacks/attacks.md: nothing may get through
	@$(BIN)/python -m tests.attacks $(ARGS)

projects: export PYTHONUNBUFFERED = 1
projects: .venv/.development system-tools ## nine real projects, from agentops init to a delivered result; needs the registries
	@$(BIN)/pytest -q -s -p no:randomly -p no:playwright tests/e2e/real_projects.py $(ARGS)

reporters: .venv/.development ## the test runners of Node as published, each reporting its tests; needs the registry
	@$(BIN)/pytest -q -p no:randomly -p no:playwright tests/e2e/real_reporters.py $(ARGS)

ordinary: .venv/.development system-tools ## a day of ordinary work at real sizes: an agent on a copy of this repository, people in browsers
	@$(BIN)/pytest -q tests/e2e/test_ordinary.py $(ARGS)

eval-errors: .venv/.development ## measure how failures are sorted, against labels
	@$(BIN)/python -m tests.evals.errors

eval-loops: .venv/.development ## precision and recall of loop detection on recorded runs
	@$(BIN)/python -m tests.evals.loops $(ARGS)

eval-recovery: .venv/.development ## fifty faults under real runs, and how many end well without a person
	@$(BIN)/python -m tests.evals.recovery $(ARGS)

shots: .venv/.development system-tools ## take screenshots of every page
	$(BIN)/python manage.py shots $(ARGS)

map: ## the folders, each with what it is
	@sed -nE 's/^\| `([^`]+)` \| ([^|]+) \|.*/\1\t\2/p' agentops/docs/architecture.md | sort | awk -F '\t' '{printf "%-34s %s\n", $$1, $$2}'

spec: .venv/.development ## rows of the specification that have tests
	@$(BIN)/pytest --collect-only --spec-ids -q -q -p no:randomly | grep -E '^[A-Z][0-9]+ '

lock: $(UV) ## resolve the locks anew from pyproject.toml
	$(UV) pip compile $(LOCK) pyproject.toml -o requirements.lock
	$(UV) pip compile $(LOCK) -c requirements.lock --group dev pyproject.toml -o requirements-dev.lock
	$(UV) pip compile $(LOCK) --group bench -o requirements-bench.lock

LOCK := --quiet --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11

# What tests need of the system: a browser, the sandbox of commands, and what makes a disk fail. Only root can add them.
system-tools:
	@missing=""; \
	for name in chromium-headless-shell chromium chromium-browser google-chrome; do command -v $$name && break; done >/dev/null \
	  || [ -n "$${CHROMIUM:-}" ] || missing="chromium-headless-shell fonts-dejavu-core"; \
	command -v bwrap >/dev/null || missing="$$missing bubblewrap"; \
	command -v strace >/dev/null || missing="$$missing strace"; \
	command -v node >/dev/null || missing="$$missing nodejs"; \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null && missing=""; \
	fi; \
	if [ -n "$$missing" ]; then echo "missing:$$missing (apt-get install $$missing)" >&2; [ "$${CI:-}" != true ]; fi

compiler:
	@if ! command -v cc >/dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev >/dev/null; \
	fi; \
	command -v cc >/dev/null || { echo "missing: a C compiler (apt-get install gcc libc6-dev)" >&2; exit 1; }

$(UV): requirements-uv.lock
	@[ -x $(BIN)/python ] || echo "Installing into .venv, which takes about a minute the first time ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; name one with: make run PYTHON=python3.12" >&2; exit 1; }
	@[ -x $(BIN)/pip ] || { rm -rf .venv; $(PYTHON) -m venv .venv; } \
	  || { echo "cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements-uv.lock
	@touch $(UV)

# What an installed package would put there: `agentops backup` and the like, from any folder.
$(BIN)/agentops: pyproject.toml $(UV)
	@printf '#!%s\nimport sys\n\nsys.path.insert(0, "%s")\nfrom agentops.command_line import main\n\nmain()\n' \
	  "$(CURDIR)/$(BIN)/python" "$(CURDIR)" > $@ && chmod +x $@

# A developer's environment holds everything that running needs, so `make run` leaves it alone. Compiled at once: the user
# that root becomes could not write it.
.venv/.runtime: requirements.lock $(UV)
	@if [ -f .venv/.development ]; then $(MAKE) --no-print-directory .venv/.development; else \
	  VIRTUAL_ENV=.venv $(UV) pip sync --quiet --compile-bytecode --require-hashes requirements.lock; : > .venv/.own; fi
	@touch $@

# What you install beside AgentOps stands in a file of yours: it is installed with ours, in versions that fit, and a line
# that is removed takes its package along.
OWN := requirements-local.txt
own-packages: .venv/.runtime
	@cat $(OWN) 2>/dev/null | cmp -s - .venv/.own && exit 0; \
	lock=requirements.lock; [ ! -f .venv/.development ] || lock=requirements-dev.lock; \
	[ ! -s .venv/.own ] || VIRTUAL_ENV=.venv $(UV) pip sync --quiet --compile-bytecode --require-hashes $$lock; \
	: > .venv/.own; \
	[ ! -s $(OWN) ] || { echo "installing $(OWN) ..."; VIRTUAL_ENV=.venv $(UV) pip install --quiet -r $(OWN) -c $$lock; } \
	  || { echo "$(OWN) could not be installed: repair the line, or remove it" >&2; exit 1; }; \
	cat $(OWN) 2>/dev/null > .venv/.own || true

.venv/.development: requirements-dev.lock $(UV)
	@echo "installing ..."
	@VIRTUAL_ENV=.venv $(UV) pip sync --quiet --compile-bytecode --require-hashes requirements-dev.lock
	@: > .venv/.own
	@touch $@

.venv-bench/.peers: requirements-bench.lock $(UV)
	@rm -f $@
	@echo "installing the peers of the benchmark ..."
	@[ -x .venv-bench/bin/python ] || $(UV) venv --quiet --clear --python $(BIN)/python .venv-bench
	@VIRTUAL_ENV=.venv-bench $(UV) pip sync --quiet --require-hashes requirements-bench.lock
	@touch $@
