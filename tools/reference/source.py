"""Classes and functions as they are written: signatures with types and defaults, attributes with their docstrings.

Read from the source and not from the objects: there a default is what the author wrote, `timedelta(hours=24)`, and an
attribute has the text that stands below it.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from itertools import pairwise
from typing import Any, Final

import msgspec

__all__ = ["Attribute", "Method", "alias", "attributes_of", "call_of_class", "has_fields", "methods_of", "signature"]

LINE: Final = 120

WIDTH = 100
"""Columns of a signature that stays on one line."""


@dataclass(frozen=True)
class Attribute:
    """A class attribute, a field, or what the constructor puts into an object."""

    name: str
    type: str = ""
    default: str | None = None
    text: str = ""


@dataclass(frozen=True)
class Method:
    """A method or a property, with its signature as code."""

    name: str
    code: str
    text: str
    is_property: bool = False


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def signature(function: Any, name: str | None = None) -> str:
    """Return `def name(...) -> ...`, as it is written."""
    node = _parsed(function)
    assert isinstance(node, _Function)
    return _code(node, name or node.name, node.args)


def has_fields(cls: type) -> bool:
    """Tell whether the constructor of a class takes its attributes."""
    return is_dataclass(cls) or issubclass(cls, msgspec.Struct)


def call_of_class(cls: type, name: str) -> str | None:
    """Return how an object is made, `Name(...)`; None if that is as for any class, or seen from its fields."""
    if has_fields(cls):
        return None
    base = next((each for each in cls.__mro__ if "__init__" in vars(each)), object)
    if base is object or not base.__module__.startswith("everyword"):
        return None
    node = _parsed(base)
    assert isinstance(node, ast.ClassDef)
    made = next(each for each in node.body if isinstance(each, _Function) and each.name == "__init__")
    parameters = _parameters(_without_self(made.args))
    return _folded(name, parameters, "") if parameters else None


def attributes_of(classes: Sequence[type]) -> list[Attribute]:
    """Return the public attributes of the classes, and what constructors document, in the order of the source."""
    found: dict[str, Attribute] = {}
    for cls in classes:
        node = _parsed(cls)
        assert isinstance(node, ast.ClassDef)
        for each in _assigned(node.body):
            found.setdefault(each.name, each)
        for method in node.body:
            if isinstance(method, _Function) and method.name == "__init__":
                for each in _assigned(method.body, "self"):
                    if each.text:
                        found.setdefault(each.name, each)
    return list(found.values())


def alias(module: str, name: str) -> tuple[str, str]:
    """Return how a type that is no class is written, and the text below it."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    for node, below in pairwise(tree.body):
        if isinstance(node, ast.Assign) and _name(node.targets[0], None) == name:
            return _wrapped(name, node.value), _text(below)
    raise ValueError(f"unable to write the reference; {module} has no {name}")


def _wrapped(name: str, value: ast.expr) -> str:
    """Return an assignment; a long `Literal` has a line for each of its values."""
    code = f"{name} = {_written(value)}"
    if len(code) <= LINE or not (isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Tuple)):
        return code
    values = "".join(f"    {_written(each)},\n" for each in value.slice.elts)
    return f"{name} = {_written(value.value)}[\n{values}]"


def methods_of(classes: Sequence[type]) -> list[Method]:
    """Return the public methods and properties of the classes, in the order of the source."""
    found: dict[str, Method] = {}
    for cls in classes:
        node = _parsed(cls)
        assert isinstance(node, ast.ClassDef)
        own: dict[str, list[_Function]] = {}
        for each in node.body:
            if isinstance(each, _Function) and not each.name.startswith("_") and each.name not in found:
                own.setdefault(each.name, []).append(each)
        found |= {name: _overloaded(written) for name, written in own.items()}
    return list(found.values())


def _overloaded(written: Sequence[_Function]) -> Method:
    """Return a method with the signatures that it is given as overloads, and the text of its definition."""
    overloads = [each for each in written if "overload" in map(_written, each.decorator_list)]
    if not overloads:
        return _method(written[0], ast.get_docstring(written[0]) or "")
    text = ast.get_docstring(written[-1]) or ""
    methods = [_method(each, text) for each in overloads]
    return Method(methods[0].name, "\n".join(each.code for each in methods), text)


