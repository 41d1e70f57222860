"""The public test kit: real implementations with one job each. No mocks, no sleeps.

`ScriptedModel` answers from a script, `LocalServer` runs an app without sockets and can be killed, `ManualClock`
advances only when a test says so, and `assert_parity` runs a conversation with a cut and a crash at every place. `Gate`
makes an answer wait, `CrashingLog` crashes at an append, `ScriptedResponder` replaces an agent in tests of the runtime.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..extras import missing
from .clock import ManualClock
from .crashing_log import CrashingLog
from .model_script import Call, Once, Reasoning
from .scripted_responder import Gate, ScriptedResponder

if TYPE_CHECKING:
    from .actions import Approve, Ask, AskAndStop, Deny, Edit, Give, InAnotherTab, Meanwhile, Regenerate, StopAnswer
    from .local_server import LocalServer
    from .parity import Parity, assert_parity
    from .scripted_model import ScriptedModel

__all__ = [
    "Approve",
    "Ask",
    "AskAndStop",
    "Call",
    "CrashingLog",
    "Deny",
    "Edit",
    "Gate",
    "Give",
    "InAnotherTab",
    "LocalServer",
    "ManualClock",
    "Meanwhile",
    "Once",
    "Parity",
    "Reasoning",
    "Regenerate",
    "ScriptedModel",
    "ScriptedResponder",
    "StopAnswer",
    "assert_parity",
]

# Imported on first use, because they need the client, the server, or Pydantic AI.
_LAZY = {
    **dict.fromkeys(("Approve", "Ask", "AskAndStop", "Deny", "Edit", "Give"), "actions"),
    **dict.fromkeys(("InAnotherTab", "Meanwhile", "Regenerate", "StopAnswer"), "actions"),
    **dict.fromkeys(("Parity", "assert_parity"), "parity"),
    "LocalServer": "local_server",
    "ScriptedModel": "scripted_model",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    except ModuleNotFoundError as exc:
        if exc.name != "httpx":
            raise
        raise missing("httpx", "client", f"use everyword.testing.{name}") from None
