"""P-61, R-32: ids that clients invent have one limit, which is checked before anything is stored."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from everyword.ids import LONGEST_ID
from tests.server.hostile import Chat, Target, attacked
from tests.server.kit import chat, connect, serving, user
from tests.server.sockets import socket

LONG = "x" * (LONGEST_ID + 1)
FITS = "é" * (LONGEST_ID // 2)
WIDE = "é" * (LONGEST_ID // 2) + "x"


@pytest.mark.parametrize("name", [LONG, WIDE, "y" * 1_000_000])
async def test_a_request_with_a_long_id_is_refused_under_the_beginning_of_it(name: str) -> None:
    async with attacked() as server:
        target = Target(server, "ann")
        async with target.tab() as tab:
            await tab.ask(name, [user("u1")])
            end = await tab.until(done=True, error=True)
            assert name.startswith(end["id"]) and LONGEST_ID - 4 < len(end["id"].encode()) <= LONGEST_ID
            assert f"its id has {len(name.encode())} bytes, and 512 is the limit" in end["body"]
            assert await target.stored() == []
            await target.check_works(tab, "next")


async def test_an_id_that_just_fits_is_taken() -> None:
    async with attacked() as server:
        target = Target(server, FITS)
        async with target.tab() as tab:
            await tab.ask(FITS, [user(FITS)])
            assert (await tab.ended(FITS))["outcome"] == "completed"
            assert (await target.stored())[0]["id"] == FITS


@pytest.mark.parametrize("way", ["request", "sync", "post"])
async def test_a_message_with_a_long_id_is_refused(way: str) -> None:
    async with attacked() as server:
        target = Target(server, "ann")
        async with target.tab() as tab:
            match way:
                case "request":
                    await tab.ask("r1", [user(LONG)])
                    assert "unable to take message" in (await tab.ended("r1"))["body"]
                case "sync":
                    await tab.sync([user(LONG)])
                    await tab.until(type="cf_agent_chat_messages", messages=[])
                case _:
                    assert await target.post([user(LONG)]) == 400
            assert await target.stored() == []
            await target.check_works(tab, "next")


async def test_a_clients_tool_with_a_long_name_is_refused() -> None:
    async with attacked() as server:
        target = Target(server, "ann")
        tools = [{"name": "fine"}, {"name": LONG}]
        async with target.tab() as tab:
            await tab.ask("r1", [user("u1")], clientTools=tools)
            assert "the name of a client's tool has 513 bytes" in (await tab.ended("r1"))["body"]
            assert await target.post([user("u1")], clientTools=tools) == 400
            assert await target.stored() == []
            await target.check_works(tab, "next")


@pytest.mark.parametrize(
    "frame", [{"id": LONG, "method": "nothing"}, {"id": "c1", "method": LONG}, {"id": LONG, "method": LONG}]
)
async def test_a_call_with_a_long_id_or_method_is_refused_in_few_words(frame: dict[str, str]) -> None:
    async with attacked() as server:
        target = Target(server, "ann")
        async with target.tab() as tab:
            await tab.send(type="rpc", **frame, args=[])
            told = await tab.until(type="rpc")
            assert told["success"] is False and "512 is the limit" in told["error"]
            assert frame["id"].startswith(told["id"]) and len(json.dumps(told)) < 1000
            await target.check_works(tab, "next")


async def test_frames_that_name_a_turn_by_a_long_id_do_nothing_and_repeat_none_of_it() -> None:
    async with attacked() as server:
        target = Target(server, "ann")
        async with target.tab() as tab:
            for kind in ("cf_agent_chat_request_cancel", "cf_agent_stream_resume_ack"):
                await tab.send(type=kind, id=LONG)
            await tab.send(type="cf_agent_stream_resume_request", probeId=LONG)
            await tab.until(type="cf_agent_stream_resume_none")
            await target.check_works(tab, "next")
        assert LONG not in str(tab.frames)


def _requests(url: str) -> list[tuple[str, str, dict[str, Any]]]:
    body = {"messages": [user("u1")]}
    return [
        ("POST", "chat", {"json": body, "headers": {"idempotency-key": LONG}}),
        ("GET", f"chat/stream?request={LONG}", {}),
        ("GET", f"chat/{LONG}/stream", {}),
        ("POST", f"chat/{LONG}/stop", {}),
        ("POST", "chat/stop", {"json": {"requestId": WIDE}}),
        ("GET", f"get-messages?before={LONG}", {}),
        ("GET", f"{url}/agents/chat/{LONG}/get-messages", {}),
        ("GET", f"{url}/agents/chat/{quote(WIDE)}/get-messages", {}),
        ("GET", f"{url}/agents/chat/ann/sub/worker/{LONG}/get-messages", {}),
    ]


async def test_over_http_every_long_id_is_a_400_with_a_short_sentence() -> None:
    async with serving(chat(Chat)) as url, connect(f"{url}/agents/chat/ann") as client:
        for method, path, options in _requests(url):
            answer = await client.request(method, path, **options)
            assert answer.status_code == 400, path
            assert answer.text.startswith("unable to") and len(answer.text) < 800, path
        assert (await client.get("get-messages")).json() == []


async def test_a_socket_with_a_long_name_for_itself_or_for_the_agent_is_turned_away() -> None:
    async with serving(chat(Chat)) as url:
        for query, name in ((f"?_pk={LONG}", "ann"), ("", LONG)):
            async with socket(url, query, name=name) as client:
                code, reason = await client.closed()
                assert code == 1008 and "513 bytes" in reason
        async with socket(url, f"?_pk={'x' * LONGEST_ID}") as client:
            await client.ask("r1")
            assert (await client.ended("r1"))["outcome"] == "completed"


async def test_over_a_real_socket_a_long_request_id_takes_no_memory_for_each_word() -> None:
    """The id is in the frame of every word of the answer."""
    async with serving(chat(Chat)) as url, socket(url) as client:
        body = json.dumps({"messages": [user("u1")]})
        huge = "z" * (8 * 1024 * 1024)
        await client.send(type="cf_agent_use_chat_request", id=huge, init={"method": "POST", "body": body})
        end = await client.until(lambda frame: frame.get("done") is True)
        assert end["error"] is True and len(end["id"]) == LONGEST_ID
        await client.ask("r1")
        assert (await client.ended("r1"))["outcome"] == "completed"
