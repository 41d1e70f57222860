"""A real process is killed while it shares: links that were answered work, with their photos, revoked ones do not."""

from __future__ import annotations

import hashlib
from pathlib import Path

import httpx
import pytest

from everyword import Everyword
from tests.forked_processes import fork_process
from tests.server.killed_shares import PHOTO, Chat


def reader(app: Everyword) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


@pytest.mark.crash
async def test_links_that_were_answered_survive_and_revocations_do(tmp_path: Path) -> None:
    log, over = tmp_path / "log.db", set[str]()
    for life in range(6):
        child, created, revoked = fork_process("tests.server.killed_shares", str(log)), set[str](), set[str]()
        for _ in range(7 + 5 * life):
            word, token = child.read(until="").split()
            (created if word == "created" else revoked).add(token)
        child.kill()
        async with Everyword([Chat], store=str(log)) as app, reader(app) as client:
            found = {token: await app.shares.find(token) for token in created | revoked | over}
            for token, share in found.items():
                photo = await client.get(f"/shared/{token}/files/{hashlib.sha256(PHOTO).hexdigest()}")
                assert photo.status_code == (404 if share is None else 200)
                assert (photo.content == PHOTO) == (share is not None)
        assert {token for token in revoked | over if found[token] is not None} == set()
        # One may have been revoked right before the kill, without an answer.
        lost = {token for token in created - revoked if found[token] is None}
        assert len(lost) <= 1 and len(created - revoked - lost) >= 2
        over |= revoked
