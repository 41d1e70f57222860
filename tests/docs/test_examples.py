"""The example with a page: its server answers over a real socket, and its page is made of what we test with."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.tree import ROOT
from tests.server.kit import connect, serving
from tests.server.sockets import socket

EXAMPLE = ROOT / "examples" / "fastapi_chat"
MODULES = ROOT / "tests" / "browser" / "node_modules"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example's module, in a folder of its own and without pauses."""
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module("examples.fastapi_chat.server")
    monkeypatch.setattr(module, "PAUSE", 0)
    return module


@pytest.mark.obligation("003-3")
async def test_the_example_tells_its_story_over_a_socket_and_stores_it(server: Any) -> None:
    async with serving(server.app) as url:
        async with socket(url) as client:
            assert (await client.greeted())["agent"] == "chat"
            await client.ask("r1", "Tell me a story")
            assert (await client.ended("r1"))["outcome"] == "completed"
        async with connect(url) as http:
            _, answer = (await http.get("/agents/chat/ann/get-messages")).json()
            assert answer["parts"][-1]["text"].split() == server.STORY.split()
            assert (await http.get("/health")).json() == {"kinds": ["chat"]}
            page = await http.get("/")
            assert (page.status_code, "main.js" in page.text) == (200, True)


async def test_the_example_refuses_an_empty_question_with_a_sentence_for_people(server: Any) -> None:
    async with serving(server.app) as url, socket(url) as client:
        await client.ask("r1", " ")
        end = await client.ended("r1")
        assert (end["error"], end["body"]) == (True, "Say something, or ask for a story.")


def test_the_page_is_made_of_the_packages_that_the_browser_tests_use() -> None:
    ours = json.loads((EXAMPLE / "package.json").read_text(encoding="utf-8"))["dependencies"]
    tested = json.loads((ROOT / "tests" / "browser" / "package.json").read_text(encoding="utf-8"))["dependencies"]
    assert {name: tested.get(name) for name in ours} == ours


def test_the_page_can_be_built(tmp_path: Path) -> None:
    script = json.loads((EXAMPLE / "package.json").read_text(encoding="utf-8"))["scripts"]["build"]
    made = tmp_path / "main.js"
    assert "--outfile=page/main.js" in script
    ran = subprocess.run(
        ["sh", "-c", script.replace("--outfile=page/main.js", f"--outfile={made}")],
        cwd=EXAMPLE,
        env={**os.environ, "PATH": f"{MODULES / '.bin'}{os.pathsep}{os.environ['PATH']}", "NODE_PATH": str(MODULES)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert made.stat().st_size > 100_000
