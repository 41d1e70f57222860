"""`everyword doctor`: what is stored well is found well, and every damage is found, named and mended if it can be."""

from __future__ import annotations

import asyncio
import json
import logging
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from everyword.cli import main
from everyword.cli.agent_check import examine
from everyword.cli.agent_copy import Copied, read_log, write_agent
from everyword.cli.readonly_log import ReadOnlyLog
from everyword.core.commands import ReplaceState
from everyword.events import decode_event, encode_event, to_raw
from everyword.ids import AgentId, Millis
from everyword.log.sqlite.store import SqliteLog
from everyword.runtime.directory import Directory
from everyword.testing import Gate, ScriptedResponder
from tests.cli.kit import damage, speaker
from tests.core.histories import History, histories
from tests.server.kit import chat, question, talking

ANN = AgentId("chat/ann")


async def _write(path: Path, history: History, *, pruned: bool) -> int:
    store = SqliteLog(path)
    await store.open()
    await write_agent(store, ANN, [Copied(Millis(at), event, encode_event(event)) for event, at in history.log])
    taken = 0
    while pruned and taken < 5:  # a turn may be half gone
        step = await store.prune(Millis(2**50), limit=3)
        taken += step.chunks + step.states
        if not step.more:
            break
    await store.aclose()
    return taken


async def _findings(path: Path, now: int) -> list[str]:
    store = ReadOnlyLog(path)
    await store.open()
    counts = await store.stored_counts()
    examined = await examine(store, ANN, Millis(now), counts[ANN][0])
    await store.aclose()
    return [finding.what for finding in examined.findings]


@settings(max_examples=15)
@given(histories(), st.booleans())
def test_nothing_is_found_of_any_history_pruned_or_not(history: History, pruned: bool) -> None:
    if not history.log:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.db"
        asyncio.run(_write(path, history, pruned=pruned))
        assert asyncio.run(_findings(path, history.now)) == []


@settings(max_examples=15)
@given(histories(), st.data())
def test_an_event_that_is_taken_away_is_missed(history: History, data: st.DataObject) -> None:
    """Whatever it was, but for a chunk of an ended turn, which retention may take; the last one leaves no gap."""
    ended = {event.turn for event, _ in history.log if type(event).__name__ == "TurnEnded"}
    seqs = [
        seq
        for seq, (event, _) in enumerate(history.log[:-1], 1)
        if type(event).__name__ != "Chunk" or event.turn not in ended
    ]
    if not seqs:
        return
    seq = data.draw(st.sampled_from(seqs))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.db"
        asyncio.run(_write(path, history, pruned=False))
        # Its successor is made to point past it, and where the chain can be entered is noted, as retention would.
        damage(
            path,
            f"INSERT OR IGNORE INTO mark SELECT agent, seq, id FROM event WHERE seq < {seq} ORDER BY seq DESC LIMIT 1",
            f"DELETE FROM mark WHERE seq IN (SELECT seq FROM event WHERE {seq} BETWEEN seq - more AND seq)",
            f"DELETE FROM event WHERE {seq} BETWEEN seq - more AND seq",
        )
        assert asyncio.run(_findings(path, history.now)) != []


