"""`assert_parity` agrees with what is right, and finds what is not: tests with a seeded bug name the client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from everyword import AIChatAgent, Everyword, Think, Turn, tool
from everyword.errors import ChatError, UsageError
from everyword.server import event_streams
from everyword.testing import (
    Approve,
    AskAndStop,
    Call,
    Deny,
    Give,
    Once,
    Reasoning,
    Regenerate,
    ScriptedModel,
    assert_parity,
)
from everyword.testing.observers import find_difference
from everyword.wire.chat_view import ChatView


def chatting(*answers: Any) -> type[AIChatAgent]:
    model = ScriptedModel(*answers)

    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
            async for chunk in model.stream(self.messages):
                yield chunk

    return Chat


class Support(Think):
    """Has a tool of every kind."""

    model = ScriptedModel(
        [
            Reasoning("hm"),
            "Looking. ",
            Call("find", {"number": "7"}),
            "Found. ",
            Call("refund", {"amount": 5.0}),
            "Done.",
        ],
        ["Where? ", Call("where"), "There."],
        ["a ", "long ", "answer"],
        "last",
    )

    @tool
    async def find(self, number: str) -> str:
        return f"order {number}"

    @tool(needs_approval=True)
    async def refund(self, amount: float) -> str:
        return f"{amount} back"

    @tool(client=True)
    async def where(self) -> str: ...


@pytest.mark.obligation("000-9.1")
async def test_an_answer_is_the_same_for_all_clients_after_any_cut_or_crash() -> None:
    parity = await assert_parity(chatting(["Hel", "lo ", "world"]), "hi")
    assert parity.cuts == 6  # before the first item, and after each: a step's start, three words, a step's end
    assert parity.kills >= 12
    assert parity.comparisons > 200


@pytest.mark.obligation("000-9.1", "000-9.3")
async def test_an_error_is_the_same_for_every_client() -> None:
    parity = await assert_parity(chatting("fine", ["half ", ChatError("No luck.")]), ["hi", "and?"], every=2)
    assert parity.cuts > 2 and parity.kills > 8


@pytest.mark.slow
async def test_tools_approvals_stops_and_retries_are_the_same_for_every_client() -> None:
    script = ["hi", Approve("refund"), "and?", Give("where", "here"), AskAndStop("x", 2), Regenerate(), "bye"]
    parity = await assert_parity(Support, script, every=7)
    assert parity.cuts > 5 and parity.kills > 15


async def test_a_refusal_is_the_same_for_every_client() -> None:
    parity = await assert_parity(Support, ["hi", Deny("refund", "no")], every=6)
    assert parity.cuts > 3 and parity.kills > 8


@pytest.mark.parametrize("word", [Approve("refund"), Deny("refund", "no")], ids=["approved", "denied"])
async def test_a_chunk_after_the_next_answer_is_the_same_for_every_client(word: Approve | Deny) -> None:
    class Bank(Support):
        model = ScriptedModel(["May I? ", Call("refund", {"amount": 5.0}), "Done."], "else", "last")

    parity = await assert_parity(Bank, ["hi", "and?", word, "bye"], every=4)
    assert parity.cuts > 2 and parity.kills > 8


async def test_a_call_of_the_pages_tool_that_a_death_cut_off_is_settled() -> None:
    class Guide(Support):
        model = ScriptedModel([Call("where"), "There."])

    parity = await assert_parity(Guide, ["Where?", Give("where", "here")], cuts=False)
    assert parity.kills > 12


async def test_an_app_and_a_function_that_makes_one_are_taken_as_well() -> None:
    class Passing(ChatError):
        retryable = True

    def made() -> Everyword:
        return Everyword([chatting(["half ", Once(Passing("busy")), "whole"]), Support])

    parity = await assert_parity(made, "hi", kind="chat", kills=False)
    assert parity.cuts > 2 and parity.kills == 0
    with pytest.raises(UsageError, match="which kind"):
        await assert_parity(made, "hi")


# -- with a bug seeded ----------------------------------------------------------------------------------------------


class Forgetful(AIChatAgent):
    """Begins anew when it is asked to go on."""

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[str]:
        for word in ("Hel", "lo ", "world"):
            yield word


async def test_an_agent_that_repeats_itself_after_a_death_is_found() -> None:
    assert (await assert_parity(Forgetful, "hi", kills=False)).cuts == 4
    with pytest.raises(AssertionError) as found:
        await assert_parity(Forgetful, "hi", cuts=False)
    assert "killed after append" in str(found.value)
    assert "messages[1].text is 'HelHello world' instead of 'Hello world'" in str(found.value)
    assert (await assert_parity(Forgetful, "hi", cuts=False, is_seamless=False)).kills > 6


async def test_a_replay_that_loses_a_word_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ChatView.replayed
    monkeypatch.setattr(ChatView, "replayed", lambda view, told: whole(view, replace(told, chunks=told.chunks[:-1])))
    with pytest.raises(AssertionError) as found:
        await assert_parity(chatting(["Hel", "lo ", "world"]), "hi", kills=False)
    assert "cut after item 1 of answer 1: a late tab differs from the tab that asks" in str(found.value)


async def test_an_event_stream_that_hides_an_error_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    true = event_streams.terminal_events
    monkeypatch.setattr(
        event_streams, "terminal_events", lambda *args, **more: true(*args, **{**more, "error": "Oops."})
    )
    with pytest.raises(AssertionError) as found:
        await assert_parity(chatting(["half ", ChatError("No luck.")]), "hi")
    assert "in peace: an event stream differs from what is stored" in str(found.value)
    assert "error text[0] is 'Oops.' instead of 'No luck.'" in str(found.value)


async def test_a_store_that_forgets_a_message_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from everyword.server import transcript_resource

    shown = transcript_resource._shown

    async def forgetting(directory: Any, agent: Any, *, reserve: bool) -> Any:
        return (await shown(directory, agent, reserve=reserve))[:-1]

    monkeypatch.setattr(transcript_resource, "_shown", forgetting)
    with pytest.raises(AssertionError, match="the tab that asks differs from what is stored"):
        await assert_parity(chatting("hello"), "hi")


def test_a_difference_is_named_by_its_place() -> None:
    one = {"parts": [{"text": "a"}, {"text": "b"}]}
    assert find_difference(one, one, "m") is None
    assert (
        find_difference(one, {"parts": [{"text": "a"}, {"text": "c"}]}, "m") == "m.parts[1].text is 'c' instead of 'b'"
    )
    assert find_difference(one, {"parts": [{"text": "a"}]}, "m") == "m.parts has 1 entries instead of 2"
    assert find_difference(one, {}, "m") == "m.parts is missing"
    assert find_difference({}, {"x": 1}, "m") == "m.x should not be there: 1"
