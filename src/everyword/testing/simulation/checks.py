"""Checks at the end of a simulation, when nothing runs any more."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from ...core.continuations import continuation_is_due
from ...core.state import State
from ...core.wanted import wanted
from ...errors import LogCorrupt
from ...events import TurnAccepted, TurnEnded, decode_event
from ...ids import AgentId, Seq
from ...runtime.rebuild import Projections, fold_log, stored_rows
from .answers import PAY
from .tabs import SimulatedTab
from .world import World

__all__ = ["check_chunks_fit", "check_endings", "check_log", "check_log_readers", "check_tabs"]

JsonObject = dict[str, Any]


async def check_log(world: World) -> None:
    """Check that every turn ended once, the rows match the log, hooks heard every end, no effect was doubled."""
    for name in world.agents:
        agent = AgentId(name)
        try:
            state, rebuilt, _ = await fold_log(world.kept, agent)
        except LogCorrupt as exc:
            world.report_problem("rebuild", str(exc))
            continue
        await _check_rows(world, agent, state, rebuilt)
        await _check_endings(world, agent, state)
        _check_hooks(world, agent, rebuilt)
        _check_results(world, agent, rebuilt)
    for key, times in world.effects.items():
        if times > 1 and key.startswith(f"{PAY} "):
            world.report_problem("effects", f"{key} was done {times} times")
    if not world.disturbances and len(world.server_runs) == 1:
        for key, times in world.effects.items():
            if times > 1:
                world.report_problem("effects", f"{key} was done {times} times without a crash")


async def check_endings(world: World) -> None:
    """Check that every turn ended once."""
    for name in world.agents:
        state, _, _ = await fold_log(world.kept, AgentId(name))
        await _check_endings(world, AgentId(name), state)


async def _check_rows(world: World, agent: AgentId, state: State, rebuilt: Projections) -> None:
    stored = await stored_rows(world.kept, agent)
    for was, ought in zip(stored.rows(), rebuilt.rows(), strict=False):
        if was != ought:
            world.report_problem("rebuild", f"{agent}: the store has {was}, the log says {ought}")
    if len(stored.rows()) != len(rebuilt.rows()):
        world.report_problem("rebuild", f"{agent}: {len(stored.rows())} rows stored, {len(rebuilt.rows())} in the log")
    wakes = dict(await world.kept.due(world.clock.now()))
    wake = wanted(state, world.clock.now()).wake
    if wakes.get(agent) != wake:
        world.report_problem("rebuild", f"{agent}: it is to be woken at {wakes.get(agent)}, the log says {wake}")


async def _check_endings(world: World, agent: AgentId, state: State) -> None:
    events = [decode_event(stored.body) for stored in await world.kept.read(agent, Seq(0), 1_000_000)]
    ends = Counter(event.turn for event in events if isinstance(event, TurnEnded))
    for event in events:
        if not isinstance(event, TurnAccepted):
            continue
        waiting = state.open.get(event.turn)
        waits = waiting is not None and waiting.is_continuation and not continuation_is_due(state, waiting)
        if ends[event.turn] != (0 if waits else 1):
            world.report_problem("endings", f"{agent}: turn {event.turn} ({event.request}) has {ends[event.turn]} ends")


def _check_hooks(world: World, agent: AgentId, rows: Projections) -> None:
    is_undisturbed = not world.disturbances and len(world.server_runs) == 1
    for turn, row in rows.turns.items():
        if row.is_open or row.status == "skipped" or not row.kind.is_chat:
            continue
        times = world.told[agent, turn]
        if times == 0 or (times > 1 and is_undisturbed):
            world.report_problem("hooks", f"{agent}: turn {turn} ({row.request}) was told of {times} times")


def _check_results(world: World, agent: AgentId, rows: Projections) -> None:
    for result in world.server_code.results if world.server_code is not None else ():
        row = rows.turns.get(result.turn)
        if result.agent == agent and (row is None or (result.outcome.value, result.error) != (row.status, row.error)):
            world.report_problem("told", f"the server was told {result}, stored is {row}")


async def check_log_readers(world: World) -> None:
    """Check that log readers read everything once, in order; pruned events may be missing."""
    for reader in world.log_readers:
        stored = {stored.seq for stored in await world.kept.read(AgentId(reader.agent), Seq(0), 1_000_000)}
        if reader.seen != sorted(set(reader.seen)):
            world.report_problem("log_readers", f"a reader of {reader.agent} was shown {reader.seen}")
        if missed := stored - set(reader.seen):
            world.report_problem("log_readers", f"a reader of {reader.agent} was never shown {sorted(missed)}")


async def check_tabs(world: World, tabs: list[SimulatedTab]) -> None:
    """Check that every tab shows the stored messages and received the stored ends of its turns.

    A tab that cleared has its own check name ("cleared"): frames that were in flight then belong to the old messages.
    """
    for tab in tabs:
        state, rows, _ = await fold_log(world.kept, AgentId(tab.agent))
        stored = [msgspec.json.decode(place.shown) for _, place in state.tree.shown_path() if place.shown is not None]
        shown, ought = (
            [_compared_fields(message) for message in tab.protocol.messages],
            [_compared_fields(each) for each in stored],
        )
        if world.rules.max_persisted_messages is not None:
            shown = shown[len(shown) - len(ought) :]  # what the cap removed stays on screens
        if shown != ought:
            check = "cleared" if tab.has_cleared else "transcript"
            world.report_problem(check, f"{tab.name} shows\n    {_lines(shown)}\n  stored is\n    {_lines(ought)}")
        _check_told(world, tab, {row.request: row for row in rows.turns.values()}, state.generation)


def check_chunks_fit(world: World) -> None:
    """Check that every chunk that a tab received fits to the chunks before it."""
    for tab in world.tabs:
        for what in tab.unfit_chunks:
            world.report_problem("cleared" if tab.has_cleared else "fold", f"{tab.name}: {what}")


def _check_told(world: World, tab: SimulatedTab, rows: dict[Any, Any], generation: int) -> None:
    for request, frames in tab.terminals.items():
        row = rows.get(request)
        if row is None:
            continue  # refused: it never became a turn
        for frame in frames:
            error = frame["body"] if frame.get("error") else None
            if (frame["outcome"], error) != (row.status, row.error):
                world.report_problem(
                    "told", f"{tab.name} was told {frame}, but {request} is {row.status} ({row.error})"
                )
    for request in tab.asked:
        if request not in tab.terminals:
            row = rows.get(request)
            how = (
                "was never accepted"
                if row is None
                else f"is {row.status} ({row.reason}){' before a clear' * (row.generation != generation)}"
            )
            world.report_problem("untold", f"{tab.name} asked {request} and never heard that it {how}")


def _compared_fields(message: JsonObject) -> JsonObject:
    return {key: message.get(key) for key in ("id", "role", "parts")}


def _lines(messages: list[JsonObject]) -> str:
    return "\n    ".join(msgspec.json.encode(message).decode() for message in messages) or "nothing"
