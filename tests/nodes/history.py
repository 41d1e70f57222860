"""What clients of several nodes saw, and whether it can be true: checked afterwards, against the log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["History", "LogEvent", "Seen"]


class Seen(NamedTuple):
    """The text of a message as one client had it at one moment."""

    client: str
    message: str
    text: str


class LogEvent(NamedTuple):
    """One event of the log, at the end."""

    agent: str
    seq: int
    more: int
    epoch: int
    at: int
    kind: str
    turn: int | None


@dataclass
class History:
    """Everything that clients asked and saw. `final` has the conversation of each chat when all was quiet."""

    asked: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Questions that were answered, by chat."""
    unsure: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Questions whose client was lost before the answer: they are stored once or not at all."""
    failed: list[str] = field(default_factory=list)
    """Turns that ended in another way than with their answer."""
    seen: list[Seen] = field(default_factory=list)
    final: dict[str, dict[str, list[tuple[str, str, str]]]] = field(default_factory=lambda: defaultdict(dict))
    """Chat → client → its messages (id, role, text)."""

    def violations(self, log: Sequence[LogEvent]) -> list[str]:
        """Return everything that must not be, in words; empty if the history is sound."""
        return [*self.failed, *self._ends_differ(), *self._not_prefixes(), *self._not_once(), *_log_violations(log)]

    def _ends_differ(self) -> list[str]:
        return [
            f"{chat}: {client} has another end than {first}: {messages!r}"
            for chat, clients in self.final.items()
            for first in [next(iter(clients))]
            for client, messages in clients.items()
            if messages != clients[first]
        ]

    def _not_prefixes(self) -> list[str]:
        """Each text that was seen is the beginning of the final one, and grows for each client."""
        last = {
            message: text
            for clients in self.final.values()
            for messages in clients.values()
            for message, _, text in messages
        }
        found, before = [], dict[tuple[str, str], str]()
        for client, message, text in self.seen:
            if not last.get(message, "").startswith(text):
                found.append(f"{client} saw {text[-40:]!r} in {message}, which ends as {last.get(message, '')[-40:]!r}")
            if not text.startswith(before.get((client, message), "")):
                found.append(f"{client} saw {message} go back to {text[-40:]!r}")
            before[client, message] = text
        return found

    def _not_once(self) -> list[str]:
        found = []
        for chat, questions in self.asked.items():
            messages = next(iter(self.final[chat].values()))
            users = [text for _, role, text in messages if role == "user"]
            answers = [text for _, role, text in messages if role == "assistant"]
            if len(set(users)) != len(users):
                found.append(f"{chat}: a question is stored twice")
            if missing := set(questions) - set(users):
                found.append(f"{chat}: {len(missing)} questions were answered and are not stored")
            if unknown := set(users) - set(questions) - set(self.unsure[chat]):
                found.append(f"{chat}: {len(unknown)} questions are stored that were not asked")
            if answers != [_answer(text) for text in users]:
                found.append(f"{chat}: the answers are not those of the questions: {answers!r}")
        return found


def _answer(question: str) -> str:
    return "".join(f"{word} " for word in question.split())


def _log_violations(log: Sequence[LogEvent]) -> list[str]:
    found = []
    ends: dict[tuple[str, int | None], int] = defaultdict(int)
    head, epoch, at = dict[str, int](), dict[str, int](), dict[str, int]()
    for event in log:
        if event.seq - event.more != head.get(event.agent, 0) + 1:
            found.append(f"{event.agent}: {event.seq} follows {head.get(event.agent, 0)}")
        if event.epoch < epoch.get(event.agent, 0):
            found.append(f"{event.agent}: {event.seq} has epoch {event.epoch} after {epoch[event.agent]} (N-1)")
        if event.at < at.get(event.agent, 0):
            found.append(f"{event.agent}: time goes back at {event.seq}")
        head[event.agent], epoch[event.agent], at[event.agent] = event.seq, event.epoch, event.at
        ends[event.agent, event.turn] += event.kind == "turn.ended"
    found += [f"{agent}: turn {turn} ended {count} times" for (agent, turn), count in ends.items() if count > 1]
    return found
