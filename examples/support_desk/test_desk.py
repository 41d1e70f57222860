"""Tests of the desk with everyword's kit: no port, no browser, no model. `python -m pytest examples/support_desk`"""

from __future__ import annotations

from datetime import timedelta

import pytest
from starlette.responses import Response

from everyword import AttachmentOptions, Everyword, Principal
from everyword.client import ChatClient
from everyword.testing import Approve, Deny, LocalServer, ManualClock, assert_parity
from examples.support_desk import script
from examples.support_desk.desk import PAID_BACK, ScriptedSupport
from examples.support_desk.people import PEOPLE, authenticate, authorize, sign_in

pytestmark = pytest.mark.everyword  # runs `async def` tests

REFUND = "I want a refund for order 1002"


@pytest.fixture(autouse=True)
def _fresh_and_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    PAID_BACK.clear()
    monkeypatch.setattr(script, "PAUSE", 0)


@pytest.fixture
def desk() -> Everyword:
    """The agents of the desk, with its access control, and without mails and webhooks."""
    return Everyword(
        [ScriptedSupport],
        authenticate=authenticate,
        authorize=authorize,
        attachments=AttachmentOptions(media_types=["image/*"]),
    )


def session(user: str) -> dict[str, str]:
    """Return the header of a browser in which this person is signed in."""
    response = Response()
    sign_in(response, PEOPLE[user])
    return {"cookie": response.headers["set-cookie"].partition(";")[0]}


def customer(server: LocalServer, name: str) -> ChatClient:
    return server.client(ScriptedSupport, name, headers=session(name.partition("-")[0]))


async def test_a_refund_is_paid_once_and_after_staff_approves(desk: Everyword) -> None:
    async with LocalServer(desk) as server, customer(server, "ann-1") as ann:
        await ann.send(REFUND)
        (waiting,) = (await server.app.approvals.list()).approvals
        assert (waiting.summary, waiting.approvers) == ("Pay back 249.00 € for order 1002", ("staff",))
        path = f"/approvals/{waiting.id}"
        for user, approved, status in (("ann", True, 403), ("bob", True, 404), ("mia", True, 200), ("sam", False, 409)):
            page = server.http(ScriptedSupport, headers=session(user))
            assert (await page.post(f"http://localhost{path}", json={"approved": approved})).status_code == status
        async for messages in ann.watch():
            if messages[-1].text.endswith("The money is on its way to you."):
                break
        assert list(PAID_BACK.values()) == ["paid 249.00 € back for order 1002"]


async def test_customers_see_their_own_conversations_and_staff_sees_all(desk: Everyword) -> None:
    async with LocalServer(desk) as server, customer(server, "ann-1") as ann, customer(server, "bob-1") as bob:
        await ann.send("What can you do?")
        await bob.send("Where is order 1003?")
        for user, names in (("ann", {"ann-1"}), ("bob", {"bob-1"}), ("mia", {"ann-1", "bob-1"})):
            page = server.http(ScriptedSupport, "ann-1", headers=session(user))
            listed = (await page.get("http://localhost/conversations?scope=all")).json()
            assert {each["name"] for each in listed["conversations"]} == names
            assert (await page.get("get-messages")).status_code == (403 if user == "bob" else 200)


async def test_an_answer_goes_on_after_a_crash(desk: Everyword) -> None:
    async with LocalServer(desk) as server, customer(server, "ann-1") as ann:
        await ann.send(REFUND)
        await server.restart()  # like kill -9, while the call waits for staff
        (waiting,) = (await server.app.approvals.list()).approvals
        await server.app.approvals.answer(waiting.id, True, by=Principal("mia"))
        async for messages in ann.watch():
            if messages[-1].text.endswith("The money is on its way to you."):
                break


async def test_a_refund_that_nobody_approves_in_a_day_is_declined(desk: Everyword, manual_clock: ManualClock) -> None:
    async with LocalServer(desk, clock=manual_clock) as server, customer(server, "ann-1") as ann:
        await ann.send(REFUND)
        manual_clock.advance(timedelta(hours=24, seconds=1))
        async for messages in ann.watch():
            if any(part.get("state") == "output-denied" for part in messages[-1].parts):
                break
        manual_clock.advance(1)  # answers that are given together make one turn
        async for messages in ann.watch():
            if messages[-1].text.endswith("The approval was not given in time."):
                break
        assert PAID_BACK == {}


async def test_all_clients_see_the_same_through_crashes_and_lost_connections() -> None:
    await assert_parity(
        ScriptedSupport,
        [REFUND, Approve("refund"), "Send order 1003 to 5 Mill Lane", Deny("change_address")],
        every=60,  # leave it out before a release
    )
