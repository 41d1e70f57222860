from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everyword.messages import chunks as c
from everyword.messages.fold import MessageFold
from everyword.messages.message import Part, UIMessage
from everyword.messages.normaliser import Normaliser
from tests.messages.sequences import Chunk, hostile_sequence, legal_sequence, seeded

START: Chunk = {"type": "start", "messageId": "m"}
STEP: Chunk = {"type": "start-step"}
END_STEP: Chunk = {"type": "finish-step"}
FINISH: Chunk = {"type": "finish"}


def text(moment: str, name: str = "t", **fields: Any) -> Chunk:
    return {"type": f"text-{moment}", "id": name, **fields}


def tool(kind: str, call_id: str = "c", **fields: Any) -> Chunk:
    return {"type": f"tool-{kind}", "toolCallId": call_id, **fields}


CALL = tool("input-available", toolName="x", input={})


def fed(normaliser: Normaliser, *items: Any) -> list[Chunk]:
    return [chunk for item in items for chunk in normaliser.feed(item)]


def normalised(*items: Any, **how: Any) -> list[Chunk]:
    normaliser = Normaliser("m", **how)
    return [*fed(normaliser, *items), *normaliser.finish()]


def inside(*items: Any, **how: Any) -> list[Chunk]:
    """Return what came out between the first start-step and the last finish-step."""
    chunks = normalised(*items, **how)
    assert chunks[:2] == [START, STEP]
    assert chunks[-2:] == [END_STEP, FINISH]
    return chunks[2:-2]


# -- the frame -------------------------------------------------------------------------------------


def test_a_tidy_stream_passes_unchanged() -> None:
    chunks = [START, STEP, text("start"), text("delta", delta="a"), text("end"), END_STEP, FINISH]
    assert normalised(*chunks) == chunks


def test_content_gets_the_start_and_the_step_that_it_lacks() -> None:
    assert normalised(text("start"), text("delta", delta="a"), text("end")) == [
        START, STEP, text("start"), text("delta", delta="a"), text("end"), END_STEP, FINISH,
    ]  # fmt: skip


def test_the_messages_id_is_ours_and_the_handlers_metadata_is_kept() -> None:
    given = {"type": "start", "messageId": "theirs", "messageMetadata": {"a": 1}}
    assert normalised(given) == [{**START, "messageMetadata": {"a": 1}}, FINISH]


def test_a_second_start_is_swallowed_and_its_metadata_is_not() -> None:
    again = {"type": "start", "messageId": "x", "messageMetadata": {"a": 1}}
    assert normalised({"type": "start"}, again, {"type": "start"}) == [
        START,
        {"type": "message-metadata", "messageMetadata": {"a": 1}},
        FINISH,
    ]


def test_open_parts_are_closed_before_their_step_ends() -> None:
    reasoning = {"type": "reasoning-start", "id": "r"}
    ends = [text("end"), {"type": "reasoning-end", "id": "r"}]
    assert normalised(STEP, text("start"), reasoning, END_STEP) == [
        START, STEP, text("start"), reasoning, *ends, END_STEP, FINISH,
    ]  # fmt: skip


def test_a_step_that_begins_inside_another_ends_it() -> None:
    assert normalised(STEP, text("start"), STEP, text("start"), text("end")) == [
        START, STEP, text("start"), text("end"), END_STEP, STEP, text("start"), text("end"), END_STEP, FINISH,
    ]  # fmt: skip


def test_steps_of_merged_streams_become_one() -> None:
    merged = [STEP, STEP, text("start", "a"), text("end", "a"), END_STEP, END_STEP]
    assert normalised(*merged) == [START, STEP, text("start", "a"), text("end", "a"), END_STEP, FINISH]


