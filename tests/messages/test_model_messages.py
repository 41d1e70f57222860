from __future__ import annotations

import copy
from random import Random
from typing import Any

import pytest
from hypothesis import given

from everyword.errors import BadMessage
from everyword.messages.message import Part, UIMessage
from everyword.messages.model_messages import convert_to_model_messages
from tests.messages.conversations import conversation
from tests.messages.sequences import seeded

STEP: Part = {"type": "step-start"}
META = {"acme": {"cached": True}}


def text(said: str = "hi", **fields: Any) -> Part:
    return {"type": "text", "text": said, **fields}


def call(state: str, **fields: Any) -> Part:
    return {"type": "tool-weather", "toolCallId": "c", "state": state, "input": {"city": "Oslo"}, **fields}


def result(output: Any, **fields: Any) -> Part:
    return {"type": "tool-result", "toolCallId": "c", "toolName": "weather", "output": output, **fields}


CALLED: Part = {"type": "tool-call", "toolCallId": "c", "toolName": "weather", "input": {"city": "Oslo"}}
REQUEST: Part = {"type": "tool-approval-request", "approvalId": "a", "toolCallId": "c"}


def converted(*parts: Part, role: str = "assistant", **options: Any) -> list[dict[str, Any]]:
    return convert_to_model_messages([{"role": role, "parts": list(parts)}], **options)


def said(*parts: Part, **options: Any) -> list[tuple[str, Any]]:
    return [(message["role"], message["content"]) for message in converted(*parts, **options)]


def test_system_texts_are_joined_and_their_options_merged() -> None:
    parts = [text("Be ", providerMetadata=META), text("kind.", providerMetadata={"b": {}}), STEP]
    assert converted(*parts, role="system") == [
        {"role": "system", "content": "Be kind.", "providerOptions": {**META, "b": {}}}
    ]
    assert converted(text("Plain"), role="system") == [{"role": "system", "content": "Plain"}]


def test_a_user_sends_texts_and_files() -> None:
    image = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,AA==", "filename": "a.png"}
    stored = {"type": "file", "mediaType": "image/png", "url": "", "providerReference": {"acme": "f1"}}
    source = {"type": "source-url", "sourceId": "s", "url": "https://example.org/"}
    content = converted(text(providerMetadata=META), image, stored, source, role="user")[0]["content"]
    assert content == [
        {"type": "text", "text": "hi", "providerOptions": META},
        {"type": "file", "mediaType": "image/png", "filename": "a.png", "data": {"type": "url", "url": image["url"]}},
        {"type": "file", "mediaType": "image/png", "data": {"type": "reference", "reference": {"acme": "f1"}}},
    ]


def test_data_parts_reach_the_model_through_the_callback_only() -> None:
    parts = [{"type": "data-note", "data": "n"}, {"type": "data-progress", "data": 1}]

    def note(part: Part) -> Part | None:
        return text(part["data"]) if part["type"] == "data-note" else None

    for role in ("user", "assistant"):
        assert converted(*parts, role=role, convert_data_part=note) == [{"role": role, "content": [text("n")]}]
    assert said(*parts) == []
    assert said(*parts, role="user") == [("user", [])]


@pytest.mark.parametrize(
    ("part", "content"),
    [
        (text(), [text()]),
        (text(state="done", providerMetadata=META), [text(providerOptions=META)]),
        ({"type": "reasoning", "text": "hm", "state": "done"}, [{"type": "reasoning", "text": "hm"}]),
        (
            {"type": "reasoning", "text": "hm", "providerMetadata": META},
            [{"type": "reasoning", "text": "hm", "providerOptions": META}],
        ),
        ({"type": "custom", "kind": "a.b"}, [{"type": "custom", "kind": "a.b"}]),
        (
            {"type": "reasoning-file", "mediaType": "image/png", "url": "https://example.org/x"},
            [
                {
                    "type": "reasoning-file",
                    "mediaType": "image/png",
                    "data": {"type": "url", "url": "https://example.org/x"},
                }
            ],
        ),
    ],
)
def test_parts_of_an_answer_become_content(part: Part, content: list[Part]) -> None:
    assert said(part) == [("assistant", content)]


