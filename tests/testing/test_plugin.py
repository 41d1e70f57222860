"""The pytest plugin, as a project of its own sees it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.architecture.tree import ROOT

TESTS = """
import pytest
from everyword import Think
from everyword.testing import Gate, ScriptedModel


class Chat(Think):
    model = ScriptedModel("Hello.", "Bye.")


@pytest.mark.everyword
async def test_the_answer(everyword_app):
    async with everyword_app(Chat) as server, server.client(Chat) as chat:
        assert (await chat.send("hi")).text == "Hello."
        await server.restart()
        assert (await chat.send("and?")).text == "Bye."


@pytest.mark.everyword
async def test_the_clock(everyword_app, manual_clock):
    async with everyword_app(Chat, clock=manual_clock) as server:
        before = manual_clock.now()
        manual_clock.advance(0.005)
        assert server.app.clock.now() == before + 5


@pytest.mark.everyword
async def test_that_fails(everyword_app):
    async with everyword_app(Chat) as server, server.client(Chat) as chat:
        assert (await chat.send("hi")).text == "Something else."


def test_a_plain_one():
    assert True
"""


def test_fixtures_and_the_marker_work_in_a_project_without_any_other_plugin(tmp_path: Path) -> None:
    (tmp_path / "test_chat.py").write_text(TESTS, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "everyword.testing.plugin", "--strict-markers", "-q", "test_chat.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "3 passed" in ran.stdout and "1 failed" in ran.stdout, ran.stdout + ran.stderr
    assert "Something else." in ran.stdout


def test_pytest_finds_the_plugin_by_itself() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"everyword": "everyword.testing.plugin"}
