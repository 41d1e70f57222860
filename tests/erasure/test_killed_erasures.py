"""An erasure whose process is killed at any of its writes is completed by the next process, without being asked."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from everyword.cli import main
from everyword.server.node_settings import NodeSettings
from tests.erasure.room import ANN, BOB, WORD, asked, make_app, play, tab
from tests.erasure.test_erasure import words_in_files, words_in_tables
from tests.forked_processes import fork_process
from tests.runtime.facts import eventually
from tests.server.kit import connect, serving


@pytest.mark.crash
@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_erasure_goes_on_after_a_kill_at_any_write(when: str, tmp_path: Path) -> None:
    played = tmp_path / "played"
    played.mkdir()
    app = make_app(str(played / "log.db"))
    async with serving(app) as url, connect(url) as client:
        await play(app, url, client)
    assert words_in_files(played)
    for number in range(100):
        folder = tmp_path / f"killed-{number}"
        shutil.copytree(played, folder)
        path = folder / "log.db"
        child = fork_process("tests.erasure.killed", str(path), str(number), when)
        is_done = "done" in child.read(until=None)
        child.kill()
        await _check_completed(path, was_noted=number > 0 or when == "after")
        shutil.rmtree(folder)
        if is_done:
            break
    assert number > 12, "there are so many writes"


@pytest.mark.crash
@pytest.mark.parametrize("number", [0, 2, 4, 6])
async def test_another_node_goes_on_with_an_erasure_whose_node_is_killed(
    number: int, postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = str(tmp_path / "attachments")
    monkeypatch.setattr("tests.erasure.room.FILES", files)
    monkeypatch.setattr("everyword.runtime.erasures.LOOK_AGAIN", 200)
    app = make_app(postgres_url, NodeSettings(name="first", lease=600))
    async with serving(app) as url, connect(url) as client:
        await play(app, url, client)
    app = make_app(postgres_url, NodeSettings(name="other", lease=600))
    async with serving(app) as url:
        await app.start()
        child = fork_process("tests.erasure.killed", postgres_url, str(number), "after", files)
        assert "done" not in await asyncio.to_thread(child.read, until=None)
        child.kill()

        async def is_complete() -> bool:
            return [each.is_complete for each in await app.principals.erasures()] == [True]

        await eventually(is_complete)
        (report,) = await app.principals.erasures()
        assert report.problems == [] and WORD not in repr(report)
        async with tab(url, BOB) as page:
            await asked(page, "b9", "and now?")
    assert [*await words_in_tables(postgres_url), *words_in_files(tmp_path)] == []


async def _check_completed(path: Path, *, was_noted: bool) -> None:
    app = make_app(str(path))
    async with serving(app) as url:
        await app.start()
        assert app._resuming is not None
        await app._resuming
        erasures = await app.principals.erasures()
        assert [each.is_complete for each in erasures] == ([True] if was_noted else [])
        if not was_noted:
            await app.principals.erase(ANN)
        assert WORD not in repr(await app.principals.erasures())
        async with tab(url, BOB) as page:
            await asked(page, "b9", "and now?")
    assert words_in_files(path.parent) == []
    assert await asyncio.to_thread(main, ["doctor", "--no-app", "--db", str(path)]) == 0
