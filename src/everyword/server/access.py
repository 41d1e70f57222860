"""The one door, for sockets and HTTP alike: who may come in, and from which pages (I-14)."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

__all__ = ["Authorize", "Connecting", "Door", "Principal", "Reject", "why_not_local"]

log = logging.getLogger("everyword.server")

FORWARDING = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")

OPEN_ON_PURPOSE = (
    "unable to let you in; this server has no `authorize` and so serves this machine only, and the request {why}. "
    "To open it on purpose, pass one: Everyword(..., authorize=...)."
)


@dataclass(frozen=True, slots=True)
class Connecting:
    """Somebody at the door: the request, and which agent it is for.

    `path` leads on to a sub-agent, as (kind, name) pairs from the outermost; the agents on the way are asked later.
    """

    request: HTTPConnection
    agent: type
    name: str
    path: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who may come in. `id` is what limits are counted by; `claims` are yours.

    Who is `read_only` may watch, and changes nothing: no question, no stop, no answer to a tool, no clearing.
    """

    id: str
    claims: Mapping[str, Any] = field(default_factory=dict)
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class Reject:
    """Somebody who may not, and what they are told."""

    reason: str = "unable to let you in; you are not allowed to use this agent"
    status: int = 403


Authorize = Callable[[Connecting], Awaitable[Principal | Reject | None]]

LOCAL = Principal("local")


class Door:
    """Decides who comes in. Every request and every socket passes it before anything of an agent is touched."""

    def __init__(self, authorize: Authorize | None, origins: Sequence[str] | Literal["*"]) -> None:
        self._authorize = authorize
        self._origins: Sequence[str] | Literal["*"] = "*" if origins == "*" else _as_list(origins)

    def invite(self, origins: Sequence[str]) -> None:
        """Let pages of these origins in, too."""
        if self._origins != "*":
            self._origins = [*self._origins, *origins]

    def refuse_strangers(self, connection: HTTPConnection) -> Reject | None:
        """Without `authorize`, refuse whoever does not come from this machine, or comes by way of somebody else."""
        if self._authorize is not None:
            return None
        why = why_not_local(connection)
        return Reject(OPEN_ON_PURPOSE.format(why=why)) if why is not None else None

    async def admit(self, connecting: Connecting) -> Principal | Reject:
        """Ask `authorize`. What it does not let in by name stays outside; so does everybody while it fails."""
        if self._authorize is None:
            return LOCAL
        try:
            verdict = await self._authorize(connecting)
        except Exception:
            log.exception("`authorize` failed for %s %r; nobody was let in", connecting.agent.__name__, connecting.name)
            return Reject("unable to let you in; the server could not check who you are. Try again.", 500)
        if verdict is None:
            return Reject("unable to let you in; the server does not know you. Sign in and try again.", 401)
        return verdict

    def refuse_origin(self, connection: HTTPConnection) -> Reject | None:
        """Refuse pages of other sites that were not invited: their visitors' browsers would act for them."""
        origin = connection.headers.get("origin")
        if origin is None or self._is_same_origin(connection, origin) or self._is_invited(origin):
            return None
        return Reject(f"unable to serve pages of {origin}; add it to Everyword(..., origins=[...]) if it is yours")

    def cors_headers(self, connection: HTTPConnection) -> dict[str, str]:
        """Return what lets an invited page read the answer; nothing for everybody else."""
        origin = connection.headers.get("origin")
        if origin is None or not self._is_invited(origin):
            return {}
        if self._origins == "*":
            shared = {"access-control-allow-origin": "*"}
        else:
            shared = {
                "access-control-allow-origin": origin,
                "access-control-allow-credentials": "true",
                "vary": "Origin",
            }
        return {**shared, "access-control-expose-headers": "x-everyword-request, x-vercel-ai-ui-message-stream"}

    @staticmethod
    def preflight_headers(connection: HTTPConnection) -> dict[str, str]:
        """Return what a browser asks before it lets an invited page send the real request."""
        return {
            "access-control-allow-methods": "GET, POST, HEAD, OPTIONS",
            "access-control-allow-headers": connection.headers.get("access-control-request-headers", "*"),
            "access-control-max-age": "86400",
        }

    @staticmethod
    def _is_same_origin(connection: HTTPConnection, origin: str) -> bool:
        # The scheme is not compared: behind a proxy that ends TLS the two differ.
        return urlsplit(origin).netloc.lower() == connection.headers.get("host", "").lower()

    def _is_invited(self, origin: str) -> bool:
        if self._origins == "*":
            return True
        return any(_matches(pattern, origin) for pattern in self._origins)


def _as_list(origins: Sequence[str]) -> list[str]:
    return [origins] if isinstance(origins, str) else list(origins)


def _matches(pattern: str, origin: str) -> bool:
    """Tell whether an origin is the given one; `:*` at the end stands for any port, or none."""
    if not pattern.endswith(":*"):
        return pattern.rstrip("/").lower() == origin.lower()
    parts = urlsplit(origin)
    return f"{parts.scheme}://{parts.hostname or ''}" == pattern.removesuffix(":*").lower()


def why_not_local(connection: HTTPConnection) -> str | None:
    """Return why a request does not come from this machine, as the rest of a sentence; None when it does."""
    client = connection.client
    if client is None or not _is_loopback(client.host):
        return f"comes from {client.host if client is not None else 'an unknown address'}"
    host = connection.headers.get("host", "")
    if not _is_local_name(host):
        return f"asks for host {host!r}"
    forwarded = next((name for name in FORWARDING if name in connection.headers), None)
    return f"was forwarded ({forwarded})" if forwarded is not None else None


@lru_cache(maxsize=1024)
def _is_local_name(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name == "localhost" or name.endswith(".localhost") or _is_loopback(name)


@lru_cache(maxsize=1024)
def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
