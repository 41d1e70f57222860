from __future__ import annotations

import copy
from random import Random
from typing import Any

import pytest
from hypothesis import given

from everyword.errors import BadMessage
from everyword.messages.message import Part, UIMessage
from everyword.messages.validate_messages import safe_validate_ui_messages, validate_ui_messages
from tests.messages.conversations import conversation, spoil
from tests.messages.sequences import seeded

TEXT: Part = {"type": "text", "text": "hi"}


def message(*parts: Any, role: str = "assistant", **fields: Any) -> dict[str, Any]:
    return {"id": "m", "role": role, "parts": list(parts), **fields}


def call(state: str, **fields: Any) -> Part:
    return {"type": "tool-weather", "toolCallId": "c", "state": state, "input": {"city": "Oslo"}, **fields}


def accepted_part(part: Part, **options: Any) -> Part:
    return validate_ui_messages([message(part)], **options)[0].parts[0]


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        (None, "none were given"),
        ("hi", "they are str, not a list"),
        ({}, "they are dict, not a list"),
        ([], "the list is empty"),
        ([7], r"messages\[0\]; it is int"),
        ([message(TEXT), message(TEXT, id=1)], r"messages\[1\]\.id; it must be a string"),
        ([message(TEXT, role="tool")], r"messages\[0\]\.role; it is 'tool'"),
        ([message(parts=None)], r"messages\[0\]\.parts; they must be a list"),
        ([message(role="user")], r"messages\[0\]\.parts; a user message needs at least one"),
        ([message(role="system")], "a system message needs at least one"),
        ([message(TEXT, None)], r"messages\[0\]\.parts\[1\]; a part: it is not an object with a type"),
        ([message({"type": "nonsense"})], "a nonsense part: there is no such type"),
        ([message({"type": "text", "text": 7})], r"a text part: Expected `str`, got `int` - at `\$.text`"),
        ([message(call("resting"))], "a tool-weather part in state resting: 'resting' is not a state"),
    ],
)
def test_a_refusal_says_where_and_why(messages: Any, why: str) -> None:
    with pytest.raises(BadMessage, match=rf"^unable to accept .*{why}"):
        validate_ui_messages(messages)


def test_an_answer_may_be_empty_and_an_id_too() -> None:
    assert validate_ui_messages([message(id="")]) == [UIMessage("", "assistant", [])]


def test_fields_that_the_sdk_does_not_know_are_dropped() -> None:
    source = {"type": "source", "sourceType": "url", "id": "s", "url": "u"}
    part = {**TEXT, "citations": [{"source": {**source, "x": 1}, "startIndex": 2.0, "x": 1}], "x": 1}
    accepted = validate_ui_messages([message(part, metadata={"x": 1}, createdAt=5)])[0]
    assert accepted.parts == [{**TEXT, "citations": [{"source": source, "startIndex": 2}]}]
    assert (accepted.metadata, accepted.extra) == ({"x": 1}, {})


def test_messages_are_taken_as_objects_too_and_are_copied() -> None:
    given_message = UIMessage("m", "user", [dict(TEXT)], {"a": 1})
    accepted = validate_ui_messages((given_message,))
    assert accepted == [given_message]
    assert accepted[0].parts[0] is not given_message.parts[0]


def test_metadata_and_data_become_what_their_schemas_return() -> None:
    note = {"type": "data-note", "data": "3", "id": "d"}
    accepted = validate_ui_messages(
        [message(note, metadata=1)], metadata_schema=lambda value: {"count": value}, data_schemas={"note": int}
    )[0]
    assert accepted.metadata == {"count": 1}
    assert accepted.parts == [{"type": "data-note", "data": 3, "id": "d"}]


def test_every_data_part_needs_a_schema_if_there_are_schemas() -> None:
    with pytest.raises(BadMessage, match=r"parts\[0\]\.data; there is no schema for data part 'note'"):
        accepted_part({"type": "data-note", "data": 1}, data_schemas={})
    assert accepted_part({"type": "data-note", "data": 1}) == {"type": "data-note", "data": 1}


