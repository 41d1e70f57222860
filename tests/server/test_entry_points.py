"""Sockets pass the same door as requests, and are told why when they do not get through."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed

from everyword.server import Connecting, Limits, Principal, Reject
from tests.server.kit import PATIENCE, chat, scripted, serving

REFUSED, TRY_LATER = 1008, 1013


async def _closed(url: str, path: str = "/agents/chat/ann", **headers: str) -> tuple[int | None, str]:
    """Connect and return with which code and reason the server closed, before it told anything."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with open_socket(url.replace("http", "ws") + path, additional_headers=named, proxy=None) as sock:
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(ConnectionClosed) as closed:
                await sock.recv()
        assert closed.value.rcvd is not None
        return closed.value.rcvd.code, closed.value.rcvd.reason


async def _nobody(connecting: Connecting) -> Principal | None:
    return Principal("ann") if connecting.request.query_params.get("token") == "sesame" else None


async def _refusing(connecting: Connecting) -> Reject:
    return Reject("ä" * 200, 402)


@pytest.mark.parametrize(
    ("options", "path", "headers", "sentence"),
    [
        ({}, "/agents/chat/ann", {"x_forwarded_for": "203.0.113.7"}, "unable to accept the request"),
        ({}, "/agents/chat/ann", {"origin": "https://evil.example"}, "unable to serve pages of"),
        ({}, "/agents/nobody/ann", {}, "unable to find an agent of kind 'nobody'"),
        ({}, "/elsewhere", {}, "unable to find this page"),
        ({"authorize": _nobody}, "/agents/chat/ann", {}, "the server does not know you"),
        ({"authorize": _refusing}, "/agents/chat/ann", {}, "ä" * 60),
    ],
)
async def test_a_socket_that_may_not_come_in_is_closed_for_good_with_a_sentence(
    options: dict[str, Any], path: str, headers: dict[str, str], sentence: str
) -> None:
    app = chat(scripted(["x"]), **options)
    async with serving(app) as url:
        code, reason = await _closed(url, path, **headers)
        assert code == REFUSED
        assert sentence in reason
        assert len((await app.start()).directory) == 0


async def test_an_admitted_socket_gets_the_identity_of_its_agent() -> None:
    async with serving(chat(scripted(["x"]), authorize=_nobody)) as url:
        address = url.replace("http", "ws") + "/agents/chat/ann?token=sesame"
        async with open_socket(address, proxy=None) as sock, asyncio.timeout(PATIENCE):
            while "cf_agent_identity" not in str(await sock.recv()):
                pass
            assert sock.close_code is None


async def test_a_socket_for_which_there_is_no_seat_is_asked_to_come_later() -> None:
    async with serving(chat(scripted(["x"]), limits=Limits(sockets_per_agent=0))) as url:
        code, reason = await _closed(url)
        assert code == TRY_LATER
        assert "which is the limit" in reason
