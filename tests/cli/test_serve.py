"""`everyword serve` as a real process: its output, its limits, what it survives, and how it stops."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import socket
from pathlib import Path

import httpx
import pytest

from everyword.cli.web_server import _is_worth_logging
from tests.cli.kit import running
from tests.cli.test_cli import APP
from tests.server.kit import PATIENCE, ask, connect, folded, question, text_of
from tests.server.raw import RawSocket, frame


async def test_serve_serves_the_app_and_no_page(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP.format(name="app"), encoding="utf-8")
    async with running("serve", "app.py", "--port", "0", folder=tmp_path) as server:
        url = await server.url()
        async with connect(f"{url}/agents/echo/ann") as client:
            assert (await client.get(f"{url}/")).status_code == 404
            assert text_of(folded((await ask(client, question(text="ahoy"))).chunks)) == "ahoy"


BOUNDED = """
from everyword import AIChatAgent, Everyword, Limits

class Chat(AIChatAgent):
    async def on_chat_message(self, turn):
        yield "ahoy"

app = Everyword([Chat], store="memory:", limits=Limits(frame=50_000, request_seconds=0.2, message_seconds=0.2))
"""


async def test_serve_keeps_the_bounds_of_the_app_on_what_is_never_finished(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(BOUNDED, encoding="utf-8")
    async with running("serve", "app.py", "--port", "0", folder=tmp_path) as server:
        url = await server.url()
        async with RawSocket.connected(url) as client:
            client.write(b"GET /agents/chat/ann HTTP/1.1\r\nUpgrade: websocket\r\n")
            assert await client.rest() == b""
        async with RawSocket.connected(url) as client:
            await client.upgrade("Sec-WebSocket-Extensions: permessage-deflate")
            assert b"permessage-deflate" not in client.handshake
            await client.push(frame(client.ask("r1", "x" * 100_000)))
            assert "larger than" in (await client.until(id="r1", done=True))["body"]
            client.write(frame(b"{", size=1000))
            assert (await client.closed())[0] == 1008
        async with RawSocket.connected(url) as client:
            await client.upgrade()
            client.write(frame(b"{", size=1_000_000))
            assert (await client.closed())[0] == 1009


async def test_a_frame_that_is_not_utf8_leaves_no_traceback_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(BOUNDED, encoding="utf-8")
    async with running("serve", "app.py", "--port", "0", folder=tmp_path) as server:
        url = await server.url()
        async with RawSocket.connected(url) as client:
            await client.upgrade()
            client.write(frame(b"\xff\xfe"))
            assert (await client.closed())[0] == 1007
        server.process.send_signal(signal.SIGTERM)
        assert server.process.stdout is not None
        said = server.said + (await server.process.stdout.read()).decode()
        assert "Traceback" not in said and "no `authorize`" in said


GONE = RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")


@pytest.mark.parametrize(
    ("raised", "is_said"),
    [(GONE, False), (asyncio.CancelledError(), False), (RuntimeError("a bug"), True), (ValueError("a bug"), True)],
    ids=repr,
)
def test_the_log_has_a_traceback_for_bugs_and_none_for_clients_that_hang_up(
    raised: BaseException, is_said: bool
) -> None:
    told = (type(raised), raised, None)
    record = logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, "Exception in ASGI application\n", None, told)
    assert _is_worth_logging(record) is is_said


AUTHORIZED = """
from everyword import Principal

async def authorize(connecting):
    return Principal("ann" if "cookie" in connecting.request.headers else "nobody")

app = Everyword([Echo], store="memory:", authorize=authorize, origins="*")
"""


async def test_serve_without_authorize_warns_of_proxies_on_this_machine(tmp_path: Path) -> None:
    (tmp_path / "open.py").write_text(APP.format(name="app"), encoding="utf-8")
    (tmp_path / "closed.py").write_text(APP.format(name="other") + AUTHORIZED, encoding="utf-8")
    for app, is_warned in (("open.py", True), ("closed.py", False)):
        async with running("serve", app, "--port", "0", folder=tmp_path) as server:
            await server.url()
            assert ("makes every client seem local" in server.said) == is_warned


BLOCKING = """
import pathlib, time
from everyword import AIChatAgent, Everyword
from everyword.observe import Metrics

class Chat(AIChatAgent):
    async def on_chat_message(self, turn):
        while not pathlib.Path("go").exists():
            time.sleep(0.01)
        yield "done"

app = Everyword([Chat], store="memory:", observe=[Metrics()])
"""


@pytest.mark.parametrize("command", ["serve", "dev"])
async def test_code_that_blocks_the_event_loop_is_named_while_it_does(command: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(BLOCKING, encoding="utf-8")
    async with running(command, "app.py", "--port", "0", folder=tmp_path) as server:
        url = await server.url()
        async with connect(f"{url}/agents/chat/ann") as client:
            asked = asyncio.create_task(ask(client, question(text="hi")))
            await server.until(r"has been blocked for \d+\.\d s by Chat\.on_chat_message of 'chat/ann' \(app\.py:\d+\)")
            (tmp_path / "go").touch()
            await server.until(r"runs again; it was blocked for \d+\.\d s by Chat\.on_chat_message of 'chat/ann'")
            assert text_of(folded((await asked).chunks)) == "done"
            counted = (await client.get(f"{url}/metrics")).text
            assert re.search(r'everyword_loop_blocked_seconds_count\{kind="chat"\} [1-9]', counted)


HANGING = """
import threading
from everyword import AIChatAgent, Everyword, tool
from everyword.observe import Metrics

