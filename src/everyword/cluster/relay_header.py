"""The header of a relayed request or socket: its ASGI scope, as JSON.

A release ignores fields that it does not know, so a newer one may add some.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.types import Scope

from ..errors import BadLinkFrame
from ..ids import Incarnation

__all__ = ["FRAMES", "MOVES", "RELAYED", "RESPONSE", "RelayHeader", "header_of", "read_header", "scope_of"]

FRAMES: Final = "everyword.frames"
"""The ASGI extension that takes several frames in one message; `server/socket_transport.py` explains it."""

RELAYED: Final = "everyword.relayed"
"""The extension of a scope that was relayed: `attached` is what the edge gave to `relay`, `from` its incarnation.

A socket that another owner has served before has `resume` and `cursor`: its client is not to be greeted again. With
`write_at` texts are written without waiting, as with `FRAMES`, and say where they bring the client to.
"""

RESPONSE: Final = "websocket.http.response"
"""The extension with which a socket is refused by an HTTP response."""

MOVES: Final = "everyword.moves"
"""The key of `websocket.close` with which an owner gives its agent up: the client stays, and the next owner serves it.

A close without it is meant for the client, whatever its code: 1012 also ends the session of a principal.
"""

_PASSED_ON: Final = (RESPONSE, "tls")
"""Extensions of the edge's server that the relay carries. Others are not offered."""

Pairs = list[tuple[str, str]]


class RelayHeader(msgspec.Struct, frozen=True, omit_defaults=True, rename={"kind": "type"}):
    """A scope without the objects of its server. Header names and values are decoded as Latin-1."""

    kind: str
    path: str
    headers: Pairs
    raw_path: bytes | None = None
    query_string: bytes = b""
    root_path: str = ""
    scheme: str = "http"
    method: str = ""
    http_version: str = "1.1"
    client: tuple[str, int] | None = None
    server: tuple[str, int | None] | None = None
    subprotocols: list[str] = []
    asgi: dict[str, str] = {}
    extensions: dict[str, Any] = {}
    attached: bytes = b""
    resume: bytes = b""
    """Of a socket that another owner has served before: what that one left for the next."""
    cursor: int = 0
    """Where its client is."""


_decode: Final = msgspec.json.Decoder(RelayHeader).decode


def header_of(scope: Scope, attached: bytes, resume: bytes = b"", cursor: int = 0) -> bytes:
    """Return the header of a request or socket at the edge."""
    offered = scope.get("extensions") or {}
    client, server = scope.get("client"), scope.get("server")
    return msgspec.json.encode(
        RelayHeader(
            scope["type"],
            scope["path"],
            text_pairs(scope["headers"]),
            raw_path=scope.get("raw_path"),
            query_string=scope.get("query_string", b""),
            root_path=scope.get("root_path", ""),
            scheme=scope.get("scheme", "http"),
            method=scope.get("method", ""),
            http_version=scope.get("http_version", "1.1"),
            client=(client[0], client[1]) if client else None,
            server=(server[0], server[1]) if server else None,
            subprotocols=list(scope.get("subprotocols", ())),
            asgi=dict(scope.get("asgi") or {}),
            extensions={name: offered[name] for name in _PASSED_ON if name in offered},
            attached=attached,
            resume=resume,
            cursor=cursor,
        )
    )


def read_header(encoded: bytes) -> RelayHeader:
    """Read a header.

    Raises:
        BadLinkFrame: it is none.
    """
    try:
        header = _decode(encoded)
        if header.kind not in ("http", "websocket"):
            raise BadLinkFrame(f"unable to serve a relayed {header.kind!r}; it is neither HTTP nor a WebSocket")
        return header
    except msgspec.MsgspecError as exc:
        raise BadLinkFrame(f"unable to read the header of a relayed request; {exc}") from None


def scope_of(header: RelayHeader, peer: Incarnation) -> dict[str, Any]:
    """Return the scope of a relayed request at the owner."""
    scope: dict[str, Any] = {
        "type": header.kind,
        "asgi": header.asgi,
        "http_version": header.http_version,
        "scheme": header.scheme,
        "path": header.path,
        "query_string": header.query_string,
        "root_path": header.root_path,
        "headers": byte_pairs(header.headers),
        "client": header.client,
        "server": header.server,
        "state": {},
        "extensions": {**header.extensions, RELAYED: _relayed(header, peer)},
    }
    if header.raw_path is not None:
        scope["raw_path"] = header.raw_path
    if header.kind == "http":
        scope["method"] = header.method
    else:
        scope["subprotocols"] = header.subprotocols
    return scope


def _relayed(header: RelayHeader, peer: Incarnation) -> dict[str, Any]:
    return {"attached": header.attached, "from": peer, "resume": header.resume, "cursor": header.cursor}


def text_pairs(headers: Any) -> Pairs:
    """Return HTTP headers as text."""
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]


def byte_pairs(headers: Pairs) -> list[tuple[bytes, bytes]]:
    """Return HTTP headers as ASGI has them."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
