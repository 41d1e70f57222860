"""The people of the demo and their sessions: a signed cookie that names the user. Use your own login instead."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from starlette.requests import HTTPConnection
from starlette.responses import Response

from everyword import Action, Approval, Principal

__all__ = ["PEOPLE", "Person", "authenticate", "authorize", "derive_secret"]
__all__ += ["end_sessions", "person_of", "sign_in", "sign_out"]

COOKIE: Final = "support_desk"
LIFETIME: Final = 7 * 24 * 3600
"""Seconds after which a user signs in again."""

FOR_STAFF: Final = frozenset({"list", "read", "connect", "answer"})
"""What staff may do in conversations of customers: see them, and answer calls."""

FOR_CUSTOMERS: Final = FOR_STAFF | {"ask", "stop", "manage", "delete", "share"}
"""Only customers share: who else may read a conversation is for them to decide."""


@dataclass(frozen=True)
class Person:
    """A user of the demo."""

    id: str
    name: str
    role: Literal["customer", "staff"]
    about: str


PEOPLE: Final = {
    person.id: person
    for person in (
        Person("ann", "Ann", "customer", "bought a kettle and a lamp"),
        Person("bob", "Bob", "customer", "waits for a desk"),
        Person("mia", "Mia", "staff", "works at the desk"),
        Person("sam", "Sam", "staff", "works at the desk"),
    )
}


# -- the cookie --------------------------------------------------------------------------------------------------------


def _read_secret() -> bytes:
    """Return the key of the signatures: from the environment, or from a file that is made at the first start."""
    if given := os.environ.get("DESK_SECRET"):
        return given.encode()
    path = Path("support_desk.secret")
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(32), encoding="ascii")
    return path.read_bytes()


_SECRET: Final = _read_secret()
_ENDED: Final = Path("support_desk.ended")
"""How often the sessions of people were ended. A product has that in its database."""


def derive_secret(purpose: str) -> str:
    """Return a secret for another purpose, in the form that webhooks take."""
    return "whsec_" + base64.b64encode(hmac.digest(_SECRET, purpose.encode(), "sha256")).decode()


def _signature(text: str) -> str:
    return hmac.new(_SECRET, text.encode(), hashlib.sha256).hexdigest()


def sign_in(response: Response, person: Person) -> None:
    """Set the cookie of a session: who, until when, which series of sessions, and a signature."""
    text = f"{person.id}.{int(time.time()) + LIFETIME}.{_read_ended().get(person.id, 0)}"
    value = f"{text}.{_signature(text)}"
    response.set_cookie(COOKIE, value, max_age=LIFETIME, httponly=True, samesite="lax")  # with HTTPS: secure=True


def sign_out(response: Response) -> None:
    """Remove the cookie."""
    response.delete_cookie(COOKIE)


def end_sessions(person: Person) -> None:
    """Refuse the cookies that the person has by now, in every browser. It stays so after a crash."""
    ended = _read_ended()
    ended[person.id] = ended.get(person.id, 0) + 1
    written = _ENDED.with_suffix(".new")
    written.write_text(json.dumps(ended), encoding="ascii")
    written.replace(_ENDED)


def _read_ended() -> dict[str, int]:
    """Return how often the sessions of each person were ended."""
    ended: dict[str, int] = json.loads(_ENDED.read_text(encoding="ascii")) if _ENDED.exists() else {}
    return ended


def _session(request: HTTPConnection) -> tuple[Person, int] | None:
    text, _, signature = request.cookies.get(COOKIE, "").rpartition(".")
    if not hmac.compare_digest(signature.encode(), _signature(text).encode()):
        return None
    user, until, series = [*text.split("."), "0"][:3]  # cookies of an earlier release have no series
    expires, is_current = int(until), int(series) == _read_ended().get(user, 0)
    return (PEOPLE[user], expires) if user in PEOPLE and is_current and expires > time.time() else None


def person_of(request: HTTPConnection) -> Person | None:
    """Return the user that is signed in."""
    session = _session(request)
    return session[0] if session is not None else None


# -- the hooks of everyword --------------------------------------------------------------------------------------------


def authenticate(request: HTTPConnection) -> Principal | None:
    """Identify a client by its cookie; None is a 401."""
    session = _session(request)
    if session is None:
        return None
    person, expires = session
    return Principal(person.id, name=person.name, claims={"roles": [person.role]}, expires_at=expires)


def authorize(principal: Principal, action: Action, kind: str, name: str, approval: Approval | None) -> bool:
    """Let customers use their own conversations, and staff see all of them and answer what is for staff."""
    is_staff = "staff" in principal.claims["roles"]
    if approval is not None and is_staff != ("staff" in approval.approvers):
        return False  # customers do not approve their own refunds, and staff does not decide where they live
    if is_staff:
        return action in FOR_STAFF
    return action in FOR_CUSTOMERS and name.startswith(f"{principal.id}-")  # no id may begin with another one and "-"
