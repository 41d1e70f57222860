"""Find the chunks that a reader lacks of a replayed message."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Final

from ...codec.aisdk import aisdk_decoder
from ...codec.decoder import Decoder, Delivery, DeliveryAction, StreamStatus
from ...codec.encode import encode_parts
from ...errors import FoldError
from ...messages.chunks import NEWER_TYPES
from ...messages.fold import MessageFold
from ...messages.message import Chunk, Part, UIMessage
from ...messages.metadata import merge_metadata
from ...messages.tool_calls import is_tool_part

__all__ = ["catch_up", "open_part_ids"]

# States of a tool call that look the same in a replay: replays leave answered approvals out.
_ASKED: Final = frozenset({"approval-requested", "approval-responded"})


def catch_up(held: MessageFold, replayed: MessageFold) -> list[Chunk] | None:
    """Return the chunks that `held` lacks of `replayed`, a later state of the same message; None if no chunks do.

    Open parts keep their ids of `held`. What replays leave out on purpose stays in `held`: answered approvals, and
    parts that clients before ai 7 reject.
    """
    chunks = _CatchUp(held, replayed).chunks()
    if chunks is None:
        return None
    reached = deepcopy(held)
    try:
        for chunk in chunks:
            reached.apply(chunk)
    except FoldError:
        return None
    return chunks if _agree(reached.message(), replayed.message()) else None


def open_part_ids(held: MessageFold, replayed: MessageFold) -> dict[tuple[str, str], str]:
    """Return the kinds and ids of the open parts of `replayed` → their ids in `held`, where these differ."""
    theirs, parts = replayed.open_parts, replayed.message().parts
    ours = held.open_parts
    return {
        (parts[position]["type"], theirs[position]): ours[at]
        for at, position in _pairs(held.message().parts, parts)
        if position in theirs and at in ours and ours[at] != theirs[position]
    }


class _CatchUp:
    def __init__(self, held: MessageFold, replayed: MessageFold) -> None:
        self._held, self._replayed = held.message(), replayed.message()
        self._held_ids, self._replayed_ids = held.open_parts, replayed.open_parts
        self._is_replaced = False
        self._decoder: Decoder[Chunk] = aisdk_decoder(on_replaced=self._note_replaced)
        for name in ("start", "start-step"):  # the message's own parts have them
            self._decode(Delivery(action=DeliveryAction.CREATE, serial=None, name=name, content={}, is_stream=False))

    def chunks(self) -> list[Chunk] | None:
        pairs = list(_pairs(self._held.parts, self._replayed.parts))
        if len([at for at, _ in pairs if at is not None]) < _must_match(self._held.parts, self._replayed.parts):
            return None
        chunks = _metadata_chunks(self._held.metadata, self._replayed.metadata)
        for at, position in pairs:
            chunks += self._part(at, position)
        return None if self._is_replaced else chunks

    def _part(self, at: int | None, position: int) -> list[Chunk]:
        replayed = self._replayed.parts[position]
        held = self._held.parts[at] if at is not None else None
        is_as_open = (at in self._held_ids) == (position in self._replayed_ids)
        if held is not None and is_as_open and _same(held, replayed):
            return []
        if held is not None and held["type"] != replayed["type"]:
            self._is_replaced = True
            return []
        if replayed["type"] in ("text", "reasoning"):
            return self._text(at, position)
        whole = _encoded(replayed)
        if held is None or not is_tool_part(replayed):
            return whole
        return self._call(held, replayed, whole)

    # -- text and reasoning ------------------------------------------------------------------------

    def _text(self, at: int | None, position: int) -> list[Chunk]:
        replayed, name = self._replayed.parts[position], self._name(at, position)
        is_open = position in self._replayed_ids or replayed.get("state") == "streaming"
        status = StreamStatus.STREAMING if is_open else StreamStatus.COMPLETE
        if at is None:
            return self._see(position, name, replayed, status)
        held = self._held.parts[at]
        if at not in self._held_ids:  # no chunk opens a closed part again
            self._is_replaced = True
            return []
        self._see(position, name, held, StreamStatus.STREAMING)
        chunks = self._see(position, name, replayed, status)
        metadata = replayed.get("providerMetadata")
        if metadata is not None and metadata != held.get("providerMetadata"):
            return _with_metadata(chunks, replayed["type"], name, metadata)
        return chunks

    def _see(self, position: int, name: str, part: Part, status: StreamStatus) -> list[Chunk]:
        shown = {"id": name}
        if part.get("providerMetadata") is not None:
            shown["providerMetadata"] = part["providerMetadata"]
        headers: dict[str, Any] = {"part": shown}
        if status is StreamStatus.COMPLETE and part.get("citations") is not None:
            headers["chunk"] = {"type": "text-end", "id": name, "citations": part["citations"]}
        return self._decode(
            Delivery(
                action=DeliveryAction.UPDATE,
                serial=str(position),
                name=part["type"],
                content=part.get("text") or "",
                status=status,
                headers=headers,
            )
        )

    def _name(self, at: int | None, position: int) -> str:
        """Return the id of a part for the reader: its own, else that of the stream, else one that is not used."""
        if at is not None and at in self._held_ids:
            return self._held_ids[at]
        name = self._replayed_ids.get(position) or self._replayed.parts[position].get("id")
        if name is not None:
            return str(name)
        taken = {*self._held_ids.values(), *self._replayed_ids.values()}
        made_up = f"part-{position}"
        while made_up in taken:
            made_up += "'"
        return made_up

    # -- tool calls --------------------------------------------------------------------------------

    def _call(self, held: Part, replayed: Part, whole: list[Chunk]) -> list[Chunk]:
        chunks: list[Chunk] = []
        for chunk in whole:
            match chunk["type"]:
                case "tool-input-start" if _announced(held) == _announced(replayed):
                    continue
                case "tool-input-delta" if "rawInput" in held:
                    chunks += self._more_input(held, replayed)
                case "tool-input-available" if held.get("state") != "input-streaming" or _ends_input(held, replayed):
                    continue
                case "tool-approval-request" if (held.get("approval") or {}).get("id") == chunk["approvalId"]:
                    continue
                case "tool-output-available" | "tool-output-error":
                    chunks.append(chunk | _learnt(held, replayed))
                case _:
                    chunks.append(chunk)
        return chunks

    def _more_input(self, held: Part, replayed: Part) -> list[Chunk]:
        serial = f"input-{replayed['toolCallId']}"
        headers = {"part": {"toolCallId": replayed["toolCallId"]}}
        sights = [
            Delivery(
                action=DeliveryAction.UPDATE,
                serial=serial,
                name="tool-input",
                content=part["rawInput"],
                headers=headers,
            )
            for part in (held, replayed)
        ]
        self._decode(sights[0])
        return self._decode(sights[1])

    # -- the decoder -------------------------------------------------------------------------------

    def _decode(self, delivery: Delivery) -> list[Chunk]:
        return [decoded.event for decoded in self._decoder.decode(delivery)]

    def _note_replaced(self, stream: object) -> None:
        self._is_replaced = True


def _pairs(held: list[Part], replayed: list[Part]) -> Iterator[tuple[int | None, int]]:
    """Yield, for every part of `replayed`, its position in `held`, if it has one, and in `replayed`."""
    at = 0
    for position, part in enumerate(replayed):
        while at < len(held) and held[at]["type"] in NEWER_TYPES and part["type"] != held[at]["type"]:
            at += 1
        yield (at if at < len(held) else None), position
        at += 1


def _must_match(held: list[Part], replayed: list[Part]) -> int:
    has_newer = any(part["type"] in NEWER_TYPES for part in replayed)
    return sum(1 for part in held if has_newer or part["type"] not in NEWER_TYPES)


def _encoded(part: Part) -> list[Chunk]:
    message = UIMessage("", "assistant", [part])
    return encode_parts(message, open_parts={}, is_replay=False)[1:]


def _announced(part: Part) -> tuple[Any, ...]:
    names = ("type", "toolName", "title", "toolMetadata", "providerExecuted", "callProviderMetadata")
    return tuple(part.get(name) for name in names)


def _ends_input(held: Part, replayed: Part) -> bool:
    """Tell whether the output's chunk also completes a half input: no input chunk fits if the step is over."""
    state, is_dynamic = replayed.get("state"), replayed["type"] == "dynamic-tool"
    if state != "output-available" and not (state == "output-error" and is_dynamic):
        return False
    return "input" in held and held["input"] == replayed["input"] and _announced(held) == _announced(replayed)


