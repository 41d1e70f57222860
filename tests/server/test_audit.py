"""The audit trail: what is recorded of clients and of the log, and what happens when it cannot be written."""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from websockets.asyncio.client import connect as open_socket

from everyword import Everyword, Principal
from everyword.cli import main
from everyword.errors import NotRecorded, UsageError
from everyword.ids import Millis
from everyword.observe import AccessDecision, Audit, AuditRecord, Observer
from everyword.observe.audit_file import AuditFile, encode_record
from everyword.principals import acting_as
from tests.server.kit import connect, question, serving, talking
from tests.server.sockets import socket
from tests.server.test_lists import Chat, Till, by_header, own_names, user


def app_with(*observers: Observer, store: str = "memory:") -> Everyword:
    app = Everyword([Chat, Till], store=store, authenticate=by_header, authorize=own_names, observe=observers)
    app.grace = 0.0
    return app


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def record(action: str = "read", **fields: Any) -> AuditRecord:
    return AuditRecord(Millis(0), action, "done", "chat", "ann", **fields)


async def test_decisions_and_events_are_lines_with_who_did_what(tmp_path: Path) -> None:
    Till.paid, path = [], tmp_path / "audit.jsonl"
    app = app_with(Audit(path))
    async with serving(app) as url, connect(url) as client:
        ask = await client.post("/agents/till/ann-1/chat?token=hidden", json=question(), headers=user("ann"))
        assert ask.status_code == 200
        assert (await client.get("/agents/till/ann-1/get-messages", headers=user("bob"))).status_code == 403
        assert (await client.get("/agents/till/ann-1/get-messages?token=hidden")).status_code == 401
        (waits,) = (await client.get("/approvals", headers=user("ann"))).json()["approvals"]
        said = {"approved": True, "reason": "fine"}
        for who in ("ann", "boss"):
            await client.post(f"/approvals/{waits['id']}", json=said, headers=user(who))
        await app.get(Till, "ann-1").wait_until_stable()
        await app.destroy(Till, "ann-1")
    found = lines(path)
    assert "hidden" not in path.read_text() and "claims" not in path.read_text()
    assert all(each["time"].endswith("+00:00") for each in found)

    def only(**wanted: Any) -> dict[str, Any]:
        (one,) = [each for each in found if all(each.get(name) == value for name, value in wanted.items())]
        return one

    asked = only(action="ask", outcome="allowed")
    assert (asked["principal"]["id"], asked["kind"], asked["name"]) == ("ann", "till", "ann-1")
    assert asked["what"] == {"resource": "chat", "method": "POST"}
    refused = only(action="read", outcome="refused")
    assert refused["principal"]["id"] == "bob" and "not allowed" in refused["why"]
    stranger = only(action="authenticate", outcome="refused")
    assert "principal" not in stranger and stranger["what"] == {"path": "/agents/till/ann-1/get-messages"}
    assert only(action="list")["what"]["shown"] == [waits["id"]]
    denied = only(action="answer", outcome="refused")
    assert denied["principal"]["id"] == "ann" and denied["what"]["approval"] == waits["id"]
    assert only(action="answer", outcome="allowed")["principal"]["id"] == "boss"
    assert only(action="request-approval")["what"]["approvers"] == ["boss"]
    answered = only(action="answer", outcome="committed")
    assert answered["principal"]["id"] == "boss" and answered["id"].startswith("till/ann-1#")
    shown = {name: answered["what"][name] for name in ("tool", "approved", "reason", "arguments")}
    assert shown == {"tool": "pay", "approved": True, "reason": "fine", "arguments": {"amount": 5}}
    assert only(action="destroy")["outcome"] == "done"


async def test_readers_of_links_are_recorded_without_the_secret_of_the_link() -> None:
    records: list[AuditRecord] = []
    app = app_with(Audit(records.append))
    async with serving(app) as url, connect(url) as client:
        await app.start()
        await app.get(Chat, "ann-1").for_principal(Principal("ann")).save_messages("hi")
        share = await app.shares.create(Chat, "ann-1", frozen=False)
        part = await (await app.attachments.of(Chat, "ann-1")).put(b"a file", "text/plain")
        signed = await app.attachments.signed_url(Chat, "ann-1", part)
        for path in (share.path, f"{share.path}.json", f"{share.path}/files/{'0' * 64}", signed, f"{signed}x"):
            await client.get(str(path))
        async with client.stream("GET", f"{share.path}/stream") as response:
            assert response.status_code == 200
        assert await app.shares.revoke(Chat, "ann-1", share.id)
        assert (await client.get(str(share.path))).status_code == 404
    found = [
        (each.outcome, each.name, each.what.get("share"), str(each.what["resource"]).partition("s/")[0])
        for each in records
        if each.action == "read"
    ]
    assert found == [
        ("allowed", "ann-1", share.id, "shared/html"),
        ("allowed", "ann-1", share.id, "shared/json"),
        ("allowed", "ann-1", share.id, "shared/file"),
        ("allowed", "ann-1", None, "attachment"),
        ("refused", "ann-1", None, "attachment"),
        ("allowed", "ann-1", share.id, "shared/stream"),
        ("refused", "", None, "shared/html"),
    ]
    said = b"".join(map(encode_record, records)).decode()
    assert str(share.token) not in said and signed.partition("signature=")[2] not in said
    assert all(each.principal is None for each in records if each.action == "read")


