"""The requests that a client follows: one record per request, from the first frame about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...messages.message import UIMessage

__all__ = ["Ended", "Request", "Requests"]

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """The outcome of a request, and the error text if it failed."""

    outcome: str
    error: str | None = None


@dataclass(slots=True)
class Request:
    """One request that this client knows of, its own or another client's. It has one turn."""

    id: str
    is_mine: bool = False
    """True if this client sent the request."""
    question_id: str | None = None
    """Id of the user's message that this client asked with."""
    question: JsonObject | None = None
    """That message, until the request has ended."""
    answer_id: str | None = None
    """Id of the assistant's message that the request writes, as soon as it is known."""
    ending: Ended | None = None
    base: UIMessage | None = None
    """The message that a continuation extends, as it was before the continuation. Replays start from it."""
    has_base: bool = False
    """True once `base` was looked up; the conversation may have had no such message."""
    is_doubted: bool = False
    """True if the request was open when the connection was lost, and no frame about it has come since."""
    is_inquired: bool = False
    """True if this client has asked on this connection how the request ended."""
    is_unsure: bool = False
    """True if the request ended while this client was disconnected: its answer must be read over HTTP."""


class Requests:
    """All requests that a client knows of, the oldest first."""

    def __init__(self) -> None:
        self.known: dict[str, Request] = {}
        self.open: dict[str, Request] = {}
        """Requests that have not ended as far as this client knows."""

    def ask(self, request_id: str, question: JsonObject | None) -> Request:
        """Record a request that this client sends."""
        request = self._get(request_id)
        request.is_mine, request.question = True, question
        request.question_id = question["id"] if question is not None else None
        self.open[request_id] = request
        return request

    def hear(self, request_id: str) -> Request:
        """Record that a frame showed the request to be under way; one that has ended stays ended."""
        request = self._get(request_id)
        request.is_doubted = False
        if request.ending is None:
            self.open[request_id] = request
        return request

    def end(self, request_id: str, ending: Ended) -> None:
        """Record an ending. The first one counts: a replay brings it again."""
        request = self._get(request_id)
        if request.is_doubted and ending.outcome != "skipped":
            request.is_unsure = True
        request.question, request.base, request.has_base, request.is_doubted = None, None, False, False
        request.ending = request.ending or ending
        self.open.pop(request_id, None)

    def name_answer(self, request_id: str, message_id: str) -> None:
        """Record which message a request writes."""
        self._get(request_id).answer_id = message_id

    def doubt_all(self) -> None:
        """Record that the connection is lost: what happens to open requests from now on is not known."""
        for request in self.open.values():
            request.is_doubted, request.is_inquired = True, False

    def take_doubted(self) -> list[str]:
        """Return the requests whose endings this client should ask for on this connection, each once."""
        doubted = [request for request in self.open.values() if request.is_doubted and not request.is_inquired]
        for request in doubted:
            request.is_inquired = True
        return sorted(request.id for request in doubted)

    def _get(self, request_id: str) -> Request:
        if request_id not in self.known:
            self.known[request_id] = Request(request_id)
        return self.known[request_id]
