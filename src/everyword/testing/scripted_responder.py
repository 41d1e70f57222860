"""A responder that answers from a script, with gates that the test opens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from ..core.state import Rules
from ..errors import public_text
from ..messages.message import Chunk
from ..runtime.api import TurnCall, TurnResult

__all__ = ["Gate", "Item", "ScriptedResponder"]


class Gate:
    """A point in a script where the answer waits until the test opens it; `reached` is set when it waits."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self._opened = asyncio.Event()

    def open(self) -> None:
        self._opened.set()

    async def wait(self) -> None:
        self.reached.set()
        await self._opened.wait()


Item = str | Chunk | msgspec.Struct | Gate | Exception
Script = Sequence[Item]


class ScriptedResponder:
    """Implements `runtime.api.Responder`. `script` is the answer to every turn, or a function from the call to one.

    Strings and chunks are yielded, a `Gate` is waited for, an exception is raised. `calls` and `results` record the
    calls and results of its turns.
    """

    def __init__(
        self,
        script: Script | Callable[[TurnCall], Script],
        *,
        rules: Rules | None = None,
        on_response: Callable[[TurnResult], Awaitable[None]] | None = None,
    ) -> None:
        self.calls: list[TurnCall] = []
        self.results: list[TurnResult] = []
        self._script, self._on_response = script, on_response
        self._rules = rules if rules is not None else Rules()

    @property
    def rules(self) -> Rules:
        """The given rules; the response hook is on when there is one."""
        return replace(self._rules, has_response_hook=True) if self._on_response is not None else self._rules

    async def stream(self, call: TurnCall) -> AsyncIterator[str | Chunk | msgspec.Struct]:
        """Play the script."""
        self.calls.append(call)
        for item in self._script(call) if callable(self._script) else self._script:
            if isinstance(item, Gate):
                await item.wait()
            elif isinstance(item, Exception):
                raise item
            else:
                yield item

    def error_text(self, exc: BaseException) -> str:
        """Return the text of errors that are meant for clients, and a general text for all others."""
        return public_text(exc, "The answer failed.")

    async def on_response(self, result: TurnResult) -> None:
        """Record the result, and call the test's own hook."""
        self.results.append(result)
        if self._on_response is not None:
            await self._on_response(result)

    def __call__(self, agent: Any) -> ScriptedResponder:
        """Be the responder of every agent: `Directory(store, responder)`."""
        return self
