"""A page that is told the changes shows what a page shows that is loaded now."""

from __future__ import annotations

from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from everyword.ids import Millis, NodeId
from everyword.transcripts.document import ReasoningPart, TextPart, ToolCallPart, TranscriptMessage, TranscriptPart
from everyword.transcripts.html_message import text_html
from everyword.transcripts.live import LiveMessage, changes, live_html, render
from tests.transcripts.hostile import texts

PARTS: st.SearchStrategy[list[TranscriptPart]] = st.lists(
    st.one_of(
        texts.filter(bool).map(TextPart),
        texts.map(ReasoningPart),
        st.sampled_from([ToolCallPart("pay", "running"), ToolCallPart("pay", "done", output=1)]),
    ),
    max_size=3,
)
MESSAGES = st.lists(
    st.tuples(st.sampled_from(["user", "assistant"]), PARTS, st.sampled_from(["running", "done", "failed"])), max_size=4
)


class Page:
    """A page as its script keeps it: messages with an opening, a header, parts and an end."""

    def __init__(self) -> None:
        self.messages: list[list[Any]] = []

    def apply(self, change: dict[str, Any]) -> None:
        kind = change["type"]
        if kind == "clear":
            self.messages = []
        elif kind == "message":
            self.messages.append(_read(change["html"]))
        else:
            message = next(each for each in self.messages if each[0] == change["id"])
            if kind == "replace":
                message[:] = _read(change["html"])
            elif kind == "end":
                message[3] = change["html"]
            elif kind == "part":
                message[2][change["part"] : change["part"] + 1] = [change["html"]]
            else:
                message[2][change["part"]] = _with_text(message[2][change["part"]], change["text"])


class _Text(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.text = ""
        self.feed(html)

    def handle_data(self, data: str) -> None:
        self.text += data


def _with_text(part: str, added: str) -> str:
    return text_html(_Text(part).text + added)


def _read(html: str) -> list[Any]:
    opening, _, rest = html.partition(">")
    header, _, rest = rest.partition('<div class="parts">')
    parts, _, end = rest.rpartition('</div><div class="end">')
    found = [each.removesuffix("</div>") for each in parts.split('<div class="part">')[1:]]
    return [opening.partition("id='")[2].rstrip("'"), header, found, end.removesuffix("</div></article>\n")]


def rendered(given: Sequence[Any], before: Sequence[LiveMessage] = ()) -> list[LiveMessage]:
    known = {each.id: each for each in before}
    return [
        render(NodeId(node), TranscriptMessage(role, Millis(0), status, parts), known.get(f"m{node}"))
        for node, (role, parts, status) in enumerate(given)
    ]


def shown(live: Sequence[LiveMessage]) -> list[Any]:
    return [_read(live_html(each)) for each in live]


@given(st.lists(MESSAGES, min_size=1, max_size=4))
def test_a_page_that_is_told_the_changes_is_as_one_that_is_loaded_now(steps: list[Any]) -> None:
    page, before = Page(), list[LiveMessage]()
    for step in steps:
        now = rendered(step, before)
        for change in changes(before, now):
            page.apply(change)
        assert page.messages == shown(now) == shown(rendered(step))
        assert list(changes(now, now)) == []
        before = now


def test_text_that_grows_is_sent_as_what_was_added() -> None:
    first = rendered([("assistant", [TextPart("one")], "running")])
    second = rendered([("assistant", [TextPart("one two")], "running")], first)
    assert list(changes(first, second)) == [{"type": "text", "id": "m0", "part": 0, "text": " two"}]


def test_another_branch_is_shown_from_the_beginning() -> None:
    first = rendered([("user", [TextPart("one")], "done")])
    other = [render(NodeId(7), TranscriptMessage("user", Millis(0), "done", [TextPart("two")]))]
    assert [each["type"] for each in changes(first, other)] == ["clear", "message"]
