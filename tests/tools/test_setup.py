"""`make` installs what a target needs, and nothing twice."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT
from tools.install import Progress, main, steps

DEMO, EVERYTHING = "--editable '.[server]'", "--group dev"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A fresh checkout, as far as the rules of make look at it."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def set_up(checkout: Path, *stamps: str) -> None:
    """Leave what make leaves after it installed something."""
    (checkout / ".venv" / "bin").mkdir(parents=True, exist_ok=True)
    (checkout / ".venv" / "bin" / "python").touch()
    changed = (checkout / "pyproject.toml").stat().st_mtime
    for stamp in stamps:
        (checkout / ".venv" / stamp).touch()
        os.utime(checkout / ".venv" / stamp, (changed + 1, changed + 1))


def commands(checkout: Path, *targets: str) -> str:
    """Return what make would run."""
    inherited = {"MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "ARGS"}  # of the make that runs the tests
    clean = {name: value for name, value in os.environ.items() if name not in inherited}
    return subprocess.run(
        ["make", "--dry-run", *targets], cwd=checkout, env=clean, check=True, capture_output=True, text=True
    ).stdout


def test_dev_in_a_fresh_checkout_installs_only_what_the_demo_needs(checkout: Path) -> None:
    shown = commands(checkout, "dev")
    assert "-m venv .venv" in shown and DEMO in shown and EVERYTHING not in shown
    assert shown.rstrip().endswith("everyword dev")


def test_after_dev_the_tests_still_install_the_rest(checkout: Path) -> None:
    set_up(checkout, ".ready-demo")
    assert "install.py" not in commands(checkout, "dev")
    shown = commands(checkout, "setup-python")
    assert "-m venv" not in shown and EVERYTHING in shown


def test_after_the_tests_dev_installs_nothing(checkout: Path) -> None:
    shown = commands(checkout, "setup-python")
    assert "touch .venv/.ready-demo .venv/.ready" in shown
    set_up(checkout, ".ready-demo", ".ready")
    assert "install.py" not in commands(checkout, "dev", "setup-python")


def test_changed_requirements_are_installed_again_by_each_target_that_needs_them(checkout: Path) -> None:
    set_up(checkout, ".ready-demo", ".ready")
    later = (checkout / ".venv" / ".ready").stat().st_mtime + 1
    os.utime(checkout / "pyproject.toml", (later, later))
    assert DEMO in commands(checkout, "dev")
    assert EVERYTHING in commands(checkout, "setup-python")


def test_the_steps_of_pip_are_counted() -> None:
    lines = [
        "Obtaining file:///somewhere",
        "  Installing build dependencies: started",
        "Collecting starlette>=0.46 (from everyword==0.1)",
        "  Downloading starlette-1.0-py3-none-any.whl (74 kB)",
        "Requirement already satisfied: click>=7 in ./site-packages (from uvicorn) (8.1)",
        "Collecting starlette>=0.46 (from fastapi)",
        "Installing collected packages: click, starlette, everyword",
        "Successfully installed click-8.1",
    ]
    assert list(steps(lines)) == [
        "1 found, starlette",
        "2 found, click",
        "2 found, starlette",
        "writing 3 packages",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_one_line_on_a_terminal_and_two_in_a_log() -> None:
    terminal, log = Terminal(), io.StringIO()
    for out in (terminal, log):
        progress = Progress("setup: installing it", out)
        progress.show("1 found, click")
        progress.end("done in 2 s")
    assert log.getvalue() == "setup: installing it ...\nsetup: installing it: done in 2 s\n"
    assert "1 found, click" in terminal.getvalue() and terminal.getvalue().count("\n") == 1


def test_a_failed_install_shows_what_pip_said(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    missing = tmp_path / "nothing-here.whl"
    assert main(["the demo", "--", "--no-index", str(missing)]) != 0
    out, err = capfd.readouterr()
    assert "setup: installing the demo: failed; pip said:" in out
    assert missing.name in err
