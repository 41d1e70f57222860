"""The support desk: sessions, who may do what, crashes, mails, links, deleted data. Its page: tests/browser."""

from __future__ import annotations

import asyncio
import importlib
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import httpx
import pytest

from everyword.client import ChatClient
from tests.cli.kit import ROOT
from tests.server.kit import PATIENCE, connect, serving
from tests.server.test_shared_pages import without_nonce

MODULES = ("script", "desk", "people", "mail", "accounts", "app")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example's modules, imported anew in a folder of its own and without pauses."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DESK_PAUSE", "0")
    monkeypatch.setenv("DESK_DELAY", "0")
    loaded = [importlib.reload(importlib.import_module(f"examples.support_desk.{name}")) for name in MODULES]
    return loaded[-1]


class Visitor:
    """One signed-in user of the desk."""

    def __init__(self, url: str, http: httpx.AsyncClient) -> None:
        self.url, self.http = url, http

    @asynccontextmanager
    async def chat(self, name: str) -> AsyncIterator[ChatClient]:
        cookie = "; ".join(f"{key}={value}" for key, value in self.http.cookies.items())
        async with ChatClient(self.url, "support", name, headers={"cookie": cookie}) as chat:
            yield chat

    async def get(self, path: str) -> Any:
        response = await self.http.get(path)
        assert response.status_code == 200, response.text
        return response.json()

    async def until(self, path: str, key: str, count: int) -> list[Any]:
        """Ask until the list has so many items."""
        while len(found := (await self.get(path))[key]) < count:
            pass
        return list(found)


@asynccontextmanager
async def visiting(url: str, user: str) -> AsyncIterator[Visitor]:
    async with connect(url) as http:
        assert (await http.post("/login", json={"user": user})).status_code == 200
        yield Visitor(url, http)


@asynccontextmanager
async def opened(desk: Any, *users: str) -> AsyncIterator[list[Visitor]]:
    async with asyncio.timeout(PATIENCE), serving(desk.app) as url:
        if len(users) == 1:
            async with visiting(url, users[0]) as one:
                yield [one]
        else:
            async with visiting(url, users[0]) as one, visiting(url, users[1]) as two:
                yield [one, two]


async def test_staff_approves_a_refund_and_is_the_only_one_who_may(desk: Any) -> None:
    async with opened(desk, "ann", "mia") as (ann, mia), ann.chat("ann-1") as chat:
        await chat.send("I want a refund for order 1002")
        (own,) = (await ann.get("/agents/approvals"))["approvals"]
        assert own["mayAnswer"] is False
        (waits,) = (await mia.get("/agents/approvals?scope=all"))["approvals"]
        assert (waits["summary"], waits["risk"], waits["mayAnswer"]) == (
            *("Pay back 249.00 € for order 1002", "high"),
            True,
        )
        path = f"/agents/approvals/{waits['id']}"
        assert (await ann.http.post(path, json={"approved": True})).status_code == 403
        answered = await mia.http.post(path, json={"approved": True, "reason": "was broken"})
        assert answered.status_code == 200
        again = await mia.http.post(path, json={"approved": False})
        assert (again.status_code, "Mia approved this call before" in again.text) == (409, True)
        await desk.agents.get(desk.Support, "ann-1").wait_until_stable()
        (entry,) = (await ann.get("/agents/conversations"))["conversations"]
        assert entry["title"] == "Refund for order 1002"
        assert entry["preview"].startswith("Done: I have paid 249.00 € back")
        (record,) = (await mia.get("/agents/approvals?scope=all&settled=1"))["approvals"]
        assert (record["status"], record["settledBy"]["name"], record["reason"]) == ("approved", "Mia", "was broken")


async def test_a_customer_decides_about_its_address_and_staff_does_not(desk: Any) -> None:
    async with opened(desk, "ann", "mia") as (ann, mia), ann.chat("ann-1") as chat:
        await chat.send("Send order 1003 to 5 Mill Lane")
        (waits,) = (await mia.get("/agents/approvals?scope=all"))["approvals"]
        assert waits["mayAnswer"] is False
        path = f"/agents/approvals/{waits['id']}"
        assert (await mia.http.post(path, json={"approved": True})).status_code == 403
        assert (await ann.http.post(path, json={"approved": True})).status_code == 200
        await desk.agents.get(desk.Support, "ann-1").wait_until_stable()
        async for messages in chat.watch():
            if messages[-1].text.endswith("Done: order 1003 goes to 5 Mill Lane."):
                break


