"""Catching up: the few chunks that lead from the message a reader has to the message as it is told anew."""

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

__all__ = ["catch_up", "open_names"]

# States of a call that a replay cannot tell from its having been asked for: answered approvals are left out.
_ASKED: Final = frozenset({"approval-requested", "approval-responded"})


def catch_up(held: MessageFold, told: MessageFold) -> list[Chunk] | None:
    """Return what `held` lacks of `told`, a later state of the same message; None when chunks cannot say it.

    Parts keep the ids that `held` has them open under. What a replay leaves out on purpose, `held` keeps:
    answered approvals, and parts that clients before ai 7 reject.
    """
    chunks = _CatchUp(held, told).chunks()
    if chunks is None:
        return None
    reached = deepcopy(held)
    try:
        for chunk in chunks:
            reached.apply(chunk)
    except FoldError:
        return None
    return chunks if _agree(reached.message(), told.message()) else None


def open_names(held: MessageFold, told: MessageFold) -> dict[tuple[str, str], str]:
    """Return the kind and id under which `told` has a part open → the id of `held` for it, where that differs."""
    theirs, parts = told.open_parts, told.message().parts
    ours = held.open_parts
    return {
        (parts[position]["type"], theirs[position]): ours[at]
        for at, position in _pairs(held.message().parts, parts)
        if position in theirs and at in ours and ours[at] != theirs[position]
    }


class _CatchUp:
    def __init__(self, held: MessageFold, told: MessageFold) -> None:
        self._held, self._told = held.message(), told.message()
        self._held_names, self._told_names = held.open_parts, told.open_parts
        self._is_replaced = False
        self._decoder: Decoder[Chunk] = aisdk_decoder(on_replaced=self._note_replaced)
        for name in ("start", "start-step"):  # said in the message's own parts
            self._decode(Delivery(action=DeliveryAction.CREATE, serial=None, name=name, content={}, is_stream=False))

    def chunks(self) -> list[Chunk] | None:
        pairs = list(_pairs(self._held.parts, self._told.parts))
        if len([at for at, _ in pairs if at is not None]) < _must_match(self._held.parts, self._told.parts):
            return None
        chunks = _metadata_chunks(self._held.metadata, self._told.metadata)
        for at, position in pairs:
            chunks += self._part(at, position)
        return None if self._is_replaced else chunks

    def _part(self, at: int | None, position: int) -> list[Chunk]:
        told = self._told.parts[position]
        held = self._held.parts[at] if at is not None else None
        is_as_open = (at in self._held_names) == (position in self._told_names)
        if held is not None and is_as_open and _same(held, told):
            return []
        if held is not None and held["type"] != told["type"]:
            self._is_replaced = True
            return []
        if told["type"] in ("text", "reasoning"):
            return self._text(at, position)
        whole = _encoded(told)
        if held is None or not is_tool_part(told):
            return whole
        return self._call(held, told, whole)

    # -- text and reasoning ------------------------------------------------------------------------

    def _text(self, at: int | None, position: int) -> list[Chunk]:
        told, name = self._told.parts[position], self._name(at, position)
        is_open = position in self._told_names or told.get("state") == "streaming"
        status = StreamStatus.STREAMING if is_open else StreamStatus.COMPLETE
        if at is None:
            return self._see(position, name, told, status)
        held = self._held.parts[at]
        if at not in self._held_names:  # what is closed cannot be opened again
            self._is_replaced = True
            return []
        self._see(position, name, held, StreamStatus.STREAMING)
        chunks = self._see(position, name, told, status)
        metadata = told.get("providerMetadata")
        if metadata is not None and metadata != held.get("providerMetadata"):
            return _with_metadata(chunks, told["type"], name, metadata)
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
        """Return the id the reader knows an open part by; else the stream's own; else one that nobody uses."""
        if at is not None and at in self._held_names:
            return self._held_names[at]
        name = self._told_names.get(position) or self._told.parts[position].get("id")
        if name is not None:
            return str(name)
        taken = {*self._held_names.values(), *self._told_names.values()}
        made_up = f"part-{position}"
        while made_up in taken:
            made_up += "'"
        return made_up

    # -- tool calls --------------------------------------------------------------------------------

    def _call(self, held: Part, told: Part, whole: list[Chunk]) -> list[Chunk]:
        chunks: list[Chunk] = []
        for chunk in whole:
            match chunk["type"]:
                case "tool-input-start" if _announced(held) == _announced(told):
                    continue
                case "tool-input-delta" if "rawInput" in held:
                    chunks += self._more_input(held, told)
                case "tool-input-available" if held.get("state") != "input-streaming" or _ends_input(held, told):
                    continue
                case "tool-approval-request" if (held.get("approval") or {}).get("id") == chunk["approvalId"]:
                    continue
                case "tool-output-available" | "tool-output-error":
                    chunks.append(chunk | _learnt(held, told))
                case _:
                    chunks.append(chunk)
        return chunks

    def _more_input(self, held: Part, told: Part) -> list[Chunk]:
        serial = f"input-{told['toolCallId']}"
        headers = {"part": {"toolCallId": told["toolCallId"]}}
        sights = [
            Delivery(
                action=DeliveryAction.UPDATE,
                serial=serial,
                name="tool-input",
                content=part["rawInput"],
                headers=headers,
            )
            for part in (held, told)
        ]
        self._decode(sights[0])
        return self._decode(sights[1])

    # -- the decoder -------------------------------------------------------------------------------

    def _decode(self, delivery: Delivery) -> list[Chunk]:
        return [decoded.event for decoded in self._decoder.decode(delivery)]

    def _note_replaced(self, stream: object) -> None:
        self._is_replaced = True


