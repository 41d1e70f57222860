"""Observability: an event hook, structured logs, an audit trail, OpenTelemetry spans and Prometheus metrics.

Observers get committed events, after the commit, or wrap an agent's own code. No chunk passes through them unless an
observer asks for chunks.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .api import AccessDecision, EventHook, Happened, LoopBlocked, Observer
from .audit import Audit, AuditSink
from .audit_records import AuditRecord, Who
from .logs import JsonFormatter

if TYPE_CHECKING:
    from .metrics import Metrics
    from .tracing import Tracing

__all__ = ["AccessDecision", "Audit", "AuditRecord", "AuditSink", "EventHook", "Happened", "JsonFormatter"]
__all__ += ["LoopBlocked", "Metrics", "Observer", "Tracing", "Who"]

# Imported on first use: they need optional dependencies.
_LAZY = {"Metrics": "metrics", "Tracing": "tracing"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_LAZY[name]}", __name__), name)
