"""Logs go to the console, one line a record; `LOG_FORMAT=json` for machines."""

from typing import Any

import structlog


def logging_config(*, level: str, as_json: bool) -> dict[str, Any]:
    """Configure the standard library's logging; libraries and our own code come out alike."""
    render: list[Any] = (
        [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer()]
        if as_json
        else [structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0)]
    )
    shared = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        _without_request,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": shared,
                "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
            },
        },
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["console"], "level": level},
        "loggers": {
            "django.server": {"level": "WARNING"},
            "django.request": {"level": "ERROR"},  # 404s are not news
            "celery": {"level": "WARNING"},
            "daphne": {"level": "WARNING"},
            "httpx2": {"level": "WARNING"},
        },
    }


def _without_request(logger: Any, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Django attaches the whole request to its records; the message already names it."""
    event.pop("request", None)
    return event
