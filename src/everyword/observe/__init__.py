"""Observability: an event hook, structured logs, OpenTelemetry spans and Prometheus metrics.

Observers get committed events, after the commit, or wrap an agent's own code. No chunk passes through them unless an
observer asks for chunks.
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

# Imported on first use: they need optional dependencies.
_LAZY = {"Metrics": "metrics", "Tracing": "tracing"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_LAZY[name]}", __name__), name)
