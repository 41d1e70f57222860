"""An access request: a zip file with everything that is stored about a person, and nothing of others."""

from __future__ import annotations

import asyncio
import io
import json
import os
import zipfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from everyword import Agent, Principal
from everyword.cli import main
from everyword.errors import LogUnavailable
from everyword.log.lists import ConversationQuery, ListedConversation
from tests.erasure.room import ANN, BOB, WORD, Room, asked, make_app, play, tab
from tests.erasure.test_erasure import store as store_fixture
from tests.erasure.test_erasure import words_in_files
from tests.server.kit import connect, serving

store = store_fixture


class Other(Agent[Any]):
    pass


APP = """
from tests.erasure.room import make_app

app = make_app("memory:")
"""


def lines(zipped: zipfile.ZipFile, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in zipped.read(name).splitlines()]


async def test_the_zip_has_what_a_person_owns_and_what_it_did_elsewhere(store: str, tmp_path: Path) -> None:
    app, path = make_app(store), tmp_path / "ann.zip"
    async with serving(app) as url, connect(url) as client:
        await play(app, url, client)
        counts = await app.principals.export(ANN, path)
        stream = io.BytesIO()
        assert await app.principals.export(ANN, stream) == counts
        nobody = io.BytesIO()
        assert await app.principals.export("nobody", nobody) == {}
    assert not path.with_name("ann.zip.part").exists()
    with zipfile.ZipFile(path) as zipped, zipfile.ZipFile(stream) as again:
        assert sorted(zipped.namelist()) == sorted([*counts, "manifest.json"]) == sorted(again.namelist())
        manifest = json.loads(zipped.read("manifest.json"))
        assert manifest["principal"] == ANN and manifest["files"] == counts
        (own,) = lines(zipped, "conversations/0001/conversation.json")
        assert (own["kind"], own["name"], own["owner"]) == ("room", f"own-{WORD}", ANN)
        messages = [each["message"] for each in lines(zipped, "conversations/0001/messages.jsonl")]
        assert [each["role"] for each in messages] == ["user", "assistant"]
        tables = lines(zipped, "conversations/0001/tables/heard.jsonl")
        assert tables == [{"who": ANN, "text": f"private note {WORD}"}]
        assert lines(zipped, "conversations/0001/below-0001/tables/told.jsonl") == [{"text": f"private note {WORD}"}]
        kinds = {each["event"]["t"] for each in lines(zipped, "conversations/0001/events.jsonl")}
        assert {"turn.accepted", "message.ended", "state.set", "job.added"} <= kinds and "chunk" not in kinds

        events = lines(zipped, "elsewhere/events.jsonl")
        assert {(each["kind"], each["name"]) for each in events} == {("room", "room")}
        asked = [each["event"] for each in events if each["event"]["t"] == "turn.accepted"]
        said_there = [message for each in asked for message in each.get("messages", [])]
        parts = [part for message in said_there for part in message["parts"]]
        said = [part["text"] for part in parts if part["type"] == "text"]
        assert [part["filename"] for part in parts if part["type"] == "file"] == ["p.txt"]
        assert said == [f"Hello, my word is {WORD}", f"no more {WORD}", f"other words, {WORD}"]
        photos = [name for name in zipped.namelist() if "/attachments/" in name]
        assert [name.rpartition("/")[0] for name in photos] == ["elsewhere/attachments"]
        assert sha256(zipped.read(photos[0])).hexdigest() == photos[0].rpartition("/")[2]
        assert zipped.read(photos[0]).startswith(f"{WORD}-photo".encode())
        found = {each["event"]["t"] for each in events}
        assert {"call.answered", "conversation.changed", "conversation.read", "job.added", "fiber.started"} <= found
        (room,) = lines(zipped, "elsewhere/conversations.jsonl")
        assert room["participant"] == {"id": ANN, "name": f"Ann {WORD}"} and room["messages_read"] > 0
        elsewhere = zipped.read("elsewhere/events.jsonl").decode()
        assert "Hello from Bob" not in elsewhere and f"{BOB}@x" not in elsewhere, "nothing of others"


async def test_claims_of_others_are_left_out_of_a_conversation_that_the_person_owns(tmp_path: Path) -> None:
    app, stream = make_app(str(tmp_path / "log.db")), io.BytesIO()
    async with serving(app) as url, connect(url) as client:
        async with tab(url, ANN, "own") as ann:
            await asked(ann, "a1", "mine")
        renamed = await client.patch("/conversations/room/own", headers={"x-user": BOB}, json={"title": "Renamed"})
        assert renamed.status_code == 200
        await app.principals.export(ANN, stream)
    with zipfile.ZipFile(stream) as zipped:
        events = zipped.read("conversations/0001/events.jsonl").decode()
        assert "Renamed" in events and f"{ANN}@x" in events and f"{BOB}@x" not in events


