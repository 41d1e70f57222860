"""Write the reference: pages in docs/reference/ with every public name, made from the source.

`python -m tools.reference` writes them, for readers of the repository and of the site; a test fails when they are out
of date.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from . import frames, http
from .packages import AGENT_CLASSES, FAMILIES, PACKAGES, ungrouped
from .rendering import agent_class, entry, family, summary

__all__ = ["FOLDER", "PACKAGES", "PAGES", "path_of", "render", "ungrouped", "write"]

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"

NOTE = "<!-- written by `make docs` from the source; changes here are lost -->"


def path_of(package: str) -> Path:
    return FOLDER / f"{package.rpartition('.')[2]}.md"


def render(package: str) -> str:
    """Return the page of a package: a table of each group, then every name in full."""
    introduction, groups = PACKAGES[package]
    lines = [NOTE, "", f"# {package}", "", introduction]
    for group, names in groups.items():
        lines += ["", f"## {group}", "", "| name | description |", "|---|---|"]
        lines += [f"| [`{name}`]({_place(package, name)}) | {summary(package, name)} |" for name in names]
        for name in names:
            if not _is_subclassed(package, name):
                lines += entry(package, name)
    return _joined(lines)


def render_agents() -> str:
    """Return the page of the classes that users subclass."""
    names = ", ".join(f"`{name}`" for name in AGENT_CLASSES)
    lines = [NOTE, "", "# Agent classes", ""]
    lines += [
        f"The members of {names}: settings to assign in your class, hooks to define, and methods to call. Methods",
        "that belong together are behind one attribute, such as `self.jobs`; these are listed after the classes.",
        "",
        "If your class defines another member with one of these names, defining the class raises `UsageError`, unless",
        "the name is a setting or a hook, or the method is marked with `typing.override`.",
    ]
    for name in AGENT_CLASSES:
        lines += agent_class(name)
    for attribute in FAMILIES:
        lines += family(attribute)
    return _joined(lines)


def _is_subclassed(package: str, name: str) -> bool:
    return package == "everyword" and name in AGENT_CLASSES


def _place(package: str, name: str) -> str:
    return f"agents.md#{name.lower()}" if _is_subclassed(package, name) else f"#{name.lower()}"


def _joined(lines: list[str]) -> str:
    return "\n".join(lines).rstrip() + "\n"


PAGES: dict[Path, Callable[[], str]] = {
    **{path_of(package): (lambda package=package: render(package)) for package in PACKAGES},  # type: ignore[misc]
    FOLDER / "agents.md": render_agents,
    FOLDER / "http.md": lambda: _joined([NOTE, "", *http.page()]),
    FOLDER / "frames.md": lambda: _joined([NOTE, "", *frames.page()]),
}
"""Every generated page, and what makes it."""


def write() -> list[str]:
    """Write all pages; return why that is not possible, if it is not."""
    odd = [
        f"not in one group of {package}: {', '.join(names)}" for package in PACKAGES if (names := ungrouped(package))
    ]
    if not odd:
        for path, make in PAGES.items():
            path.write_text(make(), encoding="utf-8")
    return odd
