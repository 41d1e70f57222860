"""AIChatAgent: a durable conversation. Define `on_chat_message`; everything else is there."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..errors import AgentGone, CallPending, UsageError, public_text
from ..ids import RequestId
from ..messages.message import Chunk, UIMessage
from ..runtime.agent_runtime import AgentRuntime
from ..runtime.api import (
    Call,
    Continue,
    Decision,
    DeclaredJob,
    FiberRecord,
    JobCall,
    Policy,
    Recovery,
    Retry,
    Rules,
    RunAnswer,
    RunCall,
    RunQuestion,
    RunRecord,
    Stop,
    StreamFunction,
    StreamItem,
    TurnCall,
    TurnResult,
    Wait,
)
from .agent import Agent, running_as
from .agent_tools.child import WorksAsTool, run_answer, run_question
from .answer_stream import answer_items
from .durations import Duration, to_millis, to_seconds
from .execution_context import answering, current_turn, turn_of_agent
from .fibers import recover_fiber
from .handles.chat_handle import ChatHandle
from .handles.handle import Handle
from .handles.incoming_calls import answer_call, answer_stream
from .jobs import call_job, next_request_of_job
from .limits import TurnLimits
from .message_input import Messages, asked_messages, raw_messages, request_id_of
from .responder import AgentResponder, run_rules, tell_finish
from .save_messages_result import SaveMessagesResult
from .schedules import declared_jobs, started
from .state.change import StateT
from .tools.discovery import tools_of
from .tools.threads import ToolThreads
from .turn import Turn
from .versions import HasVersions

if TYPE_CHECKING:
    from .handles.app_handle import AppHandle

__all__ = ["AIChatAgent", "ChatResponder", "Debounce", "is_in_turn", "responder_for"]


@dataclass(frozen=True, slots=True)
class Debounce:
    """Wait for the user to stop typing: of questions within `seconds` (or a timedelta), only the last is answered."""

    seconds: Duration = 0.75


class AIChatAgent(HasVersions, WorksAsTool, Agent[StateT]):
    """A conversation that does not lose a word. Subclass it and define `on_chat_message`."""

    _handle_type: ClassVar[type[Handle[Any]]] = ChatHandle

    max_persisted_messages: int | None = None
    """How many messages are stored; older ones go when a turn ends. What the model is sent is yours to choose."""

    message_concurrency: Literal["queue", "latest", "merge", "drop", "steer"] | Debounce = "queue"
    """What becomes of a question that comes while another is being answered.

    `queue`: it waits. `latest`: of those that wait, the newest is answered. `merge`: those that wait are answered
    together. `drop`: it is refused. `steer`: the model reads it before its next step.
    """

    trust_client_messages: bool = False
    """Whether clients may add and change assistant messages with `setMessages`.

    A client then decides what the assistant said, including tool calls and their results, and the model believes it.
    A call without an output is the server's: what a client stores is never run. Set it only if you trust every client.
    """

    turn_limits: TurnLimits = TurnLimits()
    """How often a turn is tried, how long it, its model and its tools may take, and what clients read at the end."""

    # -- what you define ------------------------------------------------------------------------------------

    def on_chat_message(self, turn: Turn) -> Any:
        """Answer: yield text or chunks, or return text, an iterator, a response (of text or a stream) or None.

        May also be defined without parameters, or as `(on_finish, options)`.
        """
        raise UsageError(f"unable to answer; define `async def on_chat_message(self, turn)` on {type(self).__name__}")

    async def on_chat_response(self, result: SaveMessagesResult) -> None:
        """Hear how a turn ended: once per turn, after it, with what was stored."""

    async def on_chat_recovery(self, ctx: Recovery) -> Continue | Retry | Stop | Wait:
        """Decide about a turn whose last attempt died, stalled or failed in a way that may pass.

        Called before each further attempt, after a crash also when nobody is connected. If `ctx.exhausted`, the turn is
        given up whatever is returned: it ends as `error` with `TurnLimits.failed_text`, and what it said is kept.
        """
        return Continue()

    def sanitize_message_for_persistence(self, message: UIMessage) -> UIMessage:
        """Return what is to be stored of a message. Must depend on nothing else, and change nothing else."""
        return message

    def error_text(self, exc: BaseException) -> str:
        """Return what clients see of a failure: the text of a ChatError or of a refusal of ours, or a safe sentence."""
        return public_text(exc, "Something went wrong while answering. Please try again.")

    # -- what you use ---------------------------------------------------------------------------------------

    @property
    def messages(self) -> list[UIMessage]:
        """The conversation: while a turn is answered, what it answers; else what is stored."""
        turn = turn_of_agent(self._runtime.agent)
        return list(turn.messages if turn is not None else self._runtime.messages())

    async def persist_messages(self, messages: Messages) -> None:
        """Store messages without starting a turn: new ones are added, changed ones replaced, none deleted."""
        await self._runtime.put_messages(raw_messages(messages))

    async def save_messages(
        self,
        messages: Messages | str | Callable[[list[UIMessage]], Messages | str | Awaitable[Messages | str]],
        *,
        request_id: str | None = None,
    ) -> SaveMessagesResult:
        """Store messages and answer them; returns when the turn has ended. Plain text is one message of the user.

        A function is called with the conversation when the turn's time has come, and gives the messages then. A
        `request_id` of your own makes it happen once: a known one gives the turn that it has. A job has its own, so
        that one which is run again because its process died asks nothing twice; but for functions, which die with it.
        """
        _check_not_in_turn(self)
        if callable(messages):
            request = request_id
            given: Any = _evaluate(messages)
        else:
            request = request_id if request_id is not None else next_request_of_job()
            given = asked_messages(messages, request_id_of(request))
        result = await self._runtime.run_turn(given, request=RequestId(request) if request is not None else None)
        return SaveMessagesResult.of(result)

    async def continue_last_turn(self, body: dict[str, Any] | None = None) -> SaveMessagesResult:
        """Go on with the last assistant message; `skipped` when the last message is not one."""
        _check_not_in_turn(self)
        result = await self._runtime.continue_turn(body=body)
        return SaveMessagesResult.of(result) if result is not None else SaveMessagesResult("", "skipped")

    async def clear_history(self) -> None:
        """Start anew: running turns stop, waiting ones are skipped, nothing old comes back."""
        await self._runtime.clear()

    async def abort_request(self, request_id: str) -> None:
        """Stop one turn, running or waiting."""
        await self._runtime.cancel(RequestId(request_id))

    async def abort_all_requests(self) -> None:
        """Stop every turn, running or waiting, and approved calls that run late."""
        await self._runtime.cancel(None)

    async def reset_turn_state(self) -> None:
        """Stop every turn and wait until none is left; the conversation stays."""
        await self._runtime.cancel(None)
        await self._runtime.wait_until_idle()

    async def wait_until_stable(self, timeout: Duration | None = None) -> bool:  # noqa: ASYNC109 - the seeds' name
        """Wait until nothing runs or waits and nobody is asked anything; False when the timeout passes first.

        Args:
            timeout: Seconds or a timedelta; None to wait for ever.
        """
        return await self._runtime.wait_until_stable(None if timeout is None else to_seconds(timeout))

    async def _run_approved_calls(self, turn: Turn) -> None:
        await turn._box.run_approved()

    async def has_pending_interaction(self) -> bool:
        """Tell whether a tool call waits for the page or a person."""
        return await self._runtime.versions.is_asking()


class ChatResponder:
    """Lets an AIChatAgent answer the runtime's turns: implements `runtime.api.Responder`.

    `around` wraps the function that answers a turn, for observers.
    """

    def __init__(
        self,
        agent: AIChatAgent,
        threads: ToolThreads | None = None,
        around: Callable[[StreamFunction], StreamFunction] | None = None,
    ) -> None:
        self.agent = agent
        self._threads = threads
        self._stream = self._answer if around is None else around(self._answer)

    @property
    def rules(self) -> Rules:
        """What the agent's class lays down."""
        agent, limits = self.agent, self.agent.turn_limits
        return Rules(
            max_attempts=limits.max_attempts,
            max_total_attempts=limits.max_total_attempts,
            max_running_time=to_millis(limits.max_running_time),
            max_persisted_messages=agent.max_persisted_messages,
            trusts_client_messages=agent.trust_client_messages,
            has_response_hook=type(agent).on_chat_response is not AIChatAgent.on_chat_response,
            policy=_policy(agent.message_concurrency),
            stall_after=None if limits.stall_timeout is None else to_millis(limits.stall_timeout),
            exhausted_text=limits.failed_text,
            server_tools=frozenset(name for name, tool in tools_of(agent).items() if tool.is_server),
            sanitize=self._sanitize,
            **run_rules(agent),
        )

    def stream(self, call: TurnCall) -> AsyncIterator[str | Chunk]:
        return self._stream(call)

    def _answer(self, call: TurnCall) -> AsyncIterator[str | Chunk]:
        """Call `on_chat_message` and give what it gives. What it waits for, if it does, starts the next turn.

        For approved calls that come too late for that, run them and nothing else: they write their outputs themselves.
        """
        current_turn.set(call)
        running_as(self.agent)
        turn = Turn(call, agent=self.agent, threads=self._threads)
        answer = self.agent._run_approved_calls(turn) if call.is_calls_only else _ask(self.agent, turn)
        source = f"{type(self.agent).__name__}.on_chat_message"
        return answer_items(answer, source, ends_at=(CallPending,), after=turn._aclose)

    def error_text(self, exc: BaseException) -> str:
        return self.agent.error_text(exc)

    async def on_response(self, result: TurnResult) -> None:
        await self.agent.on_chat_response(SaveMessagesResult.of(result))

    @property
    def wants_start(self) -> bool:
        return getattr(self.agent.on_start, "__func__", None) is not Agent.on_start

    async def on_start(self) -> None:
        running_as(self.agent)
        await started(self.agent.on_start)

    @property
    def declared_jobs(self) -> Sequence[DeclaredJob]:
        return declared_jobs(type(self.agent))  # type: ignore[arg-type]  # mypy takes a class for one of its instances

    async def run_job(self, call: JobCall) -> None:
        running_as(self.agent)
        await call_job(self.agent, call)

    async def on_fiber_recovered(self, fiber: FiberRecord) -> None:
        running_as(self.agent)
        await recover_fiber(self.agent, fiber)

    async def on_run_finished(self, record: RunRecord) -> None:
        running_as(self.agent)
        await tell_finish(self.agent, record)

    async def run_question(self, call: RunCall) -> RunQuestion:
        running_as(self.agent)
        return await run_question(self.agent, call)

    async def run_answer(self, call: RunCall, result: TurnResult) -> RunAnswer:
        running_as(self.agent)
        return await run_answer(self.agent, call, result)

    def retire(self, why: AgentGone) -> None:
        self.agent._retire(why)

    async def answer_call(self, call: Call) -> bytes:
        return await answer_call(self.agent, call)

    def answer_stream(self, call: Call) -> AsyncIterator[StreamItem]:
        return answer_stream(self.agent, call)

    async def on_recovery(self, recovery: Recovery) -> Decision:
        return await self.agent.on_chat_recovery(recovery)

    async def on_exhausted(self, recovery: Recovery) -> None:
        await self.agent.on_chat_recovery(replace(recovery, exhausted=True))

    def _sanitize(self, message: dict[str, Any]) -> dict[str, Any]:
        agent = self.agent
        if type(agent).sanitize_message_for_persistence is AIChatAgent.sanitize_message_for_persistence:
            return message
        return agent.sanitize_message_for_persistence(UIMessage.from_dict(message)).to_dict()


