"""The examples with a bundled page: a server answers over a real socket, and pages are made of what we test with."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.test_docs_examples import blocks
from tests.architecture.tree import ROOT
from tests.browser.page_bundles import CLIENTS, run_build
from tests.server.kit import connect, serving
from tests.server.sockets import socket

# The examples with a page that is bundled, and the client versions that they are made of.
EXAMPLES = {"fastapi_chat": "ai6", "thread_list": "ai7"}


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


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_page_is_made_of_the_packages_that_the_browser_tests_use(example: str) -> None:
    ours = _dependencies(ROOT / "examples" / example)
    tested = _dependencies(ROOT / "tests" / "browser")
    aliases = CLIENTS[EXAMPLES[example]]
    found = {name: tested.get(aliases.get(name, name), "").removeprefix(f"npm:{name}@") for name in ours}
    assert found == ours


def _dependencies(folder: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads((folder / "package.json").read_text(encoding="utf-8"))["dependencies"]
    return found


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_page_can_be_built(example: str, tmp_path: Path) -> None:
    made = tmp_path / "main.js"
    run_build(ROOT / "examples" / example, made, EXAMPLES[example])
    bundles = [made] if made.is_file() else sorted(made.glob("*.js"))
    assert bundles
    assert all(bundle.stat().st_size > 100_000 for bundle in bundles)


def test_the_guide_on_lists_shows_what_the_example_runs() -> None:
    page = (ROOT / "docs" / "how-to" / "thread-lists.md").read_text(encoding="utf-8")
    shown = [block.text for block in blocks(page) if block.language in ("js", "jsx")]
    assert len(shown) == 10
    files = [path.read_text(encoding="utf-8") for path in (ROOT / "examples" / "thread_list" / "page").glob("*.js*")]
    pieces = [piece for text in shown for piece in text.split("\n\n")]
    assert [piece for piece in pieces if not any(piece.rstrip() in file for file in files)] == []
