"""Calls approved at any moment, with a process that dies at every append: they run once, and their output is stored.

A call may be approved while its message is the last, while a question waits behind it, while the next answer streams,
or after that. What the model reads with the next question is what became of the call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everyword.core.commands import AnswerToolCall
from everyword.events import AttemptStarted, CallAnswered, CallStarted, Outcome, TurnAccepted, TurnEnded, TurnKind
from everyword.ids import CallId, RequestId
from everyword.log.base import LogStore
from everyword.log.memory import MemoryLog
from everyword.log.sqlite.store import SqliteLog
from everyword.messages.message import Part, UIMessage
from everyword.messages.repair_tool_calls import INTERRUPTED
from everyword.messages.tool_calls import ApprovalAnswer, tool_parts
from tests.agents.bases import BASES
from tests.crash.clerk import Clerk, Effects, clerk_process, family, was_made
from tests.crash.proofs import check_log, check_projections, of_kind, read_all
from tests.crash.world import Crash, Person, Step, World, bodies, play
from tests.runtime.kit import AGENT

YES = ApprovalAnswer(True)


async def after(person: Person) -> None:
    """Approve when the next question has been answered."""
    await person.ask("late")
    await person.ask("talk")
    await person.answer("k-late", YES, "late-more")
    await person.until(lambda: person.world.has(TurnEnded, "late-more"))
    await person.ask("next")


async def at_once(person: Person) -> None:
    """Ask the next question right behind the approval, and before the continuation begins."""
    await person.ask("soon")
    await approve(person, "k-soon", "soon-more")
    await person.submit("next")
    person.world.clock.advance(50)
    await person.over("next")


async def halves(person: Person) -> None:
    """Approve one of two calls before the next question and the other one after it."""
    await person.ask("halves")
    await person.answer("k-half-1", YES, "half-1-more")
    await person.ask("talk")
    await person.answer("k-half-2", YES, "half-2-more")
    await person.until(lambda: person.world.has(TurnEnded, "half-2-more"))
    await person.ask("next")


async def queued(person: Person) -> None:
    """Approve while the answer streams and a question waits behind it."""
    await person.submit("queued")
    await person.until(lambda: person.world.said("queued", b"tool-approval-request"))
    await person.submit("next")
    await person.answer("k-queued", YES, "queued-more")
    person.world.hold("early").set()
    await person.over("queued", "next")
    await person.until(lambda: person.world.has(TurnEnded, "queued-more"))


async def beside(person: Person) -> None:
    """Approve while the next answer streams, and ask again before it has ended."""
    await person.ask("beside")
    await person.submit("long")
    await person.until(lambda: person.world.said("long", b"tool-input-available"))
    await person.answer("k-beside", YES, "beside-more")
    await person.until(lambda: person.world.has(TurnEnded, "beside-more"))
    await person.submit("next")
    person.world.hold("early").set()
    await person.over("long", "next")


async def approve(person: Person, call: str, continuation: str) -> None:
    """Approve a call, and let no time pass."""
    call = person.world.asked_for(call)
    await person._actor.ask(AnswerToolCall(CallId(call), YES, RequestId(continuation)))
    await person.until(lambda: person.world.has(CallAnswered, call))


SCENES: dict[str, tuple[Step, list[str], int]] = {
    # what is done, which calls are made, and how many of them run as a turn of their own
    "after": (after, ["k-late"], 1),
    "at once": (at_once, ["k-soon"], 0),
    "halves": (halves, ["k-half-1", "k-half-2"], 2),
    "queued": (queued, ["k-queued"], 0),
    "beside": (beside, ["k-beside"], 1),
}

APPENDS = {
    "AIChatAgent": {"after": 24, "at once": 23, "halves": 29, "queued": 25, "beside": 30},
    "Think": {"after": 35, "at once": 34, "halves": 42, "queued": 38, "beside": 46},
}
"""How many appends a scene makes undisturbed, by base class. Changes only with the script, or on purpose."""


async def look_at(store: LogStore) -> None:
    check_log(await read_all(store, AGENT))
    await check_projections(store, AGENT)


async def play_scene(base: str, scene: str, store: Callable[[], LogStore], *crashes: Crash) -> World:
    """Play a scene and check what is left: every call ran at most once, and every client has its result."""
    step, calls, late = SCENES[scene]
    Clerk.world, Clerk.effects, Clerk.told, Clerk.read = World(), Effects(), [], {}
    await play(Clerk.world, store, list(crashes), look_at, script=[step], process=clerk_process(base))
    kept = store()
    await kept.open()
    log = await read_all(kept, AGENT)
    await look_at(kept)
    messages = [UIMessage.decode(row.body) for row in (await kept.conversation(AGENT))[1] if row.body is not None]
    await kept.aclose()
    assert bodies(Clerk.world) == [(stored.seq, stored.body) for stored in log]
    check_turns(of_kind(log, TurnAccepted), of_kind(log, TurnEnded), late if not crashes else None)
    started = Counter(event.call for event in of_kind(log, CallStarted))
    found = calls_of(messages)
    for call in calls:
        check_call(call, found[call], started[CallId(found[call]["toolCallId"])])
    assert_in_order(messages)
    return Clerk.world


def check_turns(accepted: list[TurnAccepted], ended: list[TurnEnded], late: int | None) -> None:
    """Every turn ended well. A model that died before its second call asks for that later: then others may be late."""
    assert Counter(event.turn for event in ended) == Counter(event.turn for event in accepted)
    assert late in (None, sum(event.kind is TurnKind.CALLS for event in accepted))
    continuations = {event.turn for event in accepted if event.kind is TurnKind.CONTINUATION}
    for event in ended:
        if event.outcome is not Outcome.COMPLETED:
            assert (event.outcome, event.turn in continuations) == (Outcome.SKIPPED, True), event


def calls_of(messages: list[UIMessage]) -> dict[str, Part]:
    parts = [part for message in messages for part in tool_parts(message)]
    return {family(part["toolCallId"]): part for part in parts if was_made(part)}


def check_call(call: str, part: Part, started: int) -> None:
    """The call ran at most once; its message says what became of it, and so the model read with the next question."""
    times = Clerk.effects.count(call)
    assert times <= started == 1, f"{call} was done {times} times and started {started} times"
    if part["state"] == "output-available":
        assert times == 1
    else:
        assert (part["state"], part["errorText"]) == ("output-error", INTERRUPTED), part
    if was_approved_before_next(part["toolCallId"]):
        assert Clerk.read["next"][part["toolCallId"]] == part["state"]


def was_approved_before_next(call: str) -> bool:
    """Tell whether the call was approved before the last question was tried: always, unless the process died early."""
    events = [event for _, event in Clerk.world.seen]
    (asked,) = (event.turn for event in events if isinstance(event, TurnAccepted) and event.request == "next")
    begun = next(at for at, e in enumerate(events) if isinstance(e, AttemptStarted) and e.turn == asked)
    approved = next(at for at, e in enumerate(events) if isinstance(e, CallAnswered) and e.call == call)
    assert approved < begun or Clerk.world.processes > 1
    return approved < begun


def assert_in_order(messages: list[UIMessage]) -> None:
    """Nothing was moved: questions and answers alternate, and the last answer is that to the last question."""
    roles = [message.role for message in messages]
    assert roles == ["user", "assistant"] * (len(roles) // 2)
    assert messages[-2].text == "next"


@pytest.mark.parametrize("base", BASES)
async def test_undisturbed_every_approved_call_runs_once(base: str) -> None:
    counted = dict[str, int]()
    for scene, (_, calls, _) in SCENES.items():
        store = MemoryLog()
        world = await play_scene(base, scene, lambda: store)  # noqa: B023
        assert [Clerk.effects.count(call) for call in calls] == [1] * len(calls)
        counted[scene] = world.appends[0]
    assert counted == APPENDS[base]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("base", BASES)
async def test_dying_at_any_append_runs_an_approved_call_at_most_once(base: str, scene: str, when: Any) -> None:
    for at in range(1, APPENDS[base][scene] + 1):
        store = MemoryLog()
        world = await play_scene(base, scene, lambda: store, Crash(at, when))  # noqa: B023
        assert world.processes == 2, f"append {at} was never reached"


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("base", BASES)
async def test_dying_over_a_file_runs_an_approved_call_at_most_once(base: str, scene: str, tmp_path: Path) -> None:
    # Two of the scene's commits may become one where a disk takes its time: the last points may not be reached.
    for at in range(3, APPENDS[base][scene] - 5, 7):
        path = tmp_path / f"{at}.db"
        world = await play_scene(base, scene, lambda: SqliteLog(path), Crash(at, "before" if at % 2 else "after"))  # noqa: B023
        assert world.processes == 2, f"append {at} was never reached"
