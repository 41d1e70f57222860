"""A real process is killed with its tools' effects in a file: what must not happen twice does not."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from everyword.log.sqlite.store import SqliteLog
from everyword.messages.message import Part, UIMessage
from everyword.messages.repair_tool_calls import INTERRUPTED
from everyword.messages.tool_calls import tool_parts
from tests.agents.bases import BASES
from tests.crash.proofs import check_log, check_projections, read_all
from tests.crash.shop import AGENT

ROOT = Path(__file__).resolve().parents[2]


class Nursery:
    """Begets processes that have imported everything already."""

    def __init__(self) -> None:
        self._program = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.shop"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
        )

    def beget(self, arguments: list[str]) -> None:
        assert self._program.stdin is not None
        self._program.stdin.write(json.dumps(arguments).encode() + b"\n")
        self._program.stdin.flush()

    def line(self) -> str:
        assert self._program.stdout is not None
        return self._program.stdout.readline().decode().strip()

    def close(self) -> None:
        self._program.communicate()


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    program = Nursery()
    yield program
    program.close()


class Shop:
    """One log and one file of effects, and the processes that die over them."""

    def __init__(self, folder: Path, base: str, nursery: Nursery) -> None:
        self._base, self._nursery = base, nursery
        self._log, self._effects = folder / "log.db", folder / "effects"

    async def live(self, how: str, *action: str, until: str) -> list[str]:
        """Run a process until it says `until`, then kill it; return what it had said."""
        self._nursery.beget([self._base, str(self._log), str(self._effects), how, *action])
        said, pid = list[str](), 0
        while until not in said or not pid:
            line = await asyncio.to_thread(self._nursery.line)
            assert line not in ("dead", ""), f"it went by itself, having said {said}"
            if line.startswith("pid "):
                pid = int(line.removeprefix("pid "))
            else:
                said.append(line)
        os.kill(pid, signal.SIGKILL)
        while (line := await asyncio.to_thread(self._nursery.line)) != "dead":
            said.append(line)
        return said

    @property
    def effects(self) -> list[str]:
        return self._effects.read_text(encoding="utf-8").splitlines() if self._effects.exists() else []

    async def answer(self, number: int = 1) -> tuple[str, Part]:
        """Check the log; return the text of an answer and its call."""
        store = SqliteLog(self._log)
        await store.open()
        try:
            check_log(await read_all(store, AGENT))
            await check_projections(store, AGENT)
            messages = [
                UIMessage.decode(row.body) for row in (await store.conversation(AGENT))[1] if row.body is not None
            ]
        finally:
            await store.aclose()
        (answer,) = (message for message in messages if message.id == f"a{number}")
        (part,) = tool_parts(answer)
        return answer.text, part


@pytest.fixture(params=BASES)
def shop(request: pytest.FixtureRequest, tmp_path: Path, nursery: Nursery) -> Shop:
    return Shop(tmp_path, request.param, nursery)


@pytest.mark.crash
async def test_a_tool_killed_behind_its_effect_is_not_run_again_and_the_model_is_told(shop: Shop) -> None:
    await shop.live("hang", "ask", "send", until="did send")
    assert await shop.live("work", "settle", until="settled") == ["settled"]
    text, part = await shop.answer()
    assert shop.effects == ["send shop/ann/a1/k-send"]
    assert (part["state"], part["errorText"]) == ("output-error", INTERRUPTED)
    assert text == f"output-error: {INTERRUPTED}"


@pytest.mark.crash
async def test_an_idempotent_tool_killed_behind_its_effect_is_run_again_under_the_same_key(shop: Shop) -> None:
    await shop.live("hang", "ask", "look", until="did look")
    await shop.live("work", "settle", until="settled")
    text, part = await shop.answer()
    assert shop.effects == ["look shop/ann/a1/k-look"] * 2
    assert (part["state"], text) == ("output-available", "output-available: done")


@pytest.mark.crash
async def test_an_approval_outlives_every_process_between_the_question_and_the_effect(shop: Shop) -> None:
    await shop.live("work", "ask", "refund", until="asks")
    assert await shop.live("work", "settle", until="asks") == ["asks"]
    assert shop.effects == []
    assert await shop.live("still", "approve", "k-refund", until="answered") == ["answered"]
    assert shop.effects == [], "it was killed between the approval and the call"
    assert await shop.live("work", "settle", until="settled") == ["did refund", "settled"]
    assert await shop.live("work", "approve", "k-refund", until="settled") == ["refused", "settled"]
    text, part = await shop.answer()
    assert shop.effects == ["refund shop/ann/a1/k-refund"]
    assert (part["state"], text) == ("output-available", "output-available: done")


@pytest.mark.crash
async def test_an_approved_tool_killed_behind_its_effect_is_not_run_again(shop: Shop) -> None:
    await shop.live("work", "ask", "refund", until="asks")
    await shop.live("hang", "approve", "k-refund", until="did refund")
    await shop.live("work", "settle", until="settled")
    text, part = await shop.answer()
    assert shop.effects == ["refund shop/ann/a1/k-refund"]
    assert (part["state"], text) == ("output-error", f"output-error: {INTERRUPTED}")


@pytest.mark.crash
async def test_a_call_approved_behind_a_later_answer_runs_once_whatever_is_killed(shop: Shop) -> None:
    await shop.live("work", "ask", "refund", until="asks")
    await shop.live("work", "then", "look", until="settled")
    assert await shop.live("hang", "approve", "k-refund", until="did refund") == ["answered", "did refund"]
    await shop.live("work", "settle", until="settled")
    assert await shop.live("work", "approve", "k-refund", until="settled") == ["refused", "settled"]
    text, part = await shop.answer()
    assert shop.effects == ["look shop/ann/a3/k-look", "refund shop/ann/a1/k-refund"]
    assert (part["state"], part["errorText"], text) == ("output-error", INTERRUPTED, "")
    assert (await shop.answer(3))[0] == "output-available: done"


@pytest.mark.crash
async def test_a_call_approved_behind_a_later_answer_leaves_its_output_in_the_old_message(shop: Shop) -> None:
    await shop.live("work", "ask", "refund", until="asks")
    await shop.live("work", "then", "look", until="settled")
    assert "did refund" in await shop.live("work", "approve", "k-refund", until="settled")
    text, part = await shop.answer()
    assert shop.effects == ["look shop/ann/a3/k-look", "refund shop/ann/a1/k-refund"]
    assert (part["state"], part["output"], text) == ("output-available", "done", "")
