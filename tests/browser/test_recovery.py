"""What people see of a turn whose process died: it goes on by itself, is reported as it is, or is given up in words.

How a sentence, a waiting question, an approval and a continuation survive one kill: `test_crash`. Here: what is on the
screen meanwhile, tools in the middle of their effect, nobody watching, and turns that are not simply carried on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conversation import Conversation
from tests.browser.kit import HALF, TALK, WHOLE, assert_in_step
from tests.browser.server_control import KillableServer
from tests.browser.stock_page import NETWORK, Tab
from tests.forked_processes import ForkedProcess, fork_process

pytestmark = [pytest.mark.browser, pytest.mark.crash]

RECOVERING = "cf_agent_chat_recovering"
UNKNOWN = "The call was interrupted; its result is unknown."
GIVEN_UP = "We lost it. Please ask again."
LOCATE = [
    "Let me see. ",
    {"type": "tool-input-available", "toolCallId": "call-1", "toolName": "locate", "input": {"place": "here"}},
    {"then": ["You are in ", "Bern."]},
]


class Reviving(KillableServer):
    """Serves the agents of `recovering`; `effects` are what their tools did in all lives."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self._effects = file.with_suffix(".effects")

    def _start_process(self) -> ForkedProcess:
        return fork_process("tests.browser.recovery_agents", self._store, str(self.port), EFFECTS=str(self._effects))

    @property
    def effects(self) -> Counter[tuple[str, ...]]:
        """How often each tool did what it does, by its name and the call's key."""
        return Counter(tuple(line.split()) for line in self._effects.read_text(encoding="utf-8").splitlines())


@pytest.fixture
def killable_server(tmp_path: Path) -> Iterator[Reviving]:
    server = Reviving(tmp_path / "chats.db")
    server.start()
    yield server
    server.close()
    server.kill()


def tabs_of(chat: Conversation, kind: str = "chat", count: int = 1, **options: Any) -> list[Tab]:
    chat.kind = kind
    tabs = [chat.tab(**options) for _ in range(count)]
    for tab in tabs:
        tab.expect_complaints(NETWORK)
    return tabs


def told(tab: Tab) -> list[bool]:
    return [frame["recovering"] for frame in tab.received(RECOVERING)]


def using(name: str) -> list[Any]:
    """A script that calls a tool and then says what came of it."""
    call = {"type": "tool-input-available", "toolCallId": "call-1", "toolName": name, "input": {"to": "dan"}}
    return ["One moment. ", call, {"then": ["That is that."]}]


def tool_parts(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part for message in messages for part in message["parts"] if part["type"].startswith("tool-")]


def deaths_at(chat: Conversation, server: Reviving, gate: str, count: int) -> None:
    """Kill the server each time the answer has come to this gate and the pages know of it; leave it running."""
    for number in range(count):
        chat.until_reached(gate)
        for tab in chat.tabs:
            tab.until("window.agent.readyState === 1 && c.isRecovering === arg", number > 0)
        server.restart()


# -- carried on -------------------------------------------------------------------------------------------------------


@pytest.mark.obligation("003-42", "003-44", "003-56")
def test_no_word_goes_away_but_for_the_blink_of_the_resume(mortal: Conversation, killable_server: Reviving) -> None:
    tab, other = tabs_of(mortal, count=2)
    tab.ask(TALK)
    for each in (tab, other):
        each.until_answer(HALF)
    killable_server.restart()
    mortal.open("mid")
    for each in (tab, other):
        each.until_answer(WHOLE)
        each.until_ready()
        blinks = each.seen("shrinks")
        assert len(blinks) <= 1 and {blink["id"] for blink in blinks} <= {each.ids[-1]}
    assert_in_step(mortal, tab, other)


def test_the_page_shows_that_the_answer_is_being_recovered_until_its_next_word(
    mortal: Conversation, killable_server: Reviving
) -> None:
    tab, other = tabs_of(mortal, count=2)
    tab.ask(TALK)
    for each in (tab, other):
        each.until_answer(HALF)
        assert told(each) == []
    killable_server.restart()
    mortal.until_reached("mid")
    late = tabs_of(mortal)[0]
    for each in (tab, other, late):
        each.until("c.isRecovering")
    mortal.open("mid")
    for each in (tab, other, late):
        each.until_answer(WHOLE)
        each.until_ready()
        assert told(each) == [True, False]
    assert_in_step(mortal, tab, other, late)


@pytest.mark.obligation("003-43")
def test_an_answer_without_a_client_is_finished_and_found_later(
    mortal: Conversation, killable_server: Reviving
) -> None:
    (tab,) = tabs_of(mortal)
    tab.ask(TALK)
    tab.until_answer(HALF)
    tab.close()
    killable_server.restart()
    mortal.open("mid")
    assert mortal.until_result() | {"request": ""} == {
        "request": "",
        "status": "completed",
        "error": None,
        "text": WHOLE,
    }
    (fresh,) = tabs_of(mortal)
    fresh.until_answer(WHOLE, status="ready")
    assert True not in told(fresh)
    assert_in_step(mortal, fresh)


