"""everyword inside another application: `everyword dev examples/mounted.py`.

Mounted applications get no lifespan of their own, so the outer one runs it. Who may use which agent is decided in one
place, for HTTP and sockets alike.
"""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from everyword import Connecting, Everyword, Principal, Reject
from examples.echo import Echo

TOKENS = {"open sesame": "ann"}


async def authorize(connecting: Connecting) -> Principal | Reject | None:
    """Let everybody talk to the agents that carry their own name."""
    token = connecting.request.headers.get("authorization", "").removeprefix("Bearer ")
    user = TOKENS.get(token)
    if user is None:
        return None
    return (
        Principal(user) if connecting.name == user else Reject(f"unable to open the chat; {connecting.name} is not you")
    )


async def home(request: Request) -> PlainTextResponse:
    """Be the rest of the application."""
    return PlainTextResponse("the rest of your application\n")


agents = Everyword([Echo], authorize=authorize, origins=["https://app.example"])
app = Starlette(routes=[Route("/", home), Mount("/api", agents)], lifespan=agents.lifespan)
