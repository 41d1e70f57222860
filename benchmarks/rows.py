"""The loads, one function each. Every one of them checks that all chunks arrived: who loses data has no figures."""

from __future__ import annotations

import asyncio
import itertools
import re
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from statistics import fmean, median
from typing import Any

import msgspec

from benchmarks.client import Answer, Socket, Stamps, connect, connect_many, question
from benchmarks.measures import Figures, Metric, Row, Sizes, percentile
from benchmarks.processes import Server
from benchmarks.servers.source import Ask

__all__ = ["ANSWERS", "RATE", "ROWS", "TINY", "fresh", "paced_ask", "steady", "stream_all", "warm_up"]

ANSWERS = 12
"""Answers at full speed that are asked for in a row: of few, what has still to be carried over would not count."""
RATE = 50.0
"""Chunks per second of one paced conversation: a quick model."""
TINY = Ask(chunks=3)

_numbers = itertools.count(1)
_STAMP = re.compile(rb"@(\d{16})")


def fresh(count: int) -> list[str]:
    """Return names that no conversation has had."""
    return [f"c{next(_numbers)}" for _ in range(count)]


async def warm_up(server: Server) -> None:
    """Let the server load what it loads late; compilers compile, caches fill."""
    for name in fresh(3):
        socket = await connect(server.port, name)
        await socket.ask(Ask(chunks=700))
        await socket.close()


async def _flat(server: Server, ask: Ask, answers: int = 1) -> Figures:
    """Ask for so many answers one after the other, each in a conversation of its own."""
    before, said = server.usage(), list[Answer]()
    for name in fresh(answers):
        socket = await connect(server.port, name)
        said.append(await socket.ask(ask))
        await socket.close()
    used, chunks = server.usage().since(before), sum(answer.chunks for answer in said)
    return {
        "rate": chunks / sum(answer.ended for answer in said),
        "cpu": used.cpu / chunks * 1e6,
        "first": median(answer.first for answer in said) * 1000,
        "disk": used.written / chunks,
    }


async def flat(server: Server, sizes: Sizes) -> Figures:
    # Several answers: a write-ahead log is carried over later, and what that writes has to count as well.
    return await _flat(server, Ask(chunks=sizes.flat), ANSWERS)


async def yielding(server: Server, sizes: Sizes) -> Figures:
    return await _flat(server, Ask(chunks=sizes.yielding, yields=True))


async def _paced(server: Server, sizes: Sizes, chats: int) -> Figures:
    """Stream `chats` conversations at 50 chunks/s each, begun one after the other."""
    sockets = await connect_many(server.port, fresh(chats), stamps := Stamps())
    ask, before, began = paced_ask(sizes), server.usage(), time.time_ns() // 1000
    held = await stream_all(sockets, ask, sizes.ramp)
    used = server.usage().since(before)
    for socket in sockets:
        await socket.close()
    late = steady(stamps, began, sizes.ramp)
    return {
        "p50": median(late),
        "p99": percentile(late, 0.99),
        "held": held,
        "cpu": used.cpu / (ask.chunks * chats) * 1e6,
        "disk": used.written / (ask.chunks * chats),
    }


def paced_ask(sizes: Sizes) -> Ask:
    """Return what each of many paced conversations asks for."""
    return Ask(chunks=round((sizes.seconds + 2 * sizes.ramp) * RATE), rate=RATE)


async def stream_all(sockets: Sequence[Socket], ask: Ask, ramp: float) -> float:
    """Ask on every socket, one after the other within `ramp` seconds; return the percentage of the rate that held."""

    async def stream(socket: Socket, delay: float) -> float:
        await asyncio.sleep(delay)
        await socket.ask(ask)
        return (ask.chunks - 1) / RATE / (time.time() - socket.made / 1e6)

    held = await asyncio.gather(*(stream(socket, index * ramp / len(sockets)) for index, socket in enumerate(sockets)))
    return min(100.0, fmean(held) * 100)


