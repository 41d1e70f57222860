"""Access control for sockets and HTTP: which clients, and pages of which sites, are admitted (I-14)."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

from starlette.requests import HTTPConnection
from starlette.types import Scope

from ..errors import UsageError
from ..ids import AgentId
from ..runtime.directory import Directory
from .permissions import Permissions, Reject
from .refusals import NOT_LOCAL

__all__ = ["NOTHING_TO_WATCH", "AccessPolicy", "can_be_watched", "why_not_local"]

log = logging.getLogger("everyword.server")

FORWARDING = frozenset({"forwarded", "via", "x-real-ip", "cf-connecting-ip", "true-client-ip", "x-client-ip"})
"""Headers that a proxy adds to a forwarded request. Headers that begin with `X-Forwarded` count as well."""

ANY_SITE = "*"
ANY_SITE_WITHOUT_AUTHORIZE = (
    "unable to let pages of every site in without `authorize`; any page that is open on this machine could use the "
    'agents. Pass Everyword(..., authorize=...), or list the sites: origins=["https://app.example"]'
)

FROM_CREDENTIALS = ("session", "user", "auth")
"""Keys that Starlette's middleware adds to the scope, derived from cookies or from `Authorization`."""

LONGEST_HOST = 300
SHOWN_ORIGIN = 100


NOTHING_TO_WATCH = Reject("unable to find this agent; it does not exist yet, and you may only watch", 404)


class AccessPolicy:
    """Refuses clients by their address and origin, before `authenticate` and `authorize` are called.

    Raises:
        UsageError: `origins` has `"*"`, and there is no `authorize`.
    """

    def __init__(self, permissions: Permissions, origins: Sequence[str]) -> None:
        self.permissions = permissions
        self._takes_any_site = False
        self._listed: list[str] = []
        self.invite([origins] if isinstance(origins, str) else origins)

    def invite(self, origins: Sequence[str]) -> None:
        """Admit pages of these origins, too."""
        if ANY_SITE in origins:
            if not self.permissions.are_given:
                raise UsageError(ANY_SITE_WITHOUT_AUTHORIZE)
            self._takes_any_site = True
        self._listed += [origin for origin in origins if origin != ANY_SITE]

    @property
    def has_authorize(self) -> bool:
        """True if there is an `authorize`. Without one, requests that seem to come from this machine are admitted."""
        return self.permissions.are_given

    def refuse_at_sight(self, connection: HTTPConnection) -> Reject | None:
        """Refuse a request if that can be decided without `authorize`."""
        return self.refuse_strangers(connection) or _refuse_malformed(connection) or self.refuse_origin(connection)

    def refuse_strangers(self, connection: HTTPConnection) -> Reject | None:
        """Without `authorize`, refuse requests that do not come from this machine, or were forwarded."""
        if self.permissions.are_given:
            return None
        why = why_not_local(connection)
        return Reject(NOT_LOCAL.format(why=why)) if why is not None else None

    def refuse_origin(self, connection: HTTPConnection) -> Reject | None:
        """Refuse pages of other sites that are not in `origins`: a visitor's browser would act for the page."""
        origin = _origin_of(connection)
        if origin is None or _is_same_origin(connection, origin) or self._is_invited(origin):
            return None
        shown = origin[:SHOWN_ORIGIN]
        return Reject(f"unable to serve pages of {shown}; add it to Everyword(..., origins=[...]) if it is yours")

    def without_credentials(self, scope: Scope) -> Scope:
        """Return the scope; without cookies and passwords if the page is admitted only because of `"*"`.

        A browser adds cookies and passwords by itself, to requests of any page. A bearer token is added by the page.
        """
        if not self._takes_any_site:
            return scope
        connection = HTTPConnection(scope)
        origin = _origin_of(connection)
        if origin is None or _is_same_origin(connection, origin) or self._is_listed(origin):
            return scope
        kept = [(name, value) for name, value in scope["headers"] if not _is_added_by_browser(name, value)]
        if len(kept) == len(scope["headers"]):
            return scope
        return {**{name: scope[name] for name in scope if name not in FROM_CREDENTIALS}, "headers": kept}

    def cors_headers(self, connection: HTTPConnection) -> dict[str, str]:
        """Return the headers that let a page of `origins` read the response.

        A request that gets none of them gets `vary`: an `<img>` sends no Origin, and a browser that keeps the photo
        would otherwise use this response for a script of the same page, and refuse it there.
        """
        origin = _origin_of(connection)
        shared = {"vary": "Origin"} if self._listed or self._takes_any_site else {}
        if origin is None or not self._is_invited(origin):
            return shared
        shared["access-control-allow-origin"] = ANY_SITE
        if self._is_listed(origin):
            shared |= {"access-control-allow-origin": origin, "access-control-allow-credentials": "true"}
        return {**shared, "access-control-expose-headers": "x-everyword-request, x-vercel-ai-ui-message-stream"}

    @staticmethod
    def preflight_headers(connection: HTTPConnection) -> dict[str, str]:
        """Return the headers of the response to a preflight request of a page of `origins`."""
        return {
            "access-control-allow-methods": "GET, POST, PATCH, DELETE, HEAD, OPTIONS",
            "access-control-allow-headers": connection.headers.get("access-control-request-headers", "*"),
            "access-control-max-age": "86400",
        }

    def _is_invited(self, origin: str) -> bool:
        return self._takes_any_site or self._is_listed(origin)

    def _is_listed(self, origin: str) -> bool:
        return any(_matches(pattern, origin) for pattern in self._listed)


