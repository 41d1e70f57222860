"""What must be true when the dust has settled, whatever was killed when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from everyword.core.continuations import continuation_is_due
from everyword.core.state import State
from everyword.events import Chunk, TurnAccepted, TurnEnded, decode_event
from everyword.ids import AgentId
from everyword.log.base import Stored
from everyword.log.sqlite.store import SqliteLog
from everyword.runtime.rebuild import Projections, fold_log, rebuild
from tests.chaos.agents import IDEMPOTENT
from tests.chaos.crowd import Memory, Tab
from tests.chaos.serving import EFFECTS, LOG, STORE
from tests.crash.proofs import check_log, check_projections, read_all

__all__ = ["Findings", "prove"]


class Findings:
    """What is wrong, and what was counted."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.counts: Counter[str] = Counter()

    def blame(self, sentence: str) -> None:
        self.problems.append(sentence)


async def prove(folder: Path, tabs: list[Tab], memories: Iterable[Memory]) -> Findings:
    """Read what the processes stored, and compare it with what all clients were shown."""
    findings = Findings()
    effects, hooks = _notes(folder, "effect"), _notes(folder, "hook")
    _check_effects(findings, effects)
    _check_complaints(findings, folder / LOG)
    store = SqliteLog(folder / STORE)
    await store.open()
    try:
        for agent in sorted({tab.agent for tab in tabs}):
            mine = [tab for tab in tabs if tab.agent == agent]
            state = await _check_agent(findings, store, AgentId(agent), mine, hooks)
            _check_results(findings, agent, state, {key for _, key in effects})
        for agent_id in await store.agents():
            changes = (await rebuild(store, agent_id, 0)).changes  # type: ignore[arg-type]
            if changes:
                findings.blame(f"{agent_id}: rebuilding changed {', '.join(changes)}")
    finally:
        await store.aclose()
    for memory in [*(tab.memory for tab in tabs), *memories]:
        for problem in memory.problems:
            findings.blame(problem)
    return findings


async def _check_agent(findings: Findings, store: SqliteLog, agent: AgentId, tabs: list[Tab], hooks: Any) -> State:
    log = await read_all(store, agent)
    check_log(log)
    await check_projections(store, agent)
    state, rows, events = await fold_log(store, agent)
    findings.counts.update(events=events, turns=len(rows.turns))
    _check_ends(findings, agent, log, state)
    _check_hooks(findings, agent, rows, hooks)
    chunks = _chunks(log, rows)
    for tab in tabs:
        _check_told(findings, tab, rows)
        _check_words(findings, tab, chunks)
        _check_view(findings, tab, state)
    return state


def _check_ends(findings: Findings, agent: AgentId, log: list[Stored], state: State) -> None:
    """Every turn that was accepted has one end; only a continuation that still waits for an answer has none."""
    decoded = [decode_event(stored.body) for stored in log]
    ends = Counter(event.turn for event in decoded if isinstance(event, TurnEnded))
    for event in decoded:
        if not isinstance(event, TurnAccepted):
            continue
        waiting = state.open.get(event.turn)
        is_due = waiting is None or not waiting.is_continuation or continuation_is_due(state, waiting)
        if ends[event.turn] != (1 if is_due else 0):
            findings.blame(f"{agent}: turn {event.turn} ({event.request}) has {ends[event.turn]} ends")
    outcomes = Counter(
        event.reason if event.reason == "attempts-exhausted" else event.outcome.value
        for event in decoded
        if isinstance(event, TurnEnded)
    )
    findings.counts.update(outcomes)


def _check_hooks(findings: Findings, agent: AgentId, rows: Projections, hooks: list[list[str]]) -> None:
    told = {request: status for _, request, status in hooks}
    for row in rows.turns.values():
        is_heard_of = not row.is_open and row.status != "skipped" and row.kind.is_chat
        if is_heard_of and told.get(row.request) != row.status:
            findings.blame(
                f"{agent}: the hook was told {told.get(row.request)} of {row.request}, which is {row.status}"
            )


