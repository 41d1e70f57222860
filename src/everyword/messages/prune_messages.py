"""Remove old reasoning and old tool calls from model messages, keeping calls and results together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any, Final, Literal, NotRequired, TypedDict

from ..errors import UsageError
from .message import UIMessage
from .model_messages import ModelMessage

__all__ = ["PruneRule", "prune_messages"]


class PruneRule(TypedDict):
    """Which tool calls to leave out. Without `tools`, the rule applies to every tool."""

    type: str
    tools: NotRequired[Sequence[str]]


_REASONING: Final = frozenset({"reasoning", "reasoning-file"})
_CALLS: Final = frozenset({"tool-call", "tool-result"})
_APPROVALS: Final = frozenset({"tool-approval-request", "tool-approval-response"})

_BEFORE_LAST = re.compile(r"before-last-(\d+)-messages", re.ASCII)


def prune_messages(
    messages: Sequence[ModelMessage],
    *,
    reasoning: Literal["none", "all", "before-last-message"] = "none",
    tool_calls: str | Sequence[PruneRule] = "none",
    empty_messages: Literal["keep", "remove"] = "remove",
) -> list[ModelMessage]:
    """Return the model messages without the content that the options leave out; the arguments are not changed.

    `tool_calls` is "none", "all", "before-last-message", "before-last-N-messages", or a list of rules, applied in
    order, each with such a `type` and the names of its `tools`. A call that one of the last, unpruned messages refers
    to is kept with its result. Reasoning is removed together with the calls that follow it. Raises UsageError for
    unknown options.
    """
    if reasoning not in ("none", "all", "before-last-message"):
        raise UsageError(f"unable to prune messages; reasoning is {reasoning!r}: none, all or before-last-message")
    if empty_messages not in ("keep", "remove"):
        raise UsageError(f"unable to prune messages; empty_messages is {empty_messages!r}: keep or remove")
    if any(isinstance(message, UIMessage) or "content" not in message for message in messages):
        raise UsageError("unable to prune messages; they have no content: give them to convert_to_model_messages first")
    pruned = list(messages)
    if reasoning != "none":
        spared = 1 if reasoning == "before-last-message" else 0
        pruned = [*map(_without_reasoning, pruned[: len(pruned) - spared]), *pruned[len(pruned) - spared :]]
    for count, tools in _rules(tool_calls):
        pruned = _without_calls(pruned, count, tools)
    return [message for message in pruned if message["content"]] if empty_messages == "remove" else pruned


def _without_reasoning(message: ModelMessage) -> ModelMessage:
    if message["role"] != "assistant" or isinstance(message["content"], str):
        return message
    return {**message, "content": [part for part in message["content"] if part["type"] not in _REASONING]}


def _rules(tool_calls: str | Sequence[PruneRule]) -> Iterator[tuple[int, frozenset[str] | None]]:
    """Yield, for each rule, the number of last messages that it does not prune and its tools (None: all)."""
    if tool_calls == "none":
        return
    for rule in [PruneRule(type=tool_calls)] if isinstance(tool_calls, str) else tool_calls:
        tools = rule.get("tools")
        yield _spared(rule["type"]), None if tools is None else frozenset(tools)


def _spared(kind: str) -> int:
    match kind:
        case "all":
            return 0
        case "before-last-message":
            return 1
        case str() if found := _BEFORE_LAST.fullmatch(kind):
            return int(found[1])
        case _:
            raise UsageError(
                f"unable to prune messages; tool calls cannot be left out by {kind!r}: "
                "say all, before-last-message or before-last-N-messages"
            )


def _tool_content(messages: Sequence[ModelMessage]) -> Iterator[dict[str, Any]]:
    for message in messages:
        if message["role"] in ("assistant", "tool") and not isinstance(message["content"], str):
            yield from message["content"]


def _without_calls(messages: list[ModelMessage], count: int, tools: frozenset[str] | None) -> list[ModelMessage]:
    edge = max(len(messages) - count, 0)
    pruner = _CallPruner(messages, messages[edge:], tools)
    return [*map(pruner.pruned, messages[:edge]), *messages[edge:]]


class _CallPruner:
    """Applies one rule: removes tool calls, results and approvals from messages."""

    def __init__(
        self, messages: Sequence[ModelMessage], spared: Sequence[ModelMessage], tools: frozenset[str] | None
    ) -> None:
        self.tools = tools
        self.calls = {part["toolCallId"] for part in _tool_content(spared) if part["type"] in _CALLS}
        self.approvals = {part["approvalId"] for part in _tool_content(spared) if part["type"] in _APPROVALS}
        names = {part["toolCallId"]: part["toolName"] for part in _tool_content(messages) if part["type"] in _CALLS}
        requests = [part for part in _tool_content(messages) if part["type"] == "tool-approval-request"]
        asked_for = {part["approvalId"]: part["toolCallId"] for part in requests}
        # An approval is useless without the call that it allows.
        self.calls |= {asked_for[approval] for approval in self.approvals if approval in asked_for}
        # The answer to an approval request is in another message, so look for its tool in all messages.
        self.approval_tools = {
            part["approvalId"]: names[part["toolCallId"]] for part in requests if part["toolCallId"] in names
        }

    def pruned(self, message: ModelMessage) -> ModelMessage:
        content = message["content"]
        if message["role"] not in ("assistant", "tool") or isinstance(content, str):
            return message
        kept = [self._keeps(part) for part in content]
        if message["role"] == "assistant":
            _drop_orphaned_reasoning(content, kept)
        return {**message, "content": [part for part, is_kept in zip(content, kept, strict=True) if is_kept]}

    def _keeps(self, part: dict[str, Any]) -> bool:
        kind = part["type"]
        if kind in _CALLS:
            is_spared, name = part["toolCallId"] in self.calls, part["toolName"]
        elif kind in _APPROVALS:
            is_spared, name = part["approvalId"] in self.approvals, self.approval_tools.get(part["approvalId"])
        else:
            return True
        return is_spared or (self.tools is not None and name is not None and name not in self.tools)


def _drop_orphaned_reasoning(content: Sequence[dict[str, Any]], kept: list[bool]) -> None:
    """Drop each run of reasoning if all parts up to the next run are dropped: providers treat them as one unit."""
    runs = [list(run) for _, run in groupby(range(len(content)), lambda at: content[at]["type"] in _REASONING)]
    for run, following in pairwise(runs):
        if content[run[0]]["type"] in _REASONING and not any(kept[at] for at in following):
            for at in run:
                kept[at] = False
