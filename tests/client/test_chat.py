"""A chat client against the real server: growing answers, every ending, tools, approvals, other clients."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from everyword.agents import Turn
from everyword.client import ChatFailed
from everyword.errors import ChatError, ToolError, UsageError
from everyword.testing import Gate
from tests.client.kit import client, is_growing, patiently, settled, shown_is_stored, snapshots, until_text
from tests.server.kit import chat, connect, scripted, serving


async def test_an_answer_is_one_message_that_grows_until_the_turn_has_ended() -> None:
    async with serving(chat(scripted(["Hel", "lo ", "world"]))) as url, client(url) as me:
        reply = me.send("hi")
        assert me.status == "submitted"
        seen = await snapshots(reply)
        assert seen[-1].text == "Hello world"
        assert is_growing(seen)
        assert reply.outcome == me.outcome == "completed"
        assert me.status == "ready"
        assert [message.text for message in me.messages] == ["hi", "Hello world"]
        assert await shown_is_stored(me)


async def test_a_reply_can_be_awaited_for_its_last_snapshot() -> None:
    async with serving(chat(scripted(["Hello"]))) as url, client(url) as me:
        message = await patiently(me.send("hi"))
        assert message is not None
        assert message.text == "Hello"


async def test_a_question_is_sent_even_if_its_reply_is_not_iterated() -> None:
    async with serving(chat(scripted(["Hello"]))) as url, client(url) as me:
        me.send("hi")
        await until_text(me, "Hello")
        assert await shown_is_stored(me)


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (ChatError("shown on purpose"), "shown on purpose"),
        ({"type": "error", "errorText": "rate limited"}, "rate limited"),
        (ValueError("secret"), "Something went wrong while answering. Please try again."),
    ],
)
async def test_a_failure_raises_the_public_text_and_keeps_the_partial_answer(failure: Any, text: str) -> None:
    async with serving(chat(scripted(["Half", failure]))) as url, client(url) as me:
        with pytest.raises(ChatFailed, match=text) as raised:
            await snapshots(me.send("hi"))
        assert raised.value.message is not None
        assert raised.value.message.text == "Half"
        assert me.status == me.outcome == "error"
        assert await shown_is_stored(me)
        async with client(url) as late:
            assert await shown_is_stored(late)


async def test_a_stopped_answer_ends_aborted_and_keeps_its_text() -> None:
    async with serving(chat(scripted(["Half", Gate(), "never"]))) as url, client(url) as me:
        reply = me.send("hi")
        async with asyncio.timeout(20):
            async for message in reply:
                if message.text == "Half":
                    await me.stop()
        assert reply.outcome == "aborted"
        assert reply.message is not None
        assert reply.message.text == "Half"
        assert await shown_is_stored(me)


async def test_a_question_that_is_dropped_ends_skipped() -> None:
    gate = Gate()
    agent = scripted(["One ", gate, "done"], message_concurrency="drop")
    async with serving(chat(agent)) as url, client(url) as me:
        first = me.send("first")
        await until_text(me, "One ")
        second = me.send("second")
        assert await patiently(second) is None
        assert second.outcome == "skipped"
        gate.open()
        assert (await snapshots(first))[-1].text == "One done"
        assert await shown_is_stored(me)


async def test_a_late_client_finds_the_running_answer_and_the_conversation_before_it() -> None:
    gate = Gate()
    answers = iter([["First."], ["Second ", gate, "answer"]])
    async with serving(chat(scripted(lambda turn: next(answers)))) as url, client(url) as me:
        await patiently(me.send("one"))
        reply = me.send("two")
        await until_text(me, "Second ")
        async with client(url) as late:
            await until_text(late, "Second ")
            assert [m.text for m in late.messages] == ["one", "First.", "two", "Second "]
            gate.open()
            assert (await snapshots(late.follow()))[-1].text == "Second answer"
            assert (await snapshots(reply))[-1].text == "Second answer"
            assert await shown_is_stored(late)
            assert await shown_is_stored(me)


async def test_nothing_is_followed_when_nothing_runs() -> None:
    async with serving(chat(scripted([]))) as url, client(url) as me:
        assert await snapshots(me.follow()) == []


async def test_watch_yields_the_conversation_when_other_clients_talk() -> None:
    async with serving(chat(scripted(["Hel", "lo"]))) as url, client(url) as me, client(url) as other:
        watching = other.watch()
        assert await patiently(anext(watching)) == []
        await patiently(me.send("hi"))
        async with asyncio.timeout(20):
            async for messages in watching:
                if [m.text for m in messages] == ["hi", "Hello"]:
                    break
        await watching.aclose()
        assert await shown_is_stored(other)


async def test_clear_clears_client_and_server_and_ends_running_turns() -> None:
    gate = Gate()
    async with serving(chat(scripted(["One ", gate, "two"]))) as url, client(url) as me, client(url) as other:
        reply = me.send("hi")
        await until_text(other, "One ")
        await patiently(me.clear())
        assert me.messages == []
        assert await me.history() == []
        await snapshots(reply)
        assert reply.outcome == "aborted"
        assert await shown_is_stored(other)
        gate.open()
        await snapshots(me.send("again"))
        assert await shown_is_stored(me)


async def test_a_question_of_a_deleted_conversation_fails_and_is_not_asked_again() -> None:
    gate = Gate()
    async with serving(chat(scripted(["One ", gate, "two"]))) as url, client(url) as me, connect(url) as http:
        reply = me.send("hi")
        await until_text(me, "One ")
        assert (await http.delete("/conversations/chat/ann")).status_code == 204
        with pytest.raises(ChatFailed, match="The conversation was deleted"):
            await snapshots(reply)
        gate.open()
        await snapshots(me.send("again"))
        assert [message.text for message in await me.history()] == ["again", "One two"]
        assert await shown_is_stored(me)


async def test_regenerating_replaces_the_last_answer() -> None:
    answers = iter([["First."], ["Second."]])
    async with serving(chat(scripted(lambda turn: next(answers)))) as url, client(url) as me:
        await patiently(me.send("hi"))
        await patiently(me.regenerate())
        assert [m.text for m in me.messages] == ["hi", "Second."]
        assert await shown_is_stored(me)


async def test_editing_a_question_removes_the_messages_after_it() -> None:
    answers = iter([["A."], ["B."], ["C."]])
    async with serving(chat(scripted(lambda turn: next(answers)))) as url, client(url) as me:
        await patiently(me.send("one"))
        await patiently(me.send("two"))
        await patiently(me.edit(me.messages[0].id, "other"))
        assert [m.text for m in me.messages] == ["other", "C."]
        assert await shown_is_stored(me)


async def test_unknown_messages_and_reserved_fields_are_refused_before_sending() -> None:
    async with serving(chat(scripted([]))) as url, client(url) as me:
        with pytest.raises(UsageError, match="unable to find"):
            me.edit("nobody's", "x")
        with pytest.raises(UsageError, match="unable to send messages in the body"):
            me.send("hi", body={"messages": []})
        assert me.messages == []


async def test_the_body_reaches_the_agent() -> None:
    agent = scripted(["ok"])
    async with serving(chat(agent)) as url, client(url, body={"tone": "dry", "n": 1}) as me:
        await patiently(me.send([{"type": "text", "text": "hi"}], body={"n": 2}))
        assert agent.turns[0].body == {"tone": "dry", "n": 2}


def call(tool: str, given: Any, name: str = "k1") -> dict[str, Any]:
    return {"type": "tool-input-available", "toolCallId": name, "toolName": tool, "input": given}


def asks(name: str = "k1") -> dict[str, Any]:
    return {"type": "tool-approval-request", "toolCallId": name, "approvalId": f"ask-{name}"}


def two_steps(first: list[Any], second: list[Any]) -> Any:
    return lambda turn: second if turn.continuation else first


FINISH = {"type": "finish", "finishReason": "tool-calls"}


async def test_a_client_tool_runs_and_the_same_iteration_continues() -> None:
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    agent = scripted(two_steps(["Let me see. ", call("add", {"a": 2}), FINISH], ["It is three."]))
    async with serving(chat(agent)) as url, client(url, tools=[add]) as me:
        seen = await snapshots(me.send("1+2?"))
        assert is_growing(seen)
        assert seen[-1].text == "Let me see. It is three."
        part = next(part for part in seen[-1].parts if part["type"] == "tool-add")
        assert (part["state"], part["output"]) == ("output-available", 3)
        assert agent.turns[0].client_tools == [
            {
                "name": "add",
                "description": "Add two numbers.",
                "parameters": {
                    "type": "object",
                    "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}},
                    "required": ["a"],
                },
            }
        ]
        assert await shown_is_stored(me)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ToolError("No satellite in sight."), "No satellite in sight."),
        (LookupError("no key for satellite 7"), "The tool locate failed."),
    ],
)
async def test_a_failing_client_tool_sends_the_model_only_public_text(error: Exception, text: str) -> None:
    async def locate() -> str:
        raise error

    agent = scripted(two_steps([call("locate", {}), FINISH], ["Then not."]))
    async with serving(chat(agent)) as url, client(url, tools=[locate]) as me:
        seen = await snapshots(me.send("where am I?"))
        part = next(part for part in seen[-1].parts if part["type"] == "tool-locate")
        assert (part["state"], part["errorText"]) == ("output-error", text)
        assert seen[-1].text == "Then not."
        assert await shown_is_stored(me)


async def test_only_the_client_that_asked_runs_its_tool() -> None:
    ran: list[str] = []

    def tool_of(name: str) -> Any:
        def locate() -> str:
            ran.append(name)
            return name

        return locate

    agent = scripted(two_steps([call("locate", {}), FINISH], ["Found."]))
    async with serving(chat(agent)) as url:
        async with client(url, tools=[tool_of("me")]) as me, client(url, tools=[tool_of("other")]) as other:
            await snapshots(me.send("where?"))
            await settled(other)
            assert ran == ["me"]
            assert await shown_is_stored(other)


@pytest.mark.parametrize("is_approved", [True, False])
async def test_after_an_approval_in_the_loop_the_same_iteration_continues(is_approved: bool) -> None:
    agent = scripted(two_steps(["May I? ", call("pay", {"amount": 5}), asks(), FINISH], ["Thanks."]))
    async with serving(chat(agent)) as url, client(url) as me:
        seen = []
        async with asyncio.timeout(20):
            async for message in me.send("pay"):
                seen.append(message)
                for part in me.pending_approvals:
                    if is_approved:
                        await me.approve(part["toolCallId"])
                    else:
                        await me.deny(part["toolCallId"], "too much")
        assert seen[-1].text == "May I? Thanks."
        part = next(part for part in seen[-1].parts if part["type"] == "tool-pay")
        assert part["approval"]["approved"] is is_approved
        assert me.pending_approvals == []
        assert await shown_is_stored(me)


async def test_an_approval_after_the_turn_is_followed_with_follow() -> None:
    agent = scripted(two_steps(["May I? ", call("pay", {}), asks(), FINISH], ["Thanks."]))
    async with serving(chat(agent)) as url, client(url) as me:
        await snapshots(me.send("pay"))
        assert [part["toolCallId"] for part in me.pending_approvals] == ["k1"]
        await patiently(me.approve("k1"))
        assert (await snapshots(me.follow()))[-1].text == "May I? Thanks."
        assert await shown_is_stored(me)


async def test_two_questions_at_once_are_answered_one_after_the_other() -> None:
    gate = Gate()

    def script(turn: Turn) -> list[Any]:
        return ["One ", gate, "first."] if turn.body["n"] == 1 else ["Second."]

    async with serving(chat(scripted(script))) as url, client(url) as me:
        first, second = me.send("a", body={"n": 1}), me.send("b", body={"n": 2})
        await patiently(me.connection.until(lambda: me.status == "streaming"))
        gate.open()
        assert (await snapshots(first))[-1].text == "One first."
        assert (await snapshots(second))[-1].text == "Second."
        assert await shown_is_stored(me)


async def test_a_turn_can_be_followed_over_server_sent_events() -> None:
    gate = Gate()
    async with serving(chat(scripted(["Hel", gate, "lo"]))) as url, client(url) as me:
        assert [m async for m in me.follow_sse()] == []
        reply = me.send("hi")
        await until_text(me, "Hel")
        seen = []
        async with asyncio.timeout(20):
            async for message in me.follow_sse():
                seen.append(message)
                gate.open()
        await snapshots(reply)
        assert is_growing(seen)
        assert seen[-1] == me.messages[-1]
