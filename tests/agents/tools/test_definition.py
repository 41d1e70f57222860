"""Tools: what a model is told, what it may send, and what comes of a call."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import functools
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from pydantic_ai import ModelRetry

from everyword.agents.tools import ToolContext, ToolFailed, ToolProgress, ToolResult, client_tool, tool
from everyword.errors import BadInput, ChatError, Rejected, SqlError, UsageError

if TYPE_CHECKING:
    from nowhere import Missing  # type: ignore[import-not-found]

flavour: ContextVar[str] = ContextVar("flavour", default="plain")


class Order(BaseModel):
    number: str
    placed: datetime.date


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Pair(msgspec.Struct):
    left: int
    right: Any


class Support:
    def __init__(self, shop: str = "corner") -> None:
        self.shop = shop

    @tool
    async def find_order(self, number: str) -> Order:
        """Look an order up
        by its number.

        Not for the model.
        """
        return Order(number=f"{self.shop}-{number}", placed=datetime.date(2026, 1, 2))

    @tool(needs_approval=lambda amount: amount > 100)
    async def refund(self, order: str, amount: float = 150) -> str:
        return f"{amount} for {order}"

    @tool(client=True, description="Where the page is.")
    async def get_location(self) -> Missing: ...


@tool(name="add-up", idempotent=True, timeout=5)
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


async def outcomes(made: Any, input: Any = None, context: ToolContext | None = None) -> list[Any]:
    return [each async for each in made.run(input, context)]


async def failure(made: Any, input: Any = None) -> ToolFailed:
    *_, last = await outcomes(made, input)
    assert isinstance(last, ToolFailed)
    return last


def test_a_method_is_described_by_its_hints_and_docstring() -> None:
    closed = {"type": "object", "additionalProperties": False}
    assert Support.find_order.definition() == {
        "name": "find_order",
        "description": "Look an order up by its number.",
        "parameters": {**closed, "properties": {"number": {"type": "string"}}, "required": ["number"]},
    }
    assert (Support.get_location.description, Support.refund.description) == ("Where the page is.", "")
    assert repr(Support.get_location) == "Tool('get_location', client=True)"


def test_options_are_kept_and_servers_tools_are_told_from_clients() -> None:
    assert (add.name, add.description, add.idempotent, add.timeout) == ("add-up", "Add two numbers.", True, 5)
    assert (add.client, add.is_server, add.needs_approval) == (False, True, False)
    assert (Support.get_location.client, Support.get_location.is_server) == (True, False)
    add.parameters["properties"].clear()  # a copy
    assert set(add.parameters["properties"]) == {"a", "b"}


def google(
    text: Annotated[str, Field(description="said in the hint", min_length=1)],
    words: list[str],
    schema: Literal["a", "b"] = "a",
    copy: Any = lambda: None,
    context: ToolContext | None = None,
) -> None:
    """Count. Args: are below.

    Args:
        text: said in the docstring
        words (list[str]): what to count,
            line after line
        schema: which: one
        no colon here
            and nobody reads this

        copy: of what

    Returns:
        words: never read
    """


def fields(text: str, words: list[str], context: Annotated[ToolContext, "x"]) -> None:
    """Count.
    :param text: where to look
    :param list words: what to count,
        line after line
    :returns: nothing

        words: never read
    """


def test_parameters_are_described_by_google_sections_unless_the_hint_does() -> None:
    properties = tool(google).parameters["properties"]
    assert {name: each.get("description") for name, each in properties.items()} == {
        "text": "said in the hint",
        "words": "what to count, line after line",
        "schema": "which: one",
        "copy": "of what",
    }
    assert properties["text"]["minLength"] == 1
    assert properties["schema"]["default"] == "a"
    assert "default" not in properties["copy"]
    assert tool(google).description == "Count. Args: are below."


def test_parameters_are_described_by_param_lines() -> None:
    made = tool(fields)
    described = {name: each["description"] for name, each in made.parameters["properties"].items()}
    assert described == {"text": "where to look", "words": "what to count, line after line"}
    assert made.description == "Count."


def test_callable_objects_and_partials_can_be_tools_under_a_given_name() -> None:
    class Doubler:
        """Not the tool's words."""

        def __call__(self, number: int) -> int:
            return number * 2

    doubler = tool(name="double")(Doubler())
    assert (doubler.description, doubler.check({"number": 2})) == ("", {"number": 2})
    assert doubler(4) == 8
    partial = tool(name="partly")(functools.partial(google, "text"))
    assert partial.check({"words": ["w"]})["words"] == ["w"]


