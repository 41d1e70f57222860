"""Turns that the agent starts by itself, with the stock hooks: seen live by every tab, a late one, and after a kill."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.browser.conversation import Conversation
from tests.browser.kit import HALF, TALK, WHOLE
from tests.browser.server_control import KillableServer
from tests.browser.stock_page import NETWORK, Tab

pytestmark = pytest.mark.browser


@pytest.fixture
def driven(chat: Conversation) -> Conversation:
    return replace(chat, kind="driven", tabs=chat.tabs)


@pytest.fixture
def mortal_driven(mortal: Conversation) -> Conversation:
    return replace(mortal, kind="driven", tabs=mortal.tabs)


def call(tab: Tab, method: str, *args: Any) -> None:
    """Call a method without waiting for its result."""
    tab.run(f"args => {{ window.called = window.agent.call({method!r}, args).catch(() => null); }}", list(args))


def deliver(chat: Conversation, script: Any) -> None:
    """Be a webhook."""
    url = f"http://127.0.0.1:{chat.server.port}/agents/{chat.kind}/{chat.name}/hook"
    assert httpx.post(url, json=script, trust_env=False).status_code == 202


def assert_alike(chat: Conversation, *tabs: Tab) -> None:
    """Check that all tabs show the stored conversation: one question, one whole answer."""
    for tab in tabs:
        tab.until_answer(WHOLE)
        tab.until_ready()
    stored = [message["id"] for message in chat.stored]
    assert len(stored) == 2
    for tab in tabs:
        assert tab.ids == stored
        assert tab.error is None


@pytest.mark.parametrize("method", ["play_now", "play_soon", "play_later"])
def test_a_turn_of_the_agents_own_is_seen_live_by_every_tab_and_a_late_one(driven: Conversation, method: str) -> None:
    one, other = driven.tab(), driven.tab()
    call(one, method, TALK)
    for tab in (one, other):
        tab.until_answer(HALF)
    late = driven.tab()
    late.until_answer(HALF)
    driven.open("mid")
    assert_alike(driven, one, other, late)
    if method == "play_now":
        assert one.run("() => window.called") == "played"


def test_a_webhook_starts_a_turn_before_everybodys_eyes(driven: Conversation) -> None:
    one, other = driven.tab(), driven.tab()
    deliver(driven, TALK)
    for tab in (one, other):
        tab.until_answer(HALF)
    one.reload()
    one.until_answer(HALF)
    driven.open("mid")
    assert_alike(driven, one, other)


@pytest.mark.crash
@pytest.mark.parametrize("method", ["play_soon", "play_later"])
def test_a_turn_of_the_agents_own_survives_a_kill_and_is_asked_once(
    mortal_driven: Conversation, killable_server: KillableServer, method: str
) -> None:
    one, other = mortal_driven.tab(), mortal_driven.tab()
    for tab in (one, other):
        tab.expect_complaints(NETWORK)
    call(one, method, TALK)
    for tab in (one, other):
        tab.until_answer(HALF)
    killable_server.restart()
    late = mortal_driven.tab()
    mortal_driven.open("mid")
    assert_alike(mortal_driven, one, other, late)


@pytest.mark.crash
def test_a_fiber_goes_on_after_a_kill_from_its_checkpoint(
    mortal_driven: Conversation, killable_server: KillableServer
) -> None:
    tab = mortal_driven.tab()
    tab.expect_complaints(NETWORK)
    call(tab, "count_to", 6)
    tab.until("window.agent.state?.count === 3")
    killable_server.restart()
    mortal_driven.open("count")
    tab.until("window.agent.state?.count === 6 && window.agent.state.attempts === 2")


def test_a_page_of_a_destroyed_agent_comes_back_to_an_empty_one(driven: Conversation) -> None:
    one, other = driven.tab(), driven.tab()
    call(one, "play_now", ["gone soon"])
    for tab in (one, other):
        tab.until_answer("gone soon")
        tab.until_ready()
    call(one, "vanish")
    assert one.run("() => window.called") == "vanished"
    for tab in (one, other):
        tab.until("c.messages.length === 0")
        tab.until_connected()
    call(other, "play_now", ["new here"])
    for tab in (one, other):
        tab.until_answer("new here")
    assert len(driven.stored) == 2
