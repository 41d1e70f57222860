"""Chunk sequences for properties: legal ones, slightly broken ones, and soup.

All are drawn from a `random.Random`: a seed reproduces a whole batch for the oracle, and `seeded()` lets
Hypothesis choose the seed. (It could draw every choice itself; shrinking hundreds of them takes minutes.)
"""

from __future__ import annotations

import itertools
import json
from random import Random
from typing import Any

from hypothesis import strategies as st

Chunk = dict[str, Any]


class Seeded(Random):
    """A random generator that tells its seed when a property fails."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.name = seed

    def __repr__(self) -> str:
        return f"Seeded({self.name})"


def seeded() -> st.SearchStrategy[Random]:
    return st.integers(0, 2**32).map(Seeded)


WORDS = ["", "a", "hold ", "fast", "\n", "é", "🙂", '"quoted"', "\\", "</script>", " ", "漢字"]
TOOLS = ["search", "get-weather", "x"]


def json_value(rng: Random, depth: int = 2) -> Any:
    """Draw a JSON value without negative numbers: ai 6 and 7 disagree on an array cut behind a minus."""
    kinds = ["null", "bool", "int", "float", "str"] + (["list", "dict", "dict"] if depth else [])
    match rng.choice(kinds):
        case "null":
            return None
        case "bool":
            return rng.random() < 0.5
        case "int":
            return rng.randrange(1000)
        case "float":
            return rng.randrange(100) / 4
        case "str":
            return "".join(rng.choice(WORDS) for _ in range(rng.randrange(3)))
        case "list":
            return [json_value(rng, depth - 1) for _ in range(rng.randrange(3))]
        case _:
            return json_object(rng, depth - 1)


def json_object(rng: Random, depth: int = 2) -> dict[str, Any]:
    return {rng.choice("abcde"): json_value(rng, depth) for _ in range(rng.randrange(4))}


def provider_metadata(rng: Random) -> dict[str, Any]:
    return {rng.choice(["openai", "acme"]): json_object(rng, 1)}


class Legal:
    """Writes what a well-behaved server would: every chunk fits the message that the ones before made.

    `newer` adds what only ai 7 knows. `tidy` leaves out what ai 6 and 7 fold differently.
    """

    def __init__(self, rng: Random, *, newer: bool = False, tidy: bool = False) -> None:
        self.rng = rng
        self.newer = newer
        self.tidy = tidy
        self.chunks: list[Chunk] = []
        self.open: list[tuple[str, str]] = []
        self.texts_to_come: dict[str, list[str]] = {}
        self.inputs: dict[str, tuple[str, bool, Any]] = {}
        self.calls: dict[str, str] = {}
        self.count = 0

    def write(self) -> list[Chunk]:
        rng = self.rng
        self.put("start", messageId="m1", **self.some("messageMetadata", json_object))
        for _ in range(rng.randrange(3)):
            self.between_steps()
        for _ in range(rng.randrange(1, 4)):
            self.step()
            for _ in range(rng.randrange(2)):
                self.between_steps()
        if rng.random() < 0.8:
            reason = rng.choice(["stop", "tool-calls", "length"])
            self.put("finish", finishReason=reason, **self.some("messageMetadata", json_object))
        return self.chunks

    def put(self, kind: str, /, **fields: Any) -> None:
        self.chunks.append({"type": kind, **fields})

    def some(self, name: str, draw: Any, chance: float = 0.25) -> dict[str, Any]:
        return {name: draw(self.rng)} if self.rng.random() < chance else {}

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def step(self) -> None:
        self.put("start-step")
        for _ in range(self.rng.randrange(12)):
            self.rng.choice([self.open_text, self.chorus, self.grow, self.grow, self.call, self.grow_input,
                             self.grow_input, self.end_input, self.answer, self.answer, self.discrete,
                             self.between_steps])()  # fmt: skip
        close_all = self.tidy or self.rng.random() < 0.7
        while self.open and close_all:
            self.end_text()
        self.inputs.clear()
        if self.tidy or self.rng.random() < 0.9:
            self.put("finish-step")
            self.open.clear()

    def open_text(self) -> None:
        family = self.rng.choice(["text", "text", "reasoning"])
        name = self.fresh("p")
        self.open.append((family, name))
        self.put(f"{family}-start", id=name, **self.some("providerMetadata", provider_metadata))

    def grow(self) -> None:
        if not self.open:
            return self.open_text()
        if self.rng.random() < 0.15:
            return self.end_text()
        family, name = self.rng.choice(self.open)
        pm = self.some("providerMetadata", provider_metadata, 0.1)
        self.put(f"{family}-delta", id=name, delta=self.rng.choice(WORDS), **pm)
        return None

    def chorus(self) -> None:
        """Let several parts grow in turn: neighbouring deltas that do not belong together."""
        while len(self.open) < 2:
            self.open_text()
        for _ in range(self.rng.randrange(2, 6)):
            family, name = self.rng.choice(self.open)
            self.put(f"{family}-delta", id=name, delta=self.rng.choice(WORDS))

    def end_text(self) -> None:
        family, name = self.open.pop(self.rng.randrange(len(self.open)))
        pm = self.some("providerMetadata", provider_metadata, 0.1)
        if self.newer and family == "text" and self.rng.random() < 0.3:
            source = {"type": "source", "sourceType": "url", "id": "s", "url": "https://example.org"}
            pm["citations"] = [{"source": source, "startIndex": 0, "citedText": "a"}]
        self.put(f"{family}-end", id=name, **pm)

    def call_fields(self) -> dict[str, Any]:
        fields = self.some("title", lambda rng: "A title")
        fields |= self.some("toolMetadata", json_object, 0.1)
        fields |= self.some("providerExecuted", lambda rng: True, 0.2)
        return fields | self.some("providerMetadata", provider_metadata, 0.2)

    def call(self) -> None:
        rng, call_id, name = self.rng, self.fresh("c"), self.rng.choice(TOOLS)
        is_dynamic, value = rng.random() < 0.3, json_object(rng)
        fields = {"toolCallId": call_id, "toolName": name, **({"dynamic": True} if is_dynamic else {})}
        self.calls[call_id] = "input-available"
        if rng.random() < 0.4:
            self.put("tool-input-available", **fields, **self.call_fields(), input=value)
            return
        if rng.random() < 0.15 and not (self.tidy and not is_dynamic):
            self.put("tool-input-error", **fields, input=value, errorText="bad input")
            self.calls[call_id] = "output-error"
            return
        encoding: dict[str, Any] = {"inputEncoding": rng.choice(["json", "text"])} if rng.random() < 0.2 else {}
        self.put("tool-input-start", **fields, **encoding, **self.call_fields())
        self.calls[call_id] = "input-streaming"
        self.inputs[call_id] = (name, is_dynamic, value)
        text = json.dumps(value, ensure_ascii=False)
        cuts = sorted(rng.randrange(len(text) + 1) for _ in range(rng.randrange(1, 4)))
        edges = [0, *cuts, len(text)]
        self.texts_to_come[call_id] = [text[a:b] for a, b in itertools.pairwise(edges)]

    def grow_input(self) -> None:
        if not self.inputs:
            return self.call()
        call_id = self.rng.choice(list(self.inputs))
        if not self.texts_to_come[call_id]:
            return self.end_input()
        piece = self.texts_to_come[call_id].pop(0)
        self.put("tool-input-delta", toolCallId=call_id, inputTextDelta=piece)
        return None

    def end_input(self) -> None:
        if not self.inputs:
            return
        call_id = self.rng.choice(list(self.inputs))
        name, is_dynamic, value = self.inputs.pop(call_id)
        fields = {"toolCallId": call_id, "toolName": name, **({"dynamic": True} if is_dynamic else {})}
        if self.rng.random() < 0.2 and not (self.tidy and not is_dynamic):
            self.put("tool-input-error", **fields, input=value, errorText="bad input")
            self.calls[call_id] = "output-error"
        else:
            self.put("tool-input-available", **fields, **self.call_fields(), input=value)
            self.calls[call_id] = "input-available"

    def answer(self) -> None:
        waiting = [call_id for call_id, state in self.calls.items() if state == "input-available"]
        asked = [call_id for call_id, state in self.calls.items() if state == "approval-requested"]
        rng = self.rng
        running = [call_id for call_id, state in self.calls.items() if state == "running"]
        if asked and rng.random() < 0.6:
            self.answer_approval(rng.choice(asked))
        elif waiting and rng.random() < 0.3:
            self.request_approval(rng.choice(waiting))
        elif waiting or running:
            self.output(rng.choice(waiting + running))

    def request_approval(self, call_id: str) -> None:
        fields = self.some("approvalDescriptor", json_object) | self.some("signature", lambda rng: "sig")
        fields |= self.some("inputSchemaInput", json_value, 0.1)
        if self.newer:
            fields |= self.some("reason", lambda rng: "why") | self.some("isAutomatic", lambda rng: True)
        self.put("tool-approval-request", approvalId=f"ask-{call_id}", toolCallId=call_id, **fields)
        self.calls[call_id] = "approval-requested"

    def answer_approval(self, call_id: str) -> None:
        if not self.newer:
            self.put("tool-output-denied", toolCallId=call_id)
            self.calls[call_id] = "output-denied"
            return
        approved = self.rng.random() < 0.5
        self.put("tool-approval-response", approvalId=f"ask-{call_id}", approved=approved)
        self.calls[call_id] = "running" if approved else "output-denied"
        if not approved:
            self.put("tool-output-denied", toolCallId=call_id)

    def output(self, call_id: str) -> None:
        pm = self.some("providerMetadata", provider_metadata, 0.15)
        pm |= self.some("toolMetadata", json_object, 0.1)
        if self.rng.random() < 0.25:
            self.put("tool-output-error", toolCallId=call_id, errorText="it broke", **pm)
            self.calls[call_id] = "output-error"
            return
        is_preliminary = self.rng.random() < 0.25
        flag = {"preliminary": True} if is_preliminary else {}
        self.put("tool-output-available", toolCallId=call_id, output=json_value(self.rng), **flag, **pm)
        self.calls[call_id] = "running" if is_preliminary else "output-available"

    def discrete(self) -> None:
        rng = self.rng
        pm = self.some("providerMetadata", provider_metadata)
        media, url = "image/png", "https://example.org/x"
        kinds = ["file", "source-url", "source-document"]
        match rng.choice(kinds + (["custom", "reasoning-file", "steering-message"] if self.newer else [])):
            case "file":
                self.put("file", url=url, mediaType=media, **pm)
            case "source-url":
                self.put("source-url", sourceId="s1", url=url, **self.some("title", lambda rng: "T"), **pm)
            case "source-document":
                filename = self.some("filename", lambda rng: "f.pdf")
                self.put("source-document", sourceId="s2", mediaType=media, title="D", **filename, **pm)
            case "custom":
                self.put("custom", kind="acme.thing", **pm)
            case "reasoning-file":
                self.put("reasoning-file", url=url, mediaType=media, **pm)
            case _:
                self.put("steering-message", id="u9", parts=[{"type": "text", "text": "go left"}])

    def between_steps(self) -> None:
        rng = self.rng
        if rng.random() < 0.3:
            self.put("message-metadata", messageMetadata=json_object(rng))
            return
        fields = self.some("id", lambda rng: rng.choice("xy"), 0.6) | self.some("transient", lambda rng: True)
        self.put(rng.choice(["data-note", "data-progress"]), data=json_value(rng), **fields)


def legal_sequence(rng: Random, *, newer: bool = False, tidy: bool = False) -> list[Chunk]:
    """Draw a sequence that a good server may send."""
    return Legal(rng, newer=newer, tidy=tidy).write()


def damaged_sequence(rng: Random) -> list[Chunk]:
    """Draw a legal sequence with a few chunks lost, doubled, swapped or aimed at the wrong part."""
    chunks = legal_sequence(rng)
    for _ in range(rng.randrange(1, 4)):
        damage(rng, chunks)
    return chunks


def damage(rng: Random, chunks: list[Any]) -> None:
    if not chunks:
        return
    at, other = rng.randrange(len(chunks)), rng.randrange(len(chunks))
    match rng.choice(["lose", "double", "swap", "aim"]):
        case "lose":
            del chunks[at]
        case "double":
            chunks.insert(other, dict(chunks[at]) if isinstance(chunks[at], dict) else chunks[at])
        case "swap":
            chunks[at], chunks[other] = chunks[other], chunks[at]
        case _:
            name = next((name for name in ("id", "toolCallId") if name in chunks[at]), None)
            if name is not None and not chunks[at]["type"].startswith("data-"):
                chunks[at] = {**chunks[at], name: rng.choice(["p1", "p2", "c1", "c2", "nobody"])}


JUNK: list[Any] = [None, True, 0, -1.5, "", "x", [], {}, {"a": None}, {"__proto__": 1}, {"x": {"y": 1}}, [{}]]
JUNK_TYPES = [
    *("", "nonsense", "data-", "data-note", "start", "text-start", "text-delta", "text-end", "reasoning-start"),
    *("reasoning-delta", "reasoning-end", "tool-input-start", "tool-input-delta", "tool-input-available"),
    *("tool-input-error", "tool-approval-request", "tool-approval-response", "tool-output-available"),
    *("tool-output-error", "tool-output-denied", "source-url", "source-document", "file", "reasoning-file"),
    *("custom", "steering-message", "start-step", "finish-step", "reset-step", "finish", "message-metadata"),
]
JUNK_FIELDS = [
    *("id", "delta", "providerMetadata", "toolCallId", "toolName", "input", "output", "errorText", "data"),
    *("inputTextDelta", "messageId", "messageMetadata", "finishReason", "approvalId", "approved", "reason"),
    *("url", "mediaType", "title", "filename", "sourceId", "kind", "parts", "citations", "dynamic"),
    *("preliminary", "providerExecuted", "transient", "toolMetadata", "inputEncoding", "signature", "unknown"),
]


def junk_chunk(rng: Random) -> Any:
    if rng.random() < 0.1:
        return rng.choice(JUNK)
    chunk: Chunk = {"type": rng.choice(JUNK_TYPES)} if rng.random() < 0.95 else {}
    for _ in range(rng.randrange(6)):
        chunk[rng.choice(JUNK_FIELDS)] = rng.choice([*JUNK, json_value(rng)])
    if rng.random() < 0.6:
        chunk["id"] = rng.choice(["p1", "p2", 7])
    if rng.random() < 0.6:
        chunk["toolCallId"] = rng.choice(["c1", "c2", "c3"])
        chunk["toolName"] = rng.choice(TOOLS)
    return chunk


def hostile_sequence(rng: Random) -> list[Any]:
    """Draw what no server should send: a damaged sequence with fields gone wrong and junk in between."""
    chunks: list[Any] = list(legal_sequence(rng, newer=rng.random() < 0.5))
    for _ in range(rng.randrange(6)):
        damage(rng, chunks)
    for _ in range(rng.randrange(6)):
        if chunks:
            at = rng.randrange(len(chunks))
            name = rng.choice(list(chunks[at]))
            if name != "type":
                chunks[at] = {**chunks[at], name: rng.choice(JUNK)}
    for _ in range(rng.randrange(12)):
        chunks.insert(rng.randrange(len(chunks) + 1), junk_chunk(rng))
    return chunks