def is_in_turn(agent: AIChatAgent) -> bool:
    """Tell whether this agent's answer waits for the code that asks: another turn of it would wait for this one."""
    return agent._runtime.agent in answering()


def responder_for(
    cls: type[Agent],
    runtime: AgentRuntime,
    threads: ToolThreads | None = None,
    app: AppHandle | None = None,
    around: Callable[[StreamFunction], StreamFunction] | None = None,
) -> ChatResponder | AgentResponder:
    """Make an instance of an agent class for the runtime. Plain tools run in `threads`; `around` wraps its answers."""
    agent = cls(runtime)
    agent._app = app
    return ChatResponder(agent, threads, around) if isinstance(agent, AIChatAgent) else AgentResponder(agent)


async def _ask(agent: AIChatAgent, turn: Turn) -> Any:
    answer = _call(agent, turn)
    return await answer if inspect.isawaitable(answer) else answer


def _call(agent: AIChatAgent, turn: Turn) -> Any:
    """Call the user's method with as many arguments as it takes: none, the turn, or (on_finish, options)."""
    match _arity(type(agent)):  # type: ignore[arg-type]  # mypy takes a class for one of its instances
        case 0:
            return agent.on_chat_message()  # type: ignore[call-arg]
        case 1:
            return agent.on_chat_message(turn)
        case 2:
            return agent.on_chat_message(None, turn)  # type: ignore[call-arg, arg-type]
        case _:
            raise UsageError(
                f"unable to call {type(agent).__name__}.on_chat_message; define it as (self), (self, turn) or "
                "(self, on_finish, options)"
            )


