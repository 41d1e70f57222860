"""Links between two nodes: dialing, refusing, dropping, silence, TLS, and what a stranger may do."""

from __future__ import annotations

import asyncio
import logging
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from everyword.cluster.addresses import parse_address
from everyword.cluster.link_frames import HELLO, encode_frame
from everyword.cluster.links import Links
from everyword.cluster.peer_requests import PeerRequests
from everyword.cluster.settings import LinkSettings
from everyword.errors import LinkBusy, LinkLost, LinkRefused, UsageError
from everyword.ids import Incarnation
from tests.cluster.kit import (
    EDGE,
    OWNER,
    PATIENCE,
    PATIENT,
    SECRET,
    Proxy,
    Streams,
    identity,
    linked,
    nodes,
    soon,
    until,
)


async def hello(method: str, payload: bytes) -> bytes:
    return b"hello " + payload


def settings(**changed: Any) -> LinkSettings:
    return LinkSettings(**{"silent_seconds": PATIENCE, "connect_seconds": PATIENCE, **changed})


async def test_callers_share_one_link() -> None:
    async with nodes(PeerRequests(on_call=hello)) as pair:
        links = await asyncio.gather(*(pair.dial() for _ in range(20)))
        assert len(set(links)) == 1 and await pair.dial() is links[0]
        assert len(pair.server.links) == 1
        assert list(pair.links) == [links[0]]
        assert links[0].peer == OWNER and (await pair.owner_end()).peer == EDGE
        assert links[0].agreement is not None and links[0].agreement.version == 1


async def test_a_caller_that_gives_up_does_not_end_the_dial_of_others() -> None:
    async with nodes(Streams()) as pair:
        first, second = asyncio.create_task(pair.dial()), asyncio.create_task(pair.dial())
        await asyncio.sleep(0)
        first.cancel()
        assert (await soon(second)).is_usable


async def test_a_lost_link_is_dialed_again() -> None:
    async with nodes(Streams()) as pair:
        link = await pair.dial()
        (await pair.owner_end()).abort("the test says so")
        assert "the other node has closed it" in str(await soon(link.lost)) or link.lost.done()
        again = await pair.dial()
        assert again is not link and again.is_usable


async def test_both_ends_may_call() -> None:
    services = PeerRequests(on_call=hello)
    async with nodes(Streams(), edge_services=services) as pair:
        await pair.dial()
        far = await pair.owner_end()
        assert await far.call("x", b"edge", timeout=PATIENCE) == b"hello edge"


async def test_hints_come_with_topic_and_sender() -> None:
    found: list[Any] = []
    services = PeerRequests(on_hint=lambda *hint: found.append(hint))
    async with linked(services) as link:
        assert link.hint("changed", b"chat/ann")
        assert link.hint("changed")
        assert not link.hint("changed", b"x" * 100_000), "too long"
        await until(lambda: len(found) == 2)
    assert found == [("changed", b"chat/ann", EDGE), ("changed", b"", EDGE)]
    assert not link.hint("changed"), "the link is closed"


async def test_a_hint_that_fails_or_cannot_be_read_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def on_hint(topic: str, payload: bytes, incarnation: Incarnation) -> None:
        raise ValueError("on purpose")

    async with linked(PeerRequests(on_call=hello, on_hint=on_hint)) as link:
        link.hint("topic")
        for payload in (b"", b"\0\5abc", b"\0\1\xff"):
            link._writer.put(6, 0, payload)
        assert await link.call("x", b"", timeout=PATIENCE) == b"hello "
    assert "on purpose" in caplog.text and caplog.text.count("unable to read a hint") == 3


async def test_frames_and_purposes_of_a_newer_release_are_ignored_or_refused() -> None:
    async with linked(PeerRequests(on_call=hello)) as link:
        link._writer.put(200, 0, b"what is this")
        link._writer.put(201, 7, b"and this")
        refused = link.open(b"\xf0new")
        assert getattr(await soon(refused.broken), "remote_code", "") == "usage"
        assert await link.call("x", b"", timeout=PATIENCE) == b"hello "


# -- refusals -----------------------------------------------------------------------------------------------------


async def test_a_wrong_secret_is_refused_with_one_sentence(caplog: pytest.LogCaptureFixture) -> None:
    async with nodes(Streams(), edge=identity(EDGE, b"some other secret")) as pair:
        with caplog.at_level(logging.WARNING, "everyword.cluster"), pytest.raises(LinkRefused) as refused:
            await pair.dial()
        await until(lambda: not pair.server._unproven)
        assert pair.server.links == frozenset() and list(pair.links) == []
    assert str(refused.value).startswith("unable to link to node 2; its secret is another one.")
    assert "unable to link to node 1; its secret is another one." in caplog.text


