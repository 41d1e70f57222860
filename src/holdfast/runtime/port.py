"""Programmatic use of one agent: `runtime.api.AgentPort` over the same mailbox that clients use. No second writer."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from ..core.commands import Cancel, Clear, Command, Continue, PutMessages, Submit
from ..core.state import State
from ..core.tree import shown_path
from ..errors import AgentStopped, LogError, Rejected, UsageError
from ..events import TurnAccepted, to_raw
from ..ids import AgentId, MessageId, RequestId, TurnId
from ..messages.calls import open_calls
from ..messages.message import UIMessage
from .api import Evaluate, TurnResult
from .directory import Directory, Loaded

__all__ = ["Port", "fresh_message_id", "fresh_request_id"]


def fresh_request_id() -> RequestId:
    """Return an id for a turn that we start ourselves."""
    return RequestId(secrets.token_urlsafe(16))


def fresh_message_id() -> MessageId:
    """Return an id for a message of ours."""
    return MessageId(f"assistant_{secrets.token_urlsafe(12)}")


class Port:
    """Implements `AgentPort` for one agent of a directory. Cheap to make; holds nothing loaded between calls."""

    def __init__(self, directory: Directory, agent: AgentId) -> None:
        self._directory, self._agent = directory, agent

    @property
    def agent(self) -> AgentId:
        return self._agent

    def messages(self) -> Sequence[UIMessage]:
        loaded = self._directory.peek(self._agent)
        if loaded is None:
            raise UsageError(f"unable to read the messages of {self._agent!r}; it is not loaded. `await agent.load()`.")
        return [UIMessage.decode(body) for _, body, _ in loaded.agency.shown]

    async def load(self) -> None:
        async with self._directory.attach(self._agent):
            return

    async def run_turn(
        self, messages: Sequence[dict[str, Any]] | Evaluate, *, body: Any = None, request: RequestId | None = None
    ) -> TurnResult:
        request = request if request is not None else fresh_request_id()
        deferred = callable(messages)
        command = Submit(
            request,
            fresh_message_id(),
            None if callable(messages) else messages,
            trusted=True,
            body=to_raw(body),
        )
        return await self._run(command, request, messages if deferred and callable(messages) else None)

    async def continue_turn(self, *, body: Any = None) -> TurnResult | None:
        request = fresh_request_id()
        command = Continue(request, body=to_raw(body))
        try:
            return await self._run(command, request, None)
        except AgentStopped:
            raise
        except Rejected:
            return None

    async def put_messages(self, messages: Sequence[dict[str, Any]]) -> None:
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.ask(PutMessages(list(messages)))

    async def cancel(self, request: RequestId | None = None) -> None:
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.insist(Cancel(request))

    async def clear(self) -> None:
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.insist(Clear())

    async def has_pending_interaction(self) -> bool:
        async with self._directory.attach(self._agent) as loaded:
            return await loaded.actor.inspect(_is_asked)

    async def wait_until_stable(self, patience: float | None = None) -> bool:
        try:
            async with asyncio.timeout(patience):
                await self._wait_for(lambda state: _is_idle(state) and not _is_asked(state))
        except TimeoutError:
            return False
        return True

    async def wait_until_idle(self) -> None:
        await self._wait_for(_is_idle)

    async def _wait_for(self, fact: Callable[[State], bool]) -> None:
        async with self._directory.attach(self._agent) as loaded, loaded.subscribe() as subscription:
            while not await loaded.actor.inspect(fact):
                await subscription.next()

    async def _run(self, command: Command, request: RequestId, evaluate: Evaluate | None) -> TurnResult:
        """Post the command, then wait for the end of its turn, across failures of the store."""
        while True:
            try:
                async with self._directory.attach(self._agent) as loaded:
                    turn = await self._accepted(loaded, command, request, evaluate)
                    return await (await loaded.actor.inspect(_ending_of(loaded, turn)))
            except (AgentStopped, LogError):
                if self._directory.is_stopping:
                    raise
                await self._directory.loaded_again(self._agent)

    async def _accepted(
        self, loaded: Loaded, command: Command, request: RequestId, evaluate: Evaluate | None
    ) -> TurnId:
        if evaluate is not None:
            loaded.agency.evaluations[request] = evaluate
        events = await loaded.actor.ask(command)
        accepted = next((event for event in events if isinstance(event, TurnAccepted)), None)
        if accepted is not None:
            return accepted.turn
        return await loaded.actor.inspect(lambda state: state.requests[request])


def _ending_of(loaded: Loaded, turn: TurnId) -> Callable[[State], asyncio.Future[TurnResult]]:
    return lambda state: loaded.agency.ending(state, turn)


def _is_asked(state: State) -> bool:
    return any(open_calls(UIMessage.decode(node.shown)) for _, node in shown_path(state)[-1:] if node.shown is not None)


def _is_idle(state: State) -> bool:
    return not any(True for _ in state.chat_turns())
