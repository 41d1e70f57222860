"""The agent's side of a handle's call: finds the method, runs it as the agent's own code, and encodes its result."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec

from ...errors import UsageError
from ...principals import act_for
from ...runtime.api import MethodCall, StreamItem
from ..callables import CallResult
from ..execution_context import set_current_agent, set_waiting_agents
from .methods import method_named
from .operations import OPERATIONS, PREFIX
from .values import MethodTypes, decode_arguments, encode_value, method_types

if TYPE_CHECKING:
    from ..agent import Agent

__all__ = ["answer_call", "answer_stream"]


async def answer_call(agent: Agent, call: MethodCall) -> bytes:
    """Run a method of the agent in this task; return its result as JSON."""
    begin, types = _prepared(agent, call)
    result = begin()
    if inspect.isasyncgen(result):
        await result.aclose()
        raise UsageError(f"unable to call {call.method}; it gives a stream. Use `async for … in handle.stream(…)`.")
    if inspect.isawaitable(result):
        result = await result
    return encode_value(result, f"the result of {types.name if types is not None else call.method}")


async def answer_stream(agent: Agent, call: MethodCall) -> AsyncIterator[StreamItem]:
    """Run an async generator of the agent in this task; give its values as JSON."""
    begin, types = _prepared(agent, call)
    values = begin()
    if not inspect.isasyncgen(values):
        if inspect.iscoroutine(values):
            values.close()
        raise UsageError(f"unable to stream {call.method}; it is no async generator. Use `await handle.call(…)`.")
    what = f"a value of {types.name if types is not None else call.method}"
    async with aclosing(values):
        async for value in values:
            if isinstance(value, CallResult):
                yield StreamItem(encode_value(value.value, what), is_result=True)
                return
            yield StreamItem(encode_value(value, what))


def _prepared(agent: Agent, call: MethodCall) -> tuple[Callable[[], Any], MethodTypes | None]:
    set_current_agent(agent)
    act_for(call.principal)
    set_waiting_agents(call.answering)
    if call.method.startswith(PREFIX):
        operation = OPERATIONS[call.method.removeprefix(PREFIX)]
        _, given = msgspec.json.decode(call.arguments)
        return lambda: operation(agent, **given), None
    function = method_named(type(agent), call.method)
    types = method_types(function, type(agent))
    args, named = decode_arguments(types, call.arguments)
    method = getattr(agent, call.method)
    return lambda: method(*args, **named), types
