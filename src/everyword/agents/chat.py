"""AIChatAgent: an agent with a durable conversation. Only `on_chat_message` has to be defined."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..errors import UsageError, public_text
from ..ids import RequestId
from ..messages.message import UIMessage
from ..runtime.api import Continue, Recovery, Retry, Stop, Wait
from .agent import Agent
from .agent_tools.child import WorksAsTool
from .durations import Duration, to_seconds
from .execution_context import turn_of_agent, waiting_agents
from .handles.chat_handle import ChatHandle
from .handles.handle import Handle
from .jobs import next_request_of_job
from .limits import TurnLimits
from .message_input import Messages, request_id_or_new, to_json_messages, to_stored_messages
from .save_messages_result import SaveMessagesResult
from .state.change import StateT
from .turn import Turn
from .versions import HasVersions

__all__ = ["AIChatAgent", "Debounce", "is_in_turn"]


@dataclass(frozen=True, slots=True)
class Debounce:
    """Wait for the user to stop typing: of questions within `seconds` (or a timedelta), only the last is answered."""

    seconds: Duration = 0.75


class AIChatAgent(HasVersions, WorksAsTool, Agent[StateT]):
    """An agent with a conversation that survives crashes. Subclass it and define `on_chat_message`."""

    _handle_type: ClassVar[type[Handle[Any]]] = ChatHandle

    max_persisted_messages: int | None = None
    """How many messages are stored; older ones are deleted when a turn ends. You choose what the model is sent."""

    message_concurrency: Literal["queue", "latest", "merge", "drop", "steer"] | Debounce = "queue"
    """What happens with a question that arrives while another one is being answered.

    `queue`: it waits. `latest`: only the newest waiting question is answered. `merge`: all waiting questions are
    answered together. `drop`: it is refused. `steer`: the model reads it before its next step.
    """

    trust_client_messages: bool = False
    """Whether clients may add and change assistant messages with `setMessages`.

    If True, a client decides what the assistant said, including tool calls and their results, and the model believes
    it. A tool call that a client stored is never run. Set it only if you trust every client.
    """

    turn_limits: TurnLimits = TurnLimits()
    """How often a turn is tried, how long it, its model and its tools may take, and the text of a failed turn."""

    # -- hooks ------------------------------------------------------------------------------------

    def on_chat_message(self, turn: Turn) -> Any:
        """Answer: yield text or chunks, or return text, an iterator, a response (of text or a stream) or None.

        May also be defined without parameters, or as `(on_finish, options)`.
        """
        raise UsageError(f"unable to answer; define `async def on_chat_message(self, turn)` on {type(self).__name__}")

    async def on_chat_response(self, result: SaveMessagesResult) -> None:
        """Called when a turn has ended, with what was stored. Called once per turn that was not skipped (R-28)."""

    async def on_chat_recovery(self, ctx: Recovery) -> Continue | Retry | Stop | Wait:
        """Decide about a turn whose last attempt died, stalled or failed with an error that may be temporary.

        Called before each further attempt; after a crash, also when no client is connected. If `ctx.exhausted`, the
        turn is given up whatever is returned: it ends as `error` with `TurnLimits.failed_text`, and its text is kept.
        """
        return Continue()

    def sanitize_message_for_persistence(self, message: UIMessage) -> UIMessage:
        """Return the message as it is to be stored. Must be a pure function of the message.

        It is called at least once for each message. A large `data:` URL of a file part in what it returns for an answer
        becomes an attachment.
        """
        return message

    def error_text(self, exc: BaseException) -> str:
        """Return the text that clients see of a failure: that of a ChatError or a refusal, or a safe sentence."""
        return public_text(exc, "Something went wrong while answering. Please try again.")

    # -- methods to call ---------------------------------------------------------------------------------------

    @property
    def messages(self) -> list[UIMessage]:
        """The conversation: in a turn, the messages that it answers; elsewhere, the stored messages."""
        turn = turn_of_agent(self._runtime.agent)
        return list(turn.messages if turn is not None else self._runtime.messages())

    async def persist_messages(self, messages: Messages) -> None:
        """Store messages without starting a turn: new ones are added, changed ones replaced, none deleted."""
        await self._runtime.put_messages(to_json_messages(messages))

    async def save_messages(
        self,
        messages: Messages | str | Callable[[list[UIMessage]], Messages | str | Awaitable[Messages | str]],
        *,
        request_id: str | None = None,
    ) -> SaveMessagesResult:
        """Store messages and answer them; returns when the turn has ended. Plain text is one message of the user.

        A function is called with the conversation when the turn begins, and returns the messages. With your own
        `request_id`, the turn happens once: a known id returns the turn that it belongs to. Jobs set one themselves,
        so a job that runs again after its process died asks nothing twice; except with functions, which are not stored.
        """
        _check_not_in_turn(self)
        if callable(messages):
            request = request_id
            given: Any = _evaluate(messages)
        else:
            request = request_id if request_id is not None else next_request_of_job()
            given = to_stored_messages(messages, request_id_or_new(request))
        result = await self._runtime.run_turn(given, request=RequestId(request) if request is not None else None)
        return SaveMessagesResult.of(result)

    async def continue_last_turn(self, body: dict[str, Any] | None = None) -> SaveMessagesResult:
        """Continue the last assistant message; `skipped` if the last message is not one."""
        _check_not_in_turn(self)
        result = await self._runtime.continue_turn(body=body)
        return SaveMessagesResult.of(result) if result is not None else SaveMessagesResult("", "skipped")

    async def clear_history(self) -> None:
        """Delete all messages: running turns are stopped, waiting ones are skipped."""
        await self._runtime.clear()

    async def abort_request(self, request_id: str) -> None:
        """Stop one turn, running or waiting."""
        await self._runtime.cancel(RequestId(request_id))

    async def abort_all_requests(self) -> None:
        """Stop every turn, running or waiting, and approved tool calls that run after their turn."""
        await self._runtime.cancel(None)

    async def reset_turn_state(self) -> None:
        """Stop every turn and wait until none is left; the messages are kept."""
        await self._runtime.cancel(None)
        await self._runtime.wait_until_idle()

    async def wait_until_stable(self, timeout: Duration | None = None) -> bool:  # noqa: ASYNC109 - the seeds' name
        """Wait until no turn runs or waits and no tool call is open; False if the timeout passes first.

        Args:
            timeout: Seconds or a timedelta; None to wait for ever.
        """
        return await self._runtime.wait_until_stable(None if timeout is None else to_seconds(timeout))

    async def _run_approved_calls(self, turn: Turn) -> None:
        await turn._tool_runner.run_approved()

    async def has_pending_interaction(self) -> bool:
        """Tell whether a tool call waits for the page or for an approval."""
        return await self._runtime.versions.is_asking()


def is_in_turn(agent: AIChatAgent) -> bool:
    """Tell whether a turn of this agent waits for the running code: starting another turn here would be a deadlock."""
    return agent._runtime.agent in waiting_agents()


def _check_not_in_turn(agent: AIChatAgent) -> None:
    if is_in_turn(agent):
        raise UsageError("unable to start a turn inside a turn; it would wait for itself. Use `on_chat_response`.")


def _evaluate(
    function: Callable[[list[UIMessage]], Messages | str | Awaitable[Messages | str]],
) -> Callable[[Sequence[UIMessage]], Awaitable[list[dict[str, Any]]]]:
    async def evaluate(current: Sequence[UIMessage]) -> list[dict[str, Any]]:
        given = function(list(current))
        return to_stored_messages(await given if inspect.isawaitable(given) else given, request_id_or_new(None))

    return evaluate
