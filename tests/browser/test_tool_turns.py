"""Tools of the agent's own, and tools of the page, as the stock hook shows and answers them."""

from __future__ import annotations

from typing import Any

import pytest

from everyword.messages.repair_tool_calls import INTERRUPTED
from tests.browser.conversation import Conversation
from tests.browser.kit import assert_in_step, effects_of, tool_calls_of, until_hits, until_tool_call
from tests.browser.server_control import KillableServer
from tests.browser.stock_page import NETWORK, Tab

pytestmark = pytest.mark.browser

BERN = {"output": {"city": "Bern"}}


def call(name: str, number: int = 1, **given: Any) -> dict[str, Any]:
    return {"type": "tool-input-available", "toolCallId": f"call-{number}", "toolName": name, "input": given}


LOCATE = ["Let me see. ", call("locate", place="here"), {"then": ["You are in ", "Bern."]}]
KNOWN = "Let me see. You are in Bern."
SEARCH = ["Looking. ", call("search", query="x"), {"then": ["Three hits."]}]
REFUND = ["One moment. ", call("refund", amount=200), {"then": ["It is done."]}]


@pytest.fixture(autouse=True)
def tooled(request: pytest.FixtureRequest) -> None:
    """Every conversation of this file is with the agent that has tools."""
    name = "mortal" if "mortal" in request.fixturenames else "chat"
    request.getfixturevalue(name).kind = "tooled"


def asked_to_locate(chat: Conversation, **options: Any) -> Tab:
    """Return a tab whose answer waits for the page, and has come to rest."""
    tab = chat.tab(**options)
    tab.ask(LOCATE)
    until_tool_call(tab, "input-available")
    tab.until_ready()
    return tab


@pytest.mark.obligation("003-33", "003-56")
def test_a_tool_of_the_agent_shows_how_far_it_is_and_then_its_result_in_every_tab(chat: Conversation) -> None:
    tab, other = chat.tab(), chat.tab()
    tab.ask(SEARCH)
    for each in (tab, other):
        until_hits(each, 1)
    tab.reload()
    until_hits(tab, 1)
    assert tool_calls_of(tab.messages)[0]["preliminary"] is True
    chat.open("search")
    for each in (tab, other):
        each.until_answer("Looking. Three hits.")
        each.until_ready()
        assert each.heard("tool call") == [], "the page is not asked to run a tool of the agent's"
    assert_in_step(chat, tab, other)
    (part,) = tool_calls_of(chat.stored)
    assert (part["output"], part.get("preliminary", False)) == ({"query": "x", "hits": 3}, False)
    assert effects_of(chat) == ["search"]
    assert chat.calls[0]["tools"] == ["search", "refund", "locate"]


@pytest.mark.obligation("003-21", "003-34", "003-53")
def test_on_tool_call_is_called_once_for_a_tool_of_the_page_and_never_again(chat: Conversation) -> None:
    tab, other = chat.tab(answers={"locate": BERN}), chat.tab()
    tab.ask(LOCATE)
    for each in (tab, other):
        each.until_answer(KNOWN)
        each.until_ready()
    assert [heard["input"] for heard in tab.heard("tool call")] == [{"place": "here"}]
    assert_in_step(chat, tab, other)
    assert [made["continuation"] for made in chat.calls] == [False, True]
    tab.reload()
    tab.until_connected()
    assert_in_step(chat, tab)
    assert tab.heard("tool call") == []
    assert len(chat.calls) == 2


@pytest.mark.obligation("003-29", "003-56")
def test_a_tool_of_the_page_can_be_answered_from_the_other_tab_and_a_second_answer_counts_for_nothing(
    chat: Conversation,
) -> None:
    tab = asked_to_locate(chat)
    other = chat.tab()
    until_tool_call(other, "input-available")
    other.call("addToolOutput", {"toolCallId": "call-1", "toolName": "locate", **BERN})
    for each in (tab, other):
        each.until_answer(KNOWN)
        each.until_ready()
    assert_in_step(chat, tab, other)
    late = {"type": "cf_agent_tool_result", "toolCallId": "call-1", "toolName": "locate", "output": "Rome"}
    tab.run("frame => { window.agent.send(JSON.stringify(frame)); }", {**late, "autoContinue": True})
    tab.ask("And now?")
    tab.until_answer("You said: And now?")
    tab.until_ready()
    assert tool_calls_of(chat.stored)[0]["output"] == BERN["output"]
    assert len(chat.calls) == 3
    assert_in_step(chat, tab, other)


