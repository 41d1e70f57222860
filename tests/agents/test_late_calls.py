"""An approval given at any moment runs its call once; over both base classes, every policy and every order (R-3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from everyword.agents import SaveMessagesResult
from everyword.agents.tools import ToolContext, tool
from everyword.core.commands import AnswerToolCall, Policy, Submit
from everyword.core.state import State
from everyword.events import TurnAccepted, TurnEnded, TurnKind, decode_event
from everyword.ids import CallId, MessageId, RequestId, Seq
from everyword.log.memory import MemoryLog
from everyword.messages.message import Part, UIMessage
from everyword.messages.repair_tool_calls import INTERRUPTED, NOT_ANSWERED, STOPPED
from everyword.messages.tool_calls import ApprovalAnswer, OutputAnswer, find_call, tool_parts
from tests.agents.bases import BASES, Asked, answering
from tests.agents.kit import AGENT, Served, dying, served
from tests.agents.think.kit import Script, call, thinker
from tests.agents.think.test_toolsets import shop
from tests.runtime.kit import soon
from tests.timeouts import PATIENCE

YES, NO = ApprovalAnswer(True), ApprovalAnswer(False, "too much")
POLICIES = ["queue", "latest", "merge", "drop", "debounce", "steer"]


class Bank:
    """Calls `refund` for each number in a question, and notes what the model reads of all calls so far."""

    effects: ClassVar[list[str]]
    read: ClassVar[dict[str, list[str]]]
    hold: ClassVar[asyncio.Event]
    ends: ClassVar[list[SaveMessagesResult]]

    async def reply(self, asked: Asked) -> AsyncIterator[Any]:
        calls = list(tool_parts(asked.answer)) if asked.answer is not None else []
        if asked.answer is None:
            parts = [part for message in asked.messages for part in tool_parts(message)]
            Bank.read[asked.question] = [str(part.get("output") or part.get("errorText")) for part in parts]
        if asked.question.startswith("refund") and not calls:
            for amount in asked.question.split()[1:]:
                given: dict[str, Any] = {"toolName": "refund", "input": {"amount": int(amount)}}
                if amount == "0":
                    given = {"toolName": "linger", "input": {}}
                if amount == "777":
                    given["toolName"] = "rebate"
                yield {"type": "tool-input-available", "toolCallId": f"c{amount}", **given}
        elif asked.question.startswith("slow") and asked.answer is None:
            yield "Slow… "
            await Bank.hold.wait()
            yield "done."
        else:
            yield f"[{asked.question}]"

    @tool
    async def linger(self) -> str:
        await Bank.hold.wait()
        return "stayed"

    @tool(needs_approval=True)
    async def refund(self, amount: int, context: ToolContext) -> AsyncIterator[str]:
        yield "on its way"
        Bank.effects.append(f"refund {amount}")
        if amount == 666:
            raise RuntimeError("secret")
        if amount == 999:
            await context.cancelled.wait()
        yield f"refunded {amount}"

    @tool(needs_approval=True, idempotent=True)
    async def rebate(self, amount: int) -> AsyncIterator[str]:
        yield "on its way"
        Bank.effects.append(f"rebate {amount}")
        await Bank.hold.wait()
        yield f"sent back {amount}"

    async def on_chat_response(self, result: SaveMessagesResult) -> None:
        Bank.ends.append(result)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Bank.effects, Bank.read, Bank.hold, Bank.ends = [], {}, asyncio.Event(), []


class Client:
    """Asks and answers as a client does, and waits for facts."""

    def __init__(self, serving: Served, policy: str = "queue") -> None:
        self.serving, self.policy = serving, policy

    async def ask(self, number: int, text: str) -> None:
        message = {"id": f"u{number}", "role": "user", "parts": [{"type": "text", "text": text}]}
        request, answer = RequestId(f"r{number}"), MessageId(f"a{number}")
        policy = Policy(self.policy if number > 1 else "queue")  # type: ignore[arg-type]
        await self._tell(Submit(request, answer, [message], policy=policy))

    async def answer(self, call: str, answer: ApprovalAnswer | OutputAnswer = YES, **more: Any) -> None:
        await self._tell(AnswerToolCall(CallId(call), answer, RequestId(f"more-{call}"), **more))

    async def _tell(self, command: Any) -> None:
        async with self.serving.directory.attach(AGENT) as loaded:
            await loaded.actor.ask(command)

    async def until(self, fact: Any) -> None:
        async with asyncio.timeout(PATIENCE), self.serving.directory.attach(AGENT) as loaded:
            async with loaded.subscribe() as subscription:
                while not await loaded.actor.inspect(fact):
                    await subscription.next()

    async def idle(self) -> None:
        """Wait until nothing runs or is due; time passes."""
        async with asyncio.timeout(PATIENCE):
            waiting = asyncio.create_task(self.serving.agent._runtime.wait_until_idle())
            while not waiting.done():
                self.serving.clock.advance(100)
                await asyncio.sleep(0)
            await waiting

    @property
    def shown(self) -> list[str]:
        return [message.id for message in self.serving.agent.messages]

    def part(self, call: str) -> Part:
        return next(part for message in self.serving.agent.messages if (part := find_call(message, call)) is not None)


def begun(turn: int) -> Any:
    return lambda state: any(each.id == turn and each.chunks > 0 for each in state.open.values())


def no_chat(state: State) -> bool:
    return not any(state.chat_turns())


def has_output(call: str) -> Any:
    def look(state: State) -> bool:
        bodies = [
            place.body for place in state.tree.nodes.values() if place.body is not None and place.role == "assistant"
        ]
        parts = [part for body in bodies if (part := find_call(UIMessage.decode(body), call)) is not None]
        return [part["state"] for part in parts] == ["output-available"]

    return look


async def kinds(store: MemoryLog) -> list[tuple[str, str]]:
    """Return (kind, outcome) of every turn, in order of acceptance."""
    events = [decode_event(stored.body) for stored in await store.read(AGENT, Seq(0), 10_000)]
    ends = {event.turn: event.outcome.value for event in events if isinstance(event, TurnEnded)}
    return [(event.kind.value, ends[event.turn]) for event in events if isinstance(event, TurnAccepted)]


# -- the orders of an approval and a second question -------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("base", BASES)
async def test_a_question_right_behind_an_approval_waits_for_the_continuation(base: str, policy: str) -> None:
    store = MemoryLog()
    async with served(answering(base, Bank), store) as serving:
        client = Client(serving, policy)
        await client.ask(1, "refund 200")
        await client.until(no_chat)
        await client.answer("c200")
        await client.ask(2, "and now")
        await client.idle()
        assert (client.part("c200")["output"], Bank.effects) == ("refunded 200", ["refund 200"])
        is_dropped = policy == "drop"
        assert client.shown == (["u1", "a1"] if is_dropped else ["u1", "a1", "u2", "a2"])
        assert Bank.read.get("and now") == (None if is_dropped else ["refunded 200"])
        assert serving.agent.messages[1].text == "[refund 200]", "the answer went on"


@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy != "drop"])
@pytest.mark.parametrize("base", BASES)
async def test_an_approval_behind_a_question_that_waits_goes_on_before_it(base: str, policy: str) -> None:
    async with served(answering(base, Bank)) as serving:
        client = Client(serving, policy)
        await client.ask(1, "refund 200 0")
        await client.until(lambda state: has_call(state, "c200"))
        await client.ask(2, "second")
        await client.answer("c200")
        Bank.hold.set()
        await client.idle()
        assert (client.part("c200")["output"], Bank.effects) == ("refunded 200", ["refund 200"])
        assert Bank.read["second"] == ["refunded 200", "stayed"]
        assert client.shown == ["u1", "a1", "u2", "a2"]
        assert serving.agent.messages[1].text == "[refund 200 0]", "the answer went on"


def has_call(state: State, call: str) -> bool:
    folds = [turn.fold.message() for turn in state.chat_turns() if turn.fold is not None]
    stored = [UIMessage.decode(place.body) for place in state.tree.nodes.values() if place.body is not None]
    parts = [part for message in [*folds, *stored] if (part := find_call(message, call)) is not None]
    return any(part["state"] == "approval-requested" for part in parts)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("base", BASES)
async def test_an_approval_while_the_next_answer_streams_runs_beside_it(base: str, policy: str) -> None:
    store = MemoryLog()
    async with served(answering(base, Bank), store) as serving:
        client = Client(serving, policy)
        await client.ask(1, "refund 200")
        await client.until(no_chat)
        await client.ask(2, "slow two")
        serving.clock.advance(1_000)
        await client.until(begun(2))
        await client.answer("c200")
        await client.until(has_output("c200"))
        assert serving.agent.messages[-1].id == "u2", "the second answer still streams"
        await client.ask(3, "and now") if policy != "drop" else None
        Bank.hold.set()
        await client.idle()
        assert Bank.effects == ["refund 200"]
        assert client.part("c200")["output"] == "refunded 200" and not client.part("c200").get("preliminary")
        assert client.shown[:4] == ["u1", "a1", "u2", "a2"]
        assert Bank.read["slow two"] == [NOT_ANSWERED]
        assert policy == "drop" or Bank.read["and now"] == ["refunded 200"]
        assert ("calls", "completed") in await kinds(store)


@pytest.mark.parametrize("base", BASES)
async def test_an_approval_after_the_next_answer_puts_the_output_into_the_old_message(base: str) -> None:
    async with served(answering(base, Bank)) as serving:
        client = Client(serving)
        await client.ask(1, "refund 200")
        await client.until(no_chat)
        await client.ask(2, "second")
        await client.until(no_chat)
        before = [message.to_dict() for message in serving.agent.messages]
        await client.answer("c200")
        await client.idle()
        after = [message.to_dict() for message in serving.agent.messages]
        assert (client.part("c200")["output"], Bank.effects) == ("refunded 200", ["refund 200"])
        assert client.part("c200")["approval"] == {"id": "approve-c200", "approved": True}
        assert [m["id"] for m in after] == ["u1", "a1", "u2", "a2"]
        assert [after[at] for at in (0, 2, 3)] == [before[at] for at in (0, 2, 3)]
        assert [part["type"] for part in after[1]["parts"]] == [part["type"] for part in before[1]["parts"]]
        await client.ask(3, "and now")
        await client.idle()
        assert Bank.read["and now"] == ["refunded 200"]
        assert [end.message.id for end in Bank.ends if end.message is not None] == ["a1", "a2", "a3"]


@pytest.mark.parametrize("base", BASES)
async def test_a_question_right_behind_a_late_approval_reads_its_output(base: str) -> None:
    async with served(answering(base, Bank)) as serving:
        client = Client(serving)
        await client.ask(1, "refund 200")
        await client.until(no_chat)
        await client.ask(2, "second")
        await client.until(no_chat)
        await client.answer("c200")
        await client.ask(3, "and now")
        await client.idle()
        assert (Bank.read["and now"], Bank.effects) == (["refunded 200"], ["refund 200"])


@pytest.mark.parametrize("base", BASES)
async def test_of_two_calls_each_runs_when_it_is_approved(base: str) -> None:
    async with served(answering(base, Bank)) as serving:
        client = Client(serving)
        await client.ask(1, "refund 200 300")
        await client.until(no_chat)
        await client.answer("c200")
        await client.ask(2, "second")
        await client.idle()
        assert (Bank.read["second"], Bank.effects) == (["refunded 200", NOT_ANSWERED], ["refund 200"])
        assert client.part("c300")["state"] == "approval-requested", "it stays open"
        await client.answer("c300")
        await client.ask(3, "third")
        await client.idle()
        assert (Bank.read["third"], Bank.effects) == (["refunded 200", "refunded 300"], ["refund 200", "refund 300"])


@pytest.mark.parametrize("first", [YES, NO], ids=["approved", "denied"])
@pytest.mark.parametrize("base", BASES)
async def test_the_first_word_on_a_late_call_counts(base: str, first: ApprovalAnswer) -> None:
    async with served(answering(base, Bank)) as serving:
        client = Client(serving)
        await client.ask(1, "refund 200")
        await client.until(no_chat)
        await client.ask(2, "second")
        await client.until(no_chat)
        await client.answer("c200", first)
        await client.answer("c200", NO if first is YES else YES)
        await client.answer("c200", OutputAnswer("forged"))
        await client.idle()
        part = client.part("c200")
        assert (part["state"], Bank.effects) == (
            ("output-available", ["refund 200"]) if first is YES else ("output-denied", [])
        )
        assert part["approval"]["approved"] is (first is YES)


@pytest.mark.parametrize("base", BASES)
async def test_a_question_runs_what_was_approved_without_going_on(base: str) -> None:
    async with served(answering(base, Bank)) as serving:
        client = Client(serving)
        await client.ask(1, "refund 200")
        await client.until(no_chat)
        await client.answer("c200", auto_continue=False)
        await client.idle()
        assert Bank.effects == [], "the client goes on by itself"
        await client.ask(2, "second")
        await client.idle()
        assert (Bank.read["second"], Bank.effects) == (["refunded 200"], ["refund 200"])
        assert client.shown == ["u1", "a1", "u2", "a2"]


# -- stop, clear, failures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", BASES)
async def test_an_approved_call_that_is_stopped_before_it_begins_never_runs(base: str) -> None:
    async with served(answering(base, Bank)) as serving:
        client = Client(serving)
        await client.ask(1, "refund 200")
        await client.until(no_chat)
        await client.answer("c200")
        await serving.agent.abort_all_requests()
        await client.ask(2, "second")
        await client.idle()
        assert (client.part("c200")["errorText"], Bank.effects) == (STOPPED, [])
        assert Bank.read["second"] == [STOPPED]


@pytest.mark.parametrize("base", BASES)
async def test_a_late_call_that_runs_can_be_stopped(base: str) -> None:
    async with served(answering(base, Bank)) as serving:
        client = Client(serving)
        await client.ask(1, "refund 999")
        await client.until(no_chat)
        await client.ask(2, "second")
        await client.until(no_chat)
        await client.answer("c999")
        await soon(lambda: Bank.effects == ["refund 999"])
        assert not await serving.agent.wait_until_stable(timeout=0.01)
        await serving.agent.abort_all_requests()
        await client.idle()
        assert (client.part("c999")["state"], client.part("c999")["errorText"]) == ("output-error", INTERRUPTED)


@pytest.mark.parametrize("base", BASES)
async def test_a_clear_ends_a_late_call(base: str) -> None:
    async with served(answering(base, Bank)) as serving:
        client = Client(serving)
        await client.ask(1, "refund 999")
        await client.until(no_chat)
        await client.ask(2, "second")
        await client.until(no_chat)
        await client.answer("c999")
        await soon(lambda: Bank.effects == ["refund 999"])
        await serving.agent.clear_history()
        await client.idle()
        assert serving.agent.messages == []
        await client.ask(3, "third")
        await client.idle()
        assert client.shown == ["u3", "a3"]


@pytest.mark.parametrize("base", BASES)
async def test_stopping_the_answer_that_streams_leaves_a_late_call_alone(base: str) -> None:
    async with served(answering(base, Bank)) as serving:
        client = Client(serving)
        await client.ask(1, "refund 200")
        await client.until(no_chat)
        await client.ask(2, "slow two")
        await client.until(begun(2))
        await client.answer("c200")
        await serving.agent.abort_request("r2")
        await client.idle()
        assert (client.part("c200")["output"], Bank.effects) == ("refunded 200", ["refund 200"])
        assert serving.agent.messages[-1].text == "Slow… "


@pytest.mark.parametrize("base", BASES)
async def test_a_late_call_that_fails_says_so_and_nothing_of_its_secrets(base: str) -> None:
    async with served(answering(base, Bank)) as serving:
        client = Client(serving)
        await client.ask(1, "refund 666")
        await client.until(no_chat)
        await client.ask(2, "second")
        await client.until(no_chat)
        await client.answer("c666")
        await client.idle()
        part = client.part("c666")
        assert (part["state"], part["errorText"]) == ("output-error", "The tool refund failed.")


@pytest.mark.parametrize("amount", [777, 999], ids=["may run twice", "may not"])
@pytest.mark.parametrize("base", BASES)
async def test_a_late_call_cut_off_in_its_progress_comes_to_an_end(base: str, amount: int) -> None:
    store = MemoryLog()
    async with dying(answering(base, Bank), store) as serving:
        client = Client(serving)
        await client.ask(1, f"refund {amount}")
        await client.until(no_chat)
        await client.ask(2, "second")
        await client.until(no_chat)
        await client.answer(f"c{amount}")
        await soon(lambda: bool(Bank.effects))
        await client.until(lambda state: any(turn.chunks > 0 for turn in state.late_calls()))
    Bank.hold.set()
    async with served(answering(base, Bank), store) as serving:
        client = Client(serving)
        await client.idle()
        part = client.part(f"c{amount}")
        if amount == 777:
            assert (part["output"], Bank.effects) == ("sent back 777", ["rebate 777"] * 2)
        else:
            assert (part["errorText"], Bank.effects) == (INTERRUPTED, ["refund 999"])


async def test_a_late_call_whose_tool_is_gone_says_so() -> None:
    store = MemoryLog()
    async with served(answering("AIChatAgent", Bank), store) as serving:
        client = Client(serving)
        await client.ask(1, "refund 200")
        await client.until(no_chat)
        await client.ask(2, "second")
        await client.until(no_chat)

    class Chat(Bank):
        refund = None

    async with served(answering("AIChatAgent", Chat), store) as serving:
        client = Client(serving)
        await client.answer("c200")
        await client.idle()
        assert client.part("c200")["errorText"] == "There is no tool 'refund'."


# -- tools that only an answer has ------------------------------------------------------------------------------


async def test_a_late_call_of_a_toolset_runs_with_the_toolset_open() -> None:
    script = Script([call("buy", "c1", item="tea")], ["ok"])
    async with served(thinker(script, tools=[shop])) as serving:
        client = Client(serving)
        await client.ask(1, "buy tea")
        await client.until(no_chat)
        await client.ask(2, "second")
        await client.until(no_chat)
        await client.answer("c1")
        await client.idle()
        assert client.part("c1")["output"] == "bought tea"


async def test_a_late_call_of_a_tool_that_before_turn_added_runs() -> None:
    @tool(needs_approval=True)
    def wipe(disk: int) -> str:
        return f"wiped {disk}"

    def before_turn(self: Any, ctx: Any) -> None:
        ctx.tools["wipe"] = wipe

    script = Script([call("wipe", "c1", disk=1)], ["ok"])
    async with served(thinker(script, before_turn=before_turn)) as serving:
        client = Client(serving)
        await client.ask(1, "wipe it")
        await client.until(no_chat)
        await client.ask(2, "second")
        await client.until(no_chat)
        await client.answer("c1")
        await client.idle()
        assert client.part("c1")["output"] == "wiped 1"
        assert len(script.asked) == 2, "the model was not asked about it"


def test_the_kind_of_late_calls_is_no_chat() -> None:
    assert [kind for kind in TurnKind if kind.is_chat] == [TurnKind.CHAT, TurnKind.CONTINUATION]
    assert [kind for kind in TurnKind if kind.extends] == [TurnKind.CONTINUATION, TurnKind.CALLS]
