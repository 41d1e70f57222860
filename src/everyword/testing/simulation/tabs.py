"""Simulated clients: the client protocol with the actions of people, and of pages that misbehave."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Literal

import msgspec

from ...client.protocol.chat import ChatProtocol
from ...errors import FoldError
from ...messages.message import UIMessage
from ...messages.tool_calls import open_calls
from .network import Closed, Link

__all__ = ["SimulatedTab"]

JsonObject = dict[str, Any]
Acking = Literal["at once", "late", "never", "twice"]

_ACK = "cf_agent_stream_resume_ack"


class SimulatedTab:
    """One client of one agent: a protocol, a link or none, and the frames that it received.

    `terminals` are the terminal frames that carried an outcome, per request; `asked` what it asked, to be sent again.
    """

    def __init__(self, name: str, agent: str, chance: Random) -> None:
        self.name, self.agent = name, agent
        self.protocol = ChatProtocol()
        self.link: Link | None = None
        self.acking: Acking = chance.choices(("at once", "late", "never", "twice"), (6, 2, 1, 1))[0]
        self.stops_reading = chance.random() < 0.1
        self.terminals: dict[str, list[JsonObject]] = {}
        self.asked: dict[str, str] = {}
        self._questions: dict[str, JsonObject] = {}
        self.has_cleared = False
        self.unfit_chunks: list[str] = []
        """Chunks that do not fit to the chunks before."""
        self._held: list[str] = []
        self._chance, self._asks = chance, 0

    # -- the link ------------------------------------------------------------------------------------------------

    def connect(self, link: Link) -> None:
        self.link = link
        self._held.clear()
        self.protocol.connected()
        self.flush()

    def disconnect(self) -> None:
        self.link = None
        self.protocol.disconnected()

    def arrive(self, item: str | Closed) -> None:
        """Receive an item of the link."""
        if isinstance(item, Closed):
            self.disconnect()
            return
        frame = msgspec.json.decode(item)
        if frame.get("done") and "outcome" in frame:
            self.terminals.setdefault(frame["id"], []).append(frame)
        known = len(self.protocol.problems)
        try:
            self.protocol.receive(item)
        except FoldError as exc:
            self.unfit_chunks.append(f"{exc}: {item}")
        if self.link is not None and not self.link.has_removed:
            self.unfit_chunks += self.protocol.problems[known:]
        if self.link is not None and frame.get("type") == "cf_agent_chat_messages":
            self.link.has_removed = False
        self.flush()

    def flush(self) -> None:
        """Send the queued frames; without a link they wait, as in the stock client."""
        if self.link is None:
            return
        for frame in self.protocol.frames_to_send():
            if _ACK not in frame or self.acking == "at once":
                self.link.up.append(frame)
            elif self.acking == "twice":
                self.link.up += [frame, frame]
            elif self.acking == "late":
                self._held.append(frame)

    def release(self) -> None:
        """Send the acknowledgements that were held back."""
        if self.link is not None:
            self.link.up += self._held
            self._held.clear()

    def behave(self) -> None:
        """From now on, read and acknowledge at once."""
        self.acking, self.stops_reading = "at once", False
        self.release()

    # -- actions of people ---------------------------------------------------------------------------------------

    def act(self) -> str:
        """Do a random action of a person; return its description."""
        name, action = self._chance.choices(_ACTIONS, _WEIGHTS)[0]
        told = action(self)
        self.flush()
        return f"{name} {told}".strip()

    def ask(self) -> str:
        messages = list(self.protocol.messages)
        if messages and self._chance.random() < 0.15:
            messages = messages[: self._chance.randrange(len(messages))]  # a tab that slept: its list is old
        request, text = self._next_request(), self._chance.choice(("why?", "how?", "when?"))
        question = {"id": f"u-{request}", "role": "user", "parts": [{"type": "text", "text": text}]}
        return self._ask(request, [*messages, question])

    def edit(self) -> str:
        place = self._a_question()
        if place is None:
            return ""
        messages = self.protocol.messages[: place + 1]
        messages[place] = {**messages[place], "parts": [{"type": "text", "text": f"edited {self._asks}"}]}
        return self._ask(self._next_request(), messages)

    def regenerate(self) -> str:
        place = self._a_question()
        if place is None:
            return ""
        messages = self.protocol.messages[: place + 1]
        return self._ask(self._next_request(), messages, trigger="regenerate-message")

    def set_messages(self) -> str:
        """Change the list without asking anything."""
        messages = list(self.protocol.messages)
        if messages and self._chance.random() < 0.5:
            del messages[self._chance.randrange(len(messages))]
            if self.link is not None:
                self.link.has_removed = True
        else:
            name = f"{self.name}-set{self._next_request()}"
            messages.append({"id": name, "role": "user", "parts": [{"type": "text", "text": "set"}]})
        if self.link is None:
            return "but is not connected"
        self.flush()
        self.protocol.messages = messages
        self.link.up.append(msgspec.json.encode({"type": "cf_agent_chat_messages", "messages": messages}).decode())
        return ""

    def stop(self) -> str:
        known = [request for request in self.asked if request not in self.protocol.endings]
        request = self._chance.choice(known or ["nothing"])
        self.protocol.stop(request)
        return request

    def clear(self) -> str:
        self.protocol.clear()
        self.has_cleared = True
        return ""

    def answer(self) -> str:
        """Settle a call: one that is open, one that was settled before, or one that does not exist."""
        calls = [call for message in self.protocol.messages for call in _calls(message)]
        call = self._chance.choice(calls) if calls and self._chance.random() < 0.9 else "unknown"
        goes_on = self._chance.random() < 0.85
        for _ in range(self._chance.choice((1, 1, 1, 2))):
            if self._chance.random() < 0.5:
                self.protocol.answer(call, {"at": self._chance.randrange(9)}, auto_continue=goes_on)
            else:
                self.protocol.approve(call, self._chance.random() < 0.7, auto_continue=goes_on)
        return call

    def ask_again(self) -> str:
        """Send requests again that have not ended, as a page does that does not know whether they arrived.

        It shows what it asks: a transcript, or a clear of its own, may have taken the question off its screen.
        """
        left = [request for request in self.asked if request not in self.terminals]
        if self.link is not None:
            self.link.up += [self.asked[request] for request in left]
            shown = {message["id"] for message in self.protocol.messages}
            asked = [self._questions[request] for request in left if request in self._questions]
            self.protocol.messages += [question for question in asked if question["id"] not in shown]
        return " ".join(left)

    def send_invalid_frame(self) -> str:
        frame = self._chance.choice(("{", "[]", '{"type":"rpc","id":"x","method":"none","args":[]}', '{"type":7}'))
        if self.link is not None:
            self.link.up.append(frame)
        return frame

    # -- helpers -------------------------------------------------------------------------------------------------

    def _ask(self, request: str, messages: list[JsonObject], trigger: str = "submit-message") -> str:
        body = msgspec.json.encode({"messages": messages, "trigger": trigger}).decode()
        frame = {"type": "cf_agent_use_chat_request", "id": request, "init": {"method": "POST", "body": body}}
        self.asked[request] = msgspec.json.encode(frame).decode()
        if messages and messages[-1]["role"] == "user":
            self._questions[request] = messages[-1]
        self.protocol.ask(request, messages, trigger=trigger)
        return request

    def _next_request(self) -> str:
        self._asks += 1
        return f"{self.name}-{self._asks}"

    def _a_question(self) -> int | None:
        places = [place for place, message in enumerate(self.protocol.messages) if message["role"] == "user"]
        if not places:
            return None
        return places[-1] if self._chance.random() < 0.7 else self._chance.choice(places)


def _calls(message: JsonObject) -> list[str]:
    """Return a message's calls, open ones more often than others."""
    if message["role"] != "assistant":
        return []
    every = [part["toolCallId"] for part in message["parts"] if "toolCallId" in part]
    return [*every, *(4 * [part["toolCallId"] for part in open_calls(UIMessage.from_dict(message))])]


_CHOICES: list[tuple[str, Callable[[SimulatedTab], str], float]] = [
    ("asks", SimulatedTab.ask, 8),
    ("edits", SimulatedTab.edit, 1.5),
    ("regenerates", SimulatedTab.regenerate, 1.5),
    ("sets its list", SimulatedTab.set_messages, 1),
    ("stops", SimulatedTab.stop, 2),
    ("clears", SimulatedTab.clear, 0.6),
    ("answers", SimulatedTab.answer, 5),
    ("asks again", SimulatedTab.ask_again, 1.5),
    ("sends nonsense", SimulatedTab.send_invalid_frame, 0.3),
]
_ACTIONS = [(name, action) for name, action, _ in _CHOICES]
_WEIGHTS = [weight for _, _, weight in _CHOICES]