def _positional(a: int, /) -> None: ...
def _starred(*a: int) -> None: ...
def _unknown(a: Missing) -> None: ...
def _opaque(a: threading.Lock) -> None: ...
def _uncallable(a: asyncio.Event) -> None: ...


@pytest.mark.parametrize("function", [_positional, _starred, _unknown, _opaque, _uncallable])
def test_parameters_that_no_schema_can_be_made_of_are_refused(function: Any) -> None:
    with pytest.raises(UsageError, match=f"unable to describe the tool '{function.__name__}'"):
        _ = tool(function).parameters


def test_a_tool_without_a_usable_name_or_timeout_is_refused() -> None:
    for make in (
        lambda: tool(lambda: 1),
        lambda: tool(name="two words")(_starred),
        lambda: tool(timeout=0)(_starred),
        lambda: tool(classmethod(_starred)),  # type: ignore[arg-type]
    ):
        with pytest.raises(UsageError, match="unable to make"):
            make()


@pytest.mark.parametrize("approval", [True, lambda: False])
def test_a_tool_of_the_page_that_needs_approval_is_refused(approval: Any) -> None:
    """The page would run it at once, without an approval."""
    with pytest.raises(UsageError, match=r"unable to make the tool 'where'.* Let the page ask"):

        class Guide:
            @tool(client=True, needs_approval=approval)
            async def where(self) -> str:
                """Say where the user is."""
                return ""


def test_importing_the_module_does_not_import_pydantic() -> None:
    code = "import sys, everyword.agents.tools; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_a_tool_can_still_be_called_as_what_it_was() -> None:
    assert add(1, b=2) == 3
    first, second = Support("a").find_order, Support("b").find_order
    assert [(await each("1")).number for each in (first, second)] == ["a-1", "b-1"]
    assert (await Support.find_order(Support(), "8")).number == "corner-8"


class Child(Support):
    tools = (add,)
    borrowed = tool(google)
    get_location = None  # type: ignore[assignment]

    @tool
    @staticmethod
    def inner(a: int) -> int:
        return a

    @staticmethod
    @tool
    def outer(a: int) -> int:
        return a


async def test_a_clients_declaration_becomes_a_tool_that_only_it_can_run() -> None:
    schema = {"type": "object", "properties": {"zoom": {"type": "number"}}}
    made = client_tool("show_map", "Show a map.", schema)
    assert made.definition() == {"name": "show_map", "description": "Show a map.", "parameters": schema}
    assert (made.client, made.check({"zoom": "any"}), await made.wants_approval({})) == (True, {"zoom": "any"}, False)
    with pytest.raises(BadInput, match="must be an object, not list"):
        made.check([])
    with pytest.raises(UsageError, match="declared by a client"):
        made()
    for theirs in (made, Support().get_location):
        with pytest.raises(UsageError, match="the page answers it"):
            await outcomes(theirs, {})


def test_a_sparse_declaration_is_enough_and_a_wrong_one_is_refused() -> None:
    assert client_tool("ping").parameters == {"type": "object", "properties": {}}
    for wrong in (("two words",), (None,), ("ping", "", [])):
        with pytest.raises(BadInput, match="unable to take"):
            client_tool(*wrong)


