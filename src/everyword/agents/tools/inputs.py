"""The input of a tool: its JSON schema, made from the function's signature, and the check of what a model sends.

Pydantic is imported when the first schema is needed, not with this module.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

from ...errors import BadInput, UsageError
from ...messages.json_values import encode_json
from .calls import is_context
from .docstrings import docstring_of, parameter_descriptions

__all__ = ["ToolInputs", "problems_text"]


class ToolInputs:
    """The input side of one tool, worked out when it is first needed: annotations may name what is defined later."""

    def __init__(self, name: str, function: Callable[..., Any] | None, schema: dict[str, Any] | None) -> None:
        self._name, self._function, self._given = name, function, schema
        self.is_method = False

    @functools.cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the input."""
        if self._given is not None:
            return self._given
        from pydantic.errors import PydanticInvalidForJsonSchema
        from pydantic.json_schema import GenerateJsonSchema

        class Schema(GenerateJsonSchema):
            def emit_warning(self, kind: Any, detail: str) -> None:
                pass  # a default that has no JSON form is left out without a warning

            def field_title_should_be_set(self, schema: Any) -> bool:
                return False

        try:
            made: dict[str, Any] = self._model.model_json_schema(schema_generator=Schema)
        except PydanticInvalidForJsonSchema as error:
            raise UsageError(f"unable to describe the tool {self._name!r}; {error.message}") from error
        made.pop("title", None)
        return made

    @functools.cached_property
    def context_name(self) -> str | None:
        """The parameter that wants the ToolContext, if any."""
        hints = {name: self._hints.get(name) for name in self._parameters}
        return next((name for name, hint in hints.items() if is_context(hint)), None)

    def check(self, value: Any) -> dict[str, Any]:
        value = {} if value is None else value
        if self._given is not None:
            if not isinstance(value, dict):
                raise BadInput(f"The input of {self._name} must be an object, not {type(value).__name__}.")
            return value
        from pydantic import ValidationError

        try:
            model = self._model.model_validate_json(encode_json(value))
        except ValidationError as error:
            raise BadInput(f"The input of {self._name} does not fit. {problems_text(error.errors())}") from None
        arguments = {
            name: getattr(model, place) if place in model.model_fields_set else self._parameters[name].default
            for place, name in self._places.items()
        }
        return {**arguments, **(model.model_extra or {})}

    @functools.cached_property
    def _parameters(self) -> dict[str, inspect.Parameter]:
        assert self._function is not None
        found = list(inspect.signature(self._function).parameters.values())[1 if self.is_method else 0 :]
        for each in found:
            if each.kind in (each.POSITIONAL_ONLY, each.VAR_POSITIONAL):
                raise UsageError(f"unable to describe the tool {self._name!r}; {each.name} cannot be given by name")
        return {each.name: each for each in found}

    @functools.cached_property
    def _hints(self) -> dict[str, Any]:
        target: Any = self._function
        while isinstance(target, functools.partial):
            target = target.func
        target = inspect.unwrap(target if inspect.isroutine(target) else type(target).__call__)
        annotations = {name: hint for name, hint in target.__annotations__.items() if name != "return"}
        holder: Any = types.SimpleNamespace(__annotations__=annotations)
        try:
            return typing.get_type_hints(holder, getattr(target, "__globals__", {}), include_extras=True)
        except NameError as error:
            raise UsageError(
                f"unable to describe the tool {self._name!r}; {error}: its parameters' types must be importable, and "
                "defined at the top level of their module"
            ) from error

    @functools.cached_property
    def _places(self) -> dict[str, str]:
        """Field of the model → parameter: fields have names of ours, so that none can hide what models have."""
        taken = [
            name
            for name, each in self._parameters.items()
            if name != self.context_name and each.kind is not each.VAR_KEYWORD
        ]
        return {f"field_{index}": name for index, name in enumerate(taken)}

    @functools.cached_property
    def _model(self) -> Any:
        from pydantic import ConfigDict, Field, create_model
        from pydantic.errors import PydanticUserError

        described = parameter_descriptions(docstring_of(self._function))
        takes_more = any(each.kind is each.VAR_KEYWORD for each in self._parameters.values())
        config = ConfigDict(extra="allow" if takes_more else "forbid", use_attribute_docstrings=False)
        fields: dict[str, Any] = {}
        for place, name in self._places.items():
            hint, default = self._hints.get(name, Any), self._parameters[name].default
            settings: dict[str, Any] = {"alias": name}
            if name in described and not any(getattr(m, "description", None) for m in typing.get_args(hint)[1:]):
                settings["description"] = described[name]
            fields[place] = (hint, Field(... if default is inspect.Parameter.empty else default, **settings))
        try:
            return create_model(self._name, __config__=config, **fields)
        except PydanticUserError as error:
            raise UsageError(f"unable to describe the tool {self._name!r}; {error.message}") from error


def problems_text(errors: list[Any]) -> str:
    """Say what is wrong, field by field."""
    said = []
    for error in errors:
        place = ".".join(str(step) for step in error["loc"])
        match error["type"]:
            case "missing":
                said.append(f"{place}: is required but missing.")
            case "extra_forbidden":
                said.append(f"{place}: there is no such parameter.")
            case _:
                said.append(f"{place or 'input'}: {error['msg']}.")
    return " ".join(said)
