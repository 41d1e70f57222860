"""`everyword import`: files are checked, imported once, and completed when interrupted."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
from pathlib import Path

import pytest

from everyword.cli import main
from everyword.cli.agent_copy import Copied, fold_events, fresh, read_log, write_agent
from everyword.cli.agent_file import unpack
from everyword.cli.readonly_log import ReadOnlyLog
from everyword.errors import BadInput, UsageError
from everyword.events import ShareCreated, decode_event
from everyword.ids import AgentId, Millis, ShareId
from everyword.log.sqlite.store import SqliteLog
from tests.cli.test_export import ANN, _dump


def test_importing_twice_changes_nothing_and_another_agent_of_the_name_is_left_alone(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "ann"]) == 0
    before = asyncio.run(_dump(stored))
    assert main(["import", "chat-ann.everyword.gz", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["events"] == 0
    assert main(["import", "chat-ann.everyword.gz", "--as", "chat/bob"]) == 2
    assert "another agent has this name" in capsys.readouterr().err
    assert asyncio.run(_dump(stored)) == before


def test_sub_agents_go_along_and_are_renamed_with_their_parent(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def add_children() -> None:
        source = ReadOnlyLog(stored)
        await source.open()
        log = [_copied(each.at, each.body) for each in await read_log(source, ANN)]
        await source.aclose()
        store = SqliteLog(stored)
        await store.open()
        for child in ("chat/ann/sub/search/one", "chat/ann/sub/search/one/sub/read/two", "chat/anna/sub/search/no"):
            await write_agent(store, AgentId(child), log)
        await store.aclose()

    asyncio.run(add_children())
    assert main(["export", "chat/ann"]) == 0
    assert "chat/ann and 2 sub-agents" in capsys.readouterr().out
    assert main(["import", "chat-ann.everyword.gz", "--db", "other.db", "--as", "chat/zed"]) == 0
    assert main(["ls", "--db", "other.db", "--json", "--sort", "name"]) == 0
    names = [each["agent"] for each in json.loads(capsys.readouterr().out.splitlines()[-1])]
    assert names == ["chat/zed", "chat/zed/sub/search/one", "chat/zed/sub/search/one/sub/read/two"]


@pytest.mark.parametrize(("name", "links"), [("chat/ann", 1), ("chat/zed", 0)])
def test_shared_links_stay_behind_when_a_conversation_is_imported_under_another_name(
    stored: Path, name: str, links: int
) -> None:
    """Two conversations would have one token, and to revoke it in one of them would not do."""

    async def share() -> None:
        store = SqliteLog(stored)
        await store.open()
        log = [_copied(each.at, each.body) for each in await read_log(store, ANN)]
        (link,) = fresh([ShareCreated(ShareId("s1"), "a digest")], log[-1].at)
        await write_agent(store, ANN, [*log, link])
        await store.aclose()

    async def found() -> int:
        store = SqliteLog(Path("other.db"))
        await store.open()
        log = [_copied(each.at, each.body) for each in await read_log(store, AgentId(name))]
        await store.aclose()
        return len(fold_events(log, name).shares)

    asyncio.run(share())
    assert main(["export", "chat/ann"]) == 0
    assert main(["import", "chat-ann.everyword.gz", "--db", "other.db", "--as", name]) == 0
    assert asyncio.run(found()) == links


def _copied(at: Millis, body: bytes) -> Copied:
    return Copied(at, decode_event(body), body)


def _packed(stored: Path) -> list[bytes]:
    assert main(["export", "ann", "-o", "ann.jsonl", "--force"]) == 0
    return Path("ann.jsonl").read_bytes().splitlines(keepends=True)


def _summed(lines: list[bytes]) -> bytes:
    """Return the lines with a footer that fits them: as a person would write it who knows the format."""
    content = b"".join(lines[:-1])
    footer = {**json.loads(lines[-1]), "sha256": hashlib.sha256(content).hexdigest()}
    return content + json.dumps(footer).encode() + b"\n"


def _without_a_line(lines: list[bytes]) -> bytes:
    return _summed([*lines[:4], *lines[5:]])


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (lambda lines: b"", "it is empty"),
        (lambda lines: b"hello\n", "line 1 cannot be read"),
        (lambda lines: b'{"format":"other"}\n{}\n', "was not written by `everyword export`"),
        (lambda lines: b"".join(lines[:-1]), "its end is missing"),
        (lambda lines: b"".join(lines[:7]), "its end is missing"),
        (lambda lines: b"".join(lines).replace(b"Hello", b"Hallo"), "changed or damaged"),
        (lambda lines: b"".join(lines).replace(b'"version":1', b'"version":4'), "Upgrade everyword"),
        (lambda lines: gzip.compress(b"".join(lines))[:-20], "Is the file incomplete"),
        (
            lambda lines: _summed([lines[0], lines[1], b'{"seq":1,"at":1,"event":{"t":"new.kind"}}\n', *lines[3:]]),
            "is not an event",
        ),
        (_without_a_line, "an agent has .* events instead of"),
        (
            lambda lines: _summed([lines[0], lines[1], *lines[3:-1], lines[2], lines[-1]]),
            "does not follow from the events before it",
        ),
        (lambda lines: _summed([lines[0], lines[-1]]), "it contains no agent"),
    ],
)
def test_a_file_that_is_not_what_was_exported_is_refused_whole(
    bad: object, sentence: str, stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(bad)
    content = bad(_packed(stored))
    Path("bad.jsonl").write_bytes(content)
    with pytest.raises(BadInput, match=sentence):
        unpack("bad.jsonl")
    capsys.readouterr()
    assert main(["import", "bad.jsonl", "--db", "other.db"]) == 2
    assert capsys.readouterr().err.startswith("everyword: unable to import 'bad.jsonl'")
    assert not Path("other.db").exists()


def test_a_file_that_is_not_there_is_a_sentence(stored: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        unpack("nothing.gz")
    assert main(["import", "nothing.gz"]) == 2