def _learnt(held: Part, replayed: Part) -> Chunk:
    """Return the fields of the call that its output may have brought."""
    names = ("toolMetadata", "providerExecuted")
    return {name: replayed[name] for name in names if name in replayed and held.get(name) != replayed[name]}


def _metadata_chunks(held: Any, replayed: Any) -> list[Chunk]:
    """Return the chunks that replace the metadata. Merging only adds to objects: one that shrank is emptied first."""
    if replayed is None or replayed == held:
        return []
    chunks: list[Chunk] = [{"type": "message-metadata", "messageMetadata": replayed}]
    if isinstance(held, dict) and isinstance(replayed, dict):
        merged = merge_metadata(held, replayed)
        if emptied := {name: None for name, value in replayed.items() if merged[name] != value}:
            chunks.insert(0, {"type": "message-metadata", "messageMetadata": emptied})
    return chunks


def _with_metadata(chunks: list[Chunk], family: str, name: str, metadata: Any) -> list[Chunk]:
    """Put the newest provider metadata on the last chunk of the part, or on an empty delta if there is none."""
    if not chunks:
        return [{"type": f"{family}-delta", "id": name, "delta": "", "providerMetadata": metadata}]
    return [*chunks[:-1], {**chunks[-1], "providerMetadata": metadata}]


def _agree(reached: UIMessage, replayed: UIMessage) -> bool:
    if replayed.metadata is not None and reached.metadata != replayed.metadata:
        return False
    pairs = list(_pairs(reached.parts, replayed.parts))
    if sum(1 for at, _ in pairs if at is not None) != len(replayed.parts):
        return False
    return all(_same(reached.parts[at], replayed.parts[position]) for at, position in pairs if at is not None)


def _same(reached: Part, replayed: Part) -> bool:
    """Tell whether a part has all that the replay has of it. It may know more of approvals (R-2)."""
    if reached == replayed:
        return True
    if not is_tool_part(replayed):
        return False
    kept = {name: value for name, value in reached.items() if name != "approval"}
    if reached.get("state") in _ASKED and replayed.get("state") == "input-available":
        kept["state"] = "input-available"
    return kept == {name: value for name, value in replayed.items() if name != "approval"}
