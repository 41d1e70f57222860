"""An agent with another agent as a tool, for the stock hook `useAgentToolEvents`. Both play scripts."""

from __future__ import annotations

from typing import Any, Final

from everyword.agents.agent_tools import agent_tool
from tests.browser.scripted_agents import Chat
from tests.browser.tool_agents import Tooled

__all__ = ["TEAMED", "Mate", "Team"]


class Mate(Chat):
    """Plays the script that it is given as its input."""


class Team(Tooled):
    """Uses `Mate` as a tool, and lets pages connect to every mate but the one named `hidden`."""

    mate = agent_tool(Mate, description="Does a part of the work.", display={"title": "A mate"})

    async def on_before_sub_agent(self, request: Any, child: Any) -> bool:
        return bool(child.name != "hidden")


TEAMED: Final = (Team,)