DAMAGES = [
    ("DELETE FROM message WHERE agent = 1 AND node = 3", "the message at node 3 has no row", True),
    ("UPDATE message SET body = CAST('{}' AS BLOB) WHERE agent = 1 AND node = 2", "node 2: body of the row", True),
    ("UPDATE turn SET error = 'never said' WHERE agent = 1 AND turn = 4", "turn 4: error of the row", True),
    ("DELETE FROM turn WHERE agent = 1 AND turn = 2", "turn 2 has no row", True),
    ("UPDATE turn SET kind = 'odd' WHERE agent = 1 AND turn = 2", "turn 2 has no row", True),
    (
        "INSERT INTO message (agent, node, id, role, at) VALUES (1, 99, 'x', 'user', 1)",
        "node 99 has a row, but is not in the log",
        True,
    ),
    ("UPDATE agent SET leaf = NULL WHERE key = 1", "the agent's row differs", True),
    ("INSERT INTO kept VALUES (1, 'state', '', x'31')", "the stored value state has a row", True),
    (
        "INSERT INTO wake SELECT key, -1 FROM agent WHERE id = 'chat/cid'",
        "chat/cid: work is due, but its wake-up time is missing",
        True,
    ),
    (
        "INSERT INTO wake SELECT key, 4102444800000 FROM agent WHERE id = 'chat/cid'",
        "its wake-up time is too late",
        True,
    ),
    ("UPDATE event SET body = x'7b' WHERE agent = 1 AND seq = 11", "event 3 cannot be read", False),
    ("UPDATE event SET kind = 'chunk' WHERE agent = 1 AND seq = 1", "event 1 is stored as chunk of turn 1", False),
    ("UPDATE event SET seq = 900 WHERE agent = 1 AND seq = 12", "event 13 is stored after event 900", False),
    ("UPDATE event SET more = 7 WHERE agent = 1 AND seq = 11", "events before seq 50 are not in order", False),
    ("DELETE FROM event WHERE agent = 1 AND seq = 2", "does not follow from the events before it", False),
    ("DELETE FROM event WHERE agent = 1 AND seq = 50", "its log ends at event 0 instead of 50", False),
    (
        "INSERT INTO event SELECT -5, agent, seq, at, kind, turn, 0, body, 0 FROM event WHERE agent = 1 AND seq = 2",
        "1 event in the file cannot be reached",
        False,
    ),
    ("UPDATE agent SET epoch = 0 WHERE key = 1", "its lease was never taken", False),
    ("UPDATE event SET agent = 77 WHERE agent = 4", "events without an agent", False),
    (
        "UPDATE event SET body = CAST(replace(CAST(body AS TEXT), 'clear.', 'cloudy.') AS BLOB) WHERE kind = 'chunk'",
        "turn 3: its chunks add up to another message than the stored one",
        False,
    ),
    (
        """UPDATE event SET body = CAST(replace(CAST(body AS TEXT), '"index":0', '"index":40') AS BLOB)
        WHERE agent = 1 AND turn = 1""",
        "turn 1: it counts 9 chunks, but the last chunk has another number",
        False,
    ),
]


def test_a_chunk_that_has_the_place_of_another_is_found(stored: Path, tmp_path: Path) -> None:
    async def write_with_a_wrong_index(path: Path) -> None:
        source, store = ReadOnlyLog(stored), SqliteLog(path)
        await source.open()
        await store.open()
        events = [Copied(each.at, decode_event(each.body), each.body) for each in await read_log(source, ANN)]
        at, chunk, _ = events[6]
        wrong = replace(chunk, index=40)
        events[6] = Copied(at, wrong, encode_event(wrong))
        await write_agent(store, ANN, events)
        await store.aclose()
        await source.aclose()

    path = tmp_path / "wrong.db"
    asyncio.run(write_with_a_wrong_index(path))
    assert "turn 1: chunk 40 found instead of chunk 4" in asyncio.run(_findings(path, 2**50))


