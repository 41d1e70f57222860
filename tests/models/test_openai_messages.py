from __future__ import annotations

from everyword.messages.message import Part, UIMessage
from everyword.models import to_openai, to_openai_responses

PNG = "data:image/png;base64,aGk="
PDF: Part = {
    "type": "file",
    "url": "data:application/pdf;base64,aGk=",
    "mediaType": "application/pdf",
    "filename": "a.pdf",
}
FAR: Part = {"type": "file", "url": "https://example.org/a.pdf", "mediaType": "application/pdf"}
FILES: list[Part] = [
    {"type": "text", "text": "look"},
    {"type": "file", "url": PNG, "mediaType": "image/png"},
    {"type": "file", "url": "data:audio/mpeg;base64,aGk=", "mediaType": "audio/mpeg"},
    PDF,
    FAR,
    {"type": "data-mine", "data": 1},
]


def test_files_of_a_question_go_to_chat_completions_in_their_own_shapes() -> None:
    content = to_openai([UIMessage("q", "user", FILES)])[0]["content"]
    assert content == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": PNG}},
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "mp3"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF["url"]}},
        {"type": "text", "text": "[file application/pdf: https://example.org/a.pdf]"},
    ]


def test_files_that_chat_completions_refuse_become_text() -> None:
    notes: Part = {"type": "file", "url": "data:;base64,aGk=", "mediaType": "text/markdown", "filename": "a.md"}
    packed: Part = {"type": "file", "url": "data:;base64,aGk=", "mediaType": "application/zip"}
    assert to_openai([UIMessage("q", "user", [FILES[0], notes, packed])])[0]["content"] == (
        "look\n[The file a.md (text/markdown):]\nhi\n[The end of the file.]\n"
        "[The file (application/zip) cannot be shown; the model does not read it.]"
    )


def test_files_of_a_question_go_to_responses_in_their_own_shapes() -> None:
    content = to_openai_responses([UIMessage("q", "user", [FILES[1], PDF, FAR])])[0]["content"]
    assert content == [
        {"type": "input_image", "image_url": PNG, "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": PDF["url"]},
        {"type": "input_file", "file_url": FAR["url"]},
    ]


def test_instructions_are_a_message_of_the_system() -> None:
    system = UIMessage("s", "system", [{"type": "text", "text": "Be brief."}])
    assert to_openai([system]) == to_openai_responses([system]) == [{"role": "system", "content": "Be brief."}]


def test_messages_are_taken_as_json_objects_too() -> None:
    raw = {"id": "q", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
    assert to_openai([raw]) == [{"role": "user", "content": "hi"}]


def test_what_another_provider_ran_itself_is_left_out() -> None:
    part: Part = {"type": "tool-web_search", "toolCallId": "s", "state": "output-available", "input": {}}
    part |= {"output": [], "providerExecuted": True, "resultProviderMetadata": {"anthropic": {"block": {}}}}
    message = UIMessage("m", "assistant", [part, {"type": "text", "text": "found"}])
    assert to_openai([message]) == [{"role": "assistant", "content": "found"}]
    assert [item["type"] for item in to_openai_responses([message])] == ["message"]


def test_an_answer_without_anything_to_say_is_no_message() -> None:
    assert to_openai([UIMessage("m", "assistant", [{"type": "step-start"}, {"type": "text", "text": ""}])]) == []
