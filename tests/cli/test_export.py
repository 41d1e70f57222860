"""`everyword export` and `import`: an agent in another store is the same agent, or nothing is written."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everyword.cli import main
from everyword.cli.agent_copy import Copied, read_log, write_agent
from everyword.cli.agent_file import pack, unpack
from everyword.cli.readonly_log import ReadOnlyLog
from everyword.core.wanted import wanted
from everyword.errors import BadInput, UsageError
from everyword.events import decode_event, encode_event
from everyword.ids import AgentId, Millis, Seq
from everyword.log.base import Stored
from everyword.log.sqlite.store import SqliteLog
from tests.cli.kit import damage
from tests.core.histories import History, histories

ANN = AgentId("chat/ann")


async def _dump(path: Path, agent: str = "chat/ann") -> list[object]:
    """Return all that a store holds of an agent, but for its seqs and its lease."""
    store = ReadOnlyLog(path)
    await store.open()
    name = AgentId(agent)
    log = [(each.at, each.kind, each.turn, each.body) for each in await read_log(store, name)]
    rows = [
        await store.turns(name),
        await store.conversation(name),
        await store.kept(name),
    ]
    wake = (await store.agent_record(name))[1]
    await store.aclose()
    return [log, *rows, wake]


@settings(max_examples=25)
@given(histories(), st.data())
def test_a_log_written_in_two_goes_has_the_rows_that_it_had_while_it_lived(
    history: History, data: st.DataObject
) -> None:
    events = [Copied(Millis(at), event, encode_event(event)) for event, at in history.log]
    if not events:
        return
    cut = data.draw(st.integers(0, len(events)))

    async def run(folder: str) -> None:
        store = SqliteLog(Path(folder) / "log.db")
        await store.open()
        if cut:
            assert await write_agent(store, ANN, events[:cut]) == cut
        assert await write_agent(store, ANN, events) == len(events) - cut
        assert await write_agent(store, ANN, events) == 0
        assert (await store.conversation(ANN))[0] == history.rows.agent
        assert {row.turn: row for row in await store.turns(ANN)} == history.rows.turns
        assert {row.node: row for row in (await store.conversation(ANN))[1]} == history.rows.messages
        assert await store.next_wake() == wanted(history.state, events[-1].at).wake
        assert [(each.at, each.body) for each in await read_log(store, ANN)] == [(at, body) for at, _, body in events]
        for turn in history.rows.turns:
            chunks = [
                body for _, event, body in events if getattr(event, "index", None) is not None and event.turn == turn
            ]
            assert [each.body for each in await store.read_turn(ANN, turn)] == chunks
        await store.aclose()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(folder))


@pytest.mark.parametrize("name", ["ann.everyword.gz", "ann.jsonl"])
def test_an_agent_is_the_same_in_another_store(name: str, stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for agent in ("ann", "bob", "cid", "dan"):
        assert main(["export", agent, "-o", name, "--force", "--with-details"]) == 0
        assert main(["import", name, "--db", "other.db"]) == 0
        assert asyncio.run(_dump(Path("other.db"), f"chat/{agent}")) == asyncio.run(_dump(stored, f"chat/{agent}"))
    said = capsys.readouterr()
    assert "1 turn had not ended and will continue when a server is started" in said.err
    assert main(["doctor", "--db", "other.db"]) == 0
    assert main(["rebuild", "--db", "other.db"]) == 0
    assert "0 changed" in capsys.readouterr().out


def test_what_retention_left_is_the_same_in_another_store(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gc", "--keep", "0s"]) == 0
    assert main(["export", "ann", "--with-details"]) == 0
    assert main(["import", "chat-ann.everyword.gz", "--db", "other.db", "--as", "chat/zed"]) == 0
    copied, original = asyncio.run(_dump(Path("other.db"), "chat/zed")), asyncio.run(_dump(stored))
    assert copied == original
    assert main(["doctor", "--db", "other.db"]) == 0
    assert "chat/zed" in capsys.readouterr().out


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


def test_a_file_has_no_texts_of_exceptions_unless_asked_for(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "ann", "-o", "ann.jsonl"]) == 0
    assert "1 exception text left out; --with-details keeps them" in capsys.readouterr().err
    assert main(["export", "ann", "-o", "whole.jsonl", "--with-details"]) == 0
    assert "left out" not in capsys.readouterr().err
    masked, whole = Path("ann.jsonl").read_text(), Path("whole.jsonl").read_text()
    assert "the inside of it" in whole and "the inside of it" not in masked and '"detail"' not in masked
    told = [json.loads(line)["event"] for line in whole.splitlines()[2:-1]]
    for event in told:
        event.pop("detail", None)
    assert [json.loads(line)["event"] for line in masked.splitlines()[2:-1]] == told, "nothing else is left out"


@pytest.mark.parametrize("first", ["ann.jsonl", "whole.jsonl"])
def test_the_same_log_with_and_without_details_is_one_log(
    first: str, stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "ann", "-o", "ann.jsonl"]) == 0
    assert main(["export", "ann", "-o", "whole.jsonl", "--with-details"]) == 0
    for name in (first, "ann.jsonl", "whole.jsonl"):
        assert main(["import", name, "--db", "other.db"]) == 0
        assert main(["doctor", "--db", "other.db"]) == 0
    assert capsys.readouterr().out.count("exists already, nothing written") == 2
    for name in ("ann.jsonl", "whole.jsonl"):
        assert main(["import", name, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["events"] == 0


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


def _copied(at: Millis, body: bytes) -> Copied:
    return Copied(at, decode_event(body), body)


def test_a_file_that_is_there_is_replaced_only_by_force(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path("kept.jsonl")
    path.write_text("mine", encoding="utf-8")
    assert main(["export", "ann", "-o", "kept.jsonl"]) == 2
    assert "Overwrite it with --force" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == "mine"
    assert main(["export", "ann", "-o", "no/such/folder/x.jsonl"]) == 2
    assert main(["export", "ann", "-o", "kept.jsonl", "--force"]) == 0
    assert [each.name for each in Path().iterdir() if not each.name.startswith("everyword.db")] == ["kept.jsonl"]


def test_standard_output_gets_the_lines(stored: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["export", "ann", "-o", "-"]) == 0
    lines = capfdbinary.readouterr().out.splitlines()
    assert json.loads(lines[0])["format"] == "everyword.agent"
    assert json.loads(lines[-1])["events"] == len(lines) - 3


def _packed(stored: Path) -> list[bytes]:
    assert main(["export", "ann", "-o", "ann.jsonl", "--force"]) == 0
    return Path("ann.jsonl").read_bytes().splitlines(keepends=True)


def _summed(lines: list[bytes]) -> bytes:
    """Return the lines with a footer that fits them: what somebody writes who knows the format."""
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
        (lambda lines: b"".join(lines).replace(b'"version":1', b'"version":2'), "Upgrade everyword"),
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


def test_a_log_that_cannot_be_read_is_not_exported(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(stored, "UPDATE event SET body = x'7b' WHERE agent = 1 AND seq = 11")
    assert main(["export", "ann"]) == 2
    assert "event 3 cannot be read" in capsys.readouterr().err
    assert not list(Path().glob("*.gz"))


@given(st.lists(st.text(alphabet=st.characters(codec="utf-8"), max_size=8), min_size=1, max_size=4))
def test_the_very_bytes_of_events_survive_the_file(texts: list[str]) -> None:
    bodies = [
        f'{{"t":"state.set", "state":{json.dumps(text, ensure_ascii=number % 2 == 0)}, "later":1}}'.encode(
            "utf-8", "replace"
        )
        for number, text in enumerate(texts)
    ]
    log = [Stored(Seq(n), Millis(n), "state.set", None, body) for n, body in enumerate(bodies, 1)]
    out = io.BytesIO()
    assert pack(out, [(ANN, log)], "now") == len(bodies)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.jsonl"
        path.write_bytes(out.getvalue())
        assert [copied.body for copied in unpack(str(path)).agents[ANN]] == bodies