def _pairs(held: list[Part], told: list[Part]) -> Iterator[tuple[int | None, int]]:
    """Yield the place in `held`, if it has one, and in `told` of every part of `told`."""
    at = 0
    for position, part in enumerate(told):
        while at < len(held) and held[at]["type"] in NEWER_TYPES and part["type"] != held[at]["type"]:
            at += 1
        yield (at if at < len(held) else None), position
        at += 1


def _must_match(held: list[Part], told: list[Part]) -> int:
    has_newer = any(part["type"] in NEWER_TYPES for part in told)
    return sum(1 for part in held if has_newer or part["type"] not in NEWER_TYPES)


def _encoded(part: Part) -> list[Chunk]:
    message = UIMessage("", "assistant", [part])
    return encode_parts(message, open_parts={}, is_replay=False)[1:]


def _announced(part: Part) -> tuple[Any, ...]:
    names = ("type", "toolName", "title", "toolMetadata", "providerExecuted", "callProviderMetadata")
    return tuple(part.get(name) for name in names)


def _ends_input(held: Part, told: Part) -> bool:
    """Tell whether the output alone makes of a half input what it became: it may be of a step that is over."""
    state, is_dynamic = told.get("state"), told["type"] == "dynamic-tool"
    says_it = state == "output-available" or (state == "output-error" and is_dynamic)
    return says_it and "input" in held and held["input"] == told["input"] and _announced(held) == _announced(told)


def _learnt(held: Part, told: Part) -> Chunk:
    """Return what a call's output may have said of the call itself."""
    names = ("toolMetadata", "providerExecuted")
    return {name: told[name] for name in names if name in told and held.get(name) != told[name]}


def _metadata_chunks(held: Any, told: Any) -> list[Chunk]:
    """Return what makes the reader's metadata the told one. Objects only grow: one that shrank is emptied first."""
    if told is None or told == held:
        return []
    chunks: list[Chunk] = [{"type": "message-metadata", "messageMetadata": told}]
    if isinstance(held, dict) and isinstance(told, dict):
        merged = merge_metadata(held, told)
        if emptied := {name: None for name, value in told.items() if merged[name] != value}:
            chunks.insert(0, {"type": "message-metadata", "messageMetadata": emptied})
    return chunks


def _with_metadata(chunks: list[Chunk], family: str, name: str, metadata: Any) -> list[Chunk]:
    """Put the newest provider metadata on the last chunk of the part; it may be all there is to say."""
    if not chunks:
        return [{"type": f"{family}-delta", "id": name, "delta": "", "providerMetadata": metadata}]
    return [*chunks[:-1], {**chunks[-1], "providerMetadata": metadata}]


def _agree(reached: UIMessage, told: UIMessage) -> bool:
    if told.metadata is not None and reached.metadata != told.metadata:
        return False
    pairs = list(_pairs(reached.parts, told.parts))
    if sum(1 for at, _ in pairs if at is not None) != len(told.parts):
        return False
    return all(_same(reached.parts[at], told.parts[position]) for at, position in pairs if at is not None)


def _same(reached: Part, told: Part) -> bool:
    """Tell whether a part says what a replay says of it, and maybe more: of approvals, replays say little (R-2)."""
    if reached == told:
        return True
    if not is_tool_part(told):
        return False
    kept = {name: value for name, value in reached.items() if name != "approval"}
    if reached.get("state") in _ASKED and told.get("state") == "input-available":
        kept["state"] = "input-available"
    return kept == {name: value for name, value in told.items() if name != "approval"}
