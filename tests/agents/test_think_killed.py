"""A real process is killed in the middle of a tool call: the next one tells the model, and does not repeat it."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from holdfast.log.sqlite.store import SqliteLog
from holdfast.messages.calls import tool_parts
from holdfast.messages.message import UIMessage
from holdfast.messages.repair import INTERRUPTED
from tests.agents.think_post import AGENT

PATIENCE = 60.0
ROOT = Path(__file__).resolve().parents[2]


async def live(folder: Path, how: str, *, until: str) -> list[str]:
    """Run a process until it says `until`, then kill it; return what it had said."""
    arguments = [str(folder / "log.db"), str(folder / "effects"), how]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.agents.think_post", *arguments, stdout=PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    said: list[str] = []
    try:
        async with asyncio.timeout(PATIENCE):
            while until not in said:
                line = await process.stdout.readline()
                assert line, f"it went by itself, having said {said}"
                said.append(line.decode().strip())
    finally:
        process.kill()
        await process.communicate()
    return said


async def conversation(folder: Path) -> list[UIMessage]:
    store = SqliteLog(folder / "log.db")
    await store.open()
    try:
        return [UIMessage.decode(row.body) for row in await store.messages(AGENT) if row.body is not None]
    finally:
        await store.aclose()


@pytest.mark.crash
async def test_a_call_that_was_killed_behind_its_effect_is_reported_to_the_model_and_not_made_again(
    tmp_path: Path,
) -> None:
    assert await live(tmp_path, "hang", until="did send") == ["did send"]
    assert await live(tmp_path, "work", until="settled") == ["settled"]
    question, answer = await conversation(tmp_path)
    (part,) = tool_parts(answer)
    assert (tmp_path / "effects").read_text(encoding="utf-8") == "hello\n"
    assert (part["state"], part["errorText"]) == ("output-error", INTERRUPTED)
    assert (question.text, answer.text) == ("write to her", f"I was told: {INTERRUPTED}")
