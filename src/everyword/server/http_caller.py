"""One admitted request to an agent."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request

from ..ids import AgentId
from ..principals import Principal
from .permissions import Action, Permit, Reject
from .request_bodies import read_number

if TYPE_CHECKING:
    from .service import Service

__all__ = ["Caller", "seated"]


@dataclass(frozen=True, slots=True)
class Caller:
    """One admitted request: the agent that it is for, and what its client may do there."""

    request: Request
    agent: AgentId
    permit: Permit
    entered_as: Action
    """The action for which the request was admitted."""
    resource: str = ""
    """What the request is for, below its agent."""

    @property
    def principal(self) -> Principal:
        return self.permit.principal

    async def refuse(self, action: Action, what: Mapping[str, object]) -> Reject | None:
        """Return why the client may not do this; None if it may."""
        return await self.permit.refuse(action, what=what) if action != self.entered_as else None

    @property
    def after(self) -> int | None:
        """The cursor that the client sent; None if it sent none, or one that is not a number."""
        said = self.request.headers.get("last-event-id") or self.request.query_params.get("after") or ""
        return read_number(said)


def seated(service: Service, caller: Caller) -> ExitStack:
    """Count the client as a reader before anything is awaited, so that concurrent requests cannot exceed the limit.

    Raises:
        TooManyQueued: the agent or the principal has as many readers as `Limits` allow.
    """
    service.readers.check(caller.agent, caller.principal.id)
    seat = ExitStack()
    seat.enter_context(service.readers.hold(caller.agent, caller.principal.id))
    return seat
