"""Agents that think, as the stock hooks show them: steps, tools, questions to people, errors, stops, reloads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from everyword.agents.think.output import REJECTED_TEXT
from tests.browser.conversation import Conversation
from tests.browser.kit import (
    HALF,
    WHOLE,
    assert_in_step,
    effects_of,
    half_answered,
    tool_calls_of,
    until_hits,
    until_tool_call,
)
from tests.browser.loop_thread import PATIENCE
from tests.browser.think_agents import Provided
from tests.models import recordings as r
from tests.models.provider import FakeProvider, Reply, serving, sse

pytestmark = pytest.mark.browser

SAFE = "Something went wrong while answering. Please try again."


def call(name: str, number: int = 1, **given: Any) -> dict[str, Any]:
    return {"type": "tool-input-available", "toolCallId": f"call-{number}", "toolName": name, "input": given}


SEARCH = ["Looking. ", call("search", query="x"), {"then": ["Three hits."]}]
REFUND = ["One moment. ", call("refund", amount=200), {"then": ["It is done."]}]
LOCATE = ["Let me see. ", call("locate", place="here"), {"then": ["You are in ", "Bern."]}]


@pytest.fixture(autouse=True)
def thinker(chat: Conversation) -> None:
    chat.kind = "thinker"


def test_steps_with_a_tool_between_them_are_one_message_in_every_tab_also_after_a_reload(chat: Conversation) -> None:
    tab, other = chat.tab(), chat.tab()
    tab.ask(SEARCH)
    for each in (tab, other):
        until_hits(each, 1)
    tab.reload()
    until_hits(tab, 1)
    chat.open("search")
    for each in (tab, other):
        each.until_answer("Looking. Three hits.")
        each.until_ready()
    assert_in_step(chat, tab, other)
    question, answer = chat.stored
    assert [part["type"] for part in answer["parts"]] == ["step-start", "text", "tool-search", "step-start", "text"]
    assert (tool_calls_of([answer])[0]["output"], effects_of(chat)) == ({"query": "x", "hits": 3}, ["search"])
    assert answer["metadata"]["usage"].keys() >= {"inputTokens", "outputTokens", "totalTokens"}
    assert tab.messages[-1]["metadata"] == answer["metadata"], "usage is there for the page, too"


def test_words_that_stream_survive_a_reload_and_a_second_tab(chat: Conversation) -> None:
    (tab,) = half_answered(chat)
    other = chat.tab()
    tab.reload()
    for each in (tab, other):
        each.until_answer(HALF)
    chat.open("mid")
    for each in (tab, other):
        each.until_answer(WHOLE)
        each.until_ready()
    assert_in_step(chat, tab, other)
    assert len(chat.calls) == 1, "the model was asked once"


@pytest.mark.parametrize(
    ("approved", "state", "done"), [(True, "output-available", ["refund"]), (False, "output-denied", [])]
)
def test_a_call_waits_for_a_person_and_is_made_once_or_never(
    chat: Conversation, approved: bool, state: str, done: list[str]
) -> None:
    tab, other = chat.tab(), chat.tab()
    tab.ask(REFUND)
    for each in (tab, other):
        until_tool_call(each, "approval-requested")
        each.until_ready()
    assert effects_of(chat) == []
    other.call("addToolApprovalResponse", {"id": "approve-call-1", "approved": approved})
    for each in (tab, other):
        each.until_answer("One moment. It is done.")
        each.until_ready()
    assert_in_step(chat, tab, other)
    assert ([part["state"] for part in tool_calls_of(chat.stored)], effects_of(chat)) == ([state], done)
    assert len(chat.stored) == 2, "the answer goes on in the same message"


def test_a_tool_of_the_page_is_run_by_the_page_and_the_answer_goes_on(chat: Conversation) -> None:
    tab, other = chat.tab(answers={"locate": {"output": {"city": "Bern"}}}), chat.tab()
    tab.ask(LOCATE)
    for each in (tab, other):
        each.until_answer("Let me see. You are in Bern.")
        each.until_ready()
    assert_in_step(chat, tab, other)
    assert [heard["input"] for heard in tab.heard("tool call")] == [{"place": "here"}]
    assert (tool_calls_of(chat.stored)[0]["output"], len(chat.stored)) == ({"city": "Bern"}, 2)


@pytest.mark.parametrize(("problem", "text"), [({"crash": "secret"}, SAFE), ({"fail": "Closed."}, "Closed.")])
def test_an_error_of_the_model_is_told_and_what_was_said_is_kept(
    chat: Conversation, problem: dict[str, str], text: str
) -> None:
    tab = chat.tab()
    tab.ask(["Well, ", problem])
    tab.until_answer("Well, ", status="error")
    assert tab.error == text
    late = chat.tab()
    late.until_answer("Well, ", status="error")
    assert late.error == text
    tab.ask("And now?")
    for each in (tab, late):
        each.until_answer("You said: And now?")
    tab.until_ready()  # who only watches keeps its error until it asks something itself
    assert_in_step(chat, tab, late)


def test_an_object_that_never_fits_is_an_error_on_the_page_and_not_a_finished_answer(chat: Conversation) -> None:
    chat.kind = "strict"
    tab = chat.tab()
    tab.ask("where?")
    tab.until_status("error")
    assert tab.error == REJECTED_TEXT
    states = [part["state"] for part in tool_calls_of(chat.stored)]
    assert states == ["output-error"] * 2 == [part["state"] for part in tool_calls_of(tab.messages)]
    tab.reload()
    tab.until_status("error")
    assert tab.error == REJECTED_TEXT


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with serving() as running:
        Provided.url = running.url
        yield running


def test_stopping_closes_the_connection_to_the_provider_and_keeps_what_was_said(
    chat: Conversation, provider: FakeProvider
) -> None:
    chat.kind, never = "provided", threading.Event()
    provider.replies.append(Reply([sse(r.CHAT_TEXT[:2]), sse(r.CHAT_TEXT[2:], done=True)], gate=never))
    tab, other = chat.tab(), chat.tab()
    tab.ask("hi")
    for each in (tab, other):
        each.until_answer("Grüß")
    tab.stop()
    assert provider.left.wait(PATIENCE), "the provider was left alone with its answer"
    assert chat.until_result()["status"] == "aborted"
    for each in (tab, other):
        each.until_ready()
    assert_in_step(chat, tab, other)
    assert [message["parts"][-1].get("text") for message in chat.stored] == ["hi", "Grüß"]
    never.set()
