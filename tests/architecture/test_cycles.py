"""No module imports itself through others, imports inside functions included."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from tests.architecture.tree import Module, parse_module, read_source


def import_cycles(modules: Iterable[Module]) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or through others."""
    graph = _graph(modules)
    reached = {name: _reachable(graph, name) for name in graph}
    groups = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in graph
        if name in reached[name]
    }
    return [list(group) for group in sorted(groups)]


def _graph(modules: Iterable[Module]) -> dict[str, set[str]]:
    """Return module → modules that it imports.

    Importing a module of a package also executes the package, and the packages around it; a module inside of them can
    only be imported after that began, so it does not count as importing them.
    """
    known = {_dotted(module): module for module in modules}
    graph: dict[str, set[str]] = {}
    for name, module in known.items():
        targets = {found for target, _ in module.runtime_imports() if (found := _module_in(known, target)) is not None}
        packages = {package for target in targets for package in _packages_of(target) if package in known}
        graph[name] = (targets | packages) - {name} - set(_packages_of(name))
        graph[name] |= targets & set(_packages_of(name))
    return graph


def _dotted(module: Module) -> str:
    return "everyword" if module.name == "__init__" else f"everyword.{module.name}"


def _module_in(known: Mapping[str, Module], target: str) -> str | None:
    """Return the module that an imported name is, or is in; None if it is not one of these modules."""
    while target and target not in known:
        target = target.rpartition(".")[0]
    return target or None


def _packages_of(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def _reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += graph[name]
    return found


def test_no_module_imports_itself_through_others() -> None:
    assert import_cycles(read_source()) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("from .reply import Reply", "from .chat import Chat"),
        ("from .reply import Reply", "def f():\n    from .chat import Chat"),
        ("import everyword.agents.reply", "from everyword.agents import chat"),
        ("from . import reply", "class A:\n    def f(self):\n        import everyword.agents.chat"),
        (
            "from .reply import Reply",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    x = 1\nelse:\n    from . import chat",
        ),
    ],
)
def test_two_modules_that_import_each_other_are_reported(first: str, second: str) -> None:
    modules = [parse_module(first, "agents.chat"), parse_module(second, "agents.reply")]
    assert import_cycles(modules) == [["everyword.agents.chat", "everyword.agents.reply"]]


def test_a_cycle_through_a_package_is_reported() -> None:
    modules = [
        parse_module("from .handle import Handle\nfrom .app import App", "agents.handles", is_package=True),
        parse_module("", "agents.handles.handle"),
        parse_module("from ..agent import Agent", "agents.handles.app"),
        parse_module("from .handles.handle import Handle", "agents.agent"),
    ]
    assert import_cycles(modules) == [
        ["everyword.agents.agent", "everyword.agents.handles", "everyword.agents.handles.app"]
    ]


@pytest.mark.parametrize(
    "second",
    [
        "",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .chat import Chat",
        "import typing\nif typing.TYPE_CHECKING:\n    from .chat import Chat",
        "from ..server.chat import Chat",
    ],
)
def test_imports_in_one_direction_or_only_for_types_are_no_cycle(second: str) -> None:
    modules = [parse_module("from .reply import Reply", "agents.chat"), parse_module(second, "agents.reply")]
    assert import_cycles(modules) == []
