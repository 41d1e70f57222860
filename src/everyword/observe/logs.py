"""Structured logs: one line per turn with its facts as `extra` fields, and a formatter for JSON lines."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from ..events import AttemptStarted, Outcome, TurnEnded
from .api import Happened, Observer

__all__ = ["FIELDS", "JsonFormatter", "PlainFormatter", "TurnLog", "configure_logging"]

log = logging.getLogger("everyword.turns")

FIELDS: Final = ("agent", "turn", "request", "attempt", "outcome")
"""The `extra` fields of log lines about a turn."""

_PLAIN: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class TurnLog(Observer):
    """Logs a line when a turn ends, and when an attempt after the first starts."""

    kinds = frozenset({"attempt.started", "turn.ended"})

    @staticmethod
    def is_wanted() -> bool:
        """Return True if logging is configured to emit the lines."""
        return log.isEnabledFor(logging.INFO)

    def happened(self, happened: Happened) -> None:
        event, facts = happened.event, happened.facts
        if isinstance(event, AttemptStarted) and event.attempt > 1:
            fields = _about(happened) | {"attempt": event.attempt, "cause": event.cause}
            values = (event.turn, happened.agent, event.attempt, event.cause)
            _write(logging.INFO, "turn %d of %r: attempt %d (%s)", values, fields)
        elif isinstance(event, TurnEnded):
            fields = _about(happened) | {"outcome": event.outcome.value, "chunks": event.chunks}
            if facts is not None:
                fields["attempt"] = facts.attempt
                if facts.accepted_at is not None:
                    fields["seconds"] = (happened.at - facts.accepted_at) / 1000
            if event.error is not None:
                fields["error"] = event.error
            level = logging.WARNING if event.outcome is Outcome.ERROR else logging.INFO
            _write(level, "turn %d of %r ended: %s", (event.turn, happened.agent, event.outcome.value), fields)


def _write(level: int, text: str, values: tuple[Any, ...], fields: dict[str, Any]) -> None:
    """Log a line like `log.log(…, extra=fields)`, but without the source location.

    Finding the source location is a third of the cost of a line, and every turn logs one.
    """
    if log.isEnabledFor(level):
        record = logging.getLogRecordFactory()(log.name, level, __file__, 0, text, values, None)
        vars(record).update(fields)
        log.handle(record)


def _about(happened: Happened) -> dict[str, Any]:
    return {"agent": happened.agent, "turn": happened.turn, "request": happened.request}


class JsonFormatter(logging.Formatter):
    """Formats each record as one JSON object: time, level, logger, message, the `extra` fields, a traceback if any."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD and value is not None}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=repr).decode()


class PlainFormatter(logging.Formatter):
    """Formats lines like the standard formatter, but formats the date once per second instead of once per line."""

    def __init__(self) -> None:
        super().__init__(_PLAIN)
        self._known = (-1, "")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - logging's own
        second = int(record.created)
        if second != self._known[0]:
            self._known = (second, time.strftime("%Y-%m-%d %H:%M:%S", self.converter(second)))
        return f"{self._known[1]},{int(record.msecs):03d}"


def configure_logging(style: str = "text", level: int = logging.INFO) -> None:
    """Configure logging for a server that runs as its own process, with the style `text` or `json`."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if style == "json" else PlainFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
