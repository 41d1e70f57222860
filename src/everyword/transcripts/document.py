"""The document that all forms of a transcript are made from. What a reader may not see is left out here, once.

A renderer gets nothing else than these structs, so it cannot show what was left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from ..core.record import RecordedMessage
from ..ids import Millis
from ..messages.message import Part, UIMessage
from ..messages.readable_parts import is_readable
from ..messages.tool_calls import is_tool_part, tool_name
from ..rows import ApprovalRecord, ConversationSummary, Participant
from .urls import link_target, shared_file

__all__ = ["EVERYTHING", "FORMAT", "VERSION", "ApprovalNote", "DataPart", "FilePart", "FileUrl", "OtherPart", "Person"]
__all__ += ["ReasoningPart", "Shown", "SourcePart", "SteeringPart", "TextPart", "ToolCallPart", "ToolDetail"]
__all__ += ["TranscriptHead", "TranscriptMessage", "TranscriptPart", "describe_message", "head_of", "kept_url"]
__all__ += ["is_large", "kept_value"]

FORMAT: Final = "everyword-transcript"
VERSION: Final = 1

ToolDetail = Literal["all", "names", "none"]
FileUrl = Callable[[Mapping[str, Any]], str | None]
"""Returns the URL under which readers find the file of a part; None to name the file without a link."""


LARGE: Final = 256 * 1024
"""Characters of texts and embedded files that are written in well under a millisecond."""


def kept_url(part: Mapping[str, Any]) -> str | None:
    """Return the URL that the part has."""
    url = part.get("url")
    return url if isinstance(url, str) else None


def kept_value(value: Any) -> Any:
    """Return the value as it is."""
    return value


@dataclass(frozen=True, slots=True)
class Shown:
    """Settings: what readers see besides the text."""

    reasoning: bool = True
    tools: ToolDetail = "all"
    """Calls with input, output, error and approval; only their names and states; or none."""
    data: bool = True
    """Data parts and other parts of the application's own."""
    people: bool = True
    """The owner, the participants, the authors of questions, and who approved a call."""
    address: bool = True
    """The kind and the name of the agent, and the ids of messages."""
    system: bool = True
    """System messages."""
    files: bool = True
    """Pictures and other files, with their names."""
    file_url: FileUrl = kept_url
    value: Callable[[Any], Any] = kept_value
    """Returns an input, an output or the data of a part as readers see it: it may have URLs of files."""


EVERYTHING: Final = Shown()


