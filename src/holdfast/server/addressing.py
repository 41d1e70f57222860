"""Which agent a URL means: `{base}/{kind}/{name}/{what}`, percent-decoded piece by piece, so names may have slashes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from ..errors import BadInput
from ..ids import AgentId, agent_id

__all__ = ["Address", "find_address"]


@dataclass(frozen=True, slots=True)
class Address:
    """One agent, and which of its resources: `chat/stream`, or the empty string for the agent itself."""

    kind: str
    name: str
    resource: str

    @property
    def agent(self) -> AgentId:
        return agent_id(self.kind, self.name)


def find_address(scope: Any, base_path: str) -> Address | None:
    """Return what the request is about, None when its path is not below `base_path` of wherever we are mounted.

    Raises:
        BadInput: the path is not UTF-8.
    """
    # The raw path: in the decoded one a slash inside a name looks like any other.
    raw = scope.get("raw_path") or quote(scope["path"]).encode()
    segments = raw.partition(b"?")[0].split(b"/")[1:]
    base = [*_parts(scope.get("root_path", "")), *_parts(base_path)]
    if [_decoded(segment) for segment in segments[: len(base)]] != base:
        return None
    rest = [_decoded(segment) for segment in segments[len(base) :]]
    if len(rest) < 2 or not rest[0] or not rest[1]:
        return None
    return Address(rest[0], rest[1], "/".join(rest[2:]).rstrip("/"))


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _decoded(segment: bytes) -> str:
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError as exc:
        raise BadInput("unable to read the path; it is not UTF-8. Percent-encode the agent's name.") from exc
