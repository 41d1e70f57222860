"""Plain tools in threads of their own: what a hanging one delays, and what is said of one that timed out."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from pydantic_ai.toolsets import FunctionToolset, WrapperToolset

from everyword import AIChatAgent, Everyword, Think, TurnLimits, agent_tool
from everyword.agents.tools import ToolContext, ToolFailed, ToolResult, tool
from everyword.agents.tools.threads import ToolThreads
from everyword.errors import UsageError
from everyword.messages.tool_calls import tool_parts
from everyword.testing import Call, LocalServer, ScriptedModel
from tests.timeouts import PATIENCE

UNKNOWN = "The call timed out after 30 s; its result is unknown."


class Latch:
    """A place where a thread waits until the test lets it go."""

    def __init__(self) -> None:
        self._begun, self._open = threading.Semaphore(0), threading.Event()

    def wait(self) -> str:
        self._begun.release()
        assert self._open.wait(PATIENCE)
        return "done"

    async def begun(self) -> None:
        """Wait until one more thread is here; in the loop's own threads, which no tool takes."""
        assert await asyncio.to_thread(self._begun.acquire, True, PATIENCE)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def latch() -> Iterator[Latch]:
    made = Latch()
    yield made
    made.open()


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Move the event loop's clock on: timeouts come when the test says so."""
    ahead = [0.0]

    def move(seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if not ahead[0]:
            real = loop.time
            monkeypatch.setattr(loop, "time", lambda: real() + ahead[0])
        ahead[0] += seconds

    return move


async def last_of(made: Any, threads: ToolThreads | None = None, agent: Any = None) -> Any:
    """Run a tool and return what it said last."""
    executor = threads.for_call(f"tool {made.name} of shop/ann") if threads is not None else None
    *_, last = [said async for said in made.run({}, ToolContext(agent=agent, threads=executor))]
    return last


async def test_a_plain_tool_that_timed_out_has_an_unknown_result_and_keeps_its_thread(
    latch: Latch, pass_time: Callable[[float], None], caplog: pytest.LogCaptureFixture
) -> None:
    threads, ended = ToolThreads(1), threading.Event()

    def hangs() -> str:
        try:
            return latch.wait()
        finally:
            ended.set()

    running = asyncio.create_task(last_of(tool(timeout=30)(hangs), threads))
    await latch.begun()
    pass_time(30)
    failed = await running
    assert (failed.reason, failed.model_text, failed.client_text) == ("unknown", UNKNOWN, UNKNOWN)
    assert (threads.busy, threads.waiting) == (1, 0)
    assert "tool hangs of shop/ann timed out after 30 s; its thread is taken until it returns" in caplog.text
    latch.open()
    assert await last_of(tool(name="next")(lambda: 5), threads) == ToolResult(5)  # waits for the only thread
    assert ended.is_set() and threads.busy == 0
    assert "tool hangs of shop/ann returned after" in caplog.text and "the result is dropped" in caplog.text


async def test_a_plain_generator_that_timed_out_has_an_unknown_result(
    latch: Latch, pass_time: Callable[[float], None]
) -> None:
    def counts() -> Iterator[int]:
        yield 1
        latch.wait()

    running = asyncio.create_task(last_of(tool(timeout=30)(counts)))
    await latch.begun()
    pass_time(30)
    assert (await running).reason == "unknown"


async def test_a_call_that_timed_out_before_it_had_a_thread_is_never_run(
    latch: Latch, pass_time: Callable[[float], None]
) -> None:
    threads, effects = ToolThreads(1), list[str]()
    holding = asyncio.create_task(last_of(tool(name="holds")(latch.wait), threads))
    await latch.begun()
    for function in (lambda: effects.append("plain"), _generator(effects)):
        pays = tool(name="pay", timeout=30)(function)
        running = asyncio.create_task(last_of(pays, threads))
        while not threads.waiting:  # noqa: ASYNC110 - the call is on its way to the queue
            await asyncio.sleep(0)
        pass_time(30)
        failed = await running
        assert failed.reason == "timeout"
        assert failed.model_text == "The tool pay timed out after 30 s; all 1 threads for tools were busy."
        assert threads.waiting == 0
    latch.open()
    assert await holding == ToolResult("done")
    assert await last_of(tool(name="next")(lambda: 5), threads) == ToolResult(5)
    assert effects == []


def _generator(effects: list[str]) -> Callable[[], Iterator[int]]:
    def pays() -> Iterator[int]:
        effects.append("generator")
        yield 1

    return pays


async def test_hanging_tools_delay_no_other_threads_and_a_full_pool_is_logged_once(
    latch: Latch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [100.0]
    threads = ToolThreads(40, now=lambda: now[0])
    running = [asyncio.create_task(last_of(tool(name="hangs")(latch.wait), threads)) for _ in range(40)]
    for _ in running:
        await latch.begun()  # in a thread of the loop's own: more tools hang than it has threads
    assert (threads.busy, caplog.text) == (40, "")
    now[0] += 7
    waiting = [asyncio.create_task(last_of(tool(name=name)(lambda: 5), threads)) for name in ("late", "later")]
    while threads.waiting < 2:  # noqa: ASYNC110 - the calls are on their way to the queue
        await asyncio.sleep(0)
    (line,) = [record.getMessage() for record in caplog.records if "threads for tools are busy" in record.getMessage()]
    assert "all 40 threads for tools are busy, so tool late of shop/ann waits for one" in line
    assert line.count("tool hangs of shop/ann for 7 s") == 10 and "and 30 more" in line
    assert "Everyword(tool_threads=...)" in line
    latch.open()
    assert await asyncio.gather(*waiting) == [ToolResult(5), ToolResult(5)]
    assert await asyncio.gather(*running) == [ToolResult("done")] * 40
    assert (threads.busy, threads.waiting) == (0, 0)


async def test_a_pool_that_fills_up_again_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    threads = ToolThreads(1)
    for _ in range(2):
        latch = Latch()
        calls = [asyncio.create_task(last_of(tool(name="hangs")(latch.wait), threads)) for _ in range(2)]
        await latch.begun()
        while not threads.waiting:  # noqa: ASYNC110 - the second call is on its way to the queue
            await asyncio.sleep(0)
        latch.open()
        await asyncio.gather(*calls)
    assert caplog.text.count("all 1 threads for tools are busy") == 2


async def test_threads_are_used_again_and_no_more_than_the_limit_run() -> None:
    threads, seen, most = ToolThreads(3), set[int](), list[int]()

    def notes() -> None:
        seen.add(threading.get_ident())
        most.append(threads.busy)

    await asyncio.gather(*(last_of(tool(notes), threads) for _ in range(50)))
    assert len(most) == 50 and max(most) <= 3 and len(seen) <= 3


async def test_an_error_of_a_plain_tool_reaches_the_call() -> None:
    def leaves() -> None:
        raise SystemExit("no")

    def breaks() -> None:
        raise LookupError("gone")

    threads = ToolThreads(1)
    assert isinstance((await last_of(tool(breaks), threads)).error, LookupError)
    left = threads.for_call("a tool that leaves").submit(leaves)
    assert isinstance(await asyncio.to_thread(left.exception, PATIENCE), SystemExit)
    assert await last_of(tool(name="next")(lambda: 5), threads) == ToolResult(5)


async def test_a_pool_without_threads_is_refused() -> None:
    for make in (lambda: ToolThreads(0), lambda: Everyword([], tool_threads=0)):
        with pytest.raises(UsageError, match="unable to run tools in 0 threads; give tool_threads of 1 or more"):
            make()


# -- timeouts --------------------------------------------------------------------------------------------------------


class Hurried:
    turn_limits = TurnLimits(tool_timeout=30.0)


async def test_a_tool_without_a_timeout_has_that_of_its_agent(pass_time: Callable[[float], None]) -> None:
    begun = asyncio.Event()

    async def hangs() -> None:
        begun.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(last_of(tool(hangs), agent=Hurried()))
    await begun.wait()
    pass_time(30)
    failed = await running
    assert isinstance(failed, ToolFailed) and failed.reason == "timeout"
    assert failed.model_text == failed.client_text == "The tool hangs timed out after 30 s."


async def test_a_tools_own_timeout_comes_before_its_agents(pass_time: Callable[[float], None]) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        begun.set()
        await release.wait()
        return "done"

    for seconds in (math.inf, 300):
        begun.clear(), release.clear()
        running = asyncio.create_task(last_of(tool(timeout=seconds)(slow), agent=Hurried()))
        await begun.wait()
        pass_time(60)
        await asyncio.sleep(0)
        release.set()
        assert await running == ToolResult("done")
    assert agent_tool(AIChatAgent).timeout == math.inf  # has `AgentToolLimits.silence_timeout`


def test_a_timeout_of_an_agent_that_is_not_positive_is_refused() -> None:
    with pytest.raises(UsageError, match=r"unable to use TurnLimits\(tool_timeout=0\.0\); give a duration above 0"):
        TurnLimits(tool_timeout=0.0)


async def test_timeouts_may_be_timedeltas(pass_time: Callable[[float], None]) -> None:
    begun = asyncio.Event()

    async def hangs() -> None:
        begun.set()
        await asyncio.Event().wait()

    running = asyncio.create_task(last_of(tool(timeout=timedelta(minutes=1))(hangs), agent=Hurried()))
    await begun.wait()
    pass_time(60)
    failed = await running
    assert isinstance(failed, ToolFailed) and failed.client_text == "The tool hangs timed out after 60 s."


# -- in turns --------------------------------------------------------------------------------------------------------


def shop(latch: Latch, *toolsets: Any, **members: Any) -> type[Think]:
    model = ScriptedModel([Call("pay", {}), "Asked to pay."])
    return type("Shop", (Think,), {"model": model, "tools": list(toolsets), **members})


def plain_toolset(latch: Latch, **options: Any) -> FunctionToolset[Any]:
    toolset: FunctionToolset[Any] = FunctionToolset(**options)
    toolset.tool_plain(name="pay")(latch.wait)
    return toolset


async def ask(server: LocalServer, pass_time: Callable[[float], None], latch: Latch) -> dict[str, Any]:
    """Ask, let the time of the call run out, and return the call's part."""
    async with server.client("shop") as chat:
        asked = asyncio.create_task(chat.send("pay")._last())
        await latch.begun()
        pass_time(30)
        await asked
        (part,) = tool_parts(chat.messages[-1])
        return dict(part)


async def test_the_model_is_told_that_the_result_of_a_plain_tool_is_unknown(
    latch: Latch, pass_time: Callable[[float], None]
) -> None:
    timed = FunctionToolset[Any]()
    timed.tool_plain(name="pay", timeout=30)(latch.wait)
    ours = tool(name="pay", timeout=30)(latch.wait)
    limits = TurnLimits(tool_timeout=timedelta(seconds=30))
    kinds = {
        "a tool of ours": shop(latch, ours),
        "a default of the agent": shop(latch, tool(name="pay")(latch.wait), turn_limits=limits),
        "a toolset with a default of the agent": shop(latch, plain_toolset(latch), turn_limits=limits),
        "a tool of a toolset": shop(latch, timed),
        "a toolset's own timeout": shop(latch, plain_toolset(latch, timeout=30)),
    }
    for name, cls in kinds.items():
        app = Everyword([cls], store="memory:", tool_threads=1)
        async with LocalServer(app) as server:
            part = await ask(server, pass_time, latch)
        assert (part["state"], part["errorText"]) == ("output-error", UNKNOWN), name
        assert app._tool_threads.busy == 1, name


async def test_the_timeout_of_a_toolset_inside_another_leaves_an_unknown_result(
    latch: Latch, pass_time: Callable[[float], None]
) -> None:
    wrapped = WrapperToolset(plain_toolset(latch, timeout=30))
    async with LocalServer(Everyword([shop(latch, wrapped)], store="memory:")) as server:
        part = await ask(server, pass_time, latch)
    assert part["errorText"] == "The call was interrupted; its result is unknown."


async def test_a_tool_that_never_returns_does_not_keep_the_process_from_ending(
    caplog: pytest.LogCaptureFixture,
) -> None:
    script = """
import asyncio, threading
from everyword.agents.tools import tool

async def main():
    async for said in tool(name="hangs", timeout=0.05)(threading.Event().wait).run({}):
        print(type(said).__name__)

asyncio.run(main())
"""
    ran = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE
    )
    assert (ran.returncode, ran.stdout) == (0, "ToolFailed\n"), ran.stderr
