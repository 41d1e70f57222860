"""Calls that wait for a person's word, as the stock hook shows and answers them: given, refused, early, late, twice."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conversation import Conversation
from tests.browser.kit import assert_in_step
from tests.browser.server_control import KillableServer
from tests.browser.stock_page import NETWORK, Tab

pytestmark = pytest.mark.browser

REQUEST = {"type": "tool-input-available", "toolCallId": "call-1", "toolName": "refund"}
DEAR = ["One moment. ", {**REQUEST, "input": {"amount": 200}}]
REFUND = [*DEAR, {"then": ["It is ", "done."]}]
DONE = "One moment. It is done."


@pytest.fixture(autouse=True)
def tooled(request: pytest.FixtureRequest) -> None:
    """Every conversation of this file is with the agent that has tools."""
    name = "mortal" if "mortal" in request.fixturenames else "chat"
    request.getfixturevalue(name).kind = "tooled"


def until_asked(tab: Tab) -> None:
    tab.until("c?.messages.some(m => m.parts.some(p => p.state === 'approval-requested'))")


def calls_of(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part for message in messages for part in message["parts"] if part["type"] == "tool-refund"]


def call_of(messages: list[dict[str, Any]]) -> dict[str, Any]:
    (part,) = calls_of(messages)
    return part


def say(tab: Tab, approved: bool, **more: Any) -> None:
    tab.call("addToolApprovalResponse", {"id": "approve-call-1", "approved": approved, **more})


def effects(chat: Conversation) -> list[str]:
    return [noted["effect"] for noted in chat.server.book(f"{chat.name}/effects")["calls"]]


def asked(chat: Conversation, script: list[Any]) -> tuple[Tab, Tab]:
    """Return two tabs that show a call which waits for a word, and have come to rest."""
    tab, other = chat.tab(), chat.tab()
    tab.ask(script)
    for each in (tab, other):
        until_asked(each)
        each.until_ready()
    return tab, other


def settled(chat: Conversation, *tabs: Tab, text: str) -> None:
    """Wait for the whole answer in every tab, and expect that it stands in one message, as stored."""
    for tab in tabs:
        tab.until_answer(text)
        tab.until_ready()
        assert len(tab.texts) == 2
    assert_in_step(chat, *tabs)


@pytest.mark.obligation("003-30", "003-54")
def test_an_approved_call_is_run_once_and_its_answer_streams_into_the_page(chat: Conversation) -> None:
    tab, other = asked(chat, [*DEAR, {"then": ["It is ", {"gate": "more"}, "done."]}])
    assert effects(chat) == [], "nothing happens before somebody agrees"
    say(tab, True)
    tab.until_ends("It is ")
    other.until_ends("It is ")
    chat.open("more")
    settled(chat, tab, other, text=DONE)
    assert (call_of(chat.stored)["output"], effects(chat)) == ("refunded 200", ["refund"])
    assert tab.error is None
    say(tab, False)
    tab.reload()
    tab.until_connected()
    assert_in_step(chat, tab)
    assert effects(chat) == ["refund"]


def test_a_page_that_reloads_while_an_approved_call_is_answered_goes_on_with_it(chat: Conversation) -> None:
    tab, other = asked(chat, [*DEAR, {"then": ["It is ", {"gate": "more"}, "done."]}])
    say(tab, True)
    for each in (tab, other):
        each.until_ends("It is ")
        each.reload()
    tab.until_ends("It is ")
    chat.open("more")
    settled(chat, tab, other, text=DONE)
    assert effects(chat) == ["refund"]


@pytest.mark.obligation("003-30")
def test_a_refused_call_is_never_run_and_the_model_is_told(chat: Conversation) -> None:
    tab, other = asked(chat, [*DEAR, {"then": ["As you ", "wish."]}])
    say(tab, False, reason="too much")
    settled(chat, tab, other, text="One moment. As you wish.")
    assert (call_of(chat.stored)["state"], effects(chat)) == ("output-denied", [])
    assert [made["continuation"] for made in chat.calls] == [False, True]


def test_a_refused_call_reads_as_refused_while_its_answer_goes_on(chat: Conversation) -> None:
    tab, other = asked(chat, [*DEAR, {"then": ["As you ", {"gate": "more"}, "wish."]}])
    say(tab, False)
    for each in (tab, other):
        each.until_ends("As you ")
        each.until_still()
        assert {part["state"] for part in calls_of(each.messages)} == {"output-denied"}
    chat.open("more")
    settled(chat, tab, other, text="One moment. As you wish.")
    states = tab.seen("states")["call-1"]
    assert "approval-responded" not in states[states.index("output-denied") :], states


@pytest.mark.obligation("003-35")
def test_whether_a_call_needs_a_word_depends_on_its_input(chat: Conversation) -> None:
    tab = chat.tab()
    tab.ask(["One moment. ", {**REQUEST, "input": {"amount": 5}}, {"then": ["It is done."]}])
    settled(chat, tab, text=DONE)
    assert (call_of(chat.stored)["output"], effects(chat)) == ("refunded 5", ["refund"])
    assert len(chat.calls) == 1, "nobody was asked, so the turn went on"


@pytest.mark.parametrize("approved", [True, False], ids=["approve", "deny"])
def test_a_word_given_while_the_answer_still_streams_counts_once(chat: Conversation, approved: bool) -> None:
    ending = "It is done." if approved else "As you wish."
    tab, other = chat.tab(), chat.tab()
    tab.ask([*DEAR, "May I? ", {"gate": "mid"}, "Please. ", {"then": [ending]}])
    for each in (tab, other):
        until_asked(each)
    tab.until_ends("May I? ")
    say(tab, approved)
    tab.until_received("cf_agent_message_updated")
    chat.open("mid")
    settled(chat, tab, other, text=f"One moment. May I? Please. {ending}")
    assert effects(chat) == (["refund"] if approved else [])


@pytest.mark.obligation("003-56")
def test_two_tabs_that_agree_at_the_same_moment_cause_one_refund(chat: Conversation) -> None:
    tab, other = asked(chat, REFUND)
    for each in (tab, other):
        say(each, True)
    settled(chat, tab, other, text=DONE)
    assert effects(chat) == ["refund"]
    assert len(chat.calls) == 2


def test_a_question_to_a_person_outlives_the_server_and_is_answered_after_a_reload(
    mortal: Conversation, killable_server: KillableServer
) -> None:
    tab, other = asked(mortal, REFUND)
    for each in (tab, other):
        each.expect_complaints(NETWORK)
    killable_server.restart()
    tab.reload()
    until_asked(tab)
    tab.until_connected()
    other.until_connected()
    say(tab, True)
    settled(mortal, tab, other, text=DONE)
    assert effects(mortal) == ["refund"]


# -- approved when the conversation has gone on ----------------------------------------------------------------------

SECOND = ["Some", {"gate": "second"}, "thing else."]


def overtaken(chat: Conversation) -> tuple[Tab, Tab]:
    """Return two tabs that show a call which waits for a word, and below it half of the next answer."""
    tab, other = asked(chat, REFUND)
    tab.ask(SECOND)
    for each in (tab, other):
        each.until_ends("Some")
    return tab, other


def until_refunded(*tabs: Tab) -> None:
    for tab in tabs:
        tab.until("c.messages.some(m => m.parts.some(p => p.output === 'refunded 200'))")


@pytest.mark.parametrize("when", ["while it streams", "when it has ended"])
def test_a_call_approved_behind_a_later_answer_is_run_where_it_stands(chat: Conversation, when: str) -> None:
    tab, other = overtaken(chat)
    if when == "when it has ended":
        chat.open("second")
        for each in (tab, other):
            each.until_answer("Something else.")
            each.until_ready()
    before = {each: (each.ids, len(each.seen("orders"))) for each in (tab, other)}
    say(other, True)
    until_refunded(tab, other)
    chat.open("second")
    for each in (tab, other):
        each.until_answer("Something else.")
        each.until_ready()
        each.until_still()
        ids, orders = before[each]
        assert (each.ids, each.seen("orders")[orders:]) == (ids, []), "nothing jumped, and nothing was there twice"
    assert_in_step(chat, tab, other)
    assert effects(chat) == ["refund"]
    tab.ask(["What ", "now?"])
    tab.until_answer("What now?")
    tab.until_ready()
    assert (effects(chat), len(chat.calls)) == (["refund"], 3)


def test_a_call_refused_behind_a_later_answer_says_so_and_nothing_moves(chat: Conversation) -> None:
    tab, other = overtaken(chat)
    chat.open("second")
    for each in (tab, other):
        each.until_answer("Something else.")
        each.until_ready()
    orders = [len(each.seen("orders")) for each in (tab, other)]
    say(tab, False)
    for each, count in zip((tab, other), orders, strict=True):
        each.until("c.messages.some(m => m.parts.some(p => p.state === 'output-denied'))")
        each.until_ready()
        assert each.seen("orders")[count:] == []
    assert_in_step(chat, tab, other)
    assert (effects(chat), len(chat.calls)) == ([], 2)


def test_a_question_right_behind_an_approval_is_answered_after_the_call_has_run(chat: Conversation) -> None:
    tab, other = asked(chat, REFUND)
    tab.run(
        "([text]) => { window.chat.addToolApprovalResponse({id: 'approve-call-1', approved: true});"
        " window.chat.sendMessage({text}); }",
        ['["What ", "now?"]'],
    )
    for each in (tab, other):
        each.until_answer("What now?")
        each.until_ready()
        each.until_still()
    assert_in_step(chat, tab, other)
    assert tab.texts[1::2] == [DONE, "What now?"]
    assert effects(chat) == ["refund"]


def test_a_late_approval_outlives_the_server(mortal: Conversation, killable_server: KillableServer) -> None:
    tab, other = overtaken(mortal)
    mortal.open("second")
    for each in (tab, other):
        each.until_answer("Something else.")
        each.until_ready()
        each.expect_complaints(NETWORK)
    killable_server.restart()
    for each in (tab, other):
        each.reload()
        until_asked(each)
        each.until_connected()
    say(tab, True)
    until_refunded(tab, other)
    assert_in_step(mortal, tab, other)
    assert effects(mortal) == ["refund"]
