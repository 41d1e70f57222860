"""The way from an agent to its sub-agents: known classes only, and every agent on the way must let the client pass."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp

from ..agents import Agent
from ..agents.execution_context import set_current_agent
from ..agents.sub_agent_classes import SubAgentAddress, known_child
from ..errors import AgentStopped, LogError
from ..ids import AgentId, agent_id, sub_agent_id
from ..runtime.directory import Directory
from .agent_urls import ResourceAddress
from .close_codes import INTERNAL
from .connection_hooks import agent_of
from .permissions import Reject, describe_verdict
from .refusals import UNCHECKED, refusal_response

__all__ = ["SubAgentRefusal", "check_sub_agent_access", "find_child"]

log = logging.getLogger("everyword.server")


@dataclass(frozen=True, slots=True)
class SubAgentRefusal:
    """Why a client does not get to a sub-agent: a status and a sentence, or the response that an agent gave."""

    status: int
    sentence: str = ""
    response: Any = None

    @property
    def close_code(self) -> int:
        """How its socket is closed: the stock client gives up at 4xxx, and comes back after anything else."""
        return 4000 + self.status if 400 <= self.status < 500 else INTERNAL

    @property
    def close_reason(self) -> str:
        return f"Sub-agent connection rejected ({self.status})"

    def answer(self) -> ASGIApp:
        """Return the response to an HTTP request."""
        given: ASGIApp = self.response if self.response is not None else refusal_response(self.status, self.sentence)
        return given


def find_child(parent: type[Agent], kind: str, served: Mapping[str, type[Agent]]) -> type[Agent] | None:
    """Return the class that a path below an agent means; one that is served at the root may be below others, too."""
    return known_child(parent, kind) or served.get(kind)


async def check_sub_agent_access(
    directory: Directory, connection: HTTPConnection, address: ResourceAddress, served: Mapping[str, type[Agent]]
) -> SubAgentRefusal | None:
    """Ask every agent on the way to the leaf, from the root down; None when all of them let the client pass."""
    agent, cls = agent_id(address.kind, address.name), served[address.kind]
    for kind, name in address.subs:
        child = find_child(cls, kind, served)
        if child is None:
            return SubAgentRefusal(
                404, f"unable to find a sub-agent of kind {kind!r}; {cls.kind!r} has none of that kind"
            )
        closed = await _ask(directory, agent, connection, SubAgentAddress(child, name))
        if closed is not None:
            return closed
        agent, cls = sub_agent_id(agent, kind, name), child
    return None


async def _ask(
    directory: Directory, agent: AgentId, connection: HTTPConnection, child: SubAgentAddress
) -> SubAgentRefusal | None:
    try:
        async with directory.attach(agent) as loaded:
            own = agent_of(loaded)
            if own is None:
                return SubAgentRefusal(404, "unable to find a sub-agent; this agent has none")
            set_current_agent(own)
            verdict = await own.on_before_sub_agent(connection, child)
    except (AgentStopped, LogError):
        return SubAgentRefusal(503, "unable to ask the agent about its sub-agent right now. Try again in a moment.")
    except Exception:
        log.exception("on_before_sub_agent of %r raised; the client was refused", agent)
        return SubAgentRefusal(500, UNCHECKED)
    return _closed(own, child, verdict)


def _closed(own: Agent, child: SubAgentAddress, verdict: object) -> SubAgentRefusal | None:
    """Return what the verdict of an agent means for the client; only True opens."""
    if verdict is True:
        return None
    if verdict is None or verdict is False:
        return SubAgentRefusal(
            403, f"unable to accept the request; this agent refuses clients of its sub-agents ({child.kind})"
        )
    if isinstance(verdict, Reject):
        return SubAgentRefusal(verdict.status, verdict.reason)
    if isinstance(verdict, Response):
        return SubAgentRefusal(verdict.status_code, response=verdict)
    log.error(
        "on_before_sub_agent of %r returned %s; the client was refused. Return True, False, a Reject or a response.",
        *(own, describe_verdict(verdict)),
    )
    return SubAgentRefusal(500, UNCHECKED)
