"""`everyword tail`: a conversation as it grows, from the file and from the server, told alike."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from everyword.cli import main
from everyword.cli.commands.tail import tail
from everyword.cli.event_source import events_url
from everyword.cli.output import Output
from everyword.cli.parser import make_parser
from everyword.errors import UsageError
from everyword.testing import Gate
from tests.cli.kit import Paper, running, speaker
from tests.server.kit import ask, chat, connect, question, serving


def _told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["tail", *arguments, "--until-idle"]) == code
    return capsys.readouterr().out


def test_the_last_messages_are_told_first(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _told(capsys, "ann", "-n", "1") == "assistant\n  Hel\n"
    assert _told(capsys, "ann", "-n", "0") == ""
    assert _told(capsys, "bob") == 'user\n  pay\nassistant\n  ⚙ pay({"sum":7}) waits for approval\n'


def test_the_whole_log_is_told_from_its_start(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = _told(capsys, "dan", "--after", "0")
    assert re.sub(r"in \d+\.\d s", "in no time", text) == (
        "user\n  hello\nassistant\n  Hello, you there\n  ✓ completed in no time, 9 chunks\n"
        "  · the conversation was cleared\n"
        "user\n  escape\nassistant\n  a [31mred[0m word\n  ✓ completed in no time, 7 chunks\n"
    )
    text = _told(capsys, "ann", "--after", "0", code=1)
    assert '  ⚙ look({"at":"sea"})\n  ⚙ look → {"sky":"clear"}\n  ◆ data-chart [1,2]\n  ↗ A source https' in text
    assert "✗ error" in text and "Something went wrong" in text and "the inside of it" not in text


def test_scripts_get_every_event(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.loads(line) for line in _told(capsys, "ann", "--after", "0", "--json", code=1).splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert lines[0]["event"]["t"] == "turn.accepted"
    assert [line["event"].get("detail") for line in lines if line["event"]["t"] == "turn.ended"][-1] is not None
    rest = _told(capsys, "ann", "--after", str(lines[-3]["seq"]), "--json", code=1).splitlines()
    assert [json.loads(line) for line in rest] == lines[-2:]


def test_scripts_get_where_it_stands_and_the_events(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = _told(capsys, "bob", "--json").splitlines()
    here = json.loads(line)["here"]
    assert [message["role"] for message in here["messages"]] == ["user", "assistant"]
    assert here["open"] == {}


@asynccontextmanager
async def _tailing(*arguments: str) -> AsyncIterator[Paper]:
    """Follow an agent in the test's own loop; yield what is written."""
    paper = Paper()
    following = asyncio.create_task(tail(Output(out=paper), make_parser().parse_args(["tail", *arguments])))
    try:
        yield paper
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


@pytest.mark.parametrize("way", ["file", "url", "server"])
async def test_an_answer_grows_in_the_terminal_while_it_is_given(way: str, tmp_path: Path) -> None:
    gate, store = Gate(), str(tmp_path / "live.db")
    async with serving(chat(speaker(gate), store=store)) as url, connect(f"{url}/agents/chat/ann") as client:
        await ask(client, question("u1", "first"))
        place = {"file": ["chat/ann", "--db", store], "url": ["chat/ann", "--url", url]}
        async with _tailing(*place.get(way, [f"{url}/agents/chat/ann"])) as paper:
            await paper.until("Hello, you there")
            headers = {"prefer": "respond-async", "idempotency-key": "stay"}
            await client.post("chat", json=question("u2", "second"), headers=headers)
            await gate.reached.wait()
            await paper.until("second\nassistant\n  Hel$")
            gate.open()
            await paper.until("✓ completed")
            await ask(client, question("u3", "third"), idempotency_key="fail")
            await paper.until("✗ error")
    assert paper.getvalue().count("second") == 1 == paper.getvalue().count("third")


async def test_a_terminal_follows_a_file_beside_its_server(tmp_path: Path) -> None:
    app = chat(speaker(), store=str(tmp_path / "everyword.db"))
    async with serving(app) as url, connect(f"{url}/agents/chat/ann") as client:
        await ask(client, question("u1", "first"))
        async with running("tail", "ann", folder=tmp_path) as follower:
            await follower.until("Hello, you there")
            await ask(client, question("u2", "second"))
            await follower.until("✓ completed")
            follower.process.send_signal(signal.SIGINT)
            assert await follower.ended() == 130
        assert "Traceback" not in follower.said


class _Cut:
    """An application whose first stream of events breaks off when told to."""

    def __init__(self, behind: ASGIApp) -> None:
        self._behind, self.cut, self.cursors = behind, asyncio.Event(), list[str]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].endswith("/events"):
            return await self._behind(scope, receive, send)
        self.cursors.append(Headers(scope=scope).get("last-event-id", ""))
        if len(self.cursors) > 1:
            return await self._behind(scope, receive, send)
        serving = asyncio.create_task(self._behind(scope, receive, send))
        await self.cut.wait()
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        return None


async def test_a_tail_by_url_that_is_cut_off_goes_on_from_its_cursor() -> None:
    app = chat(speaker())
    flaky = _Cut(app)
    async with serving(flaky) as url, connect(f"{url}/agents/chat/ann") as client:
        await ask(client, question("u1", "one"))
        async with _tailing("chat/ann", "--url", url) as paper:
            await paper.until("there")
            await ask(client, question("u2", "two"))
            await paper.until("(?s)two.*completed")
            flaky.cut.set()
            await ask(client, question("u3", "three"))
            await paper.until("(?s)three.*completed")
    assert [paper.getvalue().count(word) for word in ("one", "two", "three")] == [1, 1, 1]
    assert flaky.cursors[0] == "" and int(flaky.cursors[1]) > 0


async def test_a_server_tells_the_log_from_a_cursor_and_says_when_that_was_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with serving(chat(speaker())) as url, connect(f"{url}/agents/chat/ann") as client:
        await ask(client, question("u1", "one"))
        await ask(client, question("u2", "two"))
        arguments = ["tail", "chat/ann", "--url", url, "--until-idle", "--after"]
        assert await asyncio.to_thread(main, [*arguments, "0"]) == 0
        assert capsys.readouterr().out.count("✓ completed") == 2
        assert await asyncio.to_thread(main, [*arguments, "1", "--json"]) == 0
        assert json.loads(capsys.readouterr().out.splitlines()[0])["seq"] == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["chat/ann", "--url", "http://127.0.0.1:9"], "Is the server running?"),
        (["ann", "--url", "http://localhost:1"], "give kind/name"),
        (["chat/ann", "--url", "http://localhost:1", "--header", "x"], "--header NAME=VALUE"),
        (["chat/ann", "--after", "-1"], "0 for the whole log"),
    ],
)
def test_what_cannot_be_followed_is_a_sentence(
    arguments: list[str],
    sentence: str,
    stored: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("everyword.cli.event_source.TRIES", 1)
    assert main(["tail", *arguments]) == 2
    assert sentence in capsys.readouterr().err


async def test_a_server_that_does_not_let_us_in_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    async with serving(chat(speaker())) as url:
        assert await asyncio.to_thread(main, ["tail", "nothing/ann", "--url", url]) == 2
        assert "the server responded 404" in capsys.readouterr().err


def test_an_agents_own_url_will_do() -> None:
    assert events_url("https://x.org/agents/chat/ann/", "") == "https://x.org/agents/chat/ann/events"
    assert events_url("localhost:8787", "chat/a b") == "http://localhost:8787/agents/chat/a%20b/events"
    with pytest.raises(UsageError, match="kind/name"):
        events_url("http://localhost", "ann")
