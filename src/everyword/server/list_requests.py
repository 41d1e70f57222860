"""Requests for lists: their paths, the parameters that they share, and who sends them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from starlette.requests import Request

from ..errors import BadInput
from ..ids import can_name_a_root, id_problem
from ..log.nodes import NodeMembership
from ..principals import Principal
from .request_bodies import TooLarge, read_json, read_number
from .service import Service

__all__ = ["APPROVALS", "CONVERSATIONS", "ListCaller", "check_name", "limit_of", "place_of", "wants_page"]

CONVERSATIONS: Final = "/conversations"
APPROVALS: Final = "/approvals"

MOST_BYTES: Final = 64 * 1024
"""Bytes of a body."""


class ListCaller(NamedTuple):
    """One admitted request for lists."""

    request: Request
    principal: Principal
    service: Service
    place: list[str]
    """The parts of the path below the resource."""

    @property
    def wants_events(self) -> bool:
        return self.request.method == "GET" and "text/event-stream" in self.request.headers.get("accept", "")

    @property
    def owner(self) -> Principal | None:
        """The principal whose conversations are listed; None for all owners, with `scope=all`."""
        scope = self.request.query_params.get("scope", "mine")
        if scope not in ("mine", "all"):
            raise BadInput('unable to list; "scope" is "mine" or "all"')
        return self.principal if scope == "mine" else None

    @property
    def nodes(self) -> NodeMembership | None:
        """The nodes that share the store; None when it belongs to this process alone."""
        return self.service.directory.store.nodes

    @property
    def about(self) -> dict[str, str]:
        """What a record of the audit trail says about the request."""
        resource, place = place_of(self.request) or ("", [])
        return {"resource": "/".join([resource.strip("/"), *place[2:3]]), "method": self.request.method}

    @property
    def conversation(self) -> tuple[str, str]:
        """Kind and name of the conversation in the path."""
        return self.place[0], self.place[1]

    async def body(self) -> dict[str, Any]:
        """Read the body, a JSON object."""
        body = await read_json(self.request, MOST_BYTES, self.service.body_budget)
        if isinstance(body, TooLarge):
            raise BadInput(f"unable to take the body; it is larger than {MOST_BYTES // 1024} KiB")
        return body


def place_of(request: Request) -> tuple[str, list[str]] | None:
    """Return the resource of a path, and the parts below it, decoded; None for another path."""
    root = request.scope.get("root_path", "")
    raw = request.scope.get("raw_path")
    path = raw.partition(b"?")[0].decode("latin-1") if raw else request.scope["path"]
    path = path.removeprefix(root)
    for resource in (CONVERSATIONS, APPROVALS):
        if path == resource or path.startswith(f"{resource}/"):
            return resource, [unquote(part) for part in path.removeprefix(resource).strip("/").split("/") if part]
    return None


def check_name(name: str) -> None:
    """Check that a root agent can have this name: the one of a sub-agent is refused, like on every other path.

    Raises:
        BadInput: none can.
    """
    if (problem := id_problem(name, "its name")) is not None:
        raise BadInput(f"unable to find a conversation; {problem}")
    if "\0" in name or not can_name_a_root(name):
        raise BadInput(f"unable to find a conversation named {name!r}; no conversation can have this name")


def wants_page(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "")


def limit_of(given: str | None) -> int:
    """Return how many things a page has.

    Raises:
        BadInput: it is not a number that is allowed.
    """
    limit = 50 if given is None else read_number(given)
    if limit is None or not 1 <= limit <= 200:
        raise BadInput('unable to list; "limit" is a number from 1 to 200')
    return limit
