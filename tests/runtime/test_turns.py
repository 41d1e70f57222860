"""Turns as the runtime runs them: what is asked is decided, committed, and only then seen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from everyword.core.commands import AnswerToolCall, CancelTurns, ClearConversation, Submit
from everyword.core.state import Rules
from everyword.errors import AgentStopped, ChatError, MailboxFull, Rejected
from everyword.events import AttemptStarted, Chunk, MessageEnded, Outcome, TurnAccepted, TurnEnded
from everyword.ids import CallId, MessageId, RequestId, TurnId
from everyword.log.memory import MemoryLog
from everyword.messages.tool_calls import ApprovalAnswer, OutputAnswer
from everyword.runtime.api import TurnCall, TurnResult
from everyword.runtime.turn_supervisor import LET_GO
from everyword.testing import Gate, ManualClock, ScriptedResponder
from tests.runtime.kit import AGENT, running, soon, submit, texts, user, watching


async def test_a_submitted_turn_streams_ends_and_is_in_the_transcript() -> None:
    responder = ScriptedResponder(["Hello ", "world"])
    async with running(MemoryLog(), responder) as directory, directory.attach(AGENT) as loaded:
        async with watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1", user("u1", "hi")))
            ended = await watcher.ended(1)
        assert ended.outcome is Outcome.COMPLETED
        kinds = [type(event) for event in watcher.events]
        assert kinds[:2] == [TurnAccepted, AttemptStarted]
        assert kinds[-2:] == [MessageEnded, TurnEnded]
        assert await loaded.actor.inspect(texts) == [("user", "hi"), ("assistant", "Hello world")]


async def test_a_late_reader_is_handed_the_same_events_as_a_live_one() -> None:
    """P-12."""
    responder = ScriptedResponder(["one ", "two ", "three"])
    async with running(MemoryLog(), responder) as directory, directory.attach(AGENT) as loaded:
        async with watching(loaded) as live:
            await loaded.actor.ask(submit("r1"))
            await live.ended(1)
        for cursor in range(len(live.seen)):
            async with watching(loaded, cursor) as late:
                await late.ended(1)
            assert [(c.seq, c.at, c.event) for c in late.seen] == [(c.seq, c.at, c.event) for c in live.seen[cursor:]]


async def test_an_attempt_is_committed_before_the_model_is_called() -> None:
    gate = Gate()
    store = MemoryLog()
    async with running(store, ScriptedResponder([gate, "late"])) as directory, directory.attach(AGENT) as loaded:
        await loaded.actor.ask(submit("r1"))
        await gate.reached.wait()
        assert [stored.kind for stored in await store.read(AGENT, 0)] == ["turn.accepted", "attempt.started"]  # type: ignore[arg-type]
        gate.open()
        async with watching(loaded) as watcher:
            await watcher.ended(1)


async def test_an_answer_that_never_waits_does_not_block_others() -> None:
    taken, seen_after = 0, list[int]()

    class Hasty(ScriptedResponder):
        async def stream(self, call: TurnCall) -> AsyncIterator[str]:
            nonlocal taken
            for _ in range(5000):
                taken += 1
                yield "word "

    async with running(MemoryLog(), Hasty([])) as directory, directory.attach(AGENT) as loaded:
        async with watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await watcher.until(lambda event: isinstance(event, Chunk))
            seen_after.append(taken)
            await watcher.ended(1)
    assert seen_after[0] < 1000, "the first word was read when nearly all had been said"


@pytest.mark.parametrize(
    ("failure", "shown"),
    [(ValueError("secret"), "The answer failed."), (ChatError("Try later."), "Try later.")],
)
async def test_an_exception_ends_the_turn_with_public_text_and_keeps_the_partial(
    failure: Exception, shown: str
) -> None:
    async with running(MemoryLog(), ScriptedResponder(["Hel", failure])) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            ended = await watcher.ended(1)
            assert (ended.outcome, ended.error) == (Outcome.ERROR, shown)
            assert ended.detail is not None and str(failure) in ended.detail
            assert await loaded.actor.inspect(texts) == [("user", "hi"), ("assistant", "Hel")]


async def test_an_error_chunk_ends_the_turn_as_a_thrown_error_does_with_its_own_text() -> None:
    script = ["Hel", {"type": "error", "errorText": "rate limited"}, "never sent"]
    async with running(MemoryLog(), ScriptedResponder(script)) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            ended = await watcher.ended(1)
            assert (ended.outcome, ended.error) == (Outcome.ERROR, "rate limited")
            assert await loaded.actor.inspect(texts) == [("user", "hi"), ("assistant", "Hel")]


async def test_a_cancelled_error_of_the_answers_own_code_is_a_failure_and_not_a_hang() -> None:
    async def broken(call: TurnCall):  # type: ignore[no-untyped-def]
        yield "Hel"
        raise asyncio.CancelledError

    responder = ScriptedResponder([])
    responder.stream = broken  # type: ignore[method-assign, assignment]
    async with running(MemoryLog(), responder) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            assert (await watcher.ended(1)).outcome is Outcome.ERROR


async def test_cancel_stops_the_answer_and_keeps_what_was_said() -> None:
    gate = Gate()
    responder = ScriptedResponder(["Hel", gate, "never"])
    async with running(MemoryLog(), responder) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await watcher.until(lambda event: isinstance(event, Chunk) and b"Hel" in bytes(event.body))
            await loaded.actor.insist(CancelTurns(RequestId("r1"), by="ann"))
            assert (await watcher.ended(1)).outcome is Outcome.ABORTED
            assert responder.calls[0].cancelled.is_set()
            assert await loaded.actor.inspect(texts) == [("user", "hi"), ("assistant", "Hel")]


async def test_cancel_ends_the_turn_although_the_answers_code_does_not_listen() -> None:
    reached, leave = asyncio.Event(), asyncio.Event()

    async def deaf(call: TurnCall):  # type: ignore[no-untyped-def]
        yield "Hel"
        while not leave.is_set():
            try:
                reached.set()
                await leave.wait()
            except asyncio.CancelledError:
                continue

    responder = ScriptedResponder([])
    responder.stream = deaf  # type: ignore[method-assign, assignment]
    async with running(MemoryLog(), responder) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await reached.wait()
            await loaded.actor.insist(CancelTurns(RequestId("r1")))
            assert (await watcher.ended(1)).outcome is Outcome.ABORTED
            leave.set()


async def test_what_an_answer_does_at_its_end_is_not_cut_off_by_a_stop_nor_by_what_comes_after_it() -> None:
    reached, let_go, go_on = asyncio.Event(), list[str](), asyncio.Event()

    async def tidy(call: TurnCall):  # type: ignore[no-untyped-def]
        yield "Hel"
        if call.request == "r2":
            return
        try:
            reached.set()
            await asyncio.Event().wait()
        finally:
            await go_on.wait()
            await asyncio.sleep(0)
            let_go.append(call.request)

    responder = ScriptedResponder([])
    responder.stream = tidy  # type: ignore[method-assign, assignment]
    async with running(MemoryLog(), responder) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await reached.wait()
            [attempt] = loaded.reconciler.tasks
            await loaded.actor.insist(CancelTurns(RequestId("r1")))
            assert (await watcher.ended(1)).outcome is Outcome.ABORTED
            await loaded.actor.ask(submit("r2"))
            assert (await watcher.ended(2)).outcome is Outcome.COMPLETED
            assert not attempt.done()
            go_on.set()
            await soon(attempt.done)
    assert let_go == ["r1"]


async def test_an_answer_that_goes_on_talking_after_a_stop_is_told_again_and_then_cut_off() -> None:
    clock, stops = ManualClock(), list[str]()

    async def deaf(call: TurnCall):  # type: ignore[no-untyped-def]
        yield "Hel"
        while call.request == "r1" and len(stops) < 2:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                stops.append(call.request)
        while call.request == "r1":
            yield "and another thing"

    responder = ScriptedResponder([])
    responder.stream = deaf  # type: ignore[method-assign, assignment]
    async with running(MemoryLog(), responder, clock) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await watcher.until(lambda event: isinstance(event, Chunk))
            [attempt] = loaded.reconciler.tasks
            await loaded.actor.insist(CancelTurns(RequestId("r1")))
            await watcher.ended(1)
            await soon(lambda: bool(stops))
            clock.advance(LET_GO / 1000)
            await loaded.actor.ask(submit("r2"))
            await watcher.ended(2)
            await soon(attempt.done)
            assert stops == ["r1", "r1"]
            assert await loaded.actor.inspect(texts) == [
                *(("user", "hi"), ("assistant", "Hel")),
                *(("user", "hi"), ("assistant", "Hel")),
            ]


async def test_a_waiting_turn_can_be_cancelled_and_never_starts() -> None:
    gate = Gate()
    responder = ScriptedResponder([gate])
    async with running(MemoryLog(), responder) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await loaded.actor.ask(submit("r2"))
            await loaded.actor.insist(CancelTurns(RequestId("r2")))
            assert (await watcher.ended(2)).outcome is Outcome.ABORTED
            gate.open()
            await watcher.ended(1)
            assert [call.turn for call in responder.calls] == [1]


async def test_turns_run_one_after_the_other_in_order() -> None:
    responder = ScriptedResponder(lambda call: [f"answer to {call.messages[-1].text}"])
    async with running(MemoryLog(), responder) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            for number in (1, 2, 3):
                await loaded.actor.ask(submit(f"r{number}", user(f"u{number}", str(number))))
            await watcher.ended(3)
            said = [text for role, text in await loaded.actor.inspect(texts) if role == "assistant"]
            assert said == ["answer to 1", "answer to 2", "answer to 3"]


async def test_clear_aborts_the_running_turn_skips_the_waiting_and_nothing_old_is_written_after() -> None:
    """P-20."""
    gate = Gate()
    async with running(MemoryLog(), ScriptedResponder(["old", gate, "older"])) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await loaded.actor.ask(submit("r2"))
            await gate.reached.wait()
            await loaded.actor.insist(ClearConversation())
            assert (await watcher.ended(1)).outcome is Outcome.ABORTED
            assert (await watcher.ended(2)).outcome is Outcome.SKIPPED
            assert await loaded.actor.inspect(texts) == []


async def test_an_approval_survives_a_restart_and_its_continuation_extends_the_message() -> None:
    store, clock = MemoryLog(), ManualClock()
    asking = [
        {"type": "tool-input-available", "toolCallId": "k1", "toolName": "pay", "input": {"amount": 5}},
        {"type": "tool-approval-request", "toolCallId": "k1", "approvalId": "ask1"},
        {"type": "finish", "finishReason": "tool-calls"},
    ]
    responder = ScriptedResponder(lambda call: ["Paid."] if call.is_continuation else asking)
    async with running(store, responder, clock) as directory, directory.attach(AGENT) as loaded:
        async with watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await watcher.ended(1)
    async with running(store, responder, clock) as directory, directory.attach(AGENT) as loaded:
        async with watching(loaded) as watcher:
            answer = AnswerToolCall(CallId("k1"), ApprovalAnswer(True), RequestId("c1"))
            assert await loaded.actor.ask(answer) != []
            assert await loaded.actor.ask(answer) == []
            clock.advance(0.05)
            ended = await watcher.ended(2)
        assert ended.outcome is Outcome.COMPLETED
        assert responder.calls[-1].partial is not None
        said = await loaded.actor.inspect(texts)
        assert [role for role, _ in said] == ["user", "assistant"]
        assert said[-1][1] == "Paid."


async def test_an_unknown_tool_call_causes_no_event() -> None:
    async with running(MemoryLog(), ScriptedResponder(["x"])) as directory, directory.attach(AGENT) as loaded:
        answer = AnswerToolCall(CallId("nobody"), OutputAnswer(1), RequestId("c1"))
        assert await loaded.actor.ask(answer) == []


async def test_the_response_hook_is_called_once_per_turn_with_what_was_committed() -> None:
    told = asyncio.Event()

    async def hook(result: TurnResult) -> None:
        told.set()

    responder = ScriptedResponder(["Hello"], on_response=hook)
    async with running(MemoryLog(), responder) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await watcher.until(lambda event: type(event).__name__ == "HookDone")
        assert told.is_set()
    assert len(responder.results) == 1
    result = responder.results[0]
    assert (result.outcome, result.recovered) == (Outcome.COMPLETED, False)
    assert result.message is not None and result.message.text == "Hello"


async def test_a_hook_that_raises_is_called_once_and_affects_nothing_else() -> None:
    async def hook(result: TurnResult) -> None:
        raise RuntimeError("hook")

    responder = ScriptedResponder(["Hello"], on_response=hook)
    async with running(MemoryLog(), responder) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await watcher.until(lambda event: type(event).__name__ == "HookDone")
            await loaded.actor.ask(submit("r2"))
            await watcher.ended(2)
            await watcher.until(lambda event: type(event).__name__ == "HookDone" and event.turn == TurnId(2))  # type: ignore[union-attr]
    assert len(responder.results) == 2


async def test_a_deferred_turn_is_given_its_messages_at_the_head_of_the_queue() -> None:
    gate = Gate()
    responder = ScriptedResponder(lambda call: [gate, "first"] if call.turn == 1 else ["second"])
    async with running(MemoryLog(), responder) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1", user("u1")))

            async def evaluate(messages):  # type: ignore[no-untyped-def]
                return [user("u2", f"after {messages[-1].text}")]

            loaded.reconciler.turns.evaluations[RequestId("r2")] = evaluate
            await loaded.actor.ask(Submit(RequestId("r2"), MessageId("a2"), None, trusted=True))
            gate.open()
            await watcher.ended(2)
            said = [text for _, text in await loaded.actor.inspect(texts)]
            assert said == ["hi", "first", "after first", "second"]


async def test_a_deferred_turn_whose_messages_are_gone_ends_as_an_error() -> None:
    async with running(MemoryLog(), ScriptedResponder(["x"])) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(Submit(RequestId("r1"), MessageId("a1"), None, trusted=True))
            assert (await watcher.ended(1)).outcome is Outcome.ERROR


async def test_a_debounced_question_starts_when_its_time_has_come() -> None:
    clock, gate = ManualClock(), Gate()
    responder = ScriptedResponder(lambda call: [gate, "x"] if call.turn == 1 else ["y"])
    async with running(MemoryLog(), responder, clock) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await gate.reached.wait()
            await loaded.actor.ask(submit("r2", policy="debounce"))
            gate.open()
            await watcher.ended(1)
            await loaded.actor.inspect(lambda state: None)
            assert len(responder.calls) == 1
            clock.advance(0.75)
            await watcher.ended(2)


async def test_a_full_mailbox_refuses_clients_with_a_sentence_and_lets_cancel_in() -> None:
    gate = Gate()
    responder = ScriptedResponder([gate])
    async with running(MemoryLog(), responder) as directory, directory.attach(AGENT) as loaded:
        await loaded.actor.ask(submit("r0"))
        await gate.reached.wait()
        asks = [asyncio.ensure_future(loaded.actor.ask(submit("r0"))) for _ in range(1500)]
        cancel = asyncio.ensure_future(loaded.actor.insist(CancelTurns(None)))
        answers = await asyncio.gather(*asks, return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, MailboxFull)]
        assert refused and len(refused) < 1500
        assert "Try again" in str(refused[0])
        await cancel
        async with watching(loaded) as watcher:
            assert (await watcher.ended(1)).outcome is Outcome.ABORTED


async def test_asking_an_agent_that_was_unloaded_says_so() -> None:
    async with running(MemoryLog(), ScriptedResponder(["x"])) as directory:
        async with directory.attach(AGENT) as loaded:
            pass
        loaded.actor.stop()
        await soon(lambda: loaded.task is not None and loaded.task.done())
        with pytest.raises(AgentStopped, match="Reconnect"):
            await loaded.actor.ask(submit("r1"))


async def test_too_many_waiting_turns_are_refused_and_nothing_is_written() -> None:
    gate = Gate()
    responder = ScriptedResponder([gate], rules=Rules(max_queued=2))
    async with running(MemoryLog(), responder) as directory, directory.attach(AGENT) as loaded:
        await loaded.actor.ask(submit("r1"))
        await loaded.actor.ask(submit("r2"))
        with pytest.raises(Rejected, match="limit"):
            await loaded.actor.ask(submit("r3"))
        await loaded.actor.insist(CancelTurns(None))


async def test_a_tools_output_after_its_call_was_answered_from_outside_is_left_out() -> None:
    gate = Gate()
    script = [
        {"type": "tool-input-available", "toolCallId": "k1", "toolName": "look", "input": {}},
        gate,
        {"type": "tool-output-available", "toolCallId": "k1", "output": "late"},
        "done",
    ]
    async with running(MemoryLog(), ScriptedResponder(script)) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await gate.reached.wait()
            await loaded.actor.ask(
                AnswerToolCall(CallId("k1"), OutputAnswer("first"), RequestId("c1"), auto_continue=False)
            )
            gate.open()
            await watcher.ended(1)
            outputs = [e for e in watcher.events if isinstance(e, Chunk) and b"tool-output" in bytes(e.body)]
            assert [b"first" in bytes(event.body) for event in outputs] == [True]


async def test_an_answer_that_cancels_its_own_task_is_tried_again_and_given_up_in_the_end() -> None:
    async def suicidal(call: TurnCall):  # type: ignore[no-untyped-def]
        yield "Hel"
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    responder = ScriptedResponder([], rules=Rules(max_attempts=2))
    responder.stream = suicidal  # type: ignore[method-assign, assignment]
    async with running(MemoryLog(), responder) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            assert (await watcher.ended(1)).outcome is Outcome.ERROR