def _method(node: _Function, text: str) -> Method:
    decorators = [_written(each) for each in node.decorator_list]
    if any(each in ("property", "cached_property") or each.endswith(".setter") for each in decorators):
        returns = f": {_written(node.returns)}" if node.returns is not None else ""
        return Method(node.name, f"{node.name}{returns}", text, is_property=True)
    args = node.args if "staticmethod" in decorators else _without_self(node.args)
    kept = [f"@{each}\n" for each in decorators if each in ("classmethod", "staticmethod", "callable_", "callable")]
    return Method(node.name, "".join(kept).replace("@callable_", "@callable") + _code(node, node.name, args), text)


def _written(node: ast.AST) -> str:
    """Return an expression as code, with the quotes that our formatter uses."""
    text = ast.unparse(node)
    return text if '"' in text else text.replace("'", '"')


def _parsed(documented: Any) -> ast.stmt:
    return ast.parse(textwrap.dedent(inspect.getsource(documented))).body[0]


def _assigned(body: Sequence[ast.stmt], owner: str | None = None) -> Iterator[Attribute]:
    """Yield what is assigned to public names, of `owner` if one is given, with the text that follows."""
    for place, node in enumerate(body):
        target: ast.expr
        if isinstance(node, ast.AnnAssign):
            target, kind, value = node.target, _written(node.annotation), node.value
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, kind, value = node.targets[0], "", node.value
        else:
            continue
        name = _name(target, owner)
        if name is None or name.startswith("_") or name.isupper():
            continue
        follows = body[place + 1] if place + 1 < len(body) else None
        text = _text(follows)
        kind = kind.removeprefix("ClassVar[").removesuffix("]") if kind.startswith("ClassVar[") else kind
        yield Attribute(name, kind, _default(value), text)


def _name(target: ast.expr, owner: str | None) -> str | None:
    match target:
        case ast.Name(id=name) if owner is None:
            return name
        case ast.Attribute(value=ast.Name(id=holder), attr=name) if holder == owner:
            return name
        case _:
            return None


def _text(node: ast.stmt | None) -> str:
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return inspect.cleandoc(text)
        case _:
            return ""


def _default(value: ast.expr | None) -> str | None:
    """Return a default as it is written; of `field(default_factory=dict)`, what the factory makes."""
    match value:
        case None:
            return None
        case ast.Call(func=ast.Name(id="field") | ast.Attribute(attr="field"), keywords=keywords):
            given = {keyword.arg: keyword.value for keyword in keywords}
            if "default" in given:
                return _written(given["default"])
            factory = given.get("default_factory")
            return f"{_written(factory)}()" if factory is not None else None
        case _:
            return _written(value)


def _code(node: _Function, name: str, args: ast.arguments) -> str:
    keyword = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {_written(node.returns)}" if node.returns is not None else ""
    return _folded(f"{keyword} {name}", _parameters(args), returns)


def _folded(head: str, parameters: list[str], tail: str) -> str:
    line = f"{head}({', '.join(parameters)}){tail}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{head}(", *(f"    {each}," for each in parameters), f"){tail}"])


def _without_self(args: ast.arguments) -> ast.arguments:
    first = args.posonlyargs or args.args
    if first and first[0].arg in ("self", "cls"):
        kept = ast.arguments(**{name: getattr(args, name) for name in args._fields})
        if args.posonlyargs:
            kept.posonlyargs = args.posonlyargs[1:]
        else:
            kept.args = args.args[1:]
        return kept
    return args


def _parameters(args: ast.arguments) -> list[str]:
    ordered = [*args.posonlyargs, *args.args]
    defaults: list[ast.expr | None] = [*[None] * (len(ordered) - len(args.defaults)), *args.defaults]
    found = [_parameter(each, default) for each, default in zip(ordered, defaults, strict=True)]
    if args.posonlyargs:
        found.insert(len(args.posonlyargs), "/")
    if args.vararg is not None:
        found.append(f"*{_parameter(args.vararg, None)}")
    elif args.kwonlyargs:
        found.append("*")
    found += [_parameter(each, default) for each, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    if args.kwarg is not None:
        found.append(f"**{_parameter(args.kwarg, None)}")
    return found


def _parameter(arg: ast.arg, default: ast.expr | None) -> str:
    kind = f": {_written(arg.annotation)}" if arg.annotation is not None else ""
    if default is None:
        return f"{arg.arg}{kind}"
    return f"{arg.arg}{kind} = {_written(default)}" if kind else f"{arg.arg}={_written(default)}"
