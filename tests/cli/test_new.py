"""`everyword new`: a project that works, made once and tried as its maker would."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from everyword import __version__
from everyword.cli import main
from tests.cli.kit import running
from tests.server.kit import ask, connect, folded, question, text_of

FILES = [".gitignore", "README.md", "app.py", "pyproject.toml", "tests/test_app.py"]


def _made(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_files_of_a_project_are_made_and_named_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "My Chat"]) == 0
    folder = tmp_path / "My Chat"
    assert _made(folder) == FILES
    assert 'name = "my-chat"' in (folder / "pyproject.toml").read_text(encoding="utf-8")
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert readme.startswith("# my-chat\n") and "\n$ everyword dev " in readme
    assert "cd 'My Chat' && everyword dev" in capsys.readouterr().out


def test_a_project_is_made_in_an_empty_folder_and_in_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert main(["new", "."]) == 0
    assert "Try it:  everyword dev" in capsys.readouterr().out
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert main(["new", "."]) == 2
    assert "is not an empty folder" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert main(["new", "app.py"]) == 2
    assert main(["new", "app.py/below"]) == 2
    assert "unable to create a project in" in capsys.readouterr().err
    assert main(["new", "!!!"]) == 2


class Installed(metadata.Distribution):
    """An everyword as an installer left it behind, with its note of where it came from."""

    def __init__(self, noted: dict[str, Any] | None) -> None:
        self.noted = noted

    def read_text(self, filename: str) -> str | None:
        return json.dumps(self.noted) if self.noted is not None and filename == "direct_url.json" else None

    def locate_file(self, path: str | os.PathLike[str]) -> Any:
        raise AssertionError("the files of the package were asked for")


class Finder(metadata.DistributionFinder):
    """Finds this everyword before the one that runs the tests."""

    def __init__(self, installed: Installed) -> None:
        self.installed = installed

    def find_distributions(self, context: Any = None) -> list[Any]:
        return [self.installed] if context.name == "everyword" else []


@pytest.mark.parametrize(
    ("noted", "source"),
    [
        (None, f">={__version__}"),
        ({"url": "file:///srv/everyword", "dir_info": {}}, " @ file:///srv/everyword"),
        ({"url": "file:///srv/my%20files/everyword", "dir_info": {}}, " @ file:///srv/my%20files/everyword"),
        ({"url": "file:///srv/everyword.whl", "archive_info": {}}, " @ file:///srv/everyword.whl"),
        (
            {"url": "https://git.example/x.git", "vcs_info": {"vcs": "git", "commit_id": "a1b2"}, "subdirectory": "py"},
            " @ git+https://git.example/x.git@a1b2#subdirectory=py",
        ),
    ],
    ids=["index", "checkout", "encoded", "wheel", "git"],
)
def test_a_project_depends_on_the_everyword_that_made_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: dict[str, Any] | None, source: str
) -> None:
    monkeypatch.setattr(sys, "meta_path", [Finder(Installed(noted)), *sys.meta_path])
    assert main(["new", str(tmp_path / "mychat")]) == 0
    made = tomllib.loads((tmp_path / "mychat" / "pyproject.toml").read_text(encoding="utf-8"))
    assert made["project"]["dependencies"] == [f"everyword[server]{source}"]
    assert made["tool"]["hatch"]["metadata"]["allow-direct-references"] is True


@pytest.mark.slow
async def test_a_new_project_passes_its_test_and_is_served_by_dev_without_a_name(tmp_path: Path) -> None:
    assert await asyncio.to_thread(main, ["new", str(tmp_path / "mychat")]) == 0
    folder = tmp_path / "mychat"
    tested = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    async with running("dev", "--port", "0", folder=folder) as server:
        url = await server.url()
        async with connect(f"{url}/agents/chat/ann") as client:
            reader = await ask(client, question(text="ahoy"))
            assert text_of(folded(reader.chunks)).startswith("You said: ahoy.")
            assert (await client.get(f"{url}/")).headers["content-type"].startswith("text/html")
    told, _ = await tested.communicate()
    assert tested.returncode == 0, told
