"""The current trace, as a W3C `traceparent` string, which is stored with the run of a sub-agent.

The tracing integration sets a function that finds the current trace; without one there is no trace.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

__all__ = ["current_trace", "run_in_trace", "trace_with"]

_current: ContextVar[Callable[[], str | None] | None] = ContextVar("everyword_trace", default=None)


def current_trace() -> str | None:
    """Return the `traceparent` of the current span; None without tracing."""
    find = _current.get()
    return find() if find is not None else None


def trace_with(find: Callable[[], str | None]) -> None:
    """Set the function that finds the current trace, for the rest of this task and the tasks that it starts."""
    _current.set(find)


def run_in_trace(traceparent: str | None) -> None:
    """Set a stored trace, or none, for the rest of this task."""
    _current.set(lambda: traceparent)
