"""Agents over HTTP: an ASGI application on top of the runtime.

Read in this order: `app` (start, stop, and what a request passes through), `access` (the door), `addressing`, `http`
(what an agent answers), `streams` (what its readers are sent).
"""

from __future__ import annotations

from .access import Connecting, Principal, Reject
from .app import Everyword
from .limits import Limits
from .loop_watchdog import LoopWatchdog

__all__ = ["Connecting", "Everyword", "Limits", "LoopWatchdog", "Principal", "Reject"]