def test_input_becomes_typed_arguments_with_the_functions_own_defaults() -> None:
    default = object()

    def order(given: Order, tags: set[str], mark: Any = default) -> None: ...

    order.__annotations__ = {"given": Order, "tags": set[str], "mark": Any}
    checked = tool(order).check({"given": {"number": "1", "placed": "2026-01-02"}, "tags": ["a", "a"]})
    assert checked == {"given": Order(number="1", placed=datetime.date(2026, 1, 2)), "tags": {"a"}, "mark": default}


@pytest.mark.parametrize(
    ("input", "text"),
    [
        (None, "a: is required but missing."),
        ({"a": "x"}, "a: Input should be a valid integer, unable to parse string as an integer."),
        ({"a": 1, "c": 2}, "c: there is no such parameter."),
        ({"a": [], "b": []}, "a: Input should be a valid integer. b: Input should be a valid integer."),
        ([1], "input: Input should be an object."),
    ],
)
def test_input_that_does_not_fit_is_explained_field_by_field(input: Any, text: str) -> None:
    with pytest.raises(BadInput) as caught:
        add.check(input)
    assert str(caught.value) == f"The input of add-up does not fit. {text}"


def test_input_that_is_no_json_is_refused_and_a_function_that_takes_anything_gets_it() -> None:
    with pytest.raises(BadInput, match="unable to encode"):
        add.check({"a": object()})
    assert tool(name="any")(lambda a, **rest: a).check({"a": 1, "b": [2]}) == {"a": 1, "b": [2]}


@given(st.integers(-(10**9), 10**9), st.none() | st.integers(-(10**9), 10**9))
def test_valid_input_comes_through_unchanged(a: int, b: int | None) -> None:
    given_input = {"a": a} if b is None else {"a": a, "b": b}
    assert add.check(given_input) == {"a": a, "b": 1 if b is None else b}


async def test_a_predicate_is_given_the_arguments_that_it_names() -> None:
    refund = Support().refund
    assert not await refund.wants_approval({"order": "1", "amount": 50})
    assert await refund.wants_approval({"order": "1", "amount": "150"})
    assert await refund.wants_approval({"order": "1"}), "the default is 150"
    with pytest.raises(BadInput, match="amount: Input should be a valid number"):
        await refund.wants_approval({"order": "1", "amount": "much"})


async def test_an_async_predicate_decides_by_the_calls_input() -> None:
    async def is_much(amount: float) -> bool:
        await asyncio.sleep(0)
        return amount > 100

    @tool(needs_approval=is_much)
    def pay(amount: float, to: str) -> None: ...

    asked = [await pay.wants_approval({"amount": n, "to": "ann"}) for n in (50, 100, 101, 150)]
    assert asked == [False, False, True, True]


async def test_a_predicate_may_take_everything_or_be_a_plain_answer() -> None:
    seen: list[dict[str, Any]] = []

    def all_of(**arguments: Any) -> bool:
        seen.append(arguments)
        return False

    assert not await tool(needs_approval=all_of)(google).wants_approval({"text": "t", "words": []})
    assert {"text", "words", "schema", "copy"} == set(seen[0])
    assert await tool(needs_approval=True)(google).wants_approval("not even looked at")
    assert not await tool(google).wants_approval("not even looked at")


async def test_a_predicate_that_raises_means_yes(caplog: pytest.LogCaptureFixture) -> None:
    def broken(a: int) -> bool:
        raise LookupError("no limits today")

    assert await tool(name="pay", needs_approval=broken)(lambda a: a).wants_approval({"a": 1})
    assert "tool pay: needs_approval raised" in caplog.text
    assert "no limits today" in caplog.text


async def test_a_plain_function_runs_in_a_thread_with_the_callers_context_and_a_coroutine_on_the_loop() -> None:
    def where() -> list[Any]:
        return [threading.current_thread() is threading.main_thread(), flavour.get()]

    async def there() -> list[Any]:
        return where()

    flavour.set("salty")
    assert await outcomes(tool(where)) == [ToolResult([False, "salty"])]
    assert await outcomes(tool(there)) == [ToolResult([True, "salty"])]


