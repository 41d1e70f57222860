"""Tools, continuations and replays over a real socket."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from everyword.agents import AIChatAgent, Turn
from everyword.core import evolve
from everyword.messages.fold import MessageFold
from everyword.server import client_commands
from everyword.testing import Gate
from tests.server.kit import PATIENCE, Item, chat, connect, scripted, serving
from tests.server.sockets import Frame, Socket, socket

CALLS: list[Item] = [
    {"type": "tool-input-available", "toolCallId": call, "toolName": "look", "input": {"at": call}}
    for call in ("k1", "k2")
]


def asking(*then: Item) -> type[AIChatAgent]:
    """Return an agent that calls two tools of the page, and says something once both have answered."""

    def script(turn: Turn) -> list[Item]:
        return list(then) if turn.continuation else [*CALLS, {"type": "finish", "finishReason": "tool-calls"}]

    return scripted(script)


def is_continued(frame: Frame) -> bool:
    return frame.get("continuation") is True


async def continued(client: Socket) -> Frame:
    return await client.until(lambda frame: is_continued(frame) and frame["done"])


async def stored(url: str) -> list[Frame]:
    async with connect(f"{url}/agents/chat/ann") as http:
        found: list[Frame] = (await http.get("get-messages")).json()
        return found


def calls_of(message: Frame) -> dict[str, Any]:
    return {part["toolCallId"]: part.get("output") for part in message["parts"] if part["type"] == "tool-look"}


async def test_results_given_at_once_by_two_tabs_make_one_continuation_of_one_message_for_both() -> None:
    """Traps 51, 94, 95, 96 and 117."""
    agent = asking("Seen.")
    async with serving(chat(agent)) as url, socket(url) as first, socket(url) as second:
        await second.greeted()
        await first.ask("r1")
        await asyncio.gather(first.ended("r1"), second.ended("r1"))
        await asyncio.gather(first.answer("k1", 1), second.answer("k2", 2))
        ends = [await continued(first), await continued(second)]
        assert ends[0] == ends[1] and ends[0]["outcome"] == "completed"
        question, answer = await stored(url)
        assert calls_of(answer) == {"k1": 1, "k2": 2}
        assert answer["parts"][-1]["text"] == "Seen."
        for tab in (first, second):
            shown = [frame for frame in tab.frames if frame["type"] == "cf_agent_chat_messages"]
            assert shown[-1]["messages"] == [question, answer]
            assert tab.frames.index(shown[-1]) < tab.frames.index(ends[0])
            starts = [frame for frame in tab.frames if is_continued(frame) and '"type":"start",' in frame["body"]]
            assert starts == []
    assert len(agent.turns) == 2  # type: ignore[attr-defined]


async def test_a_second_answer_to_a_call_changes_nothing_and_is_not_sent() -> None:
    """Trap 90."""
    async with serving(chat(asking("Seen."))) as url, socket(url) as first, socket(url) as second:
        await first.ask("r1")
        await first.ended("r1")
        await first.answer("k1", "first")
        await first.until(lambda frame: frame["type"] == "cf_agent_message_updated")
        await second.answer("k1", "second")
        await second.settled()
        await first.settled()
        for tab in (first, second):
            told = [frame["message"] for frame in tab.frames if frame["type"] == "cf_agent_message_updated"]
            assert [calls_of(message)["k1"] for message in told] == ["first"]
        assert calls_of((await stored(url))[-1])["k1"] == "first"


async def test_a_probe_right_behind_an_answer_finds_the_continuation() -> None:
    """Traps 12 and 116: the two are one batch, and frames are taken in order."""
    async with serving(chat(asking("Seen."))) as url, socket(url, "?_pk=p1") as client:
        await client.ask("r1")
        await client.ended("r1")
        await client.answer("k1", 1)
        await client.answer("k2", 2)
        await client.send(type="cf_agent_stream_resume_request", probeId="probe")
        found = await client.until(lambda frame: frame.get("probeId") == "probe")
        assert found["type"] in ("cf_agent_stream_pending", "cf_agent_stream_resuming")
        resuming = await client.until(lambda frame: frame["type"] == "cf_agent_stream_resuming")
        assert resuming["id"] == found["id"]
        await client.send(type="cf_agent_stream_resume_ack", id=found["id"])
        assert (await continued(client))["outcome"] == "completed"


async def test_a_continuation_is_replayed_chunk_by_chunk_under_the_numbers_that_it_had_live() -> None:
    """Traps 2, 21 and 22: the client drops what it has by number."""
    gate = Gate()
    async with serving(chat(asking("one ", "two ", gate, "three"))) as url, socket(url, "?_pk=other") as other:
        async with socket(url, "?_pk=p1") as client:
            await client.ask("r1")
            await client.ended("r1")
            await client.answer("k1", 1)
            await client.answer("k2", 2)
            await client.until(lambda frame: is_continued(frame) and "two " in frame["body"])
            live = [frame for frame in client.frames if is_continued(frame)]
        async with socket(url, "?_pk=p1") as client:
            offer = await client.until(lambda frame: frame["type"] == "cf_agent_stream_resuming")
            await client.send(type="cf_agent_stream_resume_ack", id=offer["id"])
            await client.until(lambda frame: frame.get("replayComplete") is True)
            replayed = [frame for frame in client.frames if frame.get("replay") and frame["body"]]
            assert replayed == [{**frame, "replay": True} for frame in live]
            gate.open()
            await continued(client)
            numbers = [frame["seq"] for frame in client.frames if is_continued(frame) and "seq" in frame]
            assert numbers == list(range(len(numbers))) and len(numbers) > len(live)
        assert (await continued(other))["outcome"] == "completed"


async def test_a_client_that_probed_is_replayed_the_whole_message_of_a_continuation() -> None:
    """P-41: the AI SDK folds it into an empty message, and a part of it would stand in a second one."""
    gate = Gate()
    async with serving(chat(asking("one ", gate, "two"))) as url:
        async with socket(url, "?_pk=p1") as client:
            await client.ask("r1")
            await client.ended("r1")
            await client.answer("k1", 1)
            await client.answer("k2", 2)
            await client.until(lambda frame: is_continued(frame) and "one " in frame["body"])
            await client.send(type="cf_agent_stream_resume_request", probeId="probe")
            offer = await client.until(lambda frame: frame["type"] == "cf_agent_stream_resuming")
            await client.send(type="cf_agent_stream_resume_ack", id=offer["id"])
            complete = await client.until(lambda frame: frame.get("replayComplete") is True)
            gate.open()
            await continued(client)
            place = client.frames.index(complete)
            replayed = [frame for frame in client.frames[:place] if frame.get("replay")]
            assert all(map(is_continued, replayed)) and not any("seq" in frame for frame in replayed)
            live = [frame for frame in client.frames[place + 1 :] if is_continued(frame) and frame["body"]]
            chunks = [json.loads(frame["body"]) for frame in [*replayed, *live]]
            assert chunks[0]["type"] == "start" and len(live) > 2
            fold = MessageFold("")
            for chunk in chunks:
                fold.apply(chunk)
        assert fold.message().to_dict() == (await stored(url))[-1]


async def test_a_continuation_of_an_approved_call_is_replayed_chunk_by_chunk() -> None:
    """P-41: `ai` 7 begins with its copy of such a message, and would show it twice."""
    gate = Gate()
    call = {"type": "tool-input-available", "toolCallId": "k1", "toolName": "look", "input": {}}
    asks = {"type": "tool-approval-request", "toolCallId": "k1", "approvalId": "a1"}
    output = {"type": "tool-output-available", "toolCallId": "k1", "output": 1}
    agent = scripted(lambda turn: [output, "one ", gate, "two"] if turn.continuation else [call, asks])
    async with serving(chat(agent)) as url, socket(url, "?_pk=p1") as client:
        await client.ask("r1")
        await client.ended("r1")
        await client.send(type="cf_agent_tool_approval", toolCallId="k1", approved=True, autoContinue=True)
        await client.until(lambda frame: is_continued(frame) and "one " in frame["body"])
        await client.send(type="cf_agent_stream_resume_request", probeId="probe")
        offer = await client.until(lambda frame: frame["type"] == "cf_agent_stream_resuming")
        await client.send(type="cf_agent_stream_resume_ack", id=offer["id"])
        await client.until(lambda frame: frame.get("replayComplete") is True)
        replayed = [frame for frame in client.frames if frame.get("replay") and frame["body"]]
        assert not any('"start"' in frame["body"] for frame in replayed)
        assert [frame["seq"] for frame in replayed] == list(range(len(replayed))), (
            "nothing without a number: it heard the rest"
        )
        gate.open()
        assert (await continued(client))["outcome"] == "completed"


async def test_a_continuation_is_stopped_by_its_id_like_any_other_turn() -> None:
    """Trap 71."""
    gate = Gate()
    async with serving(chat(asking("half", gate, "whole"))) as url, socket(url) as client:
        await client.ask("r1")
        await client.ended("r1")
        await client.answer("k1", 1)
        await client.answer("k2", 2)
        spoken = await client.until(lambda frame: is_continued(frame) and "half" in frame["body"])
        await client.send(type="cf_agent_chat_request_cancel", id=spoken["id"])
        assert (await continued(client))["outcome"] == "aborted"
        assert (await stored(url))[-1]["parts"][-1]["text"] == "half"


async def test_a_turn_from_long_ago_is_still_told_with_its_end_and_the_messages_that_asked_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Traps 24 and 39: however much happened since, and also when it is asked for again."""
    for module in (evolve, client_commands):
        monkeypatch.setattr(module, "RECENT_TURNS", 3)  # so that long ago is soon
    async with serving(chat(scripted(lambda turn: [f"answer to {turn.id}"]))) as url, socket(url) as client:
        for number in range(6):
            await client.ask(f"r{number}")
            await client.ended(f"r{number}")
        client.frames.clear()
        await client.send(type="cf_agent_stream_resume_ack", id="r0")
        end = await client.ended("r0")
        assert (end["outcome"], end["messageIds"], end["replay"]) == ("completed", ["u-r0"], True)
        assert any("answer to r0" in frame.get("body", "") for frame in client.frames)
        client.frames.clear()
        await client.ask("r0")
        assert (await client.ended("r0"))["messageIds"] == ["u-r0"]