def test_finish_comes_last_and_once_whatever_follows_it() -> None:
    first = {"type": "finish", "finishReason": "length", "messageMetadata": {"a": {"x": 1}}}
    second = {"type": "finish", "messageMetadata": {"a": {"y": 2}}}
    assert normalised(START, first, text("start"), text("end"), second) == [
        START, STEP, text("start"), text("end"), END_STEP,
        {"type": "finish", "finishReason": "length", "messageMetadata": {"a": {"x": 1, "y": 2}}},
    ]  # fmt: skip


def test_a_handler_that_said_nothing_gets_no_message() -> None:
    normaliser = Normaliser("m")
    assert normaliser.text("") == []
    assert normaliser.finish() == []


def test_finishing_twice_says_nothing_more() -> None:
    normaliser = Normaliser("m")
    normaliser.text("a")
    assert normaliser.finish()[-1] == FINISH
    assert normaliser.finish() == []


@pytest.mark.parametrize(
    ("given", "sent", "newer"),
    [
        ("stop", "stop", False),
        ("tool_calls", "tool-calls", False),
        ("unknown", "other", False),
        ("interrupted", "other", False),
        ("interrupted", "interrupted", True),
        (7, "other", False),
        ([], "other", True),
    ],
)
def test_finish_reasons_are_those_that_clients_know(given: Any, sent: str, newer: bool) -> None:
    assert normalised({"type": "finish", "finishReason": given}, newer=newer)[-1]["finishReason"] == sent


def test_errors_and_aborts_pass_untouched() -> None:
    normaliser = Normaliser("m")
    error, abort = {"type": "error", "errorText": None, "x": 1}, {"type": "abort", "reason": 7}
    assert fed(normaliser, error, abort) == [error, abort]
    assert normaliser.finish() == []


def test_metadata_that_is_no_object_is_dropped() -> None:
    normaliser = Normaliser("m")
    assert fed(normaliser, {"type": "message-metadata", "messageMetadata": [1]}, {"type": "message-metadata"}) == []
    assert fed(normaliser, {"type": "start", "messageMetadata": "x"}) == [START]
    assert len(normaliser.problems) == 3


# -- text and reasoning ----------------------------------------------------------------------------


def test_a_delta_without_a_start_gets_one() -> None:
    assert inside(text("delta", delta="a"), text("delta", delta="b")) == [
        text("start"), text("delta", delta="a"), text("delta", delta="b"), text("end"),
    ]  # fmt: skip


def test_an_end_without_a_start_is_dropped() -> None:
    assert inside(text("start"), text("end"), text("end")) == [text("start"), text("end")]


def test_an_id_used_twice_in_a_step_is_renamed() -> None:
    part = [text("start"), text("delta", delta="a"), text("end")]
    second = [{**chunk, "id": "t-2"} for chunk in part]
    assert inside(*part, *part) == [*part, *second]


def test_an_id_that_is_still_open_is_closed_and_renamed() -> None:
    assert inside(text("start"), text("start"), text("delta", delta="a")) == [
        text("start"), text("end"), text("start", "t-2"), text("delta", "t-2", delta="a"), text("end", "t-2"),
    ]  # fmt: skip


