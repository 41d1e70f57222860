"""Handle: how other code calls an agent, wherever the agent is loaded."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from ...errors import UsageError
from ...events import Identity
from ...ids import AgentId, split_agent_id, sub_agent_id
from ...principals import Principal, acting_for
from ...runtime.api import MethodCall
from ...runtime.method_calls import MethodCalls
from ..callables import CallResult
from ..execution_context import waiting_agents
from ..jobs import Job, When
from ..schedules import Every
from ..state.change import StateT
from ..sub_agent_classes import check_child, remember_child
from .families import JobsHandle, SubAgentsHandle
from .methods import is_framework_name, method_named, name_of_method
from .operations import PREFIX, ConnectionRecord
from .values import MethodTypes, decode_value, encode_arguments, encode_value, method_types

if TYPE_CHECKING:
    from ..agent import Agent
    from ..chat import AIChatAgent
    from ..think.handle import ThinkHandle
    from ..think.think import Think
    from .chat_handle import ChatHandle

__all__ = ["Handle", "make_handle"]

A_co = TypeVar("A_co", bound="Agent[Any]", covariant=True)
A = TypeVar("A", bound="Agent[Any]")
ChatT = TypeVar("ChatT", bound="AIChatAgent[Any]")
ThinkT = TypeVar("ThinkT", bound="Think[Any]")
P = ParamSpec("P")
R = TypeVar("R")


class Handle(Generic[A_co]):
    """One agent, for code outside of it: routes, jobs, tests, other agents. A handle is cheap and can be kept.

    Public methods of the agent's class are awaited: `await handle.add(2)`, or `await handle.call(Shop.add, 2)`, which a
    type checker understands. They run in the loaded agent, as its own code, and continue if the caller is cancelled.
    They return when the states that they set are committed. The agent is loaded when it is needed.

    Arguments and results are copies with a JSON form: plain values, Pydantic models, dataclasses, messages. Errors of
    everyword (`ChatError`, `Rejected`, `UsageError`, …) are raised with their class and text. For any other
    exception the caller gets `CallFailed` without details; the log has them.
    """

    def __init__(self, calls: MethodCalls, agent: AgentId, cls: type[A_co]) -> None:
        self._calls, self._agent, self._cls = calls, agent, cls
        self._principal: Identity | None = None
        """The principal of its calls; None for the principal that the calling code acts for."""

    @property
    def name(self) -> str:
        """The agent's name, as in the URL."""
        return split_agent_id(self._agent)[1]

    @property
    def kind(self) -> str:
        """The path segment of the agent's class."""
        return split_agent_id(self._agent)[0]

    def for_principal(self, principal: Principal | None) -> Self:
        """Return a handle whose calls act for a principal, such as the user of a route; see `Agent.principal`.

        Without it, calls act for the principal of the calling code; a script or a route has none.
        """
        handle = type(self)(self._calls, self._agent, self._cls)
        handle._principal = principal.identity if principal is not None else None
        return handle

    # -- methods of the agent's class ----------------------------------------------------------------------------

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]: ...

    else:

        def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
            try:
                method_named(self._cls, name)
            except UsageError as exc:
                raise AttributeError(str(exc)) from None

            def call(*args: Any, **named: Any) -> Coroutine[Any, Any, Any]:
                return self._called(name, args, named)

            return call

    @overload
    def call(
        self, method: Callable[Concatenate[A_co, P], Awaitable[R]], /, *args: P.args, **named: P.kwargs
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def call(
        self, method: Callable[Concatenate[A_co, P], R], /, *args: P.args, **named: P.kwargs
    ) -> Coroutine[Any, Any, R]: ...
    def call(self, method: Callable[..., Any], /, *args: Any, **named: Any) -> Coroutine[Any, Any, Any]:
        """Call a method of the agent's class: `await handle.call(Shop.add, 2)`. Methods may be async or plain.

        Raises:
            UsageError: the method cannot be called through a handle, or an argument has no JSON form.
        """
        return self._called(name_of_method(self._cls, method), args, named)

    def stream(
        self, method: Callable[Concatenate[A_co, P], AsyncIterator[R]], /, *args: P.args, **named: P.kwargs
    ) -> AsyncGenerator[R, None]:
        """Read an async generator of the agent's class: `async for n in handle.stream(Shop.count, 3)`.

        The generator is at most one value ahead, and is closed at its next value when the reader leaves. If it ends
        with `yield CallResult(…)`, the last value is that CallResult.
        """
        types = self._types(name := name_of_method(self._cls, method))
        if not types.is_stream:
            raise UsageError(f"unable to stream {types.name}; it is no async generator. Use `await handle.call(…)`.")
        return self._streamed(self._make_call(name, encode_arguments(types, args, named)), types)

    def _called(self, name: str, args: tuple[Any, ...], named: dict[str, Any]) -> Coroutine[Any, Any, Any]:
        # Not async: errors are raised, and arguments are copied, at the call and not at the await.
        types = self._types(name)
        if types.is_stream:
            raise UsageError(
                f"unable to await {types.name}; it gives a stream. Use `async for … in handle.stream({types.name}, …)`."
            )
        return self._result_of(self._make_call(name, encode_arguments(types, args, named)), types)

    async def _result_of(self, call: MethodCall, types: MethodTypes) -> Any:
        return decode_value(await self._calls.call(call), types.result, f"the result of {types.name}")

    async def _streamed(self, call: MethodCall, types: MethodTypes) -> AsyncGenerator[Any, None]:
        items: Any = self._calls.stream(call)
        async with aclosing(items):
            async for item in items:
                hint = Any if item.is_result else types.result
                value = decode_value(item.value, hint, f"a value of {types.name}")
                yield CallResult(value) if item.is_result else value

    def _types(self, name: str) -> MethodTypes:
        if hasattr(type(self), name) and is_framework_name(self._cls, name):
            raise UsageError(f"unable to call {name!r} so; a handle has it itself. Use `await handle.{name}(…)`.")
        return method_types(method_named(self._cls, name), self._cls)

    def _make_call(self, method: str, arguments: bytes, **options: Any) -> MethodCall:
        principal = self._principal if self._principal is not None else acting_for()
        return MethodCall(self._agent, method, arguments, principal, waiting_agents(), **options)

    async def _do(self, operation: str, result: Any, given: dict[str, Any] | None = None, **options: Any) -> Any:
        """Run an operation of the framework in the agent; `options` are fields of `MethodCall`."""
        what = f"what {operation} is given"
        call = self._make_call(PREFIX + operation, b"[[],%b]" % encode_value(given or {}, what), **options)
        return decode_value(await self._calls.call(call), result, f"the result of {operation}")

    # -- the agent -----------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Load the agent, so that its `on_start` runs and its declared schedules begin; every call does so, too."""
        await self._do("load", None)

    async def get_state(self: Handle[Agent[StateT]]) -> StateT:
        """Return the agent's state, as committed: JSON, or the class's `state_model`."""
        state: StateT = await self._do("get_state", self._state_type)
        return state

    async def set_state(self: Handle[Agent[StateT]], state: StateT) -> StateT:
        """Replace the state, and return it when it is committed. To make it from the present one, write a method.

        Raises:
            BadInput: it does not fit the class's `state_model`.
            EverywordError: the agent's `validate_state_change` raised it.
        """
        stored: StateT = await self._do("set_state", self._state_type, {"state": state})
        return stored

    @property
    def _state_type(self) -> Any:
        model = self._cls.state_model
        return Any if model is None else model | None

    async def destroy(self) -> None:
        """Delete the agent, all that it stored and every agent below it. A new agent may then use the name."""
        await self._calls.destroy(self._agent)

    # -- connections ---------------------------------------------------------------------------------------------

    async def connections(self, tag: str | None = None) -> list[ConnectionRecord]:
        """Return the open connections, or only those with a tag."""
        found: list[ConnectionRecord] = await self._do("connections", list[ConnectionRecord], {"tag": tag})
        return found

    async def close_connection(self, connection_id: str, code: int = 1000, reason: str = "") -> int:
        """Close the connections of this id, and return how many there were.

        A client reconnects, unless the code forbids it (1008, 4xxx).
        """
        given = {"connection_id": connection_id, "code": code, "reason": reason}
        closed: int = await self._do("close_connection", int, given)
        return closed

    async def broadcast(self, message: Any, *, exclude: Iterable[str] = ()) -> None:
        """Send text, or anything else as JSON, to all connections but those with an id in `exclude`."""
        await self._do("broadcast", None, {"message": message, "exclude": list(exclude)})

    # -- jobs ----------------------------------------------------------------------------------------------------

    @property
    def jobs(self) -> JobsHandle:
        """Queued and scheduled work of the agent: list, get and cancel it."""
        return JobsHandle(self._do)

    async def queue(self, callback: str, payload: Any = None, *, max_attempts: int = 5) -> str:
        """Let the agent call a method as soon as possible, after its queued jobs; return the id of the job."""
        given = {"callback": callback, "payload": payload, "max_attempts": max_attempts}
        job: str = await self._do("queue", str, given)
        return job

    async def schedule(
        self,
        when: When,
        callback: str,
        payload: Any = None,
        *,
        zone: str = "UTC",
        max_attempts: int = 5,
        key: str | None = None,
    ) -> Job:
        """Let the agent call a method at a time; see `Agent.schedule`."""
        given = {"when": _portable(when), "callback": callback, "payload": payload}
        rest = {"zone": zone, "max_attempts": max_attempts, "key": key}
        job: Job = await self._do("schedule", Job, given | rest)
        return job

    # -- sub-agents ----------------------------------------------------------------------------------------------

    @overload
    async def sub_agent(self, cls: type[ThinkT], name: str) -> ThinkHandle[ThinkT]: ...
    @overload
    async def sub_agent(self, cls: type[ChatT], name: str) -> ChatHandle[ChatT]: ...
    @overload
    async def sub_agent(self, cls: type[A], name: str) -> Handle[A]: ...
    async def sub_agent(self, cls: type[Any], name: str) -> Any:
        """Return a handle to a sub-agent, which is created if there is none of that class and name."""
        check_child(cls, name)
        remember_child(self._cls, cls)
        await self._do("make_sub_agent", None, {"kind": cls.kind, "name": name})
        return make_handle(self._calls, sub_agent_id(self._agent, cls.kind, name), cls)

    @property
    def sub_agents(self) -> SubAgentsHandle:
        """The agents below this one: list, abort and delete them."""
        return SubAgentsHandle(self._do, self._cls)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Handle) and (self._agent, self._cls) == (other._agent, other._cls)

    def __hash__(self) -> int:
        return hash(self._agent)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._cls.__name__}, {self.name!r})"


def make_handle(calls: MethodCalls, agent: AgentId, cls: type[A]) -> Handle[A]:
    """Return a handle of the class's handle type."""
    kind: type[Handle[A]] = cls._handle_type
    return kind(calls, agent, cls)


def _portable(when: When) -> Any:
    match when:
        case Every():
            return {"every": when.rule}
        case datetime():
            return {"at": when.isoformat()}
        case timedelta():
            return when.total_seconds()
        case _:
            return when
