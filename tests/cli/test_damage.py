"""Whatever is wrong with a file, a command ends with a sentence and an exit code, and never with a traceback."""

from __future__ import annotations

import contextlib
import io
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everyword.cli import main
from tests.cli.kit import damage

COMMANDS = [
    ["ls"],
    ["show", "ann"],
    ["show", "ann", "--json"],
    ["tail", "ann", "--after", "0", "--until-idle"],
    ["replay", "ann", "look"],
    ["replay", "ann", "1", "--as", "reconnecting"],
    ["export", "ann", "-o", "ann.jsonl", "--force"],
    ["gc", "--dry-run"],
    ["doctor"],
    ["rebuild"],
    ["fork", "ann", "copy"],
]

NO_TEXT = "CAST(replace(CAST({0} AS TEXT), '\"you ', '\"' || CAST(x'ff' AS TEXT)) AS BLOB)"

DAMAGES = [
    f"UPDATE event SET body = {NO_TEXT.format('body')} WHERE agent = 1",
    "UPDATE event SET body = CAST(replace(CAST(body AS TEXT), '\"turn\"', '\"trun\"') AS BLOB) WHERE agent = 1",
    "UPDATE event SET body = 'text where bytes belong' WHERE agent = 1 AND seq = 11",
    "UPDATE message SET body = x'ff', role = CAST(x'fe' AS TEXT) WHERE agent = 1 AND node = 4",
    "UPDATE turn SET accepted = x'00', status = 'odd' WHERE agent = 1",
    "UPDATE agent SET id = CAST(x'ff' AS TEXT) WHERE key = 2",
    "UPDATE agent SET head_id = 12345 WHERE key = 1",
    "DROP TABLE mark",
    "DELETE FROM store",
]


@pytest.mark.parametrize("statement", DAMAGES)
def test_damaged_rows_are_a_sentence(statement: str, stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(stored, statement)
    codes = {" ".join(arguments): main(arguments) for arguments in COMMANDS}
    said = capsys.readouterr()
    assert set(codes.values()) <= {0, 1, 2}
    assert codes["doctor"] in (1, 2), said
    for line in said.err.splitlines():
        assert not line.startswith("Traceback")


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(100, 2**17), st.integers(0, 255)), min_size=1, max_size=60))
def test_whatever_bytes_are_changed_every_command_ends(stored: Path, changes: list[tuple[int, int]]) -> None:
    content = bytearray(stored.read_bytes())
    for place, value in changes:
        content[place % len(content)] = value
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for arguments in COMMANDS[:9]:
            shutil.rmtree("there", ignore_errors=True)
            Path("there").mkdir()
            Path("there/log.db").write_bytes(content)
            out = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                assert main([*arguments, "--db", "there/log.db"]) in (0, 1, 2), arguments
