"""Signatures of webhooks, by the Standard Webhooks convention: what the sender adds and what receivers verify."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from ..errors import UsageError, WebhookRefused

__all__ = ["ID", "SIGNATURE", "TIMESTAMP", "sign", "signing_keys", "verify_webhook"]

ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"

PREFIX: Final = "whsec_"
SHORTEST_KEY: Final = 24
"""Minimum length of a key in bytes, as the convention demands."""

MOST_SIGNATURES: Final = 16
"""Maximum number of signatures of one request that are compared."""


def signing_keys(secrets: str | Sequence[str]) -> list[bytes]:
    """Return the keys of one or several secrets.

    Raises:
        UsageError: there is none, or one is not `whsec_` and at least 24 bytes as base64.
    """
    given = [secrets] if isinstance(secrets, str) else list(secrets)
    if not given:
        raise UsageError("unable to use webhooks without a secret; give at least one")
    return [_key(each) for each in given]


def _key(secret: object) -> bytes:
    try:
        text = secret.removeprefix(PREFIX) if isinstance(secret, str) and secret.startswith(PREFIX) else ""
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) < SHORTEST_KEY:
        raise UsageError(
            f"unable to use the secret of a webhook; it must be {PREFIX!r} and at least {SHORTEST_KEY} bytes as base64"
        )
    return key


def sign(keys: Sequence[bytes], id: str, timestamp: int, body: bytes) -> str:
    """Return the value of the header `webhook-signature`: one signature per key."""
    return " ".join(f"v1,{_signature(key, id, str(timestamp), body)}" for key in keys)


def verify_webhook(
    headers: Mapping[str, str],
    body: bytes,
    secret: str | Sequence[str],
    *,
    tolerance: timedelta = timedelta(minutes=5),
) -> dict[str, Any]:
    """Return the content of a webhook that was signed with the secret, or with one of several. For receivers.

    Args:
        headers: The headers of the request; the case of their names does not matter.
        body: The body of the request, byte for byte: parse it afterwards.
        secret: The secret of the `Webhook`; several while it is replaced.
        tolerance: How far the time of the request may be from this machine's.

    Raises:
        WebhookRefused: a header is missing, no signature fits, the time is too far away, or the body is not a JSON
            object.
        UsageError: a secret cannot be used.
    """
    keys = signing_keys(secret)
    given = {name.lower(): value for name, value in headers.items() if name.lower() in (ID, TIMESTAMP, SIGNATURE)}
    missing = [name for name in (ID, TIMESTAMP, SIGNATURE) if not given.get(name)]
    if missing:
        raise WebhookRefused(f"unable to verify the webhook; the header {missing[0]} is missing")
    at = given[TIMESTAMP]
    if not (at.isascii() and at.isdecimal() and len(at) <= 12):
        raise WebhookRefused(f"unable to verify the webhook; {TIMESTAMP} is not a time")
    if abs(time.time() - int(at)) > tolerance.total_seconds():
        raise WebhookRefused("unable to verify the webhook; it was signed too long ago, or the clocks differ")
    offered = [each.removeprefix("v1,") for each in given[SIGNATURE].split(" ") if each.startswith("v1,")]
    wanted = [_signature(key, given[ID], at, body) for key in keys]
    # Every pair is compared, each in constant time.
    fits = [hmac.compare_digest(a.encode(), b.encode()) for a in offered[:MOST_SIGNATURES] for b in wanted]
    if not any(fits):
        raise WebhookRefused("unable to verify the webhook; no signature fits the secret")
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise WebhookRefused("unable to read the webhook; its body is not a JSON object") from None


def _signature(key: bytes, id: str, timestamp: str, body: bytes) -> str:
    signed = b"%b.%b.%b" % (id.encode(), timestamp.encode(), body)
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