async def test_with_required_records_a_link_shows_nothing_that_is_not_recorded() -> None:
    def broken(each: AuditRecord) -> None:
        if each.action == "read":
            raise OSError("disk full")

    app = app_with(Audit(broken, required=True))
    async with serving(app) as url, connect(url) as client:
        await app.start()
        await app.get(Chat, "ann-1").for_principal(Principal("ann")).save_messages("my words")
        path = (await app.shares.create(Chat, "ann-1")).path
        part = await (await app.attachments.of(Chat, "ann-1")).put(b"a file", "text/plain")
        signed = await app.attachments.signed_url(Chat, "ann-1", part)
        for each in (path, f"{path}.json", f"{path}/stream", f"{path}/files/{'0' * 64}", signed):
            answer = await client.get(str(each))
            assert answer.status_code == 503 and "my words" not in answer.text and "a file" not in answer.text


async def test_records_say_what_of_a_conversation_was_read() -> None:
    records: list[AuditRecord] = []
    app = app_with(Audit(records.append))
    async with serving(Starlette(routes=[Mount("/in", app)])) as url, app, connect(url, headers=user("ann")) as client:
        await app.get(Chat, "ann-1").for_principal(Principal("ann")).save_messages("hi")
        for below in ("", "/chat/ann-1/export", "/chat/ann-1/shares"):
            assert (await client.get(f"/in/conversations{below}")).status_code == 200
    resources = [each.what["resource"] for each in records if each.outcome == "allowed"]
    assert resources == ["conversations", "conversations/export", "conversations/shares"]


async def test_an_erasure_is_recorded_with_the_new_id_and_not_the_old_one() -> None:
    records: list[AuditRecord] = []
    async with app_with(Audit(records.append)) as app:
        await app.get(Chat, "bob-1").for_principal(Principal("bob")).save_messages("hi")
        await app.get(Chat, "bob-1").for_principal(Principal("secret-ann")).save_messages("hi")
        with acting_as(Principal("boss").identity):
            report = await app.principals.erase("secret-ann")
        with acting_as(Principal("secret-ann").identity):
            await app.principals.erase("secret-ann")  # it asks itself
    begun, done, *itself = [each for each in records if each.action == "erase"]
    assert (begun.what, done.what) == ({}, {"erased": report.id, "complete": True})
    assert begun.principal is not None and begun.principal.id == "boss"
    assert [each.principal for each in itself] == [None, None]
    assert b"secret-ann" not in b"".join(map(encode_record, (begun, done, *itself)))


async def test_a_sockets_frames_are_recorded_one_by_one() -> None:
    records: list[AuditRecord] = []
    async with serving(app_with(Audit(records.append))) as url, socket(url, query="?user=ann", name="ann") as client:
        await client.ask("r1")
        await client.ended("r1")
        await client.send(type="cf_agent_chat_clear")
        await client.settled()
    actions = [(each.action, each.outcome, each.what.get("request")) for each in records]
    assert actions[0] == ("connect", "allowed", None)
    assert ("ask", "allowed", "r1") in actions and ("ask", "committed", "r1") in actions
    assert ("clear", "allowed", None) in actions and ("clear", "committed", None) in actions
    assert {each.principal.id for each in records if each.principal is not None} == {"ann"}


async def test_large_arguments_are_recorded_by_their_hash_and_none_if_so_configured() -> None:
    from everyword.events import CallAnswered, to_raw
    from everyword.ids import AgentId, CallId, NodeId, Seq
    from everyword.observe.audit_records import record_of_event

    for size, expected in ((10, "x" * 10), (20_000, None)):
        given = {"text": "x" * size}
        answer = to_raw({"approved": False, "reason": "no"})
        event = CallAnswered(NodeId(1), CallId("c"), "approval", answer, input=to_raw(given), tool="pay")
        found = record_of_event(AgentId("chat/ann"), Seq(3), Millis(1), event)
        assert found is not None
        what = json.loads(encode_record(found))["what"]
        if expected is None:
            assert set(what["arguments"]) == {"bytes", "sha256"} and what["arguments"]["bytes"] > size
        else:
            assert what["arguments"] == given
        bare = record_of_event(AgentId("chat/ann"), Seq(3), Millis(1), event, arguments=False)
        assert bare is not None and "arguments" not in bare.what and "reason" not in bare.what


