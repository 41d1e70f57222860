"""Watching a server from outside: an event hook, structured logs, OpenTelemetry spans, Prometheus metrics.

All of it is fed by what was committed, or stands around an agent's own code; none of it is on the way of a chunk unless
it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .api import EventHook, Happened, LoopBlocked, Observer
from .logs import JsonFormatter

if TYPE_CHECKING:
    from .metrics import Metrics
    from .tracing import Tracing

__all__ = ["EventHook", "Happened", "JsonFormatter", "LoopBlocked", "Metrics", "Observer", "Tracing"]

# Loaded when they are asked for: what they need is an extra.
_LAZY = {"Metrics": "metrics", "Tracing": "tracing"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_LAZY[name]}", __name__), name)
