"""Signatures of webhooks: what receivers accept and refuse."""

from __future__ import annotations

import base64
import time
from datetime import timedelta
from typing import Any

import pytest

from everyword import verify_webhook
from everyword.errors import UsageError, WebhookRefused
from everyword.server.webhook_signatures import sign, signing_keys

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = f"whsec_{base64.b64encode(b'another secret of 24 bytes').decode()}"
BODY = b'{"test": 2432232314}'


def headers(secret: str | list[str] = SECRET, *, age: int = 0, body: bytes = BODY) -> dict[str, str]:
    at = int(time.time()) - age
    signature = sign(signing_keys(secret), "msg_1", at, body)
    return {"Webhook-Id": "msg_1", "Webhook-Timestamp": str(at), "Webhook-Signature": signature}


def test_a_signature_is_that_of_the_convention() -> None:
    # Computed with the package `standardwebhooks` 1.1.0.
    signed = sign(signing_keys(SECRET), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, BODY)
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_receiver_gets_the_content() -> None:
    assert verify_webhook(headers(), BODY, SECRET) == {"test": 2432232314}


def test_a_secret_can_be_replaced_at_either_end_first() -> None:
    assert verify_webhook(headers([OTHER, SECRET]), BODY, SECRET)
    assert verify_webhook(headers(SECRET), BODY, [OTHER, SECRET])


def test_signatures_of_other_versions_are_passed_over() -> None:
    given = headers()
    given["Webhook-Signature"] = f"v1a,xyz v2,äöü {given['Webhook-Signature']}"
    assert verify_webhook(given, BODY, SECRET)


@pytest.mark.parametrize("missing", ["Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"])
def test_a_header_that_is_missing_is_named(missing: str) -> None:
    given = headers()
    del given[missing]
    with pytest.raises(WebhookRefused, match=missing.lower()):
        verify_webhook(given, BODY, SECRET)


@pytest.mark.parametrize(
    ("signed", "changed", "body", "why"),
    [
        ({}, {}, BODY + b" ", "no signature"),
        ({"secret": OTHER}, {}, BODY, "no signature"),
        ({}, {"Webhook-Id": "msg_2"}, BODY, "no signature"),
        ({}, {"Webhook-Signature": "v1,"}, BODY, "no signature"),
        ({}, {"Webhook-Signature": "ü"}, BODY, "no signature"),
        ({}, {"Webhook-Timestamp": "soon"}, BODY, "is not a time"),
        ({}, {"Webhook-Timestamp": "9" * 5000}, BODY, "is not a time"),
        ({"age": 3600}, {}, BODY, "too long ago"),
        ({"age": -3600}, {}, BODY, "clocks differ"),
        ({"body": b"[1]"}, {}, b"[1]", "is not a JSON object"),
        ({"body": b"{"}, {}, b"{", "is not a JSON object"),
    ],
)
def test_what_was_not_signed_now_with_the_secret_is_refused(
    signed: dict[str, Any], changed: dict[str, str], body: bytes, why: str
) -> None:
    given = headers(**signed) | changed
    with pytest.raises(WebhookRefused, match=why):
        verify_webhook(given, body, SECRET, tolerance=timedelta(minutes=30))


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_short", "whsec_ü" * 9, SECRET.removeprefix("whsec_"), []])
def test_a_secret_that_cannot_be_one_is_a_mistake_of_the_developer(secret: str | list[str]) -> None:
    with pytest.raises(UsageError, match="secret"):
        verify_webhook(headers(), BODY, secret)
