"""Validate messages against the AI SDK's schema and against an application's schemas.

`part_schemas` defines the parts; this module checks whole messages and applies the schemas of the application. Where
ai 6 and 7 differ, it follows ai 7, which knows more parts and fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from ..errors import BadInput, BadMessage
from .json_values import plain_json
from .message import ROLES, Part, UIMessage
from .part_schemas import checked_part

__all__ = ["Schema", "Validated", "safe_validate_ui_messages", "validate_ui_messages"]

Schema = Any
"""A function (value → value, or raises), a Pydantic model or TypeAdapter (anything with `model_validate` or
`validate_python`), or a JSON schema, which accepts every value, as in the AI SDK."""

_TERMINAL: Final = frozenset({"output-available", "output-error", "output-denied"})


class Validated(msgspec.Struct, frozen=True):
    """Either the messages, or the error."""

    messages: list[UIMessage] = []
    error: BadMessage | None = None


def validate_ui_messages(
    messages: Any,
    *,
    metadata_schema: Schema | None = None,
    data_schemas: Mapping[str, Schema] | None = None,
    tools: Mapping[str, Any] | None = None,
) -> list[UIMessage]:
    """Check the messages and return them without the fields that the AI SDK does not know.

    `data_schemas` maps the name after `data-` to a schema; if given, every data part needs one. A tool's
    `input_schema` and `output_schema` are attributes or keys; a tool with `check` needs no `input_schema`. If `tools`
    is given, a finished call of any other tool becomes a dynamic one, and an unfinished one is refused. Metadata and
    data are replaced by the value that their schema returns. Raises BadMessage with the message, the part and the
    reason.
    """
    if messages is None:
        raise BadMessage("unable to accept messages; none were given")
    if not isinstance(messages, list | tuple):
        raise BadMessage(f"unable to accept messages; they are {type(messages).__name__}, not a list")
    if not messages:
        raise BadMessage("unable to accept messages; the list is empty")
    accepted = [_checked_message(index, raw) for index, raw in enumerate(messages)]
    for index, message in enumerate(accepted):
        if metadata_schema is not None:
            message.metadata = _replaced(message.metadata, metadata_schema, f"messages[{index}].metadata")
        for position, part in enumerate(message.parts):
            place = f"messages[{index}].parts[{position}]"
            if data_schemas is not None and part["type"].startswith("data-"):
                part["data"] = _checked_data(part, data_schemas, place)
            if tools is not None and part["type"].startswith("tool-"):
                message.parts[position] = _checked_call(part, tools, place)
    return accepted


def safe_validate_ui_messages(
    messages: Any,
    *,
    metadata_schema: Schema | None = None,
    data_schemas: Mapping[str, Schema] | None = None,
    tools: Mapping[str, Any] | None = None,
) -> Validated:
    """Like `validate_ui_messages`, with the error returned instead of raised."""
    try:
        accepted = validate_ui_messages(
            messages, metadata_schema=metadata_schema, data_schemas=data_schemas, tools=tools
        )
    except BadMessage as error:
        return Validated(error=error)
    return Validated(accepted)


def _checked_message(index: int, raw: Any) -> UIMessage:
    place = f"messages[{index}]"
    if isinstance(raw, UIMessage):
        raw = raw.to_dict()
    if not isinstance(raw, Mapping):
        raise _refused(place, f"it is {type(raw).__name__}, not an object")
    message_id, role, parts = raw.get("id"), raw.get("role"), raw.get("parts")
    if not isinstance(message_id, str):
        raise _refused(f"{place}.id", "it must be a string")
    if not isinstance(role, str) or role not in ROLES:
        raise _refused(f"{place}.role", f"it is {role!r}, not system, user or assistant")
    if not isinstance(parts, list):
        raise _refused(f"{place}.parts", "they must be a list")
    if not parts and role != "assistant":
        raise _refused(f"{place}.parts", f"a {role} message needs at least one")
    checked = []
    for position, part in enumerate(parts):
        try:
            checked.append(checked_part(part))
        except msgspec.ValidationError as error:
            raise _refused(f"{place}.parts[{position}]", f"{_named(part)}: {error}") from error
    return UIMessage(message_id, role, checked, raw.get("metadata"))


def _refused(place: str, why: str) -> BadMessage:
    return BadMessage(f"unable to accept {place}; {why}")


def _named(part: Any) -> str:
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        return "a part"
    state = part.get("state")
    return f"a {part['type']} part" + (f" in state {state}" if isinstance(state, str) else "")


def _checked_data(part: Part, schemas: Mapping[str, Schema], place: str) -> Any:
    name = part["type"].removeprefix("data-")
    if schemas.get(name) is None:
        raise _refused(f"{place}.data", f"there is no schema for data part {name!r}: add it to data_schemas")
    return _replaced(part["data"], schemas[name], f"{place}.data")


def _checked_call(part: Part, tools: Mapping[str, Any], place: str) -> Part:
    name, state = part["type"].removeprefix("tool-"), part["state"]
    tool = tools.get(name)
    if tool is None:
        if state in _TERMINAL:
            return _as_dynamic(part, name)
        raise _refused(f"{place}.input", f"there is no tool {name!r}, and the call is not finished")
    checked = part
    if state != "input-streaming" and not (state == "output-error" and _has_no_input(part)):
        try:
            _check_input(part, tool, f"{place}.input")
        except BadMessage:
            # The tool may have changed since: finished calls stay readable, but as dynamic calls.
            if state != "output-error" and not (state == "output-available" and part["input"] == {}):
                raise
            checked = _as_dynamic(part, name)
    if state == "output-available" and (schema := _member(tool, "output_schema")) is not None:
        _applied(schema, part["output"], f"{place}.output")
    return checked


def _has_no_input(part: Part) -> bool:
    return "input" not in part and "inputSchemaInput" not in part.get("approval", {})


def _check_input(part: Part, tool: Any, place: str) -> None:
    schema = _member(tool, "input_schema")
    if schema is None:
        schema = _member(tool, "check")
    if schema is None:
        return
    approval = part.get("approval", {})
    if "inputSchemaInput" not in approval:
        _applied(schema, part.get("input"), place)
        return
    # The approved input must be the schema's result for the input that the model gave.
    made = _replaced(approval["inputSchemaInput"], schema, place)
    if "input" not in part or not _is_same(made, part["input"]):
        raise _refused(place, "it differs from the schema's result for approval.inputSchemaInput")


def _as_dynamic(part: Part, name: str) -> Part:
    return {**part, "type": "dynamic-tool", "toolName": name, "dynamic": False}


def _member(tool: Any, name: str) -> Any:
    return tool.get(name) if isinstance(tool, Mapping) else getattr(tool, name, None)


def _check_of(schema: Schema, place: str) -> Callable[[Any], Any]:
    for name in ("validate_python", "model_validate"):
        if callable(check := getattr(schema, name, None)):
            return check  # type: ignore[no-any-return]
    if isinstance(schema, Mapping):
        return lambda value: value
    if not callable(schema):
        raise _refused(place, f"its schema is {type(schema).__name__}, which is neither callable nor a schema")
    return schema  # type: ignore[no-any-return]


def _applied(schema: Schema, value: Any, place: str) -> Any:
    check = _check_of(schema, place)
    try:
        return check(value)
    except (ValueError, AssertionError) as error:
        raise _refused(place, str(error) or type(error).__name__) from error
    except Exception as error:
        raise _refused(place, f"its schema raised {type(error).__name__}") from error


def _replaced(value: Any, schema: Schema, place: str) -> Any:
    """Return the schema's result for the value, as a JSON value."""
    made = _applied(schema, value, place)
    if made is value:
        return value
    try:
        dump = getattr(made, "model_dump", None)
        return plain_json(made) if dump is None else dump(mode="json", by_alias=True)
    except BadInput as error:
        raise _refused(place, "its schema returned a value without a JSON form") from error


def _is_same(one: Any, other: Any) -> bool:
    """Compare JSON values: unlike in Python, a number never equals a boolean."""
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(_is_same(value, other[key]) for key, value in one.items())
        case list(), list():
            return len(one) == len(other) and all(map(_is_same, one, other))
        case _:
            return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
