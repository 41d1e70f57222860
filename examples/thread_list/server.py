"""Two pages with a list of conversations, for two users: see README.md in this folder.

`THREADS_STORE` is the file of the log, `THREADS_PAUSE` the seconds between words, and `THREADS_BUILD` the folder of the
bundled pages.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from everyword import AIChatAgent, ChatError, Everyword, Principal, Turn, UIMessage, tool

HERE = Path(__file__).parent
BUILD = Path(os.environ.get("THREADS_BUILD", HERE / "build"))
PAUSE = float(os.environ.get("THREADS_PAUSE", "0.1"))

USERS = {"ann": "Ann", "bob": "Bob"}
PAGES = {"sidebar": "/page/sidebar.html", "assistant-ui": "/page/assistant-ui.html"}

STORY = (
    "There was a post office that kept a copy of every letter. When the cart was lost in the snow, the clerk took the "
    "copies out, wrote the letters again from where the ink had stopped, and sent them on their way. Nobody in the "
    "valley noticed that there had been any snow."
)


class Chat(AIChatAgent):
    """Needs no key: tells a story, fails, publishes a text, or repeats the question. Served at /agents/chat/{name}."""

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
        question = next(message.text for message in reversed(self.messages) if message.role == "user")
        if "publish" in question.lower():
            async for step in turn.steps():
                async for chunk in step.run(ask_model(step.messages)):
                    yield chunk
            return
        words = (STORY if "story" in question.lower() else f"You said: {question}").split()
        told = len(self.messages[-1].text.split()) if turn.continuation else 0  # before a crash
        for number, word in enumerate(words[told:], told):
            await asyncio.sleep(PAUSE)
            if "fail" in question.lower() and number == 2:
                raise ChatError("The ink ran out. Ask again.")
            yield f"{word} "

    @tool(needs_approval=True)
    async def publish(self, text: str) -> str:
        """Publish a text."""
        return f"published {text!r}"


async def ask_model(messages: Sequence[UIMessage]) -> AsyncIterator[Any]:
    """Call the tool once, then say what became of the call: in place of a model."""
    calls = [part for part in messages[-1].parts if part["type"] == "tool-publish"]
    yield {"type": "start-step"}
    if calls:
        yield {"output-available": "It is published.", "output-denied": "Then it stays a draft."}[calls[-1]["state"]]
    else:
        call = {"toolCallId": f"publish-{messages[-1].id}", "toolName": "publish", "input": {"text": "The news"}}
        yield {"type": "tool-input-available", **call}
    yield {"type": "finish-step"}


def authenticate(request: HTTPConnection) -> Principal | None:
    """Return the user of the cookie. Everybody may be Ann here: use your own sessions instead."""
    user = request.cookies.get("user", "")
    return Principal(user, name=USERS[user]) if user in USERS else None


def authorize(principal: Principal, action: str, kind: str, name: str) -> bool:
    """Let users do everything with their own conversations: those whose names begin with their id."""
    return name.startswith(f"{principal.id}.")


async def login(request: Request) -> Response:
    """Set the cookie, and show the page that was chosen."""
    form = parse_qs((await request.body()).decode())
    (user,), (page,) = form.get("user", [""]), form.get("page", [""])
    if user not in USERS or page not in PAGES:
        return Response("unable to log in; choose a user and a page\n", 400)
    response = RedirectResponse(PAGES[page], 303)
    response.set_cookie("user", user, httponly=True, samesite="lax")
    return response


async def logout(request: Request) -> Response:
    response = RedirectResponse("/", 303)
    response.delete_cookie("user")
    return response


async def me(request: Request) -> Response:
    """Say who is logged in."""
    user = authenticate(request)
    return JSONResponse({"id": user.id, "name": user.name}) if user else Response("log in first\n", 401)


async def index(request: Request) -> Response:
    return RedirectResponse("/page/")


agents = Everyword(
    [Chat], store=os.environ.get("THREADS_STORE", "everyword.db"), authenticate=authenticate, authorize=authorize
)
app = Starlette(
    routes=[
        Route("/", index),
        Route("/me", me),
        Route("/login", login, methods=["POST"]),
        Route("/logout", logout, methods=["POST"]),
        Mount("/page/build", StaticFiles(directory=BUILD, check_dir=False)),
        Mount("/page", StaticFiles(directory=HERE / "page", html=True)),
        Mount("/", agents),  # /agents/… and /conversations
    ],
    lifespan=agents.lifespan,
)