@pytest.mark.parametrize(("statement", "sentence", "is_curable"), DAMAGES)
def test_every_damage_is_found_and_mended_if_the_log_is_sound(
    statement: str, sentence: str, is_curable: bool, stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(stored, statement)
    assert main(["doctor"]) == 1
    told = capsys.readouterr().out
    assert sentence in told, told
    assert ("doctor --fix" in told) is is_curable
    assert ("backup" in told) is not is_curable
    assert main(["doctor", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert not report["isHealthy"] and (report["findings"] or report["damage"])
    assert main(["doctor", "--fix"]) == (0 if is_curable else 1)
    fixed = capsys.readouterr().out
    assert ("repaired" in fixed) is is_curable
    assert main(["doctor"]) == (0 if is_curable else 1)


def test_a_sound_store_is_said_to_be_and_only_what_is_named_is_examined(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor"]) == 0
    assert "4 agents, 8 turns," in (told := capsys.readouterr().out) and "no problems found" in told
    damage(stored, "DELETE FROM message WHERE agent = 1")
    assert main(["doctor", "chat/bob"]) == 0
    assert main(["doctor", "ann", "bob"]) == 1
    assert "2 agents" in capsys.readouterr().out


def test_what_the_store_has_to_say_is_heard_again_afterwards(stored: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert main(["doctor"]) == 0
    logging.getLogger("everyword.log.sqlite").warning("still heard")
    assert "still heard" in caplog.text


def test_a_file_whose_pages_are_damaged_is_a_finding_and_no_traceback(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = bytearray(stored.read_bytes())
    content[4096 * 3 : 4096 * 6] = b"\xff" * 4096 * 3
    stored.write_bytes(content)
    assert main(["doctor"]) in (1, 2)
    said = capsys.readouterr()
    assert "Traceback" not in said.err and (said.out + said.err).strip()


async def test_a_conversation_that_streams_is_examined_beside_its_server(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, gate = tmp_path / "live.db", Gate()
    async with talking(chat(speaker(gate), store=str(path))) as client:
        headers = {"prefer": "respond-async", "idempotency-key": "stay"}
        await client.post("chat", json=question(), headers=headers)
        await gate.reached.wait()
        assert await asyncio.to_thread(main, ["doctor", "--db", str(path)]) == 0
        assert "1 agent, 1 turn, " in capsys.readouterr().out
        gate.open()


async def test_an_agent_that_never_rests_is_not_judged(stored: Path) -> None:
    store = ReadOnlyLog(stored)
    await store.open()
    heads = iter(range(1, 1000))

    async def restless(agent: AgentId) -> int:
        return next(heads)

    store.head = restless  # type: ignore[method-assign, assignment]
    examined = await examine(store, ANN, Millis(0))
    assert examined.is_busy and examined.findings == []
    await store.aclose()


APP = """
from everyword import Agent, Everyword

class Note(Agent):
    initial_state = {"n": 0}

class Store(Agent):
    aliases = ["shop"]
    sub_agent_classes = [Note]

app = Everyword([Store], store="unused.db")
other = 5
"""


def test_two_agents_of_one_name_and_one_class_are_found_when_the_app_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database, file = str(tmp_path / "log.db"), tmp_path / "shop_of_the_doctor.py"
    file.write_text(APP, encoding="utf-8")
    asyncio.run(_set_states(database, ["shop/ann", "store/ann", "shop/bob", "store/cleo", "shop/ann/sub/note/n"]))
    assert main(["doctor", "--db", database]) == 0, "the file alone does not say which kinds are one class's"
    assert "two agents" not in capsys.readouterr().out
    assert main(["doctor", "--db", database, "--app", str(file)]) == 1
    told = capsys.readouterr().out
    assert told.count("two agents") == 1 and "shop/ann and store/ann" in told
    assert main(["doctor", "--db", database, "--app", str(file), "--json"]) == 1
    told_as_json = json.loads(capsys.readouterr().out)
    assert (told_as_json["doubles"], told_as_json["isHealthy"]) == ([["shop/ann", "store/ann"]], False)
    assert main(["doctor", "--db", database, "--app", f"{file}:other"]) == 2
    assert "it is not an Everyword" in capsys.readouterr().err


async def _set_states(database: str, agents: list[str]) -> None:
    directory = Directory(SqliteLog(database), lambda agent: ScriptedResponder([]))
    async with directory:
        for agent in agents:
            async with directory.attach(AgentId(agent)) as loaded:
                await loaded.actor.ask(ReplaceState(to_raw({"n": 1})))