class _Struct(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    pass


class Person(_Struct, frozen=True):
    id: str
    name: str | None = None

    @property
    def label(self) -> str:
        return self.name or self.id


class ApprovalNote(_Struct, frozen=True):
    """The result of a request to approve a call."""

    status: Literal["waiting", "approved", "denied", "expired"]
    by: Person | None = None
    asked_at: Millis | None = None
    at: Millis | None = None
    reason: str | None = None
    summary: str | None = None


class TextPart(_Struct, frozen=True, tag_field="type", tag="text"):
    text: str


class SteeringPart(_Struct, frozen=True, tag_field="type", tag="steering"):
    """What a person said while the answer was being written."""

    text: str


class ReasoningPart(_Struct, frozen=True, tag_field="type", tag="reasoning"):
    text: str


class ToolCallPart(_Struct, frozen=True, tag_field="type", tag="tool-call"):
    tool: str
    status: Literal["running", "waiting", "approved", "done", "failed", "denied"]
    input: Any | UnsetType = UNSET
    output: Any | UnsetType = UNSET
    error: str | None = None
    approval: ApprovalNote | None = None


class DataPart(_Struct, frozen=True, tag_field="type", tag="data"):
    name: str
    data: Any = None


class SourcePart(_Struct, frozen=True, tag_field="type", tag="source"):
    title: str
    url: str | None = None


class FilePart(_Struct, frozen=True, tag_field="type", tag="file"):
    media_type: str
    name: str | None = None
    url: str | None = None
    left_out: str | None = None
    """Why the content is not embedded, if it was to be."""


class OtherPart(_Struct, frozen=True, tag_field="type", tag="other"):
    """A part that this version does not know, or that is damaged."""

    kind: str


TranscriptPart = TextPart | SteeringPart | ReasoningPart | ToolCallPart | DataPart | SourcePart | FilePart | OtherPart


class TranscriptMessage(_Struct, frozen=True):
    role: str
    at: Millis
    status: Literal["done", "running", "failed", "stopped"]
    """`running` while a turn writes the message, or will; otherwise how its last turn ended."""
    parts: list[TranscriptPart]
    id: str | None = None
    author: Person | None = None
    error: str | None = None
    """The text that clients were shown."""


class TranscriptHead(_Struct, frozen=True):
    """The facts about the whole conversation. Times are milliseconds since 1970."""

    title: str
    created_at: Millis
    updated_at: Millis
    written_at: Millis
    """When the transcript was made."""
    kind: str | None = None
    name: str | None = None
    owner: str | None = None
    participants: list[Person] = []


def head_of(
    summary: ConversationSummary, kind: str, name: str, now: Millis, shown: Shown = EVERYTHING
) -> TranscriptHead:
    """Return the head of a conversation's transcript."""
    return TranscriptHead(
        title=summary.title or summary.question or "Conversation",
        created_at=summary.created_at,
        updated_at=summary.updated_at,
        written_at=now,
        kind=kind if shown.address else None,
        name=name if shown.address else None,
        owner=summary.owner if shown.people else None,
        participants=[_person(who) for who in summary.participants] if shown.people else [],
    )


def describe_message(recorded: RecordedMessage, shown: Shown = EVERYTHING) -> TranscriptMessage | None:
    """Return a message as readers are shown it; None for one that they are not shown."""
    if recorded.role == "system" and not shown.system:
        return None
    message, ending = recorded.message, recorded.ending
    parts: list[TranscriptPart] = [OtherPart("unreadable message")]
    if not recorded.is_unreadable:
        parts = _parts(recorded, shown)
    outcome = ending.outcome if ending is not None else ""
    author = message.author if message is not None and shown.people else None
    return TranscriptMessage(
        role=recorded.role,
        at=recorded.at,
        status="running" if recorded.is_open else _ENDINGS.get(outcome, "done"),
        parts=parts,
        id=recorded.id if shown.address else None,
        author=Person(author.id, author.name) if author is not None else None,
        error=ending.error if ending is not None else None,
    )


def is_large(message: TranscriptMessage) -> bool:
    """Return whether writing a message takes so long that a thread does it, so that other agents do not wait."""
    return sum(map(_length, message.parts)) > LARGE


def _length(part: TranscriptPart) -> int:
    match part:
        case TextPart() | SteeringPart() | ReasoningPart():
            return len(part.text)
        case FilePart():
            return len(part.url or "")
        case _:
            return 0


_ENDINGS: Final[dict[str, Literal["failed", "stopped"]]] = {"error": "failed", "aborted": "stopped"}


def _parts(recorded: RecordedMessage, shown: Shown) -> list[TranscriptPart]:
    """Return the parts that are shown. An answer that went on after a crash has two texts: they are shown as one."""
    message: UIMessage | None = recorded.message
    found: list[TranscriptPart] = []
    texts: list[str] = []  # of parts that follow each other; joined at once, because there may be very many
    for part in message.parts if message is not None else []:
        if part["type"] == "step-start":
            continue
        described = _part(part, recorded, shown)
        if isinstance(described, TextPart):
            texts.append(described.text)
        elif described is not None or part["type"] != "text":  # an empty text is not shown, and separates nothing
            if texts:
                found.append(TextPart("".join(texts)))
                texts.clear()
            if described is not None:
                found.append(described)
    return [*found, TextPart("".join(texts))] if texts else found


def _part(part: Part, recorded: RecordedMessage, shown: Shown) -> TranscriptPart | None:
    kind: str = part["type"]
    if not is_readable(part):
        return OtherPart(kind[:80]) if shown.data else None
    if is_tool_part(part):
        return _tool_call(part, recorded, shown) if shown.tools != "none" else None
    match kind:
        case "text":
            return TextPart(part["text"]) if part["text"] else None
        case "reasoning":
            return ReasoningPart(part["text"]) if shown.reasoning and part["text"] else None
        case "file":
            return _file(part, shown) if shown.files else None
        case "reasoning-file":
            return _file(part, shown) if shown.files and shown.reasoning else None
        case "source-url":
            return _source(part, shown)
        case "source-document":
            return SourcePart(part["title"])
        case "steering-message":
            texts = [each["text"] for each in part["parts"] if each["type"] == "text"]
            return SteeringPart("\n".join(texts))
    if not shown.data:
        return None
    if not kind.startswith("data-"):
        return OtherPart(kind[:80])
    return DataPart(kind.removeprefix("data-"), shown.value(part.get("data")))


def _source(part: Part, shown: Shown) -> SourcePart:
    title, url = _text(part.get("title")), part["url"]
    if shown.value(url) != url:  # of an attachment: its path names the agent
        return SourcePart(title or "Source")
    return SourcePart(title or url, link_target(url))


def _file(part: Part, shown: Shown) -> FilePart:
    url = shown.file_url(part)
    is_shared = shared_file(url) is not None and not shown.address  # a part of a client may have such a URL, too
    is_usable = is_shared or link_target(url) is not None or (url is not None and url.startswith("data:"))
    return FilePart(part["mediaType"], _text(part.get("filename")), url if is_usable else None)


_STATES: Final[dict[str, Literal["running", "waiting", "approved", "done", "failed", "denied"]]] = {
    "approval-requested": "waiting",
    "approval-responded": "approved",
    "output-available": "done",
    "output-error": "failed",
    "output-denied": "denied",
}


def _tool_call(part: Part, recorded: RecordedMessage, shown: Shown) -> ToolCallPart:
    status = _STATES.get(part.get("state", ""), "running")
    if shown.tools == "names":
        return ToolCallPart(tool_name(part), status)
    return ToolCallPart(
        tool_name(part),
        status,
        input=_value(part.get("input", part.get("rawInput", UNSET)), shown),
        output=_value(part.get("output", UNSET), shown),
        error=_text(part.get("errorText")),
        approval=_approval(part, recorded.approvals, shown),
    )


def _value(value: Any, shown: Shown) -> Any:
    return shown.value(value) if value is not UNSET else UNSET


def _approval(part: Part, known: Mapping[Any, ApprovalRecord], shown: Shown) -> ApprovalNote | None:
    record, approval = known.get(part["toolCallId"]), part.get("approval")
    if record is not None and record.status != "announced":
        by = record.settled_by
        return ApprovalNote(
            record.status,
            by=_person(by) if by is not None and shown.people else None,
            asked_at=record.asked_at,
            at=record.settled_at,
            reason=record.reason,
            summary=record.summary,
        )
    if approval is None:
        return None
    if "approved" not in approval:
        return ApprovalNote("waiting")
    return ApprovalNote("approved" if approval["approved"] else "denied", reason=_text(approval.get("reason")))


def _person(who: Participant) -> Person:
    return Person(who.id, who.name)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