def test_what_was_done_before_the_kill_is_not_done_again(mortal: Conversation, killable_server: Reviving) -> None:
    tab, other = tabs_of(mortal, count=2)
    tab.ask("before")
    for each in (tab, other):
        each.until_answer("You said: before")
        each.until_ready()
    ids = tab.ids
    killable_server.restart()
    for each in (tab, other):
        each.until("window.agent.readyState === 1")
        each.until_still()
        each.until_ready()
        assert (each.ids, told(each)) == (ids, [])
    assert_in_step(mortal, tab, other)
    assert mortal.calls == [], "the new process was asked nothing"


@pytest.mark.obligation("003-4")
def test_a_death_before_the_first_word_in_front_of_two_tabs_leaves_one_answer(
    mortal: Conversation, killable_server: Reviving
) -> None:
    tab, other = tabs_of(mortal, count=2)
    tab.ask([{"gate": "start"}, *TALK])
    mortal.until_reached("start")
    killable_server.restart()
    mortal.until_reached("start")
    mortal.open("start")
    mortal.open("mid")
    for each in (tab, other):
        each.until_answer(WHOLE)
        each.until_ready()
        assert len(each.texts) == 2 and each.error is None
    assert_in_step(mortal, tab, other)


def test_a_model_that_falls_silent_is_asked_again_in_front_of_the_page_and_that_is_no_error(
    mortal: Conversation, killable_server: Reviving
) -> None:
    (tab,) = tabs_of(mortal, "drowsy")
    tab.ask(TALK)
    tab.until_received(RECOVERING)
    tab.until_answer(WHOLE)
    tab.until_ready()
    assert (tab.error, len(tab.texts), tab.seen("shrinks")) == (None, 2, [])
    assert told(tab) == [True, False]
    assert "error" not in tab.seen("statuses")
    assert_in_step(mortal, tab)


# -- tools ------------------------------------------------------------------------------------------------------------


def test_a_tool_that_must_not_happen_twice_is_reported_and_not_repeated(
    mortal: Conversation, killable_server: Reviving
) -> None:
    tab, other = tabs_of(mortal, "lasting", count=2)
    tab.ask(using("send"))
    mortal.until_reached("send")
    killable_server.restart()
    for each in (tab, other):
        each.until_answer("One moment. That is that.")
        each.until_ready()
        (part,) = tool_parts(each.messages)
        assert (part["state"], part["errorText"]) == ("output-error", UNKNOWN)
    assert_in_step(mortal, tab, other)
    assert list(killable_server.effects.values()) == [1]


def test_a_tool_that_may_happen_twice_happens_again_under_the_same_key(
    mortal: Conversation, killable_server: Reviving
) -> None:
    tab, other = tabs_of(mortal, "lasting", count=2)
    tab.ask(using("look"))
    mortal.until_reached("look")
    killable_server.restart()
    mortal.until_reached("look")
    mortal.open("look")
    for each in (tab, other):
        each.until_answer("One moment. That is that.")
        each.until_ready()
        (part,) = tool_parts(each.messages)
        assert (part["state"], part["output"]) == ("output-available", "look dan: done")
    assert_in_step(mortal, tab, other)
    assert list(killable_server.effects.values()) == [2], "the same call, so the same key"


def test_a_result_that_the_page_gives_while_the_server_is_dead_counts_when_it_is_back(
    mortal: Conversation, killable_server: Reviving
) -> None:
    (tab,) = tabs_of(mortal, "lasting")
    tab.ask(LOCATE)
    tab.until("c?.messages.some(m => m.parts.some(p => p.state === 'input-available'))")
    tab.until_ready()
    killable_server.kill()
    tab.until("window.agent.readyState !== 1")
    tab.call("addToolOutput", {"toolCallId": "call-1", "toolName": "locate", "output": {"city": "Bern"}})
    killable_server.start()
    tab.until_answer("Let me see. You are in Bern.")
    tab.until_ready()
    assert len(tab.texts) == 2
    assert_in_step(mortal, tab)


# -- given up, stopped, begun anew ------------------------------------------------------------------------------------


def until_given_up(tab: Tab, text: str) -> None:
    tab.until("c.status === 'error' && c.error?.message === arg", text)
    tab.until("!c.isServerStreaming && !c.isRecovering")


@pytest.mark.obligation("000-9.1", "000-9.3")
def test_a_turn_that_died_too_often_says_so_and_keeps_what_was_said(
    mortal: Conversation, killable_server: Reviving
) -> None:
    (tab,) = tabs_of(mortal, "brittle")
    tab.ask(TALK)
    tab.until_answer(HALF)
    deaths_at(mortal, killable_server, "mid", 3)
    until_given_up(tab, GIVEN_UP)
    tab.until_answer(HALF)
    assert_in_step(mortal, tab)
    assert mortal.calls == [], "the last process did not try"
    tab.reload()
    until_given_up(tab, GIVEN_UP)
    tab.until_answer(HALF)
    assert_in_step(mortal, tab)


