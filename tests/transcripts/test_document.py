"""What readers are shown, and what is left out for them."""

from __future__ import annotations

import msgspec

from everyword.messages.message import UIMessage
from everyword.transcripts.document import FilePart, OtherPart, Shown, SourcePart, TextPart, describe_message
from everyword.transcripts.formats import FORMATS, filename_of
from everyword.transcripts.safe_text import shown_period
from everyword.transcripts.urls import shared_file_url
from tests.transcripts.hostile import described, head, part, recorded

LITTLE = Shown(
    reasoning=False, tools="none", data=False, people=False, address=False, system=False, file_url=lambda part: None
)


def test_what_is_left_out_is_in_no_form() -> None:
    parts = [
        part("reasoning", text="SECRET"),
        part("tool-SECRET", toolCallId="SECRET", state="output-available", input="SECRET", output="SECRET"),
        part("data-SECRET", data="SECRET"),
        part("file", mediaType="image/png", url="https://example.org/SECRET", filename="sun.png"),
        part("reasoning-file", mediaType="SECRET", url="SECRET"),
        part("SECRET"),
        part("text", text="hello"),
    ]
    metadata = {"everyword": {"author": {"id": "SECRET"}}, "x": "SECRET"}
    given = recorded("", id="SECRET", message=UIMessage("SECRET", "assistant", parts, metadata, {"y": "SECRET"}))
    message = describe_message(given, LITTLE)
    assert message is not None
    shown_head = msgspec.structs.replace(head("SECRET", LITTLE), title="A title")
    for form in FORMATS.values():
        said = "".join(form.write(shown_head, [message]))
        assert "SECRET" not in said
        assert "A title" in said and "hello" in said and "sun.png" in said


def test_only_names_of_calls_can_be_shown() -> None:
    said = described("SECRET", Shown(tools="names"))
    calls = [msgspec.to_builtins(each) for each in said.parts if type(each).__name__ == "ToolCallPart"]
    assert [sorted(each) for each in calls] == [["status", "tool", "type"]] * 3
    assert [each["status"] for each in calls] == ["done", "failed", "waiting"]


def test_texts_that_follow_each_other_are_one_and_others_are_not() -> None:
    call = part("tool-pay", toolCallId="c1", state="output-available", input={}, output=1)
    stored = [
        part("text", text="It goes on "),
        part("text", text=""),
        part("step-start"),
        part("text", text="after a crash."),
        call,
        part("text", text=""),
        part("text", text="Paid."),
        part("text", text=" Done."),
    ]
    given = recorded("", message=UIMessage("m1", "assistant", stored))
    for shown in (Shown(), LITTLE):
        message = describe_message(given, shown)
        assert message is not None
        texts = [each.text for each in message.parts if isinstance(each, TextPart)]
        assert texts == ["It goes on after a crash.", "Paid. Done."]


def test_very_many_texts_are_joined_in_time_that_grows_with_their_number() -> None:
    stored = [part("text", text="a" * 100)] * 300_000
    message = describe_message(recorded("", message=UIMessage("m1", "user", stored)))
    assert message is not None
    # With time that grows with the square, it takes an hour.
    (text,) = message.parts
    assert isinstance(text, TextPart) and len(text.text) == 30_000_000


def test_a_damaged_text_is_named_between_two_others() -> None:
    stored = [part("text", text="a"), part("text", text=5), part("text", text="b")]
    message = describe_message(recorded("", message=UIMessage("m1", "user", stored)))
    assert message is not None
    assert [type(each).__name__ for each in message.parts] == ["TextPart", "OtherPart", "TextPart"]


def test_a_system_message_can_be_left_out() -> None:
    assert describe_message(recorded("x", role="system"), LITTLE) is None
    assert describe_message(recorded("x", role="system")) is not None


def test_links_lead_to_http_and_files_may_be_data() -> None:
    found = described("/agents/chat/ann/attachments/0a")
    assert [each.url for each in found.parts if isinstance(each, SourcePart)][:2] == [
        "/agents/chat/ann/attachments/0a",
        None,
    ]
    urls = [each.url for each in found.parts if isinstance(each, FilePart)]
    assert urls[0] == "/agents/chat/ann/attachments/0a"
    assert urls[1] == "data:text/html,<script>alert(1)</script>"


def test_the_urls_of_files_are_resolved_by_the_caller() -> None:
    found = described("x", Shown(file_url=lambda part: f"https://files.example/{part['mediaType']}"))
    urls = [each.url for each in found.parts if isinstance(each, FilePart)]
    assert urls[0] == "https://files.example/x"
    bad = described("x", Shown(file_url=lambda part: "//evil.example"))
    assert {each.url for each in bad.parts if isinstance(each, FilePart)} == {None}


def test_damaged_and_unknown_parts_are_named() -> None:
    found = [each.kind for each in described("odd").parts if isinstance(each, OtherPart)]
    assert found == ["text", "odd"]
    assert part("text")["type"] == "text"


def test_a_url_below_a_shared_link_is_only_used_in_the_transcript_of_a_link() -> None:
    url = shared_file_url("t" * 32, "0" * 64)
    for is_link in (False, True):
        said = describe_message(
            recorded("", message=UIMessage("m", "user", [part("file", mediaType="image/png", url=url)])),
            Shown(address=not is_link),
        )
        assert said is not None
        (file,) = said.parts
        assert isinstance(file, FilePart) and file.url == (url if is_link else None)
        assert ("<img" in "".join(FORMATS["html"].write(head("x"), [said]))) == is_link


def test_file_names_fit_into_headers_and_file_systems() -> None:
    form = FORMATS["html"]
    assert filename_of("chat", "ann", form) == "chat-ann.html"
    assert filename_of("chat", '../../etc/"x"\r\ny', form) == "chat-..-..-etc-x-y.html"
    assert filename_of("chat", "😀" * 500, form) == "chat.html"
    assert len(filename_of("chat", "a" * 500, form)) <= 90


def test_two_times_that_are_shown_alike_are_one() -> None:
    assert shown_period(0, 59_000) == "1970-01-01 00:00 UTC"
    assert shown_period(0, 60_000) == "1970-01-01 00:00 UTC to 1970-01-01 00:01 UTC"
