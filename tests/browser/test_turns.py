"""Questions and answers, in one tab and in two, with nothing going wrong."""

from __future__ import annotations

import pytest

from everyword.messages.server_fields import SERVER_FIELDS
from tests.browser.conversation import Conversation
from tests.browser.kit import HALF, TALK, WHOLE, assert_in_step, half_answered

pytestmark = pytest.mark.browser

SPOKEN = [
    {"type": "start", "messageMetadata": {"model": "scripted"}},
    {"type": "start-step"},
    {"type": "text-start", "id": "t"},
    {"type": "text-delta", "id": "t", "delta": HALF},
    {"gate": "mid"},
    {"type": "text-delta", "id": "t", "delta": WHOLE.removeprefix(HALF)},
    {"type": "text-end", "id": "t"},
    {"type": "finish-step"},
    {"type": "finish", "messageMetadata": {"tokens": {"total": 7}}},
]


@pytest.mark.obligation("003-2", "003-20", "003-26", "003-27", "003-48", "003-49")
def test_a_question_is_answered_and_the_ids_are_the_stored_ones(chat: Conversation) -> None:
    tab = chat.tab(suspense=True)
    tab.until_ready()
    tab.until_received("cf_agent_stream_resume_none")  # a probe that is answered later makes the hook ready once more
    tab.until_still()
    tab.ask(TALK)
    tab.until_answer(HALF, status="streaming")
    chat.open("mid")
    tab.until_answer(WHOLE, status="ready")
    assert tab.seen("statuses") == ["ready", "submitted", "streaming", "ready"]
    assert tab.heard("identity") == [{"name": chat.name, "agent": "chat"}]
    assert tab.seen("shrinks") == []
    assert tab.ids == [message["id"] for message in chat.stored]
    assert [message["role"] for message in tab.drawn] == ["user", "assistant"]
    assert tab.error is None


def test_the_conversation_goes_on_and_the_agent_sees_all_of_it(chat: Conversation) -> None:
    tab = chat.tab()
    tab.ask("one")
    tab.until_answer("You said: one", status="ready")
    tab.ask("two")
    tab.until_answer("You said: two", status="ready")
    expected = ["one", "You said: one", "two", "You said: two"]
    assert tab.texts == expected
    assert chat.calls[1]["texts"] == expected[:3]
    assert_in_step(chat, tab)


@pytest.mark.obligation("003-8", "003-56")
@pytest.mark.parametrize("script", [TALK, SPOKEN], ids=["text", "chunks"])
def test_a_second_tab_is_in_step_while_an_answer_streams_and_afterwards(
    chat: Conversation, script: list[object]
) -> None:
    first, second = chat.tab(), chat.tab()
    first.ask(script)
    first.until_answer(HALF, status="streaming")
    second.until_answer(HALF)
    assert second.ids == first.ids
    chat.open("mid")
    first.until_answer(WHOLE, status="ready")
    second.until_answer(WHOLE)
    second.until_ready()
    assert_in_step(chat, first, second)
    assert second.seen("shrinks") == []


def test_a_tab_that_opens_mid_stream_catches_up_and_goes_on(chat: Conversation) -> None:
    (first,) = half_answered(chat)
    second = chat.tab()
    second.until_answer(HALF)
    chat.open("mid")
    first.until_answer(WHOLE, status="ready")
    second.until_answer(WHOLE, status="ready")
    assert_in_step(chat, first, second)


def test_metadata_of_start_and_finish_is_visible_live_in_both_tabs(chat: Conversation) -> None:
    first, second = chat.tab(), chat.tab()
    chat.open("mid")
    first.ask(SPOKEN)
    first.until_answer(WHOLE, status="ready")
    second.until_answer(WHOLE)
    for tab in (first, second):
        tab.until("c.messages[1]?.metadata?.tokens?.total === 7")
    stored = chat.stored[1]["metadata"]
    assert stored == {"model": "scripted", "tokens": {"total": 7}, SERVER_FIELDS: stored[SERVER_FIELDS]}
    assert [tab.messages[1].get("metadata") for tab in (first, second)] == [stored, stored]


def test_an_event_stream_cut_inside_lines_and_characters_loses_nothing(chat: Conversation) -> None:
    text = "größer → 漢字 🙂 fin"
    chunks = [
        {"type": "start"},
        {"type": "text-start", "id": "t"},
        *({"type": "text-delta", "id": "t", "delta": letter} for letter in text),
        {"type": "text-end", "id": "t"},
        {"type": "finish"},
    ]
    tab = chat.tab()
    tab.ask([{"sse": chunks, "cut": 3}])
    tab.until_answer(text, status="ready")
    assert_in_step(chat, tab)


@pytest.mark.obligation("003-36", "003-38", "003-40", "003-41")
def test_data_parts_reach_a_watching_tab_live_and_after_a_reload(chat: Conversation) -> None:
    first, second = chat.tab(), chat.tab()
    lasting = {"type": "data-weather", "id": "w", "data": {"sky": "grey"}}
    passing = {"type": "data-progress", "data": 0.5, "transient": True}
    first.ask(["Look: ", lasting, passing, {"gate": "mid"}, {**lasting, "data": {"sky": "blue"}}, "done."])
    for tab in (first, second):
        tab.until("seen.calls.filter(([name]) => name === 'data').length === 2")
        assert [part["type"] for part in tab.heard("data")] == ["data-weather", "data-progress"]
    second.reload()
    second.until("seen.calls.filter(([name]) => name === 'data').length === 2")
    chat.open("mid")
    for tab in (first, second):
        tab.until_answer("Look: done.")
        tab.until_ready()
        assert tab.heard("data")[-1]["data"] == {"sky": "blue"}
        kept = [part for part in tab.messages[1]["parts"] if part["type"].startswith("data-")]
        assert kept == [{**lasting, "data": {"sky": "blue"}}]
    assert_in_step(chat, first, second)


def test_an_agent_that_has_nothing_to_say_leaves_the_page_ready(chat: Conversation) -> None:
    chat.kind = "silent"
    tab, other = chat.tab(), chat.tab()
    tab.ask("hello?")
    tab.until("seen.statuses.includes('submitted') && c.status === 'ready'")
    other.until("c.messages.length === 1")
    assert tab.texts == other.texts == ["hello?"]
    assert tab.error is None
    assert_in_step(chat, tab, other)
