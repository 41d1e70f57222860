"""Programmatic use of one agent: `runtime.api.AgentPort` over the same mailbox that clients use. No second writer."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from ..core.commands import (
    Cancel,
    Clear,
    Command,
    Continue,
    MoveLeaf,
    PutMessages,
    SetState,
    Submit,
)
from ..core.state import State, Turn
from ..core.tree import active_path, node_of_message, shown_path, versions
from ..errors import AgentStopped, LogError, Rejected, UsageError
from ..events import Outcome, TurnAccepted, TurnKind, to_raw
from ..ids import AgentId, MessageId, NodeId, RequestId, TurnId, agent_id, split_agent_id
from ..messages.calls import open_calls
from ..messages.jsonvalues import encode_json
from ..messages.message import UIMessage
from ..rows import TurnRow
from .api import Evaluate, TurnRecord, TurnResult, VersionRecord
from .directory import Directory, Loaded
from .jobdesk import JobDesk

__all__ = ["Port", "fresh_message_id", "fresh_request_id"]

_SUBMISSION: Final = "submission"
"""The trigger of turns that were accepted for later."""


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

    def state(self) -> bytes | None:
        loaded = self._directory.peek(self._agent)
        if loaded is None:
            raise UsageError(f"unable to read the state of {self._agent!r}; it is not loaded. `await agent.load()`.")
        return loaded.agency.value

    async def set_state(self, state: Any, *, origin: str | None = None) -> None:
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.ask(SetState(Raw(encode_json(state)), origin))

    @property
    def work(self) -> JobDesk:
        return JobDesk(self._directory, self._agent)

    async def load(self) -> None:
        async with self._directory.attach(self._agent):
            return

    async def run_turn(
        self, messages: Sequence[dict[str, Any]] | Evaluate, *, body: Any = None, request: RequestId | None = None
    ) -> TurnResult:
        if request is not None and (ended := await self._ended(request)) is not None:
            return ended
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

    async def submit(self, messages: Sequence[dict[str, Any]], *, request: RequestId, body: Any = None) -> TurnRecord:
        known = await self.submission(request)
        if known is not None:
            return known
        command = Submit(request, fresh_message_id(), messages, trigger=_SUBMISSION, trusted=True, body=to_raw(body))
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.ask(command)
            return await loaded.actor.inspect(lambda state: _record(state, request))

    async def submission(self, request: RequestId) -> TurnRecord | None:
        row = await self._directory.store.find_turn(self._agent, request)
        return _record_of_row(row) if row is not None else None

    async def submissions(self) -> list[TurnRecord]:
        async with self._directory.attach(self._agent) as loaded:
            return await loaded.actor.inspect(_submissions)

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

    async def versions(self, message: MessageId) -> list[VersionRecord]:
        async with self._directory.attach(self._agent) as loaded:
            return await loaded.actor.inspect(lambda state: _versions(state, message))

    async def show(self, node: NodeId) -> None:
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.ask(MoveLeaf(node))

    async def fork(self, message: MessageId, name: str) -> Port:
        other = Port(self._directory, agent_id(split_agent_id(self._agent)[0], name))
        async with self._directory.attach(self._agent) as loaded:
            path = await loaded.actor.inspect(lambda state: _path_to(state, message))
        async with self._directory.attach(other.agent) as loaded:
            if await loaded.actor.inspect(lambda state: bool(state.nodes)):
                raise Rejected(f"unable to fork into {other.agent!r}; it has messages already. Choose another name.")
            await loaded.actor.ask(PutMessages(path, cause="forked"))
        return other

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

    async def _ended(self, request: RequestId) -> TurnResult | None:
        """Return how the turn of a request id ended, however long ago; None if it has not, or is unknown."""
        store, agent = self._directory.store, self._agent
        row = await store.find_turn(agent, request)
        if row is None or row.is_open:
            return None
        bodies = (place.body for place in await store.messages(agent) if place.node == row.node)
        body = next(bodies, None)
        return TurnResult(
            agent=agent,
            turn=row.turn,
            request=row.request,
            outcome=Outcome(row.status),
            error=row.error,
            message=UIMessage.decode(body) if body is not None else None,
            is_continuation=row.kind is TurnKind.CONTINUATION,
            reason=row.reason,
        )

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


def _versions(state: State, message: MessageId) -> list[VersionRecord]:
    node = node_of_message(state, message)
    if node is None:
        return []
    shown = set(active_path(state))
    places = [(each, state.nodes[each].shown) for each in versions(state, node)]
    return [VersionRecord(each, UIMessage.decode(body), each in shown) for each, body in places if body is not None]


def _path_to(state: State, message: MessageId) -> list[dict[str, Any]]:
    node = node_of_message(state, message)
    if node is None:
        raise Rejected(f"unable to fork at message {message!r}; there is no such message")
    if state.nodes[node].body is None or any(turn.node == node for turn in state.chat_turns()):
        raise Rejected(f"unable to fork at message {message!r}; it is still being written. Wait for the turn's end.")
    return [msgspec.json.decode(place.body) for _, place in shown_path(state, node) if place.body is not None]


def _submissions(state: State) -> list[TurnRecord]:
    turns = sorted([*state.ended.values(), *state.open.values()], key=lambda turn: turn.id)
    return [_record_of(turn) for turn in turns if turn.accepted.trusted and turn.accepted.trigger == _SUBMISSION]


def _record(state: State, request: RequestId) -> TurnRecord:
    turn = state.by_request(request)
    if turn is None:
        raise Rejected(f"unable to find the turn of {request!r}; it was not accepted")
    return _record_of(turn)


def _record_of(turn: Turn) -> TurnRecord:
    status = turn.outcome.value if turn.outcome is not None else turn.status.value
    return TurnRecord(turn.id, turn.request, status, turn.error, turn.accepted_at, turn.ended_at)


def _record_of_row(row: TurnRow) -> TurnRecord:
    return TurnRecord(row.turn, row.request, row.status, row.error, row.accepted_at, row.ended_at)
