from __future__ import annotations

import json
from typing import Any

from everyword.client.protocol.outbox import ClientOutbox


def sent(outbox: ClientOutbox) -> list[Any]:
    frames = [json.loads(frame) for frame in outbox.frames_to_send()]
    return [frame.get("type") for frame in frames if frame.get("type") != "rpc"]


def test_frames_are_sent_once_and_in_order() -> None:
    outbox = ClientOutbox("m")
    outbox.post(type="a")
    outbox.command(type="b")
    outbox.keep('{"type": "c"}')
    outbox.question("r", type="d")
    assert sent(outbox) == ["a", "b", "c", "d"]
    assert sent(outbox) == []


def test_after_a_reconnect_unconfirmed_frames_come_before_kept_ones() -> None:
    outbox = ClientOutbox("m")
    outbox.keep('{"type": "kept"}')
    outbox.post(type="posted")
    outbox.command(type="command")
    outbox.question("r", type="question")
    outbox.disconnected()
    assert sent(outbox) == []
    outbox.connected()
    assert sent(outbox) == ["command", "question", "kept"]


def test_frames_that_wait_for_the_first_connection_are_sent_once() -> None:
    outbox = ClientOutbox("m")
    outbox.command(type="command")
    outbox.connected()
    assert sent(outbox) == ["command"]


def test_confirmed_frames_are_not_sent_again() -> None:
    outbox = ClientOutbox("m")
    mark = outbox.command(type="command")
    outbox.question("r", type="question")
    assert outbox.confirm(mark)
    assert outbox.confirm("r")
    assert outbox.is_confirmed(mark)
    assert not outbox.confirm("other")
    outbox.connected()
    assert sent(outbox) == []


def test_a_frame_posted_without_a_connection_is_dropped() -> None:
    outbox = ClientOutbox("m")
    outbox.disconnected()
    outbox.post(type="posted")
    outbox.connected()
    assert sent(outbox) == []
