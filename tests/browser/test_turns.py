"""Questions and answers with nothing going wrong."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Chat

pytestmark = pytest.mark.browser


def test_a_question_is_answered_and_the_ids_are_the_stored_ones(chat: Chat) -> None:
    tab = chat.tab()
    tab.until_ready()
    tab.ask(["Hello ", {"gate": "first"}, "world"])
    tab.until_status("submitted") if tab.status == "submitted" else None
    tab.until_answer("Hello ", status="streaming")
    chat.open("first")
    tab.until_answer("Hello world", status="ready")
    assert tab.seen("statuses") == ["ready", "submitted", "streaming", "ready"]
    assert tab.ids == [message["id"] for message in chat.stored]
    assert tab.error is None
