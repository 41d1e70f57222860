"""A page of a node that does not own its agent: everything travels over a link between two real nodes."""

from __future__ import annotations

import pytest

from tests.browser.conversation import Conversation
from tests.browser.kit import HALF, WHOLE, assert_in_step, half_answered, until_tool_call
from tests.browser.server_control import TwoNodes

pytestmark = [pytest.mark.browser, pytest.mark.crash]

REFUND = [
    "One moment. ",
    {"type": "tool-input-available", "toolCallId": "call-1", "toolName": "refund", "input": {"amount": 200}},
    {"then": ["It is ", "done."]},
]


def test_a_page_behind_an_edge_streams_reloads_shares_stops_and_approves(
    relayed: Conversation, two_nodes: TwoNodes
) -> None:
    relayed.kind = "tooled"
    two_nodes.take("tooled", relayed.name)
    (tab,) = half_answered(relayed)
    assert two_nodes.owner.book(relayed.name)["calls"] and not two_nodes.edge.book(relayed.name)["calls"]
    tab.reload()
    tab.until_answer(HALF, status="streaming")
    other = relayed.tab()
    other.until_answer(HALF, status="streaming")
    relayed.open("mid")
    for each in (tab, other):
        each.until_answer(WHOLE, status="ready")
    assert_in_step(relayed, tab, other)

    tab.ask(["Stop ", {"gate": "stop"}, "here."])
    other.until_answer("Stop ")
    tab.stop()
    relayed.until_left("stop")
    for each in (tab, other):
        each.until_ready()
        assert each.answer == "Stop "
    assert_in_step(relayed, tab, other)

    tab.ask(REFUND)
    for each in (tab, other):
        until_tool_call(each, "approval-requested")
        each.until_ready()
    other.call("addToolApprovalResponse", {"id": "approve-call-1", "approved": True})
    for each in (tab, other):
        each.until_answer("One moment. It is done.", status="ready")
        assert each.error is None
    assert_in_step(relayed, tab, other)
    assert not two_nodes.edge.book(relayed.name)["calls"], "the owner has run everything"


def test_a_page_keeps_its_socket_and_sees_the_end_when_the_owner_is_killed(
    relayed: Conversation, two_nodes: TwoNodes
) -> None:
    two_nodes.take("chat", relayed.name)
    tab, other = half_answered(relayed, tabs=2)
    ids, greetings = tab.ids, len(tab.received("cf_agent_identity"))
    two_nodes.kill_owner()
    relayed.until_reached("mid")
    relayed.open("mid")
    for each in (tab, other):
        each.until_answer(WHOLE)
        each.until_ready()
        assert each.ids == ids
        assert each.error is None
    assert len(tab.received("cf_agent_identity")) == greetings, "the page did not reconnect"
    assert [made["attempt"] for made in relayed.calls] == [2]
    assert_in_step(relayed, tab, other)
