"""`everyword dev` restarts when a file changes, and leaves no process behind when it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import httpx
import pytest

from everyword.cli import main
from everyword.cli.reloader import STARTED_AFTER, FileWatcher
from tests.cli.kit import Running, running
from tests.server.kit import PATIENCE, ask, connect, folded, question, reading, text_of

APP = """
import asyncio
from everyword import AIChatAgent, Everyword

class Slow(AIChatAgent):
    async def on_chat_message(self, turn):
        said = self.messages[-1].text if turn.continuation else ""
        yield "{word}" if not said else " and {word}"
        if "wait" in self.messages[0].text and not said:
            await asyncio.Event().wait()

app = Everyword([Slow], store="log.db")
"""


def test_the_watcher_reports_files_that_are_written_created_and_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "build"  # ignored below a watched folder, and not above it
    for name in ("package", ".venv", "node_modules"):
        (folder / name).mkdir(parents=True)
    app, below = folder / "app.py", folder / "package" / "below.py"
    app.write_text("1", encoding="utf-8")
    watcher = FileWatcher(folder, folder, folder / "package", folder / "nothing")
    try:
        _until_watched(watcher, app)
        for change in (lambda: app.write_text("12", encoding="utf-8"), lambda: os.utime(app, ns=(1, 1))):
            change()
            assert watcher.wait(PATIENCE) == app
        below.write_text("1", encoding="utf-8")
        assert watcher.wait(PATIENCE) == below
        below.unlink()
        assert watcher.wait(PATIENCE) == below
        for ignored in (".venv/hidden.py", "node_modules/of_another.py", "notes.txt"):
            (folder / ignored).write_text("1", encoding="utf-8")
        app.write_text("123", encoding="utf-8")
        assert watcher.wait(PATIENCE) == app
    finally:
        watcher.close()


def _until_watched(watcher: FileWatcher, file: Path) -> None:
    """Change a file until that is reported: the watcher's thread needs a moment to begin."""
    deadline = time.monotonic() + PATIENCE
    while watcher.wait(0.1) is None:
        assert time.monotonic() < deadline
        os.utime(file)


def _write(folder: Path, text: str) -> None:
    (folder / "app.py").write_text(text, encoding="utf-8")


async def _answer(url: str, name: str) -> str:
    async with connect(f"{url}/agents/slow/{name}") as client:
        return text_of(folded((await ask(client, question(text="hi"))).chunks))


@pytest.mark.slow
@pytest.mark.crash
async def test_a_change_or_a_kill_starts_the_server_anew_and_answers_go_on(tmp_path: Path) -> None:
    _write(tmp_path, APP.format(word="one"))
    async with running("dev", "app.py", "--port", "0", folder=tmp_path) as server:
        url = await server.url()
        await server.until("Ctrl\\+C")
        async with connect(f"{url}/agents/slow/ann") as client:
            headers = {"idempotency-key": "r1"}
            async with reading(client, "POST", "chat", json=question(text="wait"), headers=headers) as reader:
                await reader.until(lambda event: "one" in event.data)
                _write(tmp_path, "import surely_not_there")
                await server.until("waiting for a file to change")
                assert "surely_not_there" in server.said and "app_import.py" not in server.said
                _write(tmp_path, APP.format(word="two"))
                await server.until("restarted at")
            ended = await client.get("chat/stream?request=r1")
            assert text_of((await client.get("get-messages")).json()[-1]) == "one and two", ended.text
        assert await _answer(url, "bob") == "two"
        until = time.monotonic() + STARTED_AFTER
        async with connect(f"{url}/agents/slow/ann") as client:
            while time.monotonic() < until:  # one that is killed at its start is taken for one that cannot start
                assert (await client.get("get-messages")).status_code == 200
        await asyncio.to_thread(_kill_child, server.process.pid)
        await server.until("restarting it")
        assert await _answer(url, "ben") == "two"
        await _is_gone_with(server, signal.SIGKILL, url)


async def _is_gone_with(server: Running, number: signal.Signals, url: str) -> None:
    """End the watcher, and wait until the server no longer answers."""
    server.process.send_signal(number)
    await server.ended()
    async with asyncio.timeout(PATIENCE), httpx.AsyncClient(verify=False) as client:
        while True:
            try:
                await client.get(f"{url}/")
            except httpx.TransportError:
                return


def _kill_child(pid: int) -> None:
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    os.kill(int(child), signal.SIGKILL)


@pytest.mark.parametrize("named", ["nothing.py", "nothing.py:app"])
def test_an_app_that_is_not_there_is_a_sentence(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["dev", named]) == 2
    assert "there is no such file" in capsys.readouterr().err
