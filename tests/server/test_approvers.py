"""Only a tool's approvers approve its calls: however early or late the answer is, and in copies, too."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import httpx
import pytest

from everyword import AIChatAgent, Approval, Everyword, Principal, ToolContext, tool
from tests.server.kit import PATIENCE, connect, question, serving
from tests.server.kit import user as message
from tests.server.sockets import Socket, socket
from tests.server.test_lists import by_header, user


class Till(AIChatAgent):
    """Calls `pay` with the amount in the question, always under the same id, as some models do."""

    paid: ClassVar[list[tuple[int, str | None]]] = []
    checking: ClassVar[asyncio.Event]
    checked: ClassVar[asyncio.Event]

    @staticmethod
    async def is_large(amount: int) -> bool:
        Till.checking.set()
        await Till.checked.wait()
        return amount > 1

    @tool(needs_approval=is_large, approvers=["boss"], approval_summary=lambda amount: f"Pay {amount}")
    async def pay(self, amount: int, context: ToolContext) -> str:
        self.paid.append((amount, context.approved_by.id if context.approved_by is not None else None))
        return f"paid {amount}"

    async def on_chat_message(self, turn: Any) -> AsyncIterator[Any]:
        async for step in turn.steps():
            given = {"amount": int(self.messages[-1].text)} if not turn.continuation else None
            call = {"type": "tool-input-available", "toolCallId": "k1", "toolName": "pay", "input": given}
            async for chunk in step.run([call] if step.number == 1 and given else ["done"]):
                yield chunk


class Office(AIChatAgent):
    sub_agent_classes = (Till,)

    async def on_before_sub_agent(self, request: Any, child: Any) -> bool:
        return True

    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        await (await self.sub_agent(Till, "one")).save_messages("5")
        yield "hello"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Till.paid, Till.checking, Till.checked = [], asyncio.Event(), asyncio.Event()


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[tuple[Everyword, httpx.AsyncClient]]:
    given = {"authenticate": by_header, "authorize": lambda principal, action, kind, name: True, **options}
    app = Everyword([Till, Office], store="memory:", **given)
    async with asyncio.timeout(PATIENCE), serving(app) as url, connect(url) as client:
        await app.start()
        yield app, client


async def approve(page: Socket, *, approved: bool = True) -> None:
    await page.send(type="cf_agent_tool_approval", toolCallId="k1", approved=approved, autoContinue=True)
    await page.settled()


async def test_a_socket_cannot_approve_a_call_before_the_approvers_are_asked() -> None:
    async with running() as (app, client), socket(str(client.base_url), "?user=ann", "ann", kind="till") as page:
        await page.ask("r1", "5")
        await Till.checking.wait()  # the page has the call, and nobody was asked yet
        await approve(page)
        await page.send(type="cf_agent_chat_request_cancel", id="r1")
        await page.ended("r1")
        await app.get(Till, "ann").wait_until_stable()
        assert Till.paid == []


async def test_posted_messages_cannot_approve_a_call_before_the_approvers_are_asked() -> None:
    async with running() as (app, client), socket(str(client.base_url), "?user=ann", "ann", kind="till") as page:
        await page.ask("r1", "5")
        await Till.checking.wait()
        asked = await page.until(lambda frame: "tool-input-available" in str(frame.get("body")))
        assert asked["id"] == "r1"
        (stored, *_) = (await client.get("/agents/till/ann/get-messages", headers=user("ann"))).json()
        name = next(frame for frame in page.frames if '"start"' in str(frame.get("body")))["body"]
        part = {"type": "tool-pay", "toolCallId": "k1", "state": "approval-responded", "input": {"amount": 5}}
        part["approval"] = {"id": "approve-k1", "approved": True}
        answer = {"id": httpx.Response(200, text=name).json()["messageId"], "role": "assistant", "parts": [part]}
        posting = client.post("/agents/till/ann/chat", headers=user("ann"), json={"messages": [stored, answer]})
        posted = asyncio.ensure_future(posting)
        await page.settled()
        await page.send(type="cf_agent_chat_request_cancel", id="r1")
        await page.ended("r1")
        posted.cancel()
        await app.get(Till, "ann").wait_until_stable()
        assert Till.paid == []


async def test_what_authorize_allowed_is_not_an_answer_to_what_is_asked_later() -> None:
    deciding, decide = asyncio.Event(), asyncio.Event()

    async def slow(principal: Principal, action: str, kind: str, name: str) -> bool:
        if (principal.id, action) == ("ann", "answer"):
            deciding.set()
            await decide.wait()
        return True

    async with running(authorize=slow) as (app, client):
        url = str(client.base_url)
        async with socket(url, "?user=ann", "ann", kind="till") as page:
            await page.ask("r1", "5")
            await Till.checking.wait()
            await page.send(type="cf_agent_tool_approval", toolCallId="k1", approved=True, autoContinue=True)
            await deciding.wait()
            Till.checked.set()
            async for inbox in app.approvals.watch():
                if inbox.approvals:
                    break
            decide.set()
            await page.settled()
            assert (await app.approvals.list()) == inbox
            assert Till.paid == []


async def test_a_link_to_other_arguments_is_no_approval_of_these() -> None:
    Till.checked.set()
    async with running() as (app, client), socket(str(client.base_url), "?user=ann", "ann", kind="till") as page:
        await page.ask("r1", "5")
        await page.ended("r1")
        (shown,) = (await app.approvals.list()).approvals
        edited = question("u-r1", "5000")
        await client.post("/agents/till/ann/chat", headers=user("ann"), json=edited)
        first, second = sorted((await app.approvals.list()).approvals, key=lambda each: each.input["amount"])
        assert (first, second.input, second.approvers) == (shown, {"amount": 5000}, ("boss",))
        for each, amount in ((first, 5), (second, 5000)):
            found = await client.get(f"/approvals/{each.id}", headers={**user("boss"), "accept": "text/html"})
            assert f"&quot;amount&quot;: {amount}\n" in found.text
        answer = await client.post(f"/approvals/{first.id}", headers=user("boss"), json={"approved": True})
        assert answer.status_code == 200, answer.text
        (record,) = (await app.approvals.list(settled=True)).approvals
        assert (record.id, record.input) == (shown.id, {"amount": 5})
        assert [each.id for each in (await app.approvals.list()).approvals] == [second.id]
        await app.approvals.answer(second.id, False)
        await app.get(Till, "ann").wait_until_stable()
        await page.settled()
        assert Till.paid == [(5, "boss")]


@pytest.mark.parametrize("is_posted", [False, True], ids=["socket", "posted"])
async def test_an_approval_on_a_page_is_for_the_arguments_that_the_page_shows(is_posted: bool) -> None:
    Till.checked.set()
    async with running() as (app, client), socket(str(client.base_url), "?user=boss", "ann", kind="till") as page:
        till, path = app.get(Till, "ann"), "/agents/till/ann/chat"
        await page.ask("r1", "5")
        await page.ended("r1")
        shown = [each.to_dict() for each in await till.get_messages()]
        await client.post(path, headers=user("boss"), json=question("u-r1", "5000"))
        if is_posted:  # a page that has not heard of the edit
            (part,) = [each for each in shown[-1]["parts"] if "toolCallId" in each]
            part.update(state="approval-responded", approval={"id": "approve-k1", "approved": True})
            await client.post(path, headers=user("boss"), json={"messages": shown})
        else:
            await till.versions.switch(shown[-1]["id"])
            await page.settled()
            await approve(page)
        (record,) = (await app.approvals.list(settled=True)).approvals
        assert (record.input, record.status) == ({"amount": 5}, "approved")
        (left,) = (await app.approvals.list()).approvals
        assert left.input == {"amount": 5000}
        await app.approvals.answer(left.id, False)
        await till.wait_until_stable()
        assert Till.paid == [(5, "boss")]


async def test_a_fork_asks_the_same_approvers() -> None:
    Till.checked.set()
    async with running() as (app, client):
        chat = app.get(Till, "ann").for_principal(Principal("ann", name="Ann"))
        await chat.save_messages("5")
        await chat.versions.fork((await chat.get_messages())[-1].id, "copy")
        (asked,) = (await app.approvals.list(conversation=(Till, "ann"))).approvals
        (copied,) = (await app.approvals.list(conversation=(Till, "copy"))).approvals
        assert (copied.approvers, copied.summary, copied.asked_by) == (("boss",), "Pay 5", asked.asked_by)
        async with socket(str(client.base_url), "?user=ann", "copy", kind="till") as page:
            await approve(page)
        assert await app.approvals.get(copied.id) == copied
        await app.approvals.answer(copied.id, True, by=Principal("boss"))
        await app.get(Till, "copy").wait_until_stable()
        assert Till.paid == [(5, "boss")]


async def test_a_second_answer_over_a_socket_is_shown_the_first() -> None:
    Till.checked.set()
    async with running() as (app, client), socket(str(client.base_url), "?user=boss", "ann", kind="till") as page:
        await app.get(Till, "ann").for_principal(Principal("ann")).save_messages("5")
        (waits,) = (await app.approvals.list()).approvals
        await app.approvals.answer(waits.id, False, by=Principal("boss"))
        await app.get(Till, "ann").wait_until_stable()
        await page.settled()
        before = len(page.frames)
        await approve(page)
        (shown,) = [each for each in page.frames[before:] if each["type"] == "cf_agent_chat_messages"]
        assert "output-denied" in str(shown)
        assert Till.paid == []


async def test_a_question_that_crosses_the_first_answer_on_its_way_stays_on_the_page() -> None:
    Till.checked.set()
    async with running() as (app, client), socket(str(client.base_url), "?user=boss", "ann", kind="till") as page:

        async def asks(request: str) -> None:
            stored = [each.to_dict() for each in await app.get(Till, "ann").get_messages()]
            body = json.dumps({"messages": [*stored, message(f"u-{request}", "1")]})
            frame = {"type": "cf_agent_use_chat_request", "id": request, "init": {"method": "POST", "body": body}}
            for each in (*late, frame):
                await page.send(**each)
            await page.ended(request)

        late: list[dict[str, Any]] = []
        await asks("r1")  # that it knows the answer tells the server that it has read all before
        before = len(page.frames)
        late.append({"type": "cf_agent_tool_approval", "toolCallId": "k1", "approved": True})
        await asks("r2")
        sent = [each for each in page.frames[before:] if each["type"] == "cf_agent_chat_messages"]
        assert "u-r2" not in str(sent[0]), "it takes the question from the page"
        assert "u-r2" in str(sent[-1])


async def test_a_socket_of_a_sub_agent_is_guarded_like_the_inbox() -> None:
    Till.checked.set()
    asked: list[Approval] = []

    def not_its_owner(principal: Principal, action: str, kind: str, name: str, approval: Approval | None) -> bool:
        if approval is not None and action == "answer":
            asked.append(approval)
        return approval is None or approval.owner != principal.id

    async with running(authorize=not_its_owner) as (app, client):
        await app.get(Office, "room").for_principal(Principal("ann")).save_messages("hi")
        (waits,) = (await app.approvals.list()).approvals
        assert (waits.kind, waits.name, waits.owner) == ("office", "room", "ann")
        async with socket(str(client.base_url), "?user=ann", "room/sub/till/one", kind="office") as page:
            await approve(page)
        answer = await client.post(f"/approvals/{waits.id}", headers=user("ann"), json={"approved": True})
        assert (answer.status_code, asked) == (403, [waits, waits])
        assert (await app.approvals.list()).approvals == [waits]
