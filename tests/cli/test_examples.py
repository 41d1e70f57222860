"""The examples do what they say."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kit import ROOT
from tests.server.kit import ask, connect, folded, question, serving, text_of


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _app(name: str) -> Any:
    return importlib.import_module(f"examples.{name}").app


def test_every_example_is_tried() -> None:
    assert sorted(path.stem for path in (ROOT / "examples").glob("*.py")) == ["echo", "mounted"]
    # Each of these has a README and a page: see tests/docs and tests/browser.
    products = sorted(path.parent.name for path in (ROOT / "examples").glob("*/README.md"))
    assert products == ["fastapi_chat", "support_desk", "thread_list"]


async def test_the_echo_says_what_it_hears() -> None:
    async with serving(_app("echo")) as url, connect(f"{url}/agents/echo/ann") as client:
        reader = await ask(client, question(text="ahoy out there"))
        assert text_of(folded(reader.chunks)) == "ahoy out there "


async def test_the_mounted_example_lets_users_talk_only_to_their_own_agents() -> None:
    async with serving(_app("mounted")) as url, connect(f"{url}/api/agents/echo/ann") as client:
        assert (await client.get(f"{url}/")).text == "the rest of your application\n"
        assert (await client.get("get-messages")).status_code == 401
        client.headers["authorization"] = "Bearer open sesame"
        assert text_of(folded((await ask(client, question(text="ahoy"))).chunks)) == "ahoy "
        answer = await client.get("../bob/get-messages")
        assert (answer.status_code, answer.text) == (403, "unable to open the chat; bob is not you\n")
