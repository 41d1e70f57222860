"""A researcher: reads a small library, and ends with a report of a given form.

    RESEARCH_MODEL=openai:gpt-5.2 python -m examples.research_agent.app "why are tides late?"
    everyword dev examples/research_agent/app.py

Run as a program, it asks for a `Report` and prints it. Run it again after a `kill -9`: the turn goes on where it was,
because the question is its own idempotency key. `RESEARCH_MODEL=test` needs no provider, and makes its report up.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

from pydantic import BaseModel, Field

from everyword import Everyword, ToolError, tool
from everyword.agents import StepContext, Think

LIBRARY = {
    "tides": "Tides follow the moon, but the water has to travel: high water comes after the moon has passed.",
    "moon": "The moon rises about fifty minutes later every day.",
    "harbours": "A shallow harbour delays the tide by the friction of its bed.",
}


class Report(BaseModel):
    """What was found out."""

    answer: str
    sources: list[str] = Field(min_length=1, description="The pages of the library that say so.")


class Research(Think):
    """Served at /agents/research/{name}."""

    model = os.environ.get("RESEARCH_MODEL", "openai:gpt-5.2")
    instructions = "Answer from the library only, and name the pages that you read."
    output_types = (Report,)

    @tool(idempotent=True)
    def search(self, word: str) -> list[str]:
        """Return the pages that contain a word."""
        return sorted(page for page, text in LIBRARY.items() if word.lower() in f"{page} {text}".lower())

    @tool(idempotent=True)
    def read(self, page: str) -> str:
        """Read a page."""
        if page not in LIBRARY:
            raise ToolError(f"There is no page {page!r}; the library has {', '.join(LIBRARY)}.")
        return LIBRARY[page]

    def before_step(self, ctx: StepContext) -> None:
        """Stop looking things up before the steps run out."""
        if ctx.number == self.max_steps - 1:
            ctx.only_tools = []


app = Everyword([Research])


async def main(words: Sequence[str]) -> Report:
    """Ask one question, and return the report."""
    question = " ".join(words) or "Why are tides late?"
    async with app:
        return await app.get(Research, "desk").run_turn(question, output_type=Report, idempotency_key=question)


if __name__ == "__main__":
    report = asyncio.run(main(sys.argv[1:]))
    sys.stdout.write(f"{report.answer}\n\nread: {', '.join(report.sources)}\n")
