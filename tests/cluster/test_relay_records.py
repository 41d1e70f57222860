"""Records of a relay: whatever is cut is the same when it is put together again."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everyword.cluster.relay_records import (
    BYTES,
    BYTES_PART,
    TEXT,
    TEXT_PART,
    TEXTS,
    MessageJoiner,
    body_records,
    close_of,
    fitting,
    packed,
    part_records,
    piece_records,
    text_records,
    unpacked,
)
from everyword.cluster.streams import LONGEST_RECORD
from everyword.errors import BadLinkFrame

# Short texts, and texts around the sizes at which they are cut.
SIZES = st.one_of(
    st.integers(0, 100),
    st.integers(LONGEST_RECORD - 9, LONGEST_RECORD + 9),
    st.integers(2 * LONGEST_RECORD - 2, 3 * LONGEST_RECORD),
)
TEXTS_OF_ANY_SIZE = st.lists(st.builds(lambda size, letter: letter * size, SIZES, st.sampled_from([b"a", b"b"])))


def texts_of(records: Any) -> list[bytes]:
    """Read records as the other end does; each must fit into a frame of the link."""
    joiner, found = MessageJoiner(10**9), []
    for record in map(b"".join, records):
        assert len(record) <= LONGEST_RECORD + 2
        if record[:1] == TEXT:
            found.append(record[1:])
        elif record[:1] == TEXTS:
            found += unpacked(record)
        elif (whole := joiner.add(record)) is not None:
            found.append(whole)
    return found


@given(TEXTS_OF_ANY_SIZE)
def test_texts_of_any_size_arrive_as_they_were(texts: list[bytes]) -> None:
    assert texts_of(text_records(list(texts))) == texts


class Slice(NamedTuple):
    parts: tuple[bytes, ...]


class Piece(NamedTuple):
    slice: Slice
    is_first: bool = True
    is_last: bool = True


@given(TEXTS_OF_ANY_SIZE)
def test_pieces_of_the_server_arrive_as_frames(texts: list[bytes]) -> None:
    pieces: list[Any] = []
    for text in texts:
        parts = [text[at : at + LONGEST_RECORD] for at in range(0, len(text), LONGEST_RECORD)] or [b""]
        last = len(parts) - 1
        pieces += [Piece(Slice((part,)), at == 0, at == last) for at, part in enumerate(parts)]
    assert texts_of(piece_records(pieces)) == texts
    assert pieces == []


def test_very_many_empty_frames_of_one_piece_fit_into_records() -> None:
    texts = [b""] * 100_000
    assert texts_of(piece_records([Piece(Slice(tuple(texts)))])) == texts


@given(st.lists(st.binary(max_size=50), min_size=1))
def test_what_fits_is_one_record(texts: list[bytes]) -> None:
    assert fitting(texts) == len(texts)
    record = b"".join(packed(texts))
    assert (unpacked(record) if len(texts) > 1 else [record[1:]]) == texts


@given(SIZES)
def test_bytes_of_any_size_arrive_as_they_were(size: int) -> None:
    joiner, data = MessageJoiner(10**9), b"\xff" * size
    records = [b"".join(record) for record in part_records(BYTES, BYTES_PART, data)]
    if records[0][:1] == BYTES:
        assert records == [BYTES + data]
    else:
        assert [whole for record in records if (whole := joiner.add(record)) is not None] == [data]


@given(SIZES, st.booleans())
def test_a_body_of_any_size_says_at_its_end_whether_more_follows(size: int, more: bool) -> None:
    records = [b"".join(record) for record in body_records(b"x" * size, more)]
    assert b"".join(record[2:] for record in records) == b"x" * size
    assert [record[1] for record in records] == [1] * (len(records) - 1) + [int(more)]


def test_a_message_that_is_too_long_is_refused_before_it_is_whole() -> None:
    joiner = MessageJoiner(100)
    assert joiner.add(TEXT_PART + b"\1" + b"x" * 60) is None
    with pytest.raises(BadLinkFrame, match="more than 100 bytes"):
        joiner.add(TEXT_PART + b"\0" + b"x" * 60)


@pytest.mark.parametrize("payload", [b"", b"null", b"[]", b'{"code":"x"}', b"\xff"])
def test_an_end_that_says_nothing_is_1006(payload: bytes) -> None:
    assert close_of(payload).code == 1006