def test_an_id_may_come_back_in_the_next_step_and_in_the_other_kind() -> None:
    chunks = [text("start"), text("end"), {"type": "reasoning-start", "id": "t"}, {"type": "reasoning-end", "id": "t"}]
    assert inside(*chunks, END_STEP, STEP, text("start"), text("end")) == [
        *chunks, END_STEP, STEP, text("start"), text("end"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", [None, 3, ""])
def test_a_part_without_a_usable_id_gets_one(name: Any) -> None:
    chunks = inside(*({**text(moment), "id": name} for moment in ("start", "end")))
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert isinstance(chunks[0]["id"], str)
    assert chunks[0]["id"]


def test_text_and_reasoning_ids_do_not_collide() -> None:
    chunks = [
        text("start"),
        {"type": "reasoning-start", "id": "t"},
        {"type": "reasoning-delta", "id": "t", "delta": "r"},
    ]
    ends = [text("end"), {"type": "reasoning-end", "id": "t"}]
    assert inside(*chunks) == [*chunks, *ends]


def test_plain_text_is_one_part_and_makes_room_for_others() -> None:
    normaliser = Normaliser("m")
    chunks = [*normaliser.text("a"), *normaliser.text("b")]
    assert chunks == [
        START, STEP, text("start", "text"), text("delta", "text", delta="a"), text("delta", "text", delta="b"),
    ]  # fmt: skip
    assert normaliser.feed({"type": "data-x", "data": 1, "transient": True})[0]["type"] == "data-x"
    assert fed(normaliser, CALL) == [text("end", "text"), CALL]
    assert normaliser.text("c")[0] == text("start", "text-2")
    assert normaliser.finish() == [text("end", "text-2"), END_STEP, FINISH]


def test_plain_text_does_not_mix_with_parts_that_have_no_id() -> None:
    normaliser = Normaliser("m")
    normaliser.text("plain")
    chunks = fed(normaliser, {"type": "text-delta", "delta": "other"})
    assert [chunk["type"] for chunk in chunks] == ["text-end", "text-start", "text-delta"]
    assert chunks[1]["id"] != "text"


# -- tool calls ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chunk",
    [
        tool("input-delta", inputTextDelta="{"),
        tool("output-available", output=1),
        tool("output-error", errorText="e"),
        tool("output-denied"),
        tool("approval-request", approvalId="a"),
    ],
    ids=lambda chunk: chunk["type"],
)
def test_what_belongs_to_no_call_is_dropped(chunk: Chunk) -> None:
    normaliser = Normaliser("m")
    assert fed(normaliser, chunk) == []
    assert len(normaliser.problems) == 1


def test_missing_inputs_and_outputs_become_null() -> None:
    assert inside(tool("input-available", toolName="x"), tool("output-available")) == [
        tool("input-available", toolName="x", input=None),
        tool("output-available", output=None),
    ]


def test_a_call_is_not_moved_backwards() -> None:
    done = [CALL, tool("output-available", output=1)]
    again = [
        tool("input-start", toolName="x"),
        tool("input-delta", inputTextDelta="{"),
        CALL,
        tool("approval-request", approvalId="a"),
        tool("output-denied"),
        tool("output-available", output=2, preliminary=True),
    ]
    assert inside(*done, *again) == done


def test_a_final_output_may_replace_an_earlier_one() -> None:
    outputs = [tool("output-available", output=n, preliminary=True) for n in (1, 2)]
    outputs += [tool("output-available", output=3), tool("output-error", errorText="e")]
    assert inside(CALL, *outputs) == [CALL, *outputs]


def test_a_denied_call_never_gets_an_output() -> None:
    denied = [CALL, tool("approval-request", approvalId="a"), tool("output-denied")]
    assert inside(*denied, tool("output-available", output=1), tool("output-error", errorText="e")) == denied


def test_a_call_answered_from_outside_takes_nothing_more() -> None:
    normaliser = Normaliser("m")
    fed(normaliser, CALL)
    normaliser.note_answer("c")
    normaliser.note_answer("nobody")
    assert fed(normaliser, tool("output-available", output=1), tool("approval-request", approvalId="a")) == []


def test_an_input_that_comes_after_its_approval_request_is_asked_for_again() -> None:
    start, request = tool("input-start", toolName="x"), tool("approval-request", approvalId="a")
    assert inside(start, request, CALL, request) == [start, request, CALL, request]


def test_an_approval_request_without_an_id_goes_by_the_calls() -> None:
    assert inside(CALL, tool("approval-request")) == [CALL, tool("approval-request", approvalId="c")]


def test_a_failed_input_is_told_in_chunks_that_ai_6_and_7_fold_alike() -> None:
    error = tool("input-error", toolName="x", input={"a": 1}, errorText="bad", title="T")
    told = [
        tool("input-start", toolName="x", title="T"),
        tool("input-delta", inputTextDelta='{"a":1}'),
        tool("output-error", errorText="bad"),
    ]
    assert inside(error) == told
    begun = [tool("input-start", toolName="x"), tool("input-delta", inputTextDelta='{"a"')]
    assert inside(*begun, error) == [*begun, tool("output-error", errorText="bad")]
    assert inside(CALL, error) == [CALL, tool("output-error", errorText="bad")]
    assert inside(CALL, tool("output-available", output=1), error) == [CALL, tool("output-available", output=1)]


def test_a_call_keeps_its_kind() -> None:
    start = tool("input-start", toolName="x", dynamic=True)
    assert inside(start, CALL) == [start, {**CALL, "dynamic": True}]
    assert inside(tool("input-start", toolName="x"), {**CALL, "dynamic": True}) == [
        tool("input-start", toolName="x"), CALL,
    ]  # fmt: skip


def test_a_tools_name_is_remembered() -> None:
    assert inside(tool("input-start", toolName="x"), tool("input-available", input={})) == [
        tool("input-start", toolName="x"), CALL,
    ]  # fmt: skip


def test_the_rest_of_an_input_in_a_later_step_is_dropped_and_the_whole_is_not() -> None:
    start = tool("input-start", toolName="x")
    assert inside(start, END_STEP, STEP, tool("input-delta", inputTextDelta="{"), CALL) == [
        start, END_STEP, STEP, CALL,
    ]  # fmt: skip


def test_an_output_alone_needs_no_step() -> None:
    base = UIMessage("m", "assistant", [STEP_PART, part_of_call("approval-responded", approval={"approved": True})])
    assert normalised(tool("output-available", output=1), base=base) == [tool("output-available", output=1), FINISH]


def test_a_tool_that_failed_without_a_text_gets_one() -> None:
    chunk = inside(CALL, tool("output-error"))[1]
    assert chunk["errorText"]


# -- everything else -------------------------------------------------------------------------------


def test_newer_types_and_fields_need_newer_clients() -> None:
    newer = [
        {"type": "custom", "kind": "a.b"},
        CALL,
        tool("approval-request", approvalId="a", reason="why"),
        {"type": "tool-approval-response", "approvalId": "a", "approved": True},
        {"type": "reset-step"},
        text("start"),
        text("end", citations=[]),
    ]
    assert inside(*newer, newer=True) == newer
    assert inside(*newer) == [CALL, tool("approval-request", approvalId="a"), text("start"), text("end")]


def test_a_step_that_was_taken_back_takes_its_calls_along() -> None:
    chunks = inside(CALL, {"type": "reset-step"}, tool("output-available", output=1), newer=True)
    assert chunks == [CALL, {"type": "reset-step"}]


@pytest.mark.parametrize("item", [None, 7, "text", [], {}, {"type": 7}, {"type": "hologram"}, {"type": []}])
def test_what_is_no_chunk_is_dropped_with_a_sentence(item: Any) -> None:
    normaliser = Normaliser("m")
    assert normaliser.feed(item) == []
    assert len(normaliser.problems) == 1


def test_typed_chunks_are_taken() -> None:
    assert inside(c.TextStart(id="t"), c.TextDelta(id="t", delta="a"), c.TextEnd(id="t"))[1] == text("delta", delta="a")
    assert normalised(c.DataChunk(type="data-x", data={"a": 1}))[1] == {"type": "data-x", "data": {"a": 1}}


def test_data_parts_need_no_step_and_bring_usable_ids() -> None:
    assert normalised({"type": "data-x", "id": 7, "data": None}) == [
        START, {"type": "data-x", "id": "7", "data": None}, FINISH,
    ]  # fmt: skip


def test_a_document_without_a_title_takes_its_files_name() -> None:
    source = {"type": "source-document", "sourceId": "s", "mediaType": "m", "filename": "f.pdf"}
    assert inside(source) == [{**source, "title": "f.pdf"}]


def test_what_the_handler_changes_later_is_not_changed_in_the_log() -> None:
    output: dict[str, Any] = {"rows": [1]}
    chunks = inside(CALL, tool("output-available", output=output))
    output["rows"].append(2)
    assert chunks[1]["output"] == {"rows": [1]}


def test_half_a_character_does_not_get_through() -> None:
    normaliser = Normaliser("m")
    normaliser.text("a")
    assert normaliser.text("\ud83d\ude42\ud83d")[0]["delta"] == "🙂\ufffd"
    assert fed(normaliser, text("delta", delta="\ud83d"))[-1]["delta"] == "\ufffd"


def test_problems_are_counted_but_not_without_end() -> None:
    normaliser = Normaliser("m")
    for _ in range(1000):
        normaliser.feed({"type": "hologram"})
        normaliser.feed({"type": "start", "messageMetadata": object()})
    assert len(normaliser.problems) == 100


# -- attempts and continuations --------------------------------------------------------------------

STEP_PART: Part = {"type": "step-start"}
SAID: Part = {"type": "text", "text": "so far", "state": "done"}


def part_of_call(state: str, **fields: Any) -> Part:
    return {"type": "tool-x", "toolCallId": "c", "state": state, "input": {}, **fields}


def test_a_second_attempt_has_no_start_and_other_ids() -> None:
    base = UIMessage("m", "assistant", [STEP_PART, SAID])
    given = [{"type": "start", "messageMetadata": {"n": 2}}, text("start"), text("delta", delta="a"), text("end")]
    chunks = normalised(*given, base=base, first_attempt=False)
    assert chunks == [
        {"type": "message-metadata", "messageMetadata": {"n": 2}},
        text("start", "t~2"), text("delta", "t~2", delta="a"), text("end", "t~2"), END_STEP, FINISH,
    ]  # fmt: skip


def test_a_second_attempt_that_begins_a_step_ends_the_one_that_was_cut_off() -> None:
    base = UIMessage("m", "assistant", [STEP_PART, SAID])
    assert normalised(START, STEP, text("start"), base=base, first_attempt=False)[:2] == [END_STEP, STEP]


def test_a_continuation_has_no_start_and_a_step_of_its_own() -> None:
    base = UIMessage("m", "assistant", [STEP_PART, SAID])
    assert normalised(START, text("start"), base=base)[:2] == [STEP, text("start", "t~2")]


def test_the_finish_of_an_attempt_that_says_nothing_else_is_kept() -> None:
    base = UIMessage("m", "assistant", [STEP_PART, SAID])
    given = {"type": "finish", "finishReason": "stop"}
    assert normalised(given, base=base)[-1] == given


@pytest.mark.parametrize(
    ("state", "fields", "taken"),
    [
        ("input-available", {}, {"output-available", "output-denied", "approval-request"}),
        ("approval-requested", {"approval": {"id": "b"}}, {"output-available", "output-denied", "approval-request"}),
        ("approval-responded", {"approval": {"id": "b", "approved": True}}, {"output-available"}),
        ("approval-responded", {"approval": {"id": "b", "approved": False}}, {"output-denied"}),
        ("output-available", {"output": 1}, {"output-available"}),
        ("output-error", {"errorText": "e"}, {"output-available"}),
        ("output-denied", {"approval": {"id": "b", "approved": False}}, set()),
    ],
)
def test_calls_of_the_base_take_only_what_they_may(state: str, fields: dict[str, Any], taken: set[str]) -> None:
    base = UIMessage("m", "assistant", [STEP_PART, part_of_call(state, **fields)])
    asked: dict[str, dict[str, Any]] = {
        "output-available": {"output": 1},
        "output-denied": {},
        "approval-request": {"approvalId": "a"},
    }
    out = {kind for kind, more in asked.items() if Normaliser("m", base=base).feed(tool(kind, **more))}
    assert out == taken
    assert not Normaliser("m", base=base).feed(tool("input-start", toolName="x"))


# -- properties ------------------------------------------------------------------------------------


def well_formed(chunks: list[Chunk]) -> bool:
    """Check the guarantees word by word, independently of the fold."""
    kinds = [chunk["type"] for chunk in chunks]
    open_parts: set[tuple[str, str]] = set()
    in_step = False
    for chunk in chunks:
        family, _, moment = chunk["type"].rpartition("-")
        if family in ("text", "reasoning") and chunk["type"] != "reasoning-file":
            part = (family, chunk["id"])
            assert in_step
            assert (part in open_parts) is (moment != "start"), chunk
            open_parts ^= {part} if moment != "delta" else set()
        if chunk["type"] == "start-step":
            assert not in_step
            in_step = True
        if chunk["type"] in ("finish-step", "finish"):
            assert not open_parts
            assert in_step is (chunk["type"] == "finish-step")
            in_step = False
    assert kinds.count("start") == kinds.count("finish") == 1
    return bool(kinds[0] == "start" and kinds[-1] == "finish")


@given(seeded())
def test_whatever_goes_in_a_well_formed_stream_comes_out(rng: Random) -> None:
    chunks = normalised(*hostile_sequence(rng))
    assert not chunks or well_formed(chunks)


@given(seeded())
def test_whatever_goes_in_what_comes_out_folds_and_leaves_nothing_open(rng: Random) -> None:
    fold = MessageFold("m")
    for chunk in normalised(*hostile_sequence(rng), newer=rng.random() < 0.5):
        fold.apply(chunk)
    assert fold.closing_chunks() == []


@given(seeded())
def test_normalising_twice_changes_nothing(rng: Random) -> None:
    newer = rng.random() < 0.5
    chunks = normalised(*hostile_sequence(rng), newer=newer)
    again = Normaliser("m", newer=newer)
    assert [*fed(again, *chunks), *again.finish()] == chunks


@given(seeded())
def test_a_good_servers_message_is_left_as_it_is(rng: Random) -> None:
    newer = rng.random() < 0.5
    given = [chunk for chunk in legal_sequence(rng, tidy=True, newer=newer) if chunk["type"] != "tool-input-error"]
    normaliser, fold, plain = Normaliser("m1", newer=newer), MessageFold("m1"), MessageFold("m1")
    for chunk in [*fed(normaliser, *given), *normaliser.finish()]:
        fold.apply(chunk)
    for chunk in given:
        plain.apply(chunk)
    assert fold.message() == plain.message()
    assert fold.finish_reason == plain.finish_reason
    assert normaliser.problems == []


@given(seeded())
def test_every_chunk_that_comes_out_is_one_that_ai_6_accepts(rng: Random) -> None:
    for chunk in normalised(*hostile_sequence(rng)):
        assert c.check_chunk(chunk) == chunk


# -- plain text ------------------------------------------------------------------------------------

PIECES = st.text(st.characters(exclude_categories=()), max_size=6)


@given(st.lists(PIECES | st.sampled_from([CALL, text("delta", delta="x"), STEP, FINISH]), max_size=12))
def test_text_that_flows_is_what_it_would_have_been_step_by_step(items: list[str | Chunk]) -> None:
    swift, plain = Normaliser("m"), Normaliser("m")
    for item in items:
        if isinstance(item, str):
            flowing = swift.encode_text(item)
            said = [flowing] if flowing is not None else [c.encode_chunk(chunk) for chunk in swift.text(item)]
            assert said == [c.encode_chunk(chunk) for chunk in plain.text(item)]
        else:
            assert swift.feed(item) == plain.feed(item)
    assert swift.finish() == plain.finish()


def test_text_flows_from_its_second_piece_on_and_not_after_something_else() -> None:
    normaliser = Normaliser("m")
    assert normaliser.encode_text("one") is None
    normaliser.text("one")
    assert normaliser.encode_text(" two") == b'{"type":"text-delta","id":"text","delta":" two"}'
    assert normaliser.encode_text("") is None
    normaliser.feed(CALL)
    assert normaliser.encode_text(" three") is None
