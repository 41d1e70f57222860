"""What clients of several nodes saw, and whether it can be true: checked afterwards, against the log."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from everyword.events import JobAdded, JobEnded, JobStarted, decode_event

__all__ = ["History", "Listed", "LogEvent", "Seen"]


class Seen(NamedTuple):
    """The text of a message as one client had it at one moment."""

    client: str
    message: str
    text: str
    is_ended: bool = False
    """True if the server had told the client that nothing more comes."""


class Listed(NamedTuple):
    """The ids of the conversation as the server sent it to one client, in the order of their arrival."""

    client: str
    messages: tuple[str, ...]


class LogEvent(NamedTuple):
    """One event of the log, at the end."""

    agent: str
    seq: int
    more: int
    epoch: int
    at: int
    kind: str
    turn: int | None
    body: bytes = b""
    """Empty for chunks."""


@dataclass
class History:
    """Everything that clients asked and saw. `final` has the conversation of each chat when all was quiet."""

    asked: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Questions that were answered, by chat."""
    unsure: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Questions whose client was lost before the answer: they are stored once or not at all."""
    failed: list[str] = field(default_factory=list)
    """What was noticed while it happened: turns without an answer, faults after which nothing went on, leftovers."""
    seen: list[Seen] = field(default_factory=list)
    listed: list[Listed] = field(default_factory=list)
    final: dict[str, dict[str, list[tuple[str, str, str]]]] = field(default_factory=lambda: defaultdict(dict))
    """Chat → client → its messages (id, role, text)."""

    def violations(self, log: Sequence[LogEvent]) -> list[str]:
        """Return everything that must not be, in words; empty if the history is sound."""
        clients = [*self._ends_differ(), *self._not_prefixes(), *self._lists_go_back(), *self._not_once()]
        return [*self.failed, *clients, *_order_violations(log), *_turn_violations(log), *_job_violations(log)]

    def _ends_differ(self) -> list[str]:
        return [
            f"{chat}: {client} has another end than {first}: {messages!r}"
            for chat, clients in self.final.items()
            for first in [next(iter(clients))]
            for client, messages in clients.items()
            if messages != clients[first]
        ]

    def _not_prefixes(self) -> Iterator[str]:
        """Each text that was seen is the beginning of the final one, and grows for each client."""
        last = {
            message: text
            for clients in self.final.values()
            for messages in clients.values()
            for message, _, text in messages
        }
        before = dict[tuple[str, str], str]()
        for client, message, text, is_ended in self.seen:
            whole = last.get(message, "")
            if not whole.startswith(text) or (is_ended and text != whole):
                yield f"{client} saw {text[-40:]!r} in {message}, which ends as {whole[-40:]!r}"
            if not text.startswith(before.get((client, message), "")):
                yield f"{client} saw {message} go back to {text[-40:]!r}"
            before[client, message] = text

    def _lists_go_back(self) -> Iterator[str]:
        """A conversation that the server sends to a client begins with all that it sent to that client before."""
        before = dict[str, tuple[str, ...]]()
        for client, messages in self.listed:
            if messages[: len(before.get(client, ()))] != before.get(client, ()):
                yield f"{client} was sent {messages[-4:]!r} after {before[client][-4:]!r}"
            before[client] = messages

    def _not_once(self) -> Iterator[str]:
        for chat, questions in self.asked.items():
            messages = next(iter(self.final[chat].values()))
            users = [text for _, role, text in messages if role == "user"]
            answers = [text for _, role, text in messages if role == "assistant"]
            if len(set(users)) != len(users):
                yield f"{chat}: a question is stored twice"
            if missing := set(questions) - set(users):
                yield f"{chat}: {len(missing)} questions were answered and are not stored"
            if unknown := set(users) - set(questions) - set(self.unsure[chat]):
                yield f"{chat}: {len(unknown)} questions are stored that were not asked"
            if answers != [_answer(text) for text in users]:
                yield f"{chat}: the answers are not those of the questions: {answers!r}"


def _answer(question: str) -> str:
    return "".join(f"{word} " for word in question.split())


def _order_violations(log: Sequence[LogEvent]) -> Iterator[str]:
    """No hole and no double, epochs one after the other, times that do not go back."""
    head, epoch, at = dict[str, int](), dict[str, int](), dict[str, int]()
    for event in log:
        if event.seq - event.more != head.get(event.agent, 0) + 1:
            yield f"{event.agent}: {event.seq} follows {head.get(event.agent, 0)}"
        if event.epoch < epoch.get(event.agent, 0):
            yield f"{event.agent}: {event.seq} has epoch {event.epoch} after {epoch[event.agent]} (N-1)"
        if event.at < at.get(event.agent, 0):
            yield f"{event.agent}: time goes back at {event.seq}"
        head[event.agent], epoch[event.agent], at[event.agent] = event.seq, event.epoch, event.at


def _turn_violations(log: Sequence[LogEvent]) -> Iterator[str]:
    """Each accepted turn ends once, and nothing of it follows (I-1)."""
    accepted, ended = dict[tuple[str, int | None], int](), Counter[tuple[str, int | None]]()
    for event in log:
        turn = event.agent, event.turn
        if event.kind == "turn.accepted":
            accepted[turn] = event.seq
        elif event.kind == "turn.ended":
            ended[turn] += 1
        elif event.kind in ("chunk", "attempt.started") and ended[turn]:
            yield f"{event.agent}: {event.kind} of turn {event.turn} follows its end, at {event.seq}"
    for (agent, number), seq in accepted.items():
        if ended[agent, number] != 1:
            yield f"{agent}: turn {number}, accepted at {seq}, ended {ended[agent, number]} times"


def _job_violations(log: Sequence[LogEvent]) -> Iterator[str]:
    """A due time of a job has one start per life of its agent at most, none after its end, and every job ends once."""
    starts, ends, added = set[tuple[str, str, int]](), Counter[tuple[str, str]](), list[tuple[str, str]]()
    for each in log:
        event = decode_event(each.body) if each.kind.startswith("job.") else None
        match event:
            case JobAdded(job=job):
                added.append((each.agent, job))
            case JobStarted(job=job):
                if (each.agent, job, each.epoch) in starts:
                    yield f"{each.agent}: job {job} started twice in epoch {each.epoch}"
                if ends[each.agent, job]:
                    yield f"{each.agent}: job {job} started after its end"
                starts.add((each.agent, job, each.epoch))
            case JobEnded(job=job, due=None):
                ends[each.agent, job] += 1
            case JobEnded(job=job):
                starts.discard((each.agent, job, each.epoch))  # it has another due time now
    for agent, job in added:
        if ends[agent, job] != 1:
            yield f"{agent}: job {job} ended {ends[agent, job]} times"
