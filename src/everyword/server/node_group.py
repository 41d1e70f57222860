"""Nodes that answer `/healthz` and `/metrics` for each other: the workers of one supervisor."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from ..log.nodes import LiveNode, NodeMembership
from ..runtime.directory import Directory
from .node_links import NodeLinks

__all__ = ["HEALTH_CALL", "METRICS_CALL", "NodeGroup", "NodeReport"]

HEALTH_CALL, METRICS_CALL = "node health", "node metrics"
"""What nodes of a group ask of each other."""

SECONDS: Final = 1.0
"""How long to wait for the others of the group."""


class NodeReport(msgspec.Struct, frozen=True):
    """The health of one node."""

    name: str
    incarnation: int
    state: str
    """up, draining, `no lease`, or `unreachable` if it did not answer."""
    lease_left: float
    """Seconds until its lease ends."""


class _Answer(msgspec.Struct, frozen=True):
    """What a node answers: the group tells whether it belongs to the node that asked."""

    group: str
    body: bytes


_decode_answer = msgspec.msgpack.Decoder(_Answer).decode
_decode_report = msgspec.msgpack.Decoder(NodeReport).decode


class NodeGroup:
    """This node and its siblings. The group of a node without a supervisor is the node alone."""

    def __init__(self, links: NodeLinks, directory: Directory, nodes: NodeMembership) -> None:
        self._links, self._directory, self._nodes = links, directory, nodes

    @property
    def name(self) -> str:
        """The name of this node."""
        return self._nodes.name

    async def reports(self) -> list[NodeReport]:
        """Return the health of every node of the group, sorted by name."""
        found = [self._report()]
        for node, body in await self._ask(HEALTH_CALL, b""):
            found.append(_decode_report(body) if body is not None else _unreachable(node))
        # A worker that was killed is in the store until its lease ends; its name belongs to the one that replaced it.
        answering = {each.name for each in found if each.state != "unreachable"}
        found = [each for each in found if each.state != "unreachable" or each.name not in answering]
        return sorted(found, key=lambda each: (_parts(each.name), each.incarnation))

    async def exports(self, path: str, own: bytes) -> list[tuple[str, bytes]]:
        """Return the metrics at this path of every node of the group that answers, with the node's name."""
        found = [(node.name, body) for node, body in await self._ask(METRICS_CALL, path.encode()) if body]
        return [(self.name, own), *found]

    async def answer(self, method: str, payload: bytes, export: Callable[[str], Awaitable[bytes]]) -> bytes | None:
        """Answer another node; None if it does not ask for this. `export` returns the metrics at a path."""
        if method == HEALTH_CALL:
            body = msgspec.msgpack.encode(self._report())
        elif method == METRICS_CALL:
            body = await export(payload.decode())
        else:
            return None
        return msgspec.msgpack.encode(_Answer(self._links.group, body))

    def _report(self) -> NodeReport:
        state = "draining" if self._directory.is_stopping else "up" if self._nodes.is_valid else "no lease"
        return NodeReport(self.name, self._nodes.incarnation, state, round(self._nodes.lease_left, 3))

    async def _ask(self, method: str, payload: bytes) -> list[tuple[LiveNode, bytes | None]]:
        """Ask the siblings; None for one that did not answer."""
        if not self._links.group:
            return []
        # The store does not know groups. Names tell which nodes to ask, answers which of them belong here.
        base = _parts(self.name)[0]
        asked = await self._links.ask(method, payload, SECONDS, among=lambda node: _parts(node.name)[0] == base)
        found: list[tuple[LiveNode, bytes | None]] = []
        for node, reply in asked:
            answer = _decode_answer(reply) if reply is not None else None
            if answer is None or answer.group == self._links.group:
                found.append((node, answer.body if answer is not None else None))
        return found


def _unreachable(node: LiveNode) -> NodeReport:
    return NodeReport(node.name, node.id, "unreachable", max(node.left, 0) / 1000)


def _parts(name: str) -> tuple[str, int]:
    """Return the name that all workers of a machine share, and the number of the worker."""
    found = re.fullmatch(r"(.*)-(\d+)", name)
    return (found[1], int(found[2])) if found is not None else (name, 0)
