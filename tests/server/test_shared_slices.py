"""What many clients are sent alike is in memory once, and in slices."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.frames import Frame
from websockets.protocol import OPEN
from websockets.uri import parse_uri

from everyword.server.frame_encoding import piece_framed
from everyword.server.memory_budget import MemoryBudget
from everyword.server.shared_slices import SLICE, FramePiece, SharedSlice, SharedSlices, joined

texts = st.lists(st.integers(0, 3 * SLICE).map(lambda size: (b"%09d" % size * (size // 9 + 1))[:size]), max_size=8)


def slices_of(pieces: list[FramePiece]) -> list[int]:
    return [id(piece.slice) for piece in pieces]


@given(texts)
def test_frames_in_pieces_are_the_same_frames(frames: list[bytes]) -> None:
    assert list(joined(SharedSlices().slice_frames(list(frames)))) == frames


@given(texts)
def test_a_client_reads_fragments_as_the_messages_that_they_are(frames: list[bytes]) -> None:
    client = ClientProtocol(parse_uri("ws://nowhere/"), state=OPEN, max_size=None)
    pieces = SharedSlices().slice_frames(list(frames))
    for piece in pieces:
        client.receive_data(piece_framed(piece))
    assert client.parser_exc is None
    read: list[bytes] = []
    for event in client.events_received():
        assert isinstance(event, Frame)
        if event.opcode:
            read.append(b"")
        read[-1] += bytes(event.data)
    assert read == frames


@given(texts)
def test_no_slice_is_larger_than_a_write(frames: list[bytes]) -> None:
    pieces = SharedSlices().slice_frames(list(frames))
    assert all(sum(map(len, piece.slice.parts)) <= SLICE for piece in pieces)
    assert len(pieces) <= 2 * sum(map(len, frames)) // SLICE + len(frames)


def test_cutting_takes_the_frames_out_of_the_list() -> None:
    frames = [b"a" * SLICE * 2, b"b"]
    assert SharedSlices().slice_frames(frames) != []
    assert frames == []


def test_clients_that_are_sent_the_same_hold_the_same_slices() -> None:
    sharing = SharedSlices()
    text = "".join(f"word {number} " for number in range(400_000))
    replays = [sharing.slice_frames([b"start", json.dumps(text).encode(), b"end"]) for _ in range(50)]
    assert {tuple(slices_of(replay)) for replay in replays} == {tuple(slices_of(replays[0]))}
    assert len(sharing) == len(replays[0]) == (len(text) + 2) // SLICE + 3


def test_an_answer_that_grows_shares_all_but_its_end() -> None:
    sharing = SharedSlices()
    words = "".join(f"word {number} " for number in range(40_000)).encode()
    before, after = (sharing.slice_frames([b'{"body":"' + words[:size] + b'"}']) for size in (300_000, 310_000))
    assert slices_of(before)[:-1] == slices_of(after)[: len(before) - 1]
    assert len(before) == 5


def test_slices_are_forgotten_with_the_last_client_that_has_to_be_sent_them() -> None:
    sharing = SharedSlices()
    first, second = (sharing.slice_frames([b"x" * 3 * SLICE]) for _ in range(2))
    assert len(sharing) == 1
    del first
    assert len(sharing) == 1
    while second:
        second.pop()
    assert len(sharing) == 0


@given(texts)
def test_a_stream_in_slices_is_the_same_bytes(data: list[bytes]) -> None:
    sharing = SharedSlices()
    slices: list[SharedSlice] = sharing.slice_stream(data)
    assert b"".join(b"".join(each.parts) for each in slices) == b"".join(data)
    assert all(len(part) < 2 * SLICE for each in slices for part in each.parts)
    assert sharing.slice_stream(data) == slices


# -- budgets ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 60)), max_size=40))
def test_never_more_is_held_than_the_limit(growth: list[tuple[str, int]]) -> None:
    budget: MemoryBudget[str] = MemoryBudget(100)
    held: dict[str, int] = {}
    for holder, size in growth:
        held[holder] = size
        gone = budget.hold(holder, size)
        if gone is not None:
            assert held[gone] == max(held.values())
            del held[gone]
        assert budget.total == sum(held.values()) <= 100


def test_of_holders_as_large_the_newest_goes() -> None:
    budget: MemoryBudget[str] = MemoryBudget(100)
    assert [budget.hold(holder, 40) for holder in ("old", "middle", "new")] == [None, None, "new"]
    budget.release("old")
    budget.release("middle")
    assert budget.total == 0
