"""The playground's feed: which conversations there are and what their logs say; read-only, and behind the same door."""

from __future__ import annotations

from typing import Any

import pytest

from everyword.cli.playground import playground
from everyword.errors import ChatError
from everyword.log.memory import MemoryLog
from everyword.server import Connecting, Everyword, Principal, Reject
from everyword.server.playground import RECENT, PlaygroundFeed
from tests.server.kit import ask, chat, connect, question, scripted, serving


async def talk(url: str, name: str, text: str = "hi") -> None:
    async with connect(f"{url}/agents/chat/{name}") as client:
        await ask(client, question(f"q-{name}-{text}", text=text))


async def test_conversations_are_listed_the_newest_first_with_how_their_last_turn_stands() -> None:
    def script(turn: Any) -> list[Any]:
        return [ChatError("no")] if turn.body.get("fail") else ["fine"]

    async with serving(PlaygroundFeed(chat(scripted(script)))) as url, connect(url) as client:
        assert (await client.get("/playground/agents")).json() == {"agents": [], "left_out": 0}
        await talk(url, "ann", "the  first\nquestion")
        await talk(url, "bob", "x" * 200)
        async with connect(f"{url}/agents/chat/ann") as ann:
            await ask(ann, {**question("q2", text="again"), "fail": True})
        listed = (await client.get("/playground/agents")).json()["agents"]
        assert [(each["name"], each["status"], each["turns"]) for each in listed] == [
            ("ann", "error", 2),
            ("bob", "completed", 1),
        ]
        assert [each["preview"] for each in listed] == ["again", "x" * 89 + "…"]
        assert all(each["kind"] == "chat" and each["at"] > 0 for each in listed)


async def test_the_log_is_read_by_cursor_with_times_and_without_what_is_long() -> None:
    async with serving(PlaygroundFeed(chat(scripted(["one ", "two"])))) as url, connect(url) as client:
        await talk(url, "ann")
        read = (await client.get("/playground/log", params={"agent": "chat/ann"})).json()
        kinds = [event["t"] for event in read["events"]]
        assert kinds[:3] == ["turn.accepted", "attempt.started", "chunk"]
        assert {"message.ended", "turn.ended"} <= set(kinds)
        assert [event["seq"] for event in read["events"]] == list(range(1, read["head"] + 1))
        assert all(event["at"] > 0 and event["size"] > 0 for event in read["events"])
        assert not any({"messages", "message", "body"} & event.keys() for event in read["events"])
        chunks = [event["chunk"] for event in read["events"] if event["t"] == "chunk"]
        assert {"type": "text-delta"} in chunks

        rest = (await client.get("/playground/log", params={"agent": "chat/ann", "after": 3})).json()
        assert rest["events"] == read["events"][3:]
        whole = (await client.get("/playground/log", params={"agent": "chat/ann", "seq": 1})).json()["event"]
        assert whole["messages"][0]["message"]["parts"] == [{"type": "text", "text": "hi"}]
        assert (await client.get("/playground/log", params={"agent": "chat/ann", "seq": 999})).status_code == 404


async def test_a_reader_without_a_cursor_gets_the_newest_events_of_a_long_log() -> None:
    words = [f"{number} " for number in range(RECENT + 300)]
    async with serving(PlaygroundFeed(chat(scripted(words)))) as url, connect(url) as client:
        await talk(url, "ann")
        read = (await client.get("/playground/log", params={"agent": "chat/ann"})).json()
        assert read["events"][0]["seq"] == read["head"] - RECENT + 1
        assert len(read["events"]) < RECENT  # in pages: the cursor goes on from the last


async def test_looking_changes_nothing_and_makes_no_agent() -> None:
    store = MemoryLog()
    async with serving(PlaygroundFeed(chat(scripted(["x"]), store=store))) as url, connect(url) as client:
        assert (await client.get("/playground/log", params={"agent": "chat/new"})).json() == {"head": 0, "events": []}
        assert await store.agents() == []
        for method in ("POST", "PUT", "DELETE"):
            answer = await client.request(method, "/playground/log", params={"agent": "chat/new"})
            assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
        await talk(url, "ann")
        before = (await client.get("/playground/log", params={"agent": "chat/ann"})).json()
        await client.get("/playground/agents")
        assert (await client.get("/playground/log", params={"agent": "chat/ann"})).json() == before


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"agent": "chat/ann", "after": "x"}, 400),
        ({"agent": "chat/ann", "seq": "-1"}, 400),
        ({"agent": "nobody/ann"}, 404),
        ({"agent": "chat"}, 404),
        ({}, 404),
    ],
)
async def test_what_cannot_be_read_is_refused_with_a_sentence(asked: dict[str, str], status: int) -> None:
    async with serving(PlaygroundFeed(chat(scripted(["x"])))) as url, connect(url) as client:
        await talk(url, "ann")
        answer = await client.get("/playground/log", params=asked)
        assert (answer.status_code, answer.text.startswith("unable to ")) == (status, True)
        assert (await client.get("/playground/secrets")).status_code == 404


async def test_no_client_is_shown_a_conversation_that_it_may_not_use() -> None:
    async def authorize(who: Connecting) -> Principal | Reject:
        said = who.request.query_params.get("as") or who.request.headers.get("x-user")
        return Principal(said) if said == who.name else Reject("unable to open the chat; that is not yours")

    app = chat(scripted(["x"]), authorize=authorize)
    async with serving(PlaygroundFeed(app)) as url, connect(url) as client:
        for name in ("ann", "bob"):
            async with connect(f"{url}/agents/chat/{name}", headers={"x-user": name}) as own:
                await ask(own, question(f"q-{name}"))
        listed = (await client.get("/playground/agents", params={"as": "bob"})).json()["agents"]
        assert [each["name"] for each in listed] == ["bob"]
        assert (await client.get("/playground/agents")).json()["agents"] == []
        refused = await client.get("/playground/log", params={"agent": "chat/ann", "as": "bob"})
        assert (refused.status_code, "that is not yours" in refused.text) == (403, True)


async def test_strangers_and_pages_of_other_sites_are_refused() -> None:
    async with serving(PlaygroundFeed(chat(scripted(["x"])))) as url, connect(url) as client:
        for headers in ({"host": "evil.example"}, {"x-forwarded-for": "9.9.9.9"}, {"origin": "https://evil.example"}):
            for path in ("/playground/agents", "/playground/log?agent=chat/ann"):
                assert (await client.get(path, headers=headers)).status_code == 403, (path, headers)


async def test_an_app_alone_has_no_feed_and_a_playground_has_page_feed_and_agents() -> None:
    class Chat(scripted(["x"])):  # type: ignore[misc]
        suggestions = (("Say hi", "it greets"),)

    app = Everyword([Chat], store="memory:")
    async with serving(app) as url, connect(url) as client:
        assert (await client.get("/playground/agents")).status_code == 404
        assert (await client.get("/playground/log?agent=chat/ann")).status_code == 404
    async with serving(playground(Everyword([Chat], store="memory:"))) as url, connect(url) as client:
        settings = (await client.get("/settings.json")).json()
        assert (settings["feed"], settings["suggestions"]) == ("/playground", {"chat": [["Say hi", "it greets"]]})
        assert (await client.get("/playground/agents")).status_code == 200
        assert (await client.get("/")).headers["content-type"].startswith("text/html")
        assert (await client.get("/agents/chat/ann/get-messages")).json() == []