async def test_a_secret_can_be_changed_while_nodes_run() -> None:
    edge, owner = identity(EDGE), identity(OWNER)
    new = b"the next secret of all nodes"
    async with nodes(Streams(), edge=edge, owner=owner) as pair:
        for edge.secrets, owner.secrets in (
            ((SECRET,), (SECRET, new)),
            ((SECRET, new), (new, SECRET)),
            ((new, SECRET), (new,)),
            ((new,), (new,)),
        ):
            link = await pair.dial()
            assert link.is_usable
            link.abort("dial again")


async def test_another_incarnation_at_the_address_is_refused() -> None:
    async with nodes(Streams()) as pair:
        with pytest.raises(LinkRefused, match="unable to link to node 9; node 2 answers at its address"):
            await pair.dial(Incarnation(9))


async def test_a_node_that_does_not_listen_is_lost() -> None:
    async with nodes(Streams()) as pair:
        await pair.server.aclose()
        with pytest.raises(LinkLost, match=r"unable to link to node 2 at 127.0.0.1:\d+; "):
            await pair.dial()


async def test_a_node_that_accepts_and_says_nothing_is_given_up() -> None:
    async with nodes(Streams(), settings=settings(connect_seconds=0.05)) as pair:
        async with Proxy.before(pair.address) as (proxy, address):
            proxy.is_swallowing = True
            pair.address = address
            with pytest.raises(LinkLost, match="the other node did not answer in time"):
                await pair.dial()


# -- the end of a link --------------------------------------------------------------------------------------------


async def test_a_silent_peer_is_noticed_by_both_ends() -> None:
    quick = settings(silent_seconds=0.2)
    async with nodes(Streams(), settings=quick) as pair, Proxy.before(pair.address) as (proxy, address):
        pair.address = address
        link, far = await pair.dial(), await pair.owner_end()
        stream = link.open(b"x")
        await until(lambda: far.open_streams == 1)
        proxy.is_swallowing = True
        began = asyncio.get_running_loop().time()
        for end in (link, far):
            assert "the other node was silent for 0.2 s" in str(await soon(end.lost))
        assert asyncio.get_running_loop().time() - began >= 0.05
        assert isinstance(await soon(stream.broken), LinkLost)


async def test_a_link_without_work_stays_while_pings_are_answered() -> None:
    quick = settings(silent_seconds=0.1)
    async with nodes(Streams(), settings=quick) as pair:
        link = await pair.dial()
        pings = 0
        put = link._writer.put

        def counted(kind: int, *more: Any) -> None:
            nonlocal pings
            pings += kind == 4
            put(kind, *more)

        link._writer.put = counted  # type: ignore[method-assign]
        await until(lambda: pings >= 5)
        assert link.is_usable and (await pair.owner_end()).is_usable


async def test_a_dropped_node_is_cut_off_though_its_connection_looks_fine() -> None:
    services = Streams()
    async with nodes(services) as pair:
        link, far = await pair.dial(), await pair.owner_end()
        stream = link.open(b"x")
        pair.links.drop(OWNER)
        assert "node 2 is gone" in str(link.lost.result())
        assert stream.broken.done(), "at once, in the same call"
        with pytest.raises(LinkLost, match="node 2 is gone"):
            link.open(b"x")
        with pytest.raises(LinkLost, match="unable to link to node 2; it is gone"):
            await pair.dial()
        await soon(far.lost)


async def test_a_dial_that_is_under_way_ends_when_the_node_is_dropped() -> None:
    async with nodes(Streams()) as pair, Proxy.before(pair.address) as (proxy, address):
        proxy.is_swallowing = True
        dialing = asyncio.create_task(pair.links.get(OWNER, address))
        await until(lambda: pair.links._connecting)
        pair.links.drop(OWNER)
        with pytest.raises(LinkLost, match="node 2 is gone"):
            await soon(dialing)


async def test_the_owner_drops_an_edge_that_is_gone_and_takes_it_no_more() -> None:
    async with nodes(Streams()) as pair:
        link = await pair.dial()
        await pair.owner_end()
        pair.server.drop(EDGE)
        await soon(link.lost)
        with pytest.raises(LinkLost):
            await pair.dial()
        assert pair.server.links == frozenset()


async def test_a_node_that_registers_anew_drops_everything_and_dials_as_another() -> None:
    edge = identity(EDGE)
    async with nodes(Streams(), edge=edge) as pair:
        link = await pair.dial()
        await pair.owner_end()
        edge.incarnation = Incarnation(5)
        pair.links.drop_all("this node begins anew")
        assert "this node begins anew" in str(link.lost.result())
        await until(lambda: not pair.server.links)
        await pair.dial()
        assert (await pair.owner_end()).peer == 5
        pair.server.drop_all("this node begins anew")
        assert pair.server.links == frozenset()


