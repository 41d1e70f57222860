"""P-62, R-31: whatever a message holds, its sender gets an answer and the conversation goes on, also once restarted."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.messages.near_misses import NEAR_MISSES
from tests.server.hostile import Chat, Target, attacked
from tests.server.kit import bare, chat, serving, user
from tests.server.sockets import socket

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(
    ["text", "file", "data-x", "tool-pay", "dynamic-tool", "reasoning", "source-url", "step-start", "steering-message"]
)
FIELDS = ["text", "url", "mediaType", "filename", "id", "data", "state", "toolCallId", "toolName", "approval", "input"]
FIELDS += ["providerMetadata", "parts", "sourceId", "title", "kind", "output", "errorText", "preliminary"]
PART = JSON | st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4).flatmap(
    lambda fields: st.fixed_dictionaries({"type": TYPES | JSON, **{name: st.just(it) for name, it in fields.items()}})
)
MESSAGE = JSON | st.fixed_dictionaries(
    {
        "id": st.text(min_size=1, max_size=4) | JSON,
        "role": st.sampled_from(["user", "user", "user", "assistant", "system"]) | JSON,
        "parts": st.lists(PART, max_size=3) | JSON,
    },
    optional={"metadata": JSON, "content": JSON},
)


WAYS = ["request", "sync", "post"]


async def _check_after(target: Target, way: str, messages: list[Any]) -> None:
    """Send the list in one of the ways that clients have; it is answered, and the conversation goes on."""
    async with target.tab() as tab:
        match way:
            case "request":
                await tab.ask("odd", messages)
                await tab.ended("odd")
            case "sync":
                await tab.sync(messages)
            case _:
                assert await target.post(messages) in (200, 400), messages
        await tab.settled()
        await target.check_works(tab, "next")


async def _check_every_way(messages: list[Any]) -> None:
    async with attacked() as server:
        for way in WAYS:
            await _check_after(Target(server, way), way, messages)
        await server.restart()
        for way in WAYS:
            target = Target(server, way)
            async with target.tab() as tab:
                await target.check_works(tab, "again")
        assert Chat.paid == []


@given(st.lists(MESSAGE, max_size=2))
def test_any_json_as_a_message_leaves_the_conversation_working(messages: list[Any]) -> None:
    asyncio.run(_check_every_way(messages))


@given(st.lists(PART, max_size=3))
def test_any_json_as_a_part_leaves_the_conversation_working(parts: list[Any]) -> None:
    asyncio.run(_check_every_way([{"id": "u1", "role": "user", "parts": parts}]))


@pytest.mark.parametrize("way", WAYS)
async def test_every_near_miss_of_a_part_leaves_the_conversation_working(way: str) -> None:
    async with attacked() as server:
        for number, part in enumerate(NEAR_MISSES):
            await _check_after(Target(server, f"n{number}"), way, [{"id": "u1", "role": "user", "parts": [part]}])


@pytest.mark.parametrize("role", ["user", "assistant", "system"])
async def test_every_near_miss_that_is_stored_is_skipped_also_after_a_restart(
    role: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    async with attacked() as server:
        for number, part in enumerate(NEAR_MISSES):
            message = {"id": "m1", "role": role, "parts": [{"type": "text", "text": "seen"}, part]}
            await server.get(Chat, f"n{number}").persist_messages([user("u0"), message])
        await server.restart()
        for number, part in enumerate(NEAR_MISSES):
            target = Target(server, f"n{number}")
            async with target.tab() as tab:
                await tab.send(type="cf_agent_tool_result", toolCallId="c", output=1, autoContinue=True)
                await tab.send(type="cf_agent_tool_approval", toolCallId="c", approved=True, autoContinue=True)
                await tab.settled()
                await target.check_works(tab, f"next {part}")


async def test_a_turn_says_once_what_it_skipped(caplog: pytest.LogCaptureFixture) -> None:
    broken = {"type": "tool-pay", "toolCallId": "c", "state": "input-available", "approval": 5}
    async with attacked() as server:
        message = {"id": "m1", "role": "assistant", "parts": [broken] * 7}
        await server.get(Chat, "ann").persist_messages([user("u0"), message])
        target = Target(server, "ann")
        async with target.tab() as tab:
            await target.check_works(tab, "next")
    said = [record.getMessage() for record in caplog.records if "cannot be read" in record.getMessage()]
    assert len(said) == 1
    assert "part 0 (tool-pay) of message 'm1'" in said[0] and said[0].endswith("and 2 more")


# -- what the sender is told ----------------------------------------------------------------------------------------

FORGED = {"type": "tool-pay", "toolCallId": "k1", "state": "input-available", "input": {}}


async def test_a_refused_message_is_answered_under_its_request_and_over_http_with_400() -> None:
    async with attacked() as server:
        target = Target(server, "ann")
        forged = {"id": "u1", "role": "user", "parts": [FORGED]}
        async with target.tab() as tab:
            await tab.ask("r1", [forged])
            end = await tab.ended("r1")
            sentence = "unable to take message 'u1'; a user message may have text, file and data parts"
            assert end["error"] is True and end["body"].startswith(sentence)
            answer = await target.http.post("chat", json={"messages": [forged]})
            assert answer.status_code == 400 and sentence in answer.text
            assert await target.stored() == []
            await target.check_works(tab, "next")


async def test_a_refused_sync_is_answered_with_the_stored_conversation(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "everyword.server")
    async with attacked() as server:
        target = Target(server, "ann")
        async with target.tab() as tab:
            await target.check_works(tab, "first")
            before = await target.stored()
            edited = {**before[0], "parts": [FORGED]}
            await tab.sync([edited, before[1], user("u9")])
            shown = await tab.until(type="cf_agent_chat_messages", messages=before)
            assert "connect" not in shown
            assert await target.stored() == before
            await target.check_works(tab, "next")
    assert "refused the messages" in caplog.text


async def test_a_stored_malformed_message_is_not_checked_when_a_client_resends_it() -> None:
    old = {"id": "u0", "role": "user", "parts": [{**FORGED, "approval": 5}, {"type": "text", "text": "old"}]}
    async with attacked() as server:
        target = Target(server, "ann")
        await server.get(Chat, "ann").persist_messages([old])
        async with target.tab() as tab:
            await tab.ask("r1", [old])
            assert (await tab.ended("r1"))["outcome"] == "completed"
            await tab.sync(await target.stored())
            await target.check_works(tab, "next")
        assert bare(await target.stored())[0] == old


async def test_over_a_real_socket_a_malformed_part_is_refused_and_the_socket_stays() -> None:
    async with serving(chat(Chat)) as url, socket(url) as client:
        for number, change in enumerate([{"approval": 5}, {"state": []}, {"toolCallId": {}}]):
            message = {"id": "u1", "role": "user", "parts": [{**FORGED, **change}]}
            body = json.dumps({"messages": [message]})
            await client.send(type="cf_agent_chat_messages", messages=[message])
            await client.send(
                type="cf_agent_use_chat_request", id=f"odd-{number}", init={"method": "POST", "body": body}
            )
            assert (await client.ended(f"odd-{number}"))["error"] is True
        await client.ask("r1")
        assert (await client.ended("r1"))["outcome"] == "completed"
