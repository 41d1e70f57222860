"""What answers the turns of one agent: the interface that `agents` implements for the runtime."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, runtime_checkable

import msgspec

from ...core.state import Rules
from ...errors import AgentGone
from ...messages.message import Chunk, UIMessage
from .turns import TurnCall, TurnResult

__all__ = ["CanBeDestroyed", "HasStartHook", "Responder", "StoresFiles", "StreamFunction"]

StreamFunction = Callable[[TurnCall], AsyncIterator[Any]]
"""Answers a turn, like `Responder.stream`."""


class Responder(Protocol):
    """Answers the turns of one agent. Its code never runs inside the actor (R-26)."""

    @property
    def rules(self) -> Rules:
        """What this agent lays down for the core; read once, at activation."""
        ...

    def stream(self, call: TurnCall) -> AsyncIterator[str | Chunk | msgspec.Struct]:
        """Answer a turn: yield text or chunks. Ending is success; raising, or an `error` chunk, is failure."""
        ...

    def error_text(self, exc: BaseException) -> str:
        """Return what clients may read of a failure (R-29)."""
        ...

    async def on_response(self, result: TurnResult) -> None:
        """Called when a turn has ended, at least once per turn, if `rules.has_response_hook`."""
        ...


class HasStartHook(Protocol):
    """A responder that may want to know when its agent was loaded."""

    @property
    def wants_start(self) -> bool:
        """Whether there is code that is to run then: agents are loaded often, and most have none."""
        ...

    async def on_start(self) -> None: ...


@runtime_checkable
class CanBeDestroyed(Protocol):
    """A responder whose agent can be destroyed."""

    def retire(self, why: AgentGone) -> None:
        """Called when the agent was destroyed: what its code asks of the runtime from now on raises `why`."""
        ...


@runtime_checkable
class StoresFiles(Protocol):
    """A responder that may store files of an answer outside its message."""

    @property
    def may_store_files(self) -> bool:
        """Whether it may do so at all: most agents do not, and nothing is prepared then."""
        ...

    def storing_files(self, answer: UIMessage) -> AbstractAsyncContextManager[None]:
        """Store the files of an answer that is about to end; it ends inside the block, and `rules.sanitize` then
        returns the message without their contents. Must not raise."""
        ...
