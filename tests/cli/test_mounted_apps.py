"""Apps inside other apps: `everyword dev` finds them, puts the playground beside them, or says why there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Host, Mount, Router

from everyword.agents import AIChatAgent
from everyword.cli.mounted_apps import mounted_in
from everyword.server import Everyword
from tests.cli.kit import running
from tests.server.kit import ask, connect, folded, question, text_of


class Echo(AIChatAgent):
    async def on_chat_message(self, turn: Any) -> Any:
        yield self.messages[-1].text


def agents(**options: Any) -> Everyword:
    return Everyword([Echo], store="memory:", **options)


def fastapi(path: str, app: Any, **options: Any) -> FastAPI:
    outer = FastAPI(**options)

    @outer.get("/")
    async def home() -> str:
        return "home"

    outer.mount(path, app)
    return outer


INNER = agents()


@pytest.mark.parametrize(
    ("outer", "path"),
    [
        (fastapi("/api", INNER), "/api"),
        (fastapi("/", INNER), ""),
        (fastapi("/api", INNER, middleware=[Middleware(GZipMiddleware)]), "/api"),
        (CORSMiddleware(fastapi("/api", INNER)), "/api"),
        (fastapi("/api", CORSMiddleware(INNER)), "/api"),
        (fastapi("/v1", fastapi("/api", INNER)), "/v1/api"),
        (Starlette(routes=[Mount("/v1", routes=[Mount("/api/", INNER)])]), "/v1/api"),
        (Router([Mount("/api", INNER)]), "/api"),
        (Starlette(routes=[Host("example.org", Router([Mount("/api", INNER)]))]), "/api"),
        (CORSMiddleware(INNER), ""),
        (INNER, ""),
    ],
)
def test_a_mounted_app_is_found_with_the_path_that_leads_to_it(outer: Any, path: str) -> None:
    assert mounted_in(outer) == [(path, INNER)]


def test_every_mounted_app_is_found_once() -> None:
    other = agents()
    outer = fastapi("/one", INNER)
    outer.mount("/two", other)
    outer.mount("/again", INNER)
    assert mounted_in(outer) == [("/one", INNER), ("/two", other)]


def test_nothing_is_found_in_an_app_without_one_and_in_one_that_holds_itself() -> None:
    class Loop:
        app: Any

    loop = Loop()
    loop.app = loop
    outer = FastAPI()
    outer.mount("/self", outer)
    for app in (FastAPI(), loop, outer, lambda scope, receive, send: None, None):
        assert mounted_in(app) == []


APP = """
from fastapi import FastAPI
from everyword import AIChatAgent, Everyword

class Echo(AIChatAgent):
    async def on_chat_message(self, turn):
        yield self.messages[-1].text

agents = Everyword([Echo], store="memory:", base_path={base_path!r})
app = FastAPI(lifespan=agents.lifespan)

@app.get("/")
async def home():
    return "home"

app.mount({mount!r}, agents)
"""


@pytest.mark.parametrize(("mount", "base_path", "place"), [("/agents", "/", "/agents"), ("/api", "/bots", "/api/bots")])
async def test_dev_serves_the_playground_beside_a_fastapi_app(
    mount: str, base_path: str, place: str, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(APP.format(mount=mount, base_path=base_path), encoding="utf-8")
    async with running("dev", "app.py", "--port", "0", folder=tmp_path) as server:
        url = await server.url()
        await server.until(rf"(?m)^ +{url}/playground/$")
        assert f"echo; at {url}{place}/{{kind}}/{{name}}\n" in server.said
        async with connect(url) as client:
            assert (await client.get("/")).json() == "home"
            assert (await client.get("/playground", follow_redirects=True)).text.startswith("<!doctype html>")
            settings = (await client.get("/playground/settings.json")).json()
            assert (settings["kinds"], settings["basePath"], settings["feed"]) == (["echo"], place, "/playground")
            assert (await client.get("/playground/app.js")).status_code == 200
            async with connect(f"{url}{place}/echo/ann") as ann:
                assert text_of(folded((await ask(ann, question(text="ahoy"))).chunks)) == "ahoy"
            listed: httpx.Response = await client.get("/playground/agents")
            assert [each["name"] for each in listed.json()["agents"]] == ["ann"]
            assert (await client.get("/playground/nothing")).status_code == 404


async def test_dev_says_why_there_is_no_playground(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("from fastapi import FastAPI\napp = FastAPI()\n", encoding="utf-8")
    async with running("dev", "app.py", "--port", "0", folder=tmp_path) as server:
        url = await server.url()
        await server.until("Ctrl\\+C")
        assert "There is no playground, because no Everyword app is mounted in this FastAPI." in server.said
        assert "app.mount(" in server.said
        async with connect(url) as client:
            assert (await client.get("/playground/")).status_code == 404


async def test_dev_says_which_of_several_apps_the_playground_shows(tmp_path: Path) -> None:
    text = APP.format(mount="/one", base_path="/") + "\napp.mount('/two', Everyword([Echo], store='memory:'))\n"
    (tmp_path / "app.py").write_text(text, encoding="utf-8")
    async with running("dev", "app.py", "--port", "0", folder=tmp_path) as server:
        await server.until("Ctrl\\+C")
        assert "The playground shows the agents at /one, but not those at /two/agents." in server.said
