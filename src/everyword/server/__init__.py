"""Agents over HTTP: an ASGI application on top of the runtime.

Read in this order: `app` (start, stop, and what a request passes through), `access` (the door), `permissions` (who may
do what), `addressing`, `http`
(what an agent answers), `streams` (what its readers are sent).
"""

from __future__ import annotations

from ..principals import Principal
from .app import Everyword
from .limits import Limits
from .loop_watchdog import LoopWatchdog
from .permissions import Action, Connecting, Reject

__all__ = ["Action", "Connecting", "Everyword", "Limits", "LoopWatchdog", "Principal", "Reject"]
