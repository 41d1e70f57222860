"""The loop of an answer with tools: ask the model, run the tools that it calls, and repeat until it calls none.

Every call is in the log before its effect, and a call that a crash cut off is reported, not repeated, unless its tool
is declared idempotent. A call that waits for a person or the page ends the loop; the answer starts the next turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Final, TypeVar

from ...errors import BadInput, UsageError, public_text
from ...messages.message import Chunk, Part, UIMessage
from ...messages.repair_tool_calls import INTERRUPTED, repair_calls
from ...messages.tool_calls import is_tool_part, last_step, own_approval_id, tool_name, tool_parts
from ...principals import Principal
from ...runtime.api import TurnCall
from ..answer_stream import answer_items
from .definition import AnyTool, ToolContext, ToolFailed, ToolProgress, ToolResult
from .threads import CallThreads, ToolThreads

__all__ = ["Step", "Steps", "ToolRunner", "is_final", "is_waiting"]

log = logging.getLogger("everyword.agents")
T = TypeVar("T")

_FINAL: Final = frozenset({"output-available", "output-error", "output-denied"})


class ToolRunner:
    """Runs the calls of the agent's own tools in one attempt, and writes their results into the answer."""

    def __init__(
        self,
        call: TurnCall,
        tools: Mapping[str, AnyTool],
        *,
        agent: Any,
        turn: Any,
        threads: ToolThreads | None = None,
    ) -> None:
        self.call, self.tools = call, tools
        self.model_texts: dict[str, str] = {}
        """What the model reads of failed calls; clients may read less."""
        self._agent, self._turn, self._threads = agent, turn, threads
        self._streams: list[AsyncGenerator[Any, None]] = []
        declared = call.client_tools if isinstance(call.client_tools, list) else []
        self._clients = {each.get("name") for each in declared if isinstance(each, dict)}
        self._clients |= {name for name, tool in tools.items() if not tool.is_server}
        self._clients -= {name for name, tool in tools.items() if tool.is_server}  # ours, whatever a page declares

    def owning(self, stream: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """Return the stream, which ends with the attempt at the latest: readers may let go of it in the middle."""
        self._streams.append(stream)
        return stream

    async def aclose(self) -> None:
        """End the streams that were let go of, the last one first, and with them the calls that they run."""
        while self._streams:
            try:
                await self._streams.pop().aclose()
            except Exception:
                log.exception(
                    "turn %r of %r: a step that was left could not be closed", self.call.request, self.call.agent
                )

    def definitions(self) -> list[dict[str, Any]]:
        """Return `{name, description, parameters}` of every tool that the model may call, the page's included."""
        own = [tool.definition() for tool in self.tools.values()]
        declared = self.call.client_tools if isinstance(self.call.client_tools, list) else []
        return own + [
            {"description": "", "parameters": {"type": "object", "properties": {}}, **each}
            for each in declared
            if isinstance(each, dict) and each.get("name") not in self.tools
        ]

    def is_answered_elsewhere(self, part: Part) -> bool:
        """Tell whether the call is settled by the page, by an approval, or by the provider itself."""
        return bool(part.get("providerExecuted")) or tool_name(part) in self._clients or is_open_approval(part)

    async def settle(self, part: Part) -> None:
        """Bring a call that the answer has as far as it gets: to an output, an error, or a question to a person."""
        call_id, name = str(part["toolCallId"]), tool_name(part)
        tool = self.tools.get(name)
        if tool is None:
            await self._fail(call_id, f"There is no tool {name!r}.")
            return
        try:
            asks = (part.get("approval") or {}).get("approved") is None and await tool.wants_approval(part.get("input"))
        except BadInput as exc:
            text = f"The tool {name} was called with unsuitable input."
            await self._fail(call_id, text, model_text=public_text(exc, text))
            return
        if asks:
            self.call.announce_approval(tool.approval_details(call_id, part.get("input")))
            request = {"type": "tool-approval-request", "approvalId": own_approval_id(call_id), "toolCallId": call_id}
            await self.call.write(request)
            return
        if not await self.call.start_call(call_id, name, tool.idempotent):
            await self._interrupted(call_id)
            return
        await self._run(tool, call_id, part.get("input"), await self._approver(part))

    async def run_approved(self) -> None:
        """Run the calls of the message that a person approved, and that no attempt before this one finished."""
        message = await self.call.message()
        for part in tool_parts(message) if message is not None else ():
            if (part.get("approval") or {}).get("approved") is True and not is_final(part):
                await self.settle(part)

    async def _approver(self, part: Part) -> Principal | None:
        """Return the principal that approved a call; None if no approval was needed."""
        if (part.get("approval") or {}).get("approved") is not True:
            return None
        found = await self.call.approver(str(part["toolCallId"]))
        return Principal.of(found) if found is not None else None

    async def _run(self, tool: AnyTool, call_id: str, given: Any, approved_by: Principal | None) -> None:
        context = ToolContext(
            agent=self._agent,
            turn=self._turn,
            call_id=call_id,
            idempotency_key=f"{self.call.agent}/{self.call.message_id}/{call_id}",
            cancelled=self.call.cancelled,
            threads=self._threads_for(tool),
            principal=Principal.of(self.call.principal) if self.call.principal is not None else None,
            approved_by=approved_by,
        )
        output: Chunk = {"type": "tool-output-available", "toolCallId": call_id}
        final: Chunk = {}
        with self.call.working():
            async for said in tool.run(given, context):
                match said:
                    case ToolProgress(value):
                        # A client keeps `preliminary` until a chunk sets it to False.
                        final = {"preliminary": False}
                        await self.call.write({**output, "output": value, "preliminary": True})
                    case ToolResult(value):
                        await self.call.write({**output, "output": value, **final})
                    case ToolFailed():
                        await self._fail(call_id, said.client_text, model_text=said.model_text)

    def _threads_for(self, tool: AnyTool) -> CallThreads | None:
        return self._threads.for_call(f"tool {tool.name} of {self.call.agent}") if self._threads is not None else None

    async def _interrupted(self, call_id: str) -> None:
        """Fail a call that an earlier attempt started, unless it was settled since: its effect is unknown."""
        message = await self.call.message()
        part = next((p for p in tool_parts(message) if p["toolCallId"] == call_id), None) if message else None
        if part is not None and not is_final(part):
            await self._fail(call_id, INTERRUPTED)

    async def _fail(self, call_id: str, text: str, *, model_text: str | None = None) -> None:
        self.model_texts[call_id] = model_text if model_text is not None else text
        await self.call.write({"type": "tool-output-error", "toolCallId": call_id, "errorText": text})


class Step:
    """One question to the model: what to send it, and what to make of its answer."""

    def __init__(self, steps: Steps, number: int, messages: Sequence[UIMessage]) -> None:
        self.number = number
        """Counts from 1 in every attempt."""
        self.messages = list(messages)
        """The conversation for the model, this answer so far included; every call in it has a result."""
        self._steps = steps
        self._running: set[asyncio.Task[None]] = set()

    @property
    def tools(self) -> list[dict[str, Any]]:
        """`{name, description, parameters}` of every tool that the model may call, the page's included."""
        return self._steps.tool_runner.definitions()

    def run(self, answer: Any) -> AsyncGenerator[str | Chunk, None]:
        """Yield the model's chunks, which must be yielded on at once, and run the calls among them.

        Calls run concurrently with the stream and with each other; the step ends when all of them have ended. If the
        stream is left early, they are stopped when it is closed, at the latest at the end of the attempt.
        """
        return self._steps.tool_runner.owning(self._chunks(answer))

    async def _chunks(self, answer: Any) -> AsyncGenerator[str | Chunk, None]:
        finish: Chunk | None = None
        items = answer_items(answer, "the answer given to `step.run`")
        try:
            async for item in items:
                kind = item.get("type") if isinstance(item, dict) else None
                if kind == "finish" and isinstance(item, dict):
                    finish = item  # the turn's, if no other step follows
                    continue
                if kind == "start" and self.number > 1:
                    continue
                if kind == "finish-step":
                    await self._calls_done()
                yield item
                if kind == "tool-input-available" and isinstance(item, dict):
                    self._begin(item)
            await self._calls_done()
        finally:
            try:
                await items.aclose()
            finally:
                for task in self._running:
                    task.cancel()
                await asyncio.gather(*self._running, return_exceptions=True)
        if finish is not None and not await self._steps.goes_on():
            yield finish

    def _begin(self, chunk: Chunk) -> None:
        part: Part = {"type": f"tool-{chunk['toolName']}", "toolCallId": chunk["toolCallId"], "input": chunk["input"]}
        if chunk.get("providerExecuted") or self._steps.tool_runner.is_answered_elsewhere(part):
            return
        task = asyncio.create_task(self._steps.tool_runner.settle(part), name=f"call {chunk['toolCallId']}")
        self._running.add(task)

    async def _calls_done(self) -> None:
        if self._running:
            done, _ = await asyncio.wait(self._running)
            self._running.clear()
            for task in done:
                task.result()


class Steps:
    """An async iterator of `Step`s; ends when the model calls no more tools, a call waits, or at `limit`.

    With `may_yield`, it also ends before a step if a steering question waits.
    """

    def __init__(self, tool_runner: ToolRunner, limit: int, *, may_yield: bool = True) -> None:
        if limit < 1:
            raise UsageError(f"unable to answer in {limit} steps; give max_steps of 1 or more")
        self.tool_runner = tool_runner
        self._limit, self._number, self._may_yield = limit, 0, may_yield

    def __aiter__(self) -> AsyncGenerator[Step, None]:
        return self.tool_runner.owning(self._each())

    async def _each(self) -> AsyncGenerator[Step, None]:
        message = await self.tool_runner.call.message()
        if message is not None:
            await self._settle_left(message)
            message = await self.tool_runner.call.message()
            if (message is not None and is_waiting(message)) or await self.tool_runner.call.is_held():
                return
        while True:
            self._number += 1
            yield Step(self, self._number, self._told(await self.tool_runner.call.message()))
            if not await self.goes_on() or (self._may_yield and await self.tool_runner.call.is_steered()):
                return

    async def goes_on(self) -> bool:
        """Tell whether the model has to be asked again: all calls of the last step are settled, and a step is left.

        Not if a client that settled one of them goes on by itself (`autoContinue: false`).
        """
        message = await self.tool_runner.call.message()
        if message is None or self._number >= self._limit:
            return False
        calls = [part for part in message.parts[last_step(message.parts) :] if is_tool_part(part)]
        ours = [part for part in calls if not part.get("providerExecuted")]
        return bool(ours) and all(map(is_final, ours)) and not await self.tool_runner.call.is_held()

    async def _settle_left(self, message: UIMessage) -> None:
        """Settle what a person approved, and what an attempt before this one left behind."""
        for part in tool_parts(message):
            if part.get("state") == "input-streaming" and not part.get("providerExecuted"):
                # The input is incomplete: the call never reached the page or a tool.
                await self.tool_runner._interrupted(str(part["toolCallId"]))
            elif not is_final(part) and not self.tool_runner.is_answered_elsewhere(part):
                await self.tool_runner.settle(part)

    def _told(self, message: UIMessage | None) -> list[UIMessage]:
        call = self.tool_runner.call
        history = list(call.messages[:-1] if call.partial is not None else call.messages)
        if message is not None:
            history.append(self._with_model_texts(message))
        return repair_calls(history, answerable=lambda part: False)

    def _with_model_texts(self, message: UIMessage) -> UIMessage:
        texts = self.tool_runner.model_texts
        parts = [
            {**part, "errorText": texts[part["toolCallId"]]}
            if part.get("state") == "output-error" and part.get("toolCallId") in texts
            else part
            for part in message.parts
        ]
        return UIMessage.from_dict({**message.to_dict(), "parts": parts})


def is_final(part: Part) -> bool:
    """Tell whether the call has its output, its error or its refusal; progress is none of them."""
    return part.get("state") in _FINAL and not part.get("preliminary")


def is_waiting(message: UIMessage) -> bool:
    """Tell whether a call has no result yet: it waits for an answer, or was approved and the next turn runs it."""
    return any(not is_final(part) and not part.get("providerExecuted") for part in tool_parts(message))


def is_open_approval(part: Part) -> bool:
    """Tell whether the call waits for an approval."""
    return part.get("state") == "approval-requested"