async def test_sockets_that_die_during_a_replay_do_not_disturb_others(caplog: pytest.LogCaptureFixture) -> None:
    """Traps 23 and 203: a frame that can no longer be sent is not an error, and the turn continues."""
    gate = Gate()
    words: list[Item] = [{"type": "data-note", "id": f"n{n}", "data": "x" * 2000} for n in range(200)]
    async with serving(chat(scripted([*words, "Hel", gate, "lo"]))) as url, socket(url) as client:
        await client.ask("r1")
        await gate.reached.wait()
        for _ in range(10):
            async with socket(url) as dying:
                await dying.send(type="cf_agent_stream_resume_ack", id="r1")
                await dying.send(type="rpc", id="c1", method="nothing", args=[])
                dying.connection.transport.abort()
        gate.open()
        assert (await client.ended("r1"))["outcome"] == "completed"
        assert (await stored(url))[-1]["parts"][-1]["text"] == "Hello"
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_stable_means_that_the_turns_accepted_meanwhile_have_ended_too() -> None:
    """Trap 126."""
    gate = Gate()
    app = chat(scripted([gate, "Hello"]))
    async with serving(app) as url, socket(url) as client:
        await client.ask("r1")
        await gate.reached.wait()
        agent: Any = app.get(app.classes["chat"], "ann")  # type: ignore[type-var]
        stable = asyncio.create_task(agent.wait_until_stable(timeout=PATIENCE))
        await client.ask("r2")
        await client.settled()
        assert not stable.done()
        gate.open()
        assert await stable
        assert [message["id"] for message in (await stored(url))[::2]] == ["u-r1", "u-r2"]
        assert len(await stored(url)) == 4


async def test_a_commit_that_is_larger_than_a_page_reaches_the_client_whole_and_in_order() -> None:
    words = [f"{number:04}" + "w" * 100_000 for number in range(40)]
    async with serving(chat(scripted(words))) as url, socket(url) as client:
        await client.ask("r1")
        assert (await client.ended("r1"))["outcome"] == "completed"
        deltas = [frame["body"] for frame in client.frames if '"text-delta"' in frame.get("body", "")]
        assert [json.loads(body)["delta"] for body in deltas] == words
