"""Think: an agent that answers with a model and tools. Only `model` has to be set."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, ClassVar, TypeVar, overload

from ...errors import UsageError
from ...messages.json_values import plain_json
from ...messages.message import Chunk
from ...runtime.agent_runtime import AgentRuntime
from ...runtime.api import TurnResult
from ..agent_tools.types import AgentToolOutput, find_output_type
from ..chat import AIChatAgent, is_in_turn
from ..handles.handle import Handle
from ..message_input import Messages, request_id_or_new, to_stored_messages
from ..save_messages_result import SaveMessagesResult
from ..state.change import StateT
from ..submissions import Submission, Submissions
from ..turn import Turn
from .context import StepContext, TurnContext
from .handle import ThinkHandle
from .loop import answer_turn, run_approved_calls
from .output import MARK, ExpectedOutput, expect, forget
from .toolsets import is_toolset

__all__ = ["Think"]

T = TypeVar("T")


class Think(AIChatAgent[StateT]):
    """A conversation with a model that has tools. Needs the extra `pydantic-ai` and the provider's own package."""

    _handle_type: ClassVar[type[Handle[Any]]] = ThinkHandle

    model: Any = None
    """A name such as `openai:gpt-5.2`, or a model object of Pydantic AI."""

    instructions: str = ""
    """The system prompt."""

    name_speakers: bool = False
    """Whether questions for the model begin with the name of their author (`Ann: hello`), for several users."""

    tools: Sequence[Any] = ()
    """Tools beside the methods with `@tool`: functions, tools, and toolsets of Pydantic AI."""

    max_steps: int = 20
    """How many requests to the model one attempt may make."""

    model_settings: Mapping[str, Any] = {}
    """Pydantic AI's settings for every request: temperature, max_tokens, request_timeout and the like."""

    output_types: ClassVar[Sequence[Any]] = ()
    """Types for `run_turn(output_type=…)` that must be known after a restart."""

    output_retries: int = 2
    """How often the model may try again if its object does not fit, or is missing."""

    _toolsets: list[Any]
    """The toolsets of Pydantic AI among `tools`."""

    def __init__(self, runtime: AgentRuntime) -> None:
        super().__init__(runtime)
        given = inspect.getattr_static(type(self), "tools")
        self._toolsets = []
        if isinstance(given, list | tuple):  # what a property gives is looked at when it is needed
            self._toolsets = [each for each in given if is_toolset(each)]
            self.tools = [each for each in given if not is_toolset(each)]

    @property
    def _has_chunk_hook(self) -> bool:
        return type(self).on_chunk is not Think.on_chunk

    # -- hooks ----------------------------------------------------------------------------------

    def get_model(self) -> Any:
        """Return the model for a turn; may be async."""
        if self.model is None:
            raise UsageError(f"unable to answer; set `model` on {type(self).__name__}, e.g. model = 'openai:gpt-5.2'")
        return self.model

    def before_turn(self, ctx: TurnContext) -> Any:
        """Change the model, instructions, tools, messages or settings of an attempt; may be async."""

    def before_step(self, ctx: StepContext) -> Any:
        """Change what the model is asked in one step; may be async."""

    def on_step_finish(self, ctx: StepContext) -> Any:
        """Called when a step and the tool calls in it are done; may be async."""

    def on_chunk(self, chunk: Chunk) -> Any:
        """Called with each chunk of the answer; may be async. Changes have no effect, and exceptions are logged."""

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
        """Answer with the model. Override it to answer some turns in another way."""
        async with aclosing(answer_turn(self, turn, has_chunk_hook=self._has_chunk_hook)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _run_approved_calls(self, turn: Turn) -> None:
        await run_approved_calls(self, turn, has_chunk_hook=self._has_chunk_hook)

    def _run_marks(self, expects: str | None) -> dict[str, Any]:
        return {} if expects is None else {MARK: expects}

    async def _run_output(self, expects: str | None, result: TurnResult) -> AgentToolOutput:
        given = await super()._run_output(expects, result)
        expected = find_output_type(type(self), expects) if expects is not None else None
        return given if expected is None else replace(given, output=plain_json(ExpectedOutput(expected).of(result)))

    # -- turns of your own code ------------------------------------------------------------------------------

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

        The same idempotency key twice is the same turn.

        Raises:
            ChatError: `output_type` was given, and the turn did not complete.
            CallPending: `output_type` was given, and a tool call waits for a person or the page first.
        """
        if is_in_turn(self):
            raise UsageError("unable to start a turn inside a turn; it would wait for itself. Use `submit_messages`.")
        request = request_id_or_new(idempotency_key)
        given = to_stored_messages(messages, request)
        if output_type is None:
            return SaveMessagesResult.of(await self._runtime.run_turn(given, body=body, request=request))
        expected = ExpectedOutput(output_type)
        expect(self._runtime.agent, request, output_type)
        try:
            marked = {**(body or {}), MARK: expected.name}
            return expected.of(await self._runtime.run_turn(given, body=marked, request=request))
        finally:
            forget(self._runtime.agent, request)

    async def submit_messages(
        self, messages: Messages | str, *, idempotency_key: str | None = None, body: dict[str, Any] | None = None
    ) -> Submission:
        """Queue a turn and return at once; it is stored then, and survives the process.

        The same idempotency key twice is the same submission. May be called inside a turn.
        """
        request = request_id_or_new(idempotency_key)
        return Submission.of(
            await self._runtime.submissions.submit(to_stored_messages(messages, request), request=request, body=body)
        )

    @property
    def submissions(self) -> Submissions:
        """Turns that `submit_messages` accepted: list, get and cancel them."""
        return Submissions(self)
