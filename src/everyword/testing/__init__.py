"""The public test kit: real implementations with one job each. No mocks, no sleeps.

`ScriptedModel` says what the test wants, `LocalServer` runs an app without sockets and can be killed, `ManualClock`
turns time by hand, and `assert_parity` plays a conversation with every cut and every death. `Gate` makes an answer
wait, `CrashingLog` dies at an append, `ScriptedResponder` stands for an agent where there is only the runtime.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..extras import missing
from .clock import ManualClock
from .crash import CrashingLog
from .script import Call, Once, Reasoning
from .scripted import Gate, ScriptedResponder

if TYPE_CHECKING:
    from .acts import Approve, Ask, AskAndStop, Deny, Edit, Give, InAnotherTab, Meanwhile, Regenerate, StopAnswer
    from .local import LocalServer
    from .model import ScriptedModel
    from .parity import Parity, assert_parity

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

# Loaded when they are asked for: they need the client, the server, or Pydantic AI.
_LAZY = {
    **dict.fromkeys(("Approve", "Ask", "AskAndStop", "Deny", "Edit", "Give"), "acts"),
    **dict.fromkeys(("InAnotherTab", "Meanwhile", "Regenerate", "StopAnswer"), "acts"),
    **dict.fromkeys(("Parity", "assert_parity"), "parity"),
    "LocalServer": "local",
    "ScriptedModel": "model",
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
