"""The command line: what it teaches, what it refuses, and with which exit codes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from everyword import __version__
from everyword.cli import main
from everyword.cli.app_import import load_app
from everyword.errors import BrokenApp, UsageError
from everyword.server import Everyword

APP = """
from everyword.agents import AIChatAgent
from everyword.server import Everyword

class Echo(AIChatAgent):
    async def on_chat_message(self, turn):
        yield self.messages[-1].text

{name} = Everyword([Echo], store="memory:")
"""


@pytest.fixture(autouse=True)
def _leave_no_traces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"everyword {__version__}\n"


COMMANDS = ["new", "dev", "serve", "ls", "show", "tail", "replay", "fork"]
COMMANDS += ["export", "import", "rebuild", "gc", "doctor"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_every_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert f"everyword {command}" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    help_of_it = capsys.readouterr().out
    assert len(help_of_it) > 400
    assert f"\n  everyword {command}" in help_of_it.partition("examples:")[2]


@pytest.mark.parametrize("arguments", [["sing"], ["serve"], ["dev", "--port", "many"], ["rebuild", "--fast"]])
def test_what_is_not_understood_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: everyword" in capsys.readouterr().err


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "start:" in capsys.readouterr().out


def test_help_does_not_need_the_packages_of_the_server() -> None:
    script = (
        "import sys\n"
        "for name in ('uvicorn', 'uvloop', 'websockets'): sys.modules[name] = None\n"
        "from everyword.cli import main\n"
        "main([])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "everyword dev" in ran.stdout, ran.stderr


def test_a_missing_server_package_is_named_with_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["dev", "--db", str(tmp_path / "log.db"), "--port", "0"]) == 2
    assert "uvicorn is missing. Install what the extra 'server' needs: pip install uvicorn " in capsys.readouterr().err


def test_a_reader_that_has_seen_enough_is_no_failure(stored: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    ran = subprocess.run(
        [sys.executable, "-m", "everyword", "ls"], stdout=write, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write)
    assert (ran.returncode, "Error" in ran.stderr) == (0, False), ran.stderr


def test_an_interrupt_ends_a_command_without_a_traceback(
    stored: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(chosen: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("everyword.cli.commands.ls.run", interrupt)
    assert main(["ls"]) == 130
    assert capsys.readouterr().err == ""


# -- finding the app ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "named"), [("app", ""), ("chats", ""), ("chats", ":chats")])
def test_an_app_is_found_in_a_file(name: str, named: str, tmp_path: Path) -> None:
    path = tmp_path / "my_server.py"
    path.write_text(APP.format(name=name), encoding="utf-8")
    app = load_app(f"{path}{named}")
    assert isinstance(app, Everyword)
    assert list(app.classes) == ["echo"]


def test_an_app_is_found_in_a_module_beside_its_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "names.py").write_text(APP.format(name="app"), encoding="utf-8")
    (package / "main.py").write_text("from .names import app as chats", encoding="utf-8")
    assert isinstance(load_app("my_package.main:chats"), Everyword)
    assert isinstance(load_app("my_package.main"), Everyword)
    neighbour = tmp_path / "neighbour_app.py"
    neighbour.write_text("from my_package.names import app", encoding="utf-8")
    assert isinstance(load_app("neighbour_app.py"), Everyword)


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ("nothing.py", "there is no such file"),
        ("no_such_module", "For a file, write no_such_module.py"),
        ("no.such:app", "there is no such module"),
        ("empty.py", "it has no `app`"),
        ("empty.py:chats", "has no 'chats'"),
    ],
)
def test_an_app_that_cannot_be_found_is_a_sentence(
    named: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.py").write_text("x = 1", encoding="utf-8")
    with pytest.raises(UsageError, match=sentence):
        load_app(named)


def test_a_module_that_an_app_itself_misses_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hungry.py").write_text("import surely_not_there", encoding="utf-8")
    with pytest.raises(BrokenApp, match="surely_not_there"):
        load_app("hungry")


LIBRARY = """
def build(what):
    try:
        return {}[what]
    except KeyError as exc:
        raise ValueError(f"no {what} here") from exc
"""

BROKEN = {
    "missing module": ("import surely_not_there", 1, "ModuleNotFoundError: No module named 'surely_not_there'"),
    "syntax": ("x = 1\nif x\n", 2, "SyntaxError: expected ':'"),
    "a library of the user": ("from my_library import build\nbuild('roof')", 2, "ValueError: no roof here"),
    "our own refusal": (
        "from everyword import Everyword, AIChatAgent\nclass Chat(AIChatAgent): ...\napp = Everyword(Chat)",
        3,
        "UsageError: unable to serve Chat; give a list of classes: Everyword([Chat])",
    ),
    "our own refusal of a tool": (
        "from everyword import tool\n@tool(timeout='5')\ndef look() -> None: ...",
        2,
        "UsageError: unable to make the tool 'look'; timeout is str, not a number of seconds",
    ),
}


@pytest.mark.parametrize("named", ["broken.py", "broken"])
@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("command", ["serve", "dev"])
def test_an_app_that_cannot_be_imported_shows_its_own_frames_and_no_others(
    command: str,
    case: str,
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    text, line, error = BROKEN[case]
    (tmp_path / "broken.py").write_text(text, encoding="utf-8")
    (tmp_path / "my_library.py").write_text(LIBRARY, encoding="utf-8")
    for module in ("broken", "my_library"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    arguments = [command, named, "--port", "0", *(["--no-reload"] if command == "dev" else [])]
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert f'broken.py", line {line}' in said
    assert said.rstrip().endswith(error), said
    shown = [Path(name).name for name in re.findall(r'File "(.*?)"', said)]
    assert set(shown) <= {"broken.py", "my_library.py"}, said
    assert len(shown) <= 4
