"""`everyword dev` as a real process: its greeting, the playground, the demo, and how it stops."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import httpx
import pytest

from everyword import __version__
from everyword.cli import main
from everyword.demo.words import HELLO
from tests.cli.kit import running
from tests.cli.test_cli import APP
from tests.cli.test_serve import AUTHORIZED
from tests.server.kit import ask, connect, folded, question, reading, text_of
from tests.server.sockets import socket as open_page


async def test_dev_greets_with_where_it_is_and_what_to_try_and_serves_page_and_demo(tmp_path: Path) -> None:
    async with running("dev", "--port", "0", folder=tmp_path) as server:
        url = await server.url()
        await server.until(rf"(?m)^ +{url}$")
        assert f"everyword {__version__}" in server.said
        assert f"kill -9 {server.process.pid}" in server.said
        assert "everyword.db" in server.said
        async with connect(f"{url}/agents/demo/ann") as client:
            page = await client.get(f"{url}/")
            assert page.headers["content-type"].startswith("text/html")
            origin = {"origin": "http://localhost:5173"}
            answer = await client.get("get-messages", headers=origin)
            assert (answer.json(), answer.headers["access-control-allow-origin"]) == ([], origin["origin"])
    assert (tmp_path / "everyword.db").exists()


async def test_dev_serves_the_page_in_front_of_an_app(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP.format(name="app"), encoding="utf-8")
    async with running("dev", "app.py", "--port", "0", folder=tmp_path) as server:
        url = await server.url()
        async with connect(f"{url}/agents/echo/ann") as client:
            settings = (await client.get(f"{url}/settings.json")).json()
            assert (settings["kinds"], settings["basePath"]) == (["echo"], "/agents")
            assert text_of(folded((await ask(client, question(text="ahoy"))).chunks)) == "ahoy"


async def test_dev_prints_addresses_that_work_when_agents_are_at_the_root(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        APP.format(name="app").replace("[Echo]", "[Echo], base_path='/'"), encoding="utf-8"
    )
    async with running("dev", "app.py", "--port", "0", folder=tmp_path) as server:
        url = await server.url()
        await server.until("Ctrl\\+C")
        assert f"at {url}/{{kind}}/{{name}}\n" in server.said
        async with connect(f"{url}/echo/ann") as client:
            assert (await client.get(f"{url}/settings.json")).json()["basePath"] == ""
            assert text_of(folded((await ask(client, question(text="ahoy"))).chunks)) == "ahoy"


async def test_dev_serves_any_other_asgi_app_as_it_is(tmp_path: Path) -> None:
    outer = "from starlette.applications import Starlette\nfrom starlette.routing import Mount\n"
    outer += APP.format(name="inner") + "\napp = Starlette(routes=[Mount('/api', inner)], lifespan=inner.lifespan)\n"
    (tmp_path / "app.py").write_text(outer, encoding="utf-8")
    async with running("dev", "app.py", "--port", "0", folder=tmp_path) as server:
        async with connect(f"{await server.url()}/api/agents/echo/ann") as client:
            assert text_of(folded((await ask(client, question(text="ahoy"))).chunks)) == "ahoy"


async def test_dev_names_the_kinds_where_nothing_is_found_and_serve_does_not(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP.format(name="app"), encoding="utf-8")
    for command, are_named in (("dev", True), ("serve", False)):
        async with running(command, "app.py", "--port", "0", folder=tmp_path) as server:
            async with connect(await server.url()) as client:
                answer = await client.get("/agents/eccho/ann/get-messages")
                assert (answer.status_code, "kinds here are: echo" in answer.text) == (404, are_named)


async def test_dev_invites_local_pages_to_an_app_that_is_open_to_every_site(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP.format(name="other") + AUTHORIZED, encoding="utf-8")
    async with running("dev", "app.py", "--port", "0", folder=tmp_path) as server:
        async with connect(f"{await server.url()}/agents/echo/ann", headers={"cookie": "a=b"}) as client:
            for origin, shared in (("http://localhost:5173", "true"), ("https://a.example", None)):
                answer = await client.get("get-messages", headers={"origin": origin})
                assert (answer.json(), answer.headers.get("access-control-allow-credentials")) == ([], shared)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_server_that_is_told_to_stop_stops_although_clients_still_read(
    number: signal.Signals, tmp_path: Path
) -> None:
    async with running("dev", "--port", "0", folder=tmp_path) as server:
        async with connect(f"{await server.url()}/agents/demo/ann") as client:
            async with (
                reading(client, "GET", "events") as log,
                reading(client, "POST", "chat", json=question(text="a long story")) as reader,
            ):
                await log.until(lambda event: event.event == "snapshot")
                await reader.until(lambda event: "keeper" in event.data)
                server.process.send_signal(number)
                with pytest.raises(httpx.RemoteProtocolError):
                    await reader.rest()
                with pytest.raises(httpx.RemoteProtocolError):
                    await log.rest()
        assert await server.ended() in (0, -number)
        assert "Traceback" not in server.said


def test_a_port_that_is_taken_is_a_sentence_and_not_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["dev", "--port", str(taken.getsockname()[1])]) == 2
    assert "--port 0 picks a free one" in capsys.readouterr().err


async def test_a_log_that_cannot_be_used_is_a_sentence_and_not_a_traceback(tmp_path: Path) -> None:
    async with running("dev", "--port", "0", "--db", "no/such/folder/log.db", folder=tmp_path) as server:
        assert await server.until("Its folder must exist")
        assert await server.ended() == 1
        assert "Traceback" not in server.said


def test_a_database_file_is_not_chosen_twice(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dev", "app.py", "--db", "log.db"]) == 2
    assert "the app itself names its file" in capsys.readouterr().err


@pytest.mark.crash
async def test_a_killed_server_finishes_the_sentence_when_it_is_started_again(tmp_path: Path) -> None:
    arguments = ("dev", "--port", "0", "--db", "log.db")
    async with running(*arguments, folder=tmp_path) as server:
        async with connect(f"{await server.url()}/agents/demo/ann") as client:
            headers = {"idempotency-key": "r1"}
            async with reading(client, "POST", "chat", json=question(text="hello"), headers=headers) as first:
                await first.until(lambda event: "scripted" in event.data)
                server.process.kill()
                with pytest.raises(httpx.RemoteProtocolError):
                    await first.rest()
    async with running(*arguments, folder=tmp_path) as server:
        async with connect(f"{await server.url()}/agents/demo/ann") as client:
            last = {"last-event-id": str(first.events[-1].id)}
            async with reading(client, "GET", "chat/stream?request=r1", headers=last) as second:
                await second.rest()
            stored = (await client.get("get-messages")).json()
    assert text_of(folded([*first.chunks, *second.chunks])) == HELLO == text_of(stored[-1])


FAILING = """
from everyword import AIChatAgent, Everyword, callable, tool


