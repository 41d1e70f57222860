"""An erasure whose process is killed at any of its writes is completed by the next process, without being asked."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from everyword.cli import main
from tests.erasure.room import ANN, BOB, WORD, asked, make_app, play, tab
from tests.erasure.test_erasure import words_in_files
from tests.forked_processes import fork_process
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
