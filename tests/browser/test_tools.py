"""Tools: on the server, in the page, and with a person in between."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.conversation import Conversation
from tests.browser.kit import assert_in_step
from tests.browser.stock_page import NETWORK, Tab

pytestmark = pytest.mark.browser


def call(name: str, number: int = 1, **given: Any) -> dict[str, Any]:
    return {"type": "tool-input-available", "toolCallId": f"call-{number}", "toolName": name, "input": given}


def request_for(number: int = 1) -> dict[str, Any]:
    return {"type": "tool-approval-request", "approvalId": f"approval-{number}", "toolCallId": f"call-{number}"}


def output(value: Any, number: int = 1) -> dict[str, Any]:
    return {"type": "tool-output-available", "toolCallId": f"call-{number}", "output": value}


def tool_parts(tab: Tab) -> list[dict[str, Any]]:
    return [part for message in tab.messages for part in message["parts"] if part["type"].startswith("tool-")]


def until_tool(tab: Tab, state: str) -> None:
    tab.until("c?.messages.some(m => m.parts.some(p => p.type.startsWith('tool-') && p.state === arg))", state)


LOCATE = ["Let me see. ", call("locate", place="here"), {"then": ["You are in ", "Bern."]}]
REFUND = ["One moment. ", call("refund", amount=200), request_for(), {"then": [output("refunded"), "It is done."]}]
BERN = {"output": {"city": "Bern"}}


@pytest.mark.obligation("003-33")
def test_a_tool_on_the_server_is_shown_with_its_output_in_both_tabs(chat: Conversation) -> None:
    tab, other = chat.tab(), chat.tab()
    tab.ask(["Looking. ", call("search", query="x"), {"gate": "mid"}, output({"hits": 3}), "Three hits."])
    for each in (tab, other):
        until_tool(each, "input-available")
    tab.reload()
    until_tool(tab, "input-available")
    chat.open("mid")
    for each in (tab, other):
        each.until_answer("Looking. Three hits.")
        each.until_ready()
        assert tool_parts(each)[0]["output"] == {"hits": 3}
    assert_in_step(chat, tab, other)


@pytest.mark.obligation("003-21", "003-22", "003-34", "003-53")
def test_on_tool_call_answers_a_client_tool_and_the_answer_goes_on_by_itself(chat: Conversation) -> None:
    tab, other = chat.tab(answers={"locate": BERN}), chat.tab()
    tab.ask(LOCATE)
    for each in (tab, other):
        each.until_answer("Let me see. You are in Bern.")
        each.until_ready()
    assert_in_step(chat, tab, other)
    assert len(tab.texts) == 2
    assert [heard["toolName"] for heard in tab.heard("tool call")] == ["locate"]
    assert tool_parts(tab)[0]["output"] == {"city": "Bern"}
    assert [made["continuation"] for made in chat.calls] == [False, True]
    tab.reload()
    tab.until_connected()
    assert_in_step(chat, tab)


def test_a_client_tool_answered_by_both_tabs_is_continued_once(chat: Conversation) -> None:
    tab, other = chat.tab(answers={"locate": BERN}), chat.tab(answers={"locate": BERN})
    tab.ask(LOCATE)
    for each in (tab, other):
        each.until_answer("Let me see. You are in Bern.")
        each.until_ready()
    assert_in_step(chat, tab, other)
    assert len(chat.calls) == 2


def test_tools_that_the_page_offers_reach_the_agent_and_are_run(chat: Conversation) -> None:
    tab = chat.tab(tools={"locate": {"city": "Bern"}}, answers={"locate": BERN})
    tab.ask(LOCATE)
    tab.until_answer("Let me see. You are in Bern.")
    tab.until_ready()
    assert [tool["name"] for tool in chat.calls[0]["tools"]] == ["locate"]
    assert [tool["name"] for tool in chat.calls[1]["tools"]] == ["locate"]
    assert_in_step(chat, tab)


@pytest.mark.obligation("003-29")
def test_add_tool_output_settles_a_client_tool_from_a_button(chat: Conversation) -> None:
    tab, other = chat.tab(), chat.tab()
    tab.ask(LOCATE)
    until_tool(tab, "input-available")
    tab.until_ready()
    tab.call("addToolOutput", {"toolCallId": "call-1", "toolName": "locate", **BERN})
    for each in (tab, other):
        each.until_answer("Let me see. You are in Bern.")
        each.until_ready()
    assert_in_step(chat, tab, other)
    assert len(chat.calls) == 2


@pytest.mark.obligation("003-22")
def test_without_auto_continuation_the_page_goes_on_itself(chat: Conversation) -> None:
    tab = chat.tab(autoContinueAfterToolResult=False)
    tab.ask(LOCATE)
    until_tool(tab, "input-available")
    tab.until_ready()
    tab.call("addToolOutput", {"toolCallId": "call-1", "toolName": "locate", **BERN})
    until_tool(tab, "output-available")
    tab.until_ready()
    assert len(chat.calls) == 1
    tab.run("() => { window.chat.sendMessage(); }")
    tab.until("c.messages.at(-1).parts.at(-1).text?.endsWith('Bern.')")
    tab.until_ready()
    assert len(chat.calls) == 2
    assert_in_step(chat, tab)


def test_a_client_tool_that_fails_is_shown_as_failed_everywhere(chat: Conversation) -> None:
    tab, other = chat.tab(), chat.tab()
    tab.ask(LOCATE)
    until_tool(tab, "input-available")
    tab.until_ready()
    failed = {"toolCallId": "call-1", "toolName": "locate", "state": "output-error", "errorText": "no signal"}
    tab.call("addToolOutput", failed)
    for each in (tab, other):
        until_tool(each, "output-error")
        assert tool_parts(each)[0]["errorText"] == "no signal"
    assert len(chat.calls) == 1
    tab.reload()
    tab.until_connected()
    assert_in_step(chat, tab, other)


def test_a_client_tool_can_be_answered_after_a_reload(chat: Conversation) -> None:
    tab = chat.tab()
    tab.ask(LOCATE)
    until_tool(tab, "input-available")
    tab.until_ready()
    tab.reload()
    until_tool(tab, "input-available")
    tab.until_connected()
    tab.call("addToolOutput", {"toolCallId": "call-1", "toolName": "locate", **BERN})
    tab.until_answer("Let me see. You are in Bern.")
    tab.until_ready()
    assert_in_step(chat, tab)
    assert len(tab.texts) == 2


def test_a_reload_during_a_continuation_resumes_it_in_the_same_message(chat: Conversation) -> None:
    tab, other = chat.tab(answers={"locate": BERN}), chat.tab()
    tab.ask([*LOCATE[:2], {"then": ["You are ", {"gate": "more"}, "in Bern."]}])
    tab.until_ends("You are ")
    other.until_ends("You are ")
    tab.reload()
    tab.until_ends("You are ")
    chat.open("more")
    for each in (tab, other):
        each.until_answer("Let me see. You are in Bern.")
        each.until_ready()
    assert len(tab.texts) == 2
    assert_in_step(chat, tab, other)


def test_a_network_cut_during_a_continuation_is_made_good(chat: Conversation) -> None:
    link = chat.link()
    tab = chat.tab(link=link, answers={"locate": BERN})
    tab.expect_complaints(NETWORK)
    tab.ask([*LOCATE[:2], {"then": ["You are ", {"gate": "more"}, "in Bern."]}])
    tab.until_ends("You are ")
    tab.lose(link)
    chat.open("more")
    tab.until_answer("Let me see. You are in Bern.")
    tab.until_ready()
    assert_in_step(chat, tab)


def test_two_client_tools_in_one_answer_go_on_once_both_are_settled(chat: Conversation) -> None:
    tab = chat.tab(answers={"locate": BERN, "clock": {"output": "noon"}})
    tab.ask(["Two. ", call("locate"), call("clock", 2), {"then": ["Both known."]}])
    tab.until_answer("Two. Both known.")
    tab.until_ready()
    assert len(chat.calls) == 2
    assert_in_step(chat, tab)


@pytest.mark.obligation("003-30", "003-54")
@pytest.mark.parametrize("approved", [True, False], ids=["approve", "deny"])
@pytest.mark.parametrize("is_reloaded", [False, True], ids=["at once", "after a reload"])
def test_an_approval_is_given_or_refused_and_the_answer_goes_on(
    chat: Conversation, approved: bool, is_reloaded: bool
) -> None:
    tab, other = chat.tab(), chat.tab()
    script = REFUND if approved else [*REFUND[:3], {"then": ["As you wish."]}]
    tab.ask(script)
    until_tool(tab, "approval-requested")
    tab.until_ready()
    if is_reloaded:
        tab.reload()
        until_tool(tab, "approval-requested")
        tab.until_connected()
        tab.until_ready()
    until_tool(other, "approval-requested")
    tab.call("addToolApprovalResponse", {"id": "approval-1", "approved": approved})
    ending = "It is done." if approved else "As you wish."
    for each in (tab, other):
        each.until_answer(f"One moment. {ending}")
        each.until_ready()
        assert tool_parts(each)[0]["state"] == ("output-available" if approved else "output-denied")
    assert_in_step(chat, tab, other)
    assert len(tab.texts) == 2
    assert len(chat.calls) == 2


def test_an_approval_given_in_the_other_tab_counts_in_both(chat: Conversation) -> None:
    tab, other = chat.tab(), chat.tab()
    tab.ask(REFUND)
    for each in (tab, other):
        until_tool(each, "approval-requested")
        each.until_ready()
    other.call("addToolApprovalResponse", {"id": "approval-1", "approved": True})
    for each in (tab, other):
        each.until_answer("One moment. It is done.")
        each.until_ready()
    assert_in_step(chat, tab, other)
    assert len(chat.calls) == 2
