"""What a seeded bug does to a definition: small operations on its syntax tree.

Each takes patterns (`tests.mutants.patterns`). A pattern must match exactly once inside the definition, or `which` says
which of the matches is meant: "first", "last" or "all".
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tests.mutants.patterns import Match, Place, find, parse, parse_statements, substitute

__all__ = ["Change", "NotThere", "always", "before", "both", "drop", "negate", "never", "replace", "returns", "swap"]

Which: TypeAlias = Literal["only", "first", "last", "all"]
_Found: TypeAlias = tuple[Place, Match]


class NotThere(LookupError):
    """A pattern does not match, or not as often as it should."""


@dataclass(frozen=True)
class Change:
    """A change of a definition. `edit` changes the tree in place and raises `NotThere`."""

    text: str
    edit: Callable[[ast.AST], None]


def drop(pattern: str, which: Which = "only") -> Change:
    """Take a statement, an operand of `and`, `or` or `|`, an element, an argument (`name=...`) or a key away."""

    def edit(tree: ast.AST) -> None:
        for place, _ in reversed(_chosen(pattern, tree, which)):
            _take_away(place, tree)

    return Change(f"drop {pattern}", edit)


def replace(pattern: str, new: str, which: Which = "only") -> Change:
    """Put another expression, argument or statements in the place of one. `new` may use the `$names` of the pattern."""
    templates = parse_statements(new)

    def edit(tree: ast.AST) -> None:
        for place, match in reversed(_chosen(pattern, tree, which)):
            _put(place, [substitute(each, match) for each in templates], tree)

    return Change(f"replace {pattern} by {new}", edit)


def never(condition: str, which: Which = "only") -> Change:
    """Let a condition never be true."""
    return replace(condition, "False", which)


def always(condition: str, which: Which = "only") -> Change:
    """Let a condition always be true."""
    return replace(condition, "True", which)


def negate(condition: str, which: Which = "only") -> Change:
    """Let a condition be true when it is false."""

    def edit(tree: ast.AST) -> None:
        for place, _ in reversed(_chosen(condition, tree, which)):
            place.put(ast.UnaryOp(ast.Not(), place.node))  # type: ignore[arg-type]

    return Change(f"negate {condition}", edit)


def before(pattern: str, new: str, which: Which = "only") -> Change:
    """Add statements before the statement that has the pattern."""
    templates = parse_statements(new)

    def edit(tree: ast.AST) -> None:
        for place, match in reversed(_chosen(pattern, tree, which)):
            outer = _statement(place, tree)
            outer.put(*(substitute(each, match) for each in templates), outer.node)

    return Change(f"add {new} before {pattern}", edit)


def swap(one: str, other: str) -> Change:
    """Exchange two expressions or statements."""

    def edit(tree: ast.AST) -> None:
        ((first, _),) = _chosen(one, tree, "only")
        ((second, _),) = _chosen(other, tree, "only")
        if isinstance(first.node, ast.stmt) or isinstance(second.node, ast.stmt):
            first, second = _statement(first, tree), _statement(second, tree)
        left, right = first.node, second.node
        first.put(right)
        second.put(left)

    return Change(f"swap {one} and {other}", edit)


def returns(value: str) -> Change:
    """Let a function return this at once."""

    def edit(tree: ast.AST) -> None:
        assert isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef), "only functions return"
        tree.body = parse_statements(f"return {value}")

    return Change(f"return {value}", edit)


def both(*changes: Change) -> Change:
    """Make several changes, which are one bug only together."""

    def edit(tree: ast.AST) -> None:
        for change in changes:
            change.edit(tree)

    return Change(" and ".join(change.text for change in changes), edit)


def _chosen(pattern: str, tree: ast.AST, which: Which) -> list[_Found]:
    found = list(find(parse(pattern), tree))
    if not found:
        raise NotThere(f"no longer has `{pattern}`")
    if which == "only" and len(found) > 1:
        raise NotThere(f"has `{pattern}` {len(found)} times; name more of it, or say which")
    return {"only": found, "first": found[:1], "last": found[-1:], "all": found}[which]


def _put(place: Place, new: list[ast.AST], tree: ast.AST) -> None:
    match place.node, new:
        case ast.keyword(arg=name), [ast.Assign(value=value)]:
            place.put(ast.keyword(name, value))
        case ast.expr(), [ast.Expr(value=value)]:
            place.put(value)
        case ast.expr(), _:
            _statement(place, tree).put(*new)
        case _:
            place.put(*new)


def _take_away(place: Place, tree: ast.AST) -> None:
    parent, node = place.parent, place.node
    if isinstance(parent, ast.Expr | ast.Await):  # a call that is a statement, awaited or not
        _take_away(_place_of(parent, tree), tree)
    elif isinstance(parent, ast.BoolOp) and len(parent.values) == 2:
        _place_of(parent, tree).put(next(each for each in parent.values if each is not node))
    elif isinstance(parent, ast.BinOp):
        _place_of(parent, tree).put(parent.right if parent.left is node else parent.left)
    elif isinstance(parent, ast.Dict) and place.name == "keys" and place.index is not None:
        del parent.keys[place.index], parent.values[place.index]
    elif place.index is None:
        raise NotThere(f"cannot do without `{ast.unparse(node)}`; use `replace`, `never` or `always`")
    elif isinstance(node, ast.stmt) and len(getattr(parent, place.name)) == 1:
        place.put(ast.Pass())
    else:
        place.put()


def _statement(place: Place, tree: ast.AST) -> Place:
    while not isinstance(place.node, ast.stmt):
        place = _place_of(place.parent, tree)
    return place


def _place_of(node: ast.AST, tree: ast.AST) -> Place:
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is node:
                return Place(parent, name, None)
            if isinstance(value, list):
                for index, each in enumerate(value):
                    if each is node:
                        return Place(parent, name, index)
    raise NotThere(f"cannot change `{ast.unparse(node)}` from inside")
