"""What the desk says without a model: the next step of an answer, from the question and the calls so far."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from everyword import UIMessage

__all__ = ["play"]

PAUSE: Final = float(os.environ.get("DESK_PAUSE", "0.04"))
"""Seconds between two words."""

HELP: Final = (
    "I can look orders up, tell you where they are, change their address and pay money back. "
    "Try: “I want a refund for order 1002”, “Where is order 1003?” or “Send order 1003 to 5 Mill Lane”. "
    "Small refunds I make myself. For larger ones I ask a person, who sees your request at once; "
    "you may close this page meanwhile, and the answer will be here when you come back."
)

Step = str | tuple[str, dict[str, Any]]
"""Text, or a tool with its input."""


async def play(messages: Sequence[UIMessage]) -> AsyncIterator[str | dict[str, Any]]:
    """Yield the next step of the answer. Called again after a crash, it goes on behind the text that was said."""
    last = next(message for message in reversed(messages) if message.role == "user")
    question, photos = last.text, sum(part["type"] == "file" for part in last.parts)
    asked = sum(message.role == "user" for message in messages)
    parts = messages[-1].parts if messages[-1].role == "assistant" else []
    calls = [part for part in parts if part["type"].startswith("tool-")]
    after = parts[parts.index(calls[-1]) + 1 :] if calls else parts
    said = len("".join(part["text"] for part in after if part["type"] == "text"))
    if not said:
        yield {"type": "start-step"}
    for item in _next_step(question, calls, photos):
        if isinstance(item, tuple):
            tool, given = item
            call = f"{tool}-{asked}-{len(calls)}"  # the same after a crash; models have ids of their own
            yield {"type": "tool-input-available", "toolCallId": call, "toolName": tool, "input": given}
            continue
        skipped = min(said, len(item))
        said -= skipped
        for word in re.findall(r"\s*\S+\s*", item[skipped:]):
            yield word
            await asyncio.sleep(PAUSE)
    yield {"type": "finish-step"}


def _next_step(question: str, calls: list[dict[str, Any]], photos: int) -> list[Step]:
    found = re.search(r"\b\d{4}\b", question)
    order, text = (found[0] if found is not None else None), question.lower()
    if order is None and photos:
        return ["Thank you for the photo. What is the number of the order that it shows?"]
    if order is None:
        asks = "refund" in text or "address" in text or "where" in text
        return ["What is the number of the order? It is on your receipt, for example 1002." if asks else HELP]
    if not calls:
        tool = "track" if "where" in text else "find_order"
        return ["Let me have a look. ", (tool, {"number": order})]
    last = calls[-1]
    if last["state"] == "output-error":
        return [f"I am sorry: {last['errorText']}"]
    if last["state"] == "output-denied":
        reason = last["approval"].get("reason")
        return ["I am sorry, this was not approved. ", f"The reason: {reason}" if reason else ""]
    match last["type"]:
        case "tool-track":
            return [f"I have asked the carrier: {last['output']}."]
        case "tool-find_order" if "refund" in text:
            return ["I will see to the refund. ", ("refund", {"order": order, "amount": last["output"]["price"]})]
        case "tool-find_order" if new := re.search(r"\bto (\d+ [\w ]+)", question):
            given = {"order": order, "address": new[1].strip()}
            return ["One question before I change it. ", ("change_address", given)]
        case "tool-find_order":
            known = last["output"]
            return [f"Order {order} is {known['item']} for {known['price']:.2f} €. It is {known['status']}."]
        case "tool-refund":
            return [f"Done: I have {last['output']}. The money is on its way to you."]
        case _:
            return [f"Done: {last['output']}."]
