"""`everyword export`: write an agent and its sub-agents to a file, or its conversation as a file for people."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from ...agents.handles.exports import ConversationExport, EmbeddedAttachments
from ...errors import LogCorrupt, UsageError
from ...events import decode_event
from ...ids import AgentId, children_prefix, split_agent_id
from ...log.base import Stored
from ...runtime.attachment_reader import AttachmentReader
from ...runtime.attachments import Attachments
from ...runtime.clock import SystemClock
from ...runtime.records import read_record
from ...transcripts.document import Shown
from ...transcripts.embedding import MOST_IN_EXPORT, MOST_OF_FILE, Embedding, EmbedLimits
from ...transcripts.formats import FORMATS, Transcript, filename_of, transcript_of
from ..agent_copy import read_log, without_detail
from ..agent_file import opened_to_write, pack
from ..arguments import add_agent, add_store, parse_count
from ..attachments import add_attachments, attachments_of, read_attachments
from ..output import Output
from ..store_access import find_agent, reading
from ..text import attached, count_of, iso, own_databases

__all__ = ["HELP", "add_arguments", "run"]

HELP = """\
Write an agent and all its sub-agents to one file, with their own SQL databases and attachments: lines of JSON with a
checksum, compressed if the name ends in .gz. `everyword import` reads it into a file or a PostgreSQL database. Works
while a server is running. Exception texts may contain secrets and are left out unless you pass --with-details.

With --format, write the conversation for people instead: markdown, html (one file, nothing else needed) or json. Such a
file cannot be imported. html and json have the attachments in them, up to the sizes that you set.

examples:
  everyword export chat/ann --format html
  everyword export chat/ann --format markdown -o - | less
  everyword export chat/ann
  everyword export chat/ann -o - | head -1
  everyword export chat/ann -o ann.jsonl --force
