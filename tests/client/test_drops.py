"""A chat client on a failing network: cut before every frame, in both directions, and disconnected for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from everyword.client import ChatClient, ChatFailed
from everyword.errors import ChatError
from everyword.ids import Millis
from everyword.testing import Gate
from tests.client.kit import client, is_growing, patiently, port_of, shown_is_stored, snapshots, until_text
from tests.client.network import network
from tests.client.test_chat import FINISH, asks, call, two_steps
from tests.server.kit import chat, scripted, serving

MOST_FRAMES = 40
"""More frames than any conversation of these tests has."""


def locate() -> str:
    return "at sea"


SCRIPTS: dict[str, tuple[Any, str]] = {
    "text": (["Hel", "lo ", "wor", "ld"], "Hello world"),
    "tool": (two_steps(["Where? ", call("locate", {}), FINISH], ["There ", "you are."]), "Where? There you are."),
    "approval": (two_steps(["May I? ", call("pay", {}), asks(), FINISH], ["Tha", "nks."]), "May I? Thanks."),
    "error": (["Half", ChatError("shown")], "Half"),
}


async def converse(me: ChatClient) -> tuple[str, str | None]:
    """Ask one question and approve every call; return the texts and the error."""
    seen = []
    reply = me.send("hi")
    try:
        async with asyncio.timeout(20):
            async for message in reply:
                seen.append(message)
                for part in me.pending_approvals:
                    await me.approve(part["toolCallId"])
    except ChatFailed as failed:
        return seen[-1].text, str(failed)
    finally:
        assert is_growing(seen), [message.text for message in seen]
    assert reply.outcome == "completed"
    return seen[-1].text, None


@pytest.mark.parametrize("kind", SCRIPTS)
@pytest.mark.parametrize("direction", ["down", "up"])
async def test_an_answer_is_complete_wherever_the_connection_breaks(kind: str, direction: str) -> None:
    """The connection is reset before the n-th frame after the greeting, for every n."""
    script, text = SCRIPTS[kind]
    cuts = 0
    async with serving(chat(scripted(script))) as url:
        for cut in range(MOST_FRAMES):
            async with network(port_of(url)) as between:
                if direction == "down":
                    between.cut_after = 5 + cut
                else:
                    between.cut_upwards_after = 1 + cut
                async with client(between.url, f"{kind}-{direction}-{cut}", tools=[locate]) as me:
                    said = await converse(me)
                    assert said == (text, "shown" if kind == "error" else None)
                    assert [message.role for message in me.messages] == ["user", "assistant"]
                    assert await shown_is_stored(me)
                    was_cut = between.cut_after is None and between.cut_upwards_after is None
            if not was_cut:
                break
            cuts += 1
    assert 0 < cuts < MOST_FRAMES


@pytest.mark.parametrize("others", [False, True], ids=["idle again", "another answer runs"])
async def test_an_answer_that_ended_during_a_disconnect_is_complete(others: bool) -> None:
    gate, second = Gate(), Gate()

    def script(turn: Any) -> list[Any]:
        return ["Second ", second, "answer"] if turn.body.get("second") else ["First ", gate, "answer"]

    async with serving(chat(scripted(script))) as url, network(port_of(url)) as between, client(url) as other:
        async with client(between.url) as me:
            reply = me.send("hi")
            await until_text(me, "First ")
            await until_text(other, "First ")
            between.is_down = True
            between.drop()
            gate.open()
            await until_text(other, "First answer")
            if others:
                other.send("more", body={"second": True})
                await until_text(other, "Second ")
            between.is_down = False
            seen = await snapshots(reply)
            assert is_growing(seen)
            assert seen[-1].text == "First answer"
            assert reply.outcome == "completed"
            second.open()
            await until_text(me, "Second answer" if others else "First answer")
            await patiently(other.connection.until(lambda: other.status == "ready"))
            assert await shown_is_stored(me)


async def test_a_question_without_a_network_is_sent_once_there_is_one() -> None:
    agent = scripted(["Hello"])
    async with serving(chat(agent)) as url, network(port_of(url)) as between, client(between.url) as me:
        between.is_down = True
        between.drop()
        await patiently(me.connection.until(lambda: not me.agent.is_connected))
        reply = me.send("hi")
        assert me.status == "submitted"
        between.is_down = False
        assert (await snapshots(reply))[-1].text == "Hello"
        assert len(agent.turns) == 1
        assert await shown_is_stored(me)


async def test_a_clear_during_a_disconnect_ends_the_clients_question() -> None:
    gate = Gate()
    async with (
        serving(chat(scripted(["One ", gate]))) as url,
        network(port_of(url)) as between,
        client(url) as other,
    ):
        async with client(between.url) as me:
            reply = me.send("hi")
            await until_text(me, "One ")
            between.is_down = True
            between.drop()
            await patiently(other.clear())
            between.is_down = False
            await snapshots(reply)
            assert reply.outcome in ("aborted", "skipped")
            assert me.messages == []
            assert await shown_is_stored(me)


COMMANDS: dict[str, Callable[[ChatClient], Any]] = {"stop": lambda me: me.stop(), "clear": lambda me: me.clear()}


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_command_without_a_network_is_sent_once_there_is_one(command: str) -> None:
    gate = Gate()
    async with serving(chat(scripted(["One ", gate]))) as url, network(port_of(url)) as between:
        async with client(between.url) as me:
            reply = me.send("hi")
            await until_text(me, "One ")
            between.is_down = True
            between.drop()
            await patiently(me.connection.until(lambda: not me.agent.is_connected))
            doing = asyncio.create_task(COMMANDS[command](me))
            await asyncio.sleep(0)
            between.is_down = False
            await patiently(doing)
            await snapshots(reply)
            assert reply.outcome == "aborted"
            assert await shown_is_stored(me)
            assert (me.messages == []) is (command == "clear")


async def test_server_sent_events_resume_from_the_cursor() -> None:
    gate = Gate()
    async with serving(chat(scripted(["Hel", "lo ", gate, "wor", "ld"]))) as url, network(port_of(url)) as between:
        async with client(url) as asking, client(between.url) as me:
            reply = asking.send("hi")
            await until_text(asking, "Hello ")
            seen = []
            async with asyncio.timeout(20):
                async for message in me.follow_sse():
                    seen.append(message)
                    if message.text == "Hello ":
                        between.drop()
                        gate.open()
            await snapshots(reply)
            assert is_growing(seen)
            assert seen[-1] == asking.messages[-1]


async def test_server_sent_events_that_were_pruned_are_not_repeated() -> None:
    """Only the message of an ended turn is left: the server sends all of it, and the client adds only the rest."""
    gate = Gate()
    app = chat(scripted(["Hel", "lo ", gate, "wor", "ld"]))
    async with serving(app) as url, network(port_of(url)) as between:
        async with client(url) as asking, client(between.url) as me:
            reply = asking.send("hi")
            await until_text(asking, "Hello ")
            seen = []
            async with asyncio.timeout(20):
                async for message in me.follow_sse():
                    seen.append(message)
                    if message.text == "Hello ":
                        between.is_down = True
                        between.drop()
                        gate.open()
                        await snapshots(reply)
                        store = (await app.start()).directory.store
                        assert (await store.prune(Millis(2**52))).chunks > 0
                        between.is_down = False
            assert is_growing(seen)
            assert seen[-1].text == "Hello world"
            assert seen[-1] == asking.messages[-1]
