"""Webhooks: their settings, and the request that delivers a notification to one of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from .. import extras
from ..errors import UsageError
from .notification import TYPES, NotificationType
from .webhook_signatures import ID, SIGNATURE, TIMESTAMP, sign, signing_keys

if TYPE_CHECKING:
    import ssl

    import httpx

__all__ = ["Answer", "Webhook", "WebhookSender"]

PATIENCE: Final = 15.0
"""Seconds that a receiver has to answer."""

MOST_READ: Final = 64 * 1024
"""Maximum number of bytes of an answer that are read, so that the connection can be used again."""

MOST_CONNECTIONS: Final = 50
"""Connections to one receiver at a time."""

LONGEST_NAME: Final = 200

_is_posting: Final = ContextVar("everyword_posts_webhook", default=False)


def _is_loggable(record: logging.LogRecord) -> bool:
    """Keep the addresses of webhooks out of the log: httpx logs each request, and the path or query may be a secret."""
    del record
    return not _is_posting.get()


@dataclass(frozen=True, slots=True)
class Webhook:
    """A receiver of notifications: `NotificationOptions(webhooks=[Webhook(url, secret)])`.

    Args:
        url: Where notifications are posted to. Redirects are not followed.
        secret: `whsec_` and at least 24 random bytes as base64, which the receiver knows, too. While a secret is
            replaced, give the new one and the old one: requests are signed with both.
        events: What is posted; by default everything.
        name: Names the webhook in stored jobs, so that deliveries find it after its URL has changed; by default the
            host of the URL.
    """

    url: str = field(repr=False)
    secret: str | Sequence[str] = field(repr=False)
    events: Collection[NotificationType] = TYPES
    name: str = ""

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            host = parts.hostname if parts.scheme in ("http", "https") else None
        except (ValueError, AttributeError, TypeError):
            host = None
        if not host:
            raise UsageError("unable to use a webhook; its url must be text that begins with https:// or http://")
        signing_keys(self.secret)
        unknown = [each for each in self.events if each not in TYPES]
        if isinstance(self.events, str) or unknown or not self.events:
            raise UsageError(f"unable to use the webhook of {host}; its events must be some of {', '.join(TYPES)}")
        name: object = self.name
        if not isinstance(name, str) or len(name) > LONGEST_NAME:
            raise UsageError(f"unable to use the webhook of {host}; its name must be text of {LONGEST_NAME} characters")
        if not name:
            object.__setattr__(self, "name", host)


class Answer(NamedTuple):
    """The result of one request."""

    status: int | None
    """None if there was no answer."""
    problem: str = ""
    """Why there was no answer."""
    retry_after: int | None = None
    """Milliseconds that the receiver asks to wait."""


class _Channel(NamedTuple):
    """The connections to one receiver."""

    client: httpx.AsyncClient
    room: asyncio.Semaphore


class WebhookSender:
    """Posts to webhooks. `open` and `aclose` belong to the app's start and stop."""

    def __init__(self) -> None:
        self._channels: dict[str, _Channel] = {}
        """By name of the webhook: a receiver that does not answer takes no connections from the others."""
        self._tls: ssl.SSLContext | None = None

    def open(self) -> None:
        """Get ready.

        Raises:
            UsageError: httpx is missing.
        """
        try:
            import httpx
        except ImportError:
            raise extras.missing("httpx", "webhooks", "send webhooks") from None
        logging.getLogger("httpx").addFilter(_is_loggable)
        self._tls = httpx.create_ssl_context()

    async def aclose(self) -> None:
        """Close the connections."""
        channels, self._channels, self._tls = list(self._channels.values()), {}, None
        for channel in channels:
            await channel.client.aclose()

    async def post(self, webhook: Webhook, id: str, now: Callable[[], int], body: bytes) -> Answer:
        """Post one notification. It is signed when it is sent; `now` returns the time then, in seconds since 1970.

        The receiver has its time from then on, too: a request that is cut off because it waited for a connection would
        be a repeat.
        """
        channel = self._channel(webhook)
        try:
            async with asyncio.timeout(PATIENCE):
                await channel.room.acquire()
        except TimeoutError:
            return Answer(None, f"it did not answer {MOST_CONNECTIONS} others within {PATIENCE:g} seconds")
        try:
            return await _post(channel.client, webhook, id, now(), body)
        finally:
            channel.room.release()

    def _channel(self, webhook: Webhook) -> _Channel:
        import httpx

        assert self._tls is not None, "the app is running"
        channel = self._channels.get(webhook.name)
        if channel is None:
            limits = httpx.Limits(max_connections=MOST_CONNECTIONS, max_keepalive_connections=10)
            client = httpx.AsyncClient(timeout=PATIENCE, follow_redirects=False, limits=limits, verify=self._tls)
            channel = self._channels[webhook.name] = _Channel(client, asyncio.Semaphore(MOST_CONNECTIONS))
        return channel


async def _post(client: httpx.AsyncClient, webhook: Webhook, id: str, timestamp: int, body: bytes) -> Answer:
    import httpx

    headers = {
        "content-type": "application/json",
        "user-agent": "everyword",
        ID: id,
        TIMESTAMP: str(timestamp),
        SIGNATURE: sign(signing_keys(webhook.secret), id, timestamp, body),
    }
    answer: Answer | None = None
    quiet = _is_posting.set(True)
    try:
        async with asyncio.timeout(PATIENCE):
            async with client.stream("POST", webhook.url, content=body, headers=headers) as response:
                answer = Answer(response.status_code, "", _retry_after(response, timestamp))
                await _read_some(response)
    except TimeoutError:
        return answer or Answer(None, f"it did not answer within {PATIENCE:g} seconds")
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as exc:
        return answer or Answer(None, f"it could not be reached ({type(exc).__name__})")
    finally:
        _is_posting.reset(quiet)
    return answer


async def _read_some(response: httpx.Response) -> None:
    read = 0
    async for piece in response.aiter_raw():
        read += len(piece)
        if read > MOST_READ:
            return


def _retry_after(response: httpx.Response, now: int) -> int | None:
    given = response.headers.get("retry-after", "")
    if given.isascii() and given.isdecimal():
        return int(given[:9]) * 1000
    try:
        return max(int(parsedate_to_datetime(given).timestamp()) - now, 0) * 1000
    except (ValueError, TypeError, OverflowError):
        return None
