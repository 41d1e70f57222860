"""Two tabs, a bad network and no plan: whatever people do, in the end every screen shows what is stored."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tests.browser.conversation import Conversation
from tests.browser.kit import assert_in_step
from tests.browser.stock_page import NETWORK, Tab
from tests.browser.tcp_proxy import Link

pytestmark = pytest.mark.browser

STEPS = 14
WALKS = int(os.environ.get("WALKS", "5"))
"""How many walks; a hundred find what five do not."""


@dataclass
class Walk:
    """One random sequence of things that people and networks do. `story` tells what happened."""

    chat: Conversation
    chance: random.Random
    tabs: list[Tab]
    links: list[Link]
    story: list[str]
    gates: list[str] = field(default_factory=list)
    is_down: list[bool] = field(default_factory=lambda: [False, False])

    def step(self) -> None:
        place = self.chance.randrange(len(self.tabs))
        deed = self.chance.choice([self.ask, self.ask, self.open, self.open, *self._rare])
        self.story.append(f"{deed.__name__} {place}")
        deed(place)

    @property
    def _rare(self) -> list[Callable[[int], None]]:
        return [self.stop, self.reload, self.drop, self.cut, self.regenerate, self.edit, self.clear]

    def ask(self, place: int) -> None:
        number = len(self.gates)
        gate = f"g{number}"
        ending = self.chance.choice([["end."], ["end."], [{"fail": "alas"}], [{"type": "error", "errorText": "alas"}]])
        self.gates.append(gate)
        self.tabs[place].ask([f"answer {number} ", {"gate": gate}, "more ", *ending])

    def open(self, place: int) -> None:
        if self.gates:
            self.chat.open(self.chance.choice(self.gates))

    def stop(self, place: int) -> None:
        self.tabs[place].stop()

    def reload(self, place: int) -> None:
        if not self.is_down[place]:
            self.tabs[place].reload()

    def drop(self, place: int) -> None:
        if self._is_connected(place):
            self.tabs[place].lose(self.links[place])

    def cut(self, place: int) -> None:
        """Cut the network, or mend it; the page has noticed: what it sends into a dead socket is lost for ever."""
        self.is_down[place] = not self.is_down[place]
        if self.is_down[place]:
            self.links[place].cut()
            self.tabs[place].until("window.agent.readyState !== 1")
        else:
            self.links[place].restore()

    def _is_connected(self, place: int) -> bool:
        return bool(self.tabs[place].run("() => window.agent.readyState === 1"))

    def regenerate(self, place: int) -> None:
        if any(message["role"] == "assistant" for message in self.tabs[place].messages):
            self.tabs[place].call("regenerate")

    def edit(self, place: int) -> None:
        asked = [message["id"] for message in self.tabs[place].messages if message["role"] == "user"]
        if asked:
            self.tabs[place].ask(f"edited {len(self.story)}", messageId=self.chance.choice(asked))

    def clear(self, place: int) -> None:
        if self.chance.random() < 0.5:
            self.tabs[place].call("clearHistory")

    def settle(self) -> None:
        """Mend the network and let every answer end."""
        for link in self.links:
            link.restore()
        for gate in self.gates:
            self.chat.open(gate)
        for tab in self.tabs:
            tab.until("window.agent.readyState === 1")
            tab.until("c.status !== 'submitted' && c.status !== 'streaming'")  # what it sent late is answered
        self.tabs[0].ask("the last word")
        for tab in self.tabs:
            tab.until("c.messages.some(m => m.parts.some(p => p.text === 'You said: the last word'))")
            tab.until("c.status !== 'submitted' && c.status !== 'streaming' && !c.isServerStreaming")


@pytest.mark.parametrize("seed", range(WALKS))
def test_after_a_random_walk_every_tab_shows_what_is_stored(chat: Conversation, seed: int) -> None:
    links = [chat.link(), chat.link()]
    tabs = [chat.tab(link=link) for link in links]
    for tab in tabs:
        tab.expect_complaints(NETWORK)
        tab.expect_complaints("not found")  # editing a message that another tab has just cleared
    walk = Walk(chat, random.Random(seed), tabs, links, chat.notes)
    for _ in range(STEPS):
        walk.step()
    walk.settle()
    assert_in_step(chat, *tabs)
    assert len(chat.stored) == len({message["id"] for message in chat.stored})
