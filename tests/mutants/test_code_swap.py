"""A bug is put into memory only if that is the whole bug."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import everyword
from everyword.core import prune
from tests.mutants.bug import Bug
from tests.mutants.catalogue import ALL, HARMLESS
from tests.mutants.changes import Change
from tests.mutants.code_swap import CannotSwap, swap_code

SOURCE = Path(str(everyword.__file__)).parent


def changing(edit: str) -> Bug:
    """Return a bug that changes the head of a function: runs `edit` with the function's syntax tree as `node`."""
    return Bug(HARMLESS.where, "nothing", Change(edit, lambda node: exec(edit, {"ast": ast, "node": node})), "", edit)


def test_every_caller_of_a_function_gets_the_changed_code() -> None:
    function = prune.turn_is_prunable
    before = function.__code__
    try:
        swap_code(HARMLESS, SOURCE)
        assert prune.turn_is_prunable is function
        assert function.__code__ is not before
    finally:
        function.__code__ = before


@pytest.mark.parametrize(
    "bug",
    [
        next(bug for bug in ALL if bug.where.startswith("sql:")),
        next(bug for bug in ALL if bug.where == "core:TRANSITIONS"),
        changing("node.args.args.append(ast.arg('more'))"),
        changing("node.args.defaults.append(ast.Constant(None))"),
        changing("node.decorator_list.append(ast.Name('len', ast.Load()))"),
    ],
    ids=lambda bug: bug.where + " " + bug.why[:30],
)
def test_what_took_effect_at_the_import_is_not_changed_in_memory(bug: Bug) -> None:
    before = prune.turn_is_prunable.__code__
    with pytest.raises(CannotSwap):
        swap_code(bug, SOURCE)
    assert prune.turn_is_prunable.__code__ is before
