"""The public test kit: real implementations with one job each. No mocks, no sleeps.

`ManualClock` turns time by hand, `ScriptedResponder` answers turns from a script, `CrashingLog` dies at an append.
"""

from __future__ import annotations

from .clock import ManualClock
from .crash import CrashingLog
from .scripted import Gate, ScriptedResponder

__all__ = ["CrashingLog", "Gate", "ManualClock", "ScriptedResponder"]
