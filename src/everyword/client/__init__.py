"""Clients of an everyword server, or of any server with its protocol. Needs `everyword[client]`.

    async with ChatClient("http://localhost:8787", agent="chat", name="user-42") as chat:
        async for message in chat.send("hello"):
            print(message.text)

`everyword.client.sync` has the same client without asyncio, and `python -m everyword.client` is a chat in the terminal.
The protocol itself, without sockets and clocks, is in `everyword.client.protocol`.
"""

from __future__ import annotations

from ..errors import CallFailed, ChatFailed, ClientError, ConnectionLost, StateRefused, TurnedAway, Unreachable
from .agent import AgentClient
from .backoff import Backoff
from .chat import ChatClient
from .connection import Options
from .reply import Reply

__all__ = ["AgentClient", "Backoff", "CallFailed", "ChatClient", "ChatFailed", "ClientError", "ConnectionLost"]
__all__ += ["Options", "Reply", "StateRefused", "TurnedAway", "Unreachable"]
