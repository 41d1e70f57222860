"""Write one model response as chunks: parts are opened before their deltas and closed before the step ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ..messages.message import Chunk

__all__ = ["StepWriter", "read_input"]

_UNREADABLE: Final = object()


def read_input(text: str) -> Any:
    """Return the arguments of a tool call; {} for empty text. Raises ValueError if they are not a JSON object."""
    if not text.strip():
        return {}
    value = msgspec.json.decode(text)
    if not isinstance(value, dict):
        raise ValueError("the arguments are not an object")
    return value


class StepWriter:
    """Collects the chunks of one model response; `take()` returns them.

    The caller identifies a part by a key. The ids of parts are `<name>-<n>`, where `name` is the provider's id of the
    response and n counts its parts, so that the same recording always gives the same chunks.
    """

    def __init__(self, name: str = "response") -> None:
        self.name = name
        self.inputs: dict[str, list[str]] = {}  # call id → the deltas of its input, until it is complete
        self._is_open = False
        self._out: list[Chunk] = []
        self._parts: dict[Any, tuple[str, str]] = {}  # key → (family, id)
        self._count = 0
        self._names: dict[str, str] = {}
        self._executed: set[str] = set()
        self._sources: set[str] = set()

    def take(self) -> list[Chunk]:
        """Return the chunks since the last call."""
        out, self._out = self._out, []
        return out

    def begin(self) -> None:
        """Open the step, if it is not open."""
        if not self._is_open:
            self._is_open = True
            self._out.append({"type": "start-step"})

    # -- text and reasoning ------------------------------------------------------------------------

    def open(self, family: str, key: Any, metadata: Mapping[str, Any] | None = None) -> None:
        """Open a part, unless one with this key is open."""
        if key in self._parts:
            return
        self.begin()
        name = self._next_id()
        self._parts[key] = (family, name)
        self._out.append(_with({"type": f"{family}-start", "id": name}, metadata))

    def grow(self, family: str, key: Any, delta: str | None, metadata: Mapping[str, Any] | None = None) -> None:
        """Add a delta to a part; open the part first if needed. An empty delta does nothing."""
        if not delta and metadata is None:
            return
        self.open(family, key)
        family, name = self._parts[key]
        self._out.append(_with({"type": f"{family}-delta", "id": name, "delta": delta or ""}, metadata))

    def close(self, key: Any, metadata: Mapping[str, Any] | None = None) -> None:
        """Close a part, if it is open."""
        part = self._parts.pop(key, None)
        if part is not None:
            self._out.append(_with({"type": f"{part[0]}-end", "id": part[1]}, metadata))

    def close_others(self, key: Any = None) -> None:
        """Close every open part except the one with this key."""
        for each in [each for each in self._parts if each != key]:
            self.close(each)

    def is_growing(self, key: Any) -> bool:
        """Return True if a part with this key is open."""
        return key in self._parts

    # -- calls -------------------------------------------------------------------------------------

    def start_call(
        self, call: str, tool: str, *, is_provider_executed: bool = False, metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Start a tool call. Its input follows as deltas, or at the end."""
        if call in self._names:
            return
        self.begin()
        self._names[call] = tool
        self.inputs[call] = []
        if is_provider_executed:
            self._executed.add(call)
        self._out.append(_with(self._call("tool-input-start", call, named=True), metadata))

    def grow_call(self, call: str, delta: str | None) -> None:
        """Add a delta to the input of a call."""
        if delta and call in self.inputs:
            self.inputs[call].append(delta)
            self._out.append({"type": "tool-input-delta", "toolCallId": call, "inputTextDelta": delta})

    def end_call(self, call: str, value: Any = _UNREADABLE, metadata: Mapping[str, Any] | None = None) -> None:
        """Complete a call's input with `value`, or with its deltas. If those are not a JSON object, the call fails."""
        pieces = self.inputs.pop(call, None)
        if pieces is None:
            return
        if value is _UNREADABLE:
            text = "".join(pieces)
            try:
                value = read_input(text)
            except ValueError as error:  # msgspec.DecodeError is a ValueError
                chunk = self._call("tool-input-error", call, named=True)
                chunk |= {"input": text, "errorText": f"The model wrote arguments that cannot be read: {error}"}
                self._out.append(_with(chunk, metadata))
                return
        chunk = self._call("tool-input-available", call, named=True) | {"input": value}
        self._out.append(_with(chunk, metadata))

    def output(self, call: str, value: Any, metadata: Mapping[str, Any] | None = None) -> None:
        """Set a call's output, which may be None."""
        chunk = self._call("tool-output-available", call) | {"output": value}
        self._out.append(_with(chunk, metadata))

    def fail_call(self, call: str, text: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Set a call's error."""
        chunk = self._call("tool-output-error", call) | {"errorText": text}
        self._out.append(_with(chunk, metadata))

    def _call(self, kind: str, call: str, *, named: bool = False) -> Chunk:
        chunk: Chunk = {"type": kind, "toolCallId": call}
        if named:
            chunk["toolName"] = self._names[call]
        if call in self._executed:
            chunk["providerExecuted"] = True
        return chunk

    # -- everything else ---------------------------------------------------------------------------

    def source(self, url: str, title: str | None = None, metadata: Mapping[str, Any] | None = None) -> None:
        """Add a web page as a source, once per URL."""
        if not url or url in self._sources:
            return
        self._sources.add(url)
        self.begin()
        chunk: Chunk = {"type": "source-url", "sourceId": self._next_id(), "url": url}
        self._out.append(_with(chunk | ({"title": title} if title else {}), metadata))

    def document(self, title: str, *, media_type: str, filename: str | None = None, key: str = "") -> None:
        """Add a document as a source, once per key."""
        if (key or title) in self._sources:
            return
        self._sources.add(key or title)
        self.begin()
        chunk: Chunk = {"type": "source-document", "sourceId": self._next_id(), "mediaType": media_type}
        self._out.append(chunk | {"title": title} | ({"filename": filename} if filename else {}))

    def add(self, chunk: Chunk) -> None:
        """Add a chunk, within the step."""
        self.begin()
        self._out.append(chunk)

    def add_beside(self, chunk: Chunk) -> None:
        """Add a chunk without opening the step: it belongs to an earlier step, or to none."""
        self._out.append(chunk)

    def prepend(self, chunks: list[Chunk]) -> None:
        """Insert chunks before those that `take` has not returned yet."""
        self._out[:0] = chunks

    def end(self) -> None:
        """Close the open parts and the step. Calls whose input is incomplete stay as they are."""
        self.close_others()
        if self._is_open:
            self._is_open = False
            self._out.append({"type": "finish-step"})

    def finish(self, reason: str, metadata: Mapping[str, Any]) -> None:
        """Close the open parts and the step, and end the message."""
        self.end()
        chunk: Chunk = {"type": "finish", "finishReason": reason}
        self._out.append(chunk | ({"messageMetadata": dict(metadata)} if metadata else {}))

    def _next_id(self) -> str:
        self._count += 1
        return f"{self.name}-{self._count - 1}"


def _with(chunk: Chunk, metadata: Mapping[str, Any] | None) -> Chunk:
    if metadata:
        chunk["providerMetadata"] = dict(metadata)
    return chunk
