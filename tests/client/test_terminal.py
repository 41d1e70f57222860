"""The chat in the terminal, over pipes."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
from typing import Any

import pytest

from everyword.client.terminal import Terminal
from everyword.errors import ChatError
from everyword.testing import Gate
from tests.client.kit import PATIENCE, client, patiently
from tests.client.serving import ROOT
from tests.client.test_chat import FINISH, asks, call, two_steps
from tests.server.kit import chat, scripted, serving


async def typed(script: Any, lines: str, **options: Any) -> tuple[int, str]:
    """Type lines, end the input, and return the exit status and the output."""
    out = io.StringIO()
    async with serving(chat(scripted(script))) as url, client(url, **options) as me:
        status = await patiently(Terminal(me, io.StringIO(lines), out).run())
    return status, out.getvalue()


async def test_a_growing_answer_is_printed_once() -> None:
    assert await typed(["Hel", "lo ", "world"], "hi\n") == (0, "Hello world\n")


async def test_a_failure_is_printed_and_sets_the_exit_status() -> None:
    assert await typed(["Half", ChatError("shown")], "hi\n") == (1, "Half\n[error] shown\n")


@pytest.mark.parametrize(("word", "outcome"), [("y", "Thanks."), ("n", "Thanks."), ("", "Thanks.")])
async def test_an_approval_is_asked_for(word: str, outcome: str) -> None:
    agent = two_steps(["May I? ", call("pay", {"amount": 5}), asks(), FINISH], [outcome])
    status, out = await typed(agent, f"go\n{word}\n")
    assert status == 0
    assert 'allow pay({"amount": 5})? [y/N]' in out
    assert ("[pay denied" in out) is (word != "y")
    assert out.endswith("Thanks.\n")


async def test_tool_calls_are_printed_as_they_run() -> None:
    def locate() -> str:
        return "at sea"

    agent = two_steps(["Where? ", call("locate", {}), FINISH], ["There."])
    status, out = await typed(agent, "hi\n", tools=[locate])
    assert status == 0
    assert '[locate done: "at sea"]' in out
    assert out.endswith("There.\n")


async def test_commands_clear_regenerate_and_quit() -> None:
    answers = iter([["A."], ["B."], ["C."]])
    status, out = await typed(lambda turn: next(answers), "hi\n/again\n/history\n/clear\n/history\n/quit\nnever\n")
    assert (status, out) == (0, "A.\nB.\nuser: hi\nassistant: B.\n")


async def test_the_first_interrupt_stops_the_turn_and_the_second_quits() -> None:
    out, gate = Screen(), Gate()
    async with serving(chat(scripted(["Half", gate]))) as url, client(url) as me:
        reading, writing = piped()
        terminal = Terminal(me, reading, out)
        running = asyncio.create_task(terminal.run())
        writing.write("hi\n")
        writing.flush()
        await patiently(out.until("Half"))
        terminal.interrupt()
        await patiently(out.until("[aborted]"))
        terminal.interrupt()
        assert await patiently(running) == 130
        writing.close()
        reading.close()
        assert me.outcome == "aborted"
        assert (await me.history())[-1].text == "Half"


class Screen(io.StringIO):
    """Output that can be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._written = asyncio.Event()

    def write(self, text: str) -> int:
        self._written.set()
        return super().write(text)

    async def until(self, text: str) -> None:
        while text not in self.getvalue():
            self._written.clear()
            await self._written.wait()


def piped() -> tuple[Any, Any]:
    """Return a text file that can be read line by line, and one that feeds it."""
    reading, writing = os.pipe()
    return os.fdopen(reading, "r"), os.fdopen(writing, "w")


async def test_the_command_works_over_pipes_and_ends_with_its_input() -> None:
    async with serving(chat(scripted(["Hello ", "you"]))) as url:
        status, out, _ = await command(url, "chat", "ann", lines=b"hi\n")
    assert (status, out) == (0, b"Hello you\n")


async def test_the_command_prints_why_it_cannot_connect() -> None:
    status, out, complaint = await command("gopher://nowhere", "chat", "ann")
    assert (status, out) == (1, b"")
    assert b"give a URL such as" in complaint


async def test_an_interrupt_of_the_command_stops_the_turn_the_next_one_quits() -> None:
    gate = Gate()
    async with serving(chat(scripted(["Half", gate]))) as url, client(url) as me:
        process = await start(url, "chat", "ann")
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"hi\n")
        assert await patiently(process.stdout.readexactly(4)) == b"Half"
        process.send_signal(signal.SIGINT)
        assert await patiently(process.stdout.readline()) == b" [aborted]\n"
        process.send_signal(signal.SIGINT)
        assert await patiently(process.wait()) == 130
        assert (await me.history())[-1].text == "Half"


async def start(*arguments: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "everyword.client", *arguments), cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe
    )


async def command(*arguments: str, lines: bytes = b"") -> tuple[int | None, bytes, bytes]:
    process = await start(*arguments)
    async with asyncio.timeout(PATIENCE):
        out, complaint = await process.communicate(lines)
    return process.returncode, out, complaint
