"""Our fold beside the AI SDK's, over whole batches."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from everyword.errors import FoldError
from everyword.messages.fold import MessageFold
from everyword.messages.message import UIMessage
from tests.messages.sequences import Chunk

# Given to both folds, so that the first `start` is no change of id: the SDK's reader empties the message then.
EMPTY: dict[str, Any] = {"id": "m1", "role": "assistant", "parts": []}


def our_fold(chunks: Sequence[Chunk], base: dict[str, Any] = EMPTY) -> dict[str, Any]:
    """Fold as the oracle does: up to the first chunk that does not fit."""
    fold = MessageFold(base["id"], base=UIMessage.from_dict(base))
    error = None
    for at, chunk in enumerate(chunks):
        try:
            fold.apply(chunk)
        except FoldError as problem:
            error = {"type": problem.chunk_type, "id": problem.chunk_id, "at": at}
            break
    return {"message": fold.message().to_dict(), "error": error}


def first_difference(
    cases: Sequence[Sequence[Chunk]], theirs: Sequence[dict[str, Any]], bases: Sequence[Any] | None = None
) -> str | None:
    """Describe the shortest case that the two folds see differently, or return None."""
    assert len(cases) == len(theirs) >= 100, "a batch this small proves little"
    differing = []
    for index, (chunks, their) in enumerate(zip(cases, theirs, strict=True)):
        ours = our_fold(chunks, bases[index] if bases is not None else EMPTY)
        if their["error"] is not None:
            their["error"].pop("name")
        if ours != their:
            differing.append((len(chunks), index, ours, their))
    if not differing:
        return None
    _, index, ours, their = min(differing, key=lambda each: each[:2])
    return "\n".join(
        [
            f"{len(differing)} of {len(cases)} differ; the shortest is number {index}:",
            *(f"  {json.dumps(chunk, ensure_ascii=False)}" for chunk in cases[index]),
            f"ours:   {json.dumps(ours, ensure_ascii=False)}",
            f"theirs: {json.dumps(their, ensure_ascii=False)}",
        ]
    )
