"""`everyword audit`: the audit records of what is in the log, as lines of JSON."""

from __future__ import annotations

import argparse
import asyncio
import sys
from datetime import UTC, datetime

import msgspec

from ...errors import LogCorrupt, UsageError
from ...events import decode_event
from ...ids import AgentId, Millis, Seq
from ...observe.audit_file import encode_record
from ...observe.audit_records import RECORDED, record_of_event
from ..arguments import add_store
from ..log_reader import LogReader
from ..store_access import find_agent, reading

__all__ = ["HELP", "add_arguments", "run"]

HELP = """\
Print the audit records of committed events, as lines of JSON: who asked, who approved which call with which arguments,
who stopped, renamed and read. They are what `Audit` of everyword.observe wrote, with the same ids, so that a trail with
gaps can be completed. Who was let in or refused is not in the log, and is not printed. Works while a server is running.

examples:
  everyword audit
  everyword audit chat/ann
  everyword audit --since 2026-01-31 > audit.jsonl
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agent", metavar="AGENT", nargs="?", help="kind/name (default: all agents)")
    parser.add_argument("--since", metavar="TIME", help="only events from this date or time on, in UTC")
    parser.add_argument("--no-arguments", action="store_true", help="leave out arguments, summaries and reasons")
    add_store(parser)


def run(chosen: argparse.Namespace) -> int:
    """Print the records."""
    since = _time(chosen.since) if chosen.since is not None else Millis(0)
    return asyncio.run(_print(chosen, since))


def _time(given: str) -> Millis:
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        raise UsageError(f"unable to read {given!r} as a time; write 2026-01-31 or 2026-01-31T12:00:00") from None
    return Millis(round((found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp() * 1000))


async def _print(chosen: argparse.Namespace, since: Millis) -> int:
    async with reading(chosen.db) as store:
        stored = await store.agents()
        agents = stored if chosen.agent is None else [find_agent(stored, chosen.agent, chosen.db)]
        for agent in agents:
            await _print_agent(store, agent, since, arguments=not chosen.no_arguments)
    sys.stdout.flush()
    return 0


async def _print_agent(store: LogReader, agent: AgentId, since: Millis, *, arguments: bool) -> None:
    after = Seq(0)
    while page := await store.read(agent, after):
        for each in page:
            if each.kind not in RECORDED or each.at < since:
                continue
            try:
                event = decode_event(each.body)
            except msgspec.DecodeError as exc:
                raise LogCorrupt(f"unable to read {agent!r}; event {each.seq} is damaged ({exc})") from exc
            record = record_of_event(agent, each.seq, each.at, event, arguments=arguments)
            if record is not None:
                sys.stdout.buffer.write(encode_record(record))
        after = page[-1].seq
