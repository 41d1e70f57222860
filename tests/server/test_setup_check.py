"""A model that cannot be used is told at the start, not by the first question; and nothing waits for it."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from everyword.agents import Think
from everyword.server import Everyword, setup_check
from everyword.server.setup_check import SetupCheck
from tests.server.kit import PATIENCE, connect, serving


class Support(Think):
    model = "openai:gpt-5.2"


@pytest.fixture(autouse=True)
def without_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


async def test_a_missing_key_is_logged_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    check = SetupCheck()
    check.begin([Support])
    await check.finished()
    (record,) = [each for each in caplog.records if each.name == "everyword.server"]
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith("Support cannot answer: unable to use the model 'openai:gpt-5.2'; Set the")
    await check.end()


async def test_the_app_looks_when_it_starts_and_serves_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    app = Everyword([Support], store="memory:")
    async with serving(app) as url, connect(url) as client:
        assert (await client.get("/healthz")).status_code == 200
        await app._setup.finished()
    assert "Support cannot answer: " in caplog.text and "OPENAI_API_KEY" in caplog.text


async def test_ending_does_not_wait_for_a_look_that_takes_long(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def slow(classes: object) -> list[tuple[type[Think], str]]:
        begun.set()
        assert may_end.wait(PATIENCE)
        return [(Support, "too late")]

    monkeypatch.setattr(setup_check, "setup_problems", slow)
    check = SetupCheck()
    check.begin([Support])
    assert await asyncio.to_thread(begun.wait, PATIENCE)
    await check.end()
    assert not may_end.is_set()
    may_end.set()
    await check.finished()
    assert "too late" not in caplog.text


async def test_a_key_that_is_there_is_not_talked_about(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    check = SetupCheck()
    check.begin([Support])
    await check.finished()
    assert [each for each in caplog.records if each.name == "everyword.server"] == []
