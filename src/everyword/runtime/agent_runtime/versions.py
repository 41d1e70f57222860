"""A conversation with all its versions, for an agent's own code."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec

from ...core.commands import MoveLeaf, PutMessages
from ...core.state import State
from ...core.waiting_approvals import requests_at
from ...errors import Rejected
from ...ids import AgentId, MessageId, NodeId, agent_id, can_name_a_root, parent_id, split_agent_id, sub_agent_id
from ...messages.message import UIMessage
from ...messages.tool_calls import open_calls
from ...principals import acting_for
from ...rows import ApprovalRecord
from ..api import VersionedPlace, VersionRecord
from ..attachments import copying
from ..directory import Directory

__all__ = ["VersionsAccess", "is_asking"]


class VersionsAccess:
    """The versions of one agent's conversation."""

    def __init__(self, directory: Directory, agent: AgentId) -> None:
        self._directory, self._agent = directory, agent

    async def versions(self, message: MessageId) -> list[VersionRecord]:
        """Return all versions of a message, oldest first; empty for an unknown message."""
        async with self._directory.attach(self._agent) as loaded:
            return await loaded.actor.inspect(lambda state: _versions(state, message))

    async def places(self) -> list[VersionedPlace]:
        """Return the places of the shown conversation that have other versions, in order."""
        async with self._directory.attach(self._agent) as loaded:
            return await loaded.actor.inspect(_versioned_places)

    async def show(self, node: NodeId) -> None:
        """Show the branch of a node, down to its newest leaf.

        Raises:
            Rejected: there is no such node.
        """
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.ask(MoveLeaf(node))

    async def fork(self, message: MessageId, name: str) -> AgentId:
        """Copy the conversation up to a message into another agent of this kind, which must be empty.

        Raises:
            Rejected: the message is unknown or not whole yet, or the other agent has messages.
        """
        kind, above = split_agent_id(self._agent)[0], parent_id(self._agent)
        if above is None and not can_name_a_root(name):
            raise Rejected(f"unable to fork into {name!r}; only sub-agents may have `/sub/` in their ids")
        other = agent_id(kind, name) if above is None else sub_agent_id(above, kind, name)
        async with self._directory.attach(self._agent) as loaded:
            path, requests = await loaded.actor.inspect(lambda state: _path_to(state, message))
            source = loaded.actor.agent
        async with self._directory.attach(other) as loaded:
            if await loaded.actor.inspect(lambda state: bool(state.tree.nodes)):
                raise Rejected(f"unable to fork into {other!r}; it has messages already. Choose another name.")
            async with copying(self._directory.attachments, source, loaded.actor.agent, path) as copied:
                who = acting_for()
                command = PutMessages(copied, cause="forked", principal=who, is_copy=True, requests=requests)
                await loaded.actor.ask(command)
        return other

    async def is_asking(self) -> bool:
        """Tell whether a tool call waits for a client or a person."""
        async with self._directory.attach(self._agent) as loaded:
            return await loaded.actor.inspect(is_asking)


def is_asking(state: State) -> bool:
    """Tell whether a tool call of the last message waits for a client or a person."""
    last = state.tree.shown_path()[-1:]
    return any(open_calls(UIMessage.decode(node.shown)) for _, node in last if node.shown is not None)


def _versions(state: State, message: MessageId) -> list[VersionRecord]:
    node = state.tree.node_of_message(message)
    if node is None:
        return []
    shown = set(state.tree.active_path())
    places = [(each, state.tree.nodes[each].shown) for each in state.tree.versions(node)]
    return [VersionRecord(each, UIMessage.decode(body), each in shown) for each, body in places if body is not None]


def _versioned_places(state: State) -> list[VersionedPlace]:
    written = {turn.node for turn in state.message_turns()}
    beside: defaultdict[tuple[NodeId | None, str], list[NodeId]] = defaultdict(list)
    for node, place in state.tree.nodes.items():
        if place.shown is not None or node in written:
            beside[place.parent, place.role].append(node)
    found: list[VersionedPlace] = []
    after: MessageId | None = None
    for node in state.tree.active_path():
        place = state.tree.nodes[node]
        there = beside[place.parent, place.role]
        if set(there) - {node}:
            shown = there.index(node) if node in there else None
            found.append(VersionedPlace(place.id if shown is not None else None, after, there, shown))
        if node in there:
            after = place.id
    return found


def _path_to(state: State, message: MessageId) -> tuple[list[dict[str, Any]], list[ApprovalRecord]]:
    """Return the messages up to this one, and the requests for approvals that they have."""
    node = state.tree.node_of_message(message)
    if node is None:
        raise Rejected(f"unable to fork at message {message!r}; there is no such message")
    if state.tree.nodes[node].body is None or any(turn.node == node for turn in state.message_turns()):
        raise Rejected(f"unable to fork at message {message!r}; it is still being written. Wait for the turn's end.")
    path = [(each, place.body) for each, place in state.tree.shown_path(node) if place.body is not None]
    return [msgspec.json.decode(body) for _, body in path], requests_at(state, {each for each, _ in path})
