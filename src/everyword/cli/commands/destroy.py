"""`everyword destroy`: delete an agent, everything it stored and every agent below it."""

from __future__ import annotations

import argparse
import asyncio
import sys

from ...attachments.base import BlobStore
from ...core.project import DESTROYED
from ...errors import UsageError
from ...events import AgentDestroyed, encode_event, kind_of
from ...ids import AgentId, Seq, agent_id, children_prefix
from ...log.base import Batch, Entry
from ...runtime.clock import SystemClock
from ...runtime.rebuild import AdminStore
from ...server.stores import drop_database
from ..arguments import add_store
from ..attachments import add_attachments, attachments_of, drop_attachments
from ..output import Output
from ..store_access import find_agent, leased, writing
from ..text import count_of

__all__ = ["HELP", "add_arguments", "run"]

HELP = """\
Delete an agent with everything it stored, its own database and every agent below it. Asks for confirmation, unless
--yes is given. While a server is running, destroy agents from the app: `await app.destroy(Chat, "ann")`.

examples:
  everyword destroy chat ann
  everyword destroy chat/ann --yes
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agent", metavar="KIND", help="the agent's kind, or kind/name")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the agent's name")
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    add_attachments(parser)
    add_store(parser)


NOT_CONFIRMED = 2


def run(chosen: argparse.Namespace) -> int:
    """Destroy an agent after a confirmation."""
    return asyncio.run(_destroy(Output(is_json=chosen.json), chosen))


async def _destroy(output: Output, chosen: argparse.Namespace) -> int:
    given = _named(chosen.agent, chosen.name)
    async with writing(chosen.db, "destroy an agent of") as store:
        agent = find_agent(await store.agents(), given, chosen.db)
        below = await store.agents(children_prefix(agent))
        if not chosen.yes and not _is_confirmed(agent, len(below)):
            output.note("nothing was deleted")
            return NOT_CONFIRMED
        await _erase(store, agent, below, attachments_of(chosen.db, chosen.attachments))
    if output.is_json:
        output.json({"agent": agent, "below": below})
    else:
        output.print(f"deleted {agent}{_with(len(below))}")
    return 0


def _named(agent: str, name: str | None) -> str:
    """Return the id, given as kind/name or as two words; a name alone is not enough to delete an agent."""
    given = agent if name is None else agent_id(agent, name)
    if "/" not in given:
        raise UsageError(f"unable to destroy {agent!r}; give its kind and its name: everyword destroy chat {agent}")
    return given


def _is_confirmed(agent: AgentId, below: int) -> bool:
    if not sys.stdin.isatty():
        raise UsageError(f"unable to ask for confirmation to destroy {agent!r}; there is no terminal. Add --yes")
    print(
        f"Delete {agent}{_with(below)}, with everything it stored? This cannot be undone. [y/N] ",
        end="",
        file=sys.stderr,
    )
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _with(below: int) -> str:
    return f" and {count_of(below, 'agent')} below it" if below else ""


async def _erase(store: AdminStore, agent: AgentId, below: list[AgentId], blobs: BlobStore | None) -> None:
    """Do what a server does: commit the end first, so that the next start after a crash completes it."""
    event, now = AgentDestroyed(), SystemClock().now()
    async with leased(store, agent, "destroy") as activation:
        entry = Entry(kind_of(event), None, encode_event(event))
        batch = Batch(agent, activation.epoch, Seq(activation.head + 1), now, [entry], [DESTROYED], now)
        await store.append([batch])[0]
        for each in (agent, *below):
            await drop_database(store, each)
        await drop_attachments(blobs, agent)
        await store.destroy(agent, activation.epoch)
