"""The PostgreSQL of the tests: it starts, restarts, is shared by workers, and leaves nothing behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from tests.postgres.cluster import remove_abandoned
from tests.postgres.installation import PostgresMissing, copied, find_programs
from tests.postgres.server import ROOT, OwnPostgres, Postgres, PostgresFailed
from tests.timeouts import PATIENCE

WAIT_FOREVER = """
import signal
from tests.postgres.server import OwnPostgres
server = OwnPostgres.started()
print(server.keeper, server.folder, flush=True)
signal.pause()
"""

TWO_WORKERS = """
import pytest

@pytest.mark.parametrize("mode", ["w", "r"])
def test_each_worker_notes_its_server_and_waits_for_the_other(postgres_server, postgres_url, mode):
    with open(f"seen-{mode}", "w") as seen:
        print(postgres_server.keeper, postgres_server.folder, file=seen)
    with open("both", mode):  # a named pipe: opening it waits for the other end
        pass
"""


def until_ended(pid: int) -> None:
    """Wait for the end of a process that is not a child."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        assert poll.poll(1000 * PATIENCE), f"process {pid} is still there"
    finally:
        os.close(watched)


def postmaster(folder: Path) -> int:
    return int((folder / "data" / "postmaster.pid").read_text().split("\n")[0])


async def test_a_crashed_server_starts_again_with_its_data_at_the_same_url(own_postgres: OwnPostgres) -> None:
    url = own_postgres.url
    connection = await own_postgres.connect()
    await connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
    await own_postgres.restart("immediate")
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await connection.execute("SELECT 1")
    again = await asyncpg.connect(own_postgres.tcp_url)
    assert (await again.fetchval("SELECT value FROM kept"), own_postgres.url) == (7, url)
    await again.close()
    assert "automatic recovery in progress" in own_postgres.log


async def test_a_stopped_server_refuses_connections_until_it_is_started(own_postgres: OwnPostgres) -> None:
    await own_postgres.stop()
    with pytest.raises(OSError, match=r"refused|No such file"):
        await own_postgres.connect()
    await own_postgres.start()
    await (await own_postgres.connect()).close()
    with pytest.raises(PostgresFailed, match="it is running"):
        await own_postgres.start()


@pytest.mark.parametrize("own_postgres", [{"fsync": "on", "max_connections": "30"}], indirect=True)
async def test_a_test_can_choose_the_settings_of_its_server(own_postgres: OwnPostgres) -> None:
    connection = await own_postgres.connect()
    names = ("fsync", "full_page_writes", "max_connections")
    assert [await connection.fetchval(f"SHOW {name}") for name in names] == ["on", "off", "30"]
    await connection.close()


async def test_every_test_has_a_schema_of_its_own(postgres_url: str, postgres_server: Postgres) -> None:
    url, _, schema = postgres_url.partition("&schema=")
    assert url == postgres_server.url
    connection = await postgres_server.connect(schema)
    await connection.execute(f"CREATE SCHEMA {schema}; CREATE TABLE mine (x int)")
    assert await connection.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = $1", schema) == 1
    await connection.close()


def test_a_server_that_cannot_start_says_why() -> None:
    with pytest.raises(PostgresFailed, match="unrecognized configuration parameter"):
        OwnPostgres.started({"no_such_setting": "1"})


def test_nothing_is_left_of_a_server_whose_test_run_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", WAIT_FOREVER], cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        keeper, folder = run.stdout.readline().split()
        server = postmaster(Path(folder))
        run.kill()
    until_ended(int(keeper))
    until_ended(server)
    assert not Path(folder).exists()


def test_the_next_start_removes_what_a_killed_keeper_left() -> None:
    server = OwnPostgres.started()
    process = postmaster(server.folder)
    os.kill(server.keeper, signal.SIGKILL)
    server.close()
    until_ended(process)
    assert server.folder.exists()
    remove_abandoned()
    assert not server.folder.exists()


def test_all_workers_of_a_run_share_one_server(tmp_path: Path) -> None:
    (tmp_path / "test_two.py").write_text(TWO_WORKERS)
    os.mkfifo(tmp_path / "both")
    run = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-n", "2", "-p", "no:cacheprovider", "."]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    subprocess.run(run, cwd=tmp_path, check=True, env=environment, stdout=subprocess.DEVNULL)
    (server,) = {(tmp_path / f"seen-{mode}").read_text() for mode in "wr"}
    keeper, folder = server.split()
    until_ended(int(keeper))
    assert not Path(folder).exists()


def test_the_command_runs_a_server_until_sigterm() -> None:
    command = [sys.executable, "-m", "tests.postgres", "--durable", "work_mem=5MB"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        url = run.stdout.readline()
        folder = Path(url.partition("host=")[2].partition("/data")[0])
        assert url.startswith("postgresql://everyword@/everyword?host=/") and postmaster(folder)
        run.terminate()
    assert (run.returncode, folder.exists()) == (0, False)


def test_missing_programs_are_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POSTGRES_VERSION", "99")
    with pytest.raises(PostgresMissing, match=r"PostgreSQL 99; it is not installed\. Install what the tests need"):
        find_programs()
    monkeypatch.setenv("POSTGRES_BIN", str(tmp_path))
    with pytest.raises(PostgresMissing, match="has no postgres and no initdb"):
        find_programs()


def test_programs_that_another_user_cannot_reach_are_copied(tmp_path: Path) -> None:
    programs = copied(find_programs(), tmp_path / "programs")
    said = subprocess.run([programs / "initdb", "--version"], check=True, capture_output=True, text=True).stdout
    assert said.startswith("initdb (PostgreSQL)") and programs.is_relative_to(tmp_path)
