"""Frames of a link: the same frames come out, however the bytes are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everyword.cluster.link_frames import DATA, HEADER, LONGEST_PAYLOAD, Frame, FrameParser, encode_frame
from everyword.errors import BadLinkFrame

FRAMES = st.lists(st.tuples(st.integers(0, 255), st.integers(0, 2**32 - 1), st.binary(max_size=200)), max_size=12)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Cut the data at these places, modulo its length."""
    at = sorted({place % (len(data) + 1) for place in places})
    return [data[first:last] for first, last in zip([0, *at], [*at, len(data)], strict=True)]


def parse_into(found: list[Frame], parser: FrameParser, portions: list[bytes]) -> None:
    for portion in portions:
        for frame in parser.feed(portion):
            found.append(frame)


def parsed(parser: FrameParser, portions: list[bytes]) -> list[Frame]:
    found: list[Frame] = []
    parse_into(found, parser, portions)
    return found


@given(FRAMES, st.lists(st.integers(0, 10_000), max_size=40))
def test_any_split_of_the_bytes_gives_the_same_frames(frames: list[Frame], places: list[int]) -> None:
    data = b"".join(encode_frame(*frame) for frame in frames)
    assert parsed(FrameParser(200), cut(data, places)) == frames


@given(FRAMES)
def test_single_bytes_give_the_same_frames(frames: list[Frame]) -> None:
    data = b"".join(encode_frame(*frame) for frame in frames)
    assert parsed(FrameParser(200), [bytes([each]) for each in data]) == frames


@given(FRAMES, st.lists(st.integers(0, 10_000), max_size=10), st.integers(201, 2**32 - 1))
def test_a_payload_that_is_too_long_is_refused_by_its_header(
    frames: list[Frame], places: list[int], length: int
) -> None:
    data = b"".join(encode_frame(*frame) for frame in frames)
    found: list[Frame] = []
    with pytest.raises(BadLinkFrame, match=f"a frame of {length} bytes"):
        parse_into(found, FrameParser(200), cut(data + HEADER.pack(length, DATA, 1), places))
    assert found == frames


def test_the_parts_of_a_payload_are_joined() -> None:
    assert encode_frame(DATA, 7, b"ab", b"", b"c") == encode_frame(DATA, 7, b"abc")


def test_an_incomplete_frame_is_all_that_is_held() -> None:
    parser = FrameParser()
    frame = encode_frame(DATA, 1, b"x" * LONGEST_PAYLOAD)
    for place in range(0, len(frame) - 1, 1000):
        assert list(parser.feed(frame[place : min(place + 1000, len(frame) - 1)])) == []
    assert len(parser._rest) == len(frame) - 1
    assert list(parser.feed(frame[-1:] + frame[:5])) == [(DATA, 1, b"x" * LONGEST_PAYLOAD)]
    assert bytes(parser._rest) == frame[:5]


def test_the_limit_may_change_between_two_frames() -> None:
    parser, data = FrameParser(3), encode_frame(DATA, 1, b"abc") + encode_frame(DATA, 1, b"abcd")
    found = []
    for frame in parser.feed(data):
        found.append(frame)
        parser.limit = 4
    assert [payload for _, _, payload in found] == [b"abc", b"abcd"]