async def test_customers_have_their_own_conversations_and_staff_sees_all(desk: Any) -> None:
    async with opened(desk, "ann", "bob") as (ann, bob), ann.chat("ann-1") as chat:
        await chat.send("What can you do?")
        assert (await bob.get("/agents/conversations?scope=all"))["conversations"] == []
        assert (await bob.http.get("/agents/support/ann-1/get-messages")).status_code == 403
        assert (await bob.http.delete("/agents/conversations/support/ann-1")).status_code == 403
        async with visiting(ann.url, "sam") as sam:
            (entry,) = (await sam.get("/agents/conversations?scope=all"))["conversations"]
            assert (entry["name"], entry["unread"]) == ("ann-1", 2)
            assert (await sam.http.delete("/agents/conversations/support/ann-1")).status_code == 403
        assert (await ann.http.delete("/agents/conversations/support/ann-1")).status_code == 204


@pytest.mark.parametrize("change", ["", "x", "mia.99999999999.", "no cookie"])
async def test_a_session_that_was_not_signed_here_is_none(desk: Any, change: str) -> None:
    async with opened(desk, "ann") as (ann,):
        (name, value), *_ = ann.http.cookies.items()
        signature = value.rpartition(".")[2]
        assert (await ann.get("/session"))["user"]["id"] == "ann"
        ann.http.cookies.clear()
        if change != "no cookie":
            ann.http.cookies.set(name, f"{change}{signature}")
        assert (await ann.get("/session"))["user"] is None
        assert (await ann.http.get("/agents/conversations")).status_code == 401
        assert (await ann.http.get("/mails")).status_code == 401
        assert (await ann.http.post("/login", json={"user": "eve"})).status_code == 404


async def test_staff_and_customers_get_mails_about_what_they_do_not_see(desk: Any) -> None:
    async with opened(desk, "ann", "mia") as (ann, mia):
        async with ann.chat("ann-1") as chat:
            await chat.send("I want a refund for order 1002")
        (asked,) = await mia.until("/mails", "mails", 1)
        assert asked["subject"] == "Please approve: Pay back 249.00 € for order 1002"
        (waits,) = (await mia.get("/agents/approvals?scope=all"))["approvals"]
        assert asked["link"].endswith(f"/agents/approvals/{waits['id']}")
        page = await mia.http.get(f"/agents/approvals/{waits['id']}", headers={"accept": "text/html"})
        assert (page.status_code, "Approve" in page.text) == (200, True)
        await mia.http.post(f"/agents/approvals/{waits['id']}", json={"approved": False, "reason": "too late"})
        (told,) = await ann.until("/mails", "mails", 1)
        assert told["text"].startswith("I am sorry, this was not approved. The reason: too late")