class Shop(AIChatAgent):
    async def on_chat_message(self, turn):
        yield await turn.call_tool("hang")

    @tool
    def hang(self) -> str:
        threading.Event().wait()
        return "never"

class Calm(AIChatAgent):
    def on_chat_message(self, turn):
        return iter(["in ", "a ", "thread"])

app = Everyword([Shop, Calm], store="memory:", observe=[Metrics()])
app.grace = 0.1
"""


async def test_forty_hanging_tools_delay_no_client_and_no_shutdown(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(HANGING, encoding="utf-8")
    async with running("serve", "app.py", "--port", "0", folder=tmp_path) as server:
        url = await server.url()
        for number in range(40):  # more than the threads of `asyncio.to_thread`
            async with connect(f"{url}/agents/shop/{number}") as client:
                await client.post("chat", json=question(text="hi"), headers={"prefer": "respond-async"})
        async with connect(f"{url}/agents/calm/ann") as client:
            async with asyncio.timeout(PATIENCE):
                while "everyword_tool_threads_busy 40.0" not in (await client.get(f"{url}/metrics")).text:
                    pass
            assert text_of(folded((await ask(client, question(text="hi"))).chunks)) == "in a thread"
        server.process.send_signal(signal.SIGTERM)
        await server.ended()


SLOW_IMPORT = """
import pathlib, time
print("importing", flush=True)
while not pathlib.Path("go").exists():
    time.sleep(0.01)
"""


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.mark.parametrize("command", ["serve", "dev"])
async def test_a_client_that_connects_before_the_app_is_ready_waits_for_its_answer(
    command: str, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(SLOW_IMPORT + APP.format(name="app"), encoding="utf-8")
    port = _free_port()
    async with running(command, "app.py", "--port", str(port), folder=tmp_path) as server:
        await server.until("importing")
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            asked = asyncio.create_task(client.get(f"http://127.0.0.1:{port}/healthz"))
            while await asyncio.to_thread(_connections, port) == 0:
                assert not asked.done(), asked
            (tmp_path / "go").touch()
            assert (await asked).status_code == 200
        await server.url()


def _connections(port: int) -> int:
    """Return how many established connections the port has, accepted or not."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


@pytest.mark.parametrize("command", ["serve", "dev"])
async def test_a_port_that_is_taken_is_reported_before_the_app_is_imported(command: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("print('imported')\n" + APP.format(name="app"), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        arguments = (command, "app.py", "--port", str(taken.getsockname()[1]))
        async with running(*arguments, folder=tmp_path) as server:
            await server.until("--port 0 picks a free one")
            assert await server.ended() == 2
            assert "imported" not in server.said


async def test_an_app_that_fails_when_it_is_imported_shows_its_own_line_first(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("from everyword import Everyword\napp = Everyword(chat)\n", encoding="utf-8")
    async with running("serve", "app.py", "--port", "0", folder=tmp_path) as server:
        await server.until("NameError: name 'chat' is not defined")
        assert await server.ended() == 2
        first, place, *_ = server.said.splitlines()
        assert first.startswith("Traceback") and place.endswith('app.py", line 2, in <module>')


@pytest.mark.parametrize("command", ["serve", "dev"])
async def test_a_second_server_on_a_file_says_at_once_that_it_waits_and_for_which_process(
    command: str, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(APP.format(name="app").replace("memory:", "log.db"), encoding="utf-8")
    async with running("serve", "app.py", "--port", "0", folder=tmp_path) as first:
        await first.url()
        async with running(command, "app.py", "--port", "0", folder=tmp_path) as second:
            await second.until(f"log.db'; another process \\(pid {first.process.pid}\\) holds it")
            assert "http://" not in second.said
            assert "stop the other server" in second.said
            first.process.kill()
            async with connect(f"{await second.url()}/agents/echo/ann") as client:
                assert (await client.get("get-messages")).json() == []


KEYLESS = """
from everyword import Everyword, Think

class Support(Think):
    model = "openai:gpt-5.2"

app = Everyword([Support], store="memory:")
"""


@pytest.mark.parametrize("command", ["serve", "dev"])
async def test_a_missing_key_is_told_at_the_start(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "app.py").write_text(KEYLESS, encoding="utf-8")
    async with running(command, "app.py", "--port", "0", folder=tmp_path) as server:
        await server.until("Support cannot answer: unable to use the model 'openai:gpt-5.2'; Set the `OPENAI_API_KEY`")
        url = await server.url()
        async with connect(f"{url}/agents/support/ann") as client:
            assert (await client.get("get-messages")).json() == []


async def test_serve_notices_that_its_file_was_deleted_and_takes_nothing_more(tmp_path: Path) -> None:
    source = APP.format(name="app").replace("memory:", "everyword.db")
    (tmp_path / "app.py").write_text(source, encoding="utf-8")
    async with running("serve", "app.py", "--port", "0", folder=tmp_path) as server:
        url = await server.url()
        async with connect(f"{url}/agents/echo/ann") as client:
            assert text_of(folded((await ask(client, question(text="ahoy"))).chunks)) == "ahoy"
            assert (await client.get(f"{url}/healthz")).status_code == 200
            os.remove(tmp_path / "everyword.db")
            await server.until(
                r"everyword\.db' was deleted or moved away while it was in use\. Restore it.* and restart"
            )
            assert (await client.get(f"{url}/healthz")).status_code == 503
            assert (await client.post("chat", json=question("u2", "again"))).status_code == 503
        server.process.send_signal(signal.SIGTERM)
        assert await server.ended() in (0, -signal.SIGTERM)
