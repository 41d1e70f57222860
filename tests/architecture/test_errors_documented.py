"""Every exception has a stable code and a row in docs/errors.md."""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter

from everyword import errors
from tests.architecture.tree import ROOT, read_source

_ROW = re.compile(r"^\| `(?P<code>[a-z_]+)` \| `(?P<name>\w+)` \| (?P<means>.+?) \| (?P<cure>.+?) \|$", re.MULTILINE)


def defined() -> dict[str, str]:
    """Return class name → code of everything in errors.py."""
    found = {
        name: each.code
        for name, each in inspect.getmembers(errors, inspect.isclass)
        if issubclass(each, errors.EverywordError)
    }
    assert len(found) > 5, "errors.py lost its classes"
    return found


def documented() -> list[tuple[str, str]]:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    return [(row["name"], row["code"]) for row in _ROW.finditer(page)]


def test_every_error_has_one_row_with_its_code() -> None:
    assert Counter(documented()) == Counter(defined().items())


def test_the_page_lists_every_class_whose_text_clients_read() -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    section = page.partition("| public | why |")[2].partition("\n\n")[0]
    listed = [name for row in section.splitlines() for name in re.findall(r"`(\w+)`", row)]
    assert sorted(listed) == sorted(name for name in defined() if getattr(errors, name).is_public)


def test_codes_are_unique() -> None:
    assert [code for code, times in Counter(defined().values()).items() if times > 1] == []


def test_every_error_is_public_and_states_its_meaning() -> None:
    assert [name for name in defined() if name not in errors.__all__] == []
    assert [name for name in defined() if not (getattr(errors, name).__doc__ or "").strip()] == []


def test_the_drawing_at_the_top_of_errors_shows_every_class() -> None:
    assert [name for name in defined() if not re.search(rf"[─ ]{name}\b", errors.__doc__ or "")] == []


def test_exceptions_are_defined_in_errors_only() -> None:
    elsewhere = [
        f"{module.name}:{node.name}"
        for module in read_source()
        if module.name != "errors"
        for node in module.nodes()
        if isinstance(node, ast.ClassDef) and any(_is_exception(base) for base in node.bases)
    ]
    assert elsewhere == []


def _is_exception(base: ast.expr) -> bool:
    name = base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""
    return name in defined() or name.endswith(("Error", "Exception"))
