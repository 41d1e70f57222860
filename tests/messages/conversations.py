"""Conversations for properties: answers folded from streams, and parts in every state that a stream seldom reaches."""

from __future__ import annotations

from random import Random
from typing import Any

from everyword.messages.fold import MessageFold
from everyword.messages.message import Part
from tests.messages.sequences import JUNK, TOOLS, WORDS, json_object, json_value, legal_sequence, provider_metadata

URLS = ["https://example.org/x", "data:text/plain;base64,YQ==", "http://example.org/a?b=c"]
STATES = [
    *("input-streaming", "input-available", "approval-requested", "approval-responded"),
    *("output-available", "output-error", "output-denied"),
]

# The SDK silently drops a key that names a prototype from some objects; here it is a key like any other.
WRONG = [*(value for value in JUNK if value != {"__proto__": 1}), *STATES]


def some(rng: Random, chance: float, **fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if rng.random() < chance}


def text_part(rng: Random) -> Part:
    return {"type": "text", "text": rng.choice(WORDS), **some(rng, 0.3, providerMetadata=provider_metadata(rng))}


def file_part(rng: Random, *, newer: bool) -> Part:
    part = {"type": "file", "mediaType": "image/png", "url": rng.choice(URLS)}
    if newer:
        part |= some(rng, 0.2, providerReference={"openai": "file-1"})
    return {**part, **some(rng, 0.3, filename="x.png", providerMetadata=provider_metadata(rng))}


def approval(rng: Random, approved: bool | None, *, newer: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"id": f"ask{rng.randrange(4)}", **some(rng, 0.3, signature="sig", descriptor={"a": 1})}
    made |= some(rng, 0.2, inputSchemaInput=json_value(rng))
    if newer:
        made |= some(rng, 0.3, isAutomatic=rng.random() < 0.5, requestReason="careful")
    if approved is not None:
        made |= {"approved": approved, **some(rng, 0.4, reason="because")}
    return made


def call_part(rng: Random, *, newer: bool) -> Part:
    """Draw a legal tool part of any state."""
    state, name = rng.choice(STATES), rng.choice(TOOLS)
    kind: Part = {"type": f"tool-{name}"}
    if rng.random() < 0.3:
        kind = {"type": "dynamic-tool", "toolName": name, **some(rng, 0.3, dynamic=False)}
    part = {**kind, "toolCallId": f"c{rng.randrange(6)}", "state": state, "input": json_object(rng)}
    part |= some(rng, 0.2, providerExecuted=rng.random() < 0.8, toolMetadata=json_object(rng))
    part |= some(rng, 0.3, callProviderMetadata=provider_metadata(rng))
    if newer:
        part |= some(rng, 0.2, title="A title")
    match state:
        case "approval-requested":
            part["approval"] = approval(rng, None, newer=newer)
        case "approval-responded":
            part["approval"] = approval(rng, rng.random() < 0.5, newer=newer)
        case "output-denied":
            part["approval"] = approval(rng, False, newer=newer)
        case "output-available":
            part["output"] = json_value(rng)
            part |= some(rng, 0.3, preliminary=True, approval=approval(rng, True, newer=newer))
            part |= some(rng, 0.2, resultProviderMetadata=provider_metadata(rng))
        case "output-error":
            part["errorText"] = rng.choice(["it broke", ""])
            part |= some(rng, 0.3, resultProviderMetadata=provider_metadata(rng))
            part |= some(rng, 0.2, rawInput="raw", approval=approval(rng, True, newer=newer))
    if state in ("input-streaming", "output-error") and rng.random() < 0.4:
        del part["input"]
    return part


def answer_part(rng: Random, *, newer: bool) -> Part:
    pm = some(rng, 0.3, providerMetadata=provider_metadata(rng))
    kinds = ["text", "call", "call", "call", "step", "reasoning", "file", "data", "source"]
    match rng.choice(kinds + (["custom", "reasoning-file", "steering"] if newer else [])):
        case "text":
            return {**text_part(rng), **some(rng, 0.5, state=rng.choice(["streaming", "done"]))}
        case "call":
            return call_part(rng, newer=newer)
        case "step":
            return {"type": "step-start"}
        case "reasoning":
            return {"type": "reasoning", "text": rng.choice(WORDS), **pm, **some(rng, 0.2, id="r")}
        case "file":
            return file_part(rng, newer=newer)
        case "data":
            return data_part(rng)
        case "source":
            return {"type": "source-url", "sourceId": "s", "url": URLS[0], **pm}
        case "custom":
            return {"type": "custom", "kind": "acme.thing", **pm}
        case "reasoning-file":
            return {"type": "reasoning-file", "mediaType": "image/png", "url": rng.choice(URLS), **pm}
        case _:
            said = [rng.choice([text_part(rng), file_part(rng, newer=newer)]) for _ in range(rng.randrange(3))]
            return {"type": "steering-message", "id": "u9", "parts": said}


def data_part(rng: Random) -> Part:
    return {"type": rng.choice(["data-note", "data-progress"]), "data": json_value(rng), **some(rng, 0.5, id="d")}


def user_parts(rng: Random, *, newer: bool) -> list[Part]:
    made = [text_part(rng)]
    for _ in range(rng.randrange(3)):
        made.append(rng.choice([text_part(rng), file_part(rng, newer=newer), data_part(rng)]))
    return made


def answer_parts(rng: Random, *, newer: bool) -> list[Part]:
    if rng.random() < 0.5:
        return [answer_part(rng, newer=newer) for _ in range(rng.randrange(9))]
    fold = MessageFold("m")
    for chunk in legal_sequence(rng, newer=newer, tidy=True):
        fold.apply(chunk)
    return fold.message().parts


def conversation(rng: Random, *, newer: bool = True) -> list[dict[str, Any]]:
    """Draw legal messages of a chat; `newer` adds what only ai 7 knows."""
    messages: list[dict[str, Any]] = []
    if rng.random() < 0.4:
        messages.append({"role": "system", "parts": [text_part(rng) for _ in range(rng.randrange(1, 3))]})
    for _ in range(rng.randrange(1, 3)):
        messages.append({"role": "user", "parts": user_parts(rng, newer=newer)})
        messages.append({"role": "assistant", "parts": answer_parts(rng, newer=newer)})
    if rng.random() < 0.3:
        messages.append({"role": "user", "parts": user_parts(rng, newer=newer)})
    for index, message in enumerate(messages):
        message |= {"id": f"m{index}", **some(rng, 0.3, metadata=json_object(rng))}
    return messages


def spoil(rng: Random, messages: list[dict[str, Any]]) -> None:
    """Give one message or part a field that it must not have, a wrong value, or a field less."""
    message = rng.choice(messages)
    target: dict[str, Any] = rng.choice([message, *message["parts"] * 3])
    inside = [value for value in target.values() if isinstance(value, dict)]
    if inside and rng.random() < 0.4:
        target = rng.choice(inside)
    match rng.choice(["lose", "wrong", "add"]):
        case "lose" if target:
            del target[rng.choice(list(target))]
        case "wrong" if target:
            target[rng.choice(list(target))] = rng.choice([*WRONG, "tool-x", "streaming"])
        case _:
            target[rng.choice(FIELDS)] = rng.choice(WRONG)


FIELDS = [
    *("output", "errorText", "approval", "approved", "reason", "title", "dynamic", "toolName", "preliminary"),
    *("providerMetadata", "citations", "state", "id", "rawInput", "inputEncoding", "unknown", "metadata", "filename"),
    *("toolMetadata", "callProviderMetadata", "resultProviderMetadata", "providerExecuted", "providerReference"),
]
