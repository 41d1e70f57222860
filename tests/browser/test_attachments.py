"""Photos in a conversation of the stock hooks: frames stay small, every tab shows them, and a crash loses none."""

from __future__ import annotations

import pytest

from tests.browser.conversation import Conversation
from tests.browser.kit import WHOLE, assert_in_step, half_answered
from tests.browser.photos import ASK, READ, SIZE, ask_with_photo, files, opened, uploaded
from tests.browser.server_control import KillableServer
from tests.browser.stock_page import NETWORK

pytestmark = pytest.mark.browser


def test_after_ten_photos_the_eleventh_question_is_a_small_frame(chat: Conversation) -> None:
    tab, other = opened(chat), opened(chat)
    for number in range(10):
        ask_with_photo(chat, tab, number)
    assert all(len(url) < 200 for url in files(tab.messages))
    tab.ask("which is the best?")
    tab.until_answer("You said: which is the best?", status="ready")
    last = tab.sent("cf_agent_use_chat_request")[-1]
    assert len(last["init"]["body"]) < 20_000
    assert len(files(chat.stored)) == len(set(files(chat.stored))) == 10
    assert_in_step(chat, tab, other)
    assert other.run(READ, files(other.messages)[7]) == [200, "image/png", SIZE]
    other.ask("and yours?")
    other.until_answer("You said: and yours?", status="ready")
    assert_in_step(chat, tab, other)
    assert len(chat.stored) == 24, "no photo that was sent again counts as an edit"


def test_a_photo_that_is_sent_again_before_the_client_has_heard_is_the_same_photo(chat: Conversation) -> None:
    tab = opened(chat)
    ask_with_photo(chat, tab, 1)
    stored = chat.stored
    data_url = tab.run("() => asDataUrl(photo(1, 3000000))")
    old = [
        {**stored[0], "parts": [{**part, "url": data_url} if "url" in part else part for part in stored[0]["parts"]]}
    ]
    tab.call("setMessages", [*old, stored[1]])
    tab.until("c.messages[0]?.parts.every(part => !part.url?.startsWith('data:'))")
    assert chat.stored == stored
    assert_in_step(chat, tab)
    tab.ask("next")
    tab.until_answer("You said: next", status="ready")
    assert chat.stored[:2] == stored
    assert_in_step(chat, tab)


def test_a_refused_photo_does_not_end_the_conversation(chat: Conversation) -> None:
    no_photo = {"type": "file", "mediaType": "image/png", "url": f"data:image/png;base64,{'A' * 40_000}"}
    tab = opened(chat)
    tab.call("sendMessage", {"text": "look", "files": [no_photo]})
    tab.until("c.error")
    assert tab.error is not None
    assert "it is called image/png, and its content is something else" in tab.error
    assert tab.messages == []
    tab.ask("and without a photo?")
    tab.until_answer("You said: and without a photo?", status="ready")
    assert_in_step(chat, tab)


def test_a_photo_that_is_too_large_does_not_end_the_conversation(chat: Conversation) -> None:
    tab = opened(chat)
    tab.ask("hi")
    tab.until_answer("You said: hi", status="ready")
    tab.run(ASK, [1, 30_000_000])
    tab.until("c.error")
    assert tab.error == "unable to take the message; it is larger than 32 MiB"
    tab.ask("and without a photo?")
    tab.until_answer("You said: and without a photo?", status="ready")
    assert len(chat.stored) == 4
    assert_in_step(chat, tab)


def test_a_refused_photo_leaves_an_answer_that_streams_to_its_page(chat: Conversation) -> None:
    no_photo = {"type": "file", "mediaType": "image/png", "url": f"data:image/png;base64,{'A' * 40_000}"}
    tab, other = half_answered(chat, tabs=2)
    other.call("sendMessage", {"text": "look", "files": [no_photo]})
    other.until("c.error")
    chat.open("mid")
    for each in (tab, other):
        each.until_answer(WHOLE)
    tab.until_ready()
    other.ask("next")
    other.until_answer("You said: next", status="ready")
    assert_in_step(chat, tab, other)


def test_a_plain_page_uploads_its_photos_first(chat: Conversation) -> None:
    tab, other = opened(chat, is_plain=True), opened(chat)
    for number in range(10):
        ask_with_photo(chat, tab, number)
    tab.ask("which is the best?")
    tab.until_answer("You said: which is the best?", status="ready")
    assert len(files(chat.stored)) == 10
    assert_in_step(chat, tab, other)
    assert tab.run(READ, files(tab.messages)[9]) == [200, "image/png", SIZE]


@pytest.mark.crash
def test_a_kill_between_the_upload_and_the_question_loses_nothing(
    mortal: Conversation, killable_server: KillableServer
) -> None:
    tab = opened(mortal)
    tab.expect_complaints(NETWORK)
    part = uploaded(mortal, tab, 5)
    killable_server.restart()
    tab.until_connected()
    tab.call("sendMessage", {"text": "and this?", "files": [part]})
    tab.until_answer("You said: and this?", status="ready")
    assert_in_step(mortal, tab)
    assert files(tab.messages) == [part["url"]]
    assert tab.run(READ, part["url"]) == [200, "image/png", SIZE]


@pytest.mark.crash
def test_ten_photos_outlive_kills_between_them(mortal: Conversation, killable_server: KillableServer) -> None:
    tab, other = opened(mortal), opened(mortal)
    for each in (tab, other):
        each.expect_complaints(NETWORK)
    for number in range(10):
        ask_with_photo(mortal, (tab, other)[number % 2], number)
        if number in (4, 9):
            killable_server.restart()
            for each in (tab, other):
                each.until_connected()
    tab.ask("which is the best?")
    tab.until_answer("You said: which is the best?", status="ready")
    assert len(tab.sent("cf_agent_use_chat_request")[-1]["init"]["body"]) < 20_000
    assert len(mortal.stored) == 22
    assert len(set(files(mortal.stored))) == 10
    assert_in_step(mortal, tab, other)
    assert [other.run(READ, url)[2] for url in files(other.messages)] == [SIZE] * 10
