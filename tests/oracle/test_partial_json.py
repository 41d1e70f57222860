"""An unfinished tool input reads as it does in the AI SDK."""

from __future__ import annotations

import json
import re
from random import Random

from everyword.messages.partial_json import UNREADABLE, parse_partial_json
from tests.messages.sequences import json_object, json_value
from tests.oracle.client import Oracle


def cut_texts(rng: Random, count: int, *, negative: bool = False) -> list[str]:
    texts = []
    for _ in range(count):
        spaces = rng.choice([None, 1])
        value = json_object(rng, 3) if rng.random() < 0.7 else json_value(rng, 3)
        text = json.dumps(value, ensure_ascii=False, indent=spaces)
        if negative:
            text = re.sub(r"(?<![\d.])(\d)", r"-\1", text)
        texts.append(text[: rng.randrange(len(text) + 1)])
    return texts


def broken_texts(rng: Random, count: int) -> list[str]:
    alphabet = [*'{}[]:,"\\ 01-.eE', "true", "fal", "null", '"a":', "\\u00", "x", "__proto__", "constructor"]
    return ["".join(rng.choice(alphabet) for _ in range(rng.randrange(9))) for _ in range(count)]


def test_cut_and_broken_json_reads_as_in_ai_6(oracle: Oracle) -> None:
    rng = Random("json")
    texts = [*cut_texts(rng, 400), *cut_texts(rng, 1500, negative=True), *broken_texts(rng, 1500)]
    texts += [
        '{"__proto__":1}',
        '{"\\u005f_proto__":1}',
        '{"constructor":{"prototype":1}}',
        '{"constructor":1',
        "1e999",
    ]
    answers = oracle.repair(6, texts)
    ours = [{} if (value := parse_partial_json(text)) is UNREADABLE else {"value": value} for text in texts]
    assert [each for each in zip(texts, ours, answers, strict=True) if each[1] != each[2]] == []
    assert sum(answer == {} for answer in answers) > 100
    assert sum("value" in answer for answer in answers) > 400


def test_cut_json_reads_as_in_ai_7_too(oracle: Oracle) -> None:
    texts = cut_texts(Random("json 7"), 400)
    ours = [{} if (value := parse_partial_json(text)) is UNREADABLE else {"value": value} for text in texts]
    assert ours == oracle.repair(7, texts)
