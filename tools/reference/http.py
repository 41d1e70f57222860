"""The page about HTTP, from the table of resources and the docstrings of what answers them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from everyword.agents.handles.shares import SHARED
from everyword.observe.metrics import Metrics
from everyword.server import health, http
from everyword.server.approval_resources import ApprovalResources
from everyword.server.conversation_resources import ConversationResources
from everyword.server.list_requests import APPROVALS, CONVERSATIONS
from everyword.server.share_resources import ShareResources
from everyword.server.shared_pages import SharedPages

from .docstrings import section, to_markdown

__all__ = ["COMMON", "ROUTES", "given_statuses", "page", "statuses"]

AGENT = "/agents/{kind}/{name}"

COMMON: Callable[..., Any] = http.answer_http
"""Whose answers any resource of an agent may give."""

ROUTES: dict[tuple[str, str], Callable[..., Any]] = {
    **{
        (method, f"{AGENT}/{resource}"): answer
        for resource, answers in http.RESOURCES.items()
        for method, answer in answers.items()
        if method != "HEAD"
    },
    ("any method", f"{AGENT}/…"): http._own_answer,
    ("GET", CONVERSATIONS): ConversationResources.list_conversations,
    ("GET", f"{CONVERSATIONS}/{{kind}}/{{name}}"): ConversationResources.get_conversation,
    ("PATCH", f"{CONVERSATIONS}/{{kind}}/{{name}}"): ConversationResources.change_conversation,
    ("DELETE", f"{CONVERSATIONS}/{{kind}}/{{name}}"): ConversationResources.delete_conversation,
    ("POST", f"{CONVERSATIONS}/{{kind}}/{{name}}/read"): ConversationResources.mark_read,
    ("GET", f"{CONVERSATIONS}/{{kind}}/{{name}}/export"): ConversationResources.export_conversation,
    ("GET", f"{CONVERSATIONS}/{{kind}}/{{name}}/shares"): ShareResources.list_shares,
    ("POST", f"{CONVERSATIONS}/{{kind}}/{{name}}/shares"): ShareResources.create_share,
    ("DELETE", f"{CONVERSATIONS}/{{kind}}/{{name}}/shares/{{id}}"): ShareResources.revoke_share,
    ("GET", f"{SHARED}/{{token}}"): SharedPages.transcript,
    ("GET", f"{SHARED}/{{token}}/stream"): SharedPages.stream,
    ("GET", f"{SHARED}/{{token}}/files/{{sha256}}"): SharedPages.file,
    ("GET", APPROVALS): ApprovalResources.list_approvals,
    ("GET", f"{APPROVALS}/{{id}}"): ApprovalResources.get_approval,
    ("POST", f"{APPROVALS}/{{id}}"): ApprovalResources.answer_approval,
    ("GET", health.HEALTH): health._health,
    ("GET", str(Metrics().path)): health.ServerPages._metrics,
}
"""Every route, and the function that answers it."""

INTRODUCTION = f"""\
An agent is served at `{AGENT}`, relative to the mount point of the application; `base_path` of `Everyword` replaces
`/agents`. A sub-agent is at `/sub/{{kind}}/{{name}}` below its parent, and has the same resources. Percent-encode each
segment of a path separately. A WebSocket at `{AGENT}` uses the [frames](frames.md).

The body of a refusal is a readable sentence, as plain text. Pages of other sites get CORS headers if their site is in
`origins`; preflight requests (OPTIONS) get 204."""


def page() -> list[str]:
    lines = ["# HTTP", "", INTRODUCTION, "", "| route | what it does |", "|---|---|"]
    for (method, path), answer in ROUTES.items():
        first = to_markdown(answer.__doc__ or "").partition("\n")[0]
        lines.append(f"| [`{method} {path}`](#{_anchor(method, path)}) | {first} |")
    for (method, path), answer in ROUTES.items():
        lines += ["", f"## {method} {path}", "", _text(answer)]
    return [*lines, "", "## Responses of every resource of an agent", "", _table(COMMON, "Answers", "status")]


def statuses(answer: Callable[..., Any]) -> dict[str, str]:
    """Return what a function documents: what each status means."""
    return dict(section(answer.__doc__, "Answers"))


def given_statuses(answer: Callable[..., Any]) -> set[str]:
    """Return the statuses that are written in a function: `refusal(404, ...)`, `Response(status_code=204)`."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(answer)))
    numbers = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and type(node.value) is int]
    return {str(number) for number in numbers if 200 <= number <= 599}


def _text(answer: Callable[..., Any]) -> str:
    pieces = [to_markdown(answer.__doc__ or "", without=("Query", "Headers", "Body", "Answers"))]
    pieces += [_table(answer, title, title.lower()) for title in ("Query", "Headers", "Body")]
    return "\n\n".join(piece for piece in [*pieces, _table(answer, "Answers", "status")] if piece)


def _table(answer: Callable[..., Any], title: str, head: str) -> str:
    rows = [_row(*item) for item in section(answer.__doc__, title)]
    return "\n".join([f"| {head} | |", "|---|---|", *rows]) if rows else ""


def _row(name: str, text: str) -> str:
    shown, said = name if name == "others" else f"`{name}`", text.replace("|", "\\|")
    return f"| {shown} | {said} |"


def _anchor(method: str, path: str) -> str:
    """Return the anchor of a heading, as GitHub and the site make it."""
    kept = "".join(each for each in f"{method} {path}".lower() if each.isalnum() or each in " -_")
    return kept.replace(" ", "-")
