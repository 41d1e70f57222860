"""Messages that try to become markup, scripts, requests or other messages."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from everyword.core.record import RecordedMessage
from everyword.core.transcript import Ending
from everyword.ids import CallId, MessageId, Millis, NodeId, TurnId
from everyword.messages.message import UIMessage
from everyword.rows import ApprovalRecord, ConversationSummary, Participant
from everyword.transcripts.document import (
    EVERYTHING,
    Shown,
    TranscriptHead,
    TranscriptMessage,
    describe_message,
    head_of,
)

SCRIPT = "<script>alert(1)</script>"
BREAKS = "\n\n## Ann · now\n\n> ```\n" + SCRIPT + "\"'>]]>\r\u2028-->"

PIECES = [
    *("<script>", "</script>", "<img src=x onerror=alert(1)>", "<!--", "-->", "<![CDATA[", "&lt;", "&#106;avascript:"),
    *(
        "```",
        "````",
        "~~~",
        "`",
        "  ```",
        "    ```",
        "\t```",
        "- ",
        "1. ",
        "> ",
        "# ",
        "===",
        "---",
        "\n",
        "\n\n",
        "\r",
        "\t",
        "    ",
        " ",
    ),
    *(
        "[a](javascript:alert(1))",
        "[a]: javascript:x",
        "](java\\script:x)",
        "[a](javascript\\:x)",
        "![x](data:text/html,x)",
    ),
    *("<javascript:x>", "[x](<javascript:x>)", "|a|b|\n|-|-|", "$$", "\\", "*", "_", "\u202e", "\0", "text", "\u2028"),
]
texts = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


def part(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, **fields}


def hostile_parts(text: str) -> list[dict[str, Any]]:
    """Return a part of every kind, each with the text wherever a text may be."""
    call = {"toolCallId": "k1", "input": {text: [text]}}
    return [
        part("text", text=text),
        part("reasoning", text=text),
        part(f"tool-{text}", state="output-available", output=text, **call, approval={"id": "a", "approved": True}),
        part("dynamic-tool", toolName=text, state="output-error", errorText=text, **{**call, "toolCallId": "k2"}),
        part("tool-pay", state="approval-requested", **{**call, "toolCallId": "k3"}, approval={"id": "a"}),
        part(f"data-{text}", data={"x": text}),
        part("source-url", sourceId="1", url=text, title=text),
        part("source-url", sourceId="1", url=f"javascript:{text}"),
        part("source-url", sourceId="1", url=f"https://example.org/{text}", title=text),
        part("source-document", sourceId="1", mediaType=text, title=text),
        part("file", mediaType=text, url=text, filename=text),
        part("file", mediaType="text/html", url="data:text/html,<script>alert(1)</script>"),
        part("file", mediaType="image/svg+xml", url="data:image/svg+xml,<svg onload=alert(1)>"),
        part("file", mediaType="image/png", url="data:image/png;base64,iVBORw0KGgo=", filename=text),
        part("file", mediaType="image/png", url=f'data:image/png;base64,AAAA" onerror="alert(1){text}'),
        part("steering-message", parts=[part("text", text=text)]),
        part("text", text=5),
        part(text or "x"),
    ]


def recorded(text: str, **options: Any) -> RecordedMessage:
    """Return an answer with every kind of part, whose turn failed."""
    approval = ApprovalRecord(
        CallId("k1"),
        TurnId(1),
        text,
        Millis(0),
        status="denied",
        summary=text,
        settled_at=Millis(1000),
        settled_by=Participant(text or "x", text),
        reason=text,
    )
    metadata = {"everyword": {"author": {"id": text, "name": text}, "time": 1}}
    given: dict[str, Any] = {
        "node": NodeId(1),
        "id": MessageId("m1"),
        "role": "assistant",
        "at": Millis(1_700_000_000_000),
        "message": UIMessage("m1", "assistant", hostile_parts(text), metadata),
        "ending": Ending("error", text, "secret reason"),
        "approvals": {CallId("k1"): approval},
        **options,
    }
    return RecordedMessage(**given)


def described(text: str, shown: Shown = EVERYTHING) -> TranscriptMessage:
    found = describe_message(recorded(text), shown)
    assert found is not None
    return found


def head(text: str, shown: Shown = EVERYTHING) -> TranscriptHead:
    summary = ConversationSummary(
        Millis(0), Millis(1000), owner=text, participants=[Participant(text, text)], title=text or None
    )
    return head_of(summary, "chat", text, Millis(2000), shown)
