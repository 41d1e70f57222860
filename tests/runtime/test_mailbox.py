"""Chunks on their way to the actor: together where they can be, never out of order, never without bound."""

from __future__ import annotations

import asyncio

import pytest

from everyword.core.commands import CancelTurns, EmitChunks, Emitted
from everyword.errors import AgentStopped
from everyword.ids import Attempt, TurnId
from everyword.runtime.mailbox import Envelope, Mailbox, Query


def emit(*bodies: bytes, turn: int = 1, attempt: int = 1) -> EmitChunks:
    return EmitChunks(TurnId(turn), Attempt(attempt), [Emitted(body) for body in bodies])


def offer(mailbox: Mailbox, emit: EmitChunks) -> bool:
    return mailbox.offer(emit.turn, emit.attempt, emit.chunks)


def taken(mailbox: Mailbox) -> list[tuple[int, int, list[bytes]] | str]:
    mail = mailbox.take(100)
    assert isinstance(mail, list)
    return [
        (letter.command.turn, letter.command.attempt, [chunk.body for chunk in letter.command.chunks])
        if isinstance(letter.command, EmitChunks)
        else type(letter.command).__name__
        for letter in mail
    ]


async def test_chunks_of_one_attempt_that_wait_travel_together() -> None:
    mailbox = Mailbox()
    for body in (b"a", b"b", b"c"):
        assert offer(mailbox, emit(body))
    assert taken(mailbox) == [(1, 1, [b"a", b"b", b"c"])]
    assert offer(mailbox, emit(b"d"))
    assert taken(mailbox) == [(1, 1, [b"d"])]


async def test_chunks_never_pass_what_came_between_them() -> None:
    mailbox = Mailbox()
    offer(mailbox, emit(b"a"))
    mailbox.post(Envelope(CancelTurns()))
    offer(mailbox, emit(b"b"))
    offer(mailbox, emit(b"c", attempt=2))
    offer(mailbox, emit(b"d", turn=2))
    assert taken(mailbox) == [(1, 1, [b"a"]), "CancelTurns", (1, 1, [b"b"]), (1, 2, [b"c"]), (2, 1, [b"d"])]


async def test_chunks_with_a_waiting_caller_are_not_joined_by_others() -> None:
    mailbox = Mailbox()
    mailbox.post(Envelope(emit(b"a"), asyncio.get_running_loop().create_future()))
    offer(mailbox, emit(b"b"))
    assert taken(mailbox) == [(1, 1, [b"a"]), (1, 1, [b"b"])]


async def test_an_inquiry_is_not_passed_either() -> None:
    mailbox = Mailbox()
    offer(mailbox, emit(b"a"))
    mailbox.post(Query(lambda state: None, asyncio.get_running_loop().create_future()))
    offer(mailbox, emit(b"b"))
    assert taken(mailbox) == [(1, 1, [b"a"])]
    assert isinstance(mailbox.take(100), Query)
    assert taken(mailbox) == [(1, 1, [b"b"])]


async def test_there_is_room_for_so_many_chunks_and_then_again_when_some_were_taken() -> None:
    mailbox = Mailbox(capacity=1)
    assert offer(mailbox, emit(b"a")) and offer(mailbox, emit(b"b"))
    assert not offer(mailbox, emit(b"c"))
    waiting = asyncio.create_task(mailbox.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    assert taken(mailbox) == [(1, 1, [b"a", b"b"])]
    await waiting
    assert offer(mailbox, emit(b"c"))


async def test_a_closed_mailbox_takes_no_chunks_and_blocks_no_caller() -> None:
    mailbox = Mailbox(capacity=1)
    offer(mailbox, emit(b"a"))
    mailbox.close()
    await mailbox.room()
    with pytest.raises(AgentStopped):
        offer(mailbox, emit(b"b"))
    assert taken(mailbox) == [(1, 1, [b"a"])]