async def test_a_webhook_is_taken_if_it_is_signed(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(desk, "mia") as (mia,):
        refused = await mia.http.post("/hooks/everyword", json={"type": "turn.ended"})
        assert (refused.status_code, (await mia.get("/mails"))["webhooks"]) == (400, [])


def test_its_own_tests_run_as_the_readme_says(tmp_path: Path) -> None:
    """They are for readers who copy the example, so they run in a copy, without this project's settings for pytest."""
    folder = ROOT / "examples" / "support_desk"
    ignored = shutil.ignore_patterns("node_modules", "main.js", "__pycache__")
    shutil.copytree(folder, tmp_path / "examples" / "support_desk", ignore=ignored)
    readme = (folder / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^\$ .*?(python -m pytest .*)$", readme, re.MULTILINE)
    command = [sys.executable, *shlex.split(line)[1:], "-p", "no:cacheprovider"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " 5 passed in " in ran.stdout


async def test_only_customers_share_and_only_their_own_conversations(desk: Any) -> None:
    async with opened(desk, "ann", "bob") as (ann, bob), ann.chat("ann-1") as chat:
        await chat.send("What can you do?")
        path = "/agents/conversations/support/ann-1/shares"
        async with visiting(ann.url, "mia") as mia, connect(ann.url) as reader:
            for other in (bob, mia):
                assert (await other.http.post(path, json={})).status_code == 403
                assert (await other.http.get(path)).status_code == 403
            made = await ann.http.post(path, json={"frozen": False, "expiresIn": 7 * 24 * 3600, "tools": "none"})
            assert made.status_code == 201, made.text
            page = await reader.get(made.json()["path"])
            assert (page.status_code, "I can look orders up" in page.text) == (200, True)
            assert "Ann" not in without_nonce(page.text) and "ann-1" not in page.text
            (listed,) = (await ann.get(path))["shares"]
            assert (await bob.http.delete(f"{path}/{listed['id']}")).status_code == 403
            assert (await ann.http.delete(f"{path}/{listed['id']}")).status_code == 204
            assert (await reader.get(made.json()["path"])).status_code == 404


async def test_a_customer_downloads_what_is_stored_about_it_and_nothing_of_others(desk: Any) -> None:
    async with opened(desk, "ann", "bob") as (ann, bob), visiting(ann.url, "mia") as mia:
        async with ann.chat("ann-1") as chat:
            await chat.send("I want a refund for order 1002")
        (waits,) = (await mia.get("/agents/approvals?scope=all"))["approvals"]
        await mia.http.post(f"/agents/approvals/{waits['id']}", json={"approved": True})
        async with bob.chat("bob-1") as chat:
            await chat.send("What about my zebra?")
        await ann.until("/mails", "mails", 1)
        answer = await ann.http.get("/account/data")
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
        archive = ZipFile(io.BytesIO(answer.content))
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
        assert "I want a refund for order 1002" in texts["conversations/0001/messages.jsonl"]
        assert json.loads(texts["account.json"])["name"] == "Ann"
        assert json.loads(texts["mails.jsonl"])["to"] == "ann"
        assert not [name for name, text in texts.items() if "zebra" in text]
        async with connect(ann.url) as nobody:
            assert (await mia.http.get("/account/data")).status_code == 403
            assert (await nobody.get("/account/data")).status_code == 401


async def test_a_customer_deletes_its_data_and_staff_sees_that_it_did(desk: Any) -> None:
    async with opened(desk, "ann", "mia") as (ann, mia), visiting(ann.url, "bob") as bob:
        async with bob.chat("bob-1") as chat:
            await chat.send("What can you do?")
        async with ann.chat("ann-zebra") as chat:
            await chat.send("I want a refund for order 1002, says zebra")
        (waits,) = (await mia.get("/agents/approvals?scope=all"))["approvals"]
        await mia.http.post(f"/agents/approvals/{waits['id']}", json={"approved": True, "reason": "zebra was broken"})
        await mia.until("/mails", "mails", 1)
        await ann.until("/mails", "mails", 1)
        old = dict(ann.http.cookies)

        for refused in (ann.http.post("/account/delete", json={"name": "Bob"}), ann.http.post("/account/delete")):
            assert (await refused).status_code in (400, 422)
        assert (await mia.http.post("/account/delete", json={"name": "Mia"})).status_code == 403
        assert len((await ann.get("/agents/conversations"))["conversations"]) == 1
        deleted = await ann.http.post("/account/delete", json={"name": "Ann"})
        report = deleted.json()
        assert (deleted.status_code, report["isComplete"], report["conversations"]) == (200, True, 1)
        assert report["mails"] >= 1

        # It is signed out, here and wherever else it was.
        assert (await ann.get("/session"))["user"] is None
        ann.http.cookies.update(old)
        assert (await ann.get("/session"))["user"] is None
        assert (await ann.http.get("/agents/conversations")).status_code == 401

        # Staff sees a mark and no words; the other customer's data is there.
        (mark,) = (await mia.get("/erasures"))["erasures"]
        assert (mark["id"], mark["conversations"]) == (report["id"], 1)
        paths = ("/erasures", "/mails", "/agents/approvals?scope=all&settled=1", "/agents/conversations?scope=all")
        for path in paths:
            text = json.dumps(await mia.get(path))
            assert "zebra" not in text and "ann" not in text.lower(), (path, text)
        (kept,) = (await bob.get("/agents/conversations"))["conversations"]
        assert kept["name"] == "bob-1"
        assert (await bob.http.get("/erasures")).status_code == 403

        # A new sign-in begins with nothing.
        ann.http.cookies.clear()
        assert (await ann.http.post("/login", json={"user": "ann"})).status_code == 200
        assert (await ann.get("/agents/conversations"))["conversations"] == []
        assert (await ann.get("/mails"))["mails"] == []


async def test_nobody_signs_in_while_its_data_is_being_deleted(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    held, begun = asyncio.Event(), asyncio.Event()
    erase = desk.agents.principals.erase

    async def slow(principals: Any, principal: str) -> Any:
        begun.set()
        await held.wait()
        return await erase(principal)

    monkeypatch.setattr(type(desk.agents.principals), "erase", slow)
    async with opened(desk, "ann") as (ann,), asyncio.TaskGroup() as tasks:
        deleting = tasks.create_task(ann.http.post("/account/delete", json={"name": "Ann"}))
        await begun.wait()
        assert (await ann.http.get("/agents/conversations")).status_code == 401
        assert (await ann.http.post("/login", json={"user": "ann"})).status_code == 409
        assert (await ann.http.post("/login", json={"user": "bob"})).status_code == 200
        held.set()
        assert (await deleting).json()["isComplete"] is True
        assert (await ann.http.post("/login", json={"user": "ann"})).status_code == 200
