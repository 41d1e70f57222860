"""SIGTERM to a real `everyword serve`: running turns may finish, new ones wait, the rest goes on next time."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from tests.cli.kit import Running, running
from tests.server.kit import PATIENCE, connect, text_of
from tests.server.sockets import Frame, Socket, socket

pytestmark = pytest.mark.crash

APP = """
import asyncio, os
from everyword import AIChatAgent, Everyword, Turn

class Chat(AIChatAgent):
    async def on_chat_message(self, turn: Turn):
        note(f"attempt {{turn.attempt}} of {{turn.id}}")
        if self.messages[-1].role == "user":
            yield "One, two, "
            await gate(turn.id)
        yield "three."

    async def on_chat_recovery(self, ctx):
        note(f"asked about {{ctx.request_id}}: {{ctx.cause}} {{ctx.attempt}} {{ctx.partial and ctx.partial.text}}")
        return await super().on_chat_recovery(ctx)

def note(line):
    with open("notes.txt", "a") as notes:
        print(line, file=notes)

async def gate(name):
    # A pipe that the test writes to: turns cannot be asked to open gates once none may start.
    opened, loop = asyncio.Event(), asyncio.get_running_loop()
    pipe = os.open(f"{{name}}.gate", os.O_RDWR | os.O_NONBLOCK)
    loop.add_reader(pipe, opened.set)
    try:
        await opened.wait()
    finally:
        loop.remove_reader(pipe)
        os.close(pipe)