@cache
def _arity(cls: type[AIChatAgent]) -> int:
    """Return how many arguments the method takes beside `self`; one that takes any number is given the turn."""
    parameters = list(inspect.signature(cls.on_chat_message).parameters.values())
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 1
    bound = 0 if isinstance(inspect.getattr_static(cls, "on_chat_message"), staticmethod | classmethod) else 1
    return sum(p.kind is not p.KEYWORD_ONLY for p in parameters) - bound


def _check_not_in_turn(agent: AIChatAgent) -> None:
    if is_in_turn(agent):
        raise UsageError("unable to start a turn inside a turn; it would wait for itself. Use `on_chat_response`.")


def _policy(given: str | Debounce) -> Policy:
    if isinstance(given, Debounce):
        return Policy("debounce", to_millis(given.seconds))
    match given:
        case "queue" | "latest" | "merge" | "drop" | "steer":
            return Policy(given)
        case _:
            raise UsageError(
                f"unable to use message_concurrency={given!r}; choose 'queue', 'latest', 'merge', 'drop', 'steer' or "
                "Debounce(seconds)"
            )


def _evaluate(
    function: Callable[[list[UIMessage]], Messages | str | Awaitable[Messages | str]],
) -> Callable[[Sequence[UIMessage]], Awaitable[list[dict[str, Any]]]]:
    async def evaluate(current: Sequence[UIMessage]) -> list[dict[str, Any]]:
        given = function(list(current))
        return asked_messages(await given if inspect.isawaitable(given) else given, request_id_of(None))

    return evaluate
