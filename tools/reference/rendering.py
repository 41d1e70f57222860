"""One name of the reference as Markdown: its signature, its text, its members."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

from everyword.agents.class_members import HOOKS, SETTINGS

from .docstrings import first_sentence, to_markdown
from .packages import ALIASES, FAMILIES, FRAMEWORK, MADE_BY_US, PACKAGES, documented
from .source import Attribute, Method, alias, attributes_of, call_of_class, has_fields, methods_of, signature

__all__ = ["agent_class", "entry", "family", "own_classes", "summary"]


def summary(package: str, name: str) -> str:
    """Return the first sentence of a name's docstring, as a cell of a table."""
    text = first_sentence(documented(package, name)) if name not in ALIASES else alias(ALIASES[name], name)[1]
    if not text:
        raise ValueError(f"unable to write the reference; {package}.{name} has no docstring")
    return _cell(text.partition("\n\n")[0])


def entry(package: str, name: str) -> list[str]:
    """Return the lines about one name."""
    found = documented(package, name)
    lines = ["", f"### {name}", ""]
    if name in ALIASES:
        code, text = alias(ALIASES[name], name)
        return [*lines, *_block(code), "", to_markdown(text)]
    if not inspect.isclass(found):
        return [*lines, *_block(signature(found, name)), "", to_markdown(found.__doc__ or "")]
    made = call_of_class(found, name) if name not in MADE_BY_US else None
    if made is not None:
        lines += [*_block(made), ""]
    lines.append(to_markdown(found.__doc__ or ""))
    classes = own_classes(package, found)
    lines += _attribute_table(attributes_of(classes), "field" if has_fields(found) else "attribute")
    return [*lines, *_method_list(_methods(name, classes), "####")]


def agent_class(name: str) -> list[str]:
    """Return the lines about a class that users subclass: its settings, its hooks, and what is there to be used."""
    found: Any = documented("everyword", name)
    classes = own_classes("everyword", found)
    methods = _methods(name, classes)
    hooks = [each for each in methods if each.name in HOOKS]
    others = [each for each in methods if each.name not in HOOKS]
    lines = ["", f"## {name}", "", to_markdown(found.__doc__ or "")]
    above = [each.__name__ for each in found.__mro__[1:] if each.__name__ in ("Agent", "AIChatAgent")]
    if above:
        lines += ["", f"It has everything of [{above[0]}](#{above[0].lower()}), and:"]
    settings = [each for each in attributes_of(classes) if each.name in SETTINGS]
    lines += [*_titled(f"Settings of {name}", _attribute_table(settings, "setting"))]
    lines += [*_titled(f"Hooks of {name}", _method_list(hooks, "####"))]
    return [*lines, *_titled(f"Methods and properties of {name}", _method_list(others, "####"))]


def _methods(name: str, classes: Sequence[type]) -> list[Method]:
    return [each for each in methods_of(classes) if each.name not in FRAMEWORK.get(name, ())]


def family(attribute: str) -> list[str]:
    """Return the lines about an attribute of agents that keeps methods together, and what these return."""
    name, records = FAMILIES[attribute]
    cls: type = documented("everyword.agents", name)
    lines = ["", f"## self.{attribute}", "", to_markdown(cls.__doc__ or ""), *_method_list(methods_of([cls]), "####")]
    for each in records:
        record: type = documented("everyword.agents", each)
        lines += ["", f"### {each}", "", to_markdown(record.__doc__ or "")]
        lines += _attribute_table(attributes_of([record]), "field")
        lines += _method_list(_methods(each, [record]), "####")
    return lines


def own_classes(package: str, cls: type) -> list[type]:
    """Return the class and those bases that have no entry of their own, such as the parts that it is made of."""
    public = {id(documented(package, each)) for names in PACKAGES[package][1].values() for each in names}
    known = {id(each) for base in cls.__mro__[1:] if id(base) in public for each in base.__mro__}
    hidden = [base for base in cls.__mro__[1:] if id(base) not in known and base.__module__.startswith("everyword.")]
    return [cls, *hidden]


def _titled(title: str, lines: Sequence[str]) -> list[str]:
    return ["", f"### {title}", *lines] if lines else []


def _attribute_table(attributes: Iterable[Attribute], what: str) -> list[str]:
    rows = [
        f"| `{each.name}` | {_code_cell(each.type)} | {_code_cell(each.default)} | {_cell(to_markdown(each.text))} |"
        for each in attributes
    ]
    return ["", f"| {what} | type | default | |", "|---|---|---|---|", *rows] if rows else []


def _method_list(methods: Iterable[Method], heading: str) -> list[str]:
    lines: list[str] = []
    for each in methods:
        lines += ["", f"{heading} {each.name}", "", *_block(each.code)]
        if each.text:
            lines += ["", to_markdown(each.text)]
    return lines


def _block(code: str) -> list[str]:
    return ["```py", code, "```"]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _code_cell(text: str | None) -> str:
    return f"`{_cell(text)}`" if text else ""