async def can_be_watched(directory: Directory, agent: AgentId) -> bool:
    """Tell whether an agent is stored or loaded. A read-only client cannot create one."""
    return directory.peek(agent) is not None or await directory.store.has(agent)


def _origin_of(connection: HTTPConnection) -> str | None:
    given = connection.headers.getlist("origin")
    return ", ".join(given) if given else None  # several Origin headers match no origin


def _is_same_origin(connection: HTTPConnection, origin: str) -> bool:
    # The scheme is not compared: behind a proxy that ends TLS the two differ.
    host, parts = connection.headers.get("host", "").lower(), _split(origin)
    return bool(host) and parts is not None and parts.netloc.lower() == host


def _matches(pattern: str, origin: str) -> bool:
    """Tell whether an origin matches; `:*` at the end of the pattern matches any port, or none."""
    if not pattern.endswith(":*"):
        return pattern.rstrip("/").lower() == origin.rstrip("/").lower()
    parts = _split(origin)
    return parts is not None and f"{parts.scheme}://{parts.hostname}" == pattern.removesuffix(":*").lower()


def _split(origin: str) -> SplitResult | None:
    """Return the parts of an origin; None if it is not a URL, for example `null`."""
    try:
        parts = urlsplit(origin)
        _ = parts.port  # raises ValueError if the port is not a number
    except ValueError:
        return None
    return parts if parts.scheme else None


def _is_added_by_browser(name: bytes, value: bytes) -> bool:
    match name.lower():
        case b"cookie":
            return True
        case b"authorization":
            return not value.strip().lower().startswith(b"bearer ")
        case _:
            return False


def _refuse_malformed(connection: HTTPConnection) -> Reject | None:
    """Refuse a Host, an Origin or a query that cannot be parsed: code of the app would fail on it."""
    hosts, origin = connection.headers.getlist("host"), _origin_of(connection)
    if len(hosts) > 1 or not all(_is_readable_host(host) for host in hosts):
        return Reject("unable to read the Host header; it is not a host with or without a port", 400)
    if origin is not None and origin != "null" and _split(origin) is None:
        return Reject('unable to read the Origin header; it is neither an origin nor "null"', 400)
    if not connection.scope.get("query_string", b"").isascii():
        return Reject("unable to read the query of the URL; percent-encode what is not ASCII", 400)
    return None


def _is_readable_host(host: str) -> bool:
    if len(host) > LONGEST_HOST or not host.isprintable() or any(letter in host for letter in " /?#@\\"):
        return False
    parts = _split(f"http://{host}")
    return parts is not None and (parts.hostname is not None or not host)


def why_not_local(connection: HTTPConnection) -> str | None:
    """Return why a request does not come from this machine, as the end of a sentence; None if it does."""
    client = connection.client
    if client is None or not _is_loopback(client.host):
        return f"comes from {client.host if client is not None else 'an unknown address'}"
    host = connection.headers.get("host", "")
    if len(host) > LONGEST_HOST or not _is_local_name(host):
        return f"asks for host {host[:LONGEST_HOST]!r}"
    names = connection.headers.keys()
    forwarded = next((name for name in names if name in FORWARDING or name.startswith("x-forwarded")), None)
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
