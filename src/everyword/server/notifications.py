"""The settings of an app for notifications: receivers, delay, texts."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from urllib.parse import quote, urlsplit

from ..errors import UsageError
from ..runtime.app_rules import AppRules
from .list_requests import APPROVALS
from .notification import Notification
from .webhooks import Webhook

__all__ = ["NotificationOptions"]

LONGEST_DELAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class NotificationOptions:
    """Notifications of turns that ended and of calls that wait for an approval, while no one watches the conversation.

    `Everyword(..., notifications=NotificationOptions(webhooks=[Webhook(url, secret)], notify=hook))`. Each receiver is
    told at least once, by a durable job of its own; `Notification.id` tells repeats apart.

    Args:
        webhooks: Where notifications are posted to. Needs httpx: install the extra `webhooks`.
        notify: An async function that tells a person, for example by mail or push. It is called again if it raises.
        delay: The time between an event and the look at who is connected: a page that is being reloaded counts as
            watching.
        even_if_watched: Whether to tell events of conversations that a principal is connected to, too.
        public_url: The address at which clients reach this app, such as "https://chat.example.com". With it, the
            notification of an approval has the URL of the page that answers it.
        include_texts: Whether notifications have titles, previews and summaries. Without them, receivers learn ids,
            names of tools and of principals.
    """

    webhooks: Sequence[Webhook] = ()
    notify: Callable[[Notification], Awaitable[None]] | None = None
    delay: timedelta = timedelta(seconds=5)
    even_if_watched: bool = False
    public_url: str | None = None
    include_texts: bool = True

    def __post_init__(self) -> None:
        names = [each.name for each in self.webhooks]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f"unable to use two webhooks that are named {twice!r}; give each a name of its own")
        hook: object = self.notify
        is_async = inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(getattr(hook, "__call__", None))  # noqa: B004
        if hook is not None and not is_async:
            raise UsageError("unable to use `notify`; it must be an async function of one notification")
        if not self.webhooks and hook is None:
            raise UsageError("unable to notify; give `webhooks`, `notify` or both")
        if not timedelta(0) <= self.delay <= LONGEST_DELAY:
            raise UsageError(f"unable to notify after {self.delay}; give a delay of 0 to 24 hours")
        if self.public_url is not None:
            url = urlsplit(self.public_url)
            if url.scheme not in ("http", "https") or not url.netloc or url.query or url.fragment:
                raise UsageError('unable to use `public_url`; give an address such as "https://chat.example.com"')

    def apply(self, rules: AppRules) -> None:
        """Tell the runtime what it needs of these settings."""
        rules.has_notifications = True
        rules.notification_delay = self.delay_millis

    @property
    def delay_millis(self) -> int:
        return round(self.delay.total_seconds() * 1000)

    def approval_url(self, id: str) -> str | None:
        """Return the address of the page that answers an approval; None without `public_url`."""
        if self.public_url is None:
            return None
        return f"{self.public_url.rstrip('/')}{APPROVALS}/{quote(id, safe='')}"
