"""A support desk: looks orders up by itself, asks before it pays much back, and asks the page where the customer is.

    SUPPORT_MODEL=anthropic:claude-sonnet-4-5 everyword dev examples/support_agent/app.py

The model's key comes from the environment (OPENAI_API_KEY, ANTHROPIC_API_KEY). `SUPPORT_MODEL=test` needs none: it
calls every tool once with made-up input, and then waits for the page to say where it is.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

from pydantic import BaseModel

from everyword import Everyword, Think, ToolContext, ToolError, tool


class Order(BaseModel):
    """What the shop knows of an order."""

    number: str
    item: str
    price: float
    status: str


ORDERS = {
    "1001": Order(number="1001", item="a kettle", price=39.0, status="delivered"),
    "1002": Order(number="1002", item="a lamp", price=249.0, status="on its way"),
}
PAID_BACK: dict[str, str] = {}
"""What was paid back, by the call's idempotency key: the same call never pays twice."""


class Support(Think):
    """Served at /agents/support/{name}."""

    model = os.environ.get("SUPPORT_MODEL", "openai:gpt-5.2")
    instructions = "You work at the desk of a small shop. Answer briefly. Look an order up before you talk about it."
    max_steps = 8

    @tool
    async def find_order(self, number: str) -> Order:
        """Look an order up by its number."""
        if number not in ORDERS:
            raise ToolError(f"There is no order {number}.")
        return ORDERS[number]

    @tool
    async def track(self, number: str) -> AsyncIterator[str]:
        """Find out where an order is."""
        yield "asking the carrier"
        yield f"{number} is on the van"

    @tool(needs_approval=lambda amount: amount > 100)
    async def refund(self, order: str, amount: float, context: ToolContext) -> str:
        """Pay money back for an order."""
        return PAID_BACK.setdefault(context.idempotency_key, f"paid {amount:.2f} back for order {order}")

    @tool(client=True)
    async def get_location(self) -> str:
        """Ask the page which city the customer is in."""
        raise NotImplementedError


app = Everyword([Support])
