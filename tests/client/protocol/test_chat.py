"""The client's half of the chat protocol: the frames it sends again, the messages it shows, and how requests end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from everyword.client.protocol.chat import ChatProtocol, Ended
from everyword.client.protocol.unconfirmed_frames import MARK

Frame = dict[str, Any]
QUESTION = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}


def said(protocol: ChatProtocol) -> list[Frame]:
    return [json.loads(frame) for frame in protocol.frames_to_send()]


def kinds(frames: list[Frame]) -> list[str]:
    return [frame["type"].removeprefix("cf_agent_") for frame in frames]


def hear(protocol: ChatProtocol, kind: str, **fields: Any) -> None:
    protocol.receive(json.dumps({"type": f"cf_agent_{kind}", **fields}))


def chunk(protocol: ChatProtocol, request: str, body: Frame, **fields: Any) -> None:
    hear(protocol, "use_chat_response", id=request, body=json.dumps(body), done=False, **fields)


def text(protocol: ChatProtocol, *deltas: str, **fields: Any) -> None:
    """Begin the answer `a1` of request `r1`."""
    chunk(protocol, "r1", {"type": "start", "messageId": "a1"}, **fields)
    chunk(protocol, "r1", {"type": "text-start", "id": "t"}, **fields)
    for delta in deltas:
        chunk(protocol, "r1", {"type": "text-delta", "id": "t", "delta": delta}, **fields)


def done(protocol: ChatProtocol, request: str = "r1", **fields: Any) -> None:
    hear(protocol, "use_chat_response", id=request, body="", done=True, **fields)


def shown(protocol: ChatProtocol) -> list[str]:
    return ["".join(part.get("text", "") for part in message["parts"]) for message in protocol.messages]


def asked() -> ChatProtocol:
    protocol = ChatProtocol()
    protocol.connected()
    protocol.ask("r1", [QUESTION])
    protocol.frames_to_send()
    return protocol


def test_a_question_is_sent_again_under_its_id_until_it_has_ended() -> None:
    """P-16: the server takes it once."""
    protocol = asked()
    for _ in range(2):
        protocol.disconnected()
        protocol.connected()
        again = said(protocol)
        assert kinds(again) == ["use_chat_request", "stream_resume_request"]
        assert again[0]["id"] == "r1"
    done(protocol, outcome="completed")
    protocol.disconnected()
    protocol.connected()
    assert kinds(said(protocol)) == ["stream_resume_request"]


def test_commands_are_sent_again_in_order_until_they_are_confirmed() -> None:
    """P-48."""
    protocol = asked()
    mark = protocol.stop("r1")
    assert kinds(said(protocol)) == ["chat_request_cancel", "rpc"]
    protocol.disconnected()
    protocol.approve("k1", False, reason="no")
    assert said(protocol) == []
    protocol.connected()
    again = said(protocol)
    assert kinds(again)[:-1] == ["use_chat_request", "chat_request_cancel", "rpc", "tool_approval", "rpc"]
    assert again[3]["reason"] == "no"
    assert not protocol.is_confirmed(mark)
    protocol.receive(
        json.dumps({"type": "rpc", "id": mark, "success": False, "error": f"Method {MARK} does not exist"})
    )
    assert protocol.is_confirmed(mark)
    protocol.disconnected()
    protocol.connected()
    assert kinds(said(protocol))[:-1] == ["use_chat_request", "tool_approval", "rpc"]


def test_an_answer_does_not_shrink_while_it_is_replayed() -> None:
    protocol = asked()
    text(protocol, "Hello ", "you")
    protocol.disconnected()
    protocol.connected()
    hear(protocol, "stream_resuming", id="r1")
    text(protocol, "Hel", replay=True)
    assert shown(protocol) == ["hi", "Hello you"]
    chunk(protocol, "r1", {"type": "text-delta", "id": "t", "delta": "lo you"}, replay=True)
    hear(protocol, "use_chat_response", id="r1", body="", done=False, replay=True, replayComplete=True)
    chunk(protocol, "r1", {"type": "text-delta", "id": "t", "delta": " two"}, seq=9)
    assert shown(protocol) == ["hi", "Hello you two"]


def test_a_request_that_ended_during_a_disconnect_is_unsure() -> None:
    protocol = asked()
    text(protocol, "Half")
    protocol.disconnected()
    protocol.connected()
    done(protocol, outcome="completed")
    assert protocol.requests["r1"].is_unsure
    protocol.settle("r1", {"id": "a1", "role": "assistant", "parts": [{"type": "text", "text": "Half and half"}]})
    assert not protocol.requests["r1"].is_unsure
    assert shown(protocol) == ["hi", "Half and half"]


def test_open_requests_are_asked_for_if_there_is_nothing_to_resume() -> None:
    protocol = asked()
    protocol.disconnected()
    protocol.connected()
    probe = said(protocol)[-1]["probeId"]
    hear(protocol, "chat_messages", messages=[], connect=True)
    hear(protocol, "stream_resume_none", reason="idle", probeId=probe)
    assert said(protocol) == [{"type": "cf_agent_stream_resume_ack", "id": "r1"}]
    done(protocol, replay=True)
    assert protocol.endings == {"r1": Ended("skipped")}
    assert protocol.messages == []


def test_a_continuation_that_never_begins_is_skipped() -> None:
    """P-30."""
    protocol = ChatProtocol()
    protocol.connected()
    hear(protocol, "stream_pending", id="c1", probeId=protocol.resume.newest)
    assert protocol.running == ["c1"]
    hear(protocol, "stream_resume_none")
    assert protocol.endings == {"c1": Ended("skipped")}
    assert protocol.running == []


def test_the_first_end_of_a_request_counts() -> None:
    protocol = asked()
    hear(protocol, "use_chat_response", id="r1", body="broken", done=False, error=True)
    done(protocol, outcome="error")
    done(protocol, replay=True)
    assert protocol.endings == {"r1": Ended("error", "broken")}


def test_frames_from_before_a_clear_are_not_shown() -> None:
    protocol = asked()
    text(protocol, "Half")
    mark = protocol.clear()
    chunk(protocol, "r1", {"type": "text-delta", "id": "t", "delta": " more"})
    hear(protocol, "chat_messages", messages=[QUESTION])
    assert protocol.messages == []
    hear(protocol, "chat_messages", messages=[])  # the transcript that the clear itself causes
    protocol.receive(json.dumps({"type": "rpc", "id": mark, "success": False, "error": ""}))
    assert protocol.endings == {"r1": Ended("aborted")}
    assert protocol.messages == []


def test_a_clear_of_another_client_during_our_own_clear_holds() -> None:
    protocol = asked()
    mark = protocol.clear()
    hear(protocol, "chat_messages", messages=[])  # ours was heard
    hear(protocol, "chat_messages", messages=[QUESTION])  # another asks …
    hear(protocol, "chat_clear")  # … and clears
    protocol.receive(json.dumps({"type": "rpc", "id": mark, "success": False, "error": ""}))
    assert protocol.messages == []


def test_an_approval_during_a_stream_is_not_undone_by_the_next_chunk() -> None:
    """R-2: an approval stands in no chunk."""
    protocol = asked()
    text(protocol, "May I?")
    given_input = {"type": "tool-input-available", "toolCallId": "k", "toolName": "pay", "input": {}}
    chunk(protocol, "r1", given_input)
    chunk(protocol, "r1", {"type": "tool-approval-request", "toolCallId": "k", "approvalId": "ask"})
    message = protocol.find("a1")
    assert message is not None
    parts = json.loads(json.dumps(message["parts"]))
    parts[-1] |= {"state": "approval-responded", "approval": {"id": "ask", "approved": True}}
    hear(protocol, "message_updated", message={**message, "parts": parts})
    chunk(protocol, "r1", {"type": "text-delta", "id": "t", "delta": " Thanks."})
    updated = protocol.find("a1")
    assert updated is not None
    assert updated["parts"][-1]["state"] == "approval-responded"


def test_a_chunk_that_does_not_fit_is_left_out_and_reported() -> None:
    protocol = asked()
    text(protocol, "Hello")
    chunk(protocol, "r1", {"type": "text-delta", "id": "nobody's", "delta": "x"})
    chunk(protocol, "r1", {"type": "text-delta", "id": "t", "delta": " you"})
    assert shown(protocol) == ["hi", "Hello you"]
    assert len(protocol.problems) == 1


@pytest.mark.parametrize("kind", ["unknown", "cf_agent_chat_recovering", "cf_agent_mcp_servers"])
def test_frames_of_other_types_change_nothing(kind: str) -> None:
    protocol = asked()
    protocol.receive(json.dumps({"type": kind, "recovering": True}))
    assert (shown(protocol), protocol.endings, said(protocol)) == (["hi"], {}, [])
