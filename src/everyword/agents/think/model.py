"""One request to a Pydantic AI model, as the chunks of one step. It describes the tools; `tools/steps.py` runs them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from ...errors import UsageError
from ...messages.message import Chunk, UIMessage
from ...models.provider_stream import import_pydantic_ai
from ...models.pydantic_ai_messages import to_pydantic_ai
from ...models.pydantic_ai_stream import from_pydantic_ai

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.usage import RunUsage

__all__ = ["ModelInput", "ask", "import_pydantic_ai", "inferred_model", "no_usage", "resolved_model"]

GO_ON: Final = (
    "Your last message was cut off before it was complete. Go on exactly where it stops, without repeating any of it "
    "and without saying that you do."
)

_named: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Model]] = WeakKeyDictionary()
"""Models by name, with their connections, which belong to a loop."""


@dataclass(frozen=True, slots=True)
class ModelInput:
    """What a model is sent: the same question is always the same bytes.

    `output` is the definition of the tool whose call ends the answer; with it, plain text is not asked for.
    """

    model: Model
    messages: Sequence[UIMessage]
    instructions: str = ""
    tools: Sequence[Mapping[str, Any]] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    output: Mapping[str, Any] | None = None


def no_usage() -> RunUsage:
    """Return a count of tokens to begin with."""
    counted: RunUsage = import_pydantic_ai("pydantic_ai.usage").RunUsage()
    return counted


def resolved_model(given: Any) -> Model:
    """Return the model of a name such as `openai:gpt-5.2`, or the one that is given.

    Raises:
        UsageError: it is neither, or what the name needs (a package, a key) is not there.
    """
    if isinstance(given, str):
        return _named_model(given)
    kind = import_pydantic_ai("pydantic_ai.models").Model
    if not isinstance(given, kind):
        raise UsageError(
            f"unable to use {given!r} as a model; set `model` to a name such as 'openai:gpt-5.2' or to a model object "
            "of Pydantic AI"
        )
    model: Model = given
    return model


def _named_model(name: str) -> Model:
    known = _named.setdefault(asyncio.get_running_loop(), {})
    if name not in known:
        known[name] = inferred_model(name)
    return known[name]


def inferred_model(name: str) -> Model:
    """Return a new model of a name.

    Raises:
        UsageError: Pydantic AI does not know it, or what it needs (a package, a key) is not there.
    """
    models = import_pydantic_ai("pydantic_ai.models")
    try:
        model: Model = models.infer_model(name)
    except Exception as error:
        # What follows the first sentence is about tests of agents of Pydantic AI.
        said = str(error).partition(" To try Pydantic AI without an API key")[0]
        raise UsageError(f"unable to use the model {name!r}; {said}") from error
    return model


def ask(question: ModelInput, usage: RunUsage) -> AsyncIterator[Chunk]:
    """Yield the step's chunks and a `finish` with everything counted so far; `usage` grows by what it took.

    Leaving early closes the provider's connection. Failures are those of `from_pydantic_ai`.
    """
    return from_pydantic_ai(_events(question, usage))


async def _events(question: ModelInput, usage: RunUsage) -> AsyncIterator[Any]:
    direct = import_pydantic_ai("pydantic_ai.direct")
    request = direct.model_request_stream(
        question.model,
        _history(question),
        model_settings=dict(question.settings) or None,
        model_request_parameters=_parameters(question),
    )
    async with request as response:
        async for event in response:
            yield event
        usage.incr(response.usage)
        said = response.get()
    result = SimpleNamespace(output=None, response=said, usage=usage)
    yield SimpleNamespace(event_kind="agent_run_result", result=result)


def _history(question: ModelInput) -> list[ModelMessage]:
    history = to_pydantic_ai(question.messages)
    if history and history[-1].kind == "response":
        # The last message is the answer itself: an attempt died in the middle, or the answer is to be continued.
        kinds = import_pydantic_ai("pydantic_ai.messages")
        history.append(kinds.ModelRequest(parts=[kinds.UserPromptPart(GO_ON)]))
    return history


def _parameters(question: ModelInput) -> ModelRequestParameters:
    models, kinds = import_pydantic_ai("pydantic_ai.models"), import_pydantic_ai("pydantic_ai.messages")
    output = question.output
    parameters: ModelRequestParameters = models.ModelRequestParameters(
        function_tools=[_definition(each) for each in question.tools],
        output_mode="text" if output is None else "tool",
        output_tools=[] if output is None else [_definition(output, kind="output")],
        allow_text_output=output is None,
        instruction_parts=[kinds.InstructionPart(question.instructions)] if question.instructions else None,
    )
    return parameters


def _definition(tool: Mapping[str, Any], **more: Any) -> Any:
    return import_pydantic_ai("pydantic_ai.tools").ToolDefinition(
        name=tool["name"],
        description=tool.get("description") or None,
        parameters_json_schema=dict(tool.get("parameters") or {"type": "object", "properties": {}}),
        **more,
    )
