"""Turn what a handler yields into chunks that every client can fold (R-24)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, get_args

from ..errors import BadChunk
from .chunk_fields import usable_fields
from .chunks import CHUNK_TYPES, NEWER_TYPES, FinishReason, NewerFinishReason, as_chunk
from .json_values import encode_json, scrub_text
from .message import Chunk, Part, UIMessage
from .metadata import merge_metadata
from .tool_call_tracker import ToolCallTracker

__all__ = ["Normaliser"]

_MOST_PROBLEMS: Final = 100
_PLAIN: Final = ("text", None)  # key of the part for plain text; a handler's id is never None
_NAMES_TOOL: Final = frozenset({"tool-input-start", "tool-input-available", "tool-input-error"})
_FINISH_REASONS: Final = frozenset(get_args(FinishReason))
_NEWER_FINISH_REASONS: Final = _FINISH_REASONS | frozenset(get_args(NewerFinishReason))


class Normaliser:
    """Turns the items that a handler yields into a sequence of chunks that all clients fold alike.

    Guarantees: `start` comes first and once; every step is opened before its content, and closed; every part is opened
    before its deltas and closed before its step ends; outputs belong to announced calls only; `finish` comes last and
    once. Each repair and each dropped chunk adds a sentence to `problems`.

    `base` is the part of this message that is already in the log, from an earlier attempt or turn: then there is no
    second `start`, and new parts get ids that were not used before. `first_attempt` is False if the last step in the
    log was cut off: the first content continues that step.
    """

    def __init__(
        self,
        message_id: str,
        *,
        newer: bool = False,
        base: UIMessage | None = None,
        first_attempt: bool = True,
    ) -> None:
        parts = base.parts if base is not None else []
        self.problems: list[str] = []
        self._message_id = message_id
        self._newer = newer
        self._is_started = base is not None
        self._in_step = not first_attempt and any(part["type"] == "step-start" for part in parts)
        self._step_is_bare = False  # True from a start-step to its first content
        self._step = 0
        self._parts = _PartIds(parts)
        self._calls = ToolCallTracker(parts, last_step_is_open=self._in_step)
        self._is_fed = False
        self._finish: Chunk = {"type": "finish"}
        self._stem = ("", b"")  # id of the plain text part, and the first bytes of each encoded delta for it

    def feed(self, item: Any) -> list[Chunk]:
        """Return the chunks to log for the next chunk of the handler.

        `error` and `abort` are returned unchanged: the runner handles them. `finish` is held back until `finish()` is
        called, so that nothing follows it.
        """
        try:
            chunk = as_chunk(item)
            kind = chunk.get("type")
            if kind in ("error", "abort"):
                return [chunk]
            out = self._take(kind, chunk)
        except BadChunk as error:
            return self._report(str(error))
        self._is_fed = self._is_fed or bool(out)
        return out

    def text(self, piece: str) -> list[Chunk]:
        """Return the chunks to log for plain text. Consecutive pieces of text make one text part."""
        if not piece:
            return []
        self._is_fed = True
        out: list[Chunk] = []
        if _PLAIN not in self._parts.open:
            out = self._open_part("text", None, {})
        out.append({"type": "text-delta", "id": self._parts.open[_PLAIN], "delta": scrub_text(piece)})
        return out

    def encode_text(self, piece: str) -> bytes | None:
        """Return the encoded delta if the plain text part is open; None if `text` must be called instead.

        A faster `text` for nearly every piece: it runs once per token.
        """
        part = self._parts.open.get(_PLAIN)
        if part is None or not piece:
            return None
        if part != self._stem[0]:
            self._stem = (part, b'{"type":"text-delta","id":%b,"delta":' % encode_json(part))
        return b"%b%b}" % (self._stem[1], encode_json(piece))

    def finish(self) -> list[Chunk]:
        """Return the chunks that close the parts, the step and the message; none if the handler yielded nothing."""
        if not self._is_fed:
            return []
        self._is_fed = False
        return [*self._begin(), *self._close_step(), self._finish]

    def note_answer(self, call_id: str) -> None:
        """Record that a call was answered from outside the stream: the first answer wins."""
        self._calls.close(call_id)

    # -- message and steps -------------------------------------------------------------------------

    def _take(self, kind: Any, chunk: Chunk) -> list[Chunk]:
        if not isinstance(kind, str):
            raise BadChunk("unable to send a chunk; it has no type")
        take = _TAKES.get(kind)
        if take is not None and (self._newer or kind not in NEWER_TYPES):
            return take(self, chunk)
        if kind.startswith("data-"):
            return self._discrete(chunk, is_content=False)
        if kind in CHUNK_TYPES:
            raise BadChunk(f"unable to send {kind}; clients before ai 7 reject it")
        raise BadChunk(f"unable to send a chunk of type {kind!r}; no client knows it")

    def _begin(self) -> list[Chunk]:
        if self._is_started:
            return []
        self._is_started = True
        return [{"type": "start", "messageId": self._message_id}]

    def _content(self) -> list[Chunk]:
        """Return the chunks that must come before content: the start, the step, the end of plain text."""
        out = self._begin()
        if not self._in_step:
            out += self._open_step()
        self._step_is_bare = False
        return [*out, *self._close_plain()]

    def _open_step(self) -> list[Chunk]:
        self._in_step = self._step_is_bare = True
        self._step += 1
        self._parts.start_step()
        return [{"type": "start-step"}]

    def _close_step(self) -> list[Chunk]:
        out = self._parts.close_all()
        if self._in_step:
            self._in_step = False
            out.append({"type": "finish-step"})
        return out

    def _take_start(self, chunk: Chunk) -> list[Chunk]:
        metadata = self._metadata(chunk)
        if self._is_started:
            return [] if metadata is None else [{"type": "message-metadata", "messageMetadata": metadata}]
        start = self._begin()
        if metadata is not None:
            start[0]["messageMetadata"] = metadata
        return start

    def _take_start_step(self, chunk: Chunk) -> list[Chunk]:
        if self._in_step and self._step_is_bare:
            return self._report("dropped start-step; the step has no content yet")
        out = self._begin()
        if self._in_step:
            out += self._close_step()
        return [*out, *self._open_step()]

    def _take_finish_step(self, chunk: Chunk) -> list[Chunk]:
        return self._close_step() if self._in_step else self._report("dropped finish-step; no step is open")

    def _take_reset_step(self, chunk: Chunk) -> list[Chunk]:
        if not self._in_step:
            return self._report("dropped reset-step; no step is open")
        self._parts.open.clear()
        self._calls.forget_step(self._step)
        return [{"type": "reset-step"}]

    def _take_finish(self, chunk: Chunk) -> list[Chunk]:
        self._is_fed = True
        metadata, reason = self._metadata(chunk), chunk.get("finishReason")
        if metadata is not None:
            self._finish["messageMetadata"] = merge_metadata(self._finish.get("messageMetadata"), metadata)
        if reason is not None:
            self._finish["finishReason"] = self._reason(reason)
        return [*self._begin(), *self._close_step()]

    def _reason(self, reason: Any) -> str:
        spelled = reason.replace("_", "-") if isinstance(reason, str) else "other"
        if spelled in (_NEWER_FINISH_REASONS if self._newer else _FINISH_REASONS):
            return str(spelled)
        self._report(f"sent finish reason {reason!r} as 'other'; clients do not know it")
        return "other"

    def _take_metadata(self, chunk: Chunk) -> list[Chunk]:
        metadata = self._metadata(chunk)
        if metadata is None:
            return []
        return [*self._begin(), {"type": "message-metadata", "messageMetadata": metadata}]

    def _metadata(self, chunk: Chunk) -> Any:
        given = {"type": chunk["type"], "messageMetadata": chunk.get("messageMetadata")}
        metadata = self._usable(given).get("messageMetadata")
        if metadata is not None and not isinstance(metadata, dict):
            self._report("dropped message metadata; it is not an object")
            return None
        return metadata

    # -- text and reasoning ------------------------------------------------------------------------

    def _take_open(self, chunk: Chunk) -> list[Chunk]:
        family, name = _family(chunk), _part_id(chunk)
        return self._open_part(family, name, self._usable({**chunk, "id": name}))

    def _open_part(self, family: str, name: str | None, chunk: Chunk) -> list[Chunk]:
        out, key = self._content(), (family, name)
        if key in self._parts.open:
            self._report(f"closed part {name!r}; {family}-start came while it was open")
            out.append({"type": f"{family}-end", "id": self._parts.open.pop(key)})
        ours = self._parts.open[key] = self._parts.unused(family, name or family)
        out.append({**chunk, "type": f"{family}-start", "id": ours})
        return out

    def _take_delta(self, chunk: Chunk) -> list[Chunk]:
        family, name, delta = _family(chunk), _part_id(chunk), chunk.get("delta")
        if delta.__class__ is not str:
            raise BadChunk(f"unable to use a {family}-delta chunk; its delta is not a string")
        ours, out = self._parts.open.get((family, name)), []
        if ours is None:
            self._report(f"opened part {name!r}; {family}-delta came before {family}-start")
            out = self._open_part(family, name, {})
            ours = self._parts.open[family, name]
        grown: Chunk = {"type": chunk["type"], "id": ours, "delta": scrub_text(delta)}
        if len(chunk) > 3:
            grown = self._usable({**chunk, "id": ours})
        out.append(grown)
        return out

    def _take_end(self, chunk: Chunk) -> list[Chunk]:
        key = (_family(chunk), _part_id(chunk))
        if key not in self._parts.open:
            return self._report(f"dropped {chunk['type']}; no such part is open")
        return [self._usable({**chunk, "id": self._parts.open.pop(key)})]

    def _close_plain(self) -> list[Chunk]:
        ours = self._parts.open.pop(_PLAIN, None)
        return [] if ours is None else [{"type": "text-end", "id": ours}]

    # -- tool calls --------------------------------------------------------------------------------

    def _take_call(self, chunk: Chunk) -> list[Chunk]:
        if chunk["type"] in _NAMES_TOOL and chunk.get("toolName") is None:
            chunk = {**chunk, "toolName": self._calls.name_of(chunk.get("toolCallId"))}
        if chunk["type"] == "tool-approval-request" and chunk.get("approvalId") is None:
            chunk = {**chunk, "approvalId": chunk.get("toolCallId")}
        if chunk["type"].endswith("-error") and not isinstance(chunk.get("errorText"), str):
            chunk = {**chunk, "errorText": "The tool failed without saying why."}
        usable = self._usable(chunk)
        step = self._step if self._in_step else self._step + 1
        out = self._track_call(usable, step)
        if not out:
            call = usable.get("toolCallId") or usable.get("approvalId")
            return self._report(f"dropped {chunk['type']}; call {call!r} does not take it")
        is_content = out[0]["type"].startswith("tool-input-")
        return [*(self._content() if is_content else self._begin()), *out]

    def _take_input_delta(self, chunk: Chunk) -> list[Chunk]:
        call_id, delta = chunk.get("toolCallId"), chunk.get("inputTextDelta")
        if len(chunk) == 3 and self._in_step and call_id.__class__ is str and delta.__class__ is str:
            grown: Chunk = {"type": "tool-input-delta", "toolCallId": call_id, "inputTextDelta": scrub_text(delta)}
            if self._calls.grow_input(grown, self._step):
                return [*self._close_plain(), grown]
        return self._take_call(chunk)

    def _track_call(self, chunk: Chunk, step: int) -> list[Chunk]:
        calls = self._calls
        match chunk["type"]:
            case "tool-input-start":
                return calls.start_input(chunk, step)
            case "tool-input-delta":
                return calls.grow_input(chunk, step)
            case "tool-input-available":
                return calls.end_input(chunk, step)
            case "tool-input-error":
                return calls.fail_input(chunk, step)
            case "tool-approval-request":
                return calls.request_approval(chunk)
            case "tool-approval-response":
                return calls.respond_approval(chunk)
            case "tool-output-denied":
                return calls.deny(chunk)
            case _:
                return calls.output(chunk)

    # -- everything else ---------------------------------------------------------------------------

    def _take_discrete(self, chunk: Chunk) -> list[Chunk]:
        return self._discrete(chunk, is_content=chunk["type"] != "steering-message")

    def _discrete(self, chunk: Chunk, *, is_content: bool) -> list[Chunk]:
        if isinstance(chunk.get("id"), int):
            chunk = {**chunk, "id": str(chunk["id"])}
        if chunk["type"] == "source-document" and chunk.get("title") is None:
            chunk = {**chunk, "title": chunk.get("filename") or ""}
        usable = self._usable(chunk)
        if is_content:
            return [*self._content(), usable]
        if usable.get("transient"):
            return [*self._begin(), usable]
        self._step_is_bare = False
        return [*self._begin(), *self._close_plain(), usable]

    def _usable(self, chunk: Chunk) -> Chunk:
        usable = usable_fields(chunk, self.problems, newer=self._newer)
        del self.problems[_MOST_PROBLEMS:]
        return usable

    def _report(self, problem: str) -> list[Chunk]:
        """Add a problem; return no chunks."""
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(problem)
        return []


class _PartIds:
    """Ids of text and reasoning parts: the handler's ids, changed where two parts of a step would share one."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.open: dict[tuple[str, str | None], str] = {}
        """(family, the handler's id) → our id, of every open part. The family is `text` or `reasoning`."""
        self._suffix = f"~{len(parts)}" if parts else ""
        self._used: set[tuple[str, str]] = set()  # (family, our id) in the current step

    def start_step(self) -> None:
        """Allow the ids of earlier steps again: clients forget the ids of parts at the end of a step."""
        self._used.clear()

    def unused(self, family: str, name: str) -> str:
        """Return an id that is derived from `name` and not used in this step, and reserve it."""
        name = name if name.endswith(self._suffix) else name + self._suffix
        ours, count = name, 1
        while (family, ours) in self._used:
            count += 1
            ours = f"{name}-{count}"
        self._used.add((family, ours))
        return ours

    def close_all(self) -> list[Chunk]:
        """Return the end chunk of every open part; none is open afterwards."""
        ends: list[Chunk] = [{"type": f"{family}-end", "id": ours} for (family, _), ours in self.open.items()]
        self.open.clear()
        return ends


