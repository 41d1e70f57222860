"""Agents of processes that tests kill: an answer that was cut off continues after the words that are stored."""

from __future__ import annotations

from typing import Any

from everyword.agents import AIChatAgent, Turn

__all__ = ["ContinuingChat", "words_left"]


def words_left(agent: AIChatAgent) -> list[tuple[int, str]]:
    """Return the words of the last question that the answer does not have yet, with their numbers."""
    question = next(message for message in reversed(agent.messages) if message.role == "user").text
    said = agent.messages[-1].text if agent.messages[-1].role == "assistant" else ""
    words = [f"{word} " for word in question.split()]
    return [(number, word) for number, word in enumerate(words) if len("".join(words[:number])) >= len(said)]


class ContinuingChat(AIChatAgent):
    """Says the words of the question. In the first attempts, as many as `hold` says, it stops in the middle."""

    async def on_chat_message(self, turn: Turn) -> Any:
        question = next(message for message in reversed(self.messages) if message.role == "user").text
        middle = len(question.split()) // 2
        for number, word in words_left(self):
            if number == middle and turn.attempt <= turn.body.get("hold", 0):
                await turn.cancelled
            yield word
