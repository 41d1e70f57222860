"""A conversation of two people in which one of them puts a marker word wherever a client can put text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import httpx
from starlette.requests import HTTPConnection

from everyword import (
    Agent,
    AIChatAgent,
    AttachmentOptions,
    ConversationOptions,
    Everyword,
    FiberContext,
    Principal,
    callable_method,
    tool,
)
from everyword.server.node_settings import NodeSettings
from everyword.testing import Gate
from tests.server.kit import user
from tests.server.sockets import Socket, socket

WORD = "zanzibar"
"""The marker: it must be nowhere after the erasure."""

FILES: str | None = None
"""The folder for attachments; None for the one beside the file."""

ANN, BOB = f"ann-{WORD}", "bob"


class Note(Agent[Any]):
    """A sub-agent that keeps what it is told, in its state and its tables."""

    async def on_erase(self, principal: Principal) -> None:
        await self.set_state({"told": None})
        await self.sql("delete from told")

    @callable_method
    async def tell(self, text: str) -> None:
        await self.set_state({"told": text})
        await self.sql("create table if not exists told (text)")
        await self.sql("insert into told values (?)", text)


class Room(AIChatAgent[Any]):
    sub_agent_classes = (Note,)
    fails: ClassVar[bool] = False
    """Whether `on_erase` raises."""
    held: ClassVar[Gate]
    """Holds the answers to questions with the word `hold`, and those with `stay` behind their call."""

    async def on_erase(self, principal: Principal) -> None:
        assert principal.id.startswith(("ann", "erased-"))
        if self.fails:
            raise ValueError("broken")
        await self.set_state({"note": None})
        await self.sql("create table if not exists heard (who, text)")
        await self.sql("delete from heard where who = ?", principal.id)

    @tool(needs_approval=True)
    async def pay(self, amount: int) -> str:
        return f"paid {amount}"

    @tool(client=True)
    async def place(self) -> str:
        """Where the client is."""
        raise NotImplementedError

    @callable_method
    async def remember(self, text: str) -> None:
        assert self.principal is not None
        await self.set_state({"note": text})
        await self.sql("create table if not exists heard (who, text)")
        await self.sql("insert into heard values (?, ?)", self.principal.id, text)
        note = await self.sub_agent(Note, "notes")
        await note.tell(text)
        await self.queue("later", {"text": text})
        await self.schedule(3600, "later", {"text": text})
        await self.fibers.start("think", lambda fiber: self._think(fiber, text))

    @callable_method
    async def make_tables(self, names: list[str]) -> None:
        for name in names:
            await self.sql(f'create table "{name}" (name)')
            await self.sql(f'insert into "{name}" values (?)', name)

    @callable_method
    async def copy_to(self, name: str) -> None:
        """Fork the conversation as it is now."""
        await self.versions.fork(self.messages[-1].id, name)

    async def later(self, payload: Any) -> None:
        pass

    async def _think(self, fiber: FiberContext, text: str) -> None:
        await fiber.stash({"text": text})
        await asyncio.Event().wait()

    async def _call(self, call: dict[str, Any], *, is_held: bool) -> AsyncIterator[dict[str, Any]]:
        """Call a tool; if so asked, the answer goes on after the call."""
        yield {"type": "tool-input-available", **call}
        if is_held:
            await self.held.wait()

    async def on_chat_message(self, turn: Any) -> AsyncIterator[Any]:
        text = self.messages[-1].text
        if "hold" in text:
            yield "I wait. "
            await self.held.wait()
        name = "pay" if "pay" in text else "place" if "place" in text else None
        async for step in turn.steps():
            if name is not None and step.number == 1 and not turn.continuation:
                input: dict[str, Any] = {"amount": 5} if name == "pay" else {}
                call = {"toolCallId": f"{name}-{turn.id}", "toolName": name, "input": input}
                async for chunk in step.run(self._call(call, is_held="stay" in text)):
                    yield chunk
            else:
                quote = f"You said {text}" if "quote" in text else "Good."
                async for chunk in step.run([quote]):
                    yield chunk


def by_query(connection: HTTPConnection) -> Principal | None:
    who = connection.headers.get("x-user") or connection.query_params.get("user")
    name = f"Ann {WORD}" if who == ANN else "Bob"
    return Principal(who, name=name, claims={"mail": f"{who}@x"}) if who else None


def allowed(principal: Principal, action: str, kind: str, name: str) -> bool:
    return True


def make_app(store: str, node: NodeSettings | None = None, classes: Sequence[type[Agent[Any]]] = (Room,)) -> Everyword:
    options = ConversationOptions(search=True)
    files = AttachmentOptions(store=FILES) if FILES is not None else None
    app = Everyword(
        classes,
        store=store,
        authenticate=by_query,
        authorize=allowed,
        conversations=options,
        attachments=files,
        node=node,
    )
    app.grace = 0.0
    return app


@asynccontextmanager
async def tab(url: str, who: str, name: str = "room") -> AsyncIterator[Socket]:
    async with socket(url, query=f"?user={who}&_pk=pk-{WORD if who == ANN else 'bob'}", name=name, kind="room") as page:
        yield page


async def asked(page: Socket, request: str, text: str, **body: Any) -> None:
    """Ask, and wait for the end of the turn."""
    given = {"messages": [user(f"m-{request}", text)], **body}
    init = {"method": "POST", "body": json.dumps(given)}
    await page.send(type="cf_agent_use_chat_request", id=request, init=init)
    await page.ended(request)


async def call_of(page: Socket, name: str) -> str:
    """Return the id of a call that waits in the conversation."""

    def found(frame: dict[str, Any]) -> str | None:
        for message in frame.get("messages", []):
            for part in message["parts"]:
                if part["type"] == f"tool-{name}" and part["state"] in ("input-available", "approval-requested"):
                    return str(part["toolCallId"])
        return None

    return str(found(await page.until(lambda frame: found(frame) is not None)))


async def play(app: Everyword, url: str, client: httpx.AsyncClient) -> None:
    """Play the conversations."""
    ann_user = {"x-user": ANN}
    async with tab(url, BOB) as bob, tab(url, ANN) as ann:
        await asked(bob, "b1", "Hello from Bob")
        await asked(ann, f"a1-{WORD}", f"Hello, my word is {WORD}", note=WORD)
        await asked(ann, f"a2-{WORD}", f"no more {WORD}")
        photo = f"{WORD}-photo-".encode() * 3000
        upload = await client.post("/agents/room/room/attachments?filename=p.txt", headers=ann_user, content=photo)
        assert upload.status_code in (200, 201), upload.text
        given = {**user(f"m-photo-{WORD}", "look"), "parts": [upload.json()]}
        body = json.dumps({"messages": [given]})
        init = {"method": "POST", "body": body}
        await ann.send(type="cf_agent_use_chat_request", id=f"a4-{WORD}", init=init)
        await ann.ended(f"a4-{WORD}")
        edited = {"messages": [user(f"m-a2-{WORD}", f"other words, {WORD}")], "trigger": "regenerate-message"}
        init = {"method": "POST", "body": json.dumps(edited)}
        await ann.send(type="cf_agent_use_chat_request", id=f"a3-{WORD}", init=init)
        await ann.ended(f"a3-{WORD}")
        await asked(bob, "b2", "pay for it")
        pay = await call_of(ann, "pay")
        answer = {"toolCallId": pay, "approved": False, "reason": f"because {WORD}", "autoContinue": True}
        await ann.send(type="cf_agent_tool_approval", **answer)
        await ann.settled()
        await app.get(Room, "room").wait_until_stable()
        await asked(bob, "b3", "what place")
        place = await call_of(ann, "place")
        await ann.answer(place, {"city": WORD}, toolName="place")
        await ann.settled()
        await app.get(Room, "room").wait_until_stable()
        await ann.send(type="rpc", id="c1", method="remember", args=[f"note {WORD}"])
        await ann.until(lambda frame: frame.get("id") == "c1")
        await ann.send(type="cf_agent_state", state={"note": f"state {WORD}"})
        await ann.settled()
    changed = {"title": f"About {WORD}", "metadata": {"tag": WORD}}
    done = await client.patch("/conversations/room/room", headers=ann_user, json=changed)
    assert done.status_code == 200, done.text
    read = await client.post("/conversations/room/room/read", headers=ann_user, json={})
    assert read.status_code == 200, read.text
    async with tab(url, ANN, f"own-{WORD}") as own:
        await asked(own, f"o1-{WORD}", f"private {WORD}")
        await own.send(type="rpc", id="c2", method="remember", args=[f"private note {WORD}"])
        await own.until(lambda frame: frame.get("id") == "c2")
    await app.get(Room, "room").wait_until_stable()


async def begun(page: Socket, request: str, text: str) -> None:
    """Ask, and wait until the answer is being written."""
    await page.ask(request, text)
    await page.until(lambda frame: frame.get("id") == request and "I wait" in frame.get("body", ""))
