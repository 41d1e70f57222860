"""Client frames: read leniently, answered when they cannot be used, and never fatal."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everyword.errors import BadMessage
from everyword.events import ABSENT
from everyword.messages.client_messages import read_client_messages
from everyword.messages.message import UIMessage
from everyword.messages.tool_calls import ApprovalAnswer, ErrorAnswer, OutputAnswer
from everyword.wire import parse as module
from everyword.wire.parse import (
    AnswerCall,
    BadRequest,
    CallMethod,
    CancelTurn,
    ChatRequest,
    ClearChat,
    Other,
    ResumeAck,
    ResumeRequest,
    SetState,
    SyncMessages,
    parse,
)

USER = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}


def frame(kind: str, **fields: Any) -> str:
    return json.dumps({"type": kind, **fields})


def request(body: Any, **more: Any) -> str:
    text = body if isinstance(body, str) else json.dumps(body)
    return frame("cf_agent_use_chat_request", id="r1", init={"method": "POST", "body": text}, **more)


@pytest.mark.obligation("003-48")
def test_a_chat_request_is_split_into_messages_tools_and_the_rest() -> None:
    tools = [{"name": "look", "parameters": {}}]
    body = {"messages": [USER], "trigger": "regenerate-message", "clientTools": tools, "model": "x", "n": 1}
    found = parse(request(body))
    assert isinstance(found, ChatRequest)
    assert (found.id, found.messages, found.trigger) == ("r1", [USER], "regenerate-message")
    assert json.loads(bytes(found.client_tools)) == tools
    assert json.loads(bytes(found.body)) == {"model": "x", "n": 1}


def test_a_request_without_extras_has_neither_tools_nor_body() -> None:
    found = parse(request({"messages": [USER], "clientTools": []}))
    assert isinstance(found, ChatRequest)
    assert (found.trigger, found.client_tools, found.body) == ("submit-message", ABSENT, ABSENT)


@pytest.mark.parametrize(
    "text",
    [
        request("not json"),
        request(""),
        request("[1]"),
        request({"messages": "none"}),
        request({"messages": [{"role": "user"}]}),
        request({"messages": [USER, 7]}),
        request("[" * 100_000),
        frame("cf_agent_use_chat_request", id="r1"),
        frame("cf_agent_use_chat_request", id="r1", init="POST"),
        frame("cf_agent_use_chat_request", id="r1", init={"method": "GET"}),
        frame("cf_agent_use_chat_request", id="r1", init={"method": None, "body": json.dumps({"messages": [USER]})}),
    ],
)
def test_a_request_that_cannot_be_used_is_answered_under_its_id(text: str) -> None:
    found = parse(text)
    assert isinstance(found, BadRequest)
    assert found.id == "r1"
    assert found.text.startswith("unable to")


def test_an_unreadable_older_message_is_left_out() -> None:
    found = parse(request({"messages": [{"role": "user"}, USER]}))
    assert isinstance(found, ChatRequest)
    assert found.messages == [USER]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (frame("cf_agent_chat_request_cancel", id="r1"), CancelTurn("r1")),  # type: ignore[arg-type]
        (frame("cf_agent_chat_clear"), ClearChat()),
        (frame("cf_agent_chat_messages", messages=[USER]), SyncMessages([USER])),
        (frame("cf_agent_chat_messages", messages=[7, USER]), SyncMessages([USER], is_whole=False)),
        (frame("cf_agent_stream_resume_request", probeId="p"), ResumeRequest("p")),
        (frame("cf_agent_stream_resume_request"), ResumeRequest(None)),
        (frame("cf_agent_stream_resume_ack", id="r1"), ResumeAck("r1")),  # type: ignore[arg-type]
        (frame("rpc", id="c", method="m", args=[1]), CallMethod("c", "m", [1])),
    ],
)
@pytest.mark.obligation("003-52")
def test_the_small_frames_are_read(text: str, expected: object) -> None:
    assert parse(text) == expected


@pytest.mark.obligation("003-53")
def test_a_tool_result_carries_any_json_or_an_error() -> None:
    found = parse(frame("cf_agent_tool_result", toolCallId="k", toolName="", output=None, autoContinue=True))
    assert found == AnswerCall("k", OutputAnswer(None), True)  # type: ignore[arg-type]
    found = parse(frame("cf_agent_tool_result", toolCallId="k", state="output-error", errorText="no"))
    assert found == AnswerCall("k", ErrorAnswer("no"), False)  # type: ignore[arg-type]


@pytest.mark.obligation("003-54")
@pytest.mark.parametrize("approved", [True, False])
def test_an_approval_is_yes_or_no(approved: bool) -> None:
    found = parse(frame("cf_agent_tool_approval", toolCallId="k", approved=approved, autoContinue=True))
    assert found == AnswerCall("k", ApprovalAnswer(approved), True)  # type: ignore[arg-type]
    assert isinstance(parse(frame("cf_agent_tool_approval", toolCallId="k", approved="yes")), Other)


@pytest.mark.parametrize(("given", "kept"), [("x" * 5000, "x" * 1000), ("", None), (5, None)])
def test_of_a_reason_the_beginning_is_kept(given: object, kept: str | None) -> None:
    found = parse(frame("cf_agent_tool_approval", toolCallId="k", approved=False, reason=given))
    assert found == AnswerCall("k", ApprovalAnswer(False, kept), False)  # type: ignore[arg-type]


def test_a_state_may_be_any_json() -> None:
    for value in (None, 0, False, "", {"a": 1}):
        found = parse(frame("cf_agent_state", state=value))
        assert isinstance(found, SetState)
        assert json.loads(bytes(found.state)) == value


@pytest.mark.parametrize(
    "text", ["", "hello", "7", "null", "[]", "{}", '{"type":7}', '{"type":"unknown"}', "{" * 50_000]
)
def test_what_is_not_of_the_protocol_is_handed_on_as_it_came(text: str) -> None:
    assert parse(text) == Other(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KEYS = ["id", "init", "messages", "toolCallId", "output", "approved", "probeId", "state", "method", "args", "errorText"]


@given(
    st.sampled_from([*module._READERS, "other"]),
    st.dictionaries(st.sampled_from(KEYS), JSON, max_size=6),
    st.text(max_size=40),
)
def test_no_frame_whatever_makes_the_parser_raise(kind: str, fields: dict[str, Any], tail: str) -> None:
    for text in (json.dumps({"type": kind, **fields}), json.dumps({"type": kind, **fields})[:-1] + tail, tail):
        assert parse(text) is not None


@given(JSON)
def test_no_request_body_whatever_makes_the_parser_raise(body: Any) -> None:
    assert isinstance(parse(request(body)), ChatRequest | BadRequest)
    assert isinstance(
        parse(request({"messages": [body], "clientTools": body, "trigger": body})), ChatRequest | BadRequest
    )


TEXT = st.just({"type": "text", "text": "hi"})
MESSAGE = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "system", "other"]),
        "id": st.sampled_from(["m1", "m2", "m3", "m4", ""]),
        "parts": st.lists(TEXT | st.fixed_dictionaries({"type": JSON}) | JSON, max_size=3),
    },
    optional={"metadata": JSON, "content": JSON, "createdAt": JSON},
)
"""Mostly what clients send; `ODD` is what they should not."""
ODD = st.dictionaries(st.sampled_from(["role", "id", "parts", "metadata"]), JSON) | JSON


@given(st.lists(MESSAGE | ODD, max_size=3))
def test_a_message_with_nothing_special_is_read_as_every_other(messages: list[Any]) -> None:
    read, _ = read_client_messages(messages)
    expected = []
    for each in messages:
        with suppress(BadMessage):
            expected.append(UIMessage.from_dict(each).to_dict() | _as_given(each))
    assert json.dumps(read) == json.dumps(expected), "to the byte: it is stored"


def _as_given(message: dict[str, Any]) -> dict[str, Any]:
    return {"parts": message["parts"]} if isinstance(message.get("parts"), list) else {}
