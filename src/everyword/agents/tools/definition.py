"""`@tool`: a function or method that a model may call, on the server or in the page; and running one call.

Pydantic is imported when the first schema is asked for, not with this module.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import logging
import math
import re
import sys
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Concatenate, Final, Generic, Literal, ParamSpec, TypeVar, overload

from ...errors import BadInput, ChatError, UsageError, public_text
from ...messages.json_values import plain_json
from ...messages.repair_tool_calls import unknown_after
from ...runtime.api import ApprovalDetails
from ..durations import Duration, to_seconds
from ..limits import TurnLimits
from .approval_options import NO_OPTIONS, ApprovalOptions
from .calls import ToolContext, ToolFailed, ToolProgress, ToolResult, ToolYield
from .docstrings import docstring_of, first_paragraph
from .inputs import ToolInputs
from .options import check_options
from .running import runs_on_loop, values_of
from .threads import CallThreads, ToolThreads

__all__ = ["AnyTool", "Tool", "ToolContext", "ToolFailed", "ToolProgress", "ToolResult", "ToolYield", "client_tool"]
__all__ += ["tool"]

log = logging.getLogger("everyword.agents")

P = ParamSpec("P")
Rest = ParamSpec("Rest")
R = TypeVar("R")

MODEL_TEXT_LIMIT: Final = 500

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DEFAULT_THREADS: Final = ToolThreads()
"""For calls that no app makes: tests, and `Tool.run` by hand."""


_Verdict = bool | Awaitable[bool]
Approval = bool | Callable[..., _Verdict]

_Lambda = Callable[[Any], _Verdict] | Callable[[Any, Any], _Verdict] | Callable[[Any, Any, Any], _Verdict]
"""For lambdas: with `Callable[..., bool]`, strict type checkers do not know the types of their parameters."""


class Tool(Generic[P, R]):
    """A function, or a method of an agent, that a model may call. Made by `@tool` and `client_tool`.

    It can still be called as what it was made of. On an instance it is bound to it, like a method.
    """

    def __init__(
        self,
        function: Callable[P, R] | None,
        *,
        name: str,
        description: str = "",
        parameters: dict[str, Any] | None = None,
        needs_approval: Approval = False,
        client: bool = False,
        idempotent: bool = False,
        timeout: Duration | None = None,
        show_errors_to_model: bool = False,
        asking: ApprovalOptions = NO_OPTIONS,
    ) -> None:
        check_options(
            name,
            function,
            description=description,
            needs_approval=needs_approval,
            client=client,
            idempotent=idempotent,
            timeout=timeout,
            show_errors_to_model=show_errors_to_model,
        )
        self.asking = asking.checked(name, needs_approval=needs_approval is not False)
        """The details of a request for an approval, as the person who decides reads them."""
        self.name, self.description = name, description
        self.show_errors_to_model = show_errors_to_model
        self.needs_approval, self.client, self.idempotent, self.timeout = needs_approval, client, idempotent, timeout
        self._function = function
        self._inputs = ToolInputs(name, function, parameters)
        self._owner: Any = None

    # -- as a function or method -------------------------------------------------------------------------

    def __set_name__(self, owner: type, attribute: str) -> None:
        # Static methods, and functions' tools that are merely assigned in a class body, have no `self` to be given.
        scope, _, _ = getattr(self._function, "__qualname__", "").rpartition(".")
        if scope == owner.__qualname__ and isinstance(self._function, types.FunctionType):
            self._inputs.is_method = True

    @overload
    def __get__(self, instance: None, owner: type) -> Tool[P, R]: ...
    @overload
    def __get__(self: Tool[Concatenate[Any, Rest], R], instance: object, owner: type) -> Tool[Rest, R]: ...
    def __get__(self, instance: object, owner: type) -> Any:
        if instance is None or not self._inputs.is_method:
            return self
        bound = copy.copy(self)
        bound._owner = instance
        return bound

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._function is None:
            raise UsageError(f"unable to call the tool {self.name!r} here; it was declared by a client, which runs it")
        call: Callable[..., R] = self._function
        return call(*args, **kwargs) if self._owner is None else call(self._owner, *args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.name!r}{', client=True' if self.client else ''})"

    # -- the definition --------------------------------------------------------------------------------

    @property
    def is_server(self) -> bool:
        """Whether the tool runs on the server; other tools run in the page."""
        return not self.client

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of the input: always an object's.

        Raises:
            UsageError: no schema can be made of the function's parameters.
        """
        return copy.deepcopy(self._inputs.schema)

    def definition(self) -> dict[str, Any]:
        """Return `{name, description, parameters}`, which every provider's own form can be made of."""
        return {"name": self.name, "description": self.description, "parameters": self.parameters}

    # -- one call --------------------------------------------------------------------------------------------

    def check(self, input: Any) -> dict[str, Any]:
        """Return the keyword arguments that a JSON value stands for, defaults included.

        The schema of a tool that a client declared is the client's business: any object passes.

        Raises:
            BadInput: the value does not fit; the text says which fields and why, for the model.
        """
        return self._inputs.check(input)

    async def wants_approval(self, input: Any) -> bool:
        """Tell whether this call needs an approval.

        A predicate gets the arguments that it names, and runs on the event loop: make it async if it waits. If it
        raises, the call needs an approval.

        Raises:
            BadInput: there is a predicate, and the input does not fit the tool.
        """
        if not callable(self.needs_approval):
            return bool(self.needs_approval)
        arguments = self.check(input)
        try:
            answer = self.needs_approval(**_named(self.needs_approval, arguments))
            return bool(await answer if inspect.isawaitable(answer) else answer)
        except Exception:
            log.exception("tool %s: needs_approval raised, so approval is asked for", self.name)
            return True

    def approval_details(self, call_id: str, input: Any) -> ApprovalDetails:
        """Return the details of a request to approve a call with this input.

        Raises:
            BadInput: the summary is a function, and the input does not fit the tool.
        """
        arguments = self.check(input) if callable(self.asking.summary) else {}
        return self.asking.details(call_id, self.name, arguments)

    async def run(self, input: Any, context: ToolContext | None = None) -> AsyncIterator[ToolYield]:
        """Run the tool once: yield any progress, then exactly one ToolResult or ToolFailed.

        Plain functions run in a thread. One that runs past its timeout keeps its thread until it returns, and its
        result is reported as unknown. Each value of a generator is progress, and the last one, or a plain generator's
        return value, is the result as well. Nothing but cancellation is raised once the tool has begun.

        Raises:
            UsageError: the page answers this tool, or it is a method and there is no agent to call it on.
        """
        context = context if context is not None else ToolContext()
        given = context.threads
        threads = given if isinstance(given, CallThreads) else _DEFAULT_THREADS.for_call(f"tool {self.name}")
        call = self._prepared(replace(context, threads=threads))
        seconds = self._timeout_for(context.agent)
        try:
            arguments = self.check(input)
        except BadInput as error:
            text = f"The tool {self.name} was called with unsuitable input."
            yield ToolFailed("input", public_text(error, text), text, error)
            return
        values = values_of(functools.partial(call, **arguments), threads, on_loop=runs_on_loop(self._function))
        deadline = None if seconds is None else asyncio.get_running_loop().time() + seconds
        late = functools.partial(self._timed_out, seconds or 0.0, threads)
        output: Any = None
        try:
            while (step := await self._step(values, deadline, late)) is not None:
                if isinstance(step, ToolFailed):
                    yield step
                    return
                output = step.output
                if isinstance(step, ToolProgress):
                    yield step
        finally:
            threads.is_over = True
            await values.aclose()
        yield ToolResult(output)

    async def _step(
        self, values: AsyncIterator[tuple[bool, Any]], deadline: float | None, late: Callable[[Exception], ToolFailed]
    ) -> ToolYield | None:
        """Return what the tool says next; None when it has nothing more to say."""
        limit = asyncio.timeout_at(deadline)
        try:
            async with limit:
                is_last, value = await anext(values)
        except StopAsyncIteration:
            return None
        except Exception as error:  # noqa: BLE001 - whatever a tool raises is an answer for the model
            return late(error) if limit.expired() else self._raised(error)
        try:
            output = plain_json(value)
        except BadInput as error:
            text = f"The tool {self.name} returned {type(value).__name__}, which has no JSON form ({error})."
            log.warning("%s Return plain values, dataclasses, or Pydantic or msgspec models.", text, exc_info=error)
            return self._failed("output", text, error)
        return ToolResult(output) if is_last else ToolProgress(output)

    def _timed_out(self, seconds: float, threads: CallThreads, error: Exception) -> ToolFailed:
        if threads.has_begun:
            log.warning("%s timed out after %g s; its thread is taken until it returns", threads.label, seconds)
            text = unknown_after(seconds)
            return ToolFailed("unknown", text, text, error)
        why = f"; all {threads.size} threads for tools were busy" if threads.is_asked else ""
        text = f"The tool {self.name} timed out after {seconds:g} s{why}."
        log.warning("%s", text)
        return ToolFailed("timeout", text, text, error)

    def _timeout_for(self, agent: Any) -> float | None:
        """Return the tool's own timeout, else that of the agent's class; None for no limit."""
        limits: TurnLimits | None = getattr(agent, "turn_limits", None)
        given = self.timeout if self.timeout is not None or limits is None else limits.tool_timeout
        return None if given is None or math.isinf(to_seconds(given)) else to_seconds(given)

    def _raised(self, error: Exception) -> ToolFailed:
        if isinstance(error, ChatError) or _is_model_retry(error):
            return ToolFailed("raised", _cut(str(error)), _cut(str(error)), error)
        log.warning("tool %s raised", self.name, exc_info=error)
        return self._failed("raised", f"{type(error).__name__}: {error}", error)

    def _failed(self, reason: Literal["raised", "output"], raw_text: str, error: Exception) -> ToolFailed:
        """Return a failure whose text was not written for models: it stays in the log, unless the tool shows it."""
        text = f"The tool {self.name} failed."
        told = _cut(raw_text) if self.show_errors_to_model else f"{text} Its error was logged on the server."
        return ToolFailed(reason, told, text, error)

    def _prepared(self, context: ToolContext) -> Callable[..., Any]:
        if self.client or self._function is None:
            raise UsageError(f"unable to run the tool {self.name!r} here; it is a client's, and the page answers it")
        call: Callable[..., Any] = self._function
        if self._inputs.is_method:
            agent = self._owner if self._owner is not None else context.agent
            if agent is None:
                raise UsageError(f"unable to run the tool {self.name!r}; it is a method: give a context with its agent")
            call = functools.partial(call, agent)
        if self._inputs.context_name is not None:
            call = functools.partial(call, **{self._inputs.context_name: context})
        return call


