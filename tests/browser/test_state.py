"""State and callables with the stock hook `useAgent`: shared at once, kept over reloads, refused without a reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.browser.conversation import Conversation
from tests.browser.stock_page import Tab

pytestmark = pytest.mark.browser


@pytest.fixture
def desk(chat: Conversation) -> Conversation:
    return replace(chat, kind="desk")


def call(tab: Tab, method: str, *args: Any) -> Any:
    return tab.run(f"args => window.agent.call({method!r}, args)", list(args))


def until_count(tab: Tab, count: int) -> None:
    tab.until("window.agent.state?.count === arg", count)


def test_a_state_is_shared_by_all_tabs_whichever_sets_it(desk: Conversation) -> None:
    one, other = desk.tab(), desk.tab()
    for tab in (one, other):
        until_count(tab, 0)
    assert call(one, "add", 2) == 2
    until_count(one, 2)
    until_count(other, 2)
    other.run("() => window.agent.setState({ count: 9 })")
    until_count(one, 9)
    one.ask("count")
    for tab in (one, other):
        until_count(tab, 109)


def test_a_state_is_there_again_after_a_reload(desk: Conversation) -> None:
    tab = desk.tab()
    until_count(tab, 0)
    assert call(tab, "add", 5) == 5
    tab.reload()
    until_count(tab, 5)


def test_a_refused_state_reaches_no_other_tab(desk: Conversation) -> None:
    one, other = desk.tab(), desk.tab()
    until_count(other, 0)
    one.run("() => window.agent.setState('no object')")
    assert call(one, "add", 1) == 1
    until_count(other, 1)


def test_a_method_streams_and_an_error_says_what_it_may(desk: Conversation) -> None:
    tab = desk.tab()
    seen = tab.run(
        """() => new Promise((resolve, reject) => {
          const chunks = [];
          const stream = { onChunk: (c) => chunks.push(c), onDone: (r) => resolve([...chunks, r]), onError: reject };
          window.agent.call("countdown", [3], { stream });
        })"""
    )
    assert seen == [3, 2, 1, "lift-off"]
    assert call(tab, "countdown", 1) == "lift-off"
    failed = "(name) => window.agent.call(name, []).catch((error) => error.message)"
    assert tab.run(failed, "refuse") == "not today"
    assert tab.run(failed, "nobody") == "Method nobody does not exist"