def steady(stamps: Stamps, began: int, ramp: float) -> list[float]:
    """Return the latencies in milliseconds of what was made while all streams were under way.

    A server that is so late that there is no such time is judged by all of them.
    """
    start, end = began + int(2 * ramp * 1e6), stamps.made[-1] - int(ramp * 1e6)
    pairs = list(zip(stamps.made, stamps.received, strict=True))
    steady = [(received - made) / 1000 for made, received in pairs if start <= made < end]
    return steady or [(received - made) / 1000 for made, received in pairs]


async def chats100(server: Server, sizes: Sizes) -> Figures:
    return await _paced(server, sizes, sizes.chats[0])


async def chats400(server: Server, sizes: Sizes) -> Figures:
    return await _paced(server, sizes, sizes.chats[1])


async def fanout(server: Server, sizes: Sizes) -> Figures:
    """One stream, flat out, to many who watch it."""
    name = fresh(1)[0]
    asking, *watching = await connect_many(server.port, [name] * sizes.watchers)
    endings = [watcher.ending() for watcher in watching]
    before, began = server.usage(), time.perf_counter()
    await asking.ask(Ask(chunks=sizes.fanout))
    async with asyncio.timeout(120):
        await asyncio.gather(*endings)
    elapsed, used = time.perf_counter() - began, server.usage().since(before)
    if lost := [watcher.chunks for watcher in watching if watcher.chunks != sizes.fanout]:
        raise RuntimeError(f"{len(lost)} watchers did not get {sizes.fanout} chunks, but {lost[:5]}")
    for socket in (asking, *watching):
        await socket.close()
    deliveries = sizes.fanout * sizes.watchers
    return {"rate": deliveries / elapsed, "cpu": used.cpu / deliveries * 1e6}


async def replay(server: Server, sizes: Sizes) -> Figures:
    """A page that comes back to a long answer that is still going on."""
    name = fresh(1)[0]
    asking = await connect(server.port, name)
    await asking.begin(Ask(chunks=sizes.replay, holds=True))
    times, usages, size = [], [], 0
    for _ in range(5):
        socket = await connect(server.port, name)
        before = server.usage()
        answer = await socket.resume()
        usages.append(server.usage().since(before).cpu)
        if answer.chunks != sizes.replay:
            raise RuntimeError(f"a replay of {sizes.replay} chunks had {answer.chunks}")
        times.append(answer.ended * 1000)
        size = socket.bytes
        await socket.close()
    await asking.cancel()
    await asking.close()
    return {"time": median(times), "cpu": median(usages) * 1000, "size": size / 1024}


