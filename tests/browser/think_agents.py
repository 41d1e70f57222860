"""`Think` agents for the pages. Their model plays the question's script, as in `scripted_agents`, or is a provider's.

`{"then": [steps]}` is what the model says once its calls have their results.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, ClassVar, Final

from pydantic import BaseModel

from everyword.agents import SaveMessagesResult, Think, TurnContext
from tests.agents.bases import Asked, answering
from tests.browser.scripted_agents import BOOK, Chat, _exchange, _rest, _script
from tests.browser.tool_agents import Tooled

__all__ = ["THINKING", "Provided"]


class Thinker:
    """Plays the script, with the tools of `Tooled`."""

    search, refund, locate = (vars(Tooled)[name] for name in ("search", "refund", "locate"))
    _note, _play, on_chat_response = Tooled._note, Chat._play, Chat.on_chat_response

    async def reply(self, asked: Asked) -> AsyncIterator[Any]:
        question, answer = _exchange(asked.messages)
        BOOK.calls[self.name].append({"number": asked.number, "continuation": asked.turn.continuation})
        steps, said = _rest(_script(question), answer)
        async for piece in self._play(steps, asked.turn, said):
            yield piece


class Place(BaseModel):
    city: str


class Strict:
    """Has to end with a place, and never does."""

    output_retries = 1

    def before_turn(self, ctx: TurnContext) -> None:
        ctx.output_type = Place

    async def reply(self, asked: Asked) -> AsyncIterator[Any]:
        call = {"toolCallId": f"call-{asked.number}", "toolName": "final_result", "input": {"city": 7}}
        yield {"type": "tool-input-available", **call}


class Provided(Think):
    """Asks a provider, through its own SDK."""

    url: ClassVar[str]

    def get_model(self) -> Any:
        import openai
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        sdk = openai.AsyncOpenAI(base_url=f"{self.url}/v1", api_key="k", max_retries=0)
        return OpenAIChatModel("gpt-x", provider=OpenAIProvider(openai_client=sdk))

    async def on_chat_response(self, result: SaveMessagesResult) -> None:
        await Chat.on_chat_response(self, result)  # type: ignore[arg-type]


THINKING: Final = (answering("Think", Thinker), answering("Think", Strict), Provided)
