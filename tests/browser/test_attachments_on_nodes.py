"""Photos on two nodes with a database and an S3 server: pages of one node, an agent on the other, which is killed."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.attachments.s3 import environment_of, new_bucket, running_s3
from tests.browser.conversation import Conversation
from tests.browser.kit import assert_in_step
from tests.browser.photos import READ, SIZE, ask_with_photo, files, opened
from tests.browser.server_control import TwoNodes
from tests.browser.stock_page import NETWORK

pytestmark = [pytest.mark.browser, pytest.mark.crash]


@pytest.fixture
def two_nodes(postgres_url: str) -> Iterator[TwoNodes]:
    with running_s3() as url:
        place = f"s3://{new_bucket(url)}/chat"
        nodes = TwoNodes(postgres_url, lease=1.5, ATTACHMENTS=place, **environment_of(url))
        yield nodes
        nodes.close()


@pytest.mark.parametrize("is_plain", [False, True], ids=["useAgentChat", "useChat"])
def test_ten_photos_and_the_next_question_when_their_owner_is_killed(
    relayed: Conversation, two_nodes: TwoNodes, is_plain: bool
) -> None:
    two_nodes.take("chat", relayed.name)
    tab, other = opened(relayed, is_plain=is_plain), opened(relayed)
    for each in (tab, other):
        each.expect_complaints(NETWORK)
    for number in range(10):
        ask_with_photo(relayed, tab, number)
        if number == 4:
            two_nodes.kill_owner()
    tab.ask("which is the best?")
    tab.until_answer("You said: which is the best?", status="ready")
    assert len(relayed.stored) == 22
    assert len(set(files(relayed.stored))) == 10
    if not is_plain:
        assert len(tab.sent("cf_agent_use_chat_request")[-1]["init"]["body"]) < 20_000
    assert_in_step(relayed, tab, other)
    two_nodes.owner.start()
    for page in (tab, other):
        assert [page.run(READ, url) for url in files(page.messages)] == [[200, "image/png", SIZE]] * 10
    for url in files(relayed.stored):
        assert len(httpx.get(f"http://127.0.0.1:{two_nodes.owner.port}{url}", trust_env=False).content) == SIZE
