"""The hook's options, and what people put into messages."""

from __future__ import annotations

import pytest

from tests.browser.conversation import Conversation
from tests.browser.kit import HALF, TALK, WHOLE, assert_in_step

pytestmark = pytest.mark.browser


@pytest.mark.obligation("003-23", "003-45")
def test_without_resume_a_reload_gets_no_replay_and_the_next_turn_arrives_live(chat: Conversation) -> None:
    tab = chat.tab(resume=False)
    tab.ask(TALK)
    tab.until_answer(HALF)
    tab.reload()
    tab.until_connected()
    chat.open("mid")
    tab.until_answer(WHOLE)
    tab.until_ready()
    assert [frame for frame in tab.received("cf_agent_use_chat_response") if frame.get("replay")] == []
    tab.ask("next")
    tab.until_answer("You said: next", status="ready")
    assert_in_step(chat, tab)


def test_without_resume_a_watching_tab_still_follows(chat: Conversation) -> None:
    tab, other = chat.tab(), chat.tab(resume=False)
    tab.ask(TALK)
    other.until_answer(HALF)
    chat.open("mid")
    other.until_answer(WHOLE)
    other.until_ready()
    assert_in_step(chat, other)


@pytest.mark.obligation("003-25")
def test_without_initial_messages_nothing_is_fetched_and_the_transcript_comes_by_socket(chat: Conversation) -> None:
    first = chat.tab()
    first.ask("one")
    first.until_answer("You said: one", status="ready")
    second = chat.tab(initial=None)
    second.until_answer("You said: one", status="ready")
    assert (
        second.run("() => performance.getEntriesByType('resource').filter(r => r.name.includes('get-messages')).length")
        == 0
    )
    assert_in_step(chat, second)


def test_without_initial_messages_a_reload_mid_stream_still_resumes(chat: Conversation) -> None:
    tab = chat.tab(initial=None)
    tab.ask(TALK)
    tab.until_answer(HALF)
    tab.reload()
    tab.until_answer(HALF, status="streaming")
    chat.open("mid")
    tab.until_answer(WHOLE, status="ready")
    tab.until("c.messages.length === 2")
    assert_in_step(chat, tab)


def test_initial_messages_of_the_pages_own_give_way_to_the_stored_ones(chat: Conversation) -> None:
    tab = chat.tab()
    tab.ask("one")
    tab.until_answer("You said: one", status="ready")
    other = chat.tab(initial=[{"id": "x", "role": "user", "parts": [{"type": "text", "text": "made up"}]}])
    other.until_answer("You said: one")
    assert_in_step(chat, other)


@pytest.mark.obligation("003-17", "003-24")
@pytest.mark.parametrize("form", ["value", "function"])
def test_extra_fields_of_the_body_reach_the_agent(chat: Conversation, form: str) -> None:
    given = {"plan": "pro", "limit": 3}
    tab = chat.tab(body=given) if form == "value" else chat.tab(bodyFunction=given)
    for number in (1, 2):
        tab.ask([{"echo": "body"}])
        tab.until_ready()
        tab.until("c.messages.length === arg", 2 * number)
        tab.until_ready()
        expected = given if form == "value" else {**given, "asked": number}
        assert chat.calls[-1]["body"] == expected


def test_fields_sent_with_one_question_reach_the_agent_with_that_one_only(chat: Conversation) -> None:
    tab = chat.tab()
    tab.run("() => { window.chat.sendMessage({text: 'hi'}, {body: {once: true}}); }")
    tab.until_answer("You said: hi", status="ready")
    tab.ask("again")
    tab.until_answer("You said: again", status="ready")
    assert [call["body"] for call in chat.calls] == [{"once": True}, {}]


def test_two_hundred_messages_are_shown_and_go_on(chat: Conversation) -> None:
    chat.server.ask(chat.kind, chat.name, [f"question {number}" for number in range(199)])
    tab, other = chat.tab(), chat.tab()
    assert len(tab.texts) == 200
    tab.ask("one more")
    for each in (tab, other):
        each.until_answer("You said: one more")
        each.until_ready()
    assert_in_step(chat, tab, other)
    assert len(chat.calls[-1]["texts"]) == 201


