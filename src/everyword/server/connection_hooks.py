"""Calls the agent's own code for a connection: hooks, callable methods, state. Its exceptions do not affect others.

User code runs in tasks of the agent (R-26): a call continues after its socket closed; a slow hook delays nothing else.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import msgspec

from ..agents import Agent
from ..agents.callables import CallResult, check_arguments, find_callable
from ..agents.connections import Connection
from ..agents.execution_context import set_current_agent
from ..agents.state.shared_state import change_state, shown_state
from ..errors import MailboxFull, is_public, public_text
from ..messages.json_values import encode_json
from ..runtime.directory import LoadedAgent
from ..wire import frames
from ..wire.parse import CallMethod, SetState
from .close_codes import TRY_LATER
from .permissions import Reject
from .refusals import UNREAD

__all__ = ["ConnectionHooks", "agent_of"]

log = logging.getLogger("everyword.server")

MOST_AT_ONCE = 256
"""How much of the agent's own code one connection may have running: a client must not choose that."""

READ_ONLY = "Connection is readonly"
REFUSED = "State update rejected"


def agent_of(loaded: LoadedAgent) -> Agent | None:
    """Return the user's object behind a loaded agent; None for responders that are no agent, as tests have."""
    agent = getattr(loaded.responder, "agent", None)
    return agent if isinstance(agent, Agent) else None


class ConnectionHooks:
    """Lets one connection meet its agent."""

    def __init__(
        self, loaded: LoadedAgent, agent: Agent, connection: Connection, post: Callable[[bytes], None]
    ) -> None:
        self._loaded, self._agent, self.connection, self._post = loaded, agent, connection, post
        self._running = 0
        self._is_unread = False
        """Whether the client did not read its replies, and is being closed."""
        self._is_passed_over = False
        """True once a frame of this connection was passed over, and the log said so."""

    def state(self) -> bytes | None:
        """Return the state as JSON, the initial one if none was set; None when there is none at all."""
        set_current_agent(self._agent)
        return shown_state(self._agent, self._loaded.reconciler.view.state_value)

    def prepare(self) -> bool:
        """Call the agent's `prepare_connection`; return whether the connection gets the frames of the protocol."""
        set_current_agent(self._agent)
        try:
            self._agent.prepare_connection(self.connection, self.connection.request)
        except Exception:
            log.exception("prepare_connection of %r raised", self._agent)
        return bool(self.connection.has_protocol)

    @property
    def is_busy(self) -> bool:
        """Whether code of the agent runs for this connection."""
        return self._running > 0

    def resumed(self) -> None:
        """Let the agent have a connection that another node has served before: `on_connect` ran there."""
        self._agent._admit(self.connection)

    def joined(self) -> None:
        """Tell the agent of the connection."""
        self._agent._admit(self.connection)
        self._run(lambda: self._agent.on_connect(self.connection, self.connection.request), "on_connect")

    def left(self, code: int, reason: str, *, is_moving: bool = False) -> None:
        """Call `on_close`, unless the agent is destroyed.

        A client that stays and is served by another node (`is_moving`) is not closed: `on_close` runs there later.
        """
        self._agent._dismiss(self.connection)
        if self._loaded.is_destroyed or is_moving:
            return
        self._run(lambda: self._agent.on_close(self.connection, code, reason), "on_close")

    def heard(self, text: str) -> None:
        """Hand over a frame that is not of the protocol; of a read-only client only where the agent allows it.

        Raises:
            MailboxFull: the agent's code does not keep up with this client.
        """
        if self.connection.is_readonly and not self._agent.read_only_may_send:
            if not self._is_passed_over:
                log.info("%r takes no frames of read-only clients; passing over those of a socket", self._agent)
            self._is_passed_over = True
            return
        if self._running >= MOST_AT_ONCE:
            raise MailboxFull("unable to take a message; the agent is still busy with those before")
        self._run(lambda: self._agent.on_message(self.connection, text), "on_message")

    async def set_state(self, frame: SetState, refused: Reject | None) -> None:
        """Set the state that a client sent, unless it is `refused`. A refusal does not tell the client the reason."""
        if refused is not None:
            self._post(frames.state_error(READ_ONLY if self.connection.is_readonly else REFUSED))
            return
        set_current_agent(self._agent)
        state = msgspec.json.decode(bytes(frame.state))
        try:
            await change_state(self._agent, lambda owner: state, self.connection, self._run_hook)
        except MailboxFull:
            raise
        except Exception as exc:  # noqa: BLE001 - the validator is the agent's own code
            log.info("%r refused a state: %s", self._agent, exc)
            self._post(frames.state_error(REFUSED))

    def call(self, frame: CallMethod) -> None:
        """Run a callable and post its result or its error."""
        if self._running >= MOST_AT_ONCE:
            self._reply(frames.rpc_error(frame.id, f"unable to call {frame.method}; too many calls run at once"))
            return
        self._run(lambda: self._call(frame), f"call of {frame.method}")

    async def _call(self, frame: CallMethod) -> None:
        await self.connection.drain()  # many calls that came at once are made as their replies are read
        try:
            method = find_callable(self._agent, frame.method, is_read_only=self.connection.is_readonly)
            given = method(*check_arguments(method, frame.method, frame.args))
            if inspect.isasyncgen(given):
                async with aclosing(given):
                    result = await self._stream(frame.id, given)
            else:
                result = await given if inspect.isawaitable(given) else given
            reply = _result(frame.id, result)
            await self._loaded.pending_states.committed()  # the result may tell of states that are not yet
            self._reply(reply)
        except Exception as exc:
            if not is_public(exc):
                log.warning("%s of %r raised", frame.method, self._agent, exc_info=exc)
            error = frames.rpc_error(frame.id, public_text(exc, f"The call of {frame.method} failed."))
            self._loaded.pending_states.then(lambda: self._reply(error))

    async def _stream(self, call: str, values: AsyncIterator[Any]) -> Any:
        """Post each value; return the result that they end with, None if there is none."""
        async for value in values:
            if isinstance(value, CallResult):
                return value.value
            reply = _result(call, value, done=False)
            await self._loaded.pending_states.committed()
            self._reply(reply)
            await self.connection.drain()
        return None

    def _reply(self, frame: bytes) -> None:
        if self._is_unread:
            return
        try:
            self._post(frame)
        except MailboxFull as exc:
            self._is_unread = True
            log.info("%r is closed: %s", self.connection, exc)
            self.connection.close(TRY_LATER, UNREAD)

    def _run_hook(self, work: Callable[[], Awaitable[None]]) -> None:
        self._run(work, "on_state_changed")

    def _run(self, work: Callable[[], Awaitable[Any]], name: str) -> None:
        self._running += 1
        self._loaded.reconciler.spawn(self._guarded(work), f"{name} of {self._loaded.actor.agent}")

    async def _guarded(self, work: Callable[[], Awaitable[Any]]) -> None:
        set_current_agent(self._agent)
        try:
            await work()
        except Exception as exc:  # noqa: BLE001 - the agent's own code
            try:
                await self._agent.on_error(self.connection, exc)
            except Exception:
                log.exception("on_error of %r raised", self._agent)
        finally:
            self._running -= 1


def _result(call: str, value: Any, *, done: bool = True) -> bytes:
    encoded = encode_json(value)
    return b'{"type":"rpc","id":%b,"success":true,"result":%b,"done":%b}' % (
        msgspec.json.encode(call),
        encoded,
        b"true" if done else b"false",
    )
