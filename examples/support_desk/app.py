"""A support desk: customers chat with an agent, staff approves what it may not do by itself. See README.md.

uvicorn examples.support_desk.app:app --port 8787
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel

from everyword import (
    AttachmentOptions,
    ConversationOptions,
    Everyword,
    Limits,
    Notification,
    NotificationOptions,
    Webhook,
)
from everyword.errors import WebhookRefused

from .accounts import DELETING, accounts
from .desk import Support, title_of
from .mail import HOOK_SECRET, OUTBOX, RECEIVED, notify, receive
from .people import PEOPLE, Person, authenticate, authorize, person_of, sign_in, sign_out

PAGE = Path(__file__).parent / "page"

URL = os.environ.get("DESK_URL", "http://localhost:8787")
"""Where browsers, and the webhooks, find this application."""


async def tell(notification: Notification) -> None:
    """Mail what happened to the people who are not there."""
    await notify(agents, notification, URL)


agents = Everyword(
    [Support],
    store=os.environ.get("DESK_STORE", "support_desk.db"),
    base_path="/",  # mounted below /agents
    authenticate=authenticate,
    authorize=authorize,
    conversations=ConversationOptions(title=title_of, keep_for=timedelta(days=365)),
    attachments=AttachmentOptions(media_types=["image/*"]),
    limits=Limits(upload=10 * 1024 * 1024),
    notifications=NotificationOptions(
        webhooks=[Webhook(f"{URL}/hooks/everyword", HOOK_SECRET)],
        notify=tell,
        delay=timedelta(seconds=float(os.environ.get("DESK_DELAY", "5"))),
        even_if_watched=True,  # staff that watches is no reason not to mail the customer: `notify` looks who is there
        public_url=f"{URL}/agents",
    ),
)
app = FastAPI(lifespan=agents.lifespan)


class Login(BaseModel):
    """Who signs in. A real login has a password, or better none."""

    user: str


@app.get("/session")
async def session(request: Request) -> dict[str, Any]:
    """Tell the page who is signed in, and who could."""
    return {"user": person_of(request), "people": list(PEOPLE.values())}


@app.post("/login")
async def login(given: Login, response: Response) -> Person:
    """Sign in as one of the people of the demo."""
    person = PEOPLE.get(given.user)
    if person is None:
        raise HTTPException(404, "There is no such person.")
    if person.id in DELETING:
        raise HTTPException(409, "Your data is being deleted. Try again in a moment.")
    sign_in(response, person)
    return person


@app.post("/logout")
async def logout(request: Request, response: Response) -> dict[str, bool]:
    """Sign out, and close the sockets and streams of the user."""
    person = person_of(request)
    sign_out(response)
    if person is not None:
        await agents.disconnect(principal=person.id)
    return {"ok": True}


@app.get("/mails")
async def mails(request: Request) -> dict[str, Any]:
    """Show the mails to the user, and to staff the webhooks, too. A real product sends them."""
    person = person_of(request)
    if person is None:
        raise HTTPException(401, "Sign in first.")
    received = list(reversed(RECEIVED.values())) if person.role == "staff" else []
    return {"mails": [mail for mail in reversed(OUTBOX.values()) if mail.to == person.id], "webhooks": received}


@app.post("/hooks/everyword", status_code=204)
async def hook(request: Request) -> None:
    """Take the webhooks; in a product, another service does."""
    try:
        receive(request.headers, await request.body())
    except WebhookRefused as exc:
        raise HTTPException(400, "The signature is wrong.") from exc


app.include_router(accounts(agents))
app.mount("/agents", agents)
app.mount("/", StaticFiles(directory=PAGE, html=True))
