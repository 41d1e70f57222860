from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given

from everyword.errors import FoldError
from everyword.messages.fold import MessageFold
from everyword.messages.message import UIMessage
from everyword.messages.tool_calls import ApprovalAnswer, OutputAnswer
from tests.messages.sequences import Chunk, damaged_sequence, legal_sequence, seeded


def folded(*chunks: Chunk, base: UIMessage | None = None) -> MessageFold:
    fold = MessageFold("m", base=base)
    for chunk in chunks:
        fold.apply(chunk)
    return fold


def text(moment: str, name: str = "t", **fields: Any) -> Chunk:
    return {"type": f"text-{moment}", "id": name, **fields}


def tool(kind: str, call_id: str = "c", **fields: Any) -> Chunk:
    return {"type": f"tool-{kind}", "toolCallId": call_id, **fields}


START_STEP: Chunk = {"type": "start-step"}
FINISH_STEP: Chunk = {"type": "finish-step"}


def test_a_fold_without_chunks_is_an_empty_message() -> None:
    fold = MessageFold("m")
    assert fold.is_empty
    assert fold.finish_reason is None
    assert fold.message() == UIMessage("m", "assistant")
    assert fold.closing_chunks() == []


def test_a_conversation_folds_to_its_message() -> None:
    fold = folded(
        {"type": "start", "messageId": "srv", "messageMetadata": {"a": {"x": 1}}},
        START_STEP,
        text("start"),
        text("delta", delta="hel"),
        text("delta", delta="lo"),
        text("end"),
        tool("input-start", toolName="x"),
        tool("input-delta", inputTextDelta='{"a":'),
        tool("input-available", toolName="x", input={"a": 1}),
        tool("output-available", output=[1]),
        FINISH_STEP,
        {"type": "finish", "finishReason": "stop", "messageMetadata": {"a": {"y": 2}}},
    )
    assert fold.finish_reason == "stop"
    assert fold.message().to_dict() == {
        "id": "srv",
        "role": "assistant",
        "metadata": {"a": {"x": 1, "y": 2}},
        "parts": [
            {"type": "step-start"},
            {"type": "text", "text": "hello", "state": "done"},
            {"type": "tool-x", "toolCallId": "c", "state": "output-available", "input": {"a": 1}, "output": [1]},
        ],
    }