@pytest.mark.parametrize("kind", ["source-url", "source-document", "step-start", "of-tomorrow"])
def test_sources_steps_and_unknown_parts_are_left_out(kind: str) -> None:
    assert said({"type": kind}) == []


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (call("input-streaming"), []),
        (call("input-available"), [("assistant", [CALLED])]),
        (call("approval-requested", approval={"id": "a"}), [("assistant", [CALLED, REQUEST])]),
        (
            call("approval-responded", approval={"id": "a", "approved": True, "reason": "ok"}),
            [
                ("assistant", [CALLED, REQUEST]),
                (
                    "tool",
                    [{"type": "tool-approval-response", "approvalId": "a", "approved": True, "reason": "ok"}],
                ),
            ],
        ),
        (
            call("approval-responded", approval={"id": "a", "approved": False, "reason": "no"}),
            [
                ("assistant", [CALLED, REQUEST]),
                (
                    "tool",
                    [
                        {"type": "tool-approval-response", "approvalId": "a", "approved": False, "reason": "no"},
                        result({"type": "execution-denied", "reason": "no"}),
                    ],
                ),
            ],
        ),
        (
            call("output-denied", approval={"id": "a", "approved": False}),
            [
                ("assistant", [CALLED, REQUEST]),
                (
                    "tool",
                    [
                        {"type": "tool-approval-response", "approvalId": "a", "approved": False},
                        result({"type": "error-text", "value": "Tool call execution denied."}),
                    ],
                ),
            ],
        ),
        (
            call("output-available", output="sun"),
            [("assistant", [CALLED]), ("tool", [result({"type": "text", "value": "sun"})])],
        ),
        (
            call("output-available", output=None),
            [("assistant", [CALLED]), ("tool", [result({"type": "json", "value": None})])],
        ),
        (
            call("output-available", output=[1], preliminary=True, callProviderMetadata=META),
            [
                ("assistant", [{**CALLED, "providerOptions": META}]),
                ("tool", [result({"type": "json", "value": [1]}, providerOptions=META)]),
            ],
        ),
        (
            call("output-error", errorText="it broke", resultProviderMetadata=META),
            [
                ("assistant", [{**CALLED, "providerOptions": META}]),
                ("tool", [result({"type": "error-text", "value": "it broke"})]),
            ],
        ),
        (
            call("output-available", output=1, providerExecuted=True, resultProviderMetadata=META),
            [
                (
                    "assistant",
                    [
                        {**CALLED, "providerExecuted": True},
                        result({"type": "json", "value": 1}, providerOptions=META),
                    ],
                )
            ],
        ),
        (
            call("output-error", errorText="it broke", providerExecuted=True),
            [
                (
                    "assistant",
                    [{**CALLED, "providerExecuted": True}, result({"type": "error-json", "value": "it broke"})],
                )
            ],
        ),
    ],
)
def test_a_call_in_each_state(part: Part, expected: list[tuple[str, Any]]) -> None:
    assert said(part) == expected
    dynamic = {**part, "type": "dynamic-tool", "toolName": "weather"}
    assert said(dynamic) == expected


def test_a_call_that_failed_on_its_input_shows_the_raw_input() -> None:
    broken = call("output-error", errorText="bad", rawInput="{cit")
    del broken["input"]
    assert said(broken)[0][1][0]["input"] == "{cit"
    del broken["rawInput"]
    assert "input" not in said(broken)[0][1][0]


def test_an_approval_request_carries_what_was_asked() -> None:
    asked = {"id": "a", "isAutomatic": True, "requestReason": "why", "signature": "s", "inputSchemaInput": None}
    assert said(call("approval-requested", approval=asked))[0][1][1] == {
        **REQUEST,
        "isAutomatic": True,
        "reason": "why",
        "signature": "s",
        "inputSchemaInput": None,
    }


def test_each_step_is_one_assistant_message_followed_by_its_results() -> None:
    done = call("output-available", output="sun")
    roles = [role for role, _ in said(STEP, text("a"), done, text("b"), STEP, text("c"))]
    assert roles == ["assistant", "tool", "assistant"]


