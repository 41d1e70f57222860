"""Sealed cursors: they point to a conversation that `authorize` hides, and clients cannot read them.

A cursor is the place of the last conversation that was looked at. If the client may not see it, the cursor is sealed:
otherwise it would tell the name of the conversation, and when it changed. All nodes of a store open it. In a store of
one process it is valid until the process ends.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from typing import Final

from ..errors import BadInput
from ..log.nodes import NodeMembership

__all__ = ["SealedCursors"]

SEALED: Final = "~"
"""The prefix of a sealed cursor."""

NONCE: Final = 16
TAG: Final = 16

BLOCK: Final = 128
"""Cursors are padded to multiples of it, so that their length says little about a name."""


class SealedCursors:
    """Seals and opens cursors, for one app."""

    def __init__(self) -> None:
        self._secret: bytes | None = None

    async def seal(self, cursor: str, nodes: NodeMembership | None) -> str:
        """Return a cursor that only `open` can read."""
        secret, nonce = await self._shared(nodes), secrets.token_bytes(NONCE)
        text = cursor.encode()
        hidden = _xor(text.ljust(-(-len(text) // BLOCK) * BLOCK), secret, nonce)
        sealed = base64.urlsafe_b64encode(nonce + _tag(secret, nonce + hidden) + hidden)
        return SEALED + sealed.decode().rstrip("=")

    async def open(self, cursor: str | None, nodes: NodeMembership | None) -> str | None:
        """Return the cursor that was sealed; another one as it is.

        Raises:
            BadInput: it was sealed by another store or process, or changed.
        """
        if cursor is None or not cursor.startswith(SEALED):
            return cursor
        try:
            given = cursor.removeprefix(SEALED).encode("ascii", "replace")
            sealed = base64.b64decode(given + b"=" * (-len(given) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            sealed = b""
        nonce, tag, hidden = sealed[:NONCE], sealed[NONCE : NONCE + TAG], sealed[NONCE + TAG :]
        secret = await self._shared(nodes)
        if not hmac.compare_digest(tag, _tag(secret, nonce + hidden)):
            raise BadInput(
                f"unable to use {cursor[:80]!r}; it is not a cursor, or an old one. Get the first page again"
            )
        return _xor(hidden, secret, nonce).decode().rstrip()

    async def _shared(self, nodes: NodeMembership | None) -> bytes:
        if self._secret is None:
            self._secret = await nodes.shared_secret() if nodes is not None else secrets.token_bytes(32)
        return self._secret


def _xor(text: bytes, secret: bytes, nonce: bytes) -> bytes:
    key = hmac.digest(secret, b"everyword.cursor.text" + nonce, "sha256")
    stream = hashlib.shake_256(key).digest(len(text))
    return bytes(a ^ b for a, b in zip(text, stream, strict=True))


def _tag(secret: bytes, sealed: bytes) -> bytes:
    return hmac.digest(secret, b"everyword.cursor.tag" + sealed, "sha256")[:TAG]
