"""Writes everything that is stored about a person as a zip file, piece by piece."""

from __future__ import annotations

import asyncio
import logging
import os
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec

from ...errors import EverywordError
from ...ids import AgentId, Millis, root_id, split_agent_id
from ...messages.attachments import find_references

if TYPE_CHECKING:
    from ...runtime.api.erasures import ReadsPersonalData
    from .app_handle import AppHandle

__all__ = ["write_export"]

log = logging.getLogger("everyword.agents")

VERSION: Final = 1
AT_ONCE: Final = 256 * 1024
"""Bytes that are collected before they are compressed, in a thread."""

ROWS: Final = 200
"""Rows of a table that are read at once."""

ABOUT: Final = {
    "conversations": "Conversations that the principal owns: their messages, events, states and tables, and those of "
    "agents below them. Attachments are named by the hash that their URLs end with.",
    "elsewhere/events.jsonl": "What the principal did in conversations of others: its questions, messages, answers to "
    "calls, approvals, changes, read positions and jobs.",
    "elsewhere/attachments": "The attachments of the principal's messages in conversations of others.",
    "elsewhere/conversations.jsonl": "Conversations of others that name the principal, with its read position.",
}


class _Zip:
    """A zip file that is written in threads."""

    def __init__(self, out: IO[bytes], now: datetime) -> None:
        self._zip = zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED)
        self._date = now.year, now.month, now.day, now.hour, now.minute, now.second
        self.counts: dict[str, int] = {}
        self.left_out: list[str] = []
        """What could not be read. The log says why; the file is for the person."""

    async def write(self, name: str, lines: AsyncIterator[Any]) -> None:
        """Write a file with a line of JSON for each value; none if there are no values."""
        waiting, size, count = list[bytes](), 0, 0
        async with self._entry(name) as write:
            async for value in lines:
                waiting.append(msgspec.json.encode(value) + b"\n")
                size += len(waiting[-1])
                count += 1
                if size >= AT_ONCE:
                    await write(b"".join(waiting))
                    waiting, size = [], 0
            if waiting:
                await write(b"".join(waiting))
        if count:
            self.counts[name] = count

    async def copy(self, name: str, pieces: AsyncIterator[bytes]) -> None:
        """Write a file as it is, piece by piece; none if there are no pieces."""
        async with self._entry(name) as write:
            async for piece in pieces:
                await write(piece)
                self.counts[name] = 1

    @asynccontextmanager
    async def _entry(self, name: str) -> AsyncIterator[Callable[[bytes], Awaitable[None]]]:
        """Yield a function that writes to a file, which is begun by its first call."""
        entry: Any = None

        async def write(content: bytes) -> None:
            nonlocal entry
            if entry is None:
                entry = self._zip.open(self._named(name), "w", force_zip64=True)
            await asyncio.to_thread(entry.write, content)

        try:
            yield write
        finally:
            if entry is not None:
                await asyncio.to_thread(entry.close)

    def _named(self, name: str) -> zipfile.ZipInfo:
        found = zipfile.ZipInfo(name, self._date)
        found.compress_type = zipfile.ZIP_DEFLATED
        return found

    async def write_manifest(self, manifest: dict[str, Any]) -> None:
        left_out = {"left_out": self.left_out} if self.left_out else {}
        body = msgspec.json.format(msgspec.json.encode({**manifest, "files": self.counts, **left_out}))
        await asyncio.to_thread(self._zip.writestr, self._named("manifest.json"), body)

    async def aclose(self) -> None:
        await asyncio.to_thread(self._zip.close)


async def write_export(
    app: AppHandle, data: ReadsPersonalData, principal: str, target: str | PathLike[str] | IO[bytes]
) -> dict[str, int]:
    """Write the export; return its files, each with the number of its lines; an attachment counts as one."""
    if isinstance(target, str | PathLike):
        part = f"{os.fspath(target)}.part"  # a file of that name is complete
        try:
            with await asyncio.to_thread(open, part, "wb") as out:
                counts = await _write(app, data, principal, out)
            os.replace(part, target)
        except BaseException:
            await asyncio.to_thread(Path(part).unlink, missing_ok=True)
            raise
        return counts
    return await _write(app, data, principal, target)


async def _write(app: AppHandle, data: ReadsPersonalData, principal: str, out: IO[bytes]) -> dict[str, int]:
    now = datetime.now(UTC)
    file = _Zip(out, now)
    async with aclosing(file):
        await _write_all(app, data, principal, file)
        about = {"principal": principal, "written_at": now.isoformat(timespec="seconds"), "version": VERSION}
        await file.write_manifest({**about, "about": ABOUT})
    return file.counts


