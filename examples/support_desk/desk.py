"""The agent of the desk, with its tools. It needs no key: without a model it answers from `script.py`."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from everyword import AIChatAgent, Think, ToolContext, ToolError, Turn, UIMessage, tool

from .script import play

__all__ = ["ORDERS", "PAID_BACK", "ScriptedSupport", "Support", "ThinkingSupport", "title_of"]

MODEL = os.environ.get("SUPPORT_MODEL")
"""A model of Pydantic AI, for example `anthropic:claude-sonnet-4-5`; its key comes from the environment."""

BY_ITSELF = 50
"""What the agent may pay back without asking anybody."""


class Order(BaseModel):
    """What the shop knows of an order."""

    number: str
    item: str
    price: float
    status: str
    address: str = "12 Harbour Road"


ORDERS = {
    "1001": Order(number="1001", item="a kettle", price=39.0, status="delivered"),
    "1002": Order(number="1002", item="a lamp", price=249.0, status="delivered"),
    "1003": Order(number="1003", item="a desk", price=420.0, status="on its way"),
}
PAID_BACK: dict[str, str] = {}
"""What was paid back, by the call's idempotency key: the same call never pays twice."""


def _order(number: str) -> Order:
    if number not in ORDERS:
        raise ToolError(f"There is no order {number}.")
    return ORDERS[number]


def _refund_summary(order: str, amount: float) -> str:
    return f"Pay back {amount:.2f} € for order {order}"


def _address_summary(order: str, address: str) -> str:
    return f"Send order {order} to {address}"


class SupportTools:
    """The tools, for both agents below."""

    @tool(idempotent=True)
    async def find_order(self, number: str) -> Order:
        """Look an order up by its number."""
        return _order(number)

    @tool(idempotent=True)
    async def track(self, number: str) -> AsyncIterator[str]:
        """Find out where an order is."""
        yield "asking the carrier"
        yield f"{_order(number).item} is {_order(number).status}"

    @tool(
        needs_approval=lambda amount: amount > BY_ITSELF,
        approvers=["staff"],
        approval_summary=_refund_summary,
        approval_risk="high",
        approval_timeout=timedelta(hours=24),
        idempotent=True,  # with the key below; so it runs again if a crash leaves the result unknown
    )
    async def refund(self, order: str, amount: float, context: ToolContext) -> str:
        """Pay money back for an order."""
        return PAID_BACK.setdefault(context.idempotency_key, f"paid {amount:.2f} € back for order {order}")

    @tool(
        needs_approval=True,  # by the customer: see `authorize` in people.py
        approval_summary=_address_summary,
        approval_risk="low",
        idempotent=True,
    )
    async def change_address(self, order: str, address: str) -> str:
        """Change the address of an order."""
        _order(order).address = address
        return f"order {order} goes to {address}"


class ScriptedSupport(SupportTools, AIChatAgent):
    """Answers from the script. Served at /agents/support/{name}."""

    kind = "support"

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
        """Run steps until the script calls no more tools, as with a model."""
        async for step in turn.steps():
            async for chunk in step.run(play(step.messages)):
                yield chunk


class ThinkingSupport(SupportTools, Think):
    """Answers with a model. Its tools, approvals and pages are the same."""

    kind = "support"
    model = MODEL or "openai:gpt-5.2"
    instructions = "You work at the desk of a small shop. Answer briefly. Look an order up before you talk about it."
    max_steps = 8


Support: type[AIChatAgent] = ThinkingSupport if MODEL else ScriptedSupport


def title_of(messages: Sequence[UIMessage]) -> str | None:
    """Return a title for a conversation; a model would write a better one."""
    question = next(message.text for message in messages if message.role == "user")
    order = re.search(r"\b\d{4}\b", question)
    if order is None:
        return None
    topics = {"refund": "Refund for", "address": "Address of", "send": "Address of", "where": "Delivery of"}
    topic = next((title for word, title in topics.items() if word in question.lower()), "Question about")
    return f"{topic} order {order[0]}"
