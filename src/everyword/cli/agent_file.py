"""The file format of `everyword export`: one agent, with its sub-agents, as lines of JSON.

The first line is a header, then come agents, the one asked for first and its sub-agents behind it, each as a line that
names it and a line for each of its events. The agent's own SQL database follows its events, in lines of at most
`DATABASE_PART` bytes each, in base 64. The last line has the number of agents and events and a digest of all that
stands before it. The contents of attachments follow the last agent, each as a line that names it and lines of its
content. The file is compressed when its name ends in `.gz`. Unknown fields are passed over, so that later
versions may add some; a later `version` means that they must not be. A file without databases has version 1, which
releases before databases were exported read, too; one without attachments has at most version 2.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, cast

import msgspec

from .. import __version__
from ..errors import BadInput, UsageError
from ..events import decode_event
from ..ids import AgentId, Millis
from ..log.base import Stored
from .agent_copy import Copied, fold_events
from .database_image import check_image

__all__ = ["FORMAT", "VERSION", "Packed", "pack", "unpack"]

FORMAT = "everyword.agent"
FORMER_FORMAT = "holdfast.agent"
"""The format name in files written while the package was called holdfast."""
VERSION = 3
WITHOUT_ATTACHMENTS = 2
WITHOUT_DATABASES = 1

DATABASE_PART = 512 * 1024

_encode = msgspec.json.encode


class _Line(msgspec.Struct):
    """A line between the first and the last: an agent, an event of the agent before it, or a part of its database."""

    agent: AgentId | None = None
    database: bytes | None = None
    attachment: str | None = None
    content: bytes | None = None
    events: int = 0
    at: Millis = Millis(0)
    event: msgspec.Raw = msgspec.Raw(b"")


_decode_line = msgspec.json.Decoder(_Line).decode


@dataclass(slots=True)
class Packed:
    """The content of a file: agents with their events and databases; the exported agent is the first."""

    agents: dict[AgentId, list[Copied]] = field(default_factory=dict)
    databases: dict[AgentId, bytes] = field(default_factory=dict)
    attachments: dict[str, bytes] = field(default_factory=dict)
    """Contents of the conversation's attachments, by hash."""
    exported_at: str = ""


