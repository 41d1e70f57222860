"""Turns that are accepted now and answered later, for an agent's own code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ...core.commands import Submit
from ...core.state import State
from ...core.turn_state import TurnState
from ...errors import Rejected
from ...events import to_raw
from ...ids import AgentId, RequestId
from ...principals import acting_for
from ...rows import TurnRow
from ..api import TurnRecord
from ..attachments import storing
from ..directory import Directory
from ..random_ids import random_message_id

__all__ = ["SubmissionsAccess"]

_SUBMISSION: Final = "submission"
"""The trigger of turns that were accepted for later."""


class SubmissionsAccess:
    """Turns of one agent that `submit` accepted."""

    def __init__(self, directory: Directory, agent: AgentId) -> None:
        self._directory, self._agent = directory, agent

    async def submit(self, messages: Sequence[dict[str, Any]], *, request: RequestId, body: Any = None) -> TurnRecord:
        """Accept a turn without waiting for its end; a known request id gives the turn that it has."""
        known = await self.find(request)
        if known is not None:
            return known
        command = Submit(
            request,
            random_message_id(),
            None,
            trigger=_SUBMISSION,
            trusted=True,
            body=to_raw(body),
            principal=acting_for(),
        )
        async with self._directory.attach(self._agent) as loaded:
            sender = command.principal
            async with storing(self._directory.attachments, loaded.actor.agent, messages, sender=sender) as moved:
                await loaded.actor.ask(msgspec.structs.replace(command, messages=moved))
            return await loaded.actor.inspect(lambda state: _record(state, request))

    async def find(self, request: RequestId) -> TurnRecord | None:
        row = await self._directory.store.find_turn(await self._directory.stored_ids.find(self._agent), request)
        return _record_of_row(row) if row is not None else None

    async def all(self) -> list[TurnRecord]:
        async with self._directory.attach(self._agent) as loaded:
            return await loaded.actor.inspect(_submissions)


def _submissions(state: State) -> list[TurnRecord]:
    turns = sorted([*state.ended.values(), *state.open.values()], key=lambda turn: turn.id)
    return [_record_of(turn) for turn in turns if turn.accepted.trusted and turn.accepted.trigger == _SUBMISSION]


def _record(state: State, request: RequestId) -> TurnRecord:
    turn = state.by_request(request)
    if turn is None:
        raise Rejected(f"unable to find the turn of {request!r}; it was not accepted")
    return _record_of(turn)


def _record_of(turn: TurnState) -> TurnRecord:
    status = turn.outcome.value if turn.outcome is not None else turn.status.value
    return TurnRecord(turn.id, turn.request, status, turn.error, turn.accepted_at, turn.ended_at)


def _record_of_row(row: TurnRow) -> TurnRecord:
    return TurnRecord(row.turn, row.request, row.status, row.error, row.accepted_at, row.ended_at)