def test_a_steering_message_is_the_user_speaking_between_two_steps() -> None:
    steering = {"type": "steering-message", "id": "u", "parts": [text("go left")]}
    assert said(text("a"), steering, text("b")) == [
        ("assistant", [text("a")]),
        ("user", [text("go left")]),
        ("assistant", [text("b")]),
    ]


def test_incomplete_calls_are_left_out_on_request() -> None:
    states = ["input-available", "approval-requested"]
    parts = [call(state, approval={"id": "a"}) for state in states]
    parts.append(call("output-available", output=1, preliminary=True))
    assert said(*parts, ignore_incomplete_tool_calls=True) == []
    assert said(call("output-available", output=1), ignore_incomplete_tool_calls=True) != []


def test_an_approval_that_was_not_given_before_the_next_question_is_left_out() -> None:
    pending = {"role": "assistant", "parts": [call("approval-requested", approval={"id": "a"})]}
    user = {"role": "user", "parts": [text()]}
    assert [message["role"] for message in convert_to_model_messages([user, pending])] == ["user", "assistant"]
    assert [message["role"] for message in convert_to_model_messages([user, pending, user])] == ["user", "user"]


def test_a_tool_decides_what_the_model_sees_of_its_output() -> None:
    class Weather:
        def to_model_output(self, *, tool_call_id: str, input: Any, output: Any) -> dict[str, Any]:
            return {"type": "text", "value": f"{tool_call_id} {input['city']} {output}"}

    done = call("output-available", output=7)
    for tool in (Weather(), {"to_model_output": Weather().to_model_output}):
        assert said(done, tools={"weather": tool})[1][1] == [result({"type": "text", "value": "c Oslo 7"})]
    failed = call("output-error", errorText="it broke")
    assert said(failed, tools={"weather": Weather()})[1][1] == [result({"type": "error-text", "value": "it broke"})]


def test_the_output_of_a_tool_that_is_gone_is_not_shown() -> None:
    gone = call("output-available", output="secret") | {"type": "dynamic-tool", "toolName": "weather", "dynamic": False}
    assert "secret" not in str(said(gone))
    assert "secret" in str(said(gone, tools={"weather": {}}))


@pytest.mark.parametrize(("message", "why"), [({"role": "tool", "parts": []}, "role"), ({"role": "user"}, "parts")])
def test_a_message_without_a_role_or_parts_is_refused_with_its_place(message: dict[str, Any], why: str) -> None:
    with pytest.raises(BadMessage, match=rf"message 1; .*{why}"):
        convert_to_model_messages([{"role": "user", "parts": []}, message])


@pytest.mark.parametrize("role", ["system", "user", "assistant"])
@pytest.mark.parametrize(
    "part",
    [
        "hi",
        {"type": 5},
        {"type": "text"},
        {"type": "text", "text": ["hi"]},
        {"type": "reasoning", "text": 5},
        {"type": "custom"},
        {"type": "file", "mediaType": "a/b", "url": "cat.png"},
        {"type": "file", "mediaType": "a/b", "url": "https://"},
        {"type": "file", "mediaType": 5, "url": "https://a"},
        {"type": "steering-message", "id": "s", "parts": [{"type": "text"}]},
        {"type": "tool-x", "state": "input-available"},
        {"type": "tool-x", "toolCallId": "c", "state": ["input-available"]},
        {"type": "tool-x", "toolCallId": "c", "state": "output-available", "approval": 5},
        {"type": "dynamic-tool", "toolName": 5, "toolCallId": "c", "state": "output-available", "output": 1},
    ],
)
def test_a_part_that_no_model_can_be_told_of_is_left_out(role: str, part: Any) -> None:
    words = {"type": "text", "text": "hello"}
    expected = convert_to_model_messages([{"role": role, "parts": [words]}])
    assert expected
    assert convert_to_model_messages([{"role": role, "parts": [part, words]}]) == expected


@given(seeded())
def test_messages_and_their_objects_convert_alike_and_stay_as_they_were(rng: Random) -> None:
    raw = conversation(rng)
    before = copy.deepcopy(raw)
    messages = [UIMessage.from_dict(message) for message in raw]
    assert convert_to_model_messages(messages) == convert_to_model_messages(raw)
    assert raw == before