class Chat(AIChatAgent):
    async def on_chat_message(self, turn):
        if self.messages[-1].text == "turn":
            raise ValueError("why the turn failed")
        await turn.call_tool("look")

    @tool
    def look(self) -> str:
        raise ValueError("why the tool failed")

    @callable
    async def add(self) -> None:
        raise ValueError("why the callable failed")


app = Everyword([Chat], store="chats.db")
"""


async def test_dev_shows_the_developer_why_something_failed(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(FAILING, encoding="utf-8")
    async with running("dev", "app.py", "--port", "0", folder=tmp_path) as server:
        url = await server.url()
        async with connect(f"{url}/agents/chat/ann") as client, open_page(url) as page:
            for what in ("turn", "tool"):
                answer = await ask(client, question(what, what))
                assert b"why the" not in answer.raw
                await server.until(f"ValueError: why the {what} failed")
            await page.send(type="rpc", id="c1", method="add", args=[])
            reply = await page.until(lambda frame: frame.get("id") == "c1")
            assert reply["error"] == "The call of add failed."
            await server.until("ValueError: why the callable failed")
            log = (await client.get(f"{url}/playground/log", params={"agent": "chat/ann"})).json()
            details = [event["detail"] for event in log["events"] if "detail" in event]
            assert details == ["ValueError: why the turn failed", "ChatError: The tool look failed."]
