"""The principal that travels with a relayed client: the node that let the client in has identified it."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from starlette.types import Scope

from ..cluster.relay_header import RELAYED
from ..events import Identity
from ..principals import Principal

__all__ = ["encode_principal", "relayed_principal"]


class _LetIn(msgspec.Struct, frozen=True, omit_defaults=True):
    """What travels with a relayed client: who it is."""

    identity: Identity
    expires: int | None = None


_decode = msgspec.json.Decoder(_LetIn).decode


def encode_principal(principal: Principal) -> bytes:
    """Return the principal for the node that serves the client."""
    return msgspec.json.encode(_LetIn(principal.identity, principal.expires))


def relayed_principal(scope: Scope) -> Principal | None:
    """Return the principal of a client that another node has let in; None for a client that no node has identified."""
    attached: bytes = ((scope.get("extensions") or {}).get(RELAYED) or {}).get("attached", b"")
    if not attached:
        return None
    let_in = _decode(attached)
    found = Principal.of(let_in.identity)
    return found if let_in.expires is None else replace(found, expires_at=let_in.expires / 1000)
