"""The page as files: served at the root, in front of an app or mounted, and nothing of it comes from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from everyword.web import Page
from everyword.web.page import FOLDER
from tests.server.kit import chat, connect, scripted, serving

FILES = sorted(path for path in FOLDER.iterdir())


async def test_the_page_is_served_in_front_of_an_app_and_leaves_the_rest_to_it() -> None:
    app = chat(scripted(["x"]))
    async with serving(Page(["chat"], behind=app)) as url, connect(url) as client:
        page = await client.get("/")
        assert page.status_code == 200
        assert "<title>everyword</title>" in page.text
        assert "default-src 'self'" in page.headers["content-security-policy"]
        wanted = set(re.findall(r'(?:href|src)="([\w.-]+)"', page.text))
        for path in FILES:
            wanted |= set(re.findall(r'from "\./([\w.-]+)"', path.read_text(encoding="utf-8")))
        for name in wanted:
            assert (await client.get(f"/{name}")).status_code == 200, name
        assert wanted == {path.name for path in FILES} - {"index.html"}, "files that nothing asks for"
        settings = {"kinds": ["chat"], "basePath": "/agents", "feed": None, "suggestions": {}, "wordless": []}
        settings |= {"lists": None, "scope": "mine"}
        assert (await client.get("/settings.json")).json() == settings
        assert (await client.get("/agents/chat/ann/get-messages")).json() == []
        assert (await client.get("/index.html")).status_code == 404


async def test_a_page_that_did_not_change_is_not_sent_again() -> None:
    async with serving(Page(["chat"], behind=chat(scripted(["x"])))) as url, connect(url) as client:
        first = await client.get("/app.js")
        again = await client.get("/app.js", headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        assert (await client.post("/app.js")).status_code == 405


async def test_the_page_can_be_mounted_beside_anything() -> None:
    outer = Starlette(routes=[Mount("/talk", Page(["chat"], base_path="/bots"))])
    async with serving(outer) as url, connect(url) as client:
        assert (await client.get("/talk/")).status_code == 200
        assert (await client.get("/talk/settings.json")).json()["basePath"] == "/bots"
        assert (await client.get("/talk/nothing")).status_code == 404


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_file_of_the_page_asks_for_anything_from_elsewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"')]*", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}


def test_the_page_is_small() -> None:
    assert sum(path.stat().st_size for path in FILES) < 220_000
    assert max(len(path.read_text(encoding="utf-8").splitlines()) for path in FILES if path.suffix == ".js") <= 310


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_text_is_ever_read_as_html(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)
    assert not re.search(r'\son\w+="', text), "the content security policy forbids it, and so do we"