async def _write_all(app: AppHandle, data: ReadsPersonalData, principal: str, file: _Zip) -> None:
    owned: set[AgentId] = set()
    async for each in data.owned(principal):
        owned.add(each.agent)
        folder = f"conversations/{len(owned):04}"
        await file.write(f"{folder}/conversation.json", _one({**_address(each.agent), **_plain(each.summary)}))
        for number, agent in enumerate(await data.family(each.agent)):
            inner = folder if number == 0 else f"{folder}/below-{number:04}"
            await _write_agent(app, data, file, agent, principal, inner)
        for sha256 in await data.attachments(each.agent):
            await file.copy(f"{folder}/attachments/{sha256}", data.content(each.agent, sha256))
    others = [agent for agent in await data.mentioning(principal) if root_id(agent) not in owned]
    referenced: set[tuple[AgentId, str]] = set()
    await file.write("elsewhere/events.jsonl", _parts(data, others, principal, referenced))
    for agent, sha256 in sorted(referenced):
        if (name := f"elsewhere/attachments/{sha256}") not in file.counts:
            await file.copy(name, data.content(agent, sha256))
    roots = sorted({root_id(agent) for agent in others})
    await file.write("elsewhere/conversations.jsonl", _takes_part(data, roots, principal))


async def _write_agent(
    app: AppHandle, data: ReadsPersonalData, file: _Zip, agent: AgentId, principal: str, folder: str
) -> None:
    if root_id(agent) != agent:
        await file.write(f"{folder}/agent.json", _one(_address(agent)))
    await file.write(f"{folder}/messages.jsonl", _messages(data, agent))
    await file.write(f"{folder}/events.jsonl", _events(data, agent, principal))
    if not await data.has_tables(agent):
        return
    try:
        await _write_tables(app._handle_at(agent), file, folder)
    except EverywordError as exc:  # its class is not served any more, or cannot be loaded
        log.error("an export of a person's data lacks the tables of %r; %s", agent, exc)
        file.left_out.append(f"{folder}/tables")


async def _write_tables(handle: Any, file: _Zip, folder: str) -> None:
    """Write the SQL tables of an agent, which are read by its owner."""
    taken = set[str]()
    for table in await handle._do("sql_tables", list[str]):
        name = "".join(letter if letter.isalnum() else "-" for letter in table)[:80]
        while name.lower() in taken:
            name += "-2"
        taken.add(name.lower())
        await file.write(f"{folder}/tables/{name}.jsonl", _rows(handle, table))


async def _one(value: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    yield value


async def _messages(data: ReadsPersonalData, agent: AgentId) -> AsyncIterator[dict[str, Any]]:
    for each in await data.messages(agent):
        yield {"node": each.node, "parent": each.parent, "time": _time(each.at), "message": msgspec.Raw(each.body)}


async def _events(data: ReadsPersonalData, agent: AgentId, principal: str) -> AsyncIterator[dict[str, Any]]:
    async for each in data.events(agent, principal):
        yield {"time": _time(each.at), "event": msgspec.Raw(each.body)}


async def _rows(handle: Any, table: str) -> AsyncIterator[Any]:
    offset = 0
    while rows := await handle._do("sql_rows", list[Any], {"table": table, "offset": offset, "limit": ROWS}):
        for row in rows:
            yield row
        offset += len(rows)


async def _parts(
    data: ReadsPersonalData, agents: list[AgentId], principal: str, referenced: set[tuple[AgentId, str]]
) -> AsyncIterator[dict[str, Any]]:
    """Yield what the principal did in these agents, and add the attachments that it refers to."""
    for agent in agents:
        async for at, part in data.parts(agent, principal):
            referenced |= {(agent, sha256) for sha256 in find_references(msgspec.json.encode(part))}
            yield {**_address(agent), "time": _time(at), "event": part}


async def _takes_part(data: ReadsPersonalData, roots: list[AgentId], principal: str) -> AsyncIterator[dict[str, Any]]:
    for root in roots:
        found = await data.conversation(root)
        if found is not None:
            named = [each for each in found.summary.participants if each.id == principal]
            read = found.summary.reads.get(principal)
            yield {**_address(root), "participant": _plain(named[0]) if named else None, "messages_read": read}


def _address(agent: AgentId) -> dict[str, str]:
    kind, name = split_agent_id(agent)
    return {"kind": kind, "name": name}


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _time(at: Millis) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")
