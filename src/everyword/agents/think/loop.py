"""The answer loop of Think: calls the hooks, the model and the tools of one attempt, in order."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from ...errors import ModelError, UsageError
from ...messages.message import Chunk, UIMessage
from ...messages.repair_tool_calls import repair_calls
from ...messages.speaker_names import NAMED, with_speakers
from ...messages.tool_calls import is_tool_part, last_step
from ..agent_tools.types import output_types_of
from ..tools.definition import AnyTool
from ..tools.discovery import tools_of
from ..tools.steps import Step, Steps, ToolRunner, is_waiting
from ..turn import Turn
from .context import StepContext, TurnContext
from .model import ModelInput, ask, no_usage, resolved_model
from .output import OUTPUT_TOOL, REJECTED_TEXT, ExpectedOutput, expected_type
from .toolsets import opened_tools

if TYPE_CHECKING:
    from .think import Think

__all__ = ["answer_turn", "awaited", "run_approved_calls"]

log = logging.getLogger("everyword.agents")

_ASK_FOR_OUTPUT: Final = f"Give the final answer by calling {OUTPUT_TOOL}."


async def answer_turn(agent: Think, turn: Turn, *, has_chunk_hook: bool) -> AsyncGenerator[str | Chunk, None]:
    """Yield the answer to a turn, step by step; call `on_chunk` with each chunk if the class defines it."""
    async with AsyncExitStack() as stack:
        context = await _context(agent, turn, stack)
        history = list(context.messages)
        await awaited(agent.before_turn(context))
        loop = _AnswerLoop(agent, context, is_changed=context.messages != history, has_chunk_hook=has_chunk_hook)
        async with aclosing(loop.chunks()) as chunks:
            async for chunk in chunks:
                yield chunk


async def run_approved_calls(agent: Think, turn: Turn, *, has_chunk_hook: bool) -> None:
    """Run the approved calls of a turn's message with the tools that an answer would have."""
    async with AsyncExitStack() as stack:
        context = await _context(agent, turn, stack)
        await awaited(agent.before_turn(context))
        await _AnswerLoop(agent, context, is_changed=False, has_chunk_hook=has_chunk_hook).tool_runner.run_approved()


async def awaited(answer: Any) -> Any:
    """Return the value, awaited if it is awaitable."""
    return await answer if inspect.isawaitable(answer) else answer


async def _context(agent: Think, turn: Turn, stack: AsyncExitStack) -> TurnContext:
    call = turn._call
    given: Any = agent.get_model  # a method, or what a property gave
    model = resolved_model(await awaited(given() if callable(given) else given))
    tools = tools_of(agent)
    for tool in await opened_tools(agent._toolsets, stack, agent=agent, model=model):
        if tool.name in tools:
            raise UsageError(f"unable to offer the tools of {type(agent).__name__}; two are named {tool.name!r}")
        tools[tool.name] = tool
    return TurnContext(
        turn=turn,
        model=model,
        instructions=agent.instructions or "",
        tools=tools,
        messages=list(call.messages[:-1] if call.partial is not None else call.messages),
        max_steps=agent.max_steps,
        settings=dict(agent.model_settings),
        output_type=expected_type(turn, [*agent.output_types, *output_types_of(type(agent))]),
    )


