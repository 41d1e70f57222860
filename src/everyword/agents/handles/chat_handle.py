"""ChatHandle: a handle to an agent with a conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import UsageError
from ...ids import agent_id, parent_id, sub_agent_id
from ...messages.message import UIMessage
from ..jobs import next_request_of_job
from ..message_input import Messages, request_id_or_new
from ..save_messages_result import SaveMessagesResult
from .families import VersionsHandle
from .handle import Handle

if TYPE_CHECKING:
    from ..chat import AIChatAgent

__all__ = ["ChatHandle", "check_messages"]

C_co = TypeVar("C_co", bound="AIChatAgent[Any]", covariant=True)


class ChatHandle(Handle[C_co]):
    """A handle to an `AIChatAgent`."""

    @property
    def versions(self) -> VersionsHandle[C_co]:
        """Other versions of the shown messages: list them, switch to one, continue in a copy."""
        return VersionsHandle(self._do, self._beside)

    def _beside(self, name: str) -> ChatHandle[C_co]:
        """Return a handle to an agent of the same class in the same place."""
        above = parent_id(self._agent)
        agent = agent_id(self.kind, name) if above is None else sub_agent_id(above, self.kind, name)
        return type(self)(self._calls, agent, self._cls)

    async def get_messages(self) -> list[UIMessage]:
        """Return the stored conversation."""
        messages: list[UIMessage] = await self._do("get_messages", list[UIMessage])
        return messages

    async def save_messages(self, messages: Messages | str, *, request_id: str | None = None) -> SaveMessagesResult:
        """Store messages and answer them; returns when the turn has ended. Plain text is one message of the user.

        With your own `request_id`, the turn happens once: a known id returns the turn that it belongs to. Inside a job,
        one is set automatically.

        Raises:
            UsageError: a turn of this agent waits for the calling code.
        """
        check_messages(messages, "save_messages")
        request = request_id_or_new(request_id if request_id is not None else next_request_of_job())
        given = {"messages": messages, "request_id": request}
        result: SaveMessagesResult = await self._do(
            "save_messages", SaveMessagesResult, given, is_repeatable=True, is_wait=True
        )
        return result

    async def persist_messages(self, messages: Messages) -> None:
        """Store messages without starting a turn: new ones are added, changed ones replaced, none deleted."""
        check_messages(messages, "persist_messages")
        await self._do("persist_messages", None, {"messages": messages})

    async def continue_last_turn(self, body: dict[str, Any] | None = None) -> SaveMessagesResult:
        """Go on with the last assistant message; `skipped` when the last message is not one."""
        result: SaveMessagesResult = await self._do(
            "continue_last_turn", SaveMessagesResult, {"body": body}, is_wait=True
        )
        return result

    async def clear_history(self) -> None:
        """Clear the conversation: running turns stop, waiting ones are skipped, and old messages do not come back."""
        await self._do("clear_history", None)

    async def abort_request(self, request_id: str) -> None:
        """Stop one turn, running or waiting."""
        await self._do("abort_request", None, {"request_id": request_id})

    async def abort_all_requests(self) -> None:
        """Stop every turn, running or waiting, and approved tool calls that run after their turn."""
        await self._do("abort_all_requests", None)

    async def reset_turn_state(self) -> None:
        """Stop every turn and wait until none is left; the messages are kept."""
        await self._do("reset_turn_state", None, is_wait=True)

    async def wait_until_stable(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - the agent's own name
        """Wait until no turn runs or waits and no tool call is open; False if `timeout` seconds pass first."""
        is_stable: bool = await self._do(
            "wait_until_stable", bool, {"timeout": timeout}, is_wait=True, ends_with_caller=True
        )
        return is_stable

    async def has_pending_interaction(self) -> bool:
        """Tell whether a tool call waits for the page or for an approval."""
        is_pending: bool = await self._do("has_pending_interaction", bool)
        return is_pending


def check_messages(messages: object, method: str) -> None:
    """Raise UsageError if a function was passed instead of messages."""
    if callable(messages):
        raise UsageError(
            f"unable to give {method} of a handle a function; functions do not travel. Call it in a method of the "
            "agent: `self.save_messages(fn)`."
        )
