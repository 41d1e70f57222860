"""What is printed about installing is true: until there is a release, nothing is installed by its name."""

from __future__ import annotations

import re

import everyword
from everyword.extras import PACKAGES
from tests.architecture.tree import ROOT, tracked_files

PAGE = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
WHEEL = f"everyword-{everyword.__version__}-py3-none-any.whl"

# A requirement that is the bare name: no path before it, no file name or address behind it.
_BY_NAME = re.compile(
    r"\b(?:pipx? install|uv add|uv pip install|uvx)\b[^\n`#]*?\s['\"]?everyword(?:\[[\w,-]*\])?(?![\w./-]| @)"
)


def by_name(text: str) -> list[str]:
    """Return the commands that install everyword by its name."""
    return _BY_NAME.findall(text)


def test_nothing_is_installed_by_name_before_a_release() -> None:
    assert ".dev" in everyword.__version__, "there is a release: print its name, and remove this test"
    shown = [path for path in tracked_files() if path.suffix in {".md", ".py", ".txt", ".toml", ".js", ".html"}]
    assert len(shown) > 100
    texts = [(path, path.read_text(encoding="utf-8")) for path in shown if path.name != "test_installing.py"]
    assert [(path.relative_to(ROOT), command) for path, text in texts for command in by_name(text)] == []


def test_a_command_that_installs_by_name_is_found() -> None:
    for command in ("pip install everyword", "pip install 'everyword[server]' fastapi", "uv add everyword"):
        assert by_name(f"```console\n$ {command}\n```\n"), command
    for command in ("pip install '../everyword[server]'", f"pip install ./{WHEEL}", "pip install uvicorn"):
        assert by_name(f"```console\n$ {command}\n```\n") == [], command


def test_printed_wheels_have_the_name_of_this_version() -> None:
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]
    named = {wheel for text in pages for wheel in re.findall(r"everyword-[\w.]+-py3-none-any\.whl", text)}
    assert named == {WHEEL}
    assert f"\neveryword {everyword.__version__}\n" in PAGE


def test_the_page_lists_every_extra_with_its_packages() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| (.+?) \|", PAGE, re.MULTILINE)
    assert rows.pop() == ("all", "all of these")
    assert {extra: tuple(re.findall(r"`([\w-]+)`", brings)) for extra, brings in rows} == PACKAGES
