"""One connection's machine under test: events to feed it, and views that must agree."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

from msgspec import Raw

from everyword.events import (
    Chunk,
    Event,
    MessageEnded,
    Outcome,
    Placed,
    TurnAccepted,
    TurnEnded,
    TurnKind,
)
from everyword.ids import Attempt, Generation, MessageId, NodeId, RequestId, Seq, TurnId
from everyword.wire.chat_view import ChatView, ViewMemory
from everyword.wire.connection_turns import ChatSnapshot, ConnectionTurn
from everyword.wire.parse import ResumeAck, ResumeRequest
from everyword.wire.resume_handshake import NeedsReplay

BODY = Raw(b'{"id":"a1","role":"assistant","parts":[]}')


class Told:
    """A committed event, as the tail hands it out."""

    def __init__(self, event: Event, seq: int = 0) -> None:
        self.seq, self.event, self.frames = Seq(seq), event, dict[str, bytes]()
        self.live: bytes | None = None


def accepted(turn: int = 1, *, kind: TurnKind = TurnKind.CHAT, **more: Any) -> TurnAccepted:
    node = NodeId(turn * 2)
    user = Placed(NodeId(turn * 2 - 1), None, MessageId(f"u{turn}"), "user", BODY)
    return TurnAccepted(
        TurnId(turn),
        RequestId(f"r{turn}"),
        kind,
        Generation(0),
        node,
        None,
        MessageId(f"a{turn}"),
        messages=[user] if kind is TurnKind.CHAT else [],
        message_ids=[MessageId(f"u{turn}")],
        **more,
    )


def chunk(index: int, turn: int = 1) -> Chunk:
    return Chunk(TurnId(turn), Attempt(1), index, Raw(b'{"type":"text-delta","id":"t","delta":"x"}'))


def ended(outcome: Outcome = Outcome.COMPLETED, turn: int = 1, **more: Any) -> TurnEnded:
    return TurnEnded(TurnId(turn), outcome, **more)


def message_ended(turn: int = 1, **more: Any) -> MessageEnded:
    return MessageEnded(TurnId(turn), NodeId(turn * 2), BODY, **more)


class Views:
    """Views of one connection that must agree in all they say.

    One is told event by event, one what others were told before, and one is handed over to another process before
    everything that it is told or asked.
    """

    def __init__(self, snapshot: ChatSnapshot, **given: Any) -> None:
        self._views = [ChatView(ViewMemory.new(deepcopy(snapshot)), **given) for _ in range(3)]
        self._given = given

    def happened(self, committed: Told) -> list[bytes]:
        first, second, third = self._hand_over()
        told = first.happened(committed)
        assert second.happened_all([committed]) == told
        assert third.happened(committed) == told
        return told

    def asks(self, *given: Any, **named: Any) -> None:
        for view in self._hand_over():
            view.client_list.asks(*given, **named)

    def has_arrived(self) -> None:
        for view in self._hand_over():
            view.client_list.has_arrived()

    def _hand_over(self) -> list[ChatView]:
        memory = self._views[2].memory.encode()
        self._views[2] = ChatView(ViewMemory.decode(memory), **self._given)
        return self._views

    def __getattr__(self, name: str) -> Any:
        def all_of_them(*given: Any, **named: Any) -> Any:
            told, *others = [getattr(view, name)(*given, **named) for view in self._hand_over()]
            assert others == [told, told]
            return told

        return all_of_them


class Tab:
    """A connection under test."""

    def __init__(self, *events: Event, socket: str = "me", present: tuple[str, ...] = (), **snapshot: Any) -> None:
        self.shown: list[tuple[NodeId, bytes, bool]] = []
        self.followed: set[int] = set()
        """Nodes with something behind them."""
        self.left: set[NodeId] = set()
        """Nodes of branches that are not shown."""
        self.view = Views(
            ChatSnapshot(Seq(0), **snapshot),
            socket=socket,
            owner="pk-me",
            transcript=lambda: self.shown,
            is_present=lambda owner: owner in present,
            is_shown=lambda node: node not in self.left,
            is_followed=lambda node: node in self.followed,
        )
        self.seq = 0
        self.frames = self.happens(*events)

    def happens(self, *events: Event) -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = []
        for event in events:
            self.seq += 1
            told += decoded(self.view.happened(Told(event, self.seq)))
        return told

    def sends(self, *ids: str, is_stale: bool = False, is_new: bool = False, request: str = "") -> None:
        """Ask with a list of these messages, compared with what has happened so far."""
        messages = [{"id": each} for each in ids]
        self.view.asks(RequestId(request), messages, head=Seq(self.seq), is_stale=is_stale, is_new=is_new)

    def asks(self, probe: str | None = "p1") -> list[dict[str, Any]]:
        return decoded(self.view.resume_requested(ResumeRequest(probe)))

    def acknowledges(self, request: str = "r1") -> NeedsReplay | None:
        return self.view.acknowledged(ResumeAck(RequestId(request)))


def decoded(frames: list[bytes]) -> list[dict[str, Any]]:
    return [json.loads(frame) for frame in frames]


def kinds(frames: list[dict[str, Any]]) -> list[str]:
    names = []
    for frame in frames:
        name = frame["type"].removeprefix("cf_agent_").removeprefix("stream_")
        if name == "use_chat_response":
            name = "done" if frame["done"] else "complete" if frame.get("replayComplete") else "chunk"
        names.append(name)
    return names


def known(**more: Any) -> ConnectionTurn:
    return ConnectionTurn(TurnId(1), RequestId("r1"), NodeId(2), False, **more)