app = Everyword([Chat], store="log.db")
app.grace = {grace}
"""
LONG = 60.0
"""Seconds of grace that no test waits for."""
LISTENS = 0.5
"""Seconds for which a stopping server is talked to; the web server looks for signals every tenth of one."""
WHOLE = "One, two, three."
HALF = "One, two, "


class Stage:
    """A folder with an app, its log, its gates and its notes."""

    def __init__(self, folder: Path, *requests: str) -> None:
        self.folder = folder
        self._gates: dict[str, int] = {}
        """Held open, because a pipe without an open end loses what was written to it."""
        for request in requests:
            os.mkfifo(folder / f"{request}.gate")
            self._gates[request] = os.open(folder / f"{request}.gate", os.O_RDWR | os.O_NONBLOCK)

    @asynccontextmanager
    async def process(self, grace: float = LONG) -> AsyncIterator[tuple[Running, str]]:
        (self.folder / "app.py").write_text(APP.format(grace=grace), encoding="utf-8")
        async with running("serve", "app.py", "--port", "0", folder=self.folder) as server:
            yield server, await server.url()

    def open(self, request: str) -> None:
        """Let the answer to this request go on, now or when it comes to its gate."""
        os.write(self._gates[request], b"!")

    def close(self) -> None:
        for pipe in self._gates.values():
            os.close(pipe)

    @property
    def notes(self) -> list[str]:
        return (self.folder / "notes.txt").read_text(encoding="utf-8").splitlines()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path, "r1", "r2", "r3")
    yield made
    made.close()


async def asked(client: Socket, request: str = "r1") -> None:
    """Ask, and wait until the answer stands in its middle."""
    await client.ask(request, f"question {request}")
    await client.until(lambda frame: says(frame, request, HALF.rsplit(maxsplit=1)[-1]))


def says(frame: Frame, request: str, words: str) -> bool:
    return frame.get("id") == request and words in frame.get("body", "") and not frame.get("done")


async def told_to_stop(server: Running, url: str, *clients: Socket) -> None:
    """Send SIGTERM, wait until the server says that it stops, and see that it still listens."""
    server.process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(PATIENCE):
        while await _is_ready(url):
            pass
    await talked_to(*clients)


async def talked_to(*clients: Socket) -> None:
    """Ask the server things for a while, and get answers."""
    until = asyncio.get_running_loop().time() + LISTENS
    while asyncio.get_running_loop().time() < until:
        for client in clients:
            await client.settled()


async def _is_ready(url: str) -> bool:
    async with connect(url) as client:
        return (await client.get("/healthz")).json() == {"status": "ready"}


async def rest(client: Socket) -> tuple[int, list[Frame]]:
    """Read until the server closes; return the code and all frames."""
    with pytest.raises(ConnectionClosed) as over:
        await client.until(lambda _: False)
    assert over.value.rcvd is not None
    return over.value.rcvd.code, client.frames


async def texts(url: str) -> list[str]:
    async with connect(f"{url}/agents/chat/ann") as client:
        return [text_of(message) for message in (await client.get("get-messages")).json()]


async def stopped(server: Running) -> None:
    assert await server.ended() in (0, -signal.SIGTERM)
    assert "Traceback" not in server.said


def ends(frames: list[Frame], request: str) -> list[Any]:
    return [frame["outcome"] for frame in frames if frame.get("id") == request and frame.get("done")]


async def test_clients_see_a_running_answer_finish_within_the_grace(stage: Stage) -> None:
    async with stage.process() as (server, url):
        async with socket(url) as client, socket(url) as other:
            await asked(client)
            await told_to_stop(server, url, client, other)
            stage.open("r1")
            for each in (client, other):
                code, frames = await rest(each)
                assert (ends(frames, "r1"), code) == (["completed"], 1012)
            assert any(says(frame, "r1", "three.") for frame in client.frames)
        await stopped(server)
    async with stage.process() as (_, url):
        assert await texts(url) == ["question r1", WHOLE]
    assert stage.notes == ["attempt 1 of r1"], "what finished is not begun again"


async def test_a_question_asked_while_the_server_stops_is_taken_and_answered_by_the_next_one(stage: Stage) -> None:
    async with stage.process() as (server, url):
        async with socket(url) as client, socket(url) as other, socket(url, name="bob") as neighbour:
            await asked(client)
            await asked(neighbour, "r3")
            await told_to_stop(server, url, client, other)
            await client.ask("r2", "question r2")
            await other.until(lambda frame: "question r2" in str(frame.get("messages")))
            stage.open("r1")
            await client.ended("r1")
            await talked_to(client, other)  # while the neighbour's answer keeps the server from stopping
            stage.open("r3")
            code, frames = await rest(client)
            assert (code, ends(frames, "r1"), ends(frames, "r2")) == (1012, ["completed"], [])
            assert ends((await rest(neighbour))[1], "r3") == ["completed"]
        await stopped(server)
    assert stage.notes == ["attempt 1 of r1", "attempt 1 of r3"], "nothing is begun while the server stops"
    stage.open("r2")
    async with stage.process() as (_, url):
        async with socket(url) as client:
            await client.send(type="cf_agent_stream_resume_ack", id="r2")
            assert (await client.ended("r2"))["outcome"] == "completed"
        assert await texts(url) == ["question r1", WHOLE, "question r2", WHOLE]
    assert stage.notes[2:] == ["attempt 1 of r2"]


async def test_an_answer_that_takes_longer_than_the_grace_is_left_open_and_goes_on_in_the_next_process(
    stage: Stage,
) -> None:
    async with stage.process(grace=0.2) as (server, url):
        async with socket(url) as client:
            await asked(client)
            server.process.send_signal(signal.SIGTERM)
            code, frames = await rest(client)
            assert (code, ends(frames, "r1")) == (1012, []), "being stopped is not an end"
        await stopped(server)
    async with stage.process() as (_, url):
        async with socket(url) as client:
            await client.send(type="cf_agent_stream_resume_ack", id="r1")
            assert (await client.ended("r1"))["outcome"] == "completed"
        assert await texts(url) == ["question r1", WHOLE]


async def test_the_next_process_asks_the_agent_what_becomes_of_the_turn(stage: Stage) -> None:
    async with stage.process(grace=0.2) as (server, url):
        async with socket(url) as client:
            await asked(client)
            server.process.send_signal(signal.SIGTERM)
            await rest(client)
        await stopped(server)
    async with stage.process() as (_, url):
        async with socket(url) as client:
            await client.send(type="cf_agent_stream_resume_ack", id="r1")
            await client.ended("r1")
    assert stage.notes == ["attempt 1 of r1", f"asked about r1: shutdown 2 {HALF}", "attempt 2 of r1"]


async def test_what_waited_behind_a_running_answer_still_waits_for_the_next_process(stage: Stage) -> None:
    async with stage.process() as (server, url):
        async with socket(url) as client:
            await asked(client)
            await client.ask("r2", "question r2")
            await client.settled()
            server.process.send_signal(signal.SIGTERM)
            stage.open("r1")
            await rest(client)
        await stopped(server)
    assert "attempt 1 of r2" not in stage.notes
    stage.open("r2")
    async with stage.process() as (_, url):
        async with socket(url) as client:
            await client.send(type="cf_agent_stream_resume_ack", id="r2")
            assert (await client.ended("r2"))["outcome"] == "completed"
        assert await texts(url) == ["question r1", WHOLE, "question r2", WHOLE]


async def test_a_server_with_nothing_to_do_stops_at_once_and_its_clients_know_that_they_may_come_back(
    stage: Stage,
) -> None:
    async with stage.process() as (server, url):
        async with socket(url) as client:
            await client.greeted()
            server.process.send_signal(signal.SIGTERM)
            code, _ = await rest(client)
            assert code == 1012
        await stopped(server)


async def test_two_deploys_in_one_answer_leave_one_message_and_no_end_between_them(stage: Stage) -> None:
    for life in (1, 2):
        async with stage.process(grace=0.1) as (server, url):
            async with socket(url) as client:
                if life == 1:
                    await asked(client)
                else:
                    await client.until(lambda frame: frame["type"] in ("cf_agent_stream_resuming", "cf_agent_identity"))
                server.process.send_signal(signal.SIGTERM)
                await rest(client)
            await stopped(server)
    async with stage.process() as (_, url):
        async with socket(url) as client:
            await client.send(type="cf_agent_stream_resume_ack", id="r1")
            assert (await client.ended("r1"))["outcome"] == "completed"
        assert await texts(url) == ["question r1", WHOLE]
    assert sum(line.startswith("attempt 1") for line in stage.notes) == 1
