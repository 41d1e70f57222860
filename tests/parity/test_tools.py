"""Turns with tools, people, data, sources and files look the same to every observer, wherever it was cut off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from everyword.log.memory import MemoryLog
from everyword.messages.server_fields import SERVER_FIELDS
from tests.agents.bases import BASES, answering
from tests.parity.kit import Client, Server, clients, serving
from tests.parity.tooling import GATES, SCENARIOS, Chat, Gates, Scenario

COUNTED = ("model", "usage", "steps", "finishReason")
"""What of a message's metadata is the base class's own."""


class Play:
    """One conversation in which a scenario is played, gate by gate, with a person who answers."""

    def __init__(self, server: Server, name: str, scenario: str) -> None:
        self.server, self.name, self.scenario = server, name, scenario
        self.gates = GATES[name] = Gates()
        self._is_answered = self.plan.answer is None

    @property
    def plan(self) -> Scenario:
        return SCENARIOS[self.scenario]

    def client(self, **how: bool) -> Client:
        return Client(self.server, self.name, **how)

    async def to(self, gate: int, gates: int, asker: Client) -> None:
        """Let the first `gate` gates be passed, and wait until the answer stands at the next, if there is one."""
        for passed in range(1, gate + 1):
            await self.gates.open(1)
            if passed < gates:
                await self.answer_if_asked(asker, passed)
                await self.gates.reached(passed + 1)
        await asker.settled()

    async def answer_if_asked(self, asker: Client, passed: int) -> None:
        """Answer when the scenario says so: mid-stream as soon as the question is there, else when the turn ended."""
        if self._is_answered or (self.plan.when == "after" and passed < len(self.plan.first)):
            return
        if self.plan.when == "after":
            await asker.ended("r1")
        elif passed <= (2 if self.plan.when == "mid" else len(self.plan.first)):
            return
        await self.answer(asker)

    async def answer(self, asker: Client) -> None:
        if not self._is_answered and self.plan.answer is not None:
            self._is_answered = True
            await asker.until(lambda me: any(map(is_waiting, calls_of(me.shown))))
            await asker.send(**self.plan.answer)

    async def finish(self, asker: Client) -> None:
        """Let everything go on, and wait until nothing is open."""
        if self.plan.when == "after":
            await self.gates.free()
            if not self._is_answered:
                await asker.ended("r1")
        else:
            await self.gates.open(len(self.plan.first))
        await self.answer(asker)
        await asker.settled()
        await self.gates.free()
        assert await self.server.app.get(self.server.agent, self.name).wait_until_stable(20.0)


def calls_of(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part for message in messages for part in message["parts"] if "toolCallId" in part]


def is_waiting(part: dict[str, Any]) -> bool:
    is_ours = part["type"] in ("tool-work", "tool-refund", "tool-fail")
    return part["state"] == "approval-requested" or (part["state"] == "input-available" and not is_ours)


def outline(messages: list[dict[str, Any]]) -> list[Any]:
    """Return what must not be missing or doubled in the middle of a turn; answered approvals are not replayed (R-2)."""
    parts = [part for message in messages for part in message["parts"]]
    return [(part["type"], part.get("text", part.get("toolCallId", part.get("data")))) for part in parts]


def transients(client: Client) -> list[Any]:
    """Return the transient data that a client was sent."""
    chunks = [json.loads(f["body"]) for f in client.frames if f.get("body") and not f["done"] and not f.get("error")]
    return [chunk["data"] for chunk in chunks if chunk.get("transient")]


async def count_gates(server: Server, scenario: str) -> int:
    """Play the scenario undisturbed and count the points at which it can be cut."""
    play = Play(server, f"{scenario}-whole", scenario)
    asker = play.client()
    async with clients(asker):
        await asker.ask("r1", scenario, [])
        await play.finish(asker)
    return play.gates.stood


@pytest.mark.parametrize(
    ("base", "scenario"),
    [(name, scenario) for name, base in BASES.items() for scenario in SCENARIOS if SCENARIOS[scenario].is_for(base)],
)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.obligation(
    "001-Q4", "000-9.1", "003-33", "003-34", "003-36", "003-37", "003-38", "003-41", "003-44", "003-56"
)
async def test_every_observer_of_a_turn_with_more_than_text_ends_with_what_is_stored(
    kind: str, base: str, scenario: str, tmp_path: Path
) -> None:
    """P-14."""
    store: Any = MemoryLog() if kind == "memory" else str(tmp_path / "log.db")
    GATES.clear()
    async with serving(store, answering(base, Chat)) as server:
        gates = await count_gates(server, scenario)
        cuts = range(gates + 1) if kind == "memory" else range(0, gates + 1, 3)
        for cut in cuts:
            await observe(Play(server, f"{scenario}-{cut}", scenario), cut, gates)
    assert gates >= len(SCENARIOS[scenario].first) + len(SCENARIOS[scenario].then)


async def observe(play: Play, cut: int, gates: int) -> None:
    """Let eight observers see a scenario, some of them cut off at a gate, and expect that all show what is stored."""
    asker, tab, during, after, away = (play.client() for _ in range(5))
    deaf, late = play.client(acknowledges=False), play.client(acknowledges=False)
    async with clients(asker, tab, during, after, away):
        await away.drop()
        await asker.ask("r1", play.scenario, [])
        await play.gates.reached(1)
        await play.to(cut, gates, asker)
        for client in (tab, during, after):
            await client.settled()
        await during.drop()
        await after.drop()
        for client in (during, deaf, late):
            await client.connect()
            await client.settled()
            await client.settled()  # the server has taken its acknowledgement, too
        for client in (tab, during):  # also in the middle: nothing is missing, nothing is there twice
            await client.until(lambda me: outline(me.shown) == outline(asker.shown))
        if play.scenario == "data" and not cut:  # the stream is offered with its first chunk: acknowledge it in time
            await play.to(1, gates, asker)
            await during.settled()
            await during.settled()
        await play.finish(asker)
        await late.settled()
        await late.acknowledge_late()
        await after.connect()
        await away.connect()
        first = await play.client().connect()
        stored = await play.server.stored(play.name)
        check_stored(play, stored)
        seeing = {"asker": asker, "tab": tab, "during": during, "deaf": deaf, "late": late}
        seeing |= {"after": after, "away": away, "first": first}
        for who, client in seeing.items():
            await client.settled()
            assert client.shown == stored, f"{who}, cut at {cut}: {client.shown}\nstored: {stored}"
            # A client that does not acknowledge gets a continuation of another client from its middle.
            assert client.protocol.problems == [] or who in ("deaf", "late")
        check_transients(play, cut, seeing)
        for client in (deaf, late, first):
            await client.drop()


def check_stored(play: Play, stored: list[dict[str, Any]]) -> None:
    """The scenario was played once, whichever clients came and went."""
    (question, answer) = stored
    said = [item for item in [*play.plan.first, *play.plan.then] if isinstance(item, str)]
    text = "".join(part["text"] for part in answer["parts"] if part["type"] == "text")
    assert text == "".join(said)
    assert tuple(part["state"] for part in calls_of(stored)) == play.plan.states
    assert not any(part.get("preliminary") for part in calls_of(stored))
    assert question["role"] == "user"
    if play.scenario == "data":
        data = [part for part in answer["parts"] if part["type"].startswith("data-")]
        assert [(part["type"], part["data"]) for part in data] == [
            *(("data-chart", {"bars": 2}), ("data-step", "half"), ("data-step", "more"))
        ]
    if play.scenario == "everything":
        kinds = [part["type"] for part in answer["parts"]]
        assert kinds == ["step-start", "reasoning", "text", "source-url", "file", "text", "source-document"]
        metadata = {key: value for key, value in answer["metadata"].items() if key not in {*COUNTED, SERVER_FIELDS}}
        assert metadata == {"voice": "v", "cost": {"in": 1, "out": 2}, "total": 3}


def check_transients(play: Play, cut: int, seeing: dict[str, Client]) -> None:
    """A live client gets transient data once; a returning one gets that of the open turn again; later ones get none."""
    if play.scenario != "data":
        return
    said = [item["data"] for item in play.plan.first if isinstance(item, dict) and item.get("transient")]
    before = sum(isinstance(item, dict) and bool(item.get("transient")) for item in play.plan.first[:cut])
    assert transients(seeing["asker"]) == transients(seeing["tab"]) == said
    if cut == len(play.plan.first):
        return  # the turn may have ended before a client came back
    heard = transients(seeing["during"])
    # A returning client is offered a stream twice, on connecting and for its probe, and each offer allows a replay.
    assert heard in ([*said[:before], *said], [*said[:before], *said[:before], *said])
    for who in ("away", "first"):
        assert transients(seeing[who]) == [], who
    assert transients(seeing["after"]) == said[:before]