"""

MEBIBYTE: Final = 1024 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_agent(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="(default: kind-name.everyword.gz, or .md, .html, .json; - is standard output)",
    )
    parser.add_argument(
        "--format", choices=list(FORMATS), help="write the conversation for people, not the agent with its log"
    )
    parser.add_argument(
        "--without-reasoning", action="store_true", help="with --format: leave out the model's reasoning"
    )
    parser.add_argument(
        "--max-file-mib",
        type=parse_count,
        default=MOST_OF_FILE // MEBIBYTE,
        metavar="N",
        help="with --format: link attachments that are larger instead of embedding them (default: %(default)s)",
    )
    parser.add_argument(
        "--max-embedded-mib",
        type=parse_count,
        default=MOST_IN_EXPORT // MEBIBYTE,
        metavar="N",
        help="with --format: embed attachments of this size in all; 0 for none (default: %(default)s)",
    )
    parser.add_argument("--force", action="store_true", help="overwrite FILE")
    parser.add_argument("--with-details", action="store_true", help="keep the texts of exceptions")
    add_attachments(parser)
    add_store(parser)


def run(chosen: argparse.Namespace) -> int:
    """Write an agent, or its conversation, to a file."""
    if chosen.format is None and chosen.without_reasoning:
        raise UsageError("unable to export an agent without reasoning; give --format, too")
    if chosen.format is not None and chosen.with_details:
        raise UsageError("unable to export a conversation with details; a file for people has none. Leave out --format")
    write = _export if chosen.format is None else _export_conversation
    return asyncio.run(write(Output(is_json=chosen.json), chosen))


async def _export_conversation(output: Output, chosen: argparse.Namespace) -> int:
    async with reading(chosen.db) as store:
        agent = find_agent(await store.agents(), chosen.agent, chosen.db)
        record = await read_record(store, agent)
    if record.summary is None:
        raise UsageError(f"unable to export the conversation of {agent!r}; it has no messages")
    form, shown = FORMATS[chosen.format], Shown(reasoning=not chosen.without_reasoning)
    kind, name = split_agent_id(agent)
    transcript = transcript_of(record, record.summary, form, kind=kind, name=name, now=SystemClock().now(), shown=shown)
    attachments = _embedded(output, chosen, transcript, agent)
    export = ConversationExport(form.media_type, filename_of(kind, name, form), transcript, attachments)
    if chosen.output == "-":
        async for piece in export:
            sys.stdout.buffer.write(piece)
        sys.stdout.flush()
        return 0
    path = chosen.output or export.filename
    with opened_to_write(path, may_replace=chosen.force) as out:
        async for piece in export:
            out.write(piece)
    if output.is_json:
        output.json({"file": path, "agent": agent, "format": chosen.format, "messages": record.summary.messages})
    else:
        output.print(f"{path}: {agent}, {count_of(record.summary.messages, 'message')}")
    return 0


def _embedded(
    output: Output, chosen: argparse.Namespace, transcript: Transcript, agent: AgentId
) -> EmbeddedAttachments | None:
    """Return what embeds the attachments of an export; None if they are to be linked."""
    limits = EmbedLimits(chosen.max_file_mib * MEBIBYTE, chosen.max_embedded_mib * MEBIBYTE)
    if not transcript.form.embeds_files or not limits.total:
        return None
    blobs = attachments_of(chosen.db, chosen.attachments)
    if blobs is not None:
        return EmbeddedAttachments(AttachmentReader(Attachments(blobs), agent), limits)
    linked = sum(len([*Embedding(limits).wanted(message)]) for message in transcript.messages())
    if linked:
        output.note(f"{count_of(linked, 'attachment')} linked and not embedded; --attachments names their place")
    return None


async def _export(output: Output, chosen: argparse.Namespace) -> int:
    async with reading(chosen.db) as store:
        agent = find_agent(await store.agents(), chosen.agent, chosen.db)
        family = [agent, *await store.agents(children_prefix(agent))]
        logs: list[tuple[AgentId, Sequence[Stored]]] = []
        databases: dict[AgentId, bytes] = {}
        left_out = 0
        with output.progress("reading", len(family)) as bar:
            for member in family:
                log = _checked(member, await read_log(store, member))
                kept = log if chosen.with_details else [_without_detail(each) for each in log]
                left_out += sum(one is not other for one, other in zip(log, kept, strict=True))
                logs.append((member, kept))
                database = await store.database(member)
                if database is not None:
                    databases[member] = database
                bar.step(member)
        contents = await read_attachments(attachments_of(chosen.db, chosen.attachments), store, family)
    if left_out:
        output.note(f"{count_of(left_out, 'exception text')} left out; --with-details keeps them")
    now = iso(SystemClock().now()) or ""
    if chosen.output == "-":
        pack(sys.stdout.buffer, logs, now, databases, contents)
        sys.stdout.flush()
        return 0
    path = chosen.output or f"{agent.replace('/', '-')}.everyword.gz"
    with opened_to_write(path, may_replace=chosen.force) as out:
        events = pack(out, logs, now, databases, contents)
    if output.is_json:
        counts = {"events": events, "databases": len(databases), "attachments": len(contents)}
        output.json({"file": path, "agents": family, **counts})
    else:
        below = f" and {count_of(len(family) - 1, 'sub-agent')}" if len(family) > 1 else ""
        own = own_databases(len(databases)) + attached(len(contents))
        output.print(f"{path}: {agent}{below}, {count_of(events, 'event')}{own}")
    return 0


def _checked(agent: AgentId, log: Sequence[Stored]) -> Sequence[Stored]:
    for stored in log:
        try:
            decode_event(stored.body)
        except msgspec.DecodeError as exc:
            raise LogCorrupt(f"unable to export {agent!r}; event {stored.seq} cannot be read ({exc})") from exc
    return log


def _without_detail(stored: Stored) -> Stored:
    body = without_detail(stored.body)
    return stored if body is stored.body else replace(stored, body=body)
