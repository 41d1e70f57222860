"""`everyword doctor` looks at the app as well: can it be imported, and can its agents use their models?"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from everyword.cli import main

APP = """
from everyword import Everyword, Think

class Support(Think):
    model = "openai:gpt-5.2"

app = Everyword([Support], store="memory:")
"""

MOUNTED = (
    APP.replace("app = ", "agents = ")
    + """
from fastapi import FastAPI
app = FastAPI()
app.mount("/agents", agents)
"""
)

WRONG = "Support cannot answer: unable to use the model 'openai:gpt-5.2'; Set the `OPENAI_API_KEY`"


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("app", "other"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.parametrize("text", [APP, MOUNTED])
def test_a_missing_key_is_found_in_the_app_of_the_folder(
    text: str, stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (stored.parent / "app.py").write_text(text, encoding="utf-8")
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert f"app.py: {WRONG}" in said
    assert "4 agents" in said  # and the file was examined


def test_another_app_is_named_and_told_as_json(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (stored.parent / "other.py").write_text(APP, encoding="utf-8")
    assert main(["doctor", "--app", "other.py", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["isHealthy"], told["app"], told["findings"]) == (False, "other.py", [])
    (problem,) = told["setup"]
    assert problem.startswith(WRONG)


def test_an_app_with_its_key_is_fine(
    stored: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    (stored.parent / "app.py").write_text(APP, encoding="utf-8")
    assert main(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["isHealthy"], told["app"], told["setup"]) == (True, "app.py", [])


def test_the_app_is_left_alone_when_asked_to_and_where_there_is_none(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["app"] is None
    (stored.parent / "app.py").write_text("raise RuntimeError('not to be imported')", encoding="utf-8")
    assert main(["doctor", "--json", "--no-app"]) == 0
    assert json.loads(capsys.readouterr().out)["app"] is None


def test_an_app_that_cannot_be_imported_is_a_finding(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (stored.parent / "app.py").write_text("import surely_not_there", encoding="utf-8")
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "app.py: cannot be imported (ModuleNotFoundError: No module named 'surely_not_there')" in said
    assert "4 agents" in said


def test_the_app_is_looked_at_also_when_nothing_is_stored_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    assert main(["doctor"]) == 2
    told = capsys.readouterr()
    assert f"app.py: {WRONG}" in told.out and "everyword.db" in told.err


def test_an_app_that_is_named_and_not_there_is_a_sentence(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--app", "nothing.py"]) == 2
    assert "there is no such file" in capsys.readouterr().err
