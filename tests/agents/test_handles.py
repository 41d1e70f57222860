"""Agents used by other code: `app.get(Chat, "ann")`, beside or without any client."""

from __future__ import annotations

import pytest

from everyword import AIChatAgent, Everyword, Turn
from everyword.errors import UsageError


class Chat(AIChatAgent):
    async def on_chat_message(self, turn: Turn):  # type: ignore[no-untyped-def]
        yield f"re {self.messages[-1].text}"


class Other(AIChatAgent):
    pass


def user(text: str) -> dict[str, object]:
    return {"id": text, "role": "user", "parts": [{"type": "text", "text": text}]}


async def test_an_agent_can_be_asked_from_outside_and_read_afterwards() -> None:
    async with Everyword([Chat], store="memory:") as app:
        result = await app.get(Chat, "ann").save_messages([user("hi")])
        assert result.status == "completed"
        assert [message.text for message in app.get(Chat, "ann").messages] == ["hi", "re hi"]


async def test_reading_an_agent_that_is_not_loaded_says_what_to_do() -> None:
    async with Everyword([Chat], store="memory:") as app:
        agent = app.get(Chat, "bob")
        with pytest.raises(UsageError, match="load"):
            _ = agent.messages
        await agent.load()
        assert agent.messages == []


async def test_an_app_that_does_not_run_or_serve_the_class_says_so() -> None:
    app = Everyword([Chat], store="memory:")
    with pytest.raises(UsageError, match="not running"):
        app.get(Chat, "ann")
    async with app:
        with pytest.raises(UsageError, match="does not serve"):
            app.get(Other, "ann")
