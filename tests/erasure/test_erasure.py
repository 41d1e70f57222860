"""A person is erased: none of the person's words is left in the store, and everybody else's conversation goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import asyncpg
import pytest

from everyword import Principal
from everyword.cli import main
from everyword.core.erasure import ERASED_TEXT
from everyword.errors import UsageError
from everyword.events import CancelRequested, decode_event
from everyword.ids import AgentId, Millis, Seq
from everyword.log.lists import ConversationQuery, ListedConversation
from everyword.log.postgres.address import DatabaseAddress
from everyword.runtime.api.erasures import Erasure
from everyword.runtime.erasures import Erasures
from everyword.server.node_settings import NodeSettings
from everyword.testing import Gate
from tests.erasure.room import ANN, BOB, WORD, Note, Room, asked, begun, call_of, make_app, play, tab
from tests.server.kit import bare, connect, serving
from tests.timeouts import PATIENCE


def words_in_files(folder: Path) -> list[str]:
    """Return the files in which the word is, with what surrounds it."""
    found = []
    for path in sorted(folder.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        at = content.find(WORD.encode())
        if at >= 0:
            found.append(f"{path.name}: {content[max(at - 80, 0) : at + 60]!r}")
        elif WORD in path.name:
            found.append(path.name)
    return found


async def words_in_tables(url: str) -> list[str]:
    from tests.nodes.test_nodes import look

    schema = DatabaseAddress.parse(url).schema
    tables = await look(url, f"select table_name from information_schema.tables where table_schema = '{schema}'")
    found = []
    for (table,) in tables:
        for row in await look(url, f"select * from everyword.{table}"):
            for value in row:
                text = value if isinstance(value, bytes) else str(value).encode()
                if WORD.encode() in text:
                    found.append(f"{table}: {text[:300]!r}")
    return found


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("tests.erasure.room.FILES", str(tmp_path / "attachments"))
    if request.param == "sqlite":
        return str(tmp_path / "log.db")
    return str(request.getfixturevalue("postgres_url"))


async def words_left(store: str, files: Path) -> list[str]:
    return [*(await words_in_tables(store) if store.startswith("postgres") else ()), *words_in_files(files)]


async def test_no_word_of_an_erased_person_is_left_and_the_others_go_on(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = make_app(store)
    async with serving(app) as url, connect(url) as client:
        await play(app, url, client)
        assert await words_left(store, tmp_path), "the words were there"
        before = (await client.get("/agents/room/room/get-messages", headers={"x-user": BOB})).json()
        async with tab(url, BOB) as page:
            report = await app.principals.erase(ANN)
            await page.closed_after_frames()
        assert report.is_complete, report
        assert report.id.startswith("erased-") and WORD not in repr(report)
        deleted = [each for each in report.agents if each.is_deleted]
        assert [(each.kind, each.name, each.counts["agents"]) for each in deleted] == [("room", None, 2)]
        (room,) = [each for each in report.agents if each.name == "room"]
        assert (
            room.counts["messages"] == 4
            and room.counts.get("attachments", 1) == 1
            and room.counts["answers to calls"] == 2
        )

        after = (await client.get("/agents/room/room/get-messages", headers={"x-user": BOB})).json()
        assert [each["role"] for each in after] == [each["role"] for each in before]
        texts = [part["text"] for message in after for part in message["parts"] if part["type"] == "text"]
        assert texts.count("This message was deleted.") == 2 and "Hello from Bob" in texts
        assert after[0] == before[0], "Bob's own message is as it was"
        async with tab(url, BOB) as page:
            frame = await page.until(lambda frame: frame["type"] == "cf_agent_chat_messages")
            assert bare(frame["messages"]) == bare(after), "a client that comes back is sent the new conversation"
            await asked(page, "b9", "and now?")
        found = await app.conversations.get("room", "room", principal=BOB)
        assert found is not None and found.owner == BOB and found.title == "Hello from Bob"
        assert {each.id for each in found.participants} == {BOB, report.id}
        assert await app.conversations.list(principal=ANN) is not None
        (again,) = await app.principals.erasures()
        assert again == report
        second = await app.principals.erase(ANN)
        assert second.is_complete and second.agents == []
    assert await words_left(store, tmp_path) == []
    assert await asyncio.to_thread(main, ["doctor", "--no-app", "--db", store]) == 0, capsys.readouterr()
    assert await asyncio.to_thread(main, ["rebuild", "--json", "--db", store]) == 0
    said = capsys.readouterr().out
    assert '"changed":0,"failed":0' in said, said
    app = make_app(store)
    async with serving(app) as url, tab(url, BOB) as page:
        await asked(page, "b10", "still here?")
    assert await words_left(store, tmp_path) == []


async def test_a_node_has_an_agent_of_another_node_rewritten_by_its_owner(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.erasure.room.FILES", str(tmp_path / "attachments"))
    one, two = (make_app(postgres_url, NodeSettings(name=name, lease=600)) for name in ("one", "two"))
    async with serving(one) as url, connect(url) as client, two:
        await play(one, url, client)
        async with tab(url, BOB) as page:
            await page.settled()  # node one owns the agent, and has it loaded
            report = await two.principals.erase(ANN)
            await page.closed_after_frames()
        assert report.is_complete and report.left is not None, report
        async with tab(url, BOB) as page:
            await asked(page, "b9", "and now?")
        assert await words_in_tables(postgres_url) == []


async def test_the_owner_of_a_conversation_that_was_deleted_before_is_forgotten(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.erasure.room.FILES", str(tmp_path / "attachments"))
    app = make_app(postgres_url)
    async with serving(app) as url:
        async with tab(url, ANN, "gone") as page:
            await asked(page, "o1", "hello")
        await app.conversations.delete(Room, "gone")
        assert (await app.principals.erase(ANN)).is_complete
        assert await words_in_tables(postgres_url) == []


async def test_two_nodes_that_erase_at_once_do_not_disturb_each_other(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.erasure.room.FILES", str(tmp_path / "attachments"))
    one, two = (make_app(postgres_url, NodeSettings(name=name, lease=600)) for name in ("one", "two"))
    async with serving(one) as url, connect(url) as client, two:
        await play(one, url, client)
        reports = await asyncio.gather(one.principals.erase(ANN), two.principals.erase(ANN))
        assert [(each.is_complete, each.problems) for each in reports] == [(True, [])] * 2, reports
    assert await words_in_tables(postgres_url) == []


async def test_an_erasure_of_a_node_that_joined_a_moment_ago_is_left_to_it(tmp_path: Path) -> None:
    app = make_app(str(tmp_path / "log.db"))
    async with serving(app):
        directory = (await app.service()).directory
        nodes = SimpleNamespace(incarnation=4, live=[SimpleNamespace(id=4), SimpleNamespace(id=3)])
        known: Any = SimpleNamespace(ownership=SimpleNamespace(nodes=nodes))

        def is_left(node: int, looks: int = 1) -> list[bool]:
            erasures = Erasures(lambda: directory, lambda: app._calls)
            erasure = Erasure("erased-1", Millis(0), principal=ANN, node=node)
            return [erasures._is_left(known, erasure) for _ in range(looks)]

        assert is_left(4) == [True] and is_left(3, 2) == [False, False], "its own, and that of a node that lives"
        assert is_left(2) == [True], "it lived once"
        assert is_left(5, 2) == [False, True], "it may be new, or gone before anyone knew of it"


async def test_the_documented_statement_leaves_no_word_in_the_files_of_postgresql(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.erasure.room.FILES", str(tmp_path / "attachments"))
    app = make_app(postgres_url)
    async with serving(app) as url, connect(url) as client:
        await play(app, url, client)
        assert (await app.principals.erase(ANN, answers=True)).is_complete
    address = DatabaseAddress.parse(postgres_url)
    page = (Path(__file__).parents[2] / "docs/how-to/erasure.md").read_text(encoding="utf-8")
    statement = page.partition("```sql\n")[2].partition("```")[0]
    connection = await asyncpg.connect(postgres_url.partition("&schema")[0])
    try:
        assert await _files_with_words(connection, address.schema), "replaced rows are in the files"
        async with asyncio.timeout(PATIENCE):  # rows that an open transaction of another test may see are left
            while left := await _files_with_words(connection, address.schema):
                await connection.execute(statement.replace("everyword.", f"{address.schema}."))
        assert left == []
    finally:
        await connection.close()


async def _files_with_words(connection: asyncpg.Connection, schema: str) -> list[str]:
    await connection.execute("checkpoint")
    (folder,) = await connection.fetchrow("show data_directory")
    rows = await connection.fetch(
        "with own as (select c.oid, c.relname, c.reltoastrelid from pg_class c "
        "join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1) "
        "select relname, pg_relation_filepath(oid) as path from own union "
        "select relname, pg_relation_filepath(reltoastrelid) from own where reltoastrelid <> 0",
        schema,
    )
    files = [(row["relname"], Path(folder) / row["path"]) for row in rows if row["path"] is not None]
    return [name for name, path in files if path.exists() and WORD.encode() in path.read_bytes()]


async def test_an_answer_that_does_not_end_leaves_the_erasure_incomplete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everyword.runtime.method_calls.stop_work_of", AsyncMock())  # as if it could not
    monkeypatch.setattr(Room, "held", Gate(), raising=False)
    app = make_app(str(tmp_path / "log.db"))
    async with serving(app) as url:
        async with tab(url, BOB) as bob, tab(url, ANN) as ann:
            await asked(bob, "b1", "Hello from Bob")
            await begun(ann, f"a1-{WORD}", f"hold {WORD}")
            report = await app.principals.erase(ANN, answers=True)
        assert [each.problem for each in report.agents if each.name == "room"] == [
            "answers that are still being written stay (1). Erase again when they have ended"
        ]
        assert not report.is_complete
        Room.held.open()
        await app.get(Room, "room").wait_until_stable()
        assert (await app.principals.erase(ANN, answers=True)).is_complete
    assert words_in_files(tmp_path) == []


async def test_running_turns_of_the_person_are_stopped_and_those_of_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Room, "held", Gate(), raising=False)
    app = make_app(str(tmp_path / "log.db"))
    async with serving(app) as url:
        async with tab(url, BOB) as bob, tab(url, ANN) as ann, tab(url, BOB, "other") as other:
            await asked(bob, "b1", "Hello from Bob")
            await begun(ann, f"a1-{WORD}", f"hold {WORD}")
            await asked(other, "o1", "mine")
            async with tab(url, ANN, "other") as guest:
                await asked(guest, f"g1-{WORD}", f"I am here, {WORD}")
            await begun(other, "o2", "hold on")
            report = await app.principals.erase(ANN)
        assert report.is_complete, report
        assert [each.counts["turns"] for each in report.agents if each.name in ("room", "other")] == [1, 1]
        store = (await app.service()).directory.store
        turns = await store.turns(AgentId("room/room"))  # type: ignore[attr-defined]
        assert [turn.status for turn in turns] == ["completed", "aborted"], "Ann's turn was stopped"
        log = await store.read(AgentId("room/room"), Seq(0), 100)
        (stop,) = [decode_event(each.body) for each in log if each.kind == "turn.cancel_requested"]
        assert isinstance(stop, CancelRequested) and stop.by is None, "by no person that the audit trail could name"
        Room.held.open()
        await app.get(Room, "other").wait_until_stable()
        (*_, question, answer) = await app.get(Room, "other").get_messages()
        assert (question.text, answer.role) == ("hold on", "assistant")
        assert answer.text.endswith("Good."), "Bob's turn went on"
    assert words_in_files(tmp_path) == []


async def test_an_erasure_whose_hook_fails_is_reported_and_completed_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(str(tmp_path / "log.db"))
    async with serving(app) as url, connect(url) as client:
        await play(app, url, client)
        monkeypatch.setattr(Room, "fails", True)
        report = await app.principals.erase(ANN)
        assert not report.is_complete
        assert [(each.kind, each.name) for each in report.problems] == [("room", "room")]
        assert "on_erase failed" in str(report.problems[0].problem)
        assert words_in_files(tmp_path), "the agent's table still has them, and the note has the id"
        monkeypatch.setattr(Room, "fails", False)
        again = await app.principals.erase(ANN)
        assert again.is_complete and again.id == report.id and again.problems == []
    assert words_in_files(tmp_path) == []


async def test_a_log_whose_class_is_not_served_is_rewritten_and_completed_when_it_is_served_again(
    store: str, tmp_path: Path
) -> None:
    app = make_app(store)
    async with serving(app) as url, tab(url, BOB) as bob, tab(url, ANN) as ann:
        await asked(bob, "b1", "Hello from Bob")
        await asked(ann, f"a1-{WORD}", f"Hello, my word is {WORD}")
        async with tab(url, ANN, f"own-{WORD}") as own:
            await asked(own, f"o1-{WORD}", f"private {WORD}")
    app = make_app(store, classes=[Note])
    async with app:
        report = await app.principals.erase(ANN)
        assert not report.is_complete
        problems = {each.name: str(each.problem) for each in report.problems if not each.is_deleted}
        assert "on_erase did not run" in problems["room"] and "no class of kind 'room'" in problems["room"]
        state = (await app.service()).directory.store
        assert WORD not in str(await state.read(AgentId("room/room"), Seq(0), 100))
    app = make_app(store)
    async with app:
        again = await app.principals.erase(ANN)
        assert again.is_complete and again.id == report.id
    assert await words_left(store, tmp_path) == []


async def test_two_requests_at_once_are_one_erasure_and_neither_loses_its_answers(tmp_path: Path) -> None:
    app = make_app(str(tmp_path / "log.db"))
    async with serving(app) as url:
        async with tab(url, BOB) as bob, tab(url, ANN) as ann:
            await asked(bob, "b1", "Hello from Bob")
            await asked(ann, f"a1-{WORD}", f"quote {WORD}")
        one, same = await asyncio.gather(app.principals.erase(ANN), app.principals.erase(ANN))
        assert one.is_complete and one == same
        assert words_in_files(tmp_path), "the answer quotes Ann"
        async with tab(url, ANN) as ann:
            await asked(ann, f"a2-{WORD}", f"quote {WORD}")
        await app.principals.erase(one.id, answers=True)
        plain, with_answers = await asyncio.gather(app.principals.erase(ANN), app.principals.erase(ANN, answers=True))
        assert plain.is_complete and with_answers.is_complete
    assert words_in_files(tmp_path) == []


async def test_what_a_person_gave_to_tools_is_replaced_in_forks_too(store: str, tmp_path: Path) -> None:
    app = make_app(store)
    async with serving(app) as url:
        async with tab(url, BOB) as bob, tab(url, ANN) as ann:
            await asked(bob, "b1", "what place")
            place = await call_of(ann, "place")
            await ann.answer(place, {"city": WORD}, toolName="place")
            await ann.settled()
            await app.get(Room, "room").wait_until_stable()
            for who, name in ((bob, "fork"), (ann, f"own-{WORD}")):
                await who.send(type="rpc", id=f"copy-{name}", method="copy_to", args=[name])
                await who.until(lambda frame, name=name: frame.get("id") == f"copy-{name}")  # type: ignore[misc]
        report = await app.principals.erase(ANN)
        assert report.is_complete
        assert {each.name for each in report.agents} == {"room", "fork", None}, "her own fork is deleted"
        (_, answer) = await app.get(Room, "fork").get_messages()
        assert ERASED_TEXT in str(answer.to_dict())
    assert await words_left(store, tmp_path) == []


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_result_that_was_given_while_the_answer_was_written_is_replaced_in_its_chunk(
    is_open: bool, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Room, "held", Gate(), raising=False)
    app = make_app(store)
    async with serving(app) as url:
        async with tab(url, BOB) as bob, tab(url, ANN) as ann:
            await asked(bob, "b1", "Hello from Bob")
            await bob.ask("b2", "what place, and stay")
            await ann.until(lambda frame: "tool-input-available" in frame.get("body", ""))
            await ann.answer("place-b2", {"city": WORD}, toolName="place")
            await bob.until(lambda frame: "tool-output-available" in str(frame))
            if not is_open:
                Room.held.open()
                await bob.ended("b2")
                await app.get(Room, "room").wait_until_stable()
            assert (await app.principals.erase(ANN)).is_complete
        Room.held.open()
        await app.get(Room, "room").wait_until_stable()
        answer = (await app.get(Room, "room").get_messages())[-1].to_dict()
        assert ERASED_TEXT in str(answer) and "Good." in str(answer)
        assert await words_left(store, tmp_path) == []
    assert await words_left(store, tmp_path) == []


async def test_a_fork_that_is_made_while_agents_are_looked_for_is_rewritten_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(str(tmp_path / "log.db"))
    async with serving(app) as url:
        async with tab(url, BOB) as bob, tab(url, ANN) as ann:
            await asked(bob, "b1", "Hello from Bob")
            await asked(ann, f"a1-{WORD}", f"Hello, my word is {WORD}")
        erasure, looks = (await app.service()).directory.store.erasure, 0
        assert erasure is not None
        mentioning = erasure.mentioning

        async def forking(text: str) -> list[AgentId]:
            nonlocal looks
            found = await mentioning(text)
            if text == ANN and (looks := looks + 1) == 2:  # the first looks for answers to calls
                await app.get(Room, "room").for_principal(Principal(BOB)).copy_to("fork")
            return found

        monkeypatch.setattr(erasure, "mentioning", forking)
        report = await app.principals.erase(ANN)
        assert report.is_complete and {each.name for each in report.agents} == {"room", "fork"}
        assert len(await app.get(Room, "fork").get_messages()) == 4
    assert words_in_files(tmp_path) == []


@pytest.mark.parametrize("odd", [None, 42, "", "\ud800", "x" * 513])
async def test_what_is_no_id_of_a_principal_is_refused_and_nothing_is_noted(odd: Any, tmp_path: Path) -> None:
    app = make_app(str(tmp_path / "log.db"))
    async with serving(app) as url:
        async with tab(url, ANN, "own") as ann:
            await asked(ann, "a1", "mine")
        with pytest.raises(UsageError, match="pass a string"):
            await app.principals.export(odd, tmp_path / "all.zip")
        with pytest.raises(UsageError, match="pass a string"):
            await app.principals.erase(odd)
        assert await app.principals.erasures() == [] and not (tmp_path / "all.zip").exists()
        with pytest.raises(UsageError, match="every client"):
            await app.principals.erase("local")


async def test_an_owned_conversation_that_changes_while_they_are_listed_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everyword.runtime.erasures.PAGE", 1)
    app = make_app(str(tmp_path / "log.db"))
    async with serving(app) as url:
        for name in ("one", "two", "three"):
            async with tab(url, ANN, name) as ann:
                await asked(ann, f"a-{name}", "hello")
        lists = (await app.service()).directory.store.lists
        assert lists is not None
        conversations, is_first = lists.conversations, True

        async def changing(query: ConversationQuery) -> Sequence[ListedConversation]:
            nonlocal is_first
            found = await conversations(query)
            if is_first:
                is_first = False
                await app.get(Room, "one").for_principal(Principal(ANN)).save_messages("it is the newest now")
            return found

        monkeypatch.setattr(lists, "conversations", changing)
        report = await app.principals.erase(ANN)
        assert [each.is_deleted for each in report.agents] == [True, True, True]
