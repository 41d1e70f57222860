"""A server whose database is deleted or replaced while it runs says so, and shows nothing that would be lost."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from everyword.testing import Gate, ManualClock
from tests.server.kit import chat, connect, question, scripted, serving
from tests.server.sockets import Socket, socket

TRY_LATER = 1013


async def failing(client: httpx.AsyncClient, url: str) -> dict[str, Any]:
    """Ask for the server's health until it is no longer ready."""
    while (answer := await client.get(f"{url}/healthz")).status_code == 200:
        pass
    assert answer.status_code == 503
    health: dict[str, Any] = answer.json()
    return health


@pytest.mark.parametrize("ending", ["", "-wal"])
@pytest.mark.parametrize("is_replaced", [False, True])
async def test_no_turn_is_taken_once_the_file_is_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, ending: str, is_replaced: bool
) -> None:
    app = chat(scripted(["x"]), store=str(tmp_path / "chats.db"))
    app.clock = clock = ManualClock()
    async with serving(app) as url, socket(url) as ann, connect(f"{url}/agents/chat") as client:
        await ann.ask("r1")
        assert (await ann.ended("r1"))["outcome"] == "completed"
        path = tmp_path / f"chats.db{ending}"
        if is_replaced:
            shutil.copy(path, tmp_path / "copy")
            os.replace(tmp_path / "copy", path)
        else:
            path.unlink()
        clock.advance(1)
        assert await failing(client, url) == {"status": "failing"}
        await ann.ask("r2")
        refused = await ann.ended("r2")
        assert (refused["error"], refused["body"]) == (
            True,
            "unable to ask; the server cannot store anything. Try again later.",
        )
        for name in ("ann", "bob"):
            answer = await client.post(f"{name}/chat", json=question("u9"))
            assert (answer.status_code, "unable to use the log" in answer.text) == (503, True)
        async with socket(url, name="cid") as cid:
            assert (await cid.closed())[0] == TRY_LATER
    what = f"chats.db{ending}' was {'replaced by another file' if is_replaced else 'deleted or moved away'}"
    errors = [each.message for each in caplog.records if each.levelno == logging.ERROR]
    assert len([each for each in errors if each.startswith("unable to write any more;") and what in each]) == 1


async def test_chunks_of_a_running_turn_after_that_are_not_shown(tmp_path: Path) -> None:
    """I-3: a commit to a deleted file counts for nothing."""
    gate = Gate()
    app = chat(scripted(["before", gate, "after"]), store=str(tmp_path / "chats.db"))
    app.clock = clock = ManualClock()
    async with serving(app) as url, socket(url) as ann, connect(url) as client:
        await ann.ask("r1")
        await ann.until(lambda frame: "before" in str(frame.get("body")))
        await gate.reached.wait()
        (tmp_path / "chats.db").unlink()
        clock.advance(1)
        await failing(client, url)
        gate.open()
        assert await _closed(ann) == TRY_LATER
        assert "after" not in str(ann.frames)


async def _closed(client: Socket) -> int:
    with pytest.raises(ConnectionClosed) as over:
        await client.until(lambda frame: frame.get("done") is True)
    assert over.value.rcvd is not None
    return over.value.rcvd.code
