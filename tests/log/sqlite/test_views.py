"""The two tables of the seeds as views of the log: nothing is stored twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from everyword.events import TurnKind
from everyword.ids import Millis
from tests.log.building import A, B, Owner, agent_row, chunk, drain, ended_row, fact, turn_row
from tests.log.sqlite.faults import change, look, opened

METADATA = "SELECT request_id, status, created_at, completed_at, error_message FROM cf_ai_chat_stream_metadata"


@pytest.mark.obligation("000-5.a", "000-9.2", "000-Q5")
async def test_a_stream_is_shown_with_its_status_and_error_text(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        rows = [
            ended_row(1, 5),
            ended_row(2, 6, "error", error="it broke"),
            ended_row(3, 7, "aborted"),
            ended_row(4, 8, "skipped"),
            turn_row(5, "running"),
            turn_row(6, "cancelling"),
            turn_row(7, "accepted", attempt=0),
            turn_row(8, "running", kind=TurnKind.RSM),
        ]
        await owner.append(fact("x"), rows=rows)
        assert look(tmp_path, f"{METADATA} ORDER BY request_id") == [
            ("r1", "completed", 1, 5, None),
            ("r2", "error", 1, 6, "it broke"),
            ("r3", "aborted", 1, 7, None),
            ("r5", "streaming", 1, None, None),
            ("r6", "streaming", 1, None, None),
        ]
        names = [row[1] for row in look(tmp_path, "PRAGMA table_info(cf_ai_chat_stream_metadata)")]
        assert names == ["id", "request_id", "status", "created_at", "completed_at", "error_message", "agent"]


@pytest.mark.obligation("000-5.b")
async def test_the_chunks_of_a_stream_are_shown_as_json_text(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner, other = await Owner.take(store), await Owner.take(store, B)
        await owner.append(fact("turn.accepted", 1), rows=[turn_row(1)])
        await other.append(fact("turn.accepted", 1), chunk(1, 0, "theirs"), rows=[turn_row(1)])
        await owner.append(chunk(1, 0, "grüße"), fact("call.answered", 1), at=3)
        await owner.append(chunk(1, 1, "second"), at=4)
        await owner.append(fact("turn.ended", 1), rows=[ended_row(1, 5)])
        ((stream,),) = look(tmp_path, f"SELECT id FROM cf_ai_chat_stream_metadata WHERE agent = '{A}'")
        columns = "id, stream_id, body, chunk_index, created_at"
        found = look(
            tmp_path, f"SELECT {columns} FROM cf_ai_chat_stream_chunks WHERE agent = '{A}' ORDER BY chunk_index"
        )
        assert [json.loads(row[2])["delta"] for row in found] == ["grüße", "second"]
        assert [(row[1], row[3], row[4]) for row in found] == [(stream, 0, 3), (stream, 1, 4)]
        assert len(set(look(tmp_path, "SELECT id FROM cf_ai_chat_stream_chunks"))) == 3
        names = [row[1] for row in look(tmp_path, "PRAGMA table_info(cf_ai_chat_stream_chunks)")]
        assert names == ["id", "stream_id", "body", "chunk_index", "created_at", "agent"]


async def test_views_do_not_show_cleared_or_pruned_streams(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        await owner.answer(1, 2, ended_at=5)
        assert await drain(store, 6) == 2
        assert look(tmp_path, "SELECT count(*) FROM cf_ai_chat_stream_chunks") == [(0,)]
        assert look(tmp_path, METADATA) == [("r1", "completed", 1, 5, None)]
        await owner.append(fact("chat.cleared"), rows=[agent_row(1)])
        await owner.answer(2, 2, generation=1)
        assert [row[0] for row in look(tmp_path, METADATA)] == ["r2"]
        assert look(tmp_path, "SELECT count(*) FROM cf_ai_chat_stream_chunks") == [(2,)]


async def test_a_damaged_chunk_does_not_hide_the_others(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        await owner.answer(1, 3)
        change(tmp_path, "UPDATE event SET body = x'ff00' WHERE seq = 4")
        bodies = [row[0] for row in look(tmp_path, "SELECT body FROM cf_ai_chat_stream_chunks ORDER BY created_at, id")]
        assert [body is None for body in bodies] == [False, True, False]


async def test_views_of_one_agent_are_read_without_a_full_scan(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await (await Owner.take(store)).append(fact("x"), wake=Millis(1))
    for view in ("cf_ai_chat_stream_metadata", "cf_ai_chat_stream_chunks"):
        plan = [row[3] for row in look(tmp_path, f"EXPLAIN QUERY PLAN SELECT * FROM {view} WHERE agent = 'x'")]
        assert plan
        assert not any(step.startswith("SCAN") and "VIRTUAL TABLE" not in step for step in plan)  # json_each is one
