"""The tables have a column for every field of a row, in the same order, so that no new field is forgotten."""

from __future__ import annotations

import sqlite3

import msgspec
import pytest

from everyword.log.sqlite import row_codec
from everyword.log.sqlite.migrations import load_migrations, migrate
from everyword.rows import AgentRow, MessageRow, TurnRow
from tests.log.building import agent_row, message_row, turn_row
from tests.log.contract import FULL_TURN

SPANS = ["first_seq", "first_id", "last_seq", "last_id"]
PLACE = ["event", "start", "size"]
LEASE = ["key", "id", "epoch", "head", "head_id", "state_id", "states_gone"]


@pytest.mark.parametrize(
    ("table", "row", "ours"),
    [("agent", AgentRow, LEASE), ("turn", TurnRow, ["agent", *SPANS]), ("message", MessageRow, ["agent", *PLACE])],
)
def test_columns_are_the_fields_of_the_row(table: str, row: type[msgspec.Struct], ours: list[str]) -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, "x", load_migrations())
    columns = [column[1] for column in connection.execute(f"PRAGMA table_info({table})")]
    connection.close()
    assert [name for name in columns if name not in ours] == list(row.__struct_fields__)


def test_rows_survive_the_round_trip_through_records() -> None:
    for turn in (turn_row(1), FULL_TURN):
        assert row_codec.turn_row(row_codec.turn_record(9, turn)[1:]) == turn
    assert row_codec.message_row(row_codec.message_record(9, message_row(1))[1:-3]) == message_row(1)
    assert row_codec.to_agent_row(row_codec.agent_record(9, agent_row(1, 2, 3, 4))[1:]) == agent_row(1, 2, 3, 4)
    assert row_codec.to_agent_row((None, None, None, None)) is None


def test_a_turn_of_an_unknown_kind_is_reported_and_the_others_are_read(caplog: pytest.LogCaptureFixture) -> None:
    good = row_codec.turn_record(1, FULL_TURN)[1:]
    bad = (*good[:2], "from the future", *good[3:])
    assert row_codec.turn_rows([bad, good]) == [FULL_TURN]
    assert "left out" in caplog.text