async def test_a_plain_function_may_return_a_coroutine_or_a_generator() -> None:
    async def later(n: int) -> int:
        return n

    assert await outcomes(tool(name="one")(lambda: later(3))) == [ToolResult(3)]
    assert await outcomes(tool(name="two")(lambda: (n for n in (1, 2)))) == [*_progress(1, 2), ToolResult(2)]


def _progress(*outputs: Any) -> list[ToolProgress]:
    return [ToolProgress(output) for output in outputs]


async def test_every_yield_is_progress_and_the_last_is_the_result() -> None:
    @tool
    async def slowly(n: int) -> AsyncIterator[int]:
        for each in range(n):
            yield each

    @tool
    def plainly(n: int) -> Iterator[Any]:
        yield from range(n)

    for made in (slowly, plainly):
        assert await outcomes(made, {"n": 2}) == [*_progress(0, 1), ToolResult(1)]
        assert await outcomes(made, {"n": 0}) == [ToolResult(None)]


async def test_progress_is_heard_before_the_tool_goes_on() -> None:
    heard: list[str] = []

    @tool
    async def patient() -> AsyncIterator[list[str]]:
        yield ["half"]
        yield list(heard)

    async for each in patient.run({}):
        heard.append(type(each).__name__)
        last = each
    assert (last, len(heard)) == (ToolResult(["ToolProgress"]), 3)


async def test_a_plain_generator_keeps_its_context_and_may_return_the_result() -> None:
    @tool
    def brewing() -> Iterator[str]:
        flavour.set("sweet")
        yield "warming"
        yield flavour.get()
        return "done"

    assert await outcomes(brewing) == [*_progress("warming", "sweet"), ToolResult("done")]
    assert flavour.get() == "plain"


async def test_the_context_reaches_the_tool_and_brings_the_agent() -> None:
    class Agent:
        @tool
        def who(self, context: ToolContext, n: int) -> list[Any]:
            return [self is context.agent, context.call_id, n]

    agent = Agent()
    context = ToolContext(agent=agent, call_id="c1", idempotency_key="k")
    assert list(Agent.who.parameters["properties"]) == ["n"]
    for made in (Agent.who, agent.who):
        assert await outcomes(made, {"n": 1}, context) == [ToolResult([True, "c1", 1])]
    with pytest.raises(UsageError, match="give a context with its agent"):
        await outcomes(Agent.who, {"n": 1})
    assert await outcomes(agent.who, {"n": 1}) == [ToolResult([False, "", 1])]


@pytest.mark.parametrize(
    ("value", "output"),
    [
        (None, None),
        ([1, 2.5, True, None], [1, 2.5, True, None]),
        (Order(number="1", placed=datetime.date(2026, 1, 2)), {"number": "1", "placed": "2026-01-02"}),
        (Point(1, 2), {"x": 1, "y": 2}),
        (Pair(1, [Point(2, 3)]), {"left": 1, "right": [{"x": 2, "y": 3}]}),
        (datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), "2026-01-02T00:00:00Z"),
    ],
)
async def test_results_are_json_values(value: Any, output: Any) -> None:
    assert await outcomes(tool(name="give")(lambda: value)) == [ToolResult(output)]


async def test_a_result_that_is_no_json_is_explained_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    failed = await failure(tool(name="give")(lambda: {"x": object()}))
    assert (failed.reason, failed.client_text) == ("output", "The tool give failed.")
    assert failed.model_text == "The tool give failed. Its error was logged on the server."
    assert "The tool give returned dict, which has no JSON form" in caplog.text
    shown = await failure(tool(name="give", show_errors_to_model=True)(lambda: {"x": object()}))
    assert shown.model_text.startswith("The tool give returned dict, which has no JSON form")


