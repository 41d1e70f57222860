"""Programmatic use of one agent: `runtime.api.AgentPort` over the same mailbox that clients use. No second writer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ..core.commands import (
    Cancel,
    Clear,
    Command,
    Continue,
    PutMessages,
    Submit,
)
from ..core.state import State
from ..errors import AgentGone, AgentStopped, LogError, Rejected, UsageError
from ..events import Outcome, TurnAccepted, TurnKind, to_raw
from ..ids import (
    AgentId,
    RequestId,
    TurnId,
)
from ..messages.message import UIMessage
from ..messages.readable_parts import keep_readable_parts
from ..principals import acting_for
from ..trace_context import current_trace
from .api import Evaluate, TurnResult
from .calls import Calls
from .directory import Directory, Loaded
from .fiberdesk import FiberDesk
from .fresh import fresh_message_id, fresh_request_id
from .intake import Intake
from .jobdesk import JobDesk
from .rundesk import RunDesk
from .statedesk import StateDesk
from .storage import Storage
from .subdesk import SubDesk
from .treedesk import TreeDesk, is_asking

__all__ = ["Port"]


class Port:
    """Implements `AgentPort` for one agent of a directory. Cheap to make; holds nothing loaded between calls."""

    def __init__(self, directory: Directory, agent: AgentId) -> None:
        self._directory, self._agent = directory, agent
        self.states = StateDesk(directory, agent)

    @property
    def agent(self) -> AgentId:
        return self._directory.names.known(self._agent)

    def messages(self) -> Sequence[UIMessage]:
        loaded = self._directory.peek(self._agent)
        if loaded is None:
            raise UsageError(f"unable to read the messages of {self._agent!r}; it is not loaded. Use a handle.")
        return [keep_readable_parts(UIMessage.decode(body)) for _, body, _ in loaded.agency.shown]

    @property
    def work(self) -> JobDesk:
        return JobDesk(self._directory, self._agent)

    @property
    def storage(self) -> Storage:
        return Storage(self._directory, self._agent)

    @property
    def fibers(self) -> FiberDesk:
        return FiberDesk(self._directory, self._agent)

    async def destroy(self) -> None:
        await self._directory.destroy(self._agent)

    @property
    def runs(self) -> RunDesk:
        return RunDesk(self._directory, self._agent)

    @property
    def subs(self) -> SubDesk:
        return SubDesk(self._directory, self._agent)

    @property
    def intake(self) -> Intake:
        return Intake(self._directory, self._agent)

    @property
    def tree(self) -> TreeDesk:
        return TreeDesk(self._directory, self._agent)

    @property
    def calls(self) -> Calls:
        return Calls(lambda: self._directory)

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
            principal=acting_for(),
            trace=current_trace(),
        )
        return await self._run(command, request, messages if deferred and callable(messages) else None)

    async def continue_turn(self, *, body: Any = None) -> TurnResult | None:
        request = fresh_request_id()
        command = Continue(request, body=to_raw(body), principal=acting_for())
        try:
            return await self._run(command, request, None)
        except AgentStopped:
            raise
        except Rejected:
            return None

    async def put_messages(self, messages: Sequence[dict[str, Any]]) -> None:
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.ask(PutMessages(list(messages), principal=acting_for()))

    async def cancel(self, request: RequestId | None = None) -> None:
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.insist(Cancel(request))

    async def clear(self) -> None:
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.insist(Clear())

    async def wait_until_stable(self, patience: float | None = None) -> bool:
        try:
            async with asyncio.timeout(patience):
                await self._wait_for(lambda state: _is_idle(state) and not is_asking(state))
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
                    result = await (await loaded.actor.inspect(_ending_of(loaded, turn)))
                    loaded.agency.evaluations.pop(request, None)  # one that came too late to be called
                    return result
            except AgentGone:
                raise  # the agent of that name is another one now, and was not asked
            except (AgentStopped, LogError):
                if self._directory.is_closed:
                    raise
                await self._directory.loaded_again(self._agent)

    async def _ended(self, request: RequestId) -> TurnResult | None:
        """Return how the turn of a request id ended, however long ago; None if it has not, or is unknown."""
        store, agent = self._directory.store, await self._directory.names.find(self._agent)
        row = await store.find_turn(agent, request)
        if row is None or row.is_open:
            return None
        bodies = (place.body for place in (await store.conversation(agent))[1] if place.node == row.node)
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
            usage=msgspec.json.decode(row.usage) if row.usage is not None else None,
        )

    async def _accepted(
        self, loaded: Loaded, command: Command, request: RequestId, evaluate: Evaluate | None
    ) -> TurnId:
        if evaluate is not None:
            loaded.agency.evaluations.setdefault(request, evaluate)
        events = await loaded.actor.ask(command)
        accepted = next((event for event in events if isinstance(event, TurnAccepted)), None)
        if accepted is not None:
            return accepted.turn
        return await loaded.actor.inspect(lambda state: state.requests[request])


def _ending_of(loaded: Loaded, turn: TurnId) -> Callable[[State], asyncio.Future[TurnResult]]:
    return lambda state: loaded.agency.ending(state, turn)


def _is_idle(state: State) -> bool:
    return not any(True for _ in state.message_turns())
