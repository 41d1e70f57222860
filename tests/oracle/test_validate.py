"""Messages are accepted, cleaned and refused as by the AI SDK."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from everyword.errors import BadMessage
from everyword.messages.validate_messages import validate_ui_messages
from tests.messages.conversations import FIELDS, conversation, spoil
from tests.messages.test_part_schemas import ACCEPTED
from tests.oracle.client import Oracle
from tests.oracle.model_messages import DATA_SCHEMAS, SCHEMA_TOOLS, ask_validate, check_metadata, difference

BATCH = 250
FIELD_NAMES = sorted({*FIELDS, *(name for part in ACCEPTED for name in part)} - {"metadata"})
FIELD_NAMES += ["descriptor", "signature", "requestReason", "isAutomatic", "inputSchemaInput"]
VALUES: list[Any] = [None, "text", True, {"a": {"b": [1]}}, False, 1, [], {}, {"a": 1}, {"a": "b"}]


def cases(seed: str, *, newer: bool, spoilt: bool = False, schemas: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    rng, found = Random(seed), []
    for _ in range(BATCH):
        messages = copy.deepcopy(conversation(rng, newer=newer))
        if spoilt:
            spoil(rng, messages)
        found.append({"messages": messages, "schemas": [name for name in schemas if rng.random() < 0.5]})
    return found


def ours(case: dict[str, Any]) -> dict[str, Any]:
    before = copy.deepcopy(case)
    try:
        accepted = validate_ui_messages(
            case["messages"],
            metadata_schema=check_metadata if "metadata" in case["schemas"] else None,
            data_schemas=DATA_SCHEMAS if "data" in case["schemas"] else None,
            tools=SCHEMA_TOOLS if "tools" in case["schemas"] else None,
        )
    except BadMessage:
        return {"error": "refused"}
    finally:
        assert case == before
    return {"messages": [message.to_dict() for message in accepted]}


def theirs(oracle: Oracle, version: int, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    answers = ask_validate(oracle, version, found)
    for answer in answers:
        if "error" in answer:
            answer["error"] = "refused"
        for message in answer.get("messages", []):
            if message.get("metadata", 0) is None:  # absent and null are one to us
                del message["metadata"]
    return answers


def without_titles(answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what ai 6 drops from calls although its streams bring it."""
    shorter = copy.deepcopy(answers)
    for part in (part for answer in shorter for message in answer.get("messages", []) for part in message["parts"]):
        if "toolCallId" in part:
            part.pop("title", None)
    return shorter


def verdicts(answers: list[dict[str, Any]]) -> list[bool]:
    return ["messages" in answer for answer in answers]


def test_messages_of_good_servers_are_judged_alike_by_both_versions(oracle: Oracle) -> None:
    found = cases("legal", newer=False)
    accepted = [ours(case) for case in found]
    assert (different := difference(found, accepted, theirs(oracle, 7, found))) is None, different
    assert (different := difference(found, without_titles(accepted), theirs(oracle, 6, found))) is None, different
    # Not all: a denial that was streamed without its response is refused by the SDK that folded it.
    assert BATCH * 9 // 10 < sum(verdicts(accepted)) < BATCH


def test_spoilt_messages_are_accepted_and_refused_as_in_ai_7(oracle: Oracle) -> None:
    found = cases("spoilt 7", newer=True, spoilt=True)
    found_ours, answers = [ours(case) for case in found], theirs(oracle, 7, found)
    assert BATCH // 5 < sum(verdicts(answers)) < BATCH * 4 // 5, "the batch must have both kinds"
    assert (different := difference(found, found_ours, answers)) is None, different


def test_schemas_are_applied_as_in_ai_7(oracle: Oracle) -> None:
    found = cases("schemas", newer=True, schemas=("metadata", "data", "tools"))
    found_ours, answers = [ours(case) for case in found], theirs(oracle, 7, found)
    assert BATCH // 5 < sum(verdicts(answers)) < BATCH * 4 // 5, "the batch must have both kinds"
    assert (different := difference(found, found_ours, answers)) is None, different


def test_schemas_are_applied_as_in_ai_6(oracle: Oracle) -> None:
    found = cases("schemas 6", newer=False, schemas=("metadata", "data", "tools"))
    found_ours, answers = without_titles([ours(case) for case in found]), theirs(oracle, 6, found)
    assert BATCH // 5 < sum(verdicts(answers)) < BATCH * 4 // 5, "the batch must have both kinds"
    assert (different := difference(found, found_ours, answers)) is None, different


def one_change_away(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the part with each field that any part may have set to something else, or gone."""
    for name in FIELD_NAMES:
        yield from ({**part, name: value} for value in (VALUES if name in part else VALUES[:4]))
        if name in part:
            yield {key: value for key, value in part.items() if key != name}
    if "approval" in part:
        yield from ({**part, "approval": approval} for approval in one_change_away(part["approval"]))


def test_every_field_of_every_part_is_judged_as_in_ai_7(oracle: Oracle) -> None:
    dynamic = [
        {**part, "type": "dynamic-tool", "toolName": "x", "dynamic": False} for part in ACCEPTED if "toolCallId" in part
    ]
    changed = [each for part in [*ACCEPTED, *dynamic] for each in one_change_away(part)]
    found = [{"messages": [{"id": "m", "role": "assistant", "parts": [part]}], "schemas": []} for part in changed]
    found_ours, answers = [ours(case) for case in found], theirs(oracle, 7, found)
    assert 1000 < sum(verdicts(answers)) < len(found) - 1000, "there must be both kinds"
    assert (different := difference(found, found_ours, answers)) is None, different


@pytest.mark.parametrize("version", [6, 7])
def test_what_is_no_list_of_messages_is_refused_as_in_the_sdk(oracle: Oracle, version: int) -> None:
    user = {"id": "u", "role": "user", "parts": []}
    odd: list[Any] = [None, {}, "x", 7, [], [None], [[]], [{}], [user], [{**user, "role": "assistant"}]]
    odd += [[{**user, "role": "tool"}], [{**user, "role": "system"}], [{**user, "parts": None}]]
    odd += [[{**user, "parts": [part]}] for part in (None, "x", {}, {"type": None}, {"type": "nonsense"})]
    odd += [[{**user, "id": value, "parts": [{"type": "step-start"}]}] for value in ("", None, 7)]
    found = [{"messages": messages, "schemas": []} for messages in odd]
    assert verdicts([ours(case) for case in found]) == verdicts(theirs(oracle, version, found))
