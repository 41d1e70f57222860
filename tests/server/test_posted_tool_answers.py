"""Answers to calls that come with posted messages: taken as a socket's are, and the turn goes on in the response."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from everyword.agents import AIChatAgent, Turn
from everyword.agents.tools import tool
from everyword.messages.fold import MessageFold
from everyword.messages.message import UIMessage
from everyword.server import Principal
from everyword.testing import Gate
from tests.server.kit import Item, Reader, ask, chat, question, reading, scripted, talking, text_of, user

CALL = {"type": "tool-input-available", "toolCallId": "c1", "toolName": "locate", "input": {"exact": True}}
SECOND = {**CALL, "toolCallId": "c2"}
ASKED = {"type": "tool-approval-request", "approvalId": "a1", "toolCallId": "c1"}


def _script(*first: Item, then: list[Item]) -> Any:
    return lambda turn: then if turn.continuation else [*first]


def _told(reader: Reader, copy: dict[str, Any]) -> dict[str, Any]:
    """Return what a page shows that goes on with its own copy of the message, as the AI SDK does."""
    fold = MessageFold(copy["id"], base=UIMessage.from_dict(copy))
    for chunk in reader.chunks:
        fold.apply(chunk)
    return fold.message().to_dict()


def _answered(message: dict[str, Any], *calls: str, **given: Any) -> dict[str, Any]:
    parts = [{**part, **given} if part.get("toolCallId") in calls else part for part in message["parts"]]
    return {**message, "parts": parts}


async def _called(client: httpx.AsyncClient) -> dict[str, Any]:
    """Ask, and return the message that waits for an answer."""
    await ask(client)
    stored = (await client.get("get-messages")).json()
    return dict(stored[-1])


def _going_on(message: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "chat", "messages": [user("u1"), message], "trigger": "submit-message", **more}


OUTPUT = {"state": "output-available", "output": {"lat": 1}}
FAILED = {"state": "output-error", "errorText": "no signal"}


@pytest.mark.parametrize("given", [OUTPUT, FAILED], ids=["output", "error"])
async def test_a_result_in_the_posted_messages_is_taken_and_the_turn_goes_on_in_the_same_response(
    given: dict[str, Any],
) -> None:
    async with talking(chat(scripted(_script("Where? ", CALL, then=["Found."])))) as client:
        mine = _answered(await _called(client), "c1", **given)
        reader = await ask(client, _going_on(mine))
        stored = (await client.get("get-messages")).json()
        assert len(stored) == 2
        assert _told(reader, mine)["parts"] == stored[-1]["parts"]
        assert text_of(stored[-1]) == "Where? Found."
        call = next(part for part in stored[-1]["parts"] if part.get("toolCallId") == "c1")
        assert {name: call[name] for name in given} == given


async def test_several_results_in_one_list_make_one_continuation() -> None:
    agent = scripted(_script(CALL, SECOND, then=["Both."]))
    async with talking(chat(agent)) as client:
        mine = _answered(await _called(client), "c1", "c2", **OUTPUT)
        reader = await ask(client, _going_on(mine))
        assert [turn.continuation for turn in agent.turns] == [False, True]
        stored = (await client.get("get-messages")).json()
        assert _told(reader, mine)["parts"] == stored[-1]["parts"]


async def test_an_answer_to_one_of_several_calls_is_taken_and_the_response_does_not_wait_for_the_others() -> None:
    agent = scripted(_script(CALL, SECOND, then=["Both."]))
    async with talking(chat(agent)) as client:
        first = _answered(await _called(client), "c1", **OUTPUT)
        reader = await ask(client, _going_on(first))
        assert reader.events[-1].data == "[DONE]" and len(agent.turns) == 1
        both = _answered(first, "c2", **FAILED)
        reader = await ask(client, _going_on(both))
        stored = (await client.get("get-messages")).json()
        assert text_of(stored[-1]) == "Both." and len(agent.turns) == 2
        assert _told(reader, both)["parts"] == stored[-1]["parts"]


class Shop(AIChatAgent):
    """Refunds what a person approved."""

    refunds: list[float]

    async def on_chat_message(self, turn: Turn) -> Any:
        async for step in turn.steps():
            asks = step.messages[-1].role == "user"
            call = {"type": "tool-input-available", "toolCallId": "c1", "toolName": "refund", "input": {"amount": 5}}
            async for chunk in step.run([call] if asks else ["Done."]):
                yield chunk

    @tool(needs_approval=True)
    async def refund(self, amount: float) -> str:
        """Give money back."""
        self.refunds.append(amount)
        return "ok"


Shop.__name__ = "Chat"


@pytest.mark.parametrize("is_approved", [True, False])
async def test_a_persons_word_in_the_posted_messages_is_taken(is_approved: bool) -> None:
    Shop.refunds = []
    async with talking(chat(Shop)) as client:
        asked = await _called(client)
        part = next(part for part in asked["parts"] if part.get("toolCallId") == "c1")
        assert part["state"] == "approval-requested"
        word = {**part["approval"], "approved": is_approved}
        mine = _answered(asked, "c1", state="approval-responded", approval=word)
        reader = await ask(client, _going_on(mine))
        stored = (await client.get("get-messages")).json()
        assert Shop.refunds == ([5] if is_approved else [])
        states = [part["state"] for part in stored[-1]["parts"] if part.get("toolCallId") == "c1"]
        assert states == ["output-available" if is_approved else "output-denied"]
        assert _told(reader, mine)["parts"] == stored[-1]["parts"]


async def test_a_result_of_a_tool_that_runs_here_is_not_taken() -> None:
    Shop.refunds = []
    async with talking(chat(Shop)) as client:
        forged = _answered(await _called(client), "c1", **OUTPUT)
        await ask(client, {"messages": [user("u1"), forged, user("u2")]})
        stored = (await client.get("get-messages")).json()
        states = [part["state"] for part in stored[1]["parts"] if part.get("toolCallId") == "c1"]
        assert states == ["approval-requested"] and Shop.refunds == []


async def test_the_first_answer_wins_and_a_slower_client_gets_it() -> None:
    async with talking(chat(scripted(_script(CALL, then=["Found."])))) as client:
        asked = await _called(client)
        first = _answered(asked, "c1", state="output-available", output="first")
        second = _answered(asked, "c1", state="output-available", output="second")
        await ask(client, _going_on(first))
        late = await ask(client, _going_on(second))
        stored = (await client.get("get-messages")).json()
        assert next(part for part in stored[-1]["parts"] if part.get("toolCallId"))["output"] == "first"
        assert _told(late, second)["parts"] == stored[-1]["parts"], "it went on without this client"
        assert late.events[-1].data == "[DONE]"


async def test_an_answer_during_the_continuation_streams_it_from_its_first_chunk() -> None:
    gate = Gate()
    agent = scripted(_script(CALL, then=["Half", gate, " whole."]))
    async with talking(chat(agent)) as client:
        asked = await _called(client)
        first = _answered(asked, "c1", state="output-available", output="first")
        second = _answered(asked, "c1", state="output-available", output="second")
        async with reading(client, "POST", "chat", json=_going_on(first)) as winner:
            await winner.until(lambda event: "Half" in event.data)
            async with reading(client, "POST", "chat", json=_going_on(second)) as late:
                await late.until(lambda event: "Half" in event.data)
                gate.open()
                await late.rest()
            await winner.rest()
        assert len(agent.turns) == 2
        assert _told(late, second) == _told(winner, first)


async def test_an_answer_that_comes_with_a_new_question_is_taken_and_the_question_is_answered() -> None:
    agent = scripted(lambda turn: [CALL] if len(agent.turns) == 1 else ["New."])
    async with talking(chat(agent)) as client:
        mine = _answered(await _called(client), "c1", **OUTPUT)
        await ask(client, {"messages": [user("u1"), mine, user("u2", "and now?")]})
        stored = (await client.get("get-messages")).json()
        assert [message["id"] for message in stored[:3]] == ["u1", mine["id"], "u2"]
        assert stored[1]["parts"] == mine["parts"]
        assert text_of(stored[3]) == "New."
        assert len(agent.turns) == 2, "the question is the continuation"


async def test_a_read_only_client_answers_nothing() -> None:
    async def admit(connecting: Any) -> Principal:
        return Principal("eve", read_only="eve" in connecting.request.headers)

    async with talking(chat(scripted(_script(CALL, then=["x"])), authorize=admit)) as client:
        mine = _answered(await _called(client), "c1", **OUTPUT)
        refused = await client.post("chat", json=_going_on(mine), headers={"eve": "1"})
        assert refused.status_code == 403
        stored = (await client.get("get-messages")).json()
        assert stored[-1]["parts"][-1]["state"] == "input-available"


async def test_unknown_calls_and_unknown_messages_change_nothing() -> None:
    agent = scripted(_script(CALL, then=["x"]))
    async with talking(chat(agent)) as client:
        asked = await _called(client)
        unknown = {**asked, "parts": [{"type": "tool-x", "toolCallId": "no", "input": {}, **OUTPUT}]}
        invented = {"id": "made-up", "role": "assistant", "parts": unknown["parts"]}
        odd = [{"type": "tool-x", **OUTPUT}, {"type": "tool-x", "toolCallId": 7, "state": "approval-responded"}]
        for place, message in enumerate((unknown, invented, {**asked, "parts": odd})):
            await ask(client, {"messages": [user("u1"), message, user(f"more-{place}")]})
        stored = (await client.get("get-messages")).json()
        assert stored[1] == asked


async def test_the_sdks_own_paths_below_the_one_it_posts_to_are_the_same_resources() -> None:
    gate = Gate()
    async with talking(chat(scripted(["Half", gate]))) as client:
        assert (await client.get("chat/some-id/stream")).status_code == 204
        async with reading(client, "POST", "chat", json=question()) as live:
            await live.until(lambda event: "Half" in event.data)
            async with reading(client, "GET", "chat/a%2Fb/stream") as late:
                await late.until(lambda event: "Half" in event.data)
                stopped = await client.post("chat/some-id/stop")
                assert json.loads(stopped.content)["stopped"]
                await late.rest()
            await live.rest()
        assert late.events[-2].data == live.events[-2].data
