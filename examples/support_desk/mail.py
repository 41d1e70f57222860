"""Mails to people who are not there, and the webhooks that another service would get: both end on a page of the demo.

Replace `Outbox.add` by your mail service, and `receive` by the service that wants the webhooks.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from everyword import Everyword, Notification, verify_webhook

from .people import PEOPLE, Person, derive_secret

__all__ = ["HOOK_SECRET", "OUTBOX", "RECEIVED", "Mail", "forget", "notify", "receive"]

T = TypeVar("T")

MOST: Final = 200
HOOK_SECRET: Final = derive_secret("webhooks")


@dataclass(frozen=True)
class Mail:
    """A mail that was sent."""

    id: str
    about: str | None
    """The customer whose conversation it is about."""
    to: str
    subject: str
    text: str
    link: str
    at: float


class _Newest(OrderedDict[str, T]):
    """The newest items by id. Adding one again changes nothing: notifications may be repeated."""

    def add(self, id: str, item: T) -> None:
        self.setdefault(id, item)
        while len(self) > MOST:
            self.popitem(last=False)


OUTBOX: Final[_Newest[Mail]] = _Newest()
RECEIVED: Final[_Newest[dict[str, Any]]] = _Newest()
"""The webhooks that arrived."""


async def notify(agents: Everyword, notification: Notification, url: str) -> None:
    """Mail a notification to the people who should know and are not there."""
    here = {who.id for who in notification.connected}
    asked, link = notification.approval, f"{url}/#/c/{notification.name}"
    customer = PEOPLE.get(notification.owner or "")
    to = [customer] if customer is not None else []
    subject = notification.title or "Your conversation"
    if asked is None:
        if notification.status == "aborted":
            return  # the customer stopped it
        text = notification.preview or "We could not answer. Please ask again."
    else:
        known = await agents.approvals.get(asked.id)
        if known is None or known.status != "waiting":
            return
        subject, text = f"Please approve: {asked.summary or asked.tool}", f"Risk: {asked.risk or 'not known'}"
        if "staff" in known.approvers:
            to, link = [person for person in PEOPLE.values() if person.role == "staff"], asked.url or link
    for person in to:
        if person.id not in here:
            _send(notification, person, subject, text, link)


def _send(notification: Notification, person: Person, subject: str, text: str, link: str) -> None:
    id = f"{notification.id}/{person.id}"
    OUTBOX.add(id, Mail(id, notification.owner, person.id, subject, text, link, time.time()))


def receive(headers: Mapping[str, str], body: bytes) -> None:
    """Take a webhook.

    Raises:
        WebhookRefused: the signature is wrong, or too old.
    """
    notification = verify_webhook(headers, body, HOOK_SECRET)
    RECEIVED.add(notification["id"], notification)


def forget(person: str) -> int:
    """Delete the mails to a person, and what others were told about its conversations; return how many mails it had."""
    own = [mail for mail in OUTBOX.values() if mail.to == person]
    for id in [id for id, mail in OUTBOX.items() if person in (mail.to, mail.about)]:
        del OUTBOX[id]
    for id in [id for id, told in RECEIVED.items() if told["data"]["owner"] == person]:
        del RECEIVED[id]
    return len(own)
