"""The page that a link in a mail opens: what is asked, and two buttons. Opening it changes nothing."""

from __future__ import annotations

import html
import secrets
from importlib.resources import files
from string import Template
from typing import Final

import msgspec
from starlette.responses import HTMLResponse, Response

from ..agents import Approval
from .permissions import Reject

__all__ = ["approval_page"]

_PAGE: Final = Template((files(__package__) / "approval_page.html").read_text(encoding="utf-8"))


def approval_page(approval: Approval | None, refused: Reject | None) -> Response:
    """Return the page of an approval; without one, or if the reader may not answer it, the page says why."""
    nonce = secrets.token_urlsafe(16)
    text = _PAGE.substitute(
        nonce=nonce,
        title=html.escape(f"Allow {approval.tool}?" if approval is not None else "Nothing to approve"),
        question="Allow this call?" if approval is not None else "Nothing to approve",
        body=_body(approval) if approval is not None else "",
        note=html.escape(_sentence(refused.reason)) if refused is not None else "",
        buttons="" if approval is not None and refused is None else "hidden",
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


def _body(approval: Approval) -> str:
    shown = msgspec.json.format(msgspec.json.encode(approval.input), indent=2).decode()
    asked_by = approval.asked_by
    facts = {
        "Tool": approval.tool,
        "Risk": approval.risk,
        "Conversation": f"{approval.kind}/{approval.name}",
        "Asked by": (asked_by.name or asked_by.id) if asked_by is not None else None,
    }
    rows = "".join(f"<dt>{name}</dt><dd>{html.escape(value)}</dd>" for name, value in facts.items() if value)
    times = f'<dt>Asked</dt><dd><time data-at="{approval.asked_at}"></time></dd>'
    if approval.expires_at is not None:
        times += f'<dt>Expires</dt><dd><time data-at="{approval.expires_at}"></time></dd>'
    summary = f"<p class=summary>{html.escape(approval.summary)}</p>" if approval.summary else ""
    return f"{summary}<dl>{rows}{times}</dl><pre>{html.escape(shown)}</pre>"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