def _family(chunk: Chunk) -> str:
    return "text" if chunk["type"].startswith("text") else "reasoning"


def _part_id(chunk: Chunk) -> str:
    name = chunk.get("id")
    if name.__class__ is str:
        return scrub_text(name)
    return "" if name is None else str(name)


_TAKES: Final[dict[str, Callable[[Normaliser, Chunk], list[Chunk]]]] = {
    "text-delta": Normaliser._take_delta,
    "text-start": Normaliser._take_open,
    "text-end": Normaliser._take_end,
    "reasoning-delta": Normaliser._take_delta,
    "reasoning-start": Normaliser._take_open,
    "reasoning-end": Normaliser._take_end,
    "tool-input-delta": Normaliser._take_input_delta,
    "start": Normaliser._take_start,
    "start-step": Normaliser._take_start_step,
    "finish-step": Normaliser._take_finish_step,
    "reset-step": Normaliser._take_reset_step,
    "finish": Normaliser._take_finish,
    "message-metadata": Normaliser._take_metadata,
    **dict.fromkeys(("tool-input-start", "tool-input-available", "tool-input-error"), Normaliser._take_call),
    **dict.fromkeys(("tool-approval-request", "tool-approval-response"), Normaliser._take_call),
    **dict.fromkeys(("tool-output-available", "tool-output-error", "tool-output-denied"), Normaliser._take_call),
    **dict.fromkeys(("file", "source-url", "source-document"), Normaliser._take_discrete),
    **dict.fromkeys(("reasoning-file", "custom", "steering-message"), Normaliser._take_discrete),
}
