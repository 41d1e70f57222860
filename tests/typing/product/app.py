"""The server of the product."""

from __future__ import annotations

from everyword import Everyword, Limits
from tests.typing.product.orders import Basket, Plain, Support

app = Everyword([Basket, Plain, Support], store="memory:", limits=Limits(queued_turns=10))


async def ask(name: str, text: str) -> str:
    async with app:
        result = await app.get(Support, name).save_messages(text)
        return result.message.text if result.message is not None else result.status
