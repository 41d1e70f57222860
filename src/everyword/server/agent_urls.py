"""Which agent a URL means: `{base}/{kind}/{name}/{what}`, percent-decoded piece by piece, so names may have slashes.

`/sub/{kind}/{name}`, any number of times, leads from an agent to an agent below it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import dropwhile
from typing import Any, TypeVar
from urllib.parse import quote, unquote_to_bytes

from ..errors import BadInput
from ..ids import SUB, AgentId, agent_id, can_name_a_root, id_problem, sub_agent_id

__all__ = ["ResourceAddress", "find_address"]

S = TypeVar("S", str, bytes)


@dataclass(frozen=True, slots=True)
class ResourceAddress:
    """One agent, and which of its resources: `chat/stream`, or the empty string for the agent itself.

    `kind` and `name` are those of the root; `subs` lead from there to the agent, outermost first.
    """

    kind: str
    name: str
    resource: str
    subs: tuple[tuple[str, str], ...] = ()

    @property
    def agent(self) -> AgentId:
        agent = agent_id(self.kind, self.name)
        for kind, name in self.subs:
            agent = sub_agent_id(agent, kind, name)
        return agent


def find_address(scope: Any, base_path: str) -> ResourceAddress | None:
    """Return what the request is about, None when its path is not below `base_path` of wherever we are mounted.

    Raises:
        BadInput: the path is not UTF-8, or a name in it is not one that an agent can have.
    """
    # The raw path: in the decoded one a slash inside a name looks like any other.
    raw = scope.get("raw_path") or quote(scope["path"]).encode()
    segments = _from_first(raw.partition(b"?")[0].split(b"/"))
    base = [*_parts(scope.get("root_path", "")), *_parts(base_path)]
    if [_decoded(segment) for segment in segments[: len(base)]] != base:
        return None
    rest = [_decoded(segment) for segment in segments[len(base) :]]
    if len(rest) < 2 or not rest[0] or not rest[1]:
        return None
    if (problem := id_problem(rest[1], "its name")) is not None:
        raise BadInput(f"unable to find an agent; {problem}")
    if not can_name_a_root(rest[1]):
        raise BadInput(f"unable to find an agent named {rest[1]!r}; `/{SUB}/` in a name leads to sub-agents")
    subs, further = _subs(_from_first(rest[2:]))
    return ResourceAddress(rest[0], rest[1], "/".join(further).rstrip("/"), subs)


def _subs(segments: list[str]) -> tuple[tuple[tuple[str, str], ...], list[str]]:
    """Return the sub-agents that a path begins with, and the rest of it."""
    subs: list[tuple[str, str]] = []
    while len(segments) >= 3 and segments[0] == SUB and segments[1] and segments[2]:
        _, kind, name, *segments = segments
        if (problem := id_problem(name, "its name")) is not None:
            raise BadInput(f"unable to find a sub-agent; {problem}")
        if "\0" in name:
            raise BadInput("unable to find a sub-agent; its name has a NUL character")
        subs.append((kind, name))
    return tuple(subs), segments


def _from_first(segments: list[S]) -> list[S]:
    """Return the segments from the first that is not empty.

    The stock client writes its `basePath` behind a slash and paths behind its `basePath`, so that slashes around it are
    doubled. Elsewhere an empty segment is one that is missing.
    """
    return list(dropwhile(lambda segment: not segment, segments))


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _decoded(segment: bytes) -> str:
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError as exc:
        raise BadInput("unable to read the path; it is not UTF-8. Percent-encode the agent's name.") from exc
