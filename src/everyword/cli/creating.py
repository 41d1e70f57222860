"""`everyword new`: a project that works."""

from __future__ import annotations

import argparse
import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template

from ..errors import UsageError
from .screen import Screen

__all__ = ["run"]

SUFFIX = ".txt"
"""Hides the files from tools that would take them for ours."""

FILLED_IN = (".md", ".toml")


def run(chosen: argparse.Namespace) -> int:
    """Make a project in a folder that is empty or not there."""
    folder = Path(chosen.folder)
    name = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")
    if not name:
        raise UsageError(f"unable to name a project after {chosen.folder!r}; use a letter or a digit in it")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"unable to make a project in {chosen.folder!r}; there is something already. Choose another folder"
        )
    try:
        made = _copy(files(__package__) / "template", folder, name)
    except OSError as exc:
        raise UsageError(f"unable to make a project in {chosen.folder!r}; {exc.strerror}") from exc
    screen = Screen()
    for path in made:
        screen.say(f"  {path}")
    step = f"cd {chosen.folder} && " if folder.resolve() != Path.cwd() else ""
    screen.say(f"\nTry it:  {step}everyword dev")
    return 0


def _copy(source: Traversable, folder: Path, name: str) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    for each in sorted(source.iterdir(), key=lambda entry: (entry.is_dir(), entry.name)):
        name_there = each.name.removesuffix(SUFFIX)
        target = folder / (f".{name_there}" if name_there == "gitignore" else name_there)
        if each.is_dir():
            if each.name != "__pycache__":
                made += _copy(each, target, name)
            continue
        text = each.read_text(encoding="utf-8")
        target.write_text(
            Template(text).substitute(name=name) if target.suffix in FILLED_IN else text, encoding="utf-8"
        )
        made.append(target)
    return made
