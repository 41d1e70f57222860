"""The process dies at every append of turns with tools, and nothing is done twice that must not be.

What a tool did is counted outside the log, as the world counts it. A call that may not be repeated is made at most
once, and if nobody knows its result the model is told so; one that may be repeated is made again under the same key.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from everyword.core.commands import AnswerToolCall
from everyword.events import CallAnswered, CallStarted, Outcome, TurnAccepted, TurnEnded, TurnKind
from everyword.ids import CallId, RequestId
from everyword.log.base import LogStore
from everyword.log.memory import MemoryLog
from everyword.log.sqlite.store import SqliteLog
from everyword.messages.message import Part, UIMessage
from everyword.messages.repair_tool_calls import INTERRUPTED
from everyword.messages.tool_calls import ApprovalAnswer, OutputAnswer, tool_parts
from tests.agents.bases import BASES
from tests.crash.clerk import CALLS, Clerk, Effects, clerk_process, family, verdict, was_made
from tests.crash.proofs import check_log, check_projections, of_kind, read_all
from tests.crash.world import Crash, Person, Step, World, bodies, play
from tests.runtime.kit import AGENT

ONCE = ["k-send", "k-ship", "k-both-1", "k-where-2", "k-refund", "k-early", "k-twice"]
"""Calls that must not be made twice."""
AGAIN = ["k-look", "k-brew", "k-both-2", "k-early-2"]
"""Calls that may be made again, and always come to a result."""


async def refund(person: Person) -> None:
    await person.ask("refund")
    await person.answer("k-refund", ApprovalAnswer(True), "refund-more")
    await person.over("refund-more")


async def refuse(person: Person) -> None:
    await person.ask("refuse")
    await person.answer("k-refuse", ApprovalAnswer(False, "too much"), "refuse-more")
    await person.over("refuse-more")


async def early(person: Person) -> None:
    """Approve while the answer that asks still streams."""
    await person.submit("early")
    await person.until(lambda: person.world.said("early", b"tool-approval-request"))
    await person.answer("k-early", ApprovalAnswer(True), "early-more")
    person.world.hold("early").set()
    await person.over("early", "early-more")


async def twice(person: Person) -> None:
    """Approve in two tabs at once: each knows only its own continuation."""
    await person.ask("twice")
    call = CallId(person.world.asked_for("k-twice"))
    answers = [AnswerToolCall(call, ApprovalAnswer(True), RequestId(f"twice-more-{tab}")) for tab in (1, 2)]
    await asyncio.gather(*(person._actor.ask(answer) for answer in answers))
    await person.until(lambda: person.world.has(CallAnswered, call))
    person.world.clock.advance(0.05)
    await person.until(lambda: any(map(person.world.is_over, ("twice-more-1", "twice-more-2"))))


async def where(person: Person) -> None:
    await person.ask("where")
    await person.answer("k-where", OutputAnswer("Oslo"), "where-more")
    await person.over("where-more")


def asks(*questions: str) -> list[Step]:
    return [lambda person, question=question: person.ask(question) for question in questions]


SCENES: dict[str, tuple[list[Step], list[str]]] = {
    # what is done, and which questions are answered then
    "one call": (asks("send", "look"), ["send", "look"]),
    "progress": (asks("ship", "brew"), ["ship", "brew"]),
    "two calls": (asks("both"), ["both"]),
    "approvals": ([refund, refuse], ["refund", "refuse"]),
    "early": ([early], ["early"]),
    "twice": ([twice], ["twice"]),
    "the page": ([where], ["where"]),
    "by hand": ([lambda person: person.ask("hand", "by hand")], ["hand"]),
}
SCRIPT: Sequence[Step] = [step for steps, _ in SCENES.values() for step in steps]
"""All of it, one after the other."""
ASKED = [question for _, questions in SCENES.values() for question in questions]

APPENDS = {
    "AIChatAgent": {
        "one call": 24,
        "progress": 28,
        "two calls": 15,
        "approvals": 32,
        "early": 19,
        "twice": 17,
        "the page": 18,
        "by hand": 9,
    },
    "Think": {
        "one call": 40,
        "progress": 44,
        "two calls": 25,
        "approvals": 48,
        "early": 29,
        "twice": 25,
        "the page": 28,
        "by hand": 9,
    },
}
"""How many appends a scene makes undisturbed, by base class. Changes only with the script, or on purpose."""
EVERYTHING = {base: sum(APPENDS[base].values()) for base in BASES}
"""How many all of them make, played as one."""


async def look_at(store: LogStore) -> None:
    check_log(await read_all(store, AGENT))
    await check_projections(store, AGENT)


async def play_tools(
    base: str, store: Callable[[], LogStore], crashes: list[Crash], script: Sequence[Step] = SCRIPT
) -> tuple[World, dict[str, UIMessage]]:
    """Play the script; return the world and the answers that are left in the end, by question."""
    Clerk.world, Clerk.effects, Clerk.told = World(), Effects(), []
    await play(Clerk.world, store, crashes, look_at, script=script, process=clerk_process(base))
    kept = store()
    await kept.open()
    log = await read_all(kept, AGENT)
    await look_at(kept)
    messages = [UIMessage.decode(row.body) for row in (await kept.conversation(AGENT))[1] if row.body is not None]
    await kept.aclose()
    assert bodies(Clerk.world) == [(stored.seq, stored.body) for stored in log]
    ends = Counter(event.turn for event in of_kind(log, TurnEnded))
    assert ends == Counter(event.turn for event in of_kind(log, TurnAccepted))
    check_ends(of_kind(log, TurnEnded), of_kind(log, TurnAccepted))
    check_started(of_kind(log, CallStarted))
    return Clerk.world, {m.id.removeprefix("a-"): m for m in messages if m.role == "assistant"}


def check_ends(ended: list[TurnEnded], accepted: list[TurnAccepted]) -> None:
    """Every turn completes; a continuation may find that an attempt before it has done its work."""
    continuations = {event.turn for event in accepted if event.kind is TurnKind.CONTINUATION}
    for event in ended:
        if event.outcome is not Outcome.COMPLETED:
            assert (event.outcome, event.reason) == (Outcome.SKIPPED, "already-answered"), event
            assert event.turn in continuations


def check_started(started: list[CallStarted]) -> None:
    """Every effect stands in the log as a call that started, and nothing started more often in one attempt."""
    recorded = Counter(event.call for event in started)
    for key, times in Clerk.effects.by_key.items():
        assert times <= recorded[CallId(key.rpartition("/")[2])], f"{key} was done and not recorded"
    assert all(n == 1 for n in Counter((event.turn, event.attempt, event.call) for event in started).values())


def calls_of(answers: dict[str, UIMessage]) -> dict[str, Part]:
    """Return the calls by what they were first called; one that was cut off in its input counts for nothing."""
    parts = [part for message in answers.values() for part in tool_parts(message)]
    for part in parts:
        if not was_made(part):
            assert (part["state"], part["errorText"]) == ("output-error", INTERRUPTED), part
            assert Clerk.effects.by_key[part["toolCallId"]] == 0
    return {family(part["toolCallId"]): part for part in parts if was_made(part)}


def check_answers(answers: dict[str, UIMessage], asked: list[str]) -> None:
    """What was done, what is shown of it and what the model said about it agree."""
    calls, effects = calls_of(answers), Clerk.effects
    expected = {call for question in asked if question != "hand" for call, _, _ in CALLS[question]}
    assert expected <= set(calls) and set(answers) == set(asked)
    for call in expected & set(ONCE):
        part, times = calls[call], effects.count(call)
        assert times <= 1, f"{call} was done {times} times"
        if part["state"] == "output-available":
            assert times == 1 and not part.get("preliminary")
        else:
            assert (part["state"], part["errorText"]) == ("output-error", INTERRUPTED), part
    for call in expected & set(AGAIN):
        assert calls[call]["state"] == "output-available" and not calls[call].get("preliminary"), calls[call]
        assert effects.count(call) >= 1 and len(effects.keys(call)) == 1
    if "k-refuse" in expected:
        assert (calls["k-refuse"]["state"], effects.count("k-refuse")) == ("output-denied", 0)
    if "k-where" in expected:
        assert (calls["k-where"]["state"], calls["k-where"].get("output")) == ("output-available", "Oslo")
    for question in set(asked) - {"hand"}:
        parts = list(tool_parts(answers[question]))
        assert answers[question].text == "".join(["One moment. ", *map(verdict, parts)]), question
    assert all(part["state"].startswith("output-") for message in Clerk.told for part in tool_parts(message))
    if "hand" in asked:
        check_by_hand(answers["hand"], calls["a-hand-1"])


def check_by_hand(answer: UIMessage, part: Part) -> None:
    assert Clerk.effects.count("a-hand-1") <= 1
    sent = "sent to dan" if part["state"] == "output-available" else INTERRUPTED
    assert answer.text == f"{sent}; looked at moon"


def interrupted(answers: dict[str, UIMessage]) -> set[str]:
    return {call for call, part in calls_of(answers).items() if part["state"] == "output-error"}


@pytest.mark.parametrize("base", BASES)
async def test_undisturbed_every_call_is_made_once_and_answered(base: str) -> None:
    counted = dict[str, int]()
    for scene, (script, asked) in SCENES.items():
        store = MemoryLog()
        world, answers = await play_tools(base, lambda: store, [], script)  # noqa: B023
        check_answers(answers, asked)
        assert interrupted(answers) == set()
        assert set(Clerk.effects.by_key.values()) <= {1}
        counted[scene] = world.appends[0]
    assert counted == APPENDS[base]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("base", BASES)
async def test_dying_at_any_append_of_a_tool_turn_does_nothing_twice(base: str, scene: str, when: Any) -> None:
    cut_off = set[str]()
    script, asked = SCENES[scene]
    for at in range(1, APPENDS[base][scene] + 1):
        store = MemoryLog()
        world, answers = await play_tools(base, lambda: store, [Crash(at, when)], script)  # noqa: B023
        assert world.processes == 2, f"append {at} was never reached"
        check_answers(answers, asked)
        assert len(interrupted(answers)) <= 1, "one death interrupts one call"
        cut_off |= interrupted(answers)
    assert cut_off <= {*ONCE, "a-hand-1"}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("base", BASES)
async def test_dying_twice_in_a_long_conversation_does_nothing_twice(base: str, seed: int) -> None:
    chance = random.Random(f"{base} {seed}")
    for _ in range(6):
        first, second = chance.randint(1, EVERYTHING[base] - 10), chance.choice([1, 2, 3, chance.randint(4, 10)])
        crashes = [Crash(at, chance.choice(("before", "after"))) for at in (first, second)]  # type: ignore[arg-type]
        store = MemoryLog()
        world, answers = await play_tools(base, lambda: store, crashes)  # noqa: B023
        assert world.processes == 3, f"{crashes} did not all happen"
        check_answers(answers, ASKED)


@pytest.mark.parametrize("base", BASES)
async def test_dying_over_a_file_does_nothing_twice(base: str, tmp_path: Path) -> None:
    # Two of the script's commits may become one where a disk takes its time: the last points may not be reached.
    for at in range(3 if base == "Think" else 14, EVERYTHING[base] - 10, 31):
        path = tmp_path / f"{at}.db"
        crash = Crash(at, "before" if at % 2 else "after")
        world, answers = await play_tools(base, lambda: SqliteLog(path), [crash])  # noqa: B023
        assert world.processes == 2, f"append {at} was never reached"
        check_answers(answers, ASKED)
