"""Everything beside the log can be thrown away: `everyword rebuild` computes it anew, and exactly (I-9)."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given

from everyword.cli import main
from everyword.core.wanted import wanted
from everyword.errors import LogCorrupt
from everyword.events import encode_event, kind_of, turn_of
from everyword.ids import AgentId, Millis, Seq
from everyword.log.base import Batch, Entry
from everyword.log.memory import MemoryLog
from everyword.runtime.rebuild import Projections, fold_log, rebuild
from everyword.testing import Gate
from tests.core.histories import History, histories
from tests.log.building import append_one
from tests.server.kit import ask, chat, question, scripted

AGENT = AgentId("chat/ann")
TABLES = ("agent", "turn", "message", "wake", "event", "mark")


async def _stored(history: History) -> MemoryLog:
    """Return a log with the history's events, and rows that say nothing."""
    store = MemoryLog()
    await store.open()
    activation = await store.activate(AGENT)
    for number, (event, at) in enumerate(history.log, 1):
        entry = Entry(kind_of(event), turn_of(event), encode_event(event))
        await append_one(store, Batch(AGENT, activation.epoch, Seq(number), at, [entry]))
    return store


@given(histories())
def test_rebuilding_after_retention_changes_nothing(history: History) -> None:
    async def run() -> None:
        store = await _stored(history)
        await rebuild(store, AGENT, Millis(history.now))
        before = [await _rows(store), await store.kept(AGENT)]
        await store.prune(Millis(2**50), limit=1_000_000)
        rebuilt = await rebuild(store, AGENT, Millis(history.now))
        assert rebuilt.changes == []
        assert [await _rows(store), await store.kept(AGENT)] == before

    asyncio.run(run())


async def _rows(store: MemoryLog) -> Projections:
    rows = Projections((await store.conversation(AGENT))[0])
    rows.put(await store.turns(AGENT))
    rows.put((await store.conversation(AGENT))[1])
    return rows


@given(histories())
def test_a_rebuilt_agent_has_the_rows_that_it_had_while_it_lived(history: History) -> None:
    async def run() -> None:
        store = await _stored(history)
        rebuilt = await rebuild(store, AGENT, Millis(history.now))
        rows = await _rows(store)
        assert rebuilt.events == len(history.log)
        assert (rows.agent, rows.turns, rows.messages) == (
            history.rows.agent,
            history.rows.turns,
            history.rows.messages,
        )
        wake = wanted(history.state, Millis(history.now)).wake
        assert await store.next_wake() == (wake if history.log else None)
        again = await rebuild(store, AGENT, Millis(history.now))
        assert again.changes == []

    if history.log:
        asyncio.run(run())


async def test_an_event_that_does_not_fit_leaves_the_rows_as_they_were() -> None:
    for body in (b"{broken", b'{"t":"chunk","turn":9,"attempt":1,"index":0,"body":{}}'):
        store = MemoryLog()
        await store.open()
        activation = await store.activate(AGENT)
        await append_one(store, Batch(AGENT, activation.epoch, Seq(1), Millis(1), [Entry("chunk", None, body)]))
        with pytest.raises(LogCorrupt, match="event 1 cannot be used"):
            await fold_log(store, AGENT)


# -- the command ------------------------------------------------------------------------------------------------


async def _converse(path: Path) -> None:
    """Leave a log with ended, failed, stopped and open turns of several agents, and a branch."""
    gate = Gate()
    pay: list[Any] = [
        {"type": "tool-input-available", "toolCallId": "k1", "toolName": "pay", "input": {}},
        {"type": "tool-approval-request", "toolCallId": "k1", "approvalId": "a1"},
    ]
    scripts: dict[str, list[Any]] = {"stay": ["Hel", gate], "fail": ["Hel", ValueError("x")], "pay": pay}
    app = chat(scripted(lambda turn: scripts.get(turn.id, ["Hello"])), store=str(path))
    async with app, httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        for name in ("ann", "bob", "a/b ä"):
            client.base_url = f"http://localhost/agents/chat/{name.replace('/', '%2F')}"
            await ask(client, question("u1"))
            await ask(client, question("u1", "edited"))
            await ask(client, question("u2"), idempotency_key="fail")
            await ask(client, question("u3"), idempotency_key="pay")
        headers = {"prefer": "respond-async", "idempotency-key": "stay"}
        await client.post("chat", json=question("u4"), headers=headers)
        await gate.reached.wait()


def _dump(path: Path, *tables: str) -> dict[str, list[Any]]:
    """Return the tables, without where a turn's chunks lie: the store's own note, which may say `anywhere`."""
    with closing(sqlite3.connect(path)) as connection:
        found = {table: sorted(connection.execute(f"SELECT * FROM {table}"), key=repr) for table in tables}
    return {table: [row[:-4] for row in rows] if table == "turn" else rows for table, rows in found.items()}


