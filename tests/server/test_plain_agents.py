"""Agents that do not chat, and agents that take too long to start."""

from __future__ import annotations

import asyncio

import pytest

from everyword import Agent, Everyword
from everyword.ids import AgentId
from everyword.runtime import activating
from tests.server.kit import chat, connect, question, scripted, serving, talking


class Counter(Agent):
    initial_state = 0


async def test_a_question_to_an_agent_that_does_not_chat_is_refused_and_leaves_nothing() -> None:
    app = Everyword([Counter], store="memory:")
    async with serving(app) as url, connect(url) as client:
        answer = await client.post(f"{url}/agents/counter/ann/chat", json=question())
        assert answer.status_code == 404
        assert "unable to chat" in answer.text
        assert await app._directory.store.conversation(AgentId("counter/ann")) == (None, [])


async def test_an_agent_whose_start_never_ends_is_used_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(activating, "START_LIMIT", 0.01)

    async def on_start(self: object) -> None:
        await asyncio.Event().wait()

    async with talking(chat(scripted(["still here"], on_start=on_start))) as client:
        answer = await client.post("chat", json=question())
        assert "still here" in answer.text
    assert "took longer than" in caplog.text
