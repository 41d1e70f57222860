"""What a client sends is counted before it is kept, and cut when it is too large."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN, Protocol, Side

from everyword.server.frame_scanner import END, FrameScanner

LIMIT = 10_000
MASK = b"\x11\x22\x33\x44"


def frame(data: bytes, opcode: int = 1, *, fin: bool = True) -> bytes:
    """Return a frame as a client sends it."""
    first, size = opcode | (0x80 if fin else 0), len(data)
    if size < 126:
        head = struct.pack("!BB", first, 0x80 | size)
    elif size < 65_536:
        head = struct.pack("!BBH", first, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", first, 0x80 | 127, size)
    return head + MASK + bytes(byte ^ MASK[place % 4] for place, byte in enumerate(data))


def walked(scanner: FrameScanner, data: bytes, cuts: list[int] | None = None) -> Iterator[bytes | str]:
    """Walk over data that comes in pieces; yield what is passed on, and the text of what was cut."""
    places = [0, *sorted(cuts or []), len(data)]
    for first, last in pairwise(places):
        piece, place = data[first:last], 0
        while place < len(piece):
            passed, place = scanner.scan(piece, place, most=3)
            yield passed
            if scanner.has_whole_oversized:
                yield scanner.take_oversized().text


def parsed(data: bytes) -> list[tuple[int, bytes, bool]]:
    parser = Protocol(Side.SERVER, state=OPEN, max_size=None)
    parser.receive_data(data)
    assert parser.parser_exc is None
    events = [event for event in parser.events_received() if isinstance(event, Frame)]
    return [(int(event.opcode), bytes(event.data), event.fin) for event in events]


messages = st.lists(st.binary(max_size=300).map(lambda data: data * 20), min_size=1, max_size=4)


@given(st.lists(messages, max_size=6), st.lists(st.integers(0, 30_000), max_size=8))
def test_frames_within_the_limit_are_passed_on_unchanged(sent: list[list[bytes]], cuts: list[int]) -> None:
    data = b""
    for fragments in sent:
        for number, fragment in enumerate(fragments):
            data += frame(fragment, 1 if number == 0 else 0, fin=number == len(fragments) - 1)
            data += frame(b"between", Opcode.PING)
    scanner = FrameScanner(limit=10**6)
    passed = list(walked(scanner, data, [min(cut, len(data)) for cut in cuts]))
    assert b"".join(each for each in passed if isinstance(each, bytes)) == data
    assert (scanner.announced, scanner.fragments, scanner.oversized) == (0, 0, None)
    assert scanner.controls == sum(map(len, sent))


@given(messages, st.integers(0, LIMIT - 1))
def test_what_was_passed_on_of_an_unfinished_message_is_counted(fragments: list[bytes], begun: int) -> None:
    scanner, before = FrameScanner(limit=10**6), sum(map(len, fragments))
    list(walked(scanner, frame(b"before") + b"".join(frame(part, fin=False) for part in fragments)))
    assert (scanner.passed, scanner.messages) == (before, 1)
    last = frame(b"x" * LIMIT, Opcode.CONT)
    cut = len(last) - LIMIT + begun
    list(walked(scanner, frame(b"?", Opcode.PING) + last[:cut]))
    assert (scanner.passed, scanner.messages) == (before + begun, 1)
    list(walked(scanner, last[cut:]))
    assert (scanner.passed, scanner.messages) == (0, 2)


@given(st.integers(LIMIT + 1, 5 * LIMIT), st.lists(st.integers(0, 60_000), max_size=8))
def test_of_a_frame_beyond_the_limit_the_ends_are_kept(size: int, cuts: list[int]) -> None:
    text = "".join(chr(97 + number % 23) for number in range(size)).encode()
    data = frame(b"before") + frame(text) + frame(b"after")
    scanner = FrameScanner(LIMIT)
    passed = list(walked(scanner, data, [min(cut, len(data)) for cut in cuts]))
    assert [each for each in passed if isinstance(each, str)] == [(text[:END] + text[-END:]).decode()]
    assert b"".join(each for each in passed if isinstance(each, bytes)) == frame(b"before") + frame(b"after")


def test_fragments_are_cut_as_soon_as_they_are_too_large_together() -> None:
    scanner = FrameScanner(LIMIT)
    first, second, third = frame(b"a" * 6000, fin=False), frame(b"b" * 6000, 0, fin=False), frame(b"c" * 6000, 0)
    assert scanner.scan(first, 0, 10) == (first, len(first))
    assert (scanner.oversized, scanner.announced, scanner.fragments) == (None, 6000, 1)
    ping = frame(b"?", Opcode.PING)
    assert scanner.scan(second + ping, 0, 10) == (ping, len(second) + len(ping))
    assert scanner.oversized is not None and scanner.oversized.is_begun and not scanner.has_whole_oversized
    assert scanner.scan(third, 0, 10) == (b"", len(third))
    assert scanner.has_whole_oversized
    cut = scanner.take_oversized()
    assert (cut.size, cut.head, cut.tail) == (18_000, b"b" * END, b"c" * END)


def test_a_size_is_known_before_the_first_byte_of_it_comes() -> None:
    scanner = FrameScanner(LIMIT)
    header = struct.pack("!BBQ", 0x81, 0xFF, 2**40) + MASK
    assert scanner.scan(header[:5], 0, 10) == (b"", 5)
    assert scanner.scan(header[5:], 0, 10) == (b"", len(header) - 5)
    assert scanner.oversized is not None and scanner.oversized.size == 2**40


@pytest.mark.parametrize("most", [1, 7])
def test_no_more_frames_are_walked_over_at_once_than_asked_for(most: int) -> None:
    scanner, data = FrameScanner(LIMIT), frame(b"", fin=False) + frame(b"", 0, fin=False) * 20
    passed, place = scanner.scan(data, 0, most)
    assert (len(parsed(passed)), scanner.fragments, place) == (most, most, len(passed))
