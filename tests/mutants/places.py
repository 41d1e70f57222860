"""Where a seeded bug is put: a definition of the source, or a statement of SQL, by its name.

- `Actor._appended` is a method, `core:_finish` a function of the package `core`, `core:TRANSITIONS` a constant. The
  part before the colon is any part of a module's path, such as `core.decide`.
- `sql:put_turn` is a statement of a queries.sql, `sql:turn_request` a thing that a migration creates under that name;
  `sql:put_pages_1` is a function of PostgreSQL.

The whole source is searched, so that a definition can move to another file. If several definitions have the name, the
one that the change fits is meant.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from tests.mutants.changes import Change, NotThere
from tests.mutants.patterns import parse_source

__all__ = ["Changed", "SqlChange", "definition", "make", "sql"]

_Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign

_SQL: Final = "sql:"


@dataclass(frozen=True)
class Changed:
    """A file with the bug in it. The path is that below the source's folder."""

    path: str
    new: ast.Module | str

    @property
    def text(self) -> str:
        return self.new if isinstance(self.new, str) else ast.unparse(ast.fix_missing_locations(self.new)) + "\n"


@dataclass(frozen=True)
class SqlChange:
    """A replacement in a statement of SQL, in which `old` must be once, whatever the white space."""

    old: str
    new: str


def sql(old: str, new: str) -> SqlChange:
    """Change a statement of SQL."""
    return SqlChange(old, new)


def make(where: str, change: Change | SqlChange, source: Path) -> Changed:
    """Return the file with the bug in it. Raise `NotThere` with the reason if the bug has no place."""
    if isinstance(change, SqlChange):
        return _make_in_sql(where.removeprefix(_SQL), change, source)
    package, _, name = where.rpartition(":")
    paths = [path for path in _index(source).get(name, []) if _is_below(path, package)]
    made, problems = [], []
    for path in paths:
        try:
            made.append(Changed(path, _changed(source / path, name, change)))
        except NotThere as problem:
            problems.append(f"`{where}` in {path} {problem}")
    if not paths:
        raise NotThere(f"`{where}` was not found")
    if not made:
        raise NotThere("; ".join(problems))
    if len(made) > 1:
        places = " and ".join(each.path for each in made)
        raise NotThere(f"`{where}` is in {places}; say in which, as in `core.decide:name`")
    return made[0]


def _is_below(path: str, package: str) -> bool:
    steps = path.removesuffix(".py").replace("/", ".")
    return not package or f".{package}." in f".{steps}."


def _changed(path: Path, name: str, change: Change) -> ast.Module:
    module = parse_source(path.read_text(encoding="utf-8"))
    node = definition(module, name)
    before, names = ast.dump(node), _names(node)
    change.edit(node)
    if ast.dump(node) == before:
        raise NotThere(f"is not changed: {change.text}")
    unknown = _names(node) - names - set(_globals(module.body)) - set(dir(builtins))
    if unknown:
        raise NotThere(f"has no {', '.join(sorted(unknown))}, which the changed code needs: {change.text}")
    return module


def definition(module: ast.Module, name: str) -> _Definition:
    """Return the one definition of this name in a module."""
    (node,) = (node for found, node in _definitions(module.body, "") if found == name)
    return node


def _names(node: ast.AST) -> set[str]:
    """Return the names that a definition uses, and not those that only it has."""
    walked = list(ast.walk(node))
    names = {each.id for each in walked if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    own = {each.id for each in walked if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)}
    return names - own - {each.arg for each in walked if isinstance(each, ast.arg)}


def _globals(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the names that a module has when it runs."""
    for node in body:
        match node:
            case ast.Import() | ast.ImportFrom():
                yield from (each.asname or each.name.partition(".")[0] for each in node.names)
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                pass
            case ast.If() | ast.Try():
                yield from _globals(node.body)
            case _:
                yield from (name for name, _ in _definitions([node], ""))


def _definitions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, _Definition]]:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if not _is_overload(node):
                    yield prefix + node.name, node
            case ast.ClassDef():
                yield prefix + node.name, node
                yield from _definitions(node.body, f"{prefix}{node.name}.")
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield prefix + name, node
            case ast.If() | ast.Try():
                yield from _definitions(node.body, prefix)
            case _:
                pass


def _is_overload(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("overload" in ast.unparse(each) or "setter" in ast.unparse(each) for each in node.decorator_list)


@cache
def _index(source: Path) -> dict[str, list[str]]:
    """Return the files that have a definition, by its name."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in _paths(source, "*.py"):
        for name, _ in _definitions(parse_source((source / path).read_text(encoding="utf-8")).body, ""):
            if path not in found[name]:
                found[name].append(path)
    return found


@cache
def _paths(source: Path, ending: str) -> list[str]:
    return sorted(path.relative_to(source).as_posix() for path in source.rglob(ending))


def _make_in_sql(name: str, change: SqlChange, source: Path) -> Changed:
    """Change the one statement of that name that has the text: migrations may create a thing several times."""
    words = re.compile(r"\s+".join(re.escape(word) for word in change.old.split()))
    found = [each for path in _paths(source, "*.sql") for each in _statements(path, name, source)]
    made = []
    for path, start, end in found:
        text = (source / path).read_text(encoding="utf-8")
        if len(words.findall(text, start, end)) == 1:
            made.append(Changed(path, text[:start] + words.sub(lambda _: change.new, text[start:end]) + text[end:]))
    if not found:
        raise NotThere(f"the SQL statement `{name}` was not found")
    if len(made) != 1:
        raise NotThere(f"the SQL statement `{name}` has `{change.old}` in {len(made)} places instead of one")
    return made[0]


def _statements(path: str, name: str, source: Path) -> Iterator[tuple[str, int, int]]:
    """Yield where a statement of that name begins and ends: path, first character, last character."""
    text = (source / path).read_text(encoding="utf-8")
    query = rf"^-- name: {name}\n.*?(?=^-- name: |\Z)"
    created = rf"^CREATE (?:UNIQUE |TEMP )?(?:TABLE|INDEX|VIEW|TRIGGER) (?:IF NOT EXISTS )?{name}\b.*?;$"
    function = rf"^create function everyword\.{name}\(.*?\$\$;$"
    for match in re.finditer(f"{query}|{created}|{function}", text, re.MULTILINE | re.DOTALL):
        yield path, match.start(), match.end()
