"""A team: a lead asks three researchers at once, and the page shows how far each of them is.

    uvicorn examples.research_team.app:app --port 8787        # then open http://localhost:8787

No model and no key: the researchers read a small library, slowly enough to watch. Each is an agent with its own log,
so a `kill -9` in the middle loses nothing: start it again, and everybody goes on where they were. To use models, make
both classes `Think` and let the lead's model call the tool.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.routing import Mount, Route

from everyword import AIChatAgent, ChatError, Everyword, Turn, agent_tool

PAGE = Path(__file__).parent / "page"
PAUSE = float(os.environ.get("RESEARCH_PAUSE", "0.08"))
"""Seconds between two words."""

LIBRARY = {
    "history": [
        "Sailors wrote tide tables by hand for centuries, harbour by harbour.",
        "In 1872 William Thomson built a machine of brass wheels that drew a year of tides in four hours.",
        "Such machines planned landings until computers took their place.",
    ],
    "physics": [
        "The moon pulls on the near side of the sea more than on the far side.",
        "The sun does the same, at a little less than half the strength.",
        "Shallow water slows the wave down, so high water comes late to most harbours.",
    ],
    "practice": [
        "A harbour's table is made of several dozen waves, each with a strength and a delay.",
        "A year of readings is enough to find them.",
        "Wind and air pressure are added on the day.",
    ],
}


@dataclass
class Errand:
    """What one researcher is to look up."""

    question: str
    angle: str


class Researcher(AIChatAgent):
    """Reads one shelf of the library and tells what it found."""

    def agent_tool_input(self, input: Any) -> str:
        return f"{input['question']} Look at the {input['angle']}."

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[str]:
        errand = turn.body["agentToolInput"]
        shelf = LIBRARY.get(errand["angle"])
        if shelf is None:
            raise ChatError(f"There is nothing about {errand['angle']} here.")
        said = self.messages[-1].text if turn.continuation else ""
        words = [f"{word} " for page in shelf for word in page.split()]
        for number, word in enumerate(words[len(said.split()) :], len(said.split())):
            message = f"word {number} of {len(words)}"
            await self.agent_tools.report_progress(fraction=number / len(words), message=message)
            yield word
            await asyncio.sleep(PAUSE)
        await self.agent_tools.report_progress(fraction=1.0, message="done")


class Lead(AIChatAgent):
    """Lets three researchers work at once, and puts together what they bring."""

    tools: ClassVar[list[Any]] = [agent_tool(Researcher, input_type=Errand)]

    async def on_before_sub_agent(self, request: Any, child: Any) -> bool:
        """Let pages talk to the researchers, too: whoever may use the lead may use them."""
        return True

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[str]:
        question = next(message.text for message in reversed(self.messages) if message.role == "user")
        angles = ["history", "physics", "astrology"] if "astrology" in question else list(LIBRARY)
        found = await asyncio.gather(
            *(turn.call_tool("researcher", question=question, angle=angle) for angle in angles)
        )
        told = self.messages[-1].text if turn.continuation else ""
        report = "\n\n".join(f"{angle.capitalize()}: {_said(each)}" for angle, each in zip(angles, found, strict=True))
        yield report[len(told) :]


def _said(finding: Any) -> str:
    """Return what a researcher brought, or why it brought nothing."""
    return str(finding if isinstance(finding, str) else finding["error"]).strip()


async def page(request: Request) -> FileResponse:
    """Serve one of the page's files."""
    return FileResponse(PAGE / request.url.path.lstrip("/") if request.url.path != "/" else PAGE / "index.html")


agents = Everyword([Lead], store=os.environ.get("RESEARCH_STORE", "everyword.db"))
files = [Route(path, page) for path in ("/", "/page.js", "/style.css")]
app = Starlette(routes=[*files, Mount("/", agents)], lifespan=agents.lifespan)
