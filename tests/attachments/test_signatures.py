"""Links are valid on every node, with whichever of the stored keys they were signed."""

from __future__ import annotations

from urllib.parse import parse_qs

from everyword.attachments.base import pieces_of
from everyword.attachments.memory import MemoryBlobStore
from everyword.attachments.signatures import READ_AGAIN, LinkSigner
from everyword.ids import AgentId, Millis

ANN = AgentId("chat/ann")
SHA256 = "0" * 64
EXPIRES = 1_000_000
NOW = Millis(5_000)


async def is_valid(signer: LinkSigner, query: str, now: int = NOW) -> bool:
    given = parse_qs(query)
    return await signer.is_valid(ANN, SHA256, given["expires"][0], given["signature"][0], Millis(now))


async def test_a_link_of_a_key_that_another_node_has_stored_meanwhile_is_valid() -> None:
    store = MemoryBlobStore()
    one, two = LinkSigner(store), LinkSigner(store)
    of_one = await one.sign(ANN, SHA256, EXPIRES)
    await store.put("keys/0", pieces_of(b"k" * 32))  # by a node that saw no key, as this one did
    of_two = await two.sign(ANN, SHA256, EXPIRES)
    assert of_two != of_one
    assert await is_valid(one, of_two)
    assert await is_valid(two, of_one)


async def test_wrong_signatures_do_not_read_the_keys_each_time() -> None:
    lists = 0

    class Counting(MemoryBlobStore):
        def list(self, prefix: str):  # type: ignore[no-untyped-def]
            nonlocal lists
            lists += 1
            return super().list(prefix)

    signer = LinkSigner(Counting())
    wrong = (await signer.sign(ANN, SHA256, EXPIRES))[:-4] + "feed"
    before = lists
    assert [await is_valid(signer, wrong) for _ in range(10)] == [False] * 10
    assert lists == before + 1
    assert not await is_valid(signer, wrong, NOW + READ_AGAIN)
    assert lists == before + 2


async def test_links_outlive_keys_that_are_deleted_while_the_server_runs() -> None:
    store = MemoryBlobStore()
    signer = LinkSigner(store)
    link = await signer.sign(ANN, SHA256, EXPIRES)
    for blob in [each async for each in store.list("keys/")]:
        await store.delete(blob.key)
    assert not await is_valid(signer, link[:-4] + "feed")
    assert await is_valid(signer, link)
