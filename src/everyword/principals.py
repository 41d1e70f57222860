"""Principals: the user, service or device that a request comes from, and that code runs for (R-35)."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Raw

from . import events
from .errors import UsageError
from .events import ABSENT, Identity
from .ids import Millis

__all__ = ["LOCAL", "Principal", "act_for", "acting_as", "acting_for"]

LONGEST_ID: Final = 512
LONGEST_NAME: Final = 512
MOST_CLAIMS: Final = 4096
"""Most bytes of claims, as JSON: they are stored with every turn."""


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated client. Limits are counted by its `id`, a non-empty string.

    `name` is for display, and for the model if the agent sets `name_speakers`. `claims` are for your own code: JSON of
    at most 4 KiB, stored with each request, never sent to clients. After `expires_at` (an aware datetime, or seconds
    since 1970 as in a token's `exp`) requests are refused and sockets closed; turns that were accepted before continue.

    A `read_only` client may watch but not change anything: it cannot ask questions, stop turns, answer tool calls, set
    the state or create agents. It may call only methods that are marked with `@callable_method(read_only=True)`.
    `on_request` receives only its GET, HEAD and OPTIONS requests, and `on_message` nothing unless the agent has
    `read_only_may_send = True`.
    """

    id: str
    name: str | None = field(default=None, kw_only=True)
    claims: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    read_only: bool = field(default=False, kw_only=True)
    expires_at: datetime | float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        given: object = self.id
        if not isinstance(given, str) or not given or not _is_storable(given, LONGEST_ID):
            raise UsageError(
                f"unable to create a Principal with the id {reprlib.repr(given)}; pass a string of 1 to {LONGEST_ID} "
                "characters"
            )
        name: object = self.name
        if name is not None and (not isinstance(name, str) or not _is_storable(name, LONGEST_NAME)):
            raise UsageError(
                f"unable to create a Principal with the name {reprlib.repr(name)}; pass a string of at most "
                f"{LONGEST_NAME} characters"
            )
        _encode_claims(self.claims)
        _expiry(self.expires_at)

    @property
    def expires(self) -> Millis | None:
        """The expiry in milliseconds since 1970, or None."""
        return _expiry(self.expires_at)

    @property
    def identity(self) -> Identity:
        """The stored form of the principal."""
        claims = _encode_claims(self.claims) if self.claims else ABSENT
        return Identity(self.id, self.name, claims, self.read_only)

    @classmethod
    def of(cls, identity: Identity) -> Principal:
        """Return the principal of a stored identity. The expiry is not stored."""
        claims = msgspec.json.decode(bytes(identity.claims)) or {}
        return cls(identity.id, name=identity.name, claims=claims, read_only=identity.read_only)


def _is_storable(text: str, most: int) -> bool:
    return len(text) <= most and not any("\ud800" <= letter <= "\udfff" for letter in text)


def _encode_claims(claims: object) -> Raw:
    remedy = f"pass a dict of JSON values of at most {MOST_CLAIMS} bytes"
    if not isinstance(claims, Mapping):
        raise UsageError(f"unable to create a Principal with the claims {reprlib.repr(claims)}; {remedy}")
    try:
        encoded = msgspec.json.encode(dict(claims))
    except (TypeError, ValueError) as exc:
        raise UsageError(f"unable to create a Principal; its claims are not JSON ({exc}). Please {remedy}") from None
    if len(encoded) > MOST_CLAIMS:
        raise UsageError(f"unable to create a Principal; its claims have {len(encoded)} bytes. Please {remedy}")
    return Raw(encoded)


def _expiry(given: object) -> Millis | None:
    if given is None:
        return None
    if isinstance(given, datetime) and given.tzinfo is not None:
        return Millis(round(given.timestamp() * 1000))
    if isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given):
        return Millis(round(given * 1000))
    raise UsageError(
        f"unable to create a Principal that expires at {reprlib.repr(given)}; pass a datetime with a time zone, or "
        "seconds since 1970"
    )


LOCAL: Final = Principal(events.LOCAL.id)
"""The principal of local clients of a server without `authorize`."""


# -- the principal that code runs for -------------------------------------------------------------------------------

_acting: ContextVar[Identity | None] = ContextVar("everyword_acting_for", default=None)
"""Set by everything that runs an agent's code. A task inherits it from the task that started it."""


def acting_for() -> Identity | None:
    """Return the principal that the current code runs for; None in a script or a schedule of the class."""
    return _acting.get()


def act_for(identity: Identity | None) -> None:
    """Set the principal that the rest of this task runs for, or None."""
    _acting.set(identity)


@contextmanager
def acting_as(identity: Identity | None) -> Iterator[None]:
    """Set the principal inside the block, and restore the previous one afterwards."""
    before = _acting.set(identity)
    try:
        yield
    finally:
        _acting.reset(before)
