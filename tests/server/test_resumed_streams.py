"""Event streams without a request, as the AI SDK resumes them: what a page shows that opens in the middle."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from everyword import AIChatAgent, Think, Turn, tool
from everyword.testing import Call, Gate, LocalServer, ManualClock, ScriptedModel
from everyword.testing.observers import AiSdkPage, plain


class Bank(Think):
    model = ScriptedModel(["May I? ", Call("refund", {"amount": 5.0}), "Done."])

    @tool(needs_approval=True)
    async def refund(self, amount: float) -> str:
        return f"{amount} back"


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return ["".join(part.get("text", "") for part in message["parts"]) for message in messages]


async def test_a_continuation_that_has_not_begun_is_told_behind_the_message_that_it_extends() -> None:
    """P-63: a page folds the stream into an empty message, and throws at the output of a call that it does not know."""
    clock = ManualClock()
    async with LocalServer(Bank, clock=clock) as server, server.client(Bank) as chat:
        await chat.send("hi")
        (call,) = chat.pending_approvals
        await chat.approve(call["toolCallId"])
        page = await AiSdkPage("a page", server, "bank", "test").open()
        reply = chat.follow()
        clock.advance(1)
        await reply
        await page.rest()
        assert texts(page.messages) == ["hi", "May I? Done."]
        stored = [message.to_dict() for message in await chat.history()]
        assert list(map(plain, page.messages)) == list(map(plain, stored))
        await page.close()


async def test_an_answer_of_a_branch_that_was_left_is_not_told() -> None:
    """R-5."""
    gate = Gate()
    model = ScriptedModel(lambda question: ["old ", gate, "answer"] if question == "hi" else "new")

    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
            async for chunk in model.stream(self.messages):
                yield chunk

    async with LocalServer(Chat) as server, server.client(Chat) as chat:
        old = chat.send("hi")
        await gate.reached.wait()
        new = chat.edit(chat.messages[0].id, "hello")
        await chat.stop("nothing")  # taken in behind the edit
        page = await AiSdkPage("a page", server, "chat", "test").open()
        gate.open()
        await old
        await new
        await page.rest()
        assert texts(page.messages) == ["hello", "new"]
        assert page.told == {page.messages[1]["id"]}
        await page.close()