# -- sinks that fail ----------------------------------------------------------------------------------------------


async def test_a_slow_sink_delays_no_request_and_drops_are_counted_and_told(caplog: pytest.LogCaptureFixture) -> None:
    may_go, records = threading.Event(), list[AuditRecord]()

    def slow(each: AuditRecord) -> None:
        may_go.wait()
        records.append(each)

    audit = Audit(slow, room=3)
    try:
        async with talking(app_with(audit), headers=user("ann")) as client:
            for _ in range(8):
                assert (await client.get("get-messages")).status_code == 200
            assert audit.missed > 0
            may_go.set()
    finally:
        may_go.set()
    assert len(records) + audit.missed >= 8
    audit.record(record("later"))
    await audit.aclose()
    (gap,) = [each for each in records if each.action == "miss"]
    assert gap.what == {"records": audit.missed} and records[-1].action == "later"
    assert sum("audit records are lost" in each.message for each in caplog.records) == 1


async def test_records_that_are_lost_while_others_are_told_of_are_told_of_later() -> None:
    may_go, begun, seen = asyncio.Event(), asyncio.Event(), list[AuditRecord]()

    async def sink(each: AuditRecord) -> None:
        seen.append(each)
        if each.action == "miss":
            begun.set()
            await may_go.wait()

    audit = Audit(sink, room=1)
    for action in ("one", "lost"):
        audit.record(record(action))
    await begun.wait()
    for action in ("two", "lost"):
        audit.record(record(action))
    may_go.set()
    await audit.aclose()
    assert [each.action for each in seen] == ["miss", "one", "miss", "two"]
    assert [each.what["records"] for each in seen if each.action == "miss"] == [1, 1] and audit.missed == 2


async def test_a_required_record_is_written_before_the_answer_or_the_client_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "audit.jsonl"
    audit = Audit(path, required=True, fsync=True)
    async with talking(app_with(audit), headers=user("ann")) as client:
        refused = await client.get("get-messages")
        assert refused.status_code == 503 and "could not record" in refused.text
        asked = await client.post("chat", json=question())
        assert asked.status_code == 503
        path.parent.mkdir()
        assert (await client.get("get-messages")).json() == []
        assert [each["action"] for each in lines(path)] == ["miss", "read"]
        assert lines(path)[0]["what"] == {"records": 2} and audit.missed == 2


async def test_who_looks_at_an_approval_is_recorded_and_a_required_record_comes_first() -> None:
    Till.paid, records, is_down = [], list[AuditRecord](), False

    def sink(each: AuditRecord) -> None:
        if is_down:
            raise OSError("full")
        records.append(each)

    app = app_with(Audit(sink, required=True))
    async with serving(app) as url, connect(url) as client:
        assert (await client.post("/agents/till/ann-1/chat", json=question(), headers=user("ann"))).status_code == 200
        (waits,) = (await client.get("/approvals", headers=user("ann"))).json()["approvals"]
        path = f"/approvals/{waits['id']}"
        for who, status in (("ann", 200), ("bob", 404)):
            for accept in ("application/json", "text/html"):
                shown = await client.get(path, headers={**user(who), "accept": accept})
                assert shown.status_code == status
        looks = [each for each in records if each.what.get("approval") == waits["id"]]
        assert [(each.action, each.outcome, each.principal and each.principal.id) for each in looks] == [
            *[("list", "allowed", "ann")] * 2,
            *[("list", "refused", "bob")] * 2,
        ]
        is_down = True
        for accept in ("application/json", "text/html"):
            shown = await client.get(path, headers={**user("ann"), "accept": accept})
            assert shown.status_code == 503 and "amount" not in shown.text


async def test_a_token_in_the_path_of_a_refused_socket_is_not_recorded() -> None:
    records: list[AuditRecord] = []
    async with serving(app_with(Audit(records.append))) as url, connect(url) as client:
        async with open_socket(f"ws{url.removeprefix('http')}/shared/SECRET-TOKEN", proxy=None) as refused:
            await refused.wait_closed()
        assert (await client.get("/unknown/page")).status_code == 401
    assert [each.what["path"] for each in records] == ["/shared/…", "/unknown/page"]


async def test_a_required_record_that_has_no_room_is_refused() -> None:
    async def hang(each: AuditRecord) -> None:
        await asyncio.Event().wait()

    audit = Audit(hang, required=True, room=0)
    waiting = audit.record(record())
    assert waiting is not None
    with pytest.raises(NotRecorded, match="too slow"):
        await waiting
    await audit.aclose()


