"""Who asks: the person, service or device that a request was found to come from, and for whom code runs (R-35)."""

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
"""Bytes of claims, as JSON: they are stored with every turn."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A client that is known. Limits are counted by its `id`, a text that is not empty.

    `name` is for people, and for the model if the agent has `name_speakers`. `claims` are yours: JSON of at most 4 KiB,
    stored with what is asked, never sent to clients. After `expires_at` (an aware datetime, or seconds since 1970 as in
    a token's `exp`) requests are refused and sockets closed; what was asked goes on.

    A `read_only` client may watch and changes nothing: it asks no question, stops no turn, answers no tool call, sets
    no state and makes no agent. It calls only methods that are marked with `@callable_method(read_only=True)`,
    `on_request` gets only its GET, HEAD and OPTIONS, and `on_message` nothing unless the agent has
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
                f"unable to make a Principal with the id {reprlib.repr(given)}; give a text of 1 to {LONGEST_ID} "
                "characters"
            )
        name: object = self.name
        if name is not None and (not isinstance(name, str) or not _is_storable(name, LONGEST_NAME)):
            raise UsageError(
                f"unable to make a Principal with the name {reprlib.repr(name)}; give a text of at most {LONGEST_NAME} "
                "characters"
            )
        _encode_claims(self.claims)
        _expiry(self.expires_at)

    @property
    def expires(self) -> Millis | None:
        """When it expires, in milliseconds since 1970."""
        return _expiry(self.expires_at)

    @property
    def identity(self) -> Identity:
        """What is stored of it."""
        claims = _encode_claims(self.claims) if self.claims else ABSENT
        return Identity(self.id, self.name, claims, self.read_only)

    @classmethod
    def of(cls, identity: Identity) -> Principal:
        """Return the principal that was stored; when it expires is not."""
        claims = msgspec.json.decode(bytes(identity.claims)) or {}
        return cls(identity.id, name=identity.name, claims=claims, read_only=identity.read_only)


def _is_storable(text: str, most: int) -> bool:
    return len(text) <= most and not any("\ud800" <= letter <= "\udfff" for letter in text)


def _encode_claims(claims: object) -> Raw:
    cure = f"give a dict of JSON values, at most {MOST_CLAIMS} bytes of it"
    if not isinstance(claims, Mapping):
        raise UsageError(f"unable to make a Principal with the claims {reprlib.repr(claims)}; {cure}")
    try:
        encoded = msgspec.json.encode(dict(claims))
    except (TypeError, ValueError) as exc:
        raise UsageError(f"unable to make a Principal; its claims are not JSON ({exc}). Please {cure}") from None
    if len(encoded) > MOST_CLAIMS:
        raise UsageError(f"unable to make a Principal; its claims are {len(encoded)} bytes. Please {cure}")
    return Raw(encoded)


def _expiry(given: object) -> Millis | None:
    if given is None:
        return None
    if isinstance(given, datetime) and given.tzinfo is not None:
        return Millis(round(given.timestamp() * 1000))
    if isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given):
        return Millis(round(given * 1000))
    raise UsageError(
        f"unable to make a Principal that expires at {reprlib.repr(given)}; give a datetime with a time zone, or "
        "seconds since 1970"
    )


LOCAL: Final = Principal(events.LOCAL.id)
"""Whoever uses a server that has no `authorize`, from its own machine."""


# -- for whom code runs ---------------------------------------------------------------------------------------------

_acting: ContextVar[Identity | None] = ContextVar("everyword_acting_for", default=None)
"""Whatever runs an agent's code sets it: a task inherits it from the one that started it."""


def acting_for() -> Identity | None:
    """Return for whom the code that runs works; None when it is nobody: a script, or a schedule of the class."""
    return _acting.get()


def act_for(identity: Identity | None) -> None:
    """Let the rest of this task work for somebody, or for nobody."""
    _acting.set(identity)


@contextmanager
def acting_as(identity: Identity | None) -> Iterator[None]:
    """Let the block work for somebody: for code that others call, and that goes on to work for them afterwards."""
    before = _acting.set(identity)
    try:
        yield
    finally:
        _acting.reset(before)
