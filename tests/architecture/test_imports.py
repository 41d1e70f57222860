"""The layers point inward, the pure ones stay pure, and only the actor makes events visible."""

from __future__ import annotations

import ast
from collections.abc import Iterable

import pytest

from tests.architecture.tree import Module, parse_module, read_source

NOUNS = {"ids", "errors", "events"}

# What each layer may import besides itself. A dotted entry means that module or package only. A package inside a layer
# that has a row of its own follows that row: it may not import the rest of the layer around it.
ALLOWED: dict[str, set[str]] = {
    "ids": set(),
    "errors": set(),
    "events": {"ids", "errors"},
    "cron": {"ids", "errors"},
    "principals": NOUNS,
    "extras": {"errors"},
    "traces": set(),
    "trace_context": set(),
    "search_words": {"errors"},
    "rows": NOUNS,
    "messages": NOUNS,
    "codec": NOUNS | {"messages"},
    "core": NOUNS | {"rows", "search_words", "messages", "codec"},
    "attachments": NOUNS | {"extras"},
    "wire": NOUNS | {"messages", "codec", "core.replay"},
    "transcripts": NOUNS | {"rows", "messages", "core.record", "attachments.media_types"},
    "log": NOUNS | {"rows", "search_words"},
    "runtime": NOUNS
    | {
        "principals",
        "cron",
        "traces",
        "trace_context",
        "rows",
        "search_words",
        "core",
        "codec",
        "messages",
        "attachments",
        "log.base",
        "log.erasing",
        "log.features",
        "log.lists",
        "log.nodes",
        "log.receipt",
    },
    "models": NOUNS | {"extras", "messages", "codec"},
    "agents": NOUNS
    | {"principals", "cron", "messages", "models.base", "transcripts"}
    | {"runtime.api", "runtime.agent_runtime", "runtime.method_calls"},
    "observe": NOUNS | {"trace_context", "extras", "messages", "runtime.api", "log.base", "log.receipt"},
    "cluster": {"ids", "errors"},
    # Where core and wire, which share no more than the replay of a turn, meet.
    "server": NOUNS
    | {
        "principals",
        "observe",
        "wire",
        "runtime",
        "agents",
        "core",
        "codec",
        "messages",
        "rows",
        "transcripts",
        "cluster",
        "attachments",
        "log.base",
        "log.nodes",
    },
    "fastapi": NOUNS | {"principals", "server.permissions"},
    "client": NOUNS | {"extras", "messages", "client.protocol"},
    "client.protocol": NOUNS | {"codec", "messages"},
    "web": NOUNS,
}

# Where everything is put together: may import any layer, but nothing may import them.
ROOTS = {"__init__", "__main__", "cli", "demo", "testing"}

# module → layer it may reach although the table says no, with the reason.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("agents.think.model", "models"): "asks Pydantic AI's models through the adapters that are there",
    (
        "agents.streams.resumable_stream",
        "wire",
    ): "its replay verbs send frames, and frames are built in one place (I-4)",
    ("log.views", "messages"): "shows a message's text and a managed stream's chunks as rows, folded as everybody does",
    ("server.stores", "log"): "turns a store's address into a store: somebody has to know them all",
    ("server.stores", "extras"): "says which extra a store needs",
    ("server.webhooks", "extras"): "says which extra webhooks need",
}

PURE = {
    *("ids", "errors", "events", "search_words", "rows", "messages", "codec", "core", "wire", "transcripts"),
    "client.protocol",
}
IMPURE = {
    *("asyncio", "anyio", "concurrent", "multiprocessing", "threading", "queue", "signal", "subprocess"),
    *("time", "random", "secrets", "uuid", "logging"),
    *("os", "pathlib", "shutil", "tempfile", "sqlite3"),
    *("http", "httpx", "selectors", "socket", "ssl", "starlette", "uvicorn", "uvloop", "websockets"),
}
IMPURE_CALLS = {"open", "print", "input"}
IMPURE_METHODS = {"now", "today", "utcnow"}

PUBLISHERS = {"runtime.actor"}


def against_the_direction(modules: Iterable[Module]) -> list[str]:
    found = []
    for module in modules:
        if module.top in ROOTS:
            continue
        if module.top not in ALLOWED:
            found.append(f"{module.name}: unknown layer {module.top!r}; give it a line in ALLOWED")
            continue
        for target, line in module.imports():
            if not _is_ours(target):
                continue
            inner = target.removeprefix("everyword").removeprefix(".") or "__init__"
            if not _may_import(module, inner):
                found.append(f"{module.name}:{line} may not import {inner}")
    return found


def _is_ours(target: str) -> bool:
    return target == "everyword" or target.startswith("everyword.")


def _layer_of(name: str) -> str:
    """Return the innermost package around a dotted name that has a row in ALLOWED, else its first part."""
    rows = [row for row in ALLOWED if name == row or name.startswith(f"{row}.")]
    return max(rows, key=len, default=name.partition(".")[0])


def _may_import(module: Module, inner: str) -> bool:
    layer = _layer_of(module.name)
    if _layer_of(inner) == layer or (module.name, inner.partition(".")[0]) in EXCEPTIONS:
        return True
    return any(inner == entry or inner.startswith(f"{entry}.") for entry in ALLOWED[layer])