class _Summing:
    """Writes lines, and computes their checksum."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out, self.digest = out, hashlib.sha256()

    def line(self, value: Any) -> None:
        text = _encode(value) + b"\n"
        self.digest.update(text)
        self._out.write(text)


def pack(
    out: IO[bytes],
    agents: Sequence[tuple[AgentId, Sequence[Stored]]],
    exported_at: str,
    databases: Mapping[AgentId, bytes] = MappingProxyType({}),
    attachments: Mapping[str, bytes] = MappingProxyType({}),
) -> int:
    """Write the agents, with their own SQL databases and attachments; return the number of events."""
    summing, version = _Summing(out), WITHOUT_ATTACHMENTS if databases else WITHOUT_DATABASES
    version = VERSION if attachments else version
    summing.line({"format": FORMAT, "version": version, "everyword": __version__, "exportedAt": exported_at})
    events = 0
    for agent, log in agents:
        summing.line({"agent": agent, "events": len(log)})
        for stored in log:
            # JSON allows a line break where it allows a space; a line of the file must be one line.
            body = stored.body.replace(b"\n", b" ")
            summing.line({"seq": stored.seq, "at": stored.at, "event": msgspec.Raw(body)})
        events += len(log)
        image = databases.get(agent, b"")
        for start in range(0, len(image), DATABASE_PART):
            summing.line({"database": image[start : start + DATABASE_PART]})
    for sha256, content in attachments.items():
        summing.line({"attachment": sha256})
        for start in range(0, len(content), DATABASE_PART):
            summing.line({"content": content[start : start + DATABASE_PART]})
    out.write(_encode({"agents": len(agents), "events": events, "sha256": summing.digest.hexdigest()}) + b"\n")
    return events


@contextmanager
def opened_to_write(path: str, *, may_replace: bool) -> Iterator[IO[bytes]]:
    """Open a file for writing; it appears under its name when it is complete."""
    if Path(path).exists() and not may_replace:
        raise UsageError(f"unable to write {path!r}; it exists. Overwrite it with --force")
    folder = os.path.dirname(os.path.abspath(path))
    try:
        descriptor, name = tempfile.mkstemp(prefix=".everyword-", dir=folder)
    except OSError as exc:
        raise UsageError(f"unable to write {path!r}; {exc.strerror}") from exc
    try:
        with os.fdopen(descriptor, "wb") as raw:
            if path.endswith(".gz"):
                with gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0) as out:
                    yield cast("IO[bytes]", out)  # true, but the stubs say otherwise
            else:
                yield raw
        os.chmod(name, 0o644 & ~_umask())
        os.replace(name, path)
    except BaseException as exc:
        os.unlink(name)
        if isinstance(exc, OSError):
            raise UsageError(f"unable to write {path!r}; {exc.strerror}") from exc
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def unpack(path: str) -> Packed:
    """Read a file and check its format, its version, its checksum, and that every log can be folded.

    Raises:
        UsageError: there is no such file.
        BadInput: it is not one of ours, is damaged, or is of a later version.
    """
    lines = _lines(path)
    if not lines:
        raise BadInput(f"unable to import {path!r}; it is empty")
    header = _object(path, 1, lines[0])
    if header.get("format") not in (FORMAT, FORMER_FORMAT):
        raise BadInput(f"unable to import {path!r}; it was not written by `everyword export`")
    if not isinstance(header.get("version"), int) or header["version"] > VERSION:
        raise BadInput(
            f"unable to import {path!r}; it has version {header.get('version')}, and this everyword reads {VERSION}. "
            "Upgrade everyword"
        )
    _check_sum(path, lines)
    packed = Packed(exported_at=str(header.get("exportedAt", "")))
    _read_agents(path, lines, packed)
    for agent, events in packed.agents.items():
        fold_events(events, f"{path!r} ({agent})")
    for agent, image in packed.databases.items():
        wrong = check_image(image)
        if wrong is not None:
            raise BadInput(f"unable to import {path!r}; the SQL database of {agent!r} cannot be used: {wrong}")
    return packed


def _lines(path: str) -> list[bytes]:
    try:
        content = Path(path).read_bytes()
    except OSError as exc:
        raise UsageError(f"unable to import {path!r}; {exc.strerror}") from exc
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as exc:
            raise BadInput(f"unable to import {path!r}; {exc}. Is the file incomplete?") from exc
    return [line + b"\n" for line in content.removesuffix(b"\n").split(b"\n")] if content else []


def _object(path: str, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = None
    if not isinstance(value, dict):
        raise BadInput(
            f"unable to import {path!r}; line {number} cannot be read. It was not written by `everyword export`"
        )
    return value


def _check_sum(path: str, lines: Sequence[bytes]) -> None:
    footer = _object(path, len(lines), lines[-1])
    if "sha256" not in footer:
        raise BadInput(f"unable to import {path!r}; its end is missing. Is the file incomplete?")
    if hashlib.sha256(b"".join(lines[:-1])).hexdigest() != footer["sha256"]:
        raise BadInput(
            f"unable to import {path!r}; its checksum does not match: it was changed or damaged. Export it again"
        )


def _read_agents(path: str, lines: Sequence[bytes], packed: Packed) -> None:
    events: list[Copied] = []
    images: dict[AgentId, list[bytes]] = {}
    contents: dict[str, list[bytes]] = {}
    expected = 0
    for number, line in enumerate(lines[1:-1], 2):
        try:
            told = _decode_line(line)
            if told.agent is not None:
                _check_count(path, expected, events)
                events, expected = [], told.events
                packed.agents[told.agent] = events
            elif told.attachment is not None:
                contents[told.attachment] = []
            elif told.content is not None and contents:
                contents[next(reversed(contents))].append(told.content)
            elif told.database is not None and packed.agents:
                images.setdefault(next(reversed(packed.agents)), []).append(told.database)
            else:
                body = bytes(told.event)
                events.append(Copied(told.at, decode_event(body), body))
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            raise BadInput(
                f"unable to import {path!r}; line {number} is not an event of this everyword version ({exc})"
            ) from exc
    _check_count(path, expected, events)
    packed.databases = {agent: b"".join(parts) for agent, parts in images.items()}
    packed.attachments = {sha256: b"".join(parts) for sha256, parts in contents.items()}
    for sha256, content in packed.attachments.items():
        if hashlib.sha256(content).hexdigest() != sha256:
            raise BadInput(f"unable to import {path!r}; attachment {sha256} is damaged. Export it again")
    if not packed.agents:
        raise BadInput(f"unable to import {path!r}; it contains no agent")


def _check_count(path: str, expected: int, events: Sequence[object]) -> None:
    if len(events) != expected:
        raise BadInput(f"unable to import {path!r}; an agent has {len(events)} events instead of {expected}")
