"""The page of an approval, for links in mails: the call and two buttons. Opening it changes nothing."""

from __future__ import annotations

import html
import re
import secrets
from importlib.resources import files
from string import Template
from typing import Final

from starlette.responses import HTMLResponse, Response

from ..agents import Approval, Participant
from ..transcripts.safe_text import shown_json
from .permissions import Reject

__all__ = ["approval_page"]

_UNABLE: Final = re.compile(r"unable to [^;]*; ")

_PAGE: Final = Template((files(__package__) / "approval_page.html").read_text(encoding="utf-8"))

_DIRECTIONS: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that change the direction of a text: an argument must not be able to show another one than it is, nor a
summary, which is made of arguments."""

_SETTLED: Final = {
    "approved": "This call was approved",
    "denied": "This call was denied",
    "expired": "The time to approve this call is over",
}


def approval_page(approval: Approval | None, refused: Reject | None) -> Response:
    """Return the page of an approval; without one, or if the reader may not answer it, the page says why."""
    nonce = secrets.token_urlsafe(16)
    may_answer = approval is not None and approval.status == "waiting" and refused is None
    heading = _heading(approval, refused)
    title = f"Allow {approval.tool}?" if approval is not None and may_answer else heading
    text = _PAGE.substitute(
        nonce=nonce,
        title=html.escape(title),
        question=heading,
        body=_body(approval) if approval is not None else "",
        note=html.escape(_sentence(refused.reason)) if refused is not None else "",
        hidden="" if may_answer else "hidden",
    )
    policy = f"default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'"
    headers = {
        "content-security-policy": f"{policy}; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
        "cache-control": "no-store",
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }
    return HTMLResponse(
        text, 200 if approval is not None else (refused.status if refused is not None else 404), headers
    )


def _heading(approval: Approval | None, refused: Reject | None) -> str:
    if approval is not None:
        return _SETTLED.get(approval.status, "Allow this call?" if refused is None else "This call waits for approval")
    unseen = {401: "Sign in to see this approval", 403: "You may not see this approval"}
    return unseen.get(refused.status, "Nothing to approve") if refused is not None else "Nothing to approve"


def _body(approval: Approval) -> str:
    shown = shown_json(approval.input)
    facts = {
        "Tool": approval.tool,
        "Risk": approval.risk,
        "Conversation": f"{approval.kind}/{approval.name}",
        "Asked by": _name(approval.asked_by),
        "Answered by": _name(approval.settled_by),
        "Reason": approval.reason,
    }
    rows = "".join(f"<dt>{name}</dt><dd dir=auto>{_plain(value)}</dd>" for name, value in facts.items() if value)
    moments = {"Asked": approval.asked_at, "Expires": approval.expires_at, "Settled": approval.settled_at}
    if approval.settled_at is not None:
        del moments["Expires"]
    shown_at = [(name, at) for name, at in moments.items() if at is not None]
    times = "".join(f'<dt>{name}</dt><dd><time data-at="{at}"></time></dd>' for name, at in shown_at)
    summary = f"<p class=summary dir=auto>{_plain(approval.summary)}</p>" if approval.summary else ""
    return f"{summary}<dl>{rows}{times}</dl><pre dir=auto>{_plain(shown)}</pre>"


def _plain(text: str) -> str:
    """Return a text as HTML in which every character is seen."""
    return html.escape(_DIRECTIONS.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def _name(who: Participant | None) -> str | None:
    return (who.name or who.id) if who is not None else None


def _sentence(text: str) -> str:
    """Return why, as a sentence for people: without the "unable to ...;" that errors begin with."""
    why = _UNABLE.sub("", text, count=1) if _UNABLE.match(text) else text
    return why[:1].upper() + why[1:] + ("" if why.endswith(".") else ".")