def _damage(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER IF EXISTS turn_ends_once")
        for statement in statements:
            connection.execute(statement)
        connection.commit()


@pytest.fixture
def conversation(tmp_path: Path) -> Path:
    path = tmp_path / "log.db"
    asyncio.run(_converse(path))
    return path


def test_rebuild_restores_damaged_tables_exactly_and_says_what_it_changed(
    conversation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = _dump(conversation, *TABLES)
    _damage(
        conversation,
        "DELETE FROM message WHERE agent = 1 AND node = 1",
        "UPDATE message SET body = '{}' WHERE agent = 1 AND node = 2",
        "UPDATE turn SET status = 'aborted', error = 'never said' WHERE agent = 2 AND turn = 1",
        "DELETE FROM turn WHERE agent = 2 AND turn = 2",
        "INSERT INTO message (agent, node, id, role, at) VALUES (2, 99, 'x', 'user', 1)",
        "UPDATE agent SET leaf = NULL, last_node = 0 WHERE key = 3",
        "INSERT INTO wake SELECT key, -1 FROM agent",
    )
    assert _dump(conversation, *TABLES) != before
    assert main(["rebuild", "--db", str(conversation)]) == 0
    assert _dump(conversation, *TABLES) == before
    told = capsys.readouterr().out
    assert "chat/ann: 1 message missing, 1 message changed" in told
    assert "chat/bob: 1 turn missing, 1 turn changed, 1 message too many" in told
    assert "chat/a/b ä: the agent's own row" in told
    assert "3 agents," in told and "3 changed, 0 failed" in told


def test_rebuilding_what_is_right_changes_nothing(conversation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = _dump(conversation, *TABLES)
    assert main(["rebuild", "--db", str(conversation)]) == 0
    assert _dump(conversation, *TABLES) == before
    assert "0 changed, 0 failed" in capsys.readouterr().out


def test_only_the_named_agents_are_rebuilt(conversation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _damage(conversation, "DELETE FROM message")
    assert main(["rebuild", "--db", str(conversation), "chat/bob"]) == 0
    assert {row[0] for row in _dump(conversation, "message")["message"]} == {2}
    assert "1 agent," in capsys.readouterr().out


def test_an_agent_that_cannot_be_rebuilt_fails_and_the_others_are_rebuilt(
    conversation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    messages = _dump(conversation, "message")
    _damage(
        conversation,
        "UPDATE event SET body = x'7b' WHERE agent = 1 AND seq = 1",
        "DELETE FROM message WHERE agent = 2",
    )
    assert main(["rebuild", "--db", str(conversation)]) == 1
    told = capsys.readouterr().out
    assert "unable to rebuild 'chat/ann'; event 1 cannot be used" in told and "not changed" in told
    assert "1 changed, 1 failed" in told
    assert _dump(conversation, "message") == messages


def test_a_log_whose_end_is_gone_does_not_take_its_rows_along(
    conversation: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = _dump(conversation, "turn", "message")
    _damage(conversation, "DELETE FROM event WHERE id = (SELECT head_id FROM agent WHERE key = 1)")
    assert main(["rebuild", "--db", str(conversation), "chat/ann"]) == 1
    assert "the last of its log, is missing; its rows were not changed" in capsys.readouterr().out
    assert _dump(conversation, "turn", "message") == before


def test_what_was_rebuilt_is_told_to_scripts(conversation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _damage(conversation, "DELETE FROM message WHERE agent = 1 AND node = 1")
    assert main(["rebuild", "--db", str(conversation), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["agents"], told["changed"], told["failed"]) == (3, 1, 0)
    assert told["told"] == [{"agent": "chat/ann", "changes": ["1 message missing"], "error": None}]


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "nothing.db"
    assert main(["rebuild", "--db", str(path)]) == 2
    assert "there is no such file" in capsys.readouterr().err
    assert not path.exists()


def test_an_agent_that_is_not_there_is_refused(conversation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rebuild", "--db", str(conversation), "chat/nobody"]) == 2
    assert "has no such agent" in capsys.readouterr().err


def test_a_file_that_a_server_uses_is_left_alone(conversation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def run() -> int:
        async with chat(scripted(["x"]), store=str(conversation)):
            return await asyncio.to_thread(main, ["rebuild", "--db", str(conversation)])

    assert asyncio.run(run()) == 3
    assert "Stop it first" in capsys.readouterr().err


def test_texts_are_indexed_and_dropped_as_asked(conversation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def texts() -> list[Any]:
        return _dump(conversation, "message_text")["message_text"]

    assert main(["rebuild", "--db", str(conversation), "--search", "on", "chat/ann"]) == 0
    assert "chat/ann: what else it keeps" in capsys.readouterr().out
    words = {word for found, _ in texts() for word in found.split()}
    assert {"hello", "edited"} <= words
    indexed = texts()
    main(["doctor", "--no-app", "--db", str(conversation)])
    assert "stored value" not in capsys.readouterr().out
    assert main(["rebuild", "--db", str(conversation)]) == 0  # what is indexed stays, and is as it ought to be
    assert "0 changed, 0 failed" in capsys.readouterr().out
    assert texts() == indexed
    assert main(["rebuild", "--db", str(conversation), "--search", "off"]) == 0
    assert "chat/ann: what else it keeps" in capsys.readouterr().out
    assert texts() == []


def test_a_damaged_index_is_made_anew(conversation: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rebuild", "--db", str(conversation), "--search", "on"]) == 0
    before = _dump(conversation, "message_text")
    _damage(conversation, "DELETE FROM message_text WHERE rowid < 2 << 32")
    capsys.readouterr()
    assert main(["rebuild", "--db", str(conversation)]) == 0
    assert "1 changed, 0 failed" in capsys.readouterr().out
    assert _dump(conversation, "message_text") == before
