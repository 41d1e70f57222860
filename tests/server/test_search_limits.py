"""How often a client may search."""

from __future__ import annotations

from everyword import ConversationOptions
from everyword.server.limits import Limits
from tests.server.test_lists import running, said, user


async def test_a_principal_that_searches_too_often_is_refused_and_others_are_not() -> None:
    options = ConversationOptions(search=True)
    async with running(conversations=options, limits=Limits(searches_per_minute=2)) as (app, client):
        await said(app, "ann-1", "a refund", "ann")
        answers = [await client.get("/conversations?query=refund", headers=user("ann")) for _ in range(3)]
        assert [each.status_code for each in answers] == [200, 200, 429]
        assert answers[2].text.strip() == "unable to search; too many searches came in a minute"
        assert 0 < int(answers[2].headers["retry-after"]) <= 61
        assert (await client.get("/conversations", headers=user("ann"))).status_code == 200  # not a search
        assert (await client.get("/conversations?query=refund", headers=user("bob"))).status_code == 200