@pytest.mark.parametrize(
    "error",
    [
        LookupError("no row k in db7"),
        TimeoutError("no row k in db7"),
        SqlError("no row k in db7"),
        BadInput("no row k in db7"),
        Rejected("no row k in db7"),
    ],
)
async def test_the_text_of_an_exception_reaches_neither_model_nor_clients(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    @tool(timeout=60)
    async def lookup() -> None:
        raise error

    failed = await failure(lookup)
    assert (failed.reason, failed.error) == ("raised", error)
    assert failed.model_text == "The tool lookup failed. Its error was logged on the server."
    assert failed.client_text == "The tool lookup failed."
    assert "tool lookup raised" in caplog.text and "no row k in db7" in caplog.text


async def test_a_tool_may_show_its_errors_to_the_model_and_not_to_clients() -> None:
    @tool(show_errors_to_model=True)
    async def lookup(key: str) -> None:
        raise LookupError(f"no row {key} in db7")

    failed = await failure(lookup, {"key": "k"})
    assert (failed.model_text, failed.client_text) == ("LookupError: no row k in db7", "The tool lookup failed.")


@pytest.mark.parametrize("error", [ChatError("there is no such order"), ModelRetry("there is no such order")])
async def test_an_error_raised_on_purpose_is_told_to_both(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def lookup() -> None:
        raise error

    failed = await failure(lookup)
    assert failed.model_text == failed.client_text == "there is no such order"
    assert caplog.text == ""


async def test_long_texts_are_cut() -> None:
    @tool(show_errors_to_model=True)
    def talk(on_purpose: bool) -> None:
        raise ChatError("x" * 1000) if on_purpose else ValueError("x" * 1000)

    for on_purpose in (True, False):
        failed = await failure(talk, {"on_purpose": on_purpose})
        assert len(failed.model_text) == 500
        assert failed.model_text.endswith("x…")


async def test_input_that_does_not_fit_never_reaches_the_function() -> None:
    called: list[int] = []

    @tool
    def count(n: int) -> None:
        called.append(n)

    failed = await failure(count, {"n": "many"})
    assert (failed.reason, called) == ("input", [])
    assert "n: Input should be a valid integer" in failed.model_text
    assert failed.client_text == "The tool count was called with unsuitable input."


async def test_a_generator_that_fails_midway_has_progress_but_no_result() -> None:
    def breaking() -> Iterator[int]:
        yield 1
        raise ValueError("broke")

    shown = tool(show_errors_to_model=True)
    first, second = await outcomes(shown(breaking))
    assert (first, second.model_text) == (ToolProgress(1), "ValueError: broke")
    shown = tool(name="ends", show_errors_to_model=True)
    ends = await failure(shown(lambda: next(iter(()))))  # a StopIteration, which no future can hold
    assert ends.model_text == "RuntimeError: StopIteration was raised"


async def test_what_takes_too_long_fails_and_is_cancelled() -> None:
    ended: list[str] = []

    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("hangs")

    async def hangs_midway() -> AsyncIterator[int]:
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            ended.append("midway")

    for function in (hangs, hangs_midway):
        failed = await failure(tool(timeout=0.01)(function))
        assert failed.reason == "timeout"
        assert failed.model_text == f"The tool {function.__name__} timed out after 0.01 s."
        assert failed.client_text == failed.model_text
    assert ended == ["hangs", "midway"]


async def test_leaving_a_run_early_closes_the_tools_generator() -> None:
    ended: list[str] = []

    async def slowly() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            ended.append("async")

    def plainly() -> Iterator[int]:
        try:
            yield 1
            yield 2
        finally:
            ended.append("plain")

    for function in (slowly, plainly):
        running = tool(function).run({})
        assert await anext(running) == ToolProgress(1)
        await running.aclose()  # type: ignore[attr-defined]
    assert ended == ["async", "plain"]


async def test_cancelling_a_run_cancels_the_tool_and_is_no_failure() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def hangs() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    running = asyncio.create_task(outcomes(hangs))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()
