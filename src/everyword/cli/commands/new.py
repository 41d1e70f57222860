"""`everyword new`: create a project with an agent and a test."""

from __future__ import annotations

import argparse
import re
import shlex
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from typing import Any

import msgspec

from ... import __version__
from ...errors import UsageError
from ..output import Output

__all__ = ["HELP", "add_arguments", "run"]

HELP = """\
Create a folder with an agent that needs no API key, a test that passes, and a README with the next steps. The folder
must be empty, or not exist yet.

examples:
  everyword new mychat && cd mychat && everyword dev
  everyword new .                     in the current folder
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", help="folder to create; its last part becomes the project's name")


SUFFIX = ".txt"
"""Suffix of template files, so that tools do not treat them as files of this repository."""

FILLED_IN = (".md", ".toml")


def run(chosen: argparse.Namespace) -> int:
    """Create a project in a folder that is empty or does not exist."""
    folder = Path(chosen.folder)
    name = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")
    if not name:
        raise UsageError(f"unable to name a project after {chosen.folder!r}; its name needs a letter or a digit")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"unable to create a project in {chosen.folder!r}; it exists and is not an empty folder. Choose another"
        )
    try:
        made = _copy(files("everyword.cli") / "template", folder, {"name": name, **_dependency(_installed_from())})
    except OSError as exc:
        raise UsageError(f"unable to create a project in {chosen.folder!r}; {exc.strerror}") from exc
    output = Output()
    for path in made:
        output.print(f"  {path}")
    step = f"cd {shlex.quote(chosen.folder)} && " if folder.resolve() != Path.cwd() else ""
    output.print(f"\nTry it:  {step}everyword dev")
    return 0


def _installed_from() -> dict[str, Any] | None:
    """Return what the installer recorded about the origin of everyword; None if it was installed from an index."""
    try:
        noted = distribution("everyword").read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    return msgspec.json.decode(noted, type=dict[str, Any]) if noted else None


def _dependency(noted: dict[str, Any] | None) -> dict[str, str]:
    """Return a project's dependency on the everyword that created it, with a comment.

    By name only if it was installed by name: an index may not have it, or have another project with that name.
    """
    if noted is None:
        return {"origin": "The version that created this project, or a newer one.", "source": f">={__version__}"}
    url = noted["url"]
    if control := noted.get("vcs_info"):
        url = f"{control['vcs']}+{url}@{control['commit_id']}"
    if folder := noted.get("subdirectory"):
        url = f"{url}#subdirectory={folder}"
    origin = "everyword is installed from its place on this machine. Change the address for other machines."
    return {"origin": origin, "source": f" @ {url}"}


def _copy(source: Traversable, folder: Path, words: dict[str, str]) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    for each in sorted(source.iterdir(), key=lambda entry: (entry.is_dir(), entry.name)):
        name_there = each.name.removesuffix(SUFFIX)
        target = folder / (f".{name_there}" if name_there == "gitignore" else name_there)
        if each.is_dir():
            if each.name != "__pycache__":
                made += _copy(each, target, words)
            continue
        text = each.read_text(encoding="utf-8")
        target.write_text(Template(text).substitute(words) if target.suffix in FILLED_IN else text, encoding="utf-8")
        made.append(target)
    return made
