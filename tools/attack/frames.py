"""Frames: whatever a socket sends, the conversation and its neighbours go on, and no tool runs that no model called."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, Final

import httpx

from tests.server.raw import RawSocket, frame
from tools.attack import shapes
from tools.attack.findings import Findings
from tools.attack.serving import MOST_MEMORY, Serving, read_notes
from tools.attack.target import FRAME

__all__ = ["attack_frames", "check_effects"]

BATCH: Final = 20
WITNESS: Final = "witness"
"""A conversation that is never attacked."""
CLOSES: Final = frozenset({1000, 1001, 1002, 1003, 1007, 1008, 1009, 1013})
"""How a socket may be closed for bytes that are no WebSocket message, or too large. 1011 is a failure of the server."""

NEAR, FORGED, ANSWERS, ANY, IDS, DEEP, TEXT, LARGE, PIECES, WIRE = (
    "near misses of the protocol's frames",
    "messages with odd roles, parts, states, approvals",
    "answers and approvals of calls, real and made up",
    "random JSON",
    "ids of up to megabytes",
    "deeply nested JSON",
    "binary, empty, no UTF-8, lone surrogates",
    "frames above the limit",
    "fragments and unfinished frames",
    "pings, odd opcodes, bits, closes, compression",
)
SAME, OTHER, AGAIN = (
    "ordinary questions afterwards, same conversation",
    "ordinary questions afterwards, another conversation",
    "ordinary questions after a kill and a restart",
)
EFFECTS, MEMORY, WRITTEN = "tools run, each once and called by the model", "MiB of memory at most", "lines of the log"


class Closed(Exception):
    """The server closed the socket."""

    def __init__(self, code: int | None, reason: str = "") -> None:
        super().__init__(f"closed with {code} {reason}")
        self.code = code


class Attacker:
    """One raw socket; remembers which requests it was told the end of."""

    def __init__(self, socket: RawSocket) -> None:
        self.socket = socket
        self.ends: dict[Any, dict[str, Any]] = {}
        self.calls: list[str] = []
        """Ids of the calls that the server has told of."""
        self._marks = 0

    @classmethod
    @asynccontextmanager
    async def connected(cls, url: str, name: str) -> AsyncIterator[Attacker]:
        async with RawSocket.connected(url) as socket:
            await socket.upgrade(name=name)
            yield cls(socket)

    async def send(self, value: Any) -> None:
        await self.push(frame(json.dumps(value).encode()))

    async def push(self, data: bytes) -> None:
        await self.socket.push(data)

    async def settle(self) -> None:
        """Wait until everything that was sent has been taken."""
        self._marks += 1
        mark = f"mark-{self._marks}"
        await self.send({"type": "rpc", "id": mark, "method": "nothing", "args": []})
        while (await self.next()).get("id") != mark:
            pass

    async def end_of(self, request: str) -> dict[str, Any]:
        while request not in self.ends:
            await self.next()
        return self.ends[request]

    async def ask(self, request: str, text: str, before: Sequence[Any] = ()) -> dict[str, Any]:
        """Ask an ordinary question; return the frame that ends its answer."""
        await self.send(shapes.request(request, [*before, shapes.user(f"u-{request}", text)]))
        return await self.end_of(request)

    async def next(self) -> dict[str, Any]:
        """Read the next message, and remember what it tells."""
        message = await self._read()
        if message.get("done") is True and message.get("type") == "cf_agent_use_chat_response":
            self.ends[message.get("id")] = message
        if '"tool-input-available"' in (body := str(message.get("body"))):
            self.calls.append(json.loads(body)["toolCallId"])
        return message

    async def _read(self) -> dict[str, Any]:
        data = b""
        while True:
            try:
                opcode, part, is_last = await self.socket.next()
            except (asyncio.IncompleteReadError, ConnectionError):
                raise Closed(None) from None
            if opcode == 8:
                raise Closed(int.from_bytes(part[:2]) if part else 1005, part[2:].decode(errors="replace"))
            if opcode < 8:
                data += part
                if is_last:
                    found: dict[str, Any] = json.loads(data)
                    return found


def wire_frames(chance: Random) -> tuple[str, bytes]:
    """Return bytes that are no ordinary text message, and what they are."""
    asked = json.dumps(shapes.request(f"w-{chance.getrandbits(40)}", [shapes.user("u-w", "hello")])).encode()
    match chance.randrange(8):
        case 0:
            texts = (b"", b"\xff\xfe", b"\x00", b'{"type":"rpc","id":"\xed\xa0\x80"}', b'"\\ud800"', b'{"type":"\\udfff"}')
            return TEXT, frame(chance.choice(texts), chance.choice((1, 1, 2)))
        case 1:
            return TEXT, frame(chance.randbytes(chance.randrange(2000)), chance.choice((1, 2)))
        case 2:
            size = round(FRAME * chance.choice((1.0, 1.01, 2, 3.9, 4.1, 100, 2**30)))
            whole = b'{"type":"cf_agent_use_chat_request","id":"large","x":"' + b"x" * min(size, 5 * FRAME) + b'"}'
            return LARGE, frame(whole, size=size if size > 5 * FRAME else None)
        case 3:
            return PIECES, _fragmented(asked, chance)
        case 4:
            return PIECES, frame(asked, 1, fin=False) + chance.choice((b"", frame(b"x" * 5000, 0, fin=False)))
        case 5:
            return PIECES, frame(asked[:50], size=chance.choice((len(asked), 10**6, FRAME)))
        case 6:
            return WIRE, _control(chance)
        case _:
            packer = zlib.compressobj(9, zlib.DEFLATED, -12)
            packed = packer.compress(b" " * chance.choice((10, 10**5, 10**7))) + packer.flush(zlib.Z_SYNC_FLUSH)
            return WIRE, frame(packed[:-4], first=0x40)


def _fragmented(asked: bytes, chance: Random) -> bytes:
    """Return a whole message in many fragments, with pings between them."""
    count = chance.choice((2, 10, len(asked)))
    step = max(1, len(asked) // count)
    parts = [asked[first : first + step] for first in range(0, len(asked), step)]
    data = b""
    for number, part in enumerate(parts):
        data += frame(part, 0 if number else 1, fin=number == len(parts) - 1)
        if chance.random() < 5 / len(parts):
            data += frame(b"?", 9)
    return data


def _control(chance: Random) -> bytes:
    return chance.choice(
        (
            frame(b"?" * 125, 9),
            frame(b"?" * 126, 9),
            frame(b"?", 9, fin=False),
            frame(b"?", 9) * 30,
            frame(b"?", 10) * 500,
            frame(b"", 0),
            frame(b"x", chance.choice((3, 7, 11, 15))),
            frame(b"x", first=chance.choice((0x10, 0x20, 0x70))),
            b"\x81\x05hello",
            frame(b"", 8),
            frame(b"\x03", 8),
            frame((chance.choice((0, 999, 1000, 1005, 1006, 1011, 2999, 5000))).to_bytes(2) + b"\xff", 8),
            frame(b"\x03\xe8" + b"x" * 123, 8),
            b"GET / HTTP/1.1\r\n\r\n",
            chance.randbytes(200),
        )
    )


class FrameAttack:
    """Attacks one server with batches of frames until the time is over."""

    def __init__(self, server: Serving, seed: int) -> None:
        self.findings = Findings("frames")
        self._server, self._seed = server, seed
        self._forged = shapes.forged(seed)
        self._names: list[str] = []
        self._unapproved: set[str] = set()
        """Calls that nobody approved."""
        self._blamed = 0
        for what in (NEAR, FORGED, ANSWERS, ANY, IDS, DEEP, TEXT, LARGE, PIECES, WIRE, SAME, OTHER, AGAIN):
            self.findings.row(what)

    async def run(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until, number = loop.time() + seconds, 0
        async with Attacker.connected(self._server.url, WITNESS) as witness, self._client() as client:
            while loop.time() < until or number < 2:
                await self._batch(number, witness, client)
                number += 1
        await self._restart()

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=f"{self._server.url}/agents/chat", timeout=60.0, trust_env=False)

    # -- one batch ----------------------------------------------------------------------------------------------------

    async def _batch(self, number: int, witness: Attacker, client: httpx.AsyncClient) -> None:
        chance = Random(f"{self._seed} frames {number}")
        name = f"c{number}"
        self._names.append(name)
        self._where = f"seed {self._seed}, batch {number}"
        may_approve = chance.random() < 0.5
        try:
            async with Attacker.connected(self._server.url, name) as attacker:
                await self._prepare(attacker, chance)
                if not may_approve:
                    self._unapproved.update(attacker.calls)
                if number % 3 == 2:
                    await self._send_wire(attacker, name, chance)
                else:
                    await self._send_texts(attacker, client, name, chance, may_approve=may_approve)
                    await self._ask_afterwards(attacker, client, name, number)
            async with asyncio.timeout(60):
                await self._check_answer(OTHER, await witness.ask(f"w{number}", f"still {number}"), witness)
        except (Closed, TimeoutError, httpx.HTTPError, OSError) as exc:
            self._blame(SAME, f"the batch ended with {exc!r}")
        self._look()

    async def _prepare(self, attacker: Attacker, chance: Random) -> None:
        """Bring the conversation into one of several situations: new, answered, with an open call, in a stream."""
        for place in range(chance.randrange(3)):
            text = chance.choice(("hello", "call pay", "call refund", "call where", "stream"))
            if text == "stream":
                await attacker.send(shapes.request(f"p{place}", [shapes.user(f"u-p{place}", text)]))
                return
            await attacker.ask(f"p{place}", text)

    async def _send_texts(
        self, attacker: Attacker, client: httpx.AsyncClient, name: str, chance: Random, *, may_approve: bool
    ) -> None:
        """Send text frames, of which none may close the socket (P-36)."""
        is_patient, expected = chance.random() < 0.7, list[str]()
        for place in range(BATCH):
            what, sent = self._text_frame(chance, attacker.calls, may_approve=may_approve)
            if what == FORGED:
                way, message = next(self._forged)
                request = f"forged-{place}"
                before = [shapes.user(f"u-f{place}", "hello")] if chance.random() < 0.5 else []
                if way == "post":
                    await self._post(client, name, [*before, message])
                elif way == "sync":
                    await attacker.send({"type": "cf_agent_chat_messages", "messages": [*before, message]})
                else:
                    expected.append(request)
                    await attacker.send(shapes.request(request, [*before, message]))
                sent = way.encode() + json.dumps(message).encode()
            else:
                await attacker.push(frame(sent))
            self.findings.count(what)
            if is_patient:
                try:
                    await attacker.settle()
                except (Closed, TimeoutError) as exc:
                    self._blame(what, f"{exc!r} after {sent[:500]!r}")
                    raise
        await attacker.settle()
        for request in expected:
            await attacker.end_of(request)

    def _text_frame(self, chance: Random, calls: Sequence[str], *, may_approve: bool) -> tuple[str, bytes]:
        what = chance.choices((NEAR, FORGED, ANSWERS, ANY, IDS, DEEP), (30, 30, 20, 12, 4, 4))[0]
        match what:
            case _ if what == NEAR:
                sent: Any = shapes.near_miss(chance)
            case _ if what == ANSWERS:
                sent = shapes.call_answer(chance, calls, may_approve=may_approve)
            case _ if what == ANY:
                sent = shapes.any_json(chance)
            case _ if what == IDS:
                sent = shapes.long_id(chance, FRAME)
            case _ if what == DEEP:
                return what, shapes.deep(chance)
            case _:
                sent = None
        return what, json.dumps(sent).encode()

    async def _post(self, client: httpx.AsyncClient, name: str, messages: list[Any]) -> None:
        answer = await client.post(f"{name}/chat", content=json.dumps({"messages": messages}))
        if answer.status_code >= 500:
            self._blame(FORGED, f"a post was answered with {answer.status_code}: {messages}")

    async def _send_wire(self, attacker: Attacker, name: str, chance: Random) -> None:
        """Send bytes that may close the socket, each to a socket of its own."""
        for _ in range(BATCH // 2):
            what, data = wire_frames(chance)
            self.findings.count(what)
            async with Attacker.connected(self._server.url, name) as other:
                try:
                    await other.push(data)
                    if what != PIECES:
                        await other.push(frame(b'{"type":"rpc","id":"over","method":"nothing","args":[]}'))
                        while (await other.next()).get("id") != "over":
                            pass
                except Closed as exc:
                    if exc.code is not None and exc.code not in CLOSES:
                        self._blame(what, f"{exc} after {data[:200]!r}")
                except TimeoutError:
                    self._blame(what, f"neither an answer nor a close after {data[:200]!r}")
        await self._check_answer(SAME, await attacker.ask("after", "and now?"), attacker, "and now?")

    # -- afterwards ---------------------------------------------------------------------------------------------------

    async def _ask_afterwards(self, attacker: Attacker, client: httpx.AsyncClient, name: str, number: int) -> None:
        """Ask ordinary questions: alone, and behind the whole conversation as the stock client does."""
        await self._check_answer(SAME, await attacker.ask("after", "and now?"), attacker, "and now?")
        shown = (await client.get(f"{name}/get-messages")).json()
        end = await attacker.ask("after-all", f"at last {number}", shown)
        await self._check_answer(SAME, end, attacker, f"at last {number}")
        shown = (await client.get(f"{name}/get-messages")).json()
        last = "".join(part.get("text", "") for part in shown[-1]["parts"])
        if not last.endswith(f"You said: at last {number}"):
            self._blame(SAME, f"the question at last {number} is answered by {last!r}")

    async def _check_answer(self, what: str, end: dict[str, Any], attacker: Attacker, text: str = "") -> None:
        self.findings.count(what)
        if end.get("outcome") != "completed" or end.get("error"):
            self._blame(what, f"a question ended with {end}")

    def _look(self) -> None:
        """Look at the process: it is alive, small, and wrote nothing that it should not."""
        if not self._server.is_running:
            raise RuntimeError(f"the server is gone ({self._where}). See {self._server.folder}")
        if (now := self._server.memory()) > MOST_MEMORY:
            self._blame(MEMORY, f"{now:,} bytes")
        for complaint in self._server.complaints():
            self._blame(WRITTEN, complaint)

    def _blame(self, what: str, problem: str) -> None:
        self._blamed += 1
        self.findings.blame(what, f"{problem} ({self._where})")

    async def _restart(self) -> None:
        """Kill the server and start it again; conversations that were attacked still answer."""
        self._where = "after the restart"
        await self._server.kill()
        await self._server.start()
        chance = Random(f"{self._seed} restart")
        for name in chance.sample(self._names, min(40, len(self._names))):
            try:
                async with Attacker.connected(self._server.url, name) as attacker:
                    await self._check_answer(AGAIN, await attacker.ask("again", "still there?"), attacker)
            except (Closed, TimeoutError, OSError) as exc:
                self._blame(AGAIN, f"{name}: {exc!r}")
        self._look()
        for problem in check_effects(self.findings, self._server.folder, self._unapproved):
            self._blame(EFFECTS, problem)
        self.findings.count(MEMORY, round(self._server.most_memory / 2**20))


def check_effects(findings: Findings, folder: Path, unapproved: set[str]) -> Iterator[str]:
    """Yield what is wrong with the effects of tools: made-up calls, other arguments, doubles, no approval."""
    called = set[tuple[str, str, str]]()
    effects: Counter[tuple[str, str, str]] = Counter()
    for words in read_notes(folder):
        match words:
            case ["called", name, call, amount]:
                called.add((name, call, amount))
            case ["effect", name, call, amount]:
                effects[name, call, amount] += 1
    findings.count(EFFECTS, effects.total())
    for effect, times in effects.items():
        if effect not in called:
            yield f"{effect} ran, and no model called it"
        if times > 1:
            yield f"{effect} ran {times} times"
        if effect[0] == "refund" and effect[1] in unapproved:
            yield f"{effect} ran, and nobody approved it"


async def attack_frames(folder: Path, seed: int, seconds: float, fault: str = "") -> Findings:
    """Attack a server with frames for so many seconds."""
    server = Serving(folder, "target.py", ATTACK_FAULT=fault)
    await server.start()
    try:
        attack = FrameAttack(server, seed)
        await attack.run(seconds)
        return attack.findings
    finally:
        with suppress(ProcessLookupError):
            await server.kill()
