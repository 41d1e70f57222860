"""Pruning leaves what the AI SDK leaves."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

from everyword.messages.model_messages import convert_to_model_messages
from everyword.messages.prune_messages import prune_messages
from tests.messages.conversations import conversation
from tests.messages.sequences import TOOLS
from tests.oracle.client import Oracle
from tests.oracle.model_messages import ask_prune, difference

BATCH = 400


def some_type(rng: Random, *, newer: bool) -> str:
    # ai 6 takes a window of no messages for all of them.
    count = rng.randrange(0 if newer else 1, 8)
    return rng.choice(["all", "before-last-message", f"before-last-{count}-messages"])


def some_options(rng: Random, *, newer: bool) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if rng.random() < 0.6:
        options["reasoning"] = rng.choice(["none", "all", "before-last-message"])
    if rng.random() < 0.5:
        options["toolCalls"] = rng.choice(["none", some_type(rng, newer=newer)])
    else:
        options["toolCalls"] = [some_rule(rng, newer=newer) for _ in range(rng.randrange(3))]
    if rng.random() < 0.6:
        options["emptyMessages"] = rng.choice(["keep", "remove"])
    return options


def some_rule(rng: Random, *, newer: bool) -> dict[str, Any]:
    tools = {"tools": rng.sample(TOOLS, rng.randrange(len(TOOLS)))} if rng.random() < 0.6 else {}
    return {"type": some_type(rng, newer=newer), **tools}


def some_messages(rng: Random, *, newer: bool) -> list[dict[str, Any]]:
    messages = convert_to_model_messages([*conversation(rng, newer=newer), *conversation(rng, newer=newer)])
    for message in messages:
        if rng.random() < 0.1 and message["role"] in ("user", "assistant"):
            message["content"] = rng.choice(["", "plain"])
    return messages


def cases(seed: str, *, newer: bool) -> list[dict[str, Any]]:
    rng = Random(seed)
    return [
        {"messages": some_messages(rng, newer=newer), "options": some_options(rng, newer=newer)} for _ in range(BATCH)
    ]


def ours(case: dict[str, Any]) -> list[dict[str, Any]]:
    before = copy.deepcopy(case)
    names = {"reasoning": "reasoning", "toolCalls": "tool_calls", "emptyMessages": "empty_messages"}
    pruned = prune_messages(case["messages"], **{names[name]: value for name, value in case["options"].items()})
    assert case == before
    return pruned


def test_messages_are_pruned_as_in_ai_7(oracle: Oracle) -> None:
    found = cases("prune 7", newer=True)
    found_ours, theirs = [ours(case) for case in found], ask_prune(oracle, 7, found)
    assert (different := difference(found, found_ours, theirs)) is None, different
    changed = sum(case["messages"] != pruned for case, pruned in zip(found, theirs, strict=True))
    assert BATCH // 3 < changed < BATCH, "the batch must have both kinds"


def test_messages_are_pruned_as_in_ai_6(oracle: Oracle) -> None:
    found = cases("prune 6", newer=False)
    found_ours, theirs = [ours(case) for case in found], ask_prune(oracle, 6, found)
    assert (different := difference(found, found_ours, theirs)) is None, different
