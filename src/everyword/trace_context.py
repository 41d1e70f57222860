"""The trace that code runs in, as W3C `traceparent` text: stored with what is asked of a sub-agent.

Whoever traces says how the current one is found; without that there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

__all__ = ["current_trace", "run_in_trace", "trace_with"]

_current: ContextVar[Callable[[], str | None] | None] = ContextVar("everyword_trace", default=None)


def current_trace() -> str | None:
    """Return the `traceparent` of the span that is current; None when nobody traces."""
    find = _current.get()
    return find() if find is not None else None


def trace_with(find: Callable[[], str | None]) -> None:
    """Let the rest of this task find its trace like this; tasks that it starts inherit it."""
    _current.set(find)


def run_in_trace(traceparent: str | None) -> None:
    """Let the rest of this task belong to a trace that was stored, or to none."""
    _current.set(lambda: traceparent)
