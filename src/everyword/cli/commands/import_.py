"""`everyword import`: read an agent and its sub-agents from a file."""

from __future__ import annotations

import argparse
import asyncio
from typing import Final

from ...errors import UsageError
from ...events import ShareCreated, ShareRevoked, decode_event
from ...ids import AgentId, can_name_a_root, children_prefix
from ...messages.attachments import with_agent_path
from ..agent_copy import Copied, fold_events, write_agent
from ..agent_file import Packed, unpack
from ..arguments import add_store
from ..attachments import add_attachments, attachments_of, write_attachments
from ..output import Output
from ..store_access import writing
from ..text import attached, count_of, own_databases

__all__ = ["HELP", "add_arguments", "run"]

HELP = """\
Read an agent and its sub-agents into a store, with their own SQL databases and attachments. The exported file is
checked first: its checksum, its version, and that every log in it is consistent. The agent must not exist yet;
importing the same file twice changes nothing, and repeating an interrupted import completes it. A turn that had not
ended continues when a server is started.

examples:
  everyword import chat-ann.everyword.gz
  everyword import chat-ann.everyword.gz --as chat/ann-copy --db other.db
"""

_SHARES: Final = (ShareCreated, ShareRevoked)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="file written by `everyword export`")
    parser.add_argument("--as", dest="new", metavar="KIND/NAME", help="import under another name, without shared links")
    add_attachments(parser)
    add_store(parser)


def run(chosen: argparse.Namespace) -> int:
    """Read an agent from a file."""
    return asyncio.run(_import(Output(is_json=chosen.json), chosen))


async def _import(output: Output, chosen: argparse.Namespace) -> int:
    packed = _renamed(unpack(chosen.file), chosen.new)
    counts: dict[AgentId, int] = {}
    is_open = 0
    async with writing(chosen.db, "import into", may_make=True) as store:
        with output.progress("writing", sum(map(len, packed.agents.values()))) as bar:
            root, blobs = next(iter(packed.agents)), attachments_of(chosen.db, chosen.attachments)
            if blobs is not None:  # before the messages that refer to them
                await write_attachments(blobs, root, packed.attachments.items())
            for agent, events in packed.agents.items():
                counts[agent] = await write_agent(store, agent, events, "import", packed.databases.get(agent))
                is_open += len(fold_events(events, agent).open)
                bar.step(agent, len(events))
    written = sum(counts.values())
    databases = sum(counts[agent] == len(packed.agents[agent]) for agent in packed.databases)
    attachments = len(packed.attachments) if blobs is not None else 0
    files = {"attachments": attachments}
    if packed.attachments and blobs is None:
        output.note(f"{count_of(len(packed.attachments), 'attachment')} left out; --attachments names a place for them")
    if output.is_json:
        output.json({"agents": list(counts), "events": written, "openTurns": is_open, "databases": databases, **files})
        return 0
    names, own = ", ".join(counts), own_databases(databases) + attached(attachments)
    result = f"{count_of(written, 'event')}{own} written" if written else "exists already, nothing written"
    output.print(f"{names}: {result}")
    if is_open:
        output.note(f"{count_of(is_open, 'turn')} had not ended and will continue when a server is started")
    return 0


def _renamed(packed: Packed, given: str | None) -> Packed:
    """Return the agents under another name; what is below the first moves with it.

    Shared links stay behind: two conversations would have one token, and to revoke it in one of them would not do.
    """
    if given is None:
        return packed
    kind, _, name = given.partition("/")
    if not kind or not name or not can_name_a_root(name):
        raise UsageError(f"unable to name an agent {given!r}; write kind/name")
    old, new = next(iter(packed.agents)), AgentId(given)
    if old == new:
        return packed
    prefix, replacement = children_prefix(old), children_prefix(new)

    def renamed(agent: AgentId) -> AgentId:
        return new if agent == old else AgentId(replacement + agent.removeprefix(prefix))

    agents = {
        renamed(agent): [_moved(each, old, new) for each in events if not isinstance(each.event, _SHARES)]
        for agent, events in packed.agents.items()
    }
    databases = {renamed(agent): image for agent, image in packed.databases.items()}
    return Packed(agents, databases, packed.attachments, packed.exported_at)


def _moved(copied: Copied, old: AgentId, new: AgentId) -> Copied:
    """Return an event with the URLs of attachments changed to the new name."""
    body = with_agent_path(copied.body, old, new)
    return copied if body == copied.body else Copied(copied.at, decode_event(body), body)