class Model:
    """Stands for a Pydantic model."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @classmethod
    def model_validate(cls, value: Any) -> Model:
        return cls(int(value))

    def model_dump(self, *, mode: str = "python", by_alias: bool = False) -> Any:
        assert (mode, by_alias) == ("json", True)
        return {"theValue": self.value}


class Adapter:
    """Stands for a Pydantic TypeAdapter."""

    def validate_python(self, value: Any) -> int:
        return int(value)


@pytest.mark.parametrize(
    ("schema", "made"), [(Model, {"theValue": 3}), (Adapter(), 3), (int, 3), ({"type": "integer"}, "3")]
)
def test_a_schema_is_a_function_a_model_an_adapter_or_json_schema(schema: Any, made: Any) -> None:
    assert accepted_part({"type": "data-n", "data": "3"}, data_schemas={"n": schema})["data"] == made


@pytest.mark.parametrize("schema", [Model, Adapter(), int])
def test_what_a_schema_refuses_is_refused_with_its_words(schema: Any) -> None:
    with pytest.raises(BadMessage, match=r"parts\[0\]\.data; invalid literal for int") as refusal:
        accepted_part({"type": "data-n", "data": "three"}, data_schemas={"n": schema})
    assert isinstance(refusal.value.__cause__, ValueError)


@pytest.mark.parametrize(("schema", "why"), [(7, "neither callable"), (lambda value: object(), "without a JSON form")])
def test_a_schema_that_cannot_serve_is_told(schema: Any, why: str) -> None:
    with pytest.raises(BadMessage, match=why):
        accepted_part({"type": "data-n", "data": "3"}, data_schemas={"n": schema})


def known_city(value: Any) -> Any:
    if value.get("city") not in ("Oslo", "oslo"):
        raise ValueError("no such city")
    return {"city": value["city"].title()}


def short_text(value: Any) -> Any:
    if len(value) > 5:
        raise ValueError("too long")
    return value


class WeatherTool:
    input_schema = staticmethod(known_city)
    output_schema = staticmethod(short_text)


TOOLS = {"weather": WeatherTool()}
GONE = {"type": "dynamic-tool", "toolName": "weather", "dynamic": False}


def test_a_call_keeps_the_input_and_output_that_its_tool_accepts() -> None:
    done = call("output-available", output="sun")
    assert accepted_part(done, tools=TOOLS) == done
    assert accepted_part(call("input-streaming", input={}), tools=TOOLS) == call("input-streaming", input={})


def test_a_tool_is_an_object_a_dict_or_something_that_checks_its_input() -> None:
    class Checking:
        def check(self, value: Any) -> Any:
            return known_city(value)

    wrong = call("input-available", input={"city": "Atlantis"})
    for tool in (WeatherTool(), {"input_schema": known_city}, Checking()):
        with pytest.raises(BadMessage, match=r"parts\[0\]\.input; no such city"):
            accepted_part(wrong, tools={"weather": tool})
    assert accepted_part(wrong, tools={"weather": {}}) == wrong


def test_an_output_that_its_tool_would_not_give_is_refused() -> None:
    with pytest.raises(BadMessage, match=r"parts\[0\]\.output; too long"):
        accepted_part(call("output-available", output="much rain"), tools=TOOLS)


@pytest.mark.parametrize(
    "part",
    [
        call("output-available", output="much rain"),
        call("output-error", errorText="it broke"),
        call("output-denied", approval={"id": "a", "approved": False}),
    ],
)
def test_a_finished_call_of_a_tool_that_is_gone_becomes_dynamic(part: Part) -> None:
    assert accepted_part(part, tools={}) == {**part, **GONE}
    assert accepted_part(part) == part


def test_an_unfinished_call_of_a_tool_that_is_gone_is_refused() -> None:
    with pytest.raises(BadMessage, match="there is no tool 'weather', and the call is not finished"):
        accepted_part(call("input-available"), tools={})


def test_a_finished_call_stays_readable_when_its_tool_wants_another_input() -> None:
    failed = call("output-error", errorText="it broke", input={})
    empty = call("output-available", output="sun", input={})
    assert accepted_part(failed, tools=TOOLS) == {**failed, **GONE}
    assert accepted_part(empty, tools=TOOLS) == {**empty, **GONE}
    with pytest.raises(BadMessage, match="no such city"):
        accepted_part({**empty, "input": {"city": "Atlantis"}}, tools=TOOLS)
    without = {name: value for name, value in failed.items() if name != "input"}
    assert accepted_part(without, tools=TOOLS) == without


def test_what_was_approved_is_what_the_schema_makes_of_the_models_input() -> None:
    asked = call("approval-requested", approval={"id": "a", "inputSchemaInput": {"city": "oslo"}})
    assert accepted_part(asked, tools=TOOLS) == asked
    with pytest.raises(BadMessage, match="inputSchemaInput"):
        accepted_part({**asked, "input": {"city": "oslo"}}, tools=TOOLS)


@pytest.mark.parametrize(("made", "stored"), [(1, True), ({"a": [0]}, {"a": [False]}), ([1], [1, 2]), ({"a": 1}, {})])
def test_the_approved_input_is_compared_as_json(made: Any, stored: Any) -> None:
    asked = call("approval-requested", input=stored, approval={"id": "a", "inputSchemaInput": {}})
    with pytest.raises(BadMessage, match="inputSchemaInput"):
        accepted_part(asked, tools={"weather": {"input_schema": lambda value: made}})


@given(seeded())
def test_the_safe_variant_never_raises_and_agrees(rng: Random) -> None:
    messages = copy.deepcopy(conversation(rng))
    if rng.random() < 0.5:
        spoil(rng, messages)
    answer = safe_validate_ui_messages(messages)
    if answer.error is None:
        assert answer.messages == validate_ui_messages(messages)
        # What was accepted once is accepted again, unchanged.
        assert validate_ui_messages([each.to_dict() for each in answer.messages]) == answer.messages
    else:
        assert answer.messages == []
        with pytest.raises(BadMessage):
            validate_ui_messages(messages)
