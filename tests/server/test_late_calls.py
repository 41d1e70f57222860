"""Calls that are approved after the next answer has begun, over real sockets and over HTTP (R-3, P-45)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from everyword.agents import AIChatAgent, Turn
from everyword.agents.tools import tool
from everyword.testing import Gate
from tests.server.kit import ask, chat, connect, reading, serving, user
from tests.server.sockets import Frame, Socket, socket
from tests.server.test_posted_tool_answers import _answered, _told

UPDATED, TRANSCRIPT = "cf_agent_message_updated", "cf_agent_chat_messages"


class Shop(AIChatAgent):
    """Refunds what a person approved; a question that begins with `wait` is answered at the gate."""

    refunds: list[float]
    gate: Gate
    holds: bool = False
    """Whether a continuation stands at the gate."""

    async def on_chat_message(self, turn: Turn) -> Any:
        async for step in turn.steps():
            async for chunk in step.run(self._model(step.messages[-1])):
                yield chunk

    async def _model(self, last: Any) -> AsyncIterator[Any]:
        yield {"type": "start-step"}
        if last.role == "assistant":
            yield "Do"
            if self.holds:
                await self.gate.wait()
            yield "ne."
        elif last.text.startswith("refund"):
            for amount in map(int, last.text.split()[1:]):
                given = {"toolName": "refund", "input": {"amount": amount}}
                yield {"type": "tool-input-available", "toolCallId": f"c{amount}", **given}
        else:
            yield "Well, "
            if last.text.startswith("wait"):
                await self.gate.wait()
            yield "well."
        yield {"type": "finish-step"}

    @tool(needs_approval=True)
    async def refund(self, amount: float) -> str:
        """Give money back."""
        self.refunds.append(amount)
        return f"refunded {amount:g}"


Shop.__name__ = "Chat"


@asynccontextmanager
async def shop() -> AsyncIterator[str]:
    Shop.refunds, Shop.gate = [], Gate()
    async with serving(chat(Shop)) as url:
        yield url


async def overtaken(tab: Socket, *, second: str = "second", calls: str = "200") -> None:
    """Ask for a refund, and then something else, which is answered; with `wait`, half answered."""
    await tab.greeted()
    await tab.ask("r1", f"refund {calls}")
    await tab.ended("r1")
    await tab.ask("r2", second)
    if second == "wait":
        await tab.until(lambda frame: "Well, " in frame.get("body", ""))
    else:
        await tab.ended("r2")
    await tab.settled()


async def approve(tab: Socket, call: str = "c200", *, approved: bool = True, **more: Any) -> None:
    frame = {"toolCallId": call, "approved": approved, "autoContinue": True, **more}
    await tab.send(type="cf_agent_tool_approval", **frame)


def state_of(frame: Frame, call: str = "c200") -> str | None:
    parts = frame.get("message", {}).get("parts", [])
    return next((part["state"] for part in parts if part.get("toolCallId") == call), None)


async def told(tab: Socket, state: str, call: str = "c200") -> Frame:
    return await tab.until(lambda frame: frame["type"] == UPDATED and state_of(frame, call) == state)


@pytest.mark.parametrize("second", ["second", "wait"])
async def test_a_late_call_is_told_as_an_updated_message_and_as_nothing_else(second: str) -> None:
    async with shop() as url, socket(url, "?_pk=a") as tab, socket(url, "?_pk=b") as other:
        await overtaken(tab, second=second)
        await other.greeted()
        await other.settled()
        marks = len(tab.frames), len(other.frames)
        await approve(tab)
        for each, mark in ((tab, marks[0]), (other, marks[1])):
            await told(each, "output-available")
            await each.settled()
            since = [frame for frame in each.frames[mark:] if frame["type"] != "rpc"]
            assert [(frame["type"], state_of(frame)) for frame in since] == [
                *((UPDATED, "approval-responded"), (UPDATED, "output-available"))
            ], since
        assert Shop.refunds == [200]
        Shop.gate.open()
        await tab.ended("r2")
        async with connect(f"{url}/agents/chat/ann") as client:
            stored = (await client.get("get-messages")).json()
        assert [message["role"] for message in stored] == ["user", "assistant"] * 2
        assert stored[1]["parts"][-1]["output"] == "refunded 200"


async def test_a_late_denial_is_told_at_once_and_starts_nothing() -> None:
    async with shop() as url, socket(url) as tab:
        await overtaken(tab)
        mark = len(tab.frames)
        await approve(tab, approved=False, reason="too much")
        updated = await told(tab, "output-denied")
        (part,) = (part for part in updated["message"]["parts"] if part.get("toolCallId") == "c200")
        assert part["approval"] == {"id": "approve-c200", "approved": False, "reason": "too much"}
        await tab.settled()
        assert [frame["type"] for frame in tab.frames[mark:]] == [UPDATED, "rpc"]


async def test_a_client_that_asks_for_the_continuation_of_a_late_call_is_told_that_there_is_none() -> None:
    async with shop() as url, socket(url) as tab:
        await overtaken(tab)
        await approve(tab)
        await tab.send(type="cf_agent_stream_resume_request", probeId="p1")
        answer = await tab.until(lambda frame: frame.get("probeId") == "p1")
        assert (answer["type"], answer["reason"]) == ("cf_agent_stream_resume_none", "idle")
        await told(tab, "output-available")


async def test_a_client_that_connects_while_a_late_call_runs_is_greeted_as_when_nothing_does() -> None:
    started, gate = Gate(), Gate()

    class Slow(Shop):
        @tool(needs_approval=True)
        async def refund(self, amount: float) -> str:
            started.open()
            await gate.wait()
            return f"refunded {amount:g}"

    Slow.__name__, Shop.gate = "Chat", Gate()
    async with serving(chat(Slow)) as url, socket(url) as tab:
        await overtaken(tab)
        await approve(tab)
        await started.wait()
        async with socket(url) as late:
            await late.greeted()
            greeting = late.frames[0]
            assert (greeting["type"], greeting["connect"], len(greeting["messages"])) == (TRANSCRIPT, True, 4)
            gate.open()
            await told(late, "output-available")
            assert not any(frame["type"] == "cf_agent_use_chat_response" for frame in late.frames)


async def test_a_question_after_a_half_approved_batch_releases_waiting_clients() -> None:
    async with shop() as url, socket(url) as tab:
        await tab.greeted()
        await tab.ask("r1", "refund 200 300")
        await tab.ended("r1")
        await approve(tab, "c200")
        await tab.send(type="cf_agent_stream_resume_request", probeId="p1")
        pending = await tab.until(lambda frame: frame.get("probeId") == "p1")
        assert pending["type"] == "cf_agent_stream_pending"
        await tab.ask("r2", "second")
        await tab.ended("r2")
        assert (await told(tab, "output-available"))["message"]["parts"]
        assert Shop.refunds == [200]
        await approve(tab, "c300")
        await told(tab, "output-available", "c300")
        assert Shop.refunds == [200, 300]
        await tab.settled()
        offered = [frame["id"] for frame in tab.frames if frame["type"] == "cf_agent_stream_resuming"]
        assert offered == ["r2"], "the continuation that was pending never came, and the client knows what did"


# -- over HTTP ------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def posted() -> AsyncIterator[tuple[Any, list[dict[str, Any]]]]:
    """Yield a client, and the four messages that it shows: the second has a call that waits for a word."""
    async with shop() as url, connect(f"{url}/agents/chat/ann") as client:
        await ask(client, {"messages": [user("u1", "refund 200")], "trigger": "submit-message"})
        shown = (await client.get("get-messages")).json()
        await ask(client, {"messages": [*shown, user("u2", "second")], "trigger": "submit-message"})
        shown = (await client.get("get-messages")).json()
        assert [message["role"] for message in shown] == ["user", "assistant"] * 2
        yield client, shown


def responded(message: dict[str, Any], *, approved: bool) -> dict[str, Any]:
    """What a page does with its own copy of a message when its user approves a call."""
    word = {"id": "approve-c200", "approved": approved}
    return _answered(message, "c200", state="approval-responded", approval=word)


@pytest.mark.parametrize("approved", [True, False])
async def test_a_word_posted_for_an_earlier_message_is_answered_with_that_message(approved: bool) -> None:
    """The AI SDK sends its whole list and names the message; the stream that it reads updates it where it stands."""
    async with posted() as (client, shown):
        mine = responded(shown[1], approved=approved)
        body = {"messages": [shown[0], mine, *shown[2:]], "trigger": "submit-message", "messageId": mine["id"]}
        for _ in range(2):  # a page that heard no answer asks again
            reader = await ask(client, body)
            stored = (await client.get("get-messages")).json()
            assert _told(reader, mine)["parts"] == stored[1]["parts"]
            assert reader.events[-1].data == "[DONE]"
        assert stored[1]["parts"][-1]["state"] == ("output-available" if approved else "output-denied")
        assert [stored[at] for at in (0, 2, 3)] == [shown[at] for at in (0, 2, 3)]
        assert Shop.refunds == ([200] if approved else [])


@pytest.mark.parametrize("approved", [True, False])
async def test_a_word_posted_by_a_page_that_has_missed_the_next_answer_makes_no_branch(approved: bool) -> None:
    async with posted() as (client, shown):
        mine = responded(shown[1], approved=approved)
        reader = await ask(client, {"messages": [shown[0], mine], "trigger": "submit-message"})
        stored = (await client.get("get-messages")).json()
        assert _told(reader, mine)["parts"] == stored[1]["parts"]
        assert [message["id"] for message in stored] == [message["id"] for message in shown]


async def test_an_approval_posted_with_a_new_question_runs_the_call_before_the_question() -> None:
    async with shop() as url, connect(f"{url}/agents/chat/ann") as client:
        await ask(client, {"messages": [user("u1", "refund 200")], "trigger": "submit-message"})
        shown = (await client.get("get-messages")).json()
        mine = responded(shown[1], approved=True)
        async with reading(client, "POST", "chat", json={"messages": [shown[0], mine, user("u2", "second")]}) as reader:
            await reader.rest()
        stored = (await client.get("get-messages")).json()
        assert Shop.refunds == [200]
        assert stored[1]["parts"][-1]["output"] == "refunded 200"
        assert [message["role"] for message in stored] == ["user", "assistant"] * 2


# -- a denial, while the answer goes on -----------------------------------------------------------------------------


async def test_a_denial_is_told_again_to_a_client_that_joins_the_continuation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a client goes on with its copy of the message, in which the call was answered and not yet denied."""
    monkeypatch.setattr(Shop, "holds", True)
    async with shop() as url, socket(url) as tab:
        await tab.greeted()
        await tab.ask("r1", "refund 200")
        await tab.ended("r1")
        await approve(tab, approved=False)
        await told(tab, "output-denied")
        await tab.send(type="cf_agent_stream_resume_request", probeId="p1")
        offer = await tab.until(lambda frame: frame["type"] == "cf_agent_stream_resuming")
        await tab.send(type="cf_agent_stream_resume_ack", id=offer["id"])
        await tab.until(lambda frame: frame.get("replayComplete") is True)
        Shop.gate.open()
        await tab.ended(offer["id"])
        frames = [frame for frame in tab.frames if frame.get("id") == offer["id"] and frame.get("body")]
        chunks = [json.loads(frame["body"]) for frame in frames if frame.get("continuation")]
        assert [chunk["type"] for chunk in chunks[:3]] == ["tool-input-available", "tool-output-denied", "start-step"]
        assert chunks[1] == {"type": "tool-output-denied", "toolCallId": "c200"}
        assert [frame.get("seq") for frame in frames[:3]] == [None, None, 0]