def test_a_turn_that_died_too_often_without_a_word_says_so_and_the_next_question_is_answered(
    mortal: Conversation, killable_server: Reviving
) -> None:
    (tab,) = tabs_of(mortal, "brittle")
    tab.ask([{"gate": "start"}, "never"])
    deaths_at(mortal, killable_server, "start", 3)
    until_given_up(tab, GIVEN_UP)
    assert len(tab.texts) == 1
    tab.ask("And now?")
    tab.until_answer("You said: And now?", status="ready")
    assert_in_step(mortal, tab)


def test_the_page_shows_that_the_answer_is_being_recovered_while_the_agent_waits_with_that(
    mortal: Conversation, killable_server: Reviving
) -> None:
    tab, other = tabs_of(mortal, "fickle", count=2)
    tab.ask('["One ", "two ", {"gate": "mid"}, "three."]\nwait later')
    for each in (tab, other):
        each.until_answer(HALF)
    killable_server.restart()
    late = tabs_of(mortal, "fickle")[0]
    for each in (tab, other, late):
        each.until("c.isRecovering")
    assert mortal.calls == []
    mortal.open("mid")
    mortal.open("later")
    for each in (tab, other, late):
        each.until_answer("One two three.")
        each.until_ready()
        assert told(each) == [True, False]
    assert_in_step(mortal, tab, other, late)


@pytest.mark.parametrize("text", ["It was too late.", ""])
def test_a_turn_that_the_agent_stops_after_a_kill_ends_as_it_says_with_what_was_said(
    mortal: Conversation, killable_server: Reviving, text: str
) -> None:
    tab, other = tabs_of(mortal, "fickle", count=2)
    tab.ask('["One ", "two ", {"gate": "mid"}, "three."]\nstop ' + text)
    for each in (tab, other):
        each.until_answer(HALF)
    killable_server.restart()
    assert mortal.until_result()["status"] == ("error" if text else "aborted")
    tab.until("(c.error?.message ?? '') === arg[0] && c.status === arg[1]", [text, "error" if text else "ready"])
    for each in (tab, other):
        each.until_answer(HALF)
        each.until("!c.isServerStreaming && !c.isRecovering && !['submitted', 'streaming'].includes(c.status)")
    assert_in_step(mortal, tab, other)
    assert mortal.calls == []


@pytest.mark.parametrize("text", ["It was too late.", ""])
def test_a_turn_that_the_agent_forgets_after_a_kill_is_on_no_page(
    mortal: Conversation, killable_server: Reviving, text: str
) -> None:
    tab, other = tabs_of(mortal, "fickle", count=2)
    tab.ask('["One ", "two ", {"gate": "mid"}, "three."]\nforget ' + text)
    for each in (tab, other):
        each.until_answer(HALF)
    killable_server.restart()
    assert mortal.until_result()["status"] == ("error" if text else "aborted")
    late = tabs_of(mortal, "fickle")[0]
    for each in (tab, other, late):
        each.until("!c.isServerStreaming && !c.isRecovering && !['submitted', 'streaming'].includes(c.status)")
        each.until("c.messages.length === 1")
    assert_in_step(mortal, tab, other, late)
    tab.ask("And now?")
    for each in (tab, other, late):
        each.until_answer("You said: And now?")
    assert_in_step(mortal, tab, other, late)


def test_a_turn_that_the_agent_forgets_before_the_eyes_of_the_page_is_on_no_page(mortal: Conversation) -> None:
    tab, other = tabs_of(mortal, "resigned", count=2)
    tab.ask(TALK)
    for each in (tab, other):
        each.until_answer(HALF)
    assert mortal.until_result()["status"] == "aborted"
    for each in (tab, other):
        each.until("!c.isServerStreaming && !c.isRecovering && !['submitted', 'streaming'].includes(c.status)")
        each.until("c.messages.length === 1")
    assert_in_step(mortal, tab, other)


def test_a_turn_that_is_begun_anew_after_a_kill_shows_only_its_new_words(
    mortal: Conversation, killable_server: Reviving
) -> None:
    tab, other = tabs_of(mortal, "fickle", count=2)
    tab.ask('["One ", "two ", {"gate": "mid"}, "three."]\nretry')
    for each in (tab, other):
        each.until_answer(HALF)
    killable_server.restart()
    mortal.until_reached("mid")
    mortal.open("mid")
    for each in (tab, other):
        each.until_answer("One two three.")
        each.until_ready()
        assert len(each.texts) == 2
    assert_in_step(mortal, tab, other)


def test_a_turn_that_is_begun_anew_before_the_eyes_of_the_page_shows_only_its_new_words(
    mortal: Conversation, killable_server: Reviving
) -> None:
    tab, other = tabs_of(mortal, "forgetful", count=2)
    tab.ask(TALK)
    for each in (tab, other):
        each.until_received(RECOVERING, 2)  # it has begun anew
        each.until_answer(WHOLE)
        each.until_ready()
        assert len(each.texts) == 2
        said = [frame["body"] for frame in each.received("cf_agent_use_chat_response")]
        assert len([body for body in said if '"two "' in body]) >= 2  # the old words had been there
    assert_in_step(mortal, tab, other)
