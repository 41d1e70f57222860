"""An agent with mates that work for it as tools, for the stock hook `useAgentToolEvents`; all of them play scripts."""

from __future__ import annotations

from typing import Any, Final

from everyword.agents.agent_tools import agent_tool
from tests.browser.scripted import Chat
from tests.browser.tooled import Tooled

__all__ = ["TEAMED", "Mate", "Team"]


class Mate(Chat):
    """Plays the script that it is given as its input."""


class Team(Tooled):
    """Lets pages talk to its mates, too."""

    mate = agent_tool(Mate, description="Does a part of the work.", display={"title": "A mate"})

    async def on_before_sub_agent(self, request: Any, child: Any) -> bool:
        return bool(child.name != "hidden")


TEAMED: Final = (Team,)
