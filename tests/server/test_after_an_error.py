"""Coming back after a turn has failed: whenever that is, the partial answer and the error are there."""

from __future__ import annotations

import json

import pytest

from everyword.errors import ChatError
from everyword.testing import Gate, ManualClock
from tests.server.kit import chat, scripted, serving
from tests.server.sockets import socket


@pytest.mark.obligation("000-Q2")
async def test_a_client_back_within_half_a_second_of_an_error_sees_text_and_error() -> None:
    clock = ManualClock()
    app = chat(scripted(["Hel", "lo", ChatError("out of quota")]))
    app.clock = clock
    async with serving(app) as url:
        async with socket(url) as asker:
            await asker.ask("r1")
            live = await asker.ended("r1")
        for _ in range(11):
            async with socket(url) as back:
                await back.greeted()
                await back.send(type="cf_agent_stream_resume_request", probeId="p")
                await back.until(lambda frame: frame["type"] == "cf_agent_stream_resuming" and frame["id"] == "r1")
                await back.send(type="cf_agent_stream_resume_ack", id="r1")
                end = await back.ended("r1")
                said = [
                    json.loads(f["body"])
                    for f in back.frames
                    if f.get("id") == "r1" and f.get("body") and not f.get("error")
                ]
                assert "".join(chunk.get("delta", "") for chunk in said) == "Hello"
                assert (end["body"], end["error"], end["outcome"]) == (live["body"], True, "error")
                assert end["body"] == "out of quota"
            clock.advance(0.05)


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_a_replay_of_a_turn_that_did_not_complete_has_no_finish_chunk(is_stopped: bool) -> None:
    gate = Gate()
    last = gate if is_stopped else ChatError("out of quota")
    async with serving(chat(scripted(["Hel", last]))) as url:
        async with socket(url) as asker:
            await asker.ask("r1")
            if is_stopped:
                await gate.reached.wait()
                await asker.send(type="cf_agent_chat_request_cancel", id="r1")
            await asker.ended("r1")
        async with socket(url) as back:
            await back.greeted()
            await back.send(type="cf_agent_stream_resume_ack", id="r1")
            await back.ended("r1")
            replayed = [
                json.loads(frame["body"])["type"]
                for frame in back.frames
                if frame.get("replay") and frame.get("body") and not frame.get("done")
            ]
    assert "text-delta" in replayed
    assert "finish" not in replayed
