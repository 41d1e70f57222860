from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given

from everyword.codec.compact import compact, replay_from_fold
from everyword.messages.fold import MessageFold
from everyword.messages.message import UIMessage
from everyword.messages.normaliser import Normaliser
from tests.messages.sequences import Chunk, hostile_sequence, legal_sequence, seeded


def delta(name: str, piece: str, family: str = "text") -> Chunk:
    return {"type": f"{family}-delta", "id": name, "delta": piece}


def folded(chunks: list[Chunk]) -> MessageFold:
    fold = MessageFold("m")
    for chunk in chunks:
        fold.apply(chunk)
    return fold


def normalised(items: list[Any], *, newer: bool = False) -> list[Chunk]:
    normaliser = Normaliser("m", newer=newer)
    chunks = [chunk for item in items for chunk in normaliser.feed(item)]
    return [*chunks, *normaliser.finish()]


def test_neighbouring_deltas_become_one_with_the_last_index() -> None:
    chunks = [delta("a", "x"), delta("a", "y"), delta("a", "z")]
    assert compact(enumerate(chunks, 7)) == [(9, delta("a", "xyz"))]


def test_deltas_of_different_parts_and_kinds_stay_apart() -> None:
    chunks = [delta("a", "x"), delta("b", "y"), delta("a", "z"), delta("a", "r", "reasoning")]
    assert compact(enumerate(chunks)) == list(enumerate(chunks))


def test_pieces_of_a_tool_input_are_joined_too() -> None:
    pieces = [{"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": each} for each in ('{"a"', ":1}")]
    assert compact(enumerate(pieces)) == [(1, {**pieces[0], "inputTextDelta": '{"a":1}'})]


def test_the_newest_provider_metadata_of_a_run_is_kept() -> None:
    first = {**delta("a", "x"), "providerMetadata": {"p": {"n": 1}}}
    second = {**delta("a", "y"), "providerMetadata": {"p": {"n": 2}}}
    assert compact(enumerate([first, second, delta("a", "z")])) == [
        (2, {**delta("a", "xyz"), "providerMetadata": {"p": {"n": 2}}})
    ]


def test_a_transient_part_is_kept_and_parts_the_run() -> None:
    """P-23."""
    note = {"type": "data-note", "data": 1, "transient": True}
    chunks = [delta("a", "x"), note, delta("a", "y")]
    assert compact(enumerate(chunks)) == list(enumerate(chunks))


def test_nothing_compacts_to_nothing_and_the_given_chunks_stay_as_they_are() -> None:
    chunks = [delta("a", "x"), delta("a", "y")]
    compact(enumerate(chunks))
    assert compact([]) == []
    assert chunks == [delta("a", "x"), delta("a", "y")]


@given(seeded())
def test_a_compacted_rest_behind_any_cursor_folds_like_the_whole(rng: Random) -> None:
    """P-24."""
    chunks = normalised(hostile_sequence(rng), newer=rng.random() < 0.5)
    cursor = rng.randrange(len(chunks) + 1)
    rest = compact(list(enumerate(chunks))[cursor:])
    assert folded([*chunks[:cursor], *(chunk for _, chunk in rest)]).message() == folded(chunks).message()
    indices = [index for index, _ in rest]
    assert indices == sorted(set(indices))
    assert not chunks[cursor:] or indices[-1] == len(chunks) - 1


def without_answered_approvals(message: UIMessage) -> list[dict[str, Any]]:
    """Return the parts as a client has them that never heard of an approval (R-2)."""
    parts = []
    for part in message.parts:
        if "approval" in part and part["state"] != "approval-requested":
            part = {name: value for name, value in part.items() if name != "approval"}
        parts.append(part)
    return parts


@given(seeded())
def test_a_replay_and_what_follows_fold_like_the_whole(rng: Random) -> None:
    chunks = normalised(hostile_sequence(rng))
    cut = rng.randrange(len(chunks) + 1)
    replay = replay_from_fold(folded(chunks[:cut]))
    whole = folded(chunks).message()
    seen = folded([*replay, *chunks[cut:]]).message()
    assert without_answered_approvals(seen) == without_answered_approvals(whole)
    assert seen.metadata == whole.metadata


@given(seeded())
def test_a_replay_says_every_part_once(rng: Random) -> None:
    chunks = normalised(legal_sequence(rng))
    replay = replay_from_fold(folded(chunks[: rng.randrange(len(chunks) + 1)]))
    kinds = [chunk["type"] for chunk in replay]
    for family in ("text", "reasoning"):
        assert kinds.count(f"{family}-delta") <= kinds.count(f"{family}-start")
    assert replay[0]["type"] == "start"
    assert not any(chunk["type"] in ("finish-step", "finish") for chunk in replay)


def test_ten_thousand_deltas_replay_as_a_handful_of_chunks() -> None:
    start = [{"type": "start", "messageId": "m"}, {"type": "start-step"}, {"type": "text-start", "id": "a"}]
    fold = folded([*start, *(delta("a", f"{n} ") for n in range(10_000))])
    replay = replay_from_fold(fold)
    assert [chunk["type"] for chunk in replay] == ["start", "start-step", "text-start", "text-delta"]
    assert folded(replay).message() == fold.message()


def test_an_answered_approval_is_left_out_of_a_replay_and_an_open_one_is_not() -> None:
    call = {"type": "tool-input-available", "toolName": "x", "input": {}}
    chunks: list[Chunk] = [{"type": "start", "messageId": "m"}, {"type": "start-step"}]
    for name in ("open", "denied", "done"):
        chunks.append({**call, "toolCallId": name})
        chunks.append({"type": "tool-approval-request", "toolCallId": name, "approvalId": f"ask-{name}"})
    chunks.append({"type": "tool-output-denied", "toolCallId": "denied"})
    chunks.append({"type": "tool-output-available", "toolCallId": "done", "output": 1})
    requests = [c["toolCallId"] for c in replay_from_fold(folded(chunks)) if c["type"] == "tool-approval-request"]
    assert requests == ["open"]


def test_a_closed_part_never_takes_the_id_of_an_open_one() -> None:
    chunks: list[Chunk] = [{"type": "start", "messageId": "m"}, {"type": "text-start", "id": "part-1"}]
    chunks += [{"type": "text-start", "id": "z"}, {"type": "text-end", "id": "z"}]
    replay = replay_from_fold(folded(chunks))
    assert folded([*replay, delta("part-1", "more")]).message().parts[0]["text"] == "more"
