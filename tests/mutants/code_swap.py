"""Put a bug into a function that is in memory already, instead of into the source that is imported.

Every reference to a function is to the same object, so a change of its code is a change for every caller. This is the
whole bug only if nothing but the body of the function changes: defaults, decorators, constants, classes and SQL took
effect when they were imported.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from tests.mutants.bug import Bug
from tests.mutants.patterns import parse_source
from tests.mutants.places import definition, make

__all__ = ["CannotSwap", "swap_code"]


class CannotSwap(LookupError):
    """The bug is not in the body of one function that can be found in memory."""


def swap_code(bug: Bug, source: Path) -> None:
    """Put the bug into the imported function. `source` is the folder that everyword was imported from."""
    changed = make(bug.where, bug.change, source)
    name = bug.where.rpartition(":")[2]
    if not isinstance(changed.new, ast.Module):
        raise CannotSwap(f"`{bug.where}` is no Python code")
    file = source / changed.path
    before, after = definition(parse_source(file.read_text(encoding="utf-8")), name), definition(changed.new, name)
    if not isinstance(after, ast.FunctionDef | ast.AsyncFunctionDef) or _head(before) != _head(after):
        raise CannotSwap(f"more than the body of a function changes in `{bug.where}`")
    codes = list(_codes(compile(parse_source(changed.text), str(file), "exec"), name))
    function = _function(import_module(_module_name(changed.path)), name)
    if len(codes) != 1 or (function.__code__.co_filename, function.__code__.co_qualname) != (str(file), name):
        raise CannotSwap(f"`{bug.where}` is not the function that its name leads to")
    if codes[0].co_freevars != function.__code__.co_freevars:
        raise CannotSwap(f"`{bug.where}` needs other variables of the code around it")
    function.__code__ = codes[0]


def _head(node: ast.AST) -> str:
    """Return all of a function but its body."""
    fields = [value for name, value in ast.iter_fields(node) if name != "body"]
    return "\n".join(ast.dump(each) if isinstance(each, ast.AST) else _dump_all(each) for each in fields)


def _dump_all(value: object) -> str:
    return str([ast.dump(each) for each in value]) if isinstance(value, list) else str(value)


def _module_name(path: str) -> str:
    return ".".join(["everyword", *path.removesuffix(".py").removesuffix("/__init__").split("/")])


def _codes(code: CodeType, name: str) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if each.co_qualname == name:
                yield each
            elif name.startswith(f"{each.co_qualname}."):
                yield from _codes(each, name)


def _function(owner: Any, name: str) -> FunctionType:
    """Return the function that the source defines under this name, without what decorators put around it."""
    try:
        for step in name.split("."):
            owner = vars(owner)[step]
    except KeyError:
        raise CannotSwap(f"`{name}` is not in memory") from None
    found = inspect.unwrap(getattr(owner, "__func__", None) or getattr(owner, "fget", None) or owner)
    if not isinstance(found, FunctionType):
        raise CannotSwap(f"`{name}` is a {type(found).__name__} in memory")
    return found