@pytest.mark.parametrize(
    ("chunk", "chunk_type", "chunk_id"),
    [
        (text("delta", delta="x"), "text-delta", "t"),
        (text("end"), "text-end", "t"),
        ({"type": "reasoning-delta", "id": "r", "delta": "x"}, "reasoning-delta", "r"),
        ({"type": "reasoning-end", "id": "r"}, "reasoning-end", "r"),
        (tool("input-delta", inputTextDelta="{"), "tool-input-delta", "c"),
        (tool("output-available", output=1), "tool-invocation", "c"),
        (tool("output-error", errorText="e"), "tool-invocation", "c"),
        (tool("output-denied"), "tool-invocation", "c"),
        (tool("approval-request", approvalId="a"), "tool-invocation", "c"),
        (
            {"type": "tool-approval-response", "approvalId": "a", "approved": True},
            "tool-approval-response",
            "a",
        ),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)
def test_a_chunk_without_its_beginning_is_refused_and_named(chunk: Chunk, chunk_type: str, chunk_id: str) -> None:
    fold = MessageFold("m")
    with pytest.raises(FoldError, match="unable to fold") as caught:
        fold.apply(chunk)
    assert (caught.value.chunk_type, caught.value.chunk_id) == (chunk_type, chunk_id)
    assert fold.is_empty


@pytest.mark.parametrize(
    "chunk",
    [
        {},
        {"type": None},
        {"type": []},
        {"type": "text-start"},
        text("delta"),
        text("delta", delta=None),
        text("delta", delta=b"x"),
        text("delta", {}, delta="x"),  # type: ignore[arg-type]
        tool("input-start"),
        tool("input-delta", "started", inputTextDelta=7),
        tool("input-available"),
        tool("input-error", toolName="x", input=1),
        tool("output-error", "started"),
        tool("approval-request", "started"),
        {"type": "tool-approval-response", "approvalId": "asked"},
    ],
    ids=str,
)
def test_a_malformed_chunk_is_refused_and_changes_nothing(chunk: Chunk) -> None:
    fold = folded(
        text("start"),
        tool("input-start", "started", toolName="x"),
        tool("input-available", "waiting", toolName="x", input={}),
        tool("approval-request", "waiting", approvalId="asked"),
    )
    before = fold.message()
    with pytest.raises(FoldError, match="unable to fold"):
        fold.apply(chunk)
    assert fold.message() == before


@given(seeded())
def test_a_refused_chunk_changes_nothing(rng: Random) -> None:
    fold, seen = MessageFold("m"), 0
    for chunk in damaged_sequence(rng):
        before = fold.message()
        try:
            fold.apply(chunk)
            seen += 1
        except FoldError:
            assert fold.message() == before
    assert seen >= 0


def test_unknown_types_errors_and_aborts_do_nothing() -> None:
    fold = folded({"type": "hologram"}, {"type": "error", "errorText": "x"}, {"type": "abort"}, {"type": ""})
    assert fold.is_empty


def test_transient_parts_are_not_kept() -> None:
    fold = folded({"type": "data-x", "data": 1, "transient": True})
    assert fold.is_empty


def test_a_data_part_with_the_same_type_and_id_is_replaced_in_place() -> None:
    fold = folded(
        {"type": "data-x", "id": "1", "data": "old"},
        {"type": "data-y", "id": "1", "data": "other"},
        {"type": "data-x", "id": "1", "data": None},
        {"type": "data-x", "data": "anonymous"},
    )
    assert [(part["type"], part["data"]) for part in fold.message().parts] == [
        ("data-x", None),
        ("data-y", "other"),
        ("data-x", "anonymous"),
    ]


@given(seeded())
def test_a_snapshot_never_changes_and_never_disturbs_the_fold(rng: Random) -> None:
    chunks = legal_sequence(rng)
    watched, unwatched = MessageFold("m"), MessageFold("m")
    snapshots = []
    for chunk in chunks:
        watched.apply(chunk)
        unwatched.apply(chunk)
        message = watched.message()
        snapshots.append((message, message.encode()))
    assert watched.message() == unwatched.message()
    assert all(message.encode() == body for message, body in snapshots)


def test_open_parts_are_closed_in_the_order_they_were_opened() -> None:
    fold = folded(
        text("start", "a"), {"type": "reasoning-start", "id": "a"}, text("start", "b"), text("start", "c"),
        text("end", "b"), text("start", "a"),
    )  # fmt: skip
    assert fold.closing_chunks() == [
        {"type": "reasoning-end", "id": "a"},
        text("end", "c"),
        text("end", "a"),
    ]
    assert list(fold.open_parts.values()) == ["a", "c", "a"]


@given(seeded())
def test_closing_leaves_no_open_part_and_is_what_closed_message_shows(rng: Random) -> None:
    chunks = legal_sequence(rng)
    fold = folded(*chunks[: rng.randrange(len(chunks) + 1)])
    closed, before = fold.closed_message(), fold.message()
    assert fold.message() == before
    for chunk in fold.closing_chunks():
        fold.apply(chunk)
    assert fold.message() == closed
    assert fold.closing_chunks() == []


def test_a_finished_step_forgets_its_open_parts_as_ai_6_does() -> None:
    fold = folded(START_STEP, text("start"), text("delta", delta="a"), FINISH_STEP)
    assert fold.closing_chunks() == []
    with pytest.raises(FoldError):
        fold.apply(text("delta", delta="b"))
    assert fold.message().text == "a"


def test_a_base_is_continued_and_left_alone() -> None:
    part = {"type": "tool-x", "toolCallId": "c", "state": "input-streaming", "rawInput": '{"a"', "input": {}}
    base = UIMessage("m", "assistant", [{"type": "step-start"}, part], {"k": 1}, {"createdAt": 1})
    fold = folded(tool("input-delta", inputTextDelta=":1}"), base=base)
    assert fold.message().parts[1]["input"] == {"a": 1}
    assert fold.message().extra == {"createdAt": 1}
    assert part["input"] == {}
    assert len(base.parts) == 2


def test_text_of_a_base_is_not_reopened() -> None:
    base = folded(text("start"), text("delta", delta="a")).message()
    with pytest.raises(FoldError):
        folded(text("delta", delta="b"), base=base)


def test_a_later_start_changes_the_id_and_keeps_the_parts() -> None:
    fold = folded(text("start"), {"type": "start", "messageId": "other"}, {"type": "start"})
    assert fold.message().id == "other"
    assert len(fold.message().parts) == 1


def test_a_call_is_sought_in_the_current_step_and_then_anywhere() -> None:
    announce = tool("input-available", toolName="x", input=1)
    fold = folded(START_STEP, announce, START_STEP, {**announce, "input": 2}, tool("output-available", output="o"))
    assert [part.get("output") for part in fold.message().parts] == [None, None, None, "o"]
    fold = folded(START_STEP, announce, START_STEP, tool("output-available", output="o"))
    assert fold.message().parts[1]["output"] == "o"


def test_what_only_ai_7_sends_is_folded_as_ai_7_does() -> None:
    fold = folded(
        START_STEP,
        {"type": "custom", "kind": "a.b"},
        {"type": "reset-step"},
        tool("input-available", toolName="x", input={}),
        tool("approval-request", approvalId="a", reason="why", isAutomatic=True),
        {"type": "tool-approval-response", "approvalId": "a", "approved": True, "reason": "ok"},
        text("start"),
        text("end", citations=[{"source": {}}]),
    )
    approval = {"id": "a", "requestReason": "why", "isAutomatic": True, "approved": True, "reason": "ok"}
    assert fold.message().parts[1:] == [
        {"type": "tool-x", "toolCallId": "c", "state": "approval-responded", "input": {}, "approval": approval},
        {"type": "text", "text": "", "state": "done", "citations": [{"source": {}}]},
    ]


def test_an_answer_reaches_a_call_whose_input_was_still_read_lazily() -> None:
    fold = folded(
        tool("input-start", toolName="x"),
        tool("input-delta", inputTextDelta='{"a":1}'),
        tool("approval-request", approvalId="a"),
    )
    assert fold.answer("c", ApprovalAnswer(True))
    assert fold.answer("c", OutputAnswer("r"))
    assert not fold.answer("c", OutputAnswer("again"))
    assert not fold.answer("nobody", OutputAnswer("r"))
    approval = {"id": "a", "approved": True}
    assert fold.message().parts == [
        {"type": "tool-x", "toolCallId": "c", "state": "output-available", "input": {"a": 1}, "output": "r",
         "approval": approval}
    ]  # fmt: skip


def test_a_hundred_thousand_deltas_are_one_string() -> None:
    fold = folded(text("start"))
    for number in range(100_000):
        fold.apply(text("delta", delta=f"{number} "))
    assert fold.message().text == "".join(f"{number} " for number in range(100_000))