async def test_closing_sends_what_is_pending() -> None:
    found: list[Any] = []
    async with nodes(PeerRequests(on_hint=lambda *hint: found.append(hint))) as pair:
        link = await pair.dial()
        for _ in range(100):
            assert link.hint("x")
        await soon(pair.links.aclose())
        await until(lambda: len(found) == 100)
        with pytest.raises(LinkLost, match="this node is shutting down"):
            await pair.dial()


# -- strangers ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def stranger(address: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        encode_frame(HELLO, 0, b"{}"),
        encode_frame(17, 1, b"data"),
        encode_frame(HELLO, 0, b"x" * 2000),
        b"\0\0\0\0\6\0\0\0\0" * 3000,
    ],
)
async def test_a_stranger_that_does_not_speak_the_protocol_is_cut_off(sent: bytes) -> None:
    async with nodes(Streams()) as pair:
        async with stranger(pair.address) as (reader, writer):
            writer.write(sent)
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await soon(reader.readexactly(1))
        assert (await pair.dial()).is_usable


async def test_a_stranger_that_says_nothing_is_cut_off_in_time() -> None:
    async with nodes(Streams(), settings=settings(connect_seconds=0.05)) as pair:
        async with stranger(pair.address) as (reader, _):
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await soon(reader.readexactly(1))


async def test_bytes_before_the_proof_are_limited() -> None:
    async with nodes(Streams(), settings=settings(handshake_bytes=10)) as pair:
        with pytest.raises(LinkLost):
            await pair.dial()


async def test_only_so_many_strangers_may_wait() -> None:
    async with nodes(Streams(), settings=settings(unproven=2)) as pair:
        async with stranger(pair.address):
            async with stranger(pair.address):
                await until(lambda: len(pair.server._unproven) == 2)
                with pytest.raises(LinkLost):
                    await pair.dial()
            await until(lambda: len(pair.server._unproven) == 1)
            assert (await pair.dial()).is_usable


async def test_links_are_limited_on_both_ends() -> None:
    async with nodes(Streams(), settings=settings(links=1)) as pair:
        await pair.dial()
        with pytest.raises(LinkBusy, match="1 links are the limit"):
            await pair.links.get(Incarnation(7), pair.address)
        other = Links(identity(Incarnation(6)), settings=PATIENT)
        with pytest.raises(LinkLost):
            await soon(other.get(OWNER, pair.address))
        await other.aclose()


# -- addresses ----------------------------------------------------------------------------------------------------


async def test_a_unix_socket_works_as_well_and_is_removed(tmp_path: Path) -> None:
    where = tmp_path / "node.sock"
    async with nodes(PeerRequests(on_call=hello), address=f"unix:{where}") as pair:
        assert pair.address == f"unix:{where}"
        assert await (await pair.dial()).call("x", b"", timeout=PATIENCE) == b"hello "
    assert not where.exists()


@pytest.mark.parametrize("text", ["", "host", ":80", "host:", "host:x", "host:99999", "host:-1", "host:²"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write host:port or unix:/path"):
        parse_address(text)


@pytest.mark.parametrize("text", ["host:80", "[::1]:80", "127.0.0.1:0", "unix:/run/x.sock"])
def test_an_address_is_written_as_it_is_read(text: str) -> None:
    assert str(parse_address(text)) == text


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the paths of a certificate for 127.0.0.1 and of its key."""
    folder = tmp_path_factory.mktemp("tls")
    made, key = folder / "node.pem", folder / "node.key"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", f"{key}", "-out", f"{made}", "-days", "2", "-subj", "/CN=node"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command, check=True, capture_output=True)
    return made, key


async def test_a_link_over_tls_works(certificate: tuple[Path, Path]) -> None:
    owner = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    owner.load_cert_chain(*certificate)
    edge = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    edge.load_verify_locations(certificate[0])
    payload = bytes(range(256)) * 8192
    async with nodes(PeerRequests(on_call=hello), tls=(owner, edge)) as pair:
        link = await pair.dial()
        assert await link.call("x", payload, timeout=PATIENCE) == b"hello " + payload


async def test_a_certificate_that_is_not_trusted_is_refused(certificate: tuple[Path, Path]) -> None:
    owner = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    owner.load_cert_chain(*certificate)
    async with nodes(Streams(), tls=(owner, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))) as pair:
        with pytest.raises(LinkLost, match="certificate verify failed"):
            await pair.dial()


async def test_a_node_without_tls_cannot_link_to_one_with_it(certificate: tuple[Path, Path]) -> None:
    owner = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    owner.load_cert_chain(*certificate)
    async with nodes(Streams(), tls=(owner, None)) as pair:
        with pytest.raises(LinkLost):
            await pair.dial()
