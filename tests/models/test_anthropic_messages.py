from __future__ import annotations

from everyword.messages.message import Part, UIMessage
from everyword.models import to_anthropic


def content(parts: list[Part], role: str = "user") -> list[Part]:
    blocks: list[Part] = to_anthropic([UIMessage("m", role, parts)])["messages"][0]["content"]
    return blocks


def file(url: str, media_type: str, **fields: str) -> Part:
    return {"type": "file", "url": url, "mediaType": media_type, **fields}


def test_files_of_a_question_go_in_their_own_shapes() -> None:
    parts = [
        file("data:image/png;base64,aGk=", "image/png"),
        file("https://example.org/a.png", "image/png"),
        file("data:application/pdf;base64,aGk=", "application/pdf", filename="a.pdf"),
        file("data:text/csv;base64,aGk=", "text/csv"),
    ]
    assert content(parts) == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="},
            "title": "a.pdf",
        },
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}},
    ]


def test_a_file_that_the_api_refuses_does_not_end_the_conversation() -> None:
    parts = [
        file("data:application/octet-stream;base64,aGk=", "application/zip", filename="a.zip"),
        file("data:image/heic;base64,aGk=", "image/heic"),
        file("data:image/jpg;base64,aGk=", "image/jpg"),
        file("data:application/json;base64,aGk=", "application/json"),
    ]
    assert content(parts) == [
        {
            "type": "text",
            "text": "[The file a.zip (application/zip) cannot be shown; the model does not read it.]",
        },
        {"type": "text", "text": "[The file (image/heic) cannot be shown; the model does not read it.]"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "aGk="}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}},
    ]


def test_ids_of_other_providers_are_made_fit_on_both_sides() -> None:
    part: Part = {"type": "tool-x", "toolCallId": "a:1|b", "state": "output-available", "input": {}, "output": 1}
    asked, answered = to_anthropic([UIMessage("m", "assistant", [part])])["messages"]
    assert asked["content"][0]["id"] == answered["content"][0]["tool_use_id"] == "a_1_b"


def test_no_system_text_means_no_system_at_all() -> None:
    assert "system" not in to_anthropic([UIMessage("q", "user", [{"type": "text", "text": "hi"}])])


def test_a_providers_own_call_without_a_result_goes_back_only_to_be_continued() -> None:
    part: Part = {"type": "tool-web_search", "toolCallId": "s", "state": "input-available", "input": {"q": 1}}
    part |= {"providerExecuted": True, "callProviderMetadata": {"anthropic": {"type": "server_tool_use"}}}
    paused = UIMessage("m", "assistant", [{"type": "text", "text": "a"}, part])
    asked = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": 1}}
    assert to_anthropic([paused])["messages"][0]["content"] == [{"type": "text", "text": "a"}, asked]
    later = to_anthropic([paused, UIMessage("q", "user", [{"type": "text", "text": "hi"}])])
    assert later["messages"][0]["content"] == [{"type": "text", "text": "a"}]
