"""A node whose lease is over answers nothing from memory, from that moment on: before its own timer says so."""

from __future__ import annotations

import time
from unittest.mock import patch

from everyword import AIChatAgent, callable
from everyword.log.postgres import node_lease
from everyword.server import Everyword
from tests.server.kit import serving
from tests.server.sockets import socket

TRY_LATER = 1013


class Chat(AIChatAgent):
    calls = 0

    @callable
    async def count(self) -> int:
        type(self).calls += 1
        return self.calls


async def test_a_frame_that_comes_after_the_end_of_the_lease_is_not_answered(postgres_url: str) -> None:
    async with serving(Everyword([Chat], store=postgres_url)) as url, socket(url) as client:
        await client.send(type="rpc", id="first", method="count", args=[])
        await client.until(lambda frame: frame.get("id") == "first")
        # As after a pause of the process: frames are read in the same iteration of the loop in which the timer is due.
        with patch.object(node_lease, "_now", lambda: time.monotonic() + 1e9):
            await client.send(type="rpc", id="late", method="count", args=[])
            assert (await client.closed_after_frames())[0] == TRY_LATER
    assert Chat.calls == 1
