"""`everyword fork`: copy a conversation up to a message into a new agent."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

import msgspec

from ...core.commands import PutMessages
from ...core.decide import decide
from ...core.state import Rules, State
from ...core.waiting_approvals import requests_at
from ...errors import UsageError
from ...ids import AgentId, MessageId, NodeId, agent_id, can_name_a_root, root_id, split_agent_id
from ...messages.attachments import find_references, with_agent_path
from ...runtime.clock import SystemClock
from ..agent_copy import fresh, write_agent
from ..arguments import add_agent, add_store
from ..attachments import add_attachments, attachments_of, copy_conversation
from ..output import Output
from ..store_access import find_agent, reading, writing
from ..text import count_of
from .show import restore_loaded

__all__ = ["HELP", "add_arguments", "run"]

HELP = """\
Copy a conversation up to a message into a new agent. The messages on the branch that leads to that message are
copied, with their attachments; turns, state, jobs and the agent's own SQL database are not. `everyword show` lists the
message ids.

examples:
  everyword fork chat/ann ann-2
  everyword fork chat/ann chat/retry --at msg-7
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_agent(parser)
    parser.add_argument("new", metavar="NEW", help="name, or kind/name, of the new agent")
    parser.add_argument("--at", metavar="MESSAGE", help="id of the last message to copy (default: all messages)")
    add_attachments(parser)
    add_store(parser)


def run(chosen: argparse.Namespace) -> int:
    """Copy a conversation."""
    return asyncio.run(_fork(Output(is_json=chosen.json), chosen))


async def _fork(output: Output, chosen: argparse.Namespace) -> int:
    async with writing(chosen.db, "fork in"):
        pass  # fails at once when a process uses the file, and migrates an old one
    async with reading(chosen.db) as source:
        agents = await source.agents()
        agent = find_agent(agents, chosen.agent, chosen.db)
        state, _ = restore_loaded(await source.load(agent))
    target = _target(agent, chosen.new)
    if target in agents:
        raise UsageError(f"unable to fork into {target!r}; an agent with this name exists. Choose another name")
    nodes = _path(state, agent, chosen.at)
    body = msgspec.json.encode([msgspec.json.decode(state.tree.nodes[node].body or b"") for node in nodes])
    path: list[dict[str, Any]] = msgspec.json.decode(with_agent_path(body, agent, target))
    now = SystemClock().now()
    copied = PutMessages(path, cause="forked", is_copy=True, requests=requests_at(state, nodes))
    events = decide(State(), copied, now, Rules())
    async with writing(chosen.db, "fork in") as store:
        blobs = attachments_of(chosen.db, chosen.attachments)
        if blobs is not None and root_id(agent) != root_id(target):
            await copy_conversation(blobs, blobs, agent, target, find_references(body))
        await write_agent(store, target, fresh(events, now), "fork into")
    if output.is_json:
        output.json({"agent": target, "forkedFrom": agent, "at": path[-1]["id"], "messages": len(path)})
    else:
        output.print(f"{target} has the first {count_of(len(path), 'message')} of {agent}, up to {path[-1]['id']}")
    return 0


def _target(agent: AgentId, given: str) -> AgentId:
    """Return the new agent's id; a name alone keeps the kind."""
    kind, _, name = given.partition("/") if "/" in given else ("", "", given)
    if not name or not can_name_a_root(name):
        raise UsageError(f"unable to name an agent {given!r}; write a name, or kind/name")
    return agent_id(kind or split_agent_id(agent)[0], name)


def _path(state: State, agent: AgentId, message: str | None) -> list[NodeId]:
    """Return the nodes of the messages to copy: up to the given one, by default all that ended and are shown."""
    written = {turn.node for turn in state.message_turns()}
    if message is None:
        shown = state.tree.shown_path()
        nodes = [number for number, place in shown if place.body is not None and number not in written]
        leaf = nodes[-1] if nodes else None
    else:
        leaf = state.tree.node_of_message(MessageId(message))
    if leaf is None:
        known = ", ".join(place.id for _, place in state.tree.shown_path()[-5:])
        what = f"it has no message {message!r}" if message else "it has no messages"
        raise UsageError(
            f"unable to fork {agent!r}; {what}. {f'The last ones are {known}' if known else ''}".rstrip(". ")
        )
    if state.tree.nodes[leaf].body is None or leaf in written:
        raise UsageError(
            f"unable to fork at message {message!r}; it is still in progress. Wait for the end of the turn"
        )
    return [node for node, place in state.tree.shown_path(leaf) if place.body is not None]