def impurities(modules: Iterable[Module]) -> list[str]:
    found = []
    for module in modules:
        if _layer_of(module.name) not in PURE:
            continue
        for target, line in module.imports():
            if target.partition(".")[0] in IMPURE:
                found.append(f"{module.name}:{line} must stay pure, but imports {target}")
        for node in module.nodes():
            match node:
                case ast.Call(func=ast.Name(id=name)) if name in IMPURE_CALLS:
                    found.append(f"{module.name}:{node.lineno} must stay pure, but calls {name}()")
                case ast.Call(func=ast.Attribute(value=ast.Name(id="datetime" | "date"), attr=name)) if (
                    name in IMPURE_METHODS
                ):
                    found.append(f"{module.name}:{node.lineno} must stay pure, but reads the clock")
                case ast.AsyncFunctionDef() | ast.Await():
                    found.append(f"{module.name}:{node.lineno} must stay pure, but is async")
    return found


def forbidden_publishers(modules: Iterable[Module]) -> list[str]:
    """Find uses of a `publish` method outside the actor; defining one is no use of it."""
    return [
        f"{module.name}:{node.lineno} may not publish; only {', '.join(sorted(PUBLISHERS))} may"
        for module in modules
        if module.name not in PUBLISHERS and module.top != "testing"
        for node in module.nodes()
        if isinstance(node, ast.Attribute) and node.attr == "publish"
    ]


def test_imports_point_inward() -> None:
    assert against_the_direction(read_source()) == []


def test_pure_layers_know_no_clock_no_chance_and_no_storage() -> None:
    modules = read_source()
    assert {_layer_of(module.name) for module in modules} >= PURE, "a pure layer was not looked at"
    assert impurities(modules) == []


def test_only_the_actor_makes_events_visible() -> None:
    assert forbidden_publishers(read_source()) == []


def test_every_exception_to_the_directions_is_still_needed() -> None:
    used = {
        (module.name, target.split(".")[1])
        for module in read_source()
        for target, _ in module.imports()
        if target.startswith("everyword.")
    }
    assert {key: reason for key, reason in EXCEPTIONS.items() if key not in used} == {}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("core.decide", "from everyword.wire import frames"),
        ("core.decide", "from ..wire.frames import Frame"),
        ("core.decide", "from .. import runtime"),
        ("core.decide", "import everyword.log.base"),
        ("core.decide", "def f():\n    from everyword.server import app"),
        (
            "wire.server",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from everyword.core import state",
        ),
        ("runtime.actor", "from everyword.log import memory"),
        ("runtime.actor", "from ..log.sqlite.store import SqliteLog"),
        ("runtime.actor", "from everyword import log"),
        ("agents.chat", "from everyword.runtime.actor import Actor"),
        ("agents.chat", "from everyword.models import openai"),
        ("events", "from .messages.message import UIMessage"),
        ("messages.fold", "from everyword import UIMessage"),
        ("server.app", "from everyword.testing import ManualClock"),
        ("client.protocol.chat", "from ..connection import Connection"),
        ("client.chat", "from ..wire.frames import Frame"),
        ("cluster.link", "from ..server.socket_transport import FRAMES"),
        ("newlayer.thing", "x = 1"),
    ],
)
def test_an_import_against_the_direction_is_reported(name: str, text: str) -> None:
    assert len(against_the_direction([parse_module(text, name)])) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("core.decide", "from ..events import Event\nfrom .state import State\nfrom ..codec import compact"),
        ("runtime.actor", "from ..log.base import LogStore\nfrom everyword.log import base"),
        ("agents.chat", "from everyword.runtime.api import Runtime\nfrom ..models.base import Model"),
        ("log.sqlite.store", "from ..base import LogStore\nfrom ...rows import Row"),
        ("client.chat", "from .connection import Connection\nfrom .protocol.chat import ChatProtocol"),
        ("testing.kit", "from everyword.server import app\nfrom everyword.core import decide"),
    ],
)
def test_an_import_along_the_direction_is_accepted(name: str, text: str) -> None:
    assert against_the_direction([parse_module(text, name)]) == []


def test_relative_imports_of_a_package_resolve_from_the_package_itself() -> None:
    package = parse_module("from .decide import decide\nfrom ..wire import frames", "core", is_package=True)
    assert [target for target, _ in package.imports()] == [
        "everyword.core.decide.decide",
        "everyword.wire.frames",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "import asyncio",
        "from time import monotonic",
        "import sqlite3 as s",
        "from datetime import datetime\nx = datetime.now()",
        "print('hello')",
        "async def f() -> None: ...",
    ],
)
def test_an_impure_line_in_a_pure_layer_is_reported(text: str) -> None:
    for pure in ("core.decide", "client.protocol.chat"):
        assert len(impurities([parse_module(text, pure)])) == 1
    for other in ("runtime.actor", "client.connection"):
        assert impurities([parse_module(text, other)]) == []


def test_publishing_beside_the_actor_is_reported() -> None:
    text = "def f(tail, rows):\n    tail.publish(rows)"
    assert len(forbidden_publishers([parse_module(text, "runtime.subscription")])) == 1
    assert forbidden_publishers([parse_module(text, "runtime.actor")]) == []