def test_emoji_right_to_left_and_odd_characters_arrive_as_they_were(chat: Conversation) -> None:
    text = "👩‍👩‍👧‍👦 שלום עולם \u202bمرحبا\u202c e\u0301 \u2028 \ufeff \U0001f3f4\U000e0067 \\ \" ' \x07 NUL-free"
    tab, other = chat.tab(), chat.tab()
    tab.ask([text, {"gate": "mid"}, text])
    tab.until_answer(text)
    tab.reload()
    chat.open("mid")
    for each in (tab, other):
        each.until_answer(text + text)
        each.until_ready()
    assert_in_step(chat, tab, other)


def test_a_pasted_megabyte_is_taken_and_answered(chat: Conversation) -> None:
    tab, other = chat.tab(), chat.tab()
    pasted = '["got it"]\n' + "0123456789abcdé\n" * 65536
    tab.ask(pasted)
    for each in (tab, other):
        each.until_answer("got it")
        each.until_ready()
    assert other.texts[0] == pasted
    tab.reload()
    tab.until_answer("got it")
    assert tab.texts[0] == pasted


def test_an_answer_of_three_megabytes_arrives_in_full_live_and_after_a_reload(chat: Conversation) -> None:
    tab, other = chat.tab(), chat.tab()
    piece = "0123456789abcde\n" * 4096
    tab.ask([{"repeat": piece, "times": 24}, {"gate": "mid"}, {"repeat": piece, "times": 24}])
    tab.until_answer(piece * 24)
    tab.reload()
    tab.until_answer(piece * 24)
    chat.open("mid")
    for each in (tab, other):
        each.until_answer(piece * 48)
        each.until_ready()
    assert len(chat.stored[1]["parts"][-1]["text"]) == 3 * 1024 * 1024
    assert tab.error is None


def test_markup_is_shown_as_text(chat: Conversation) -> None:
    tab = chat.tab()
    markup = "<img src=x onerror='window.hacked = 1'><script>window.hacked = 1</script>&amp;"
    tab.ask([markup])
    tab.until_answer(markup, status="ready")
    assert tab.drawn[1]["text"] == '{"type":"step-start"}' + markup
    assert tab.run("() => window.hacked ?? null") is None


@pytest.mark.obligation("003-20")
def test_conversations_and_classes_are_isolated_from_each_other(chat: Conversation) -> None:
    here = chat.tab()
    elsewhere, otherwise = chat.tab(name=f"{chat.name}-2"), chat.tab(agent="Other")
    here.ask("mine")
    here.until_answer("You said: mine", status="ready")
    elsewhere.ask("theirs")
    elsewhere.until_answer("You said: theirs", status="ready")
    otherwise.ask("its")
    otherwise.until_answer("You said: its", status="ready")
    assert here.texts == ["mine", "You said: mine"]
    assert elsewhere.texts == ["theirs", "You said: theirs"]
    assert otherwise.texts == ["its", "You said: its"]
    assert otherwise.heard("identity") == [{"name": chat.name, "agent": "other"}]
    for tab in (here, elsewhere, otherwise):
        tab.reload()
        tab.until_connected()
        assert len(tab.texts) == 2


@pytest.mark.parametrize("name", ["a b", "naïve ☂", "50%", "a+b&c=d", "dots.and~tildes"])
def test_names_with_odd_characters_are_conversations_of_their_own(chat: Conversation, name: str) -> None:
    tab = chat.tab(name=f"{name} {chat.client}")
    tab.ask("hello")
    tab.until_answer("You said: hello", status="ready")
    tab.reload()
    tab.until_answer("You said: hello", status="ready")
    assert len(tab.texts) == 2


@pytest.mark.parametrize("around", ["", "/"])
def test_a_base_path_may_begin_and_end_with_a_slash(chat: Conversation, around: str) -> None:
    tab = chat.tab(basePath=f"{around}agents/{chat.kind}/{chat.name}{around}")
    tab.ask("hello")
    tab.until_answer("You said: hello", status="ready")
    later = chat.tab(basePath=f"{around}agents/{chat.kind}/{chat.name}{around}")
    later.until_answer("You said: hello", status="ready")
    assert_in_step(chat, tab, later)