def _chunks(log: list[Stored], rows: Projections) -> dict[tuple[str, int], str]:
    requests = {turn: row.request for turn, row in rows.turns.items()}
    found = [event for stored in log if isinstance(event := decode_event(stored.body), Chunk)]
    return {(requests[event.turn], event.index): bytes(event.body).decode() for event in found}


def _check_words(findings: Findings, tab: Tab, chunks: dict[tuple[str, int], str]) -> None:
    """Every word that was shown live is in the log, to the byte, where it was said."""
    lost = [place for place, body in tab.words.items() if chunks.get(place) != body]
    findings.counts.update(words=len(tab.words), lost=len(lost))
    for place in lost[:3]:
        findings.blame(f"{tab.name} saw {tab.words[place]} at {place}; the log has {chunks.get(place)}")


def _check_told(findings: Findings, tab: Tab, rows: Projections) -> None:
    """What a page asked was accepted, has ended, and ended as the page was told."""
    by_request = {row.request: row for row in rows.turns.values()}
    for request in tab.asked:
        row = by_request.get(request)  # type: ignore[call-overload]
        if row is None:
            findings.blame(f"{tab.name} asked {request}, and nobody knows of it")
        elif request not in tab.protocol.endings:
            findings.blame(f"{tab.name} never heard how {request} ended: {row.status}")
    for request, frames in tab.terminals.items():
        row = by_request.get(request)  # type: ignore[call-overload]
        for frame in frames:
            error = frame["body"] if frame.get("error") else None
            if row is None or (frame["outcome"], error) != (row.status, row.error):
                findings.blame(f"{tab.name} was told {frame}, and {request} is {row}")


def _check_view(findings: Findings, tab: Tab, state: State) -> None:
    stored = [msgspec.json.decode(place.shown) for _, place in state.tree.shown_path() if place.shown is not None]
    ought, shown = [_essence(each) for each in stored], [_essence(each) for each in tab.protocol.messages]
    findings.counts["messages"] += len(shown)
    if shown != ought:
        findings.blame(f"{tab.name} shows {_differing(shown, ought)}")
    if tab.protocol.problems:
        findings.blame(f"{tab.name}: {tab.protocol.problems[:3]}")
    everything = {node.id for node in state.tree.nodes.values()}
    if gone := set(tab.memory.texts) - everything:
        findings.blame(f"{tab.name} was shown {gone}, which is not stored")


def _essence(message: dict[str, Any]) -> dict[str, Any]:
    return {key: message.get(key) for key in ("id", "role", "parts")}


def _differing(shown: list[Any], ought: list[Any]) -> str:
    for place, (here, there) in enumerate(zip(shown, ought, strict=False)):
        if here != there:
            return f"at {place}\n    {here}\n  stored is\n    {there}"
    return f"{len(shown)} messages, stored are {len(ought)}: {shown[len(ought) :]} {ought[len(shown) :]}"


def _check_effects(findings: Findings, effects: list[list[str]]) -> None:
    times = Counter((tool, key) for tool, key in effects)
    findings.counts["effects"] += len(effects)
    for (tool, key), count in times.items():
        if tool not in IDEMPOTENT and count > 1:
            findings.blame(f"{tool} was done {count} times for {key}")


def _check_results(findings: Findings, agent: str, state: State, effects: set[str]) -> None:
    """A call of our own tools that has a result was done."""
    for node in state.tree.nodes.values():
        message = msgspec.json.decode(node.shown) if node.shown is not None else {"parts": []}
        for part in message["parts"]:
            is_done = part.get("state") == "output-available" and part["type"] != "tool-where"
            if is_done and f"{agent}/{message['id']}/{part['toolCallId']}" not in effects:
                findings.blame(f"{agent}: {part} has a result and no effect")
            findings.counts["results"] += is_done


def _check_complaints(findings: Findings, path: Path) -> None:
    """The server had nothing to complain about of itself."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for line in lines:
        if line.startswith(("ERROR", "CRITICAL")):
            findings.blame(f"the server wrote: {line}")


def _notes(folder: Path, kind: str) -> list[list[str]]:
    path = folder / EFFECTS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [words[1:] for line in lines if (words := line.split()) and words[0] == kind]
