"""Answers of simulated agents, drawn per turn and attempt: text, tools, gates, side effects and failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Protocol

from ...core.state import Rules
from ...errors import ChatError, public_text
from ...ids import Millis
from ...messages.message import Chunk
from ...messages.repair_tool_calls import INTERRUPTED
from ...messages.tool_calls import own_approval_id, tool_name, tool_parts
from ...runtime.api import JobCall, TurnCall, TurnResult

__all__ = ["PAY", "AnswerEnvironment", "Model", "SimulatedGate"]

PAY: Final = "pay"
"""A server tool that needs approval and must not run twice."""


@dataclass(frozen=True, slots=True)
class SimulatedGate:
    """A point at which an answer waits until the simulation lets it go on."""

    name: str


@dataclass(frozen=True, slots=True)
class Effect:
    """A side effect, with a key that is the same in every attempt."""

    key: str


@dataclass(frozen=True, slots=True)
class SimulatedPause:
    """A wait: for the clock, or for so many iterations of the loop."""

    milliseconds: int = 0
    rounds: int = 0


Item = str | Chunk | SimulatedGate | Effect | SimulatedPause | Exception


class AnswerEnvironment(Protocol):
    """The part of the simulated world that an answer uses; answers of a crashed server change nothing."""

    async def pass_gate(self, name: str) -> None: ...
    def touch(self, key: str) -> None: ...
    def hear(self, result: TurnResult) -> None: ...
    async def sleep_until(self, at: Millis) -> None: ...
    def now(self) -> Millis: ...


class Model:
    """Implements `runtime.api.Responder` for one agent during one run of the server."""

    def __init__(self, environment: AnswerEnvironment, seed: int, rules: Rules) -> None:
        self.rules = rules
        self._environment, self._seed = environment, seed

    async def stream(self, call: TurnCall) -> AsyncIterator[str | Chunk]:
        chance = Random(f"{self._seed} {call.request} {call.attempt}")
        async for settled in self._approved_calls(call):
            yield settled
        if call.is_calls_only:
            return
        for item in script(chance, call, may_pay=PAY in self.rules.server_tools):
            match item:
                case SimulatedGate():
                    await self._environment.pass_gate(item.name)
                case Effect():
                    self._environment.touch(f"{call.request} {item.key}")
                    if await call.is_steered():
                        return
                case SimulatedPause():
                    await self._pause(item)
                case Exception():
                    raise item
                case _:
                    yield item

    async def _pause(self, pause: SimulatedPause) -> None:
        for _ in range(pause.rounds):
            await asyncio.sleep(0)
        if pause.milliseconds:
            await self._environment.sleep_until(Millis(self._environment.now() + pause.milliseconds))

    async def _approved_calls(self, call: TurnCall) -> AsyncIterator[Chunk]:
        """Run the approved calls of the server tool: each once, even if the server crashes meanwhile."""
        for part in tool_parts(call.partial) if call.partial is not None else ():
            if tool_name(part) != PAY or part.get("state") != "approval-responded":
                continue
            name = str(part["toolCallId"])
            if await call.start_call(name, PAY, False):
                self._environment.touch(f"{PAY} {name}")
                await asyncio.sleep(0)
                yield {"type": "tool-output-available", "toolCallId": name, "output": "paid"}
            else:
                yield {"type": "tool-output-error", "toolCallId": name, "errorText": INTERRUPTED}

    async def run_job(self, call: JobCall) -> None:
        chance = Random(f"{self._seed} {call.id} {call.run}")
        self._environment.touch(f"job {call.id} {call.run}")
        await self._pause(_pause(chance))

    def error_text(self, exc: BaseException) -> str:
        return public_text(exc, "The answer failed.")

    async def on_response(self, result: TurnResult) -> None:
        await asyncio.sleep(0)
        self._environment.hear(result)


def script(chance: Random, call: TurnCall, *, may_pay: bool = False) -> list[Item]:
    """Return the items of one attempt. The ids of calls contain the attempt; the keys of effects do not."""
    name = f"{call.request}/{call.attempt}"
    items: list[Item] = []
    if chance.random() < 0.05:
        return [_failure(chance)]
    for place in range(chance.choice((0, 1, 1, 2, 3, 5))):
        items += chance.choices(_PIECES, _WEIGHTS)[0](chance, f"{name}/{place}")
    items.append(Effect("end"))
    draw = chance.random()
    if draw < 0.12:
        items.insert(chance.randrange(len(items) + 1), _failure(chance))
    elif draw < (0.65 if may_pay else 0.45) and not (call.is_continuation and draw < 0.35):
        items += _asking(chance, name, may_pay=may_pay)
    elif draw < 0.7:
        items.append({"type": "finish", "finishReason": "stop"})
    return items


def _failure(chance: Random) -> Item:
    return chance.choice(
        (
            ValueError("secret"),
            ChatError("shown on purpose"),
            {"type": "error", "errorText": "rate limited"},
            {"type": "abort"},
        )
    )


def _words(chance: Random, name: str) -> list[Item]:
    return [f"{chance.choice(('red', 'green', 'blue'))} " for _ in range(chance.choice((1, 2, 4)))]


def _gated(chance: Random, name: str) -> list[Item]:
    return ["before ", SimulatedGate(name), "after "]


def _paused(chance: Random, name: str) -> list[Item]:
    return [_pause(chance)]


def _pause(chance: Random) -> SimulatedPause:
    return SimulatedPause(chance.choice((0, 0, 10, 60, 800)), chance.choice((0, 1, 3, 10)))


def _tool(chance: Random, name: str) -> list[Item]:
    output: Chunk = {"type": "tool-output-available", "toolCallId": name, "output": {"n": chance.randrange(9)}}
    return [_input(name, "look"), Effect(f"tool {name.rpartition('/')[2]}"), *_paused(chance, name), output]


def _step(chance: Random, name: str) -> list[Item]:
    return [{"type": "finish-step"}, {"type": "start-step"}]


def _part(chance: Random, name: str) -> list[Item]:
    shared: Chunk = {"type": "data-chart", "id": "chart", "data": chance.randrange(9)}
    passing: Chunk = {"type": "data-progress", "data": chance.randrange(100), "transient": True}
    return [chance.choice((shared, passing))]


def _reasoning(chance: Random, name: str) -> list[Item]:
    opened: list[Item] = [
        {"type": "reasoning-start", "id": "r"},
        {"type": "reasoning-delta", "id": "r", "delta": "hm "},
    ]
    return [*opened, {"type": "reasoning-end", "id": "r"}] if chance.random() < 0.7 else opened


def _asking(chance: Random, name: str, *, may_pay: bool) -> list[Item]:
    """Return calls that a client has to answer or a person has to approve."""
    items: list[Item] = []
    for number in range(chance.choice((1, 1, 2))):
        call = f"ask-{name}-{number}"
        if may_pay and chance.random() < 0.5:
            items += [
                _input(call, PAY),
                {"type": "tool-approval-request", "toolCallId": call, "approvalId": own_approval_id(call)},
            ]
            continue
        items.append(_input(call, "locate"))
        if chance.random() < 0.4:
            items.append({"type": "tool-approval-request", "toolCallId": call, "approvalId": f"a-{call}"})
    if chance.random() < 0.3:
        items += [SimulatedGate(f"{name}/asked"), *_words(chance, name)]
    if chance.random() < 0.7:
        items.append({"type": "finish", "finishReason": chance.choice(("tool-calls", "tool-calls", "stop"))})
    return items


def _input(call: str, tool: str) -> dict[str, Any]:
    return {"type": "tool-input-available", "toolCallId": call, "toolName": tool, "input": {}}


_PIECES: list[Callable[[Random, str], list[Item]]] = [_words, _gated, _paused, _tool, _step, _part, _reasoning]
_WEIGHTS = [6, 3, 4, 2, 1, 2, 1]
