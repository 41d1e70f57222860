"""What the edge keeps of a socket has a limit, whatever the client and the owner send."""

from __future__ import annotations

import json
from typing import Any

import pytest

from everyword.cluster.kept_socket import (
    MESSAGE_COST,
    MOST_BYTES,
    MOST_BYTES_UNREPORTED,
    MOST_HELD,
    KeptSocket,
)
from everyword.cluster.relay_records import Progress
from everyword.cluster.streams import RECORD_COST

CANCEL = {"type": "websocket.receive", "text": json.dumps({"type": "cf_agent_chat_request_cancel", "id": "r"})}
EMPTY = {"type": "websocket.receive", "text": ""}


def kept(**progress: Any) -> KeptSocket:
    """A socket whose owner has reported once."""
    socket = KeptSocket()
    socket.update(Progress(**{"cursor": 5, "resume": b"view", **progress}))
    return socket


def binary(size: int) -> dict[str, Any]:
    return {"type": "websocket.receive", "bytes": b"x" * size}


@pytest.mark.parametrize(
    "message",
    [EMPTY, binary(0), binary(20_000), {"type": "websocket.receive", "text": "x" * 1000}],
    ids=["empty", "no bytes", "bytes", "text"],
)
@pytest.mark.parametrize("is_reported", [True, False])
def test_messages_that_are_never_decided_take_bounded_memory(message: dict[str, Any], is_reported: bool) -> None:
    socket = kept() if is_reported else KeptSocket()
    limit = MOST_BYTES if is_reported else MOST_BYTES_UNREPORTED
    size = len(message.get("text") or "") + len(message.get("bytes") or b"")
    most = 0
    for _ in range(10_000):
        socket.sent(message)
        most = max(most, len(socket.undecided()))
    assert most * (size + MESSAGE_COST) <= limit
    assert socket.undecided() == [] and not socket.can_move


def test_a_text_outside_of_ascii_counts_what_it_takes_in_memory() -> None:
    socket = kept()
    for _ in range(30):
        socket.sent({"type": "websocket.receive", "text": "\N{PARTY POPPER}" * 10_000})
    assert socket.undecided() == []


def test_a_socket_with_too_many_messages_can_move_again_when_all_are_decided() -> None:
    socket, count = kept(), MOST_BYTES // MESSAGE_COST + 10
    for _ in range(count):
        socket.sent(CANCEL)
    socket.update(Progress(cursor=6, taken=count - 1))
    assert not socket.can_move, "one is not decided, and not kept"
    socket.sent(CANCEL)
    socket.update(Progress(cursor=6, taken=count))
    assert not socket.can_move
    socket.update(Progress(cursor=7, taken=count + 1))
    assert socket.can_move and socket.undecided() == []
    socket.sent(CANCEL)
    assert socket.undecided() == [CANCEL] and socket.can_move


def test_the_next_owner_counts_the_messages_that_it_gets_from_one() -> None:
    socket = kept()
    for _ in range(5):
        socket.sent(CANCEL)
    socket.update(Progress(cursor=6, taken=3))
    socket.moved()
    assert len(socket.undecided()) == 2
    socket.sent(CANCEL)
    socket.update(Progress(cursor=7, taken=2))
    assert len(socket.undecided()) == 1


def test_many_short_records_are_not_held_without_limit() -> None:
    socket = kept()
    socket.update(Progress(is_open=True))
    count = sum(socket.hold(b"t") for _ in range(MOST_HELD))
    assert count == MOST_HELD // (RECORD_COST + 1)
    assert not socket.can_move, "the client may have some of them"
