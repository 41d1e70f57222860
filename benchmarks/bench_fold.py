"""What a delta costs: our fold, and one that appends to the string each time while somebody reads it.

    python benchmarks/bench_fold.py [deltas]

Reading keeps the old string alive, so that CPython cannot grow it in place: the naive fold copies the whole
text with every delta. Ours collects pieces and joins them when a snapshot is asked for.
"""

from __future__ import annotations

import sys
from time import perf_counter

from everyword.messages.chunks import encode_chunk
from everyword.messages.fold import MessageFold
from everyword.messages.message import Chunk
from everyword.messages.normaliser import Normaliser

PIECE = "each word "


def microseconds(count: int, began: float) -> float:
    return (perf_counter() - began) / count * 1e6


def bench_fold(chunk: Chunk, count: int) -> float:
    fold = MessageFold("m")
    fold.apply({"type": "text-start", "id": "t"})
    began = perf_counter()
    for _ in range(count):
        fold.apply(chunk)
    assert len(fold.message().text) == count * len(PIECE)
    return microseconds(count, began)


def bench_naive(chunk: Chunk, count: int) -> float:
    part = {"text": ""}
    began = perf_counter()
    for _ in range(count):
        part = {**part, "text": part["text"] + chunk["delta"]}
    assert len(part["text"]) == count * len(PIECE)
    return microseconds(count, began)


def bench_tool_input(count: int) -> float:
    fold = MessageFold("m")
    fold.apply({"type": "tool-input-start", "toolCallId": "c", "toolName": "x"})
    fold.apply({"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": '{"text":"'})
    chunk = {"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": PIECE}
    began = perf_counter()
    for _ in range(count):
        fold.apply(chunk)
    assert len(fold.message().parts[0]["input"]["text"]) == count * len(PIECE)
    return microseconds(count, began)


def bench_normalise(chunk: Chunk, count: int) -> float:
    normaliser = Normaliser("m")
    normaliser.feed({"type": "text-start", "id": "t"})
    began = perf_counter()
    for _ in range(count):
        normaliser.feed(chunk)
    return microseconds(count, began)


def bench_encode(chunk: Chunk, count: int) -> float:
    began = perf_counter()
    for _ in range(count):
        encode_chunk(chunk)
    return microseconds(count, began)


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    chunk = {"type": "text-delta", "id": "t", "delta": PIECE}
    ours, naive = bench_fold(chunk, count), bench_naive(chunk, count)
    print(f"{count} deltas of {len(PIECE)} characters, µs per delta")
    print(f"fold        {ours:8.2f}")
    print(f"naive       {naive:8.2f}   {naive / ours:.0f} times the fold")
    print(f"tool input  {bench_tool_input(count):8.2f}")
    print(f"normalise   {bench_normalise(chunk, count):8.2f}")
    print(f"encode      {bench_encode(chunk, count):8.2f}")


if __name__ == "__main__":
    main()
