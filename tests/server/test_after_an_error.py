"""Coming back after a turn has failed: whenever that is, the partial answer and the error are there."""

from __future__ import annotations

import json

import pytest

from everyword.errors import ChatError
from everyword.testing import ManualClock
from tests.server.kit import chat, scripted, serving
from tests.server.sockets import socket


@pytest.mark.obligation("000-Q2")
async def test_whoever_comes_back_within_half_a_second_of_an_error_sees_the_partial_and_the_error() -> None:
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
            clock.advance(50)
