"""Signatures of links: a client with a link can read one content until the link expires, without a login."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Final

from ..ids import AgentId, Millis
from .base import BlobStore, pieces_of

__all__ = ["LinkSigner"]

KEYS: Final = "keys/"

READ_AGAIN: Final = 1000
"""Milliseconds after which a signature that fits no known key makes the signer read the keys again."""


class LinkSigner:
    """Signs and checks links. Without a key of the app's, it uses one that is kept beside the contents.

    Nodes that start at the same time may each store a key: all of them count, and the first by name signs. A node that
    has read the keys before another one stored its own reads them again when it meets a signature that it cannot check.
    """

    def __init__(self, store: BlobStore, key: bytes | None = None) -> None:
        self._store = store
        self._keys: Sequence[bytes] = [key] if key is not None else []
        self._is_given = key is not None
        self._read_again_at = 0

    async def sign(self, agent: AgentId, sha256: str, expires: int) -> str:
        """Return the query of a link that is valid until `expires`, in seconds since 1970."""
        if not self._keys:
            await self._load()
        return f"expires={expires}&signature={_signature(self._keys[0], agent, sha256, expires)}"

    async def is_valid(self, agent: AgentId, sha256: str, expires: str, signature: str, now: Millis) -> bool:
        """Return True if a link was signed with one of the keys and has not expired."""
        if not (expires.isascii() and expires.isdigit() and len(expires) < 13) or int(expires) * 1000 <= now:
            return False
        if not self._keys:
            await self._load()
        if self._is_signed(agent, sha256, int(expires), signature):
            return True
        if self._is_given or now < self._read_again_at:
            return False
        self._read_again_at = now + READ_AGAIN
        self._keys = await self._stored() or self._keys
        return self._is_signed(agent, sha256, int(expires), signature)

    def _is_signed(self, agent: AgentId, sha256: str, expires: int, signature: str) -> bool:
        return any(
            hmac.compare_digest(_signature(key, agent, sha256, expires).encode(), signature.encode())
            for key in self._keys
        )

    async def _load(self) -> None:
        keys = await self._stored()
        if not keys:
            await self._store.put(f"{KEYS}{secrets.token_hex(8)}", pieces_of(secrets.token_bytes(32)))
            keys = await self._stored()
        self._keys = keys

    async def _stored(self) -> list[bytes]:
        names = sorted([blob.key async for blob in self._store.list(KEYS)])
        return [b"".join([piece async for piece in self._store.read(name)]) for name in names]


def _signature(key: bytes, agent: AgentId, sha256: str, expires: int) -> str:
    return hmac.new(key, f"{agent}\n{sha256}\n{expires}".encode(), hashlib.sha256).hexdigest()
