"""Logs go to the console, one line a record; `LOG_FORMAT=json` for machines."""

import json
import logging
from datetime import UTC, datetime
from typing import Any

from loops.masking import known
from loops.printable.text import printable

STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "request"}


class Line(logging.Formatter):
    """Time, level, logger, message, then what the caller attached with `extra=`."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record as text, without known secrets; only a traceback takes more than one line."""
        return known().text(self._line(record))

    def _line(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        message = record.getMessage().replace("\n", "\\n")
        extra = "".join(f" {key}={value!r}" for key, value in extras(record).items())
        line = printable(f"{at} {record.levelname.lower()} {record.name}: {message}{extra}")
        return f"{line}\n{printable(self.formatException(record.exc_info))}" if record.exc_info else line


class Json(logging.Formatter):
    """The same as one JSON object, traceback included."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one record as JSON."""
        entry: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **extras(record),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return known().text(json.dumps(entry, default=str))


def extras(record: logging.LogRecord) -> dict[str, Any]:
    """What the caller attached to a record."""
    return {key: value for key, value in vars(record).items() if key not in STANDARD}


def logging_config(*, level: str, as_json: bool) -> dict[str, Any]:
    """Configure the standard library's logging for every process alike."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": "agentops.logs.Json" if as_json else "agentops.logs.Line"}},
        "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["console"], "level": level},
        "loggers": {
            "django": {"handlers": [], "propagate": True},  # its own handlers would only mail
            "django.request": {"level": "ERROR"},  # a 404 is no news
            "axes": {"level": "ERROR"},  # the audit log has it
            "celery": {"level": "WARNING"},
            "daphne": {"level": "WARNING"},
            "httpx2": {"level": "WARNING"},
        },
    }