class _AnswerLoop:
    """One attempt: asks the model and runs what it calls, until the answer is complete or a call waits."""

    def __init__(self, agent: Think, context: TurnContext, *, is_changed: bool, has_chunk_hook: bool) -> None:
        self._agent, self._context = agent, context
        self._write_to_log = context.turn._call.write
        self._prefix = repair_calls(context.messages, answerable=lambda part: False) if is_changed else None
        """What is sent instead of the history, if `before_turn` changed it."""
        self._output = ExpectedOutput(context.output_type) if context.output_type is not None else None
        tools = self._tools()
        # What runs here is not the page's to answer, whatever it declares.
        declared = [each for each in context.turn.client_tools if _name(each) not in tools]
        self._call = replace(context.turn._call, write=self._write, client_tools=declared)
        threads = context.turn._threads
        self.tool_runner = ToolRunner(self._call, tools, agent=agent, turn=context.turn, threads=threads)
        self._usage = no_usage()
        self._counts: dict[str, int] = {}
        self._finish: Chunk | None = None
        self._number = 0
        self._has_chunk_hook = has_chunk_hook

    async def chunks(self) -> AsyncGenerator[str | Chunk, None]:
        reminder: str | None = None
        while not await self._is_done() and not await self._is_complete():
            # A caller that waits for an object must not get half of an answer because of a steering question.
            limit = self._context.max_steps - self._number
            async with aclosing(aiter(Steps(self.tool_runner, limit, may_yield=self._output is None))) as steps:
                async for step in steps:
                    async with aclosing(self._run_step(step, reminder)) as chunks:
                        async for chunk in chunks:
                            yield chunk
                    if self._output is None:
                        continue
                    if await self._is_done():
                        break
                    self._check_rejections(self._output)
            if self._output is None or await self._is_waiting():
                break
            if not await self._is_done():
                self._output.rejections += 1
                self._check_rejections(self._output)
                reminder = _ASK_FOR_OUTPUT
        if self._finish is not None:
            finish = await self._final_chunk(self._finish)
            await self._observe(finish)
            yield finish

    async def _is_done(self) -> bool:
        """Tell whether the expected object was given; an answer in text is done when its steps are."""
        return self._output is not None and self._output.is_given(await self._call.message())

    async def _is_complete(self) -> bool:
        """Tell whether an earlier attempt died after its last chunk: then the model is not asked again."""
        message = await self._call.message() if self._call.attempt > 1 and not self._call.is_continuation else None
        if message is None or self._output is not None or self._number:
            return False
        steps, begun = _steps_of(message), [part for part in message.parts if part["type"] == "step-start"]
        is_whole = len(steps) == len(begun) and bool(steps) and steps[-1].get("finishReason") == "stop"
        if not is_whole or any(map(is_tool_part, message.parts[last_step(message.parts) :])):
            return False
        usage = message.metadata.get("usage")
        self._finish = {"type": "finish", "finishReason": "stop", "messageMetadata": {"usage": usage}}
        return True

    async def _is_waiting(self) -> bool:
        """Tell whether a call waits for a person or the page, or the client decides when the answer continues."""
        message = await self._call.message()
        return (message is not None and is_waiting(message)) or await self._call.is_held()

    def _check_rejections(self, output: ExpectedOutput) -> None:
        if output.rejections > self._agent.output_retries or self._number >= self._context.max_steps:
            raise ModelError(REJECTED_TEXT)

    async def _final_chunk(self, finish: Chunk) -> Chunk:
        """Return the turn's `finish`. Some providers send `stop` with a call; the client would not continue then."""
        message = await self._call.message()
        parts = message.parts[last_step(message.parts) :] if message is not None else []
        calls = any(is_tool_part(part) and not part.get("providerExecuted") for part in parts)
        reason = "tool-calls" if calls else finish.get("finishReason")
        if await self._is_done():
            reason = "stop"
        metadata = {**(finish.get("messageMetadata") or {}), "finishReason": reason}
        return {**finish, "finishReason": reason, "messageMetadata": metadata}

    def _tools(self) -> dict[str, AnyTool]:
        tools = dict(self._context.tools)
        if self._output is not None:
            if OUTPUT_TOOL in tools:
                raise UsageError(f"unable to ask for an object; rename the tool {OUTPUT_TOOL!r}, it is taken")
            tools[OUTPUT_TOOL] = self._output.tool()
        return tools

    # -- one step ---------------------------------------------------------------------------------------------

    async def _run_step(self, step: Step, reminder: str | None) -> AsyncGenerator[str | Chunk, None]:
        self._number += 1
        context = StepContext(
            turn=self._context.turn,
            number=self._number,
            model=self._context.model,
            instructions=self._context.instructions,
            messages=self._messages(step, reminder),
            settings=dict(self._context.settings),
            usage=dict(self._counts),
        )
        await awaited(self._agent.before_step(context))
        async with aclosing(step.run(self._ask_model(context, step))) as chunks:
            async for chunk in chunks:
                yield chunk
        context.message = await self._call.message()
        await awaited(self._agent.on_step_finish(context))

    async def _ask_model(self, context: StepContext, step: Step) -> AsyncIterator[Chunk]:
        offered = [
            each
            for each in step.tools
            if each["name"] != OUTPUT_TOOL and (context.only_tools is None or each["name"] in context.only_tools)
        ]
        messages, instructions = context.messages, context.instructions
        if self._agent.name_speakers:
            messages, instructions = with_speakers(messages), "\n\n".join(filter(None, [instructions, NAMED]))
        question = ModelInput(
            model=resolved_model(context.model),
            messages=await self._agent.attachments.for_model(messages),
            instructions=instructions,
            tools=offered,
            settings=context.settings,
            output=self._output.tool().definition() if self._output is not None else None,
        )
        async with aclosing(ask(question, self._usage)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                if chunk["type"] == "finish":
                    self._finish = chunk  # the turn's, once nothing follows
                    chunk = await self._count_usage(context, chunk)
                await self._observe(chunk)
                yield chunk

    async def _count_usage(self, context: StepContext, finish: Chunk) -> Chunk:
        """Record the usage of a step; return the chunk that stores it, so it is kept however the turn ends."""
        before = context.usage
        context.finish_reason = finish.get("finishReason")
        context.usage = dict((finish.get("messageMetadata") or {}).get("usage") or {})
        context.step_usage = {name: count - before.get(name, 0) for name, count in context.usage.items()}
        self._counts = context.usage
        message = await self._call.message()
        step = {"finishReason": context.finish_reason, "usage": context.step_usage}
        steps = [*(_steps_of(message) if message is not None else []), step]
        counted = {**(finish.get("messageMetadata") or {}), "usage": context.usage, "steps": steps}
        return {"type": "message-metadata", "messageMetadata": counted}

    def _messages(self, step: Step, reminder: str | None) -> list[UIMessage]:
        messages = list(step.messages)
        if self._prefix is not None:
            call = self._call
            taken = len(call.messages) - (1 if call.partial is not None else 0)
            messages = [*self._prefix, *messages[taken:]]
        if reminder is not None:
            messages.append(UIMessage("nudge", "user", [{"type": "text", "text": reminder}]))
        return messages

    # -- watching -----------------------------------------------------------------------------------------------

    async def _write(self, chunk: Chunk) -> None:
        await self._write_to_log(chunk)
        await self._observe(chunk)

    async def _observe(self, chunk: Chunk) -> None:
        if not self._has_chunk_hook:
            return
        try:
            await awaited(self._agent.on_chunk(dict(chunk)))
        except Exception:
            log.exception("on_chunk of %r raised", self._agent)


def _steps_of(message: UIMessage) -> list[dict[str, Any]]:
    """Return what is recorded of a message's steps."""
    known = message.metadata.get("steps") if isinstance(message.metadata, dict) else None
    return [each for each in known if isinstance(each, dict)] if isinstance(known, list) else []


def _name(declared: Any) -> Any:
    return declared.get("name") if isinstance(declared, dict) else None
