"""Every example that sets a state does so for fifty callers at the same time, and nothing of it is lost."""

from __future__ import annotations

import asyncio
import importlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from everyword import Everyword
from everyword.client import AgentClient
from tests.architecture.test_docs_examples import script_of
from tests.architecture.tree import ROOT, tracked_files
from tests.loaded_agents import loaded_agent
from tests.server.kit import serving
from tests.timeouts import PATIENCE

CALLERS, TABS = 50, 5

Call = Callable[[AgentClient, int], Awaitable[Any]]

HERE = {
    "docs/how-to/state-and-calls.md",
    "docs/how-to/destroy.md",
    "docs/how-to/handles.md",
    "docs/how-to/background-work.md",
    "docs/how-to/resumable-streams.md",
    "examples/resumable_stream_chat/app.py",
    "src/everyword/demo/agent.py",
}
"""What has a test below."""

ONLY_WORDS = {
    "docs/how-to/migrate-from-ai-chat-agent.md",
    "docs/decisions/0026-state-takes-effect-before-its-commit.md",
    "docs/decisions/0031-handles-call-agents-by-value.md",
    "docs/reference/agents.md",
    "docs/reference/everyword.md",
    "docs/reference/client.md",
}


def names_of(page: str) -> dict[str, Any]:
    """Return what the Python blocks of a page define; what they start is not started."""
    script = script_of((ROOT / page).read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "page"}
    exec(re.sub(r"^asyncio\.run\(.*$", "", script, flags=re.MULTILINE), names)
    return names


@asynccontextmanager
async def tabs_of(cls: type[Any]) -> AsyncIterator[list[AgentClient]]:
    app = Everyword([cls], store="memory:")
    app.grace = 0.0
    async with asyncio.timeout(PATIENCE), serving(app) as url, AsyncExitStack() as stack:
        clients = [AgentClient(url, agent=cls.kind, name="ann") for _ in range(TABS)]
        yield [await stack.enter_async_context(client) for client in clients]


async def call_all(tabs: list[AgentClient], method: str, *args: Callable[[int], Any]) -> list[Any]:
    calls = (tabs[each % TABS].call(method, *(arg(each) for arg in args)) for each in range(CALLERS))
    return await asyncio.gather(*calls)


def test_every_example_that_sets_a_state_is_tried() -> None:
    shown = {path for path in tracked_files() if path.suffix in {".md", ".py"}}
    folders = [
        ROOT / "docs",
        ROOT / "examples",
        ROOT / "src" / "everyword" / "demo",
        ROOT / "src" / "everyword" / "cli",
    ]
    kept = [path for path in shown if path == ROOT / "README.md" or any(each in path.parents for each in folders)]
    setting = [path for path in kept if re.search(r"(?:set|update)_state\(", path.read_text(encoding="utf-8"))]
    assert {str(path.relative_to(ROOT)) for path in setting} - ONLY_WORDS == HERE


async def test_the_shop_adds_up() -> None:
    page = names_of("docs/how-to/state-and-calls.md")
    async with tabs_of(page["Shop"]) as tabs:
        results = await call_all(tabs, "add", lambda each: 1)
        assert sorted(results) == list(range(2, CALLERS + 2)), "each caller is told what it made"
        for tab in tabs:
            await tab.call("add", 0)
            assert tab.state == {"item": "tea", "count": CALLERS + 1}


async def test_the_orders_of_code_outside_of_the_shop_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    await names_of("docs/how-to/state-and-calls.md")["order_all"]()
    assert capsys.readouterr().out.splitlines()[-1] == str(CALLERS + 1)


async def test_the_diary_is_written_by_all() -> None:
    diary = names_of("docs/how-to/destroy.md")["Diary"]
    async with Everyword([diary], store="memory:") as app:
        await asyncio.gather(*(app.get(diary, "ann").write("once more") for _ in range(CALLERS)))
        assert await app.get(diary, "ann").get_state() == {"entries": CALLERS}


async def test_a_shop_sells_each_item_once_and_counts_all() -> None:
    page = names_of("docs/how-to/handles.md")
    shop_class, item_class, error = page["Shop"], page["Item"], page["ChatError"]
    async with Everyword([shop_class], store="memory:") as app:
        shop = app.get(shop_class, "berlin")
        for each in range(CALLERS // 2):
            await shop.offer(item_class(name=f"item {each}", price=1))
        asked = (shop.sell(f"item {each // 2}") for each in range(CALLERS))
        results = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(isinstance(each, item_class) for each in results) == CALLERS // 2
        assert sum(isinstance(each, error) for each in results) == CALLERS // 2
        assert await shop.get_state() == {"sold": CALLERS // 2}


async def test_imports_at_the_same_time_all_end_and_say_so() -> None:
    importer = names_of("docs/how-to/background-work.md")["Importer"]
    async with Everyword([importer], store="memory:") as app:
        agent = await loaded_agent(app.get(importer, "ann"))
        runs = (agent.run_fiber("fetch", agent.fetch, fiber_id=f"f{each}") for each in range(CALLERS))
        assert await asyncio.gather(*runs) == [3] * CALLERS
        assert agent.state == {"done": 3}


@pytest.mark.parametrize("where", ["docs/how-to/resumable-streams.md", "examples.resumable_stream_chat.app"])
async def test_no_message_of_a_managed_stream_is_missing_in_the_state(
    where: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    if where.endswith(".md"):
        chat = names_of(where)["Chat"]
    else:
        module = importlib.import_module(where)
        monkeypatch.setattr(module, "PAUSE", 0)
        chat = module.StreamChat
    async with tabs_of(chat) as tabs:
        await call_all(tabs, "send_message", lambda each: f"message {each}")
        for tab in tabs:
            await _until(tab, lambda state: len(state["messages"]) == 2 * CALLERS and not state["activeStreamId"])
            asked = [each["content"] for each in tab.state["messages"] if each["role"] == "user"]
            assert sorted(asked) == sorted(f"message {each}" for each in range(CALLERS))
        if chat.kind == "stream-chat":
            await call_all(tabs, "clear_history")
            for tab in tabs:
                await _until(tab, lambda state: state == chat.initial_state)


async def _until(tab: AgentClient, fact: Callable[[Any], bool]) -> None:
    changed = asyncio.Event()
    forget = tab.on_state_changed(lambda state: changed.set())
    while tab.state is None or not fact(tab.state):
        await changed.wait()
        changed.clear()
    forget()


async def test_the_demo_counts_what_it_was_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    from everyword.demo.agent import Demo

    monkeypatch.setattr(Demo, "pause", 0)
    async with Everyword([Demo], store="memory:") as app:
        asked = [
            {"id": f"u{each}", "role": "user", "parts": [{"type": "text", "text": "Run into an error"}]}
            for each in range(CALLERS)
        ]
        await asyncio.gather(*(app.get(Demo, "ann").save_messages([each]) for each in asked))
        assert await app.get(Demo, "ann").get_state() == {"asked": CALLERS, "last": "Run into an error"}