AnyTool = Tool[..., Any]
"""A tool whose arguments are not known to the type checker."""


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    needs_approval: bool | _Lambda = False,
    client: bool = False,
    idempotent: bool = False,
    timeout: Duration | None = None,
    show_errors_to_model: bool = False,
    approvers: Sequence[str] | None = None,
    approval_summary: str | Callable[..., str] | None = None,
    approval_risk: str | None = None,
    approval_timeout: Duration | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
@overload
def tool(  # type: ignore[overload-cannot-match]  # functions with keyword-only parameters match
    *,
    name: str | None = None,
    description: str | None = None,
    needs_approval: Callable[..., _Verdict],
    client: bool = False,
    idempotent: bool = False,
    timeout: Duration | None = None,
    show_errors_to_model: bool = False,
    approvers: Sequence[str] | None = None,
    approval_summary: str | Callable[..., str] | None = None,
    approval_risk: str | None = None,
    approval_timeout: Duration | None = None,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    needs_approval: Approval = False,
    client: bool = False,
    idempotent: bool = False,
    timeout: Duration | None = None,
    show_errors_to_model: bool = False,
    approvers: Sequence[str] | None = None,
    approval_summary: str | Callable[..., str] | None = None,
    approval_risk: str | None = None,
    approval_timeout: Duration | None = None,
) -> Any:
    """Offer a function, or a method of an agent, to models.

    Its type hints become the input's schema, the docstring's first paragraph the description, and the docstring's
    `Args:` section or `:param` lines those of the parameters.

    Args:
        name: what models call it; the function's own name if not given.
        description: what models read of it, instead of the docstring.
        needs_approval: whether a person has to agree first: always, or when a predicate, given those arguments that
            it names, says so. Not for tools of the page.
        client: the page runs it; the function gives only the signature.
        idempotent: doing it twice does no harm, so a call that a crash cut off may be made again.
        timeout: how long a call may take, in seconds or as a timedelta; if not given, `TurnLimits.tool_timeout` of the
            agent. An async tool is cancelled then and has failed. A plain function cannot be stopped: its result is
            unknown. `math.inf` for no limit.
        approvers: ids, or roles in `claims["roles"]`, of the principals that may approve a call; by default every
            principal that may answer calls. `authorize` can decide otherwise.
        approval_summary: one sentence for the person who is asked: text, or a function of the arguments that it names.
        approval_risk: how much is at stake, in a word of yours, for example "high".
        approval_timeout: how long a call waits for its approval, in seconds or as a timedelta; then it is denied, also
            if no process was running. By default it waits for ever.
        show_errors_to_model: the model reads the type and the text of any exception, which leave the process with it.
            Without it, it reads the text of a ToolError, and a safe sentence of everything else.

    Raises:
        UsageError: there is no usable name, an option is of a wrong type, the timeout is not positive, a predicate
            asks for what the tool does not take, a tool has approvers and needs no approval, the list of approvers is
            empty, or a tool of the page needs an approval.
    """

    def make(target: Callable[..., Any]) -> AnyTool:
        if isinstance(target, classmethod):
            raise UsageError("unable to make a tool of a classmethod; use a method or a staticmethod")
        named = name if name is not None else getattr(target, "__name__", "")
        if not isinstance(named, str):
            raise UsageError(f"unable to make a tool of {target!r}; name is {type(named).__name__}, not a str")
        if not _NAME.fullmatch(named):
            raise UsageError(
                f"unable to make a tool of {target!r}; it has no usable name: give name=… ([A-Za-z0-9_-], to 64)"
            )
        text = description if description is not None else first_paragraph(docstring_of(target))
        options: dict[str, Any] = {"client": client, "idempotent": idempotent, "timeout": timeout}
        options["show_errors_to_model"] = show_errors_to_model
        options["asking"] = ApprovalOptions(approvers, approval_summary, approval_risk, approval_timeout)
        return Tool(target, name=named, description=text, needs_approval=needs_approval, **options)

    return make if function is None else make(function)


