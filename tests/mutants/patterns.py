"""Patterns over Python code: what to look for in a definition, whatever its formatting, comments and local names.

A pattern is Python code in which

- `$name` stands for any expression, or any name; the same `$name` stands for the same code everywhere,
- `...` stands for any expression; among arguments, elements or statements, for any number of them.

`self.tail.publish(...)` matches every call of that method, `len($waiting) >= ...` every such comparison.
"""

from __future__ import annotations

import ast
import copy
import gc
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

__all__ = ["Match", "Place", "find", "parse", "parse_source", "parse_statements", "substitute"]

_ANY: Final = "_any_"
_IGNORED: Final = {"ctx", "type_comment", "kind", "type_ignores", "type_params"}

_Bound: TypeAlias = ast.AST | str


def parse_source(text: str) -> ast.Module:
    """Parse without the collector: if it runs meanwhile, CPython 3.11 may raise SystemError (recursion depth)."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        if was_enabled:
            gc.enable()


@dataclass
class Match:
    """What `$names` and `...` stood for."""

    names: dict[str, _Bound] = field(default_factory=dict)
    runs: list[list[ast.AST]] = field(default_factory=list)

    def copied(self) -> Match:
        return Match(dict(self.names), list(self.runs))

    def become(self, other: Match) -> bool:
        self.names, self.runs = other.names, other.runs
        return True


@dataclass(frozen=True)
class Place:
    """Where a node is: in a field of its parent, at an index if the field is a list."""

    parent: ast.AST
    name: str
    index: int | None

    @property
    def node(self) -> ast.AST:
        value = getattr(self.parent, self.name)
        found = value if self.index is None else value[self.index]
        assert isinstance(found, ast.AST)
        return found

    def put(self, *nodes: ast.AST) -> None:
        """Replace the node; several nodes, or none, only in a list."""
        if self.index is None:
            (node,) = nodes
            setattr(self.parent, self.name, node)
        else:
            getattr(self.parent, self.name)[self.index : self.index + 1] = nodes


def parse_statements(text: str) -> list[ast.stmt]:
    return parse_source(re.sub(r"\$(\w+)", rf"{_ANY}\1", text)).body


def parse(text: str) -> ast.AST:
    """Return the one expression or statement that the pattern is."""
    (statement,) = parse_statements(text)
    return statement.value if isinstance(statement, ast.Expr) else statement


def find(pattern: ast.AST, within: ast.AST) -> Iterator[tuple[Place, Match]]:
    """Yield every place below `within` that the pattern matches, in the order of the source."""
    for place in _places(within):
        match = Match()
        if not _is_stored(place.node) and _matches(pattern, place.node, match):
            yield place, match


def _is_stored(node: ast.AST) -> bool:
    """Return whether the node is a name that something is assigned to; a pattern means its uses."""
    return isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)


def _places(node: ast.AST) -> Iterator[Place]:
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield Place(node, name, None)
            yield from _places(value)
        elif isinstance(value, list):
            for index, each in enumerate(value):
                if isinstance(each, ast.AST):
                    yield Place(node, name, index)
                    yield from _places(each)


def _matches(pattern: ast.AST, node: ast.AST, match: Match) -> bool:
    if _is_dots(pattern):
        match.runs.append([node])
        return isinstance(node, ast.expr | ast.stmt)
    if isinstance(pattern, ast.Name) and pattern.id.startswith(_ANY):
        return isinstance(node, ast.expr) and _binds(pattern.id, node, match)
    if _is_argument(pattern) and isinstance(node, ast.keyword):
        assert isinstance(pattern, ast.Assign) and isinstance(pattern.targets[0], ast.Name)
        return node.arg == pattern.targets[0].id and _matches(pattern.value, node.value, match)
    if type(pattern) is not type(node):
        return False
    if isinstance(pattern, ast.Call) and isinstance(node, ast.Call):
        return _matches(pattern.func, node.func, match) and _match_arguments(pattern, node, match)
    return all(
        _match_field(getattr(pattern, name, None), getattr(node, name, None), match)
        for name in pattern._fields
        if name not in _IGNORED
    )


def _match_field(pattern: object, value: object, match: Match) -> bool:
    if isinstance(pattern, list) and isinstance(value, list):
        return _match_run(pattern, value, match)
    if isinstance(pattern, ast.AST) and isinstance(value, ast.AST):
        return _matches(pattern, value, match)
    if isinstance(pattern, str) and pattern.startswith(_ANY) and isinstance(value, str):
        return _binds(pattern, value, match)
    return type(pattern) is type(value) and pattern == value


def _match_run(patterns: list[object], values: list[object], match: Match) -> bool:
    """Match a list; each `...` in it takes as few elements as will do."""
    if not patterns:
        return not values
    first, *rest = patterns
    if isinstance(first, ast.AST) and _is_dots(first):
        for taken in range(len(values) + 1):
            attempt = match.copied()
            attempt.runs.append([each for each in values[:taken] if isinstance(each, ast.AST)])
            if _match_run(rest, values[taken:], attempt):
                return match.become(attempt)
        return False
    if not values:
        return False
    attempt = match.copied()
    return _match_field(first, values[0], attempt) and _match_run(rest, values[1:], attempt) and match.become(attempt)


def _match_arguments(pattern: ast.Call, node: ast.Call, match: Match) -> bool:
    """Match arguments: those by name in any order, and more of them than the pattern has if it has `...`."""
    has_dots = any(_is_dots(each) for each in pattern.args)
    if not _match_run([*pattern.args], [*node.args], match):
        return False
    left = list(node.keywords)
    for wanted in pattern.keywords:
        found = next((each for each in left if each.arg == wanted.arg), None)
        if found is None or not _matches(wanted.value, found.value, match):
            return False
        left.remove(found)
    if has_dots:
        match.runs[-1] = [*match.runs[-1], *left]
    return has_dots or not left


def _is_dots(node: ast.AST) -> bool:
    value = node.value if isinstance(node, ast.Expr) else node
    return isinstance(value, ast.Constant) and value.value is ...


def _is_argument(pattern: ast.AST) -> bool:
    """Return whether the pattern is `name=value`, which is an assignment or an argument."""
    return isinstance(pattern, ast.Assign) and len(pattern.targets) == 1 and isinstance(pattern.targets[0], ast.Name)


def _binds(name: str, value: _Bound, match: Match) -> bool:
    known = match.names.setdefault(name, value)
    return _said(known) == _said(value)


def _said(bound: _Bound) -> str:
    if isinstance(bound, ast.Name):
        return bound.id
    return bound if isinstance(bound, str) else ast.unparse(bound)


def substitute(template: ast.AST, match: Match) -> ast.AST:
    """Return the template with what its `$names` and `...` stand for."""
    return _Substitution(match).visit(copy.deepcopy(template))


class _Substitution(ast.NodeTransformer):
    def __init__(self, match: Match) -> None:
        self._names = match.names
        self._runs = iter(match.runs)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if not node.id.startswith(_ANY):
            return node
        bound = self._bound(node.id)
        return ast.Name(bound, ast.Load()) if isinstance(bound, str) else copy.deepcopy(bound)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr.startswith(_ANY):
            node.attr = _said(self._bound(node.attr))
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        arguments: list[ast.AST] = []
        for each in node.args:
            found = next(self._runs, None) if _is_dots(each) else [self.visit(each)]
            arguments.extend(copy.deepcopy(found or []))
        node.func = self.visit(node.func)
        node.args = [each for each in arguments if isinstance(each, ast.expr)]
        named = [each for each in arguments if isinstance(each, ast.keyword)]
        node.keywords = [*(self.visit(each) for each in node.keywords), *named]
        return node

    def visit_Constant(self, node: ast.Constant) -> object:
        run = next(self._runs, None) if _is_dots(node) else None
        if run is None:
            return node
        return copy.deepcopy(run[0] if len(run) == 1 else run)

    def visit_Expr(self, node: ast.Expr) -> object:
        if _is_dots(node):
            return copy.deepcopy(next(self._runs, []))
        return self.generic_visit(node)

    def _bound(self, name: str) -> _Bound:
        bound = self._names.get(name)
        if bound is None:
            raise LookupError(f"${name.removeprefix(_ANY)} is not in the pattern")
        return bound
