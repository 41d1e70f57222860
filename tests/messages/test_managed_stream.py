"""What a managed stream is made of, and what it folds to."""

from __future__ import annotations

from everyword.ids import Millis
from everyword.messages.managed_stream import (
    ManagedChunkEvent,
    decode_chunk_event,
    encode_chunk_event,
    fold_managed_stream,
)


def folded(*bodies: bytes) -> list[tuple[int, str]]:
    return [(chunk.index, chunk.content) for chunk in fold_managed_stream((Millis(1), body) for body in bodies).chunks]


def test_a_piece_comes_back_as_it_was_said() -> None:
    assert decode_chunk_event(encode_chunk_event(3, 'a "b"\n', 2)) == ManagedChunkEvent(3, 'a "b"\n', 2)
    assert decode_chunk_event(encode_chunk_event(3, None, 2)) == ManagedChunkEvent(3, None, 2)
    assert decode_chunk_event(encode_chunk_event(0, "\ud83d", 0)) == ManagedChunkEvent(0, "\ufffd", 0)


def test_a_body_of_another_kind_of_stream_is_passed_over() -> None:
    for body in (b'{"type":"text-delta"}', b"\xff", b"7", b'["a"]', b'"text"'):
        assert decode_chunk_event(body) is None
        assert folded(body, encode_chunk_event(0, "a", 0)) == [(0, "a")]


def test_chunks_are_in_the_order_of_their_indexes_and_the_first_of_an_index_counts() -> None:
    assert folded(encode_chunk_event(2, "c", 0), encode_chunk_event(0, "a", 0), encode_chunk_event(2, "again", 0)) == [
        (0, "a"),
        (2, "c"),
    ]


def test_a_cut_takes_back_everything_from_its_index_on() -> None:
    said = [encode_chunk_event(place, letter, 0) for place, letter in enumerate("abc")]
    assert folded(*said, encode_chunk_event(1, None, 1)) == [(0, "a")]
    assert folded(*said, encode_chunk_event(1, None, 1), encode_chunk_event(1, "B", 1)) == [(0, "a"), (1, "B")]
    assert fold_managed_stream((Millis(1), body) for body in [*said, encode_chunk_event(1, None, 1)]).restarts == 1