async def test_a_sink_that_raises_is_logged_and_called_again(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    async def sink(each: AuditRecord) -> None:
        seen.append(each.action)
        if each.action == "first":
            raise ValueError("broken")

    audit = Audit(sink)
    audit.record(record("first"))
    await audit.aclose()
    audit.record(record("second"))
    await audit.aclose()
    assert seen == ["first", "miss", "second"] and audit.missed == 1
    assert "broken" in caplog.text


async def test_a_function_that_fails_for_one_record_gets_those_that_wait_with_it() -> None:
    seen: list[str] = []

    def sink(each: AuditRecord) -> None:
        if each.action == "odd":
            raise ValueError("broken")
        seen.append(each.action)

    audit = Audit(sink, required=True)
    waiting = [audit.record(record(action)) for action in ("one", "odd", "two", "three")]
    done = await asyncio.gather(*(each for each in waiting if each is not None), return_exceptions=True)
    assert [type(each) for each in done] == [type(None), NotRecorded, type(None), type(None)]
    assert seen == ["one", "miss", "two", "three"] and audit.missed == 1
    await audit.aclose()


async def test_a_record_of_ones_own_that_is_not_json_is_refused_and_takes_no_other_with_it(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.jsonl", required=True)
    waiting = audit.record(record("one"))
    for odd in (object(), "\ud800"):
        with pytest.raises(UsageError, match="not JSON"):
            audit.record(record("odd", what={"value": odd}))
    assert waiting is not None
    await waiting
    await audit.aclose()
    assert [each["action"] for each in lines(tmp_path / "audit.jsonl")] == ["one"] and audit.missed == 0


async def test_an_observer_that_fails_at_a_decision_refuses_nothing_unless_it_was_awaited() -> None:
    class Plain(Observer):
        def decided(self, decision: AccessDecision) -> None:
            raise ValueError("broken")

    class Waiting(Observer):
        async def decided(self, decision: AccessDecision) -> None:
            raise ValueError("broken")

    async with talking(app_with(Plain()), headers=user("ann")) as client:
        assert (await client.get("get-messages")).status_code == 200
    async with talking(app_with(Waiting()), headers=user("ann")) as client:
        assert (await client.get("get-messages")).status_code == 503


# -- the file -----------------------------------------------------------------------------------------------------


def test_a_file_that_was_moved_away_is_created_again_and_a_torn_line_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b'{"action":"torn')
    file = AuditFile(path)
    file.append([record("one")])
    path.rename(tmp_path / "audit.jsonl.1")
    file.append([record("two")])
    file.close()
    old = (tmp_path / "audit.jsonl.1").read_bytes().splitlines()
    assert old[0] == b'{"action":"torn' and json.loads(old[1])["action"] == "one"
    assert [each["action"] for each in lines(path)] == ["two"]
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_new_file_is_on_the_disk_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced, path, fsync = list[int](), tmp_path / "audit.jsonl", os.fsync

    def noted(file: int) -> None:
        synced.append(os.fstat(file).st_ino)
        fsync(file)

    monkeypatch.setattr(os, "fsync", noted)
    file = AuditFile(path, fsync=True)
    for _ in range(2):
        file.append([record()])
    file.close()
    folder, written = tmp_path.stat().st_ino, path.stat().st_ino
    assert synced == [folder, written, written]


# -- records of what is in the log ----------------------------------------------------------------------------------


async def test_events_are_printed_again_from_the_log_with_the_same_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Till.paid, store, path = [], tmp_path / "log.db", tmp_path / "audit.jsonl"
    async with app_with(Audit(path), store=str(store)) as app:
        till = app.get(Till, "ann-1").for_principal(Principal("ann", name="Ann"))
        await till.save_messages("pay")
        (waits,) = (await app.approvals.list()).approvals
        await app.approvals.answer(waits.id, True, by=Principal("boss"))
        await till.wait_until_stable()
    written = [each for each in lines(path) if each["outcome"] == "committed"]
    assert [each["action"] for each in written][:3] == ["ask", "request-approval", "answer"]

    async def printed(*arguments: str) -> list[dict[str, Any]]:
        out = io.TextIOWrapper(io.BytesIO())
        monkeypatch.setattr(sys, "stdout", out)
        assert await asyncio.to_thread(main, ["audit", "--db", str(store), *arguments]) == 0
        return [json.loads(line) for line in out.buffer.getvalue().splitlines()]  # type: ignore[attr-defined]

    assert await printed() == written == await printed("till/ann-1")
    assert await printed("--since", "2100-01-01") == []
    bare = json.dumps(await printed("--no-arguments"))
    assert "arguments" not in bare and "Pay <b>now" not in bare
