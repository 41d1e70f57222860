"""Failed turns look the same to every client: live, after a reload, after being away."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conversation import Conversation
from tests.browser.kit import assert_in_step
from tests.browser.stock_page import NETWORK, Tab

pytestmark = pytest.mark.browser

MASKED = "Something went wrong while answering. Please try again."
PARTIAL = "Half a "

# script, what is kept of the answer, what clients read
FAILURES: dict[str, tuple[list[Any], str, str]] = {
    "in-band": (
        [PARTIAL, {"gate": "mid"}, {"type": "error", "errorText": "the model is tired"}],
        PARTIAL,
        "the model is tired",
    ),
    "thrown": ([PARTIAL, {"gate": "mid"}, {"fail": "no more credit"}], PARTIAL, "no more credit"),
    "masked": ([PARTIAL, {"gate": "mid"}, {"crash": "secret=42"}], PARTIAL, MASKED),
    "in-band before the first word": ([{"gate": "mid"}, {"type": "error", "errorText": "not today"}], "", "not today"),
    "thrown before the first word": ([{"gate": "mid"}, {"fail": "not at all"}], "", "not at all"),
}
every_failure = pytest.mark.parametrize("failure", list(FAILURES))


def _begin(chat: Conversation, tab: Tab, failure: str) -> None:
    script, partial, _ = FAILURES[failure]
    tab.ask(script)
    chat.until_reached("mid")
    if partial:
        tab.until_answer(partial)


def _expect(chat: Conversation, tab: Tab, failure: str) -> None:
    _, partial, text = FAILURES[failure]
    tab.until("c?.status === 'error' && c.error?.message === arg", text)
    tab.until_answer(partial) if partial else tab.until("c.messages.length === 1")
    assert_in_step(chat, tab)


@pytest.mark.obligation("001-Q3", "003-32")
@every_failure
def test_a_failure_is_the_same_live_after_a_reload_and_in_a_new_tab(chat: Conversation, failure: str) -> None:
    tab = chat.tab()
    _begin(chat, tab, failure)
    chat.open("mid")
    _expect(chat, tab, failure)
    assert tab.heard("error") == [FAILURES[failure][2]]
    tab.reload()
    _expect(chat, tab, failure)
    _expect(chat, chat.tab(), failure)


@every_failure
def test_a_failure_while_the_page_was_away_is_there_when_it_is_back(chat: Conversation, failure: str) -> None:
    link = chat.link()
    tab = chat.tab(link=link)
    tab.expect_complaints(NETWORK)
    _begin(chat, tab, failure)
    link.cut()
    tab.until("window.agent.readyState !== 1")
    chat.open("mid")
    chat.until_result()
    link.restore()
    _expect(chat, tab, failure)


@every_failure
def test_a_failure_after_a_reload_mid_turn_is_the_same(chat: Conversation, failure: str) -> None:
    tab = chat.tab()
    _begin(chat, tab, failure)
    tab.reload()
    if FAILURES[failure][1]:
        tab.until_answer(FAILURES[failure][1], status="streaming")
    else:
        tab.until_received("cf_agent_stream_pending")
    chat.open("mid")
    _expect(chat, tab, failure)


@every_failure
def test_a_tab_that_watched_a_failure_keeps_the_partial_and_comes_to_rest(chat: Conversation, failure: str) -> None:
    tab, other = chat.tab(), chat.tab()
    _begin(chat, tab, failure)
    chat.open("mid")
    _expect(chat, tab, failure)
    other.until("c.messages.length === arg", len(tab.texts))
    other.until_ready()  # the stock client shows a stranger's error only after a reload
    assert_in_step(chat, other)
    other.reload()
    _expect(chat, other, failure)


@every_failure
def test_the_next_question_after_a_failure_is_answered_and_the_error_is_gone(chat: Conversation, failure: str) -> None:
    tab, other = chat.tab(), chat.tab()
    _begin(chat, tab, failure)
    chat.open("mid")
    _expect(chat, tab, failure)
    tab.ask("and now?")
    for each in (tab, other):
        each.until_answer("You said: and now?", status="ready")
        assert each.error is None
    tab.reload()
    tab.until_connected()
    tab.until_ready()
    assert tab.error is None
    assert_in_step(chat, tab, other)


def test_a_failure_told_to_a_client_that_does_not_resume_stays_out_of_a_reload(chat: Conversation) -> None:
    tab = chat.tab(resume=False)
    _begin(chat, tab, "thrown")
    chat.open("mid")
    _expect(chat, tab, "thrown")
    tab.reload()
    tab.until_answer(PARTIAL, status="ready")
    tab.until_connected()
    assert tab.error is None
    assert_in_step(chat, tab)


def test_a_failure_around_a_reload_is_never_lost(chat: Conversation) -> None:
    """Open the gate while the page is on its way back: it returns a few milliseconds around the end."""
    tab = chat.tab()
    _begin(chat, tab, "thrown")
    tab.reload(is_ready=False)
    chat.open("mid")
    _expect(chat, tab, "thrown")
