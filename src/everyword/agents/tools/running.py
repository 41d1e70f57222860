"""Runs one call of a tool: on the event loop, or in a thread if it is a plain function or generator."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Executor
from typing import Any, Final

__all__ = ["runs_on_loop", "values_of"]

_END: Final = object()


async def values_of(
    call: Callable[[], Any], threads: Executor, *, on_loop: bool
) -> AsyncGenerator[tuple[bool, Any], None]:
    """Yield (is_last, value) for each value that a call returns or yields."""
    answer = call() if on_loop else await _in_thread(threads, contextvars.copy_context(), call)
    if inspect.iscoroutine(answer) or isinstance(answer, asyncio.Future):
        answer = await answer
    if inspect.isasyncgen(answer):
        try:
            async for value in answer:
                yield False, value
        finally:
            await answer.aclose()
    elif inspect.isgenerator(answer):
        context = contextvars.copy_context()
        try:
            while True:
                value, returned = await _in_thread(threads, context, functools.partial(_advance, answer))
                if value is _END:
                    break
                yield False, value
        finally:
            with contextlib.suppress(ValueError):  # it still runs in its thread, which cannot be stopped
                answer.close()
        if returned is not None:
            yield True, returned
    else:
        yield True, answer


def runs_on_loop(function: Any) -> bool:
    """Tell whether calling the function only creates a coroutine or generator, so that the call needs no thread."""
    kinds = (inspect.iscoroutinefunction, inspect.isasyncgenfunction, inspect.isgeneratorfunction)
    return any(is_kind(function) for is_kind in kinds)


async def _in_thread(threads: Executor, context: contextvars.Context, call: Callable[[], Any]) -> Any:
    return await asyncio.get_running_loop().run_in_executor(threads, context.run, _contained, call)


def _contained(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except StopIteration as error:
        raise RuntimeError("StopIteration was raised") from error  # a future cannot hold a StopIteration


def _advance(generator: Iterator[Any]) -> tuple[Any, Any]:
    try:
        return next(generator), None
    except StopIteration as end:
        return _END, end.value
