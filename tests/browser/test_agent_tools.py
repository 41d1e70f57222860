"""Agents as tools with the stock hook `useAgentToolEvents`, and their sub-agents with `useAgent({ sub })`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.browser.conversation import Conversation
from tests.browser.kit import HALF, TALK, WHOLE
from tests.browser.server_control import KillableServer
from tests.browser.stock_page import NETWORK, TEXT, Tab

pytestmark = pytest.mark.browser

RUN = "window.runs.runsById[arg[0]]"
SAID = f"(m => {TEXT})({RUN} ?? {{ parts: [] }})"


@pytest.fixture
def team(chat: Conversation) -> Conversation:
    return replace(chat, kind="team")


class Crew:
    """The calls of one conversation: their ids are of this test only."""

    def __init__(self, chat: Conversation) -> None:
        self.chat = chat

    def call(self, name: str) -> str:
        return f"{self.chat.name}-{name}"

    def run(self, name: str) -> str:
        return f"agent-tool:{self.call(name)}"

    def question(self, **scripts: list[Any]) -> list[Any]:
        """Return a question whose answer calls a mate for every script, and then says that it is done."""
        calls = [
            {
                "type": "tool-input-available",
                "toolCallId": self.call(name),
                "toolName": "mate",
                "input": {"input": json.dumps(script)},
            }
            for name, script in scripts.items()
        ]
        return [*calls, {"then": ["All done."]}]

    def open(self, name: str, gate: str = "mid") -> None:
        self.chat.server.open(f"{self.run(name)}/{gate}")

    def until_said(self, tab: Tab, name: str, text: str) -> None:
        tab.until(f"{SAID} === arg[1]", [self.run(name), text])

    def until_status(self, tab: Tab, name: str, status: str) -> None:
        tab.until(f"{RUN}?.status === arg[1]", [self.run(name), status])

    def field(self, tab: Tab, name: str, field: str) -> Any:
        return tab.run("([run, field]) => window.runs.runsById[run]?.[field] ?? null", [self.run(name), field])


def test_every_tab_sees_what_works_for_the_agent_live_and_after_a_reload(team: Conversation) -> None:
    crew, one, other = Crew(team), team.tab(), team.tab()
    one.ask(crew.question(a=TALK, b=["Short."]))
    for tab in (one, other):
        crew.until_said(tab, "a", HALF)
        crew.until_status(tab, "b", "completed")
    other.reload()
    crew.until_said(other, "a", HALF)
    assert crew.field(other, "a", "status") == "running"
    crew.open("a")
    for tab in (one, other):
        crew.until_status(tab, "a", "completed")
        crew.until_said(tab, "a", WHOLE)
        tab.until_answer("All done.")
        assert crew.field(tab, "b", "summary") == "Short."
        assert crew.field(tab, "a", "display") == {"title": "A mate"}
        assert tab.run("call => window.runs.getRunsForToolCall(call).map(run => run.runId)", crew.call("a")) == [
            crew.run("a")
        ]
    late = team.tab()
    for tab in (one, late):
        tab.reload()
        crew.until_status(tab, "a", "completed")
        crew.until_said(tab, "a", WHOLE)
        crew.until_said(tab, "b", "Short.")


def test_a_mate_that_fails_fails_alone(team: Conversation) -> None:
    crew, tab = Crew(team), team.tab()
    tab.ask(crew.question(a=["So far ", {"fail": "no good"}], b=["Fine."]))
    tab.until_answer("All done.")
    for _ in range(2):
        crew.until_status(tab, "a", "error")
        crew.until_status(tab, "b", "completed")
        assert (crew.field(tab, "a", "error"), crew.field(tab, "b", "error")) == ("no good", None)
        crew.until_said(tab, "a", "So far ")
        tab.reload()


def test_stopping_the_answer_stops_its_mates(team: Conversation) -> None:
    crew, tab = Crew(team), team.tab()
    tab.ask(crew.question(a=TALK))
    crew.until_said(tab, "a", HALF)
    tab.stop()
    crew.until_status(tab, "a", "aborted")
    assert crew.field(tab, "a", "error") == "The turn that asked for it has ended."
    tab.reload()
    crew.until_status(tab, "a", "aborted")
    crew.until_said(tab, "a", HALF)


def test_a_page_attaches_to_a_mate_itself_and_chats_with_it(team: Conversation) -> None:
    crew, tab = Crew(team), team.tab()
    tab.ask(crew.question(a=TALK))
    crew.until_said(tab, "a", HALF)
    drilled = team.tab(sub=[{"agent": "Mate", "name": crew.run("a")}])
    drilled.until_answer(HALF)
    assert drilled.run("() => [window.agent.agent, window.agent.name]") == ["mate", crew.run("a")]
    crew.open("a")
    drilled.until_answer(WHOLE)
    drilled.until_ready()
    drilled.ask("And you?")
    drilled.until_answer("You said: And you?", status="ready")
    tab.until_answer("All done.")
    assert len(tab.texts) == 2, "what is said to a mate is not said to its lead"
    drilled.reload()
    drilled.until_answer("You said: And you?")
    assert len(drilled.texts) == 4


def test_a_sub_agent_that_is_not_for_pages_says_so_and_is_not_asked_again(team: Conversation) -> None:
    tab = team.tab(sub=[{"agent": "Mate", "name": "hidden"}], is_ready=False)
    tab.expect_complaints(f"{NETWORK}|403|4403|rejected|Failed to")
    tab.until("document.querySelector('[data-failed]') || window.agent?.connectionError")
    assert [text for way, text in tab.frames if way == "←"] == []


@pytest.mark.crash
def test_a_killed_server_continues_with_all_agents(mortal: Conversation, killable_server: KillableServer) -> None:
    mortal = replace(mortal, kind="team")
    crew = Crew(mortal)
    tab, other = mortal.tab(), mortal.tab()
    for each in (tab, other):
        each.expect_complaints(NETWORK)
    tab.ask(crew.question(a=TALK, b=["Short."]))
    for each in (tab, other):
        crew.until_said(each, "a", HALF)
        crew.until_status(each, "b", "completed")
    killable_server.restart()
    crew.open("a")
    for each in (tab, other):
        crew.until_status(each, "a", "completed")
        crew.until_said(each, "a", WHOLE)
        each.until_answer("All done.")
    assert [call["attempt"] for call in killable_server.book(crew.run("a"))["calls"]] == [2]
    tab.reload()
    crew.until_said(tab, "a", WHOLE)
    tab.until_answer("All done.", status="ready")
