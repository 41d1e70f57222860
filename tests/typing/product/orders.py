"""The agents of a shop's support: state, tools, callables, jobs, sub-agents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, assert_type

from pydantic import BaseModel
from typing_extensions import override

from everyword import (
    Agent,
    AgentToolLimits,
    AgentToolResult,
    AIChatAgent,
    CallResult,
    Connection,
    Continue,
    Every,
    FiberContext,
    Recovery,
    Retry,
    SaveMessagesResult,
    Stop,
    Think,
    ToolContext,
    ToolError,
    Turn,
    TurnLimits,
    UIMessage,
    Wait,
    agent_tool,
    callable_method,
    scheduled,
    tool,
)
from everyword.agents import (
    AgentToolRun,
    Fiber,
    Job,
    StepContext,
    SubAgentAddress,
    Submission,
    Tool,
    TurnContext,
    Version,
)


class Order(BaseModel):
    number: str
    price: float
    is_paid_back: bool = False


@dataclass
class Cart:
    lines: list[str] = field(default_factory=list[str])


# -- an agent with a state ---------------------------------------------------------------------------------------------


class Basket(Agent[Cart]):
    initial_state = Cart()

    @callable_method
    async def add(self, line: str) -> int:
        cart = self.state
        assert_type(cart, Cart)
        cart.lines.append(line)
        stored = await self.set_state(cart)
        assert_type(stored, Cart)
        return len(stored.lines)

    @callable_method(read_only=True)
    async def lines(self) -> AsyncIterator[str | CallResult]:
        for line in self.state.lines:
            yield line
        yield CallResult(len(self.state.lines))

    async def clear(self) -> None:
        await self.update_state(lambda cart: Cart(cart.lines[:0]))
        await self.set_state({"lines": []})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    @override
    def validate_state_change(self, state: Cart, source: Connection | str) -> None:
        if len(state.lines) > 100:
            raise ValueError("too many lines")

    @override
    async def on_state_changed(self, state: Cart, source: Connection | str) -> None:
        self.broadcast({"lines": len(state.lines)}, exclude=[source] if isinstance(source, Connection) else ())

    @override
    def prepare_connection(self, connection: Connection, request: Any) -> None:
        connection.tags = ["till"] if request.query_params.get("till") else []

    @scheduled(Every(hours=1), {"keep": 30})
    async def sweep(self, options: dict[str, int], missed: int = 0) -> None:
        jobs = await self.jobs.list("sweep", queued=False)
        assert_type(jobs, Sequence[Job])
        for job in jobs:
            assert_type((job.id, job.time), tuple[str, float])

    async def remind(self, line: str) -> None:
        later = await self.schedule(timedelta(minutes=5), "remind", line, key="remind")
        assert_type(later, Job)
        assert_type(await self.queue("remind", line), str)
        assert_type(await self.jobs.get(later.id), Job | None)
        assert_type(await self.jobs.cancel(later.id), bool)
        assert_type(await self.jobs.cancel_all("remind"), int)

    async def count(self, ctx: FiberContext) -> int:
        await ctx.stash({"seen": 1})
        return 1

    async def tidy(self) -> None:
        assert_type(await self.run_fiber("count", self.count), int)
        started = await self.fibers.start("count", self.count)
        assert_type(await self.fibers.get(started), Fiber | None)
        assert_type(await self.fibers.list(status="running"), Sequence[Fiber])
        async with self.keep_alive():
            rows = await self.sql("select 1 as one")
            assert_type(rows[0]["one"], Any)


class Plain(Agent):
    """Names no type for its state."""

    initial_state: ClassVar[Any] = {"n": 0}

    @callable_method
    async def more(self) -> int:
        assert_type(self.state, Any)
        await self.set_state({"n": self.state["n"] + 1})
        return int(self.state["n"])


# -- tools -------------------------------------------------------------------------------------------------------------


class Desk(BaseModel):
    seen: list[str] = []


@tool(idempotent=True, timeout=timedelta(seconds=30))
async def look_up(number: str, context: ToolContext[Support]) -> Order:
    """Look an order up."""
    assert_type(context.agent, Support)
    assert_type(context.agent.state, Desk)
    return Order(number=number, price=39.0)


def is_dear(*, amount: float) -> bool:
    return amount > 100


class Research(AIChatAgent):
    """Reads what is known of a product."""

    turn_limits = TurnLimits(max_attempts=3, stall_timeout=60, tool_timeout=timedelta(minutes=1))

    @override
    async def on_chat_message(self, turn: Turn) -> AsyncIterator[str]:
        assert_type(self.messages, list[UIMessage])
        await self.agent_tools.report_progress(fraction=0.5)
        yield f"All is known about {self.messages[-1].text}."

    @override
    async def on_chat_recovery(self, ctx: Recovery) -> Continue | Retry | Stop | Wait:
        return Stop("Please ask again.") if ctx.age > 60 and not ctx.exhausted else Continue()


class Support(Think[Desk]):
    model = "openai:gpt-5.2"
    instructions = "Answer briefly."
    tools = (look_up, agent_tool(Research))
    initial_state = Desk()
    sub_agent_classes = (Research,)
    agent_tool_limits = AgentToolLimits(max_concurrent=3)

    @tool
    async def find_order(self, number: str) -> Order:
        """Look an order up by its number."""
        desk = self.state
        assert_type(desk, Desk)
        if number in desk.seen:
            raise ToolError("You have just looked.")
        await self.set_state(Desk(seen=[*desk.seen, number]))
        return Order(number=number, price=39.0)

    @tool(needs_approval=lambda amount: amount > 100)
    async def refund(self, order: str, amount: float, context: ToolContext) -> str:
        """Pay money back."""
        return f"{order}: {amount} ({context.idempotency_key})"

    @tool(needs_approval=is_dear)
    def charge(self, amount: float) -> str:
        """Take money."""
        return f"{amount}"

    @override
    def before_turn(self, ctx: TurnContext) -> None:
        ctx.instructions += f" You have seen {len(self.state.seen)} orders."

    @override
    async def before_step(self, ctx: StepContext) -> None:
        ctx.only_tools = [] if ctx.number == self.max_steps else None

    @override
    async def on_chat_response(self, result: SaveMessagesResult) -> None:
        if result.status == "completed" and result.message is not None:
            assert_type(result.message, UIMessage)

    @override
    def error_text(self, exc: BaseException) -> str:
        return "The line is busy." if isinstance(exc, TimeoutError) else super().error_text(exc)

    async def ask_around(self, question: str) -> str:
        found = await self.run_agent_tool(Research, question)
        assert_type(found, AgentToolResult)
        assert_type(await self.agent_tools.list(), Sequence[AgentToolRun])
        assert_type(await self.agent_tools.start(Research, question), AgentToolRun)
        return found.summary or ""

    async def own_agents(self) -> None:
        assert_type(await (await self.sub_agent(Research, "own")).get_messages(), list[UIMessage])
        assert_type(await self.sub_agents.list(Research), Sequence[SubAgentAddress])
        assert_type(await self.sub_agents.delete(Research, "own"), bool)

    async def ask_itself(self) -> Order:
        later = await self.submit_messages("And now?")
        assert_type(later, Submission)
        assert_type(await self.submissions.get(later.id), Submission | None)
        assert_type(await self.run_turn("Hello?"), SaveMessagesResult)
        assert_type(await self.versions.list("m1"), Sequence[Version])
        order = await self.run_turn("Which order?", output_type=Order)
        assert_type(order, Order)
        return order


assert_type(Support.find_order.name, str)


def by_hand(support: Support) -> None:
    assert_type(support.charge(3.0), str)
    support.charge("three")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    support.state = Desk()  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    support.jbos = 3  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    bound: Tool[[float], str] = support.charge
    assert bound.name == "charge"
