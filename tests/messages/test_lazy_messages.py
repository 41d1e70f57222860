"""LazyMessages: a list of stored messages that is decoded on first access."""

from __future__ import annotations

import pytest

from everyword.errors import BadMessage
from everyword.messages.lazy_messages import LazyMessages
from everyword.messages.message import UIMessage

BODIES = [b'{"id":"u1","role":"user","parts":[]}', b'{"id":"a1","role":"assistant","parts":[]}']
READ = [UIMessage("u1", "user"), UIMessage("a1", "assistant")]
PARTIAL = UIMessage("a2", "assistant", [{"type": "text", "text": "half"}])


@pytest.mark.parametrize(
    ("history", "expected"),
    [(LazyMessages([]), []), (LazyMessages(BODIES), READ), (LazyMessages(BODIES, PARTIAL), [*READ, PARTIAL])],
)
def test_it_is_what_a_list_of_its_messages_is(history: LazyMessages, expected: list[UIMessage]) -> None:
    assert history == expected and list(history) == expected and len(history) == len(expected)
    assert history == LazyMessages([message.encode() for message in expected])
    assert repr(history) == repr(expected)
    assert history[:-1] == expected[:-1]
    assert [history[i] for i in range(-len(expected), len(expected))] == expected + expected
    assert (PARTIAL in history) == (PARTIAL in expected)


def test_nothing_is_read_before_the_first_access() -> None:
    unreadable = LazyMessages([b"nonsense"])
    assert len(unreadable) == 1
    with pytest.raises(BadMessage):
        unreadable[0]


def test_changing_a_message_changes_it_for_this_conversation_only() -> None:
    one, other = LazyMessages(BODIES), LazyMessages(BODIES)
    one[0].parts.append({"type": "text", "text": "mine"})
    assert one[0].text == "mine" and other[0].text == ""
