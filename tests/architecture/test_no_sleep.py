"""Tests wait for facts: they never sleep, are never skipped, and always assert something."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

import pytest

from tests.architecture.tree import Module, parse_module, read_tests

SLEEPS = {"sleep", "wait_for_timeout"}
SKIPS = {"skip", "skipif", "skipIf", "skipUnless", "xfail", "importorskip", "SkipTest"}
WORDS = 3


def sleeps(modules: Iterable[Module]) -> list[str]:
    found = []
    for module in modules:
        for node in module.nodes():
            if isinstance(node, ast.Call) and _name(node.func) in SLEEPS and not _is_zero(node):
                found.append(f"{module.name}:{node.lineno} sleeps; wait for a fact instead")
    return found


def _is_zero(call: ast.Call) -> bool:
    match call:
        case ast.Call(args=[ast.Constant(value=0)], keywords=[]):
            return True
        case _:
            return False


def skips(modules: Iterable[Module]) -> list[str]:
    return [
        f"{module.name}:{node.lineno} skips; make it pass or take it out"
        for module in modules
        for node in module.nodes()
        if (isinstance(node, ast.Attribute) and node.attr in SKIPS and _root(node) in {"pytest", "unittest"})
        or (isinstance(node, ast.ImportFrom) and node.module in {"pytest", "unittest"} and _brings(node))
    ]


def _brings(node: ast.ImportFrom) -> bool:
    return any(alias.name in SKIPS for alias in node.names)


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _tests(modules: Iterable[Module]) -> Iterator[tuple[Module, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for module in modules:
        for node in module.nodes():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield module, node


def without_assertion(modules: Iterable[Module]) -> list[str]:
    """Find tests that cannot fail on purpose: no assert, no `raises`, no call of assert…, check…, expect…"""
    return [
        f"{module.name}:{test.name} asserts nothing"
        for module, test in _tests(modules)
        if not any(_asserts(node) for node in ast.walk(test))
    ]


def _asserts(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        name = _name(node.func).lstrip("_")
        return name in {"raises", "fail"} or name.startswith(("assert", "check", "expect"))
    return isinstance(node, ast.Assert)


def terse_names(modules: Iterable[Module]) -> list[str]:
    return [
        f"{module.name}:{test.name} is no sentence; say who does what, and when"
        for module, test in _tests(modules)
        if len(test.name.removeprefix("test_").split("_")) < WORDS
    ]


def test_no_test_sleeps() -> None:
    assert sleeps(read_tests()) == []


def test_no_test_is_skipped_or_expected_to_fail() -> None:
    assert skips(read_tests()) == []


def test_every_test_asserts_something() -> None:
    assert without_assertion(read_tests()) == []


def test_every_test_is_named_by_a_sentence() -> None:
    assert terse_names(read_tests()) == []


@pytest.mark.parametrize(
    "text",
    ["import time\ntime.sleep(0.1)", "await asyncio.sleep(delay)", "sleep(1)", "page.wait_for_timeout(50)"],
)
def test_a_sleeping_test_is_reported(text: str) -> None:
    assert len(sleeps([parse_module(text, "core.test_x")])) == 1


def test_yielding_to_the_loop_is_no_sleep() -> None:
    assert sleeps([parse_module("await asyncio.sleep(0)", "core.test_x")]) == []


@pytest.mark.parametrize(
    "text",
    [
        "@pytest.mark.skip\ndef test_a_b_c(): ...",
        "@pytest.mark.xfail(reason='x')\ndef test_a_b_c(): ...",
        "pytest.skip('no')",
        "from unittest import skipIf",
        "pytest.importorskip('x')",
    ],
)
def test_a_skipping_test_is_reported(text: str) -> None:
    assert len(skips([parse_module(text, "core.test_x")])) == 1


def test_a_test_without_assertion_or_sentence_is_reported() -> None:
    module = parse_module("def test_it():\n    run()", "core.test_x")
    assert len(without_assertion([module])) == len(terse_names([module])) == 1
