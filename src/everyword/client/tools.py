"""Python functions as tools that the client runs for the model."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from typing import Any, get_type_hints

import msgspec

from ..errors import ToolError, UsageError
from ..messages.json_values import plain_json

__all__ = ["ClientTool", "declare"]


class ClientTool:
    """A function as a tool. The schema of its arguments comes from its type hints."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = getattr(function, "__name__", "")
        if not self.name.isidentifier():
            raise UsageError(f"unable to offer {function!r} as a tool; give a function with a name")
        self.description = inspect.cleandoc(function.__doc__ or "")
        self._function = function
        self._arguments = _arguments(self.name, function)

    @property
    def declaration(self) -> dict[str, Any]:
        """The declaration for the server and the model: name, description and a JSON schema."""
        schema = msgspec.json.schema(self._arguments)
        defined = schema.pop("$defs")
        parameters = {**defined.pop(self.name), **({"$defs": defined} if defined else {})}
        parameters.pop("title", None)
        described = {"description": self.description} if self.description else {}
        return {"name": self.name, **described, "parameters": parameters}

    async def run(self, given: Any) -> Any:
        """Call the function with the model's input and return its result as JSON values.

        Functions that are not async run in a thread. Exceptions of the function are raised unchanged.

        Raises:
            ToolError: the input does not fit the type hints. The model reads the text.
        """
        try:
            arguments = msgspec.convert(given if given is not None else {}, self._arguments)
        except msgspec.ValidationError as error:
            raise ToolError(f"The input of {self.name} does not fit. {error}") from None
        named = {name: getattr(arguments, name) for name in self._arguments.__struct_fields__}
        if inspect.iscoroutinefunction(self._function):
            result = await self._function(**named)
        else:
            result = await asyncio.to_thread(self._function, **named)
            if inspect.isawaitable(result):
                result = await result
        return plain_json(result)


def declare(functions: Iterable[Callable[..., Any]]) -> dict[str, ClientTool]:
    """Return the tools by name. Raises UsageError if two have the same name."""
    tools: dict[str, ClientTool] = {}
    for function in functions:
        tool = ClientTool(function)
        if tool.name in tools:
            raise UsageError(f"unable to offer two tools named {tool.name!r}; rename one of the functions")
        tools[tool.name] = tool
    return tools


def _arguments(name: str, function: Callable[..., Any]) -> type[msgspec.Struct]:
    hints = get_type_hints(function)
    fields: list[Any] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise UsageError(f"unable to offer {name}() as a tool; a model cannot pass {parameter} by name")
        hint = hints.get(parameter.name, Any)
        default = () if parameter.default is parameter.empty else (parameter.default,)
        fields.append((parameter.name, hint, *default))
    return msgspec.defstruct(name, fields, kw_only=True)
