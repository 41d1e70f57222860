"""`everyword export`: one agent as one file, which can be imported unchanged."""

from __future__ import annotations

import asyncio
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
from everyword.events import encode_event
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


@pytest.mark.parametrize(("form", "ending"), [("markdown", "md"), ("html", "html"), ("json", "json")])
def test_a_conversation_is_written_for_people(
    form: str, ending: str, stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "ann", "--format", form]) == 0
    assert f"chat-ann.{ending}: chat/ann, " in capsys.readouterr().out
    written = Path(f"chat-ann.{ending}").read_text(encoding="utf-8")
    assert written.startswith({"md": "# ", "html": "<!doctype html>", "json": "{"}[ending])
    assert "the inside of it" not in written
    assert main(["export", "ann", "--format", form]) == 2
    assert "Overwrite it with --force" in capsys.readouterr().err
    assert main(["export", "ann", "--format", form, "--force", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["format"] == form


def test_options_that_do_not_fit_are_refused(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "ann", "--without-reasoning"]) == 2
    assert "give --format, too" in capsys.readouterr().err
    assert main(["export", "ann", "--format", "html", "--with-details"]) == 2
    assert "Leave out --format" in capsys.readouterr().err