async def test_tables_that_cannot_be_read_are_named_and_the_rest_is_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, stream = str(tmp_path / "log.db"), io.BytesIO()
    app = make_app(store)
    async with serving(app) as url, tab(url, ANN, "own") as ann:
        await asked(ann, "a1", "mine")
        await ann.send(type="rpc", id="c1", method="remember", args=["a note"])
        await ann.until(lambda frame: frame.get("id") == "c1")
    app = make_app(store, classes=[Other])
    async with app:
        await app.principals.export(ANN, stream)
        report = await app.principals.erase(ANN)
        assert not report.is_complete and "no class of kind 'room'" in str(report.problems[0].problem)
    with zipfile.ZipFile(stream) as zipped:
        manifest = json.loads(zipped.read("manifest.json"))
        assert manifest["left_out"][:1] == ["conversations/0001/tables"]
        assert "lacks the tables of 'room/own'; unable to use 'room/own'; no class of kind 'room'" in caplog.text
        assert len(lines(zipped, "conversations/0001/messages.jsonl")) == 2


async def test_a_conversation_that_changes_while_they_are_listed_is_written_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everyword.runtime.personal_data.PAGE", 1)
    app, stream, is_first = make_app(str(tmp_path / "log.db")), io.BytesIO(), True
    async with serving(app) as url:
        for name in ("one", "two", "three"):
            async with tab(url, ANN, name) as ann:
                await asked(ann, f"a-{name}", "hello")
        lists = (await app.service()).directory.store.lists
        assert lists is not None
        conversations = lists.conversations

        async def changing(query: ConversationQuery) -> Sequence[ListedConversation]:
            nonlocal is_first
            found = await conversations(query)
            if is_first:
                is_first = False
                await app.get(Room, "one").for_principal(Principal(ANN)).save_messages("it is the newest now")
            return found

        monkeypatch.setattr(lists, "conversations", changing)
        await app.principals.export(ANN, stream)
    with zipfile.ZipFile(stream) as zipped:
        written = [name for name in zipped.namelist() if name.endswith("/conversation.json")]
        assert sorted(lines(zipped, name)[0]["name"] for name in written) == ["one", "three", "two"]


async def test_tables_with_similar_names_have_files_of_their_own(tmp_path: Path) -> None:
    app, stream = make_app(str(tmp_path / "log.db")), io.BytesIO()
    async with serving(app) as url, tab(url, ANN, "own") as ann:
        await asked(ann, "a1", "mine")
        await ann.send(type="rpc", id="c1", method="make_tables", args=[["a b", "a.b", "a-b-2"]])
        await ann.until(lambda frame: frame.get("id") == "c1")
        counts = await app.principals.export(ANN, stream)
    with zipfile.ZipFile(stream) as zipped:
        assert len(set(zipped.namelist())) == len(zipped.namelist())
        tables = [name for name in counts if "/tables/" in name]
        assert sorted(lines(zipped, name)[0]["name"] for name in tables) == ["a b", "a-b-2", "a.b"]


async def test_an_export_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app, stream = make_app(str(tmp_path / "log.db")), io.BytesIO()
    async with serving(app) as url:
        async with tab(url, ANN, "own") as ann:
            await asked(ann, "a1", "mine")
        store = (await app.service()).directory.store

        async def broken(*given: Any) -> Any:
            raise LogUnavailable("unable to read; the disk is gone")

        monkeypatch.setattr(store, "read", broken)
        with pytest.raises(LogUnavailable):
            await app.principals.export(ANN, tmp_path / "ann.zip")
        with pytest.raises(LogUnavailable):
            await app.principals.export(ANN, stream)
        monkeypatch.undo()
    assert not [name for name in os.listdir(tmp_path) if name.startswith("ann.zip")]
    assert "manifest.json" not in zipfile.ZipFile(stream).namelist()


def test_the_command_exports_and_erases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(APP)
    Path("data").mkdir()

    async def fill() -> None:
        app = make_app("data/log.db")
        async with serving(app) as url, connect(url) as client:
            await play(app, url, client)

    asyncio.run(fill())
    given = ["--db", "data/log.db"]
    assert main(["principal", "export", ANN, "-o", "ann.zip", *given]) == 0
    assert "ann.zip: " in capsys.readouterr().out
    assert main(["principal", "erase", ANN, *given]) == 2, "it asks, and there is no terminal"
    assert words_in_files(Path("data"))
    assert main(["principal", "erase", ANN, "--yes", *given]) == 0
    said = capsys.readouterr().out
    assert "1 conversation deleted" in said and "4 messages" in said
    assert words_in_files(Path("data")) == []
    assert main(["principal", "erase", ANN, "--yes", "--json", *given]) == 0
    assert json.loads(capsys.readouterr().out)["agents"] == []
    with pytest.raises(SystemExit):
        main(["principal", "unknown", ANN])