@pytest.mark.obligation("003-22")
def test_a_failed_tool_of_the_page_does_not_go_on_by_itself_but_with_the_next_question(chat: Conversation) -> None:
    tab = asked_to_locate(chat)
    failed = {"toolCallId": "call-1", "toolName": "locate", "state": "output-error", "errorText": "no signal"}
    tab.call("addToolOutput", failed)
    until_tool_call(tab, "output-error")
    tab.ask("And now?")
    tab.until_answer("You said: And now?")
    tab.until_ready()
    assert tool_calls_of(chat.stored)[0]["errorText"] == "no signal"
    assert [made["continuation"] for made in chat.calls] == [False, False]
    assert_in_step(chat, tab)


def test_without_auto_continuation_the_answer_waits_for_the_page_to_go_on(chat: Conversation) -> None:
    tab = asked_to_locate(chat, autoContinueAfterToolResult=False)
    tab.call("addToolOutput", {"toolCallId": "call-1", "toolName": "locate", **BERN})
    until_tool_call(tab, "output-available")
    tab.until_ready()
    tab.run("() => { window.chat.sendMessage(); }")
    tab.until("c.messages.at(-1).parts.at(-1).text?.endsWith('Bern.')")
    tab.until_ready()
    assert len(chat.calls) == 2
    assert_in_step(chat, tab)


def test_without_auto_continuation_an_answer_given_while_the_step_runs_does_not_go_on_either(
    chat: Conversation,
) -> None:
    tab = chat.tab(autoContinueAfterToolResult=False)
    tab.ask(
        [
            "Let me see. ",
            call("locate", place="here"),
            "Hm. ",
            {"gate": "mid"},
            "Well. ",
            {"then": ["You are in Bern."]},
        ]
    )
    until_tool_call(tab, "input-available")
    tab.until_ends("Hm. ")
    tab.call("addToolOutput", {"toolCallId": "call-1", "toolName": "locate", **BERN})
    tab.until_chunk("tool-output-available")
    chat.open("mid")
    tab.until_ready()
    tab.until_ends("Well. ")
    assert chat.until_result()["status"] == "completed"
    assert_in_step(chat, tab)
    tab.run("() => { window.chat.sendMessage(); }")
    tab.until_ends("You are in Bern.")
    tab.until_ready()
    assert len(chat.calls) == 2
    assert_in_step(chat, tab)


def test_a_tool_of_the_page_can_be_answered_after_a_reload_and_a_restart_of_the_server(
    mortal: Conversation, killable_server: KillableServer
) -> None:
    tab = asked_to_locate(mortal)
    tab.expect_complaints(NETWORK)
    killable_server.restart()
    tab.reload()
    until_tool_call(tab, "input-available")
    tab.until_connected()
    tab.call("addToolOutput", {"toolCallId": "call-1", "toolName": "locate", **BERN})
    tab.until_answer(KNOWN)
    tab.until_ready()
    assert_in_step(mortal, tab)
    assert len(tab.texts) == 2


def test_a_page_cannot_answer_a_tool_of_the_agent_or_an_unknown_call(
    chat: Conversation,
) -> None:
    tab, other = chat.tab(), chat.tab()
    tab.ask(REFUND)
    for each in (tab, other):
        until_tool_call(each, "approval-requested")
        each.until_ready()
    forged = {"type": "cf_agent_tool_result", "toolName": "refund", "output": "forged", "autoContinue": True}
    for number in (1, 99):
        frame = {**forged, "toolCallId": f"call-{number}"}
        tab.run("frame => { window.agent.send(JSON.stringify(frame)); }", frame)
    tab.call("addToolApprovalResponse", {"id": "approve-call-1", "approved": True})
    for each in (tab, other):
        each.until_answer("One moment. It is done.")
        each.until_ready()
    assert tool_calls_of(chat.stored)[0]["output"] == "refunded 200"
    assert effects_of(chat) == ["refund"]
    assert [made["continuation"] for made in chat.calls] == [False, True]
    assert_in_step(chat, tab, other)


def test_a_search_that_its_process_died_in_is_an_error_that_the_answer_goes_on_from(
    mortal: Conversation, killable_server: KillableServer
) -> None:
    tab, other = mortal.tab(), mortal.tab()
    for each in (tab, other):
        each.expect_complaints(NETWORK)
    tab.ask(SEARCH)
    for each in (tab, other):
        until_hits(each, 1)
    killable_server.restart()
    for each in (tab, other):
        each.until_answer("Looking. Three hits.")
        each.until_ready()
        (part,) = tool_calls_of(each.messages)
        assert (part["state"], part["errorText"]) == ("output-error", INTERRUPTED)
    assert_in_step(mortal, tab, other)
    assert effects_of(mortal) == [], "the new process has not run it again"
