"""ThinkHandle: a handle to a Think agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from ...errors import UsageError
from ..agent_tools.types import type_name
from ..handles.chat_handle import ChatHandle, check_messages
from ..handles.families import SubmissionsHandle
from ..message_input import Messages, request_id_or_new
from ..save_messages_result import SaveMessagesResult
from ..submissions import Submission

if TYPE_CHECKING:
    from .think import Think

__all__ = ["ThinkHandle"]

T_co = TypeVar("T_co", bound="Think[Any]", covariant=True)
T = TypeVar("T")


class ThinkHandle(ChatHandle[T_co]):
    """A handle to a `Think` agent."""

    @overload
    async def run_turn(
        self, messages: Messages | str, *, body: dict[str, Any] | None = None, idempotency_key: str | None = None
    ) -> SaveMessagesResult: ...
    @overload
    async def run_turn(
        self,
        messages: Messages | str,
        *,
        output_type: type[T],
        body: dict[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> T: ...
    async def run_turn(
        self,
        messages: Messages | str,
        *,
        output_type: Any = None,
        body: dict[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Any:
        """Start a turn, and return how it ended; with `output_type`, return the object that it ended with.

        The same idempotency key twice is the same turn. The type must be one of the class's `output_types`, because
        only its name is sent.

        Raises:
            ChatError: `output_type` was given, and the turn did not complete.
            CallPending: `output_type` was given, and a tool call waits for a person or the page first.
        """
        check_messages(messages, "run_turn")
        output = None if output_type is None else type_name(output_type)
        if output is not None and output_type not in self._cls.output_types:
            raise UsageError(f"unable to ask for {output}; list it in output_types of {self._cls.__name__}")
        given = {"messages": messages, "body": body, "idempotency_key": request_id_or_new(idempotency_key)}
        result = SaveMessagesResult if output_type is None else output_type
        return await self._do("run_turn", result, {**given, "output": output}, is_repeatable=True, is_wait=True)

    async def submit_messages(
        self, messages: Messages | str, *, idempotency_key: str | None = None, body: dict[str, Any] | None = None
    ) -> Submission:
        """Queue a turn and return at once; it is stored then, and survives the process.

        The same idempotency key twice is the same submission. May be called inside a turn.
        """
        check_messages(messages, "submit_messages")
        given = {"messages": messages, "body": body, "idempotency_key": request_id_or_new(idempotency_key)}
        submission: Submission = await self._do("submit_messages", Submission, given, is_repeatable=True)
        return submission

    @property
    def submissions(self) -> SubmissionsHandle:
        """Turns that `submit_messages` accepted: list, get and cancel them."""
        return SubmissionsHandle(self._do)