def client_tool(name: Any, description: Any = None, parameters: Any = None) -> AnyTool:
    """Make a tool of a client's declaration: an entry of `clientTools`.

    Raises:
        BadInput: the name is unusable, or the parameters are not a JSON schema object.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadInput(f"unable to take a client's tool; its name {name!r} is not 1 to 64 letters, digits, _ and -")
    if parameters is not None and not isinstance(parameters, Mapping):
        raise BadInput(f"unable to take the client's tool {name!r}; its parameters are not a JSON schema object")
    schema = {"type": "object", "properties": {}} if parameters is None else plain_json(parameters)
    text = description if isinstance(description, str) else ""
    return Tool(None, name=name, description=text, parameters=schema, client=True)


# -- helpers -------------------------------------------------------------------------------------------------------


def _named(predicate: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    wanted = inspect.signature(predicate).parameters
    if any(each.kind is each.VAR_KEYWORD for each in wanted.values()):
        return arguments
    return {name: value for name, value in arguments.items() if name in wanted}


def _is_model_retry(error: Exception) -> bool:
    """Tell whether it is Pydantic AI's way to tell the model something; without importing Pydantic AI."""
    exceptions = sys.modules.get("pydantic_ai.exceptions")
    return exceptions is not None and isinstance(error, exceptions.ModelRetry)


def _cut(text: str) -> str:
    return text if len(text) <= MODEL_TEXT_LIMIT else text[: MODEL_TEXT_LIMIT - 1] + "…"
