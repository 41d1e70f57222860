"""The test kit where httpx is not installed: what needs it says so, and everything else works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from everyword import testing
from tests.architecture.tree import ROOT

NAMES = testing.__all__
NEEDS_HTTPX = {"LocalServer", "Parity", "assert_parity"}

SCRIPT = """
import sys
sys.modules["httpx"] = None
from everyword import testing
from everyword.errors import UsageError
for name in testing.__all__:
    try:
        getattr(testing, name)
    except UsageError as error:
        print(error)
    else:
        print("imported", name)
"""

PLUGIN = """
import sys
sys.modules["httpx"] = None
"""

TEST = """
def test_it(everyword_app):
    assert False
"""


def said_by(*command: str, folder: Path) -> str:
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT / "src")}
    ran = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return ran.stdout + ran.stderr


def test_a_name_that_needs_httpx_says_how_to_install_it(tmp_path: Path) -> None:
    lines = said_by("-c", SCRIPT, folder=tmp_path).splitlines()
    assert len(lines) == len(NAMES) and set(NAMES) > NEEDS_HTTPX
    for name, line in zip(NAMES, lines, strict=True):
        missing = (
            f"unable to use everyword.testing.{name}; httpx is missing. Install what the extra 'client' needs: "
            "pip install httpx websockets"
        )
        assert line == (missing if name in NEEDS_HTTPX else f"imported {name}")


def test_the_fixture_says_how_to_install_it(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(PLUGIN, encoding="utf-8")
    (tmp_path / "test_it.py").write_text(TEST, encoding="utf-8")
    said = said_by("-m", "pytest", "-p", "everyword.testing.plugin", "-q", "test_it.py", folder=tmp_path)
    assert "1 error" in said
    assert "unable to use everyword.testing.LocalServer; httpx is missing. Install" in said
