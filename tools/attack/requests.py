"""Requests: whatever comes over HTTP is answered with a status that is no failure, and no odd verdict opens a door."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final
from urllib.parse import quote

from tests.server.raw import RawSocket
from tests.server.test_every_entry_point import FRAMES, METHODS, ODD, http_paths
from tests.server.test_odd_requests import BODIES, FIELDS, HEADERS, JUNK
from tools.attack import shapes
from tools.attack.findings import Findings
from tools.attack.frames import EFFECTS, MEMORY, WRITTEN, check_effects
from tools.attack.serving import MOST_MEMORY, Serving, read_notes
from tools.attack.target import FRAME, LIMITS

__all__ = ["attack_doors", "attack_requests"]

BATCH: Final = 50
WORKERS: Final = 4
UNFINISHED: Final = 20
"""Requests of each batch that are never finished."""
SLACK: Final = 30.0
"""Seconds that a busy machine may take to close a connection whose time is over."""

ODD_REQUESTS, ODD_BODIES, DRIBBLED, RAW, NEVER, FORWARDED, AFTER = (
    "odd methods, paths, headers, queries",
    "odd bodies",
    "requests that come byte by byte",
    "no HTTP, or two requests in one",
    "requests that are never finished, closed in time",
    "requests through a proxy or for another host, refused",
    "ordinary questions afterwards",
)
PATHS: Final = tuple(path for _, path in http_paths())
ODD_METHODS: Final = ("TRACE", "CONNECT", "BREW", "get", "PROPFIND", "X" * 3000)
LOCAL: Final = b"localhost"
STRANGE: Final = (
    *(b"Forwarded: for=1.2.3.4", b"Via: 1.1 proxy", b"X-Forwarded-For: 127.0.0.1", b"X-Forwarded-Host: localhost"),
    *(b"X-Forwarded-Anything: 1", b"X-Real-IP: 127.0.0.1", b"CF-Connecting-IP: ::1", b"True-Client-IP: 127.0.0.1"),
    *(b"X-Client-IP: 127.0.0.1", b"Host: example.org", b"Host: localhost.example.org", b"Host: 10.0.0.1"),
    *(b"Origin: https://evil.example", b"Origin: null", b"Origin: http://localhost.evil.example"),
)
UNENDING: Final = (
    b"",
    b"GET /agents/chat/ann/get-mess",
    b"GET /agents/chat/ann/get-messages HTTP/1.1\r\nHost: localhost\r\nX-One: 1\r\n",
    b"GET /agents/chat/ann HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgr",
    b"POST /agents/chat/ann/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
    b"POST /agents/chat/ann/chat HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
    b"POST /agents/chat/ann/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n" + b"x" * 9999,
)
NO_HTTP: Final = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /agents/chat/ann/get-messages\r\n\r\n",
    b"\r\n\r\n\r\n\r\n",
    b"\x00" * 100,
    b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /agents/chat/ann/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}    ",
    b"POST /agents/chat/ann/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n{}",
    b"POST /agents/chat/ann/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + b"9" * 400 + b"\r\n\r\n{}",
    b"POST /agents/chat/ann/chat HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n",
    (
        b"POST /agents/chat/ann/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\n\r\n"
    ),
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50,
    b"GET /healthz HTTP/1.1\nHost: localhost\n\n",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n folded: header\r\n\r\n",
    b"GET /agents/chat/ann HTTP/1.1\r\nHost: localhost\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
    b"GET /agents/chat/ann HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
)


@dataclass(frozen=True, slots=True)
class OddRequest:
    """One request, whole, and with the framing that HTTP asks for."""

    method: str
    path: bytes
    headers: tuple[bytes, ...]
    body: bytes | None

    def encoded(self) -> bytes:
        named = [b"Host: " + LOCAL] if not any(each.lower().startswith(b"host:") for each in self.headers) else []
        length = [b"Content-Length: %d" % len(self.body)] if self.body is not None else []
        lines = [b"%b %b HTTP/1.1" % (self.method.encode(), self.path), *named, *length, *self.headers]
        return b"".join(line + b"\r\n" for line in [*lines, b""]) + (self.body or b"")


def odd_request(chance: Random, name: str) -> OddRequest:
    """Return a request with an odd method, path, query or header, or several of them."""
    method, path = chance.choice(http_paths())
    if chance.random() < 0.2:
        method = chance.choice((*METHODS, *ODD_METHODS))
    place = f"/agents/chat/{name}/{path}".replace("leaf", chance.choice(("leaf", "chat"))).encode()
    if chance.random() < 0.2:
        pieces = place.split(b"/")
        pieces[chance.randrange(1, len(pieces))] = quote(chance.choice(JUNK)).encode()
        place = b"/".join(pieces)
    if chance.random() < 0.5:
        fields = [(chance.choice(FIELDS), chance.choice(JUNK)) for _ in range(chance.randint(1, 3))]
        place += b"?" + b"&".join(field + b"=" + quote(value).encode() for field, value in fields)
    junk = [value for value in JUNK if not {*b"\r\n\x00"} & {*value}]
    names = [each for each in HEADERS if each not in (b"content-length", b"transfer-encoding", b"upgrade")]
    headers = tuple(chance.choice(names) + b": " + chance.choice(junk) for _ in range(chance.choice((0, 1, 1, 3))))
    body = chance.choice(BODIES) if method == "POST" else None
    return OddRequest(method, place, headers, body)


def odd_body(chance: Random, name: str) -> OddRequest:
    """Return a question or a stop with a body that is not what it should be."""
    value = chance.choice((shapes.any_json(chance), {"messages": [shapes.any_json(chance)]}, shapes.near_miss(chance)))
    body = json.dumps(value).encode()
    match chance.randrange(8):
        case 0:
            body = chance.randbytes(chance.randrange(3000))
        case 1:
            body = shapes.deep(chance)
        case 2:
            body = b'{"messages":[' + b" " * chance.choice((10, FRAME - 100, FRAME + 100)) + b"]}"
        case 3:
            body = b'\xef\xbb\xbf{"messages":[]}'
    headers = [b"Content-Type: " + chance.choice((b"application/json", b"text/plain", b"\xff", b"multipart/form-data"))]
    if chance.random() < 0.3:
        headers.append(b"Prefer: respond-async")
    if chance.random() < 0.3:
        headers.append(b"Idempotency-Key: " + b"k" * round(60_000 ** chance.random()))
    path = chance.choice(("chat", "chat", "chat/stop", "own"))
    return OddRequest("POST", f"/agents/chat/{name}/{path}".encode(), tuple(headers), body)


async def status_of(url: str, data: bytes, *, pieces: int = 1) -> int | None:
    """Send bytes and read the status of the answer; None when the connection is closed without one."""
    async with RawSocket.connected(url) as client:
        step = max(1, -(-len(data) // pieces))
        for first in range(0, len(data), step):
            await client.push(data[first : first + step])
            await asyncio.sleep(0)
        try:
            head = await client.read_until(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.LimitOverrunError):
            return None
        return int(head.split(b" ", 2)[1])


class RequestAttack:
    """Attacks one server with batches of requests, several at a time, until the time is over."""

    def __init__(self, server: Serving, seed: int) -> None:
        self.findings = Findings("requests")
        self._server, self._seed = server, seed
        self._number = 0
        for what in (ODD_REQUESTS, ODD_BODIES, DRIBBLED, RAW, NEVER, FORWARDED, AFTER):
            self.findings.row(what)

    async def run(self, seconds: float) -> None:
        until = asyncio.get_running_loop().time() + seconds
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._work(until))
        for problem in check_effects(self.findings, self._server.folder, set()):
            self.findings.blame(EFFECTS, problem)
        self.findings.count(MEMORY, round(self._server.most_memory / 2**20))

    async def _work(self, until: float) -> None:
        loop, waiting = asyncio.get_running_loop(), list[asyncio.Task[None]]()
        is_first = True
        while is_first or loop.time() < until:
            is_first = False
            self._number += 1
            number = self._number
            chance, where = Random(f"{self._seed} requests {number}"), f"seed {self._seed}, batch {number}"
            waiting.append(asyncio.create_task(self._never_finish(chance, where)))
            for place in range(BATCH):
                await self._send(chance, f"r{number % 50}", place, where)
            await self._ask(f"r{number % 50}", f"after-{number}", f"still {number}", f"You said: still {number}", where)
            await self._ask(f"r{number % 50}", f"pay-{number}", "call pay", '"output":"paid"', where)
            self._look(where)
        await asyncio.gather(*waiting)

    async def _send(self, chance: Random, name: str, place: int, where: str) -> None:
        if place % 10 == 0:
            await self._send_raw(chance, where)
            return
        if place % 10 == 1:
            await self._send_strange(chance, name, where)
            return
        what = chance.choices((ODD_REQUESTS, ODD_BODIES, DRIBBLED), (6, 3, 1))[0]
        request = odd_body(chance, name) if what == ODD_BODIES else odd_request(chance, name)
        data = request.encoded()
        self.findings.count(what)
        try:
            status = await status_of(self._server.url, data, pieces=min(len(data), 300) if what == DRIBBLED else 1)
        except TimeoutError:
            self.findings.blame(what, f"no answer to {data[:400]!r} ({where})")
            return
        is_known = status is not None or request.method in ODD_METHODS
        if not is_known or (status is not None and status >= 500 and status != 503):
            self.findings.blame(what, f"{status} for {data[:400]!r} ({where})")

    async def _send_raw(self, chance: Random, where: str) -> None:
        """Send what is no request, or an ambiguous one: it is refused, or the connection is closed."""
        data = chance.choice((*NO_HTTP, chance.randbytes(chance.randrange(1, 3000))))
        self.findings.count(RAW)
        try:
            status = await status_of(self._server.url, data)
        except TimeoutError:
            self.findings.blame(RAW, f"neither an answer nor a close after {data[:200]!r} ({where})")
            return
        if status is not None and status >= 500:
            self.findings.blame(RAW, f"{status} for {data[:200]!r} ({where})")

    async def _send_strange(self, chance: Random, name: str, where: str) -> None:
        """Send a request that did not begin on this machine: without `authorize`, it is refused."""
        method, path = chance.choice(http_paths())
        request = OddRequest(method, f"/agents/chat/{name}/{path}".encode(), (chance.choice(STRANGE),), b"")
        self.findings.count(FORWARDED)
        status = await status_of(self._server.url, request.encoded())
        if status not in (400, 403):
            self.findings.blame(FORWARDED, f"{status} for {request} ({where})")

    async def _never_finish(self, chance: Random, where: str) -> None:
        """Open requests that are never finished; each of them is closed in time."""
        begun = [chance.choice(UNENDING) for _ in range(UNFINISHED)]
        async with AsyncExitStack() as stack:
            opened = [await stack.enter_async_context(RawSocket.connected(self._server.url)) for _ in begun]
            for data, client in zip(begun, opened, strict=True):
                client.write(data)
            self.findings.count(NEVER, len(opened))
            try:
                async with asyncio.timeout(LIMITS.message_seconds + SLACK):
                    await asyncio.gather(*(client.rest() for client in opened))
            except TimeoutError:
                self.findings.blame(NEVER, f"still open after {LIMITS.message_seconds + SLACK} s ({where})")

    async def _ask(self, name: str, request: str, text: str, expected: str, where: str) -> None:
        """Ask an ordinary question over HTTP, and read its answer."""
        self.findings.count(AFTER)
        body = json.dumps({"messages": [shapes.user(f"u-{request}", text)]}).encode()
        asked = OddRequest("POST", f"/agents/chat/{name}/chat".encode(), (b"Connection: close",), body)
        async with RawSocket.connected(self._server.url) as client:
            await client.push(asked.encoded())
            answer = await client.rest()
        if expected.encode() not in answer:
            self.findings.blame(AFTER, f"{text!r} was answered with {answer[:500]!r} ({where})")

    def _look(self, where: str) -> None:
        if not self._server.is_running:
            raise RuntimeError(f"the server is gone ({where}). See {self._server.folder}")
        if (now := self._server.memory()) > MOST_MEMORY:
            self.findings.blame(MEMORY, f"{now:,} bytes ({where})")
        for complaint in self._server.complaints():
            self.findings.blame(WRITTEN, f"{complaint} ({where})")


async def attack_requests(folder: Path, seed: int, seconds: float, fault: str = "") -> Findings:
    """Attack a server with requests for so many seconds."""
    server = Serving(folder, "target.py", ATTACK_FAULT=fault)
    await server.start()
    try:
        attack = RequestAttack(server, seed)
        await attack.run(seconds)
        return attack.findings
    finally:
        await server.kill()


# -- doors ------------------------------------------------------------------------------------------------------------

CLOSE: Final = 8
TRY_LATER: Final = 1013
OVER_HTTP, BY_SOCKET = "odd verdicts of `authorize`, every way over HTTP", "odd verdicts of `authorize`, sockets"


async def attack_doors(folder: Path, seed: int, most: int, fault: str = "") -> Findings:
    """Try every door with every odd verdict, in random order, at most so many of each sort."""
    findings = Findings("doors")
    server = Serving(folder, "target.py", ATTACK_FAULT=fault, ATTACK_AUTHORIZE="1")
    await server.start()
    chance = Random(f"{seed} doors")
    doors = [(verdict, method, path) for verdict in ODD for method, path in http_paths()]
    chance.shuffle(doors)
    try:
        for verdict, method, path in doors[:most]:
            request = OddRequest(method, f"/agents/chat/ann/{path}".encode(), (b"x-verdict: " + verdict.encode(),), b"")
            findings.count(OVER_HTTP)
            if (status := await status_of(server.url, request.encoded())) != 500:
                findings.blame(OVER_HTTP, f"{status} for {method} {path} when `authorize` returns {verdict}")
        for number in range(min(most, 4 * len(ODD))):
            verdict = list(ODD)[number % len(ODD)]
            findings.count(BY_SOCKET)
            for problem in await _try_socket(server.url, verdict, ("ann", "ann/sub/leaf/x")[number % 2]):
                findings.blame(BY_SOCKET, problem)
        for words in read_notes(folder):
            findings.blame(OVER_HTTP, f"a request got to the agent: {words}")
        return findings
    finally:
        await server.kill()


async def _try_socket(url: str, verdict: str, name: str) -> Sequence[str]:
    """Open a socket and send every frame at once; return what is wrong with how it is refused."""
    async with RawSocket.connected(url) as client:
        await client.upgrade(f"x-verdict: {verdict}", name=name)
        for kind, fields in FRAMES.items():
            client.say(type=kind, **fields)
        try:
            opcode, data, _ = await client.next()
        except (asyncio.IncompleteReadError, ConnectionError):
            return [f"a socket was dropped without a close when `authorize` returns {verdict}"]
        is_refused = opcode == CLOSE and int.from_bytes(data[:2]) == TRY_LATER
        return [] if is_refused else [f"a socket to {name} got {data[:100]!r} for the verdict {verdict}"]