async def tiny(server: Server, sizes: Sizes) -> Figures:
    """Turns of three chunks: one after the other, then in twenty conversations at once."""
    each = min(25, sizes.tiny)
    sockets = await connect_many(server.port, fresh(max(1, sizes.tiny // each)))
    before, began = server.usage(), time.perf_counter()
    for socket in sockets:
        await _turns(socket, each)
    alone, used = time.perf_counter() - began, server.usage().since(before)
    turns = each * len(sockets)
    for socket in sockets:
        await socket.close()
    crowd = await connect_many(server.port, fresh(20))
    began = time.perf_counter()
    await asyncio.gather(*(_turns(socket, each) for socket in crowd))
    together = time.perf_counter() - began
    for socket in crowd:
        await socket.close()
    return {"rate": turns / alone, "cpu": used.cpu / turns * 1000, "crowd": 20 * each / together}


async def _turns(socket: Socket, count: int) -> None:
    for _ in range(count):
        await socket.ask(TINY)


async def memory(server: Server, sizes: Sizes) -> Figures:
    """What a conversation costs while its socket is open: right after a turn, and left alone for a while."""
    warm = await connect_many(server.port, fresh(20))
    await asyncio.gather(*(socket.ask(TINY) for socket in warm))
    start = server.usage()
    sockets = await connect_many(server.port, fresh(sizes.conversations))
    for group in range(0, len(sockets), 20):
        await asyncio.gather(*(socket.ask(TINY) for socket in sockets[group : group + 20]))
    used = server.usage().since(start)
    await asyncio.sleep(sizes.rest if server.kind.rests else 0)
    idle = server.usage().since(start)
    for socket in (*warm, *sockets):
        await socket.close()
    return {"open": used.memory / len(sockets) / 1024, "idle": idle.memory / len(sockets) / 1024}


async def new(server: Server, sizes: Sizes) -> Figures:
    """Conversations that begin: a socket, a turn, and gone. Twenty at a time."""
    names = iter(fresh(sizes.conversations))

    async def visit() -> None:
        for name in names:
            socket = await connect(server.port, name)
            await socket.ask(TINY)
            await socket.close()

    before, began = server.usage(), time.perf_counter()
    await asyncio.gather(*(visit() for _ in range(20)))
    elapsed, used = time.perf_counter() - began, server.usage().since(before)
    return {"rate": sizes.conversations / elapsed, "cpu": used.cpu / sizes.conversations * 1000}


async def cold(server: Server, sizes: Sizes) -> Figures:
    """The transcript of 100 messages, asked of a server that has just started."""
    names = fresh(sizes.histories)
    for name in names:
        server.request("POST", f"/agents/chat/{name}/fill?messages=100")
    server.stop()
    server.start()
    server.request("GET", f"/agents/chat/{fresh(1)[0]}/get-messages")
    before, times = server.usage(), []
    for name in names:
        began = time.perf_counter()
        body = server.request("GET", f"/agents/chat/{name}/get-messages")
        times.append((time.perf_counter() - began) * 1000)
        if (count := len(msgspec.json.decode(body))) != 100:
            raise RuntimeError(f"a conversation of 100 messages had {count}")
    used = server.usage().since(before)
    return {"time": median(times), "cpu": used.cpu / len(names) * 1000}


async def history(server: Server, sizes: Sizes) -> Figures:
    """A tiny turn at the end of a short and of a long conversation; the client sends all of it, or the new message."""
    figures: Figures = {}
    for length in (10, 1000):
        for sends in ("all", "new"):
            name = fresh(1)[0]
            server.request("POST", f"/agents/chat/{name}/fill?messages={length}")
            taken, used = await _long_turns(server, name, sizes.turns, sends_all=sends == "all")
            figures[f"{sends}{length}"] = median(taken) * 1000
            figures[f"cpu_{sends}{length}"] = median(used) * 1000
    return figures


async def _long_turns(
    server: Server, name: str, count: int, *, sends_all: bool
) -> tuple[Sequence[float], Sequence[float]]:
    socket = await connect(server.port, name)
    taken, used = [], []
    for _ in range(count):
        sent: list[Any] = []
        if sends_all:
            sent = msgspec.json.decode(server.request("GET", f"/agents/chat/{name}/get-messages"))
        before = server.usage()
        taken.append((await socket.ask(TINY, sent)).ended)
        used.append(server.usage().since(before).cpu)
    await socket.close()
    return taken, used


async def kill(server: Server, sizes: Sizes) -> Figures:
    """What clients had seen of twenty streams and nobody can find again after `kill -9` and a restart."""
    chats = min(20, sizes.chats[0])
    return {"lost": fmean([await _lost(server, chats) / chats for _ in range(sizes.kills)])}


async def _lost(server: Server, chats: int) -> int:
    names = fresh(chats)
    sockets = [await connect(server.port, name, keeps=True) for name in names]
    for socket in sockets:
        socket.send(question(Ask(chunks=10_000, rate=RATE)))
    await asyncio.sleep(2)
    server.stop(by=signal.SIGKILL)
    await asyncio.sleep(0.1)  # what is still in the sockets' buffers was sent
    server.start()
    lost = 0
    for name, socket in zip(names, sockets, strict=True):
        back = await connect(server.port, name, keeps=True)
        with suppress(TimeoutError):  # the peer may still be at its own recovery; the transcript tells as well
            await back.resume(patience=10)
        lost += len(
            _made(socket)
            - _made(back)
            - set(_STAMP.findall(server.request("GET", f"/agents/chat/{name}/get-messages")))
        )
        await back.close()
    return lost


def _made(socket: Socket) -> set[bytes]:
    return set(_STAMP.findall(b"".join(socket.kept or [])))


def _rate(times_peer: float, unit: str = "chunks/s") -> Metric:
    return Metric("rate", unit, "more", times_peer=times_peer, digits=0)


def _cpu(unit: str = "µs CPU per chunk", times_peer: float = 1, digits: int = 1) -> Metric:
    return Metric("cpu", unit, "less", times_peer=times_peer, digits=digits)


DISK = Metric("disk", "bytes written per chunk", "less", times_peer=1, digits=0)
FIRST = Metric("first", "ms to the first chunk", "less", times_peer=1)

P50 = Metric("p50", "ms, median", "less", times_peer=1, digits=2, needs_rate=True)


def _history_metrics() -> tuple[Metric, ...]:
    found = []
    for length, sends in itertools.product((10, 1000), ("all", "new")):
        what = "all messages sent" if sends == "all" else "the new one sent"
        times_peer = 3 if length == 1000 else 1
        found.append(Metric(f"{sends}{length}", f"ms, {length:,} messages, {what}", "less", times_peer, digits=2))
        found.append(Metric(f"cpu_{sends}{length}", "ms CPU", "less", 1, digits=2))
    return tuple(found)


ROWS = {
    row.name: row
    for row in (
        Row("flat", "one stream, flat out", (_rate(1.5), _cpu(times_peer=2), FIRST, DISK), flat, repeats=True),
        Row("yielding", "one stream, yielding source", (_rate(1), _cpu(), FIRST, DISK), yielding, repeats=True),
        Row(
            "100",
            "100 chats at 50 chunks/s",
            (
                P50,
                Metric("p99", "ms, 99 of 100", "less", times_peer=3, digits=2, needs_rate=True),
                Metric("held", "% of the rate held", "more", at_least=99),
                _cpu(),
                DISK,
            ),
            chats100,
            wavers=True,
        ),
        Row(
            "400",
            "400 chats at 50 chunks/s",
            (
                P50,
                Metric("p99", "ms, 99 of 100", "less", times_peer=1, digits=2, needs_rate=True),
                Metric("held", "% of the rate held", "more", at_least=99),
                _cpu(),
                DISK,
            ),
            chats400,
            wavers=True,
        ),
        Row("fanout", "one stream to 100", (_rate(1.15, "deliveries/s"), _cpu("µs CPU per delivery")), fanout, True),
        Row(
            "replay",
            "replay of 10,000 chunks",
            (
                Metric("time", "ms", "less", times_peer=10),
                _cpu("ms CPU"),
                Metric("size", "KiB sent", "less", times_peer=1, digits=0),
            ),
            replay,
        ),
        Row(
            "tiny",
            "tiny turns",
            (
                _rate(2.5, "turns/s, one by one"),
                _cpu("ms CPU per turn", digits=2),
                Metric("crowd", "turns/s, 20 chats", "more", 1, digits=0),
            ),
            tiny,
            wavers=True,
        ),
        Row(
            "memory",
            "a conversation in memory",
            (
                Metric("open", "KiB, just used", "less", times_peer=10),
                Metric("idle", "KiB, left alone", "less", times_peer=1),
            ),
            memory,
        ),
        Row(
            "new",
            "new conversations",
            (_rate(10, "conversations/s"), _cpu("ms CPU each", digits=2)),
            new,
            wavers=True,
        ),
        Row(
            "cold",
            "cold get-messages of 100",
            (Metric("time", "ms", "less", 1, digits=2), _cpu("ms CPU", digits=2)),
            cold,
            wavers=True,
        ),
        Row("history", "a turn after so many messages", _history_metrics(), history, wavers=True),
        Row("kill", "kill -9 under 20 streams", (Metric("lost", "chunks lost per stream", "less", at_most=0),), kill),
    )
}
