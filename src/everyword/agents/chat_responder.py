"""Connects an AIChatAgent to the runtime: answers turns, and passes on what the class sets and defines."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from ..errors import CallPending, UsageError
from ..messages.message import Chunk, UIMessage
from ..runtime.agent_runtime import AgentRuntime
from ..runtime.api import (
    Decision,
    Policy,
    Recovery,
    Rules,
    RunAnswer,
    RunCall,
    RunQuestion,
    StreamFunction,
    TurnCall,
    TurnResult,
)
from .agent import Agent
from .agent_responder import AgentResponder, run_rules
from .agent_tools.child import run_answer, run_question
from .answer_stream import answer_items
from .chat import AIChatAgent, Debounce
from .durations import to_millis
from .execution_context import current_turn, set_current_agent
from .save_messages_result import SaveMessagesResult
from .tools.discovery import tools_of
from .tools.threads import ToolThreads
from .turn import Turn

if TYPE_CHECKING:
    from .handles.app_handle import AppHandle

__all__ = ["ChatResponder", "responder_for"]

log = logging.getLogger("everyword.agents")

STORE_LIMIT = 30.0
"""Seconds that storing the files of an answer may take: its end waits for them."""


class ChatResponder(AgentResponder[AIChatAgent]):
    """Answers the turns of an AIChatAgent: implements `runtime.api.Responder`.

    `around` wraps the function that answers a turn, for observers.
    """

    def __init__(
        self,
        agent: AIChatAgent,
        threads: ToolThreads | None = None,
        around: Callable[[StreamFunction], StreamFunction] | None = None,
    ) -> None:
        super().__init__(agent)
        self._threads = threads
        self._stored_files: Counter[str] = Counter()
        """Hashes of the files of answers that are about to end."""
        self._stream = self._answer if around is None else around(self._answer)

    @property
    def rules(self) -> Rules:
        """The settings of the agent's class, for the core."""
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
        """Call `on_chat_message` and return its answer as one stream.

        If the turn is only there to run calls that were approved late, run these and nothing else: they write their
        outputs themselves.
        """
        current_turn.set(call)
        set_current_agent(self.agent)
        turn = Turn(call, agent=self.agent, threads=self._threads)
        answer = self.agent._run_approved_calls(turn) if call.is_calls_only else _ask(self.agent, turn)
        source = f"{type(self.agent).__name__}.on_chat_message"
        return answer_items(answer, source, ends_at=(CallPending,), after=turn._aclose, keep_file=self._keep_file)

    async def _keep_file(self, chunk: Chunk) -> Chunk:
        """Store the content of a large `data:` URL that a model or the agent's code has put into a chunk."""
        return await self.agent.attachments._moved_out(chunk)

    def error_text(self, exc: BaseException) -> str:
        return self.agent.error_text(exc)

    async def on_response(self, result: TurnResult) -> None:
        await self.agent.on_chat_response(SaveMessagesResult.of(result))

    async def run_question(self, call: RunCall) -> RunQuestion:
        set_current_agent(self.agent)
        return await run_question(self.agent, call)

    async def run_answer(self, call: RunCall, result: TurnResult) -> RunAnswer:
        set_current_agent(self.agent)
        return await run_answer(self.agent, call, result)

    async def on_recovery(self, recovery: Recovery) -> Decision:
        return await self.agent.on_chat_recovery(recovery)

    async def on_exhausted(self, recovery: Recovery) -> None:
        await self.agent.on_chat_recovery(replace(recovery, exhausted=True))

    @property
    def may_store_files(self) -> bool:
        return self._has_sanitizer and self.agent._runtime.attachments.data_url_limit is not None

    @asynccontextmanager
    async def storing_files(self, answer: UIMessage) -> AsyncIterator[None]:
        """Store the contents that `sanitize_message_for_persistence` puts into large `data:` URLs."""
        async with AsyncExitStack() as stack:
            stored: Collection[str] = ()
            try:
                message = self.agent.sanitize_message_for_persistence(answer).to_dict()
                async with asyncio.timeout(STORE_LIMIT):
                    stored = await stack.enter_async_context(self.agent._runtime.attachments.storing(message))
            except TimeoutError:
                log.warning("a file of an answer stays in its message: it took longer than %g s to store", STORE_LIMIT)
            except Exception as exc:  # noqa: BLE001 - the answer is not lost for that; a sanitizer that fails, fails again
                log.warning("a file of an answer stays in its message: %s", exc)
            self._stored_files.update(stored)
            try:
                yield
            finally:
                self._stored_files.subtract(stored)

    @property
    def _has_sanitizer(self) -> bool:
        own = type(self.agent).sanitize_message_for_persistence
        return own is not AIChatAgent.sanitize_message_for_persistence

    def _sanitize(self, message: dict[str, Any]) -> dict[str, Any]:
        if not self._has_sanitizer:
            return message
        sanitized = self.agent.sanitize_message_for_persistence(UIMessage.from_dict(message)).to_dict()
        stored = +self._stored_files
        return self.agent._runtime.attachments.moved(sanitized, stored) if stored else sanitized


def responder_for(
    cls: type[Agent],
    runtime: AgentRuntime,
    threads: ToolThreads | None = None,
    app: AppHandle | None = None,
    around: Callable[[StreamFunction], StreamFunction] | None = None,
) -> ChatResponder | AgentResponder[Agent]:
    """Make an agent and return its responder. Plain tools run in `threads`; `around` wraps its answers."""
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
    """Return how many arguments the method takes beside `self`; 1, the turn, for one that takes any number."""
    parameters = list(inspect.signature(cls.on_chat_message).parameters.values())
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 1
    bound = 0 if isinstance(inspect.getattr_static(cls, "on_chat_message"), staticmethod | classmethod) else 1
    return sum(p.kind is not p.KEYWORD_ONLY for p in parameters) - bound


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
