"""The agent's own code at a connection."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

from everyword.server.connection_hooks import ConnectionHooks
from everyword.wire.parse import CallMethod


class Stopping:
    """An reconciler that is cancelled before what it was handed has begun."""

    def __init__(self) -> None:
        self.dropped: list[str] = []

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        work.close()
        self.dropped.append(name)


def test_a_call_that_a_shutdown_keeps_from_beginning_leaves_no_warning() -> None:
    reconciler = Stopping()
    loaded: Any = SimpleNamespace(reconciler=reconciler, actor=SimpleNamespace(agent="chat/ann"))
    nobody: Any = None
    host = ConnectionHooks(loaded, nobody, nobody, lambda frame: None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        host.call(CallMethod("c1", "double", [1]))
        gc.collect()
    assert (reconciler.dropped, [str(each.message) for each in caught]) == (["call of double of chat/ann"], [])
