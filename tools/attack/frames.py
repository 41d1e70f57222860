"""Frames: whatever a socket sends, the conversation and its neighbours go on, and no tool runs that no model called."""

from __future__ import annotations

import asyncio
import itertools
import json
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
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
WORKERS: Final = 4
CONTINUED: Final = 0.1
"""Seconds after which a call that was answered has gone on, if it ever does (R-3)."""
RESTARTED: Final = 40
"""Conversations that are asked again after a restart."""
CLOSE, PING, PONG = 8, 9, 10
WITNESS: Final = "witness"
"""Conversations that are never attacked."""
CLOSES: Final = frozenset({1000, 1001, 1002, 1005, 1003, 1007, 1008, 1009, 1013})
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
TEXTS: Final = {NEAR: 40, FORGED: 40, ANSWERS: 20, ANY: 10, IDS: 1, DEEP: 1}
"""Kinds of text frames, and how often each is sent once all of them were."""
SITUATIONS: Final = ("hello", "call pay", "call refund", "call where", "stream")
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
            if opcode == CLOSE:
                raise Closed(int.from_bytes(part[:2]) if part else 1005, part[2:].decode(errors="replace"))
            if opcode == PING:
                await self.push(frame(part, PONG))
            if opcode < CLOSE:
                data += part
                if is_last:
                    found: dict[str, Any] = json.loads(data)
                    return found


def wire_frames(chance: Random, kind: int) -> tuple[str, bytes]:
    """Return bytes that are no ordinary text message, and what they are; there are eight kinds."""
    asked = json.dumps(shapes.request(f"w-{chance.getrandbits(40)}", [shapes.user("u-w", "hello")])).encode()
    match kind % 8:
        case 0:
            texts = (
                b"",
                b"\xff\xfe",
                b"\x00",
                b'{"type":"rpc","id":"\xed\xa0\x80"}',
                b'"\\ud800"',
                b'{"type":"\\udfff"}',
            )
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
    """Attacks one server with batches of frames, several at a time, until the time is over."""

    def __init__(self, server: Serving, seed: int) -> None:
        self.findings = Findings("frames")
        self.forged = shapes.forged(seed)
        self.unapproved: set[str] = set()
        """Calls that nobody approved."""
        self._server, self._seed = server, seed
        self._numbers = itertools.count()
        for what in (NEAR, FORGED, ANSWERS, ANY, IDS, DEEP, TEXT, LARGE, PIECES, WIRE, SAME, OTHER, AGAIN):
            self.findings.row(what)

    async def run(self, seconds: float) -> None:
        until = asyncio.get_running_loop().time() + seconds
        async with asyncio.TaskGroup() as group:
            for worker in range(WORKERS):
                group.create_task(self._work(worker, until))
        await self._restart()
        for problem in check_effects(self.findings, self._server.folder, self.unapproved):
            self.findings.blame(EFFECTS, problem)
        self.findings.count(MEMORY, round(self._server.most_memory / 2**20))

    async def _work(self, worker: int, until: float) -> None:
        """Run one batch after the other, each followed by a question in a conversation that is not attacked."""
        loop, url = asyncio.get_running_loop(), self._server.url
        client = httpx.AsyncClient(base_url=f"{url}/agents/chat", timeout=60.0, trust_env=False)
        async with Attacker.connected(url, f"{WITNESS}-{worker}") as witness, client:
            is_first = True
            while is_first or loop.time() < until:
                is_first = False
                batch = Batch(self, next(self._numbers), url, client)
                try:
                    await batch.run()
                    end = await witness.ask(f"w{batch.number}", "still there?")
                    self.check_answer(OTHER, end, batch.where)
                except (Closed, TimeoutError, httpx.HTTPError, OSError) as exc:
                    self.findings.blame(SAME, f"{exc!r} ({batch.where})")
                self._look(batch.where)

    def check_answer(self, what: str, end: dict[str, Any], where: str) -> None:
        self.findings.count(what)
        if end.get("outcome") != "completed" or end.get("error"):
            self.findings.blame(what, f"a question ended with {end} ({where})")

    def _look(self, where: str) -> None:
        """Look at the process: it is alive, small, and wrote nothing that it should not."""
        if not self._server.is_running:
            raise RuntimeError(f"the server is gone ({where}). See {self._server.folder}")
        if (now := self._server.memory()) > MOST_MEMORY:
            self.findings.blame(MEMORY, f"{now:,} bytes ({where})")
        for complaint in self._server.complaints():
            self.findings.blame(WRITTEN, f"{complaint} ({where})")

    async def _restart(self) -> None:
        """Kill the server and start it again; conversations that were attacked still answer."""
        await self._server.kill()
        await self._server.start()
        chance, names = Random(f"{self._seed} restart"), range(next(self._numbers))
        for number in chance.sample(names, min(RESTARTED, len(names))):
            where = f"seed {self._seed}, batch {number}, after a restart"
            try:
                async with Attacker.connected(self._server.url, f"c{number}") as attacker:
                    self.check_answer(AGAIN, await attacker.ask("again", "still there?"), where)
            except (Closed, TimeoutError, OSError) as exc:
                self.findings.blame(AGAIN, f"{exc!r} ({where})")
        self._look("after a restart")

    def chance(self, number: int) -> tuple[Random, str]:
        """Return what a batch follows from, and its name for people."""
        return Random(f"{self._seed} frames {number}"), f"seed {self._seed}, batch {number}"


class Batch:
    """Some frames to one conversation, and ordinary questions behind them."""

    def __init__(self, attack: FrameAttack, number: int, url: str, client: httpx.AsyncClient) -> None:
        self.number, self._name = number, f"c{number}"
        self._chance, self.where = attack.chance(number)
        self._attack, self._findings, self._url, self._client = attack, attack.findings, url, client
        self._may_approve = self._chance.random() < 0.5
        self._asked: list[str] = []
        """Requests that the server owes an answer."""

    async def run(self) -> None:
        async with Attacker.connected(self._url, self._name) as attacker:
            await self._prepare(attacker)
            if not self._may_approve:
                self._attack.unapproved.update(attacker.calls)
            if self.number % 3 == 2:
                await self._send_wire()
                await self._ask(attacker, "after", "and now?")
            else:
                await self._send_texts(attacker)
                await self._ask_afterwards(attacker)

    async def _prepare(self, attacker: Attacker) -> None:
        """Bring the conversation into one of several situations: new, answered, with an open call, in a stream."""
        texts = [self._chance.choice(SITUATIONS) for _ in range(self._chance.randrange(3))]
        for place, text in enumerate(texts if self.number else ("call pay", "call refund")):
            if text == "stream":
                await attacker.send(shapes.request(f"p{place}", [shapes.user(f"u-p{place}", text)]))
                return
            await attacker.ask(f"p{place}", text)

    async def _send_texts(self, attacker: Attacker) -> None:
        """Send text frames, of which none may close the socket (P-36)."""
        is_patient = self._chance.random() < 0.7
        for place in range(BATCH):
            what = self._chance.choices(tuple(TEXTS), tuple(TEXTS.values()))[0]
            if place < len(TEXTS):
                what = tuple(TEXTS)[place]
            self._findings.count(what)
            if what == FORGED:
                sent = await self._send_forged(attacker, place)
            else:
                sent = self._text(what, attacker.calls)
                await attacker.push(frame(sent))
            if is_patient or place == BATCH - 1:
                try:
                    await attacker.settle()
                except (Closed, TimeoutError) as exc:
                    self._findings.blame(what, f"{exc!r} after {sent[:500]!r} ({self.where})")
                    raise
        for request in self._asked:
            await attacker.end_of(request)

    def _text(self, what: str, calls: Sequence[str]) -> bytes:
        chance, value = self._chance, None
        if what == NEAR:
            value = shapes.near_miss(chance)
        elif what == ANSWERS:
            value = shapes.call_answer(chance, calls, may_approve=self._may_approve)
        elif what == IDS:
            value = shapes.long_id(chance, FRAME)
        elif what == ANY:
            value = shapes.any_json(chance)
        return shapes.deep(chance) if what == DEEP else json.dumps(value).encode()

    async def _send_forged(self, attacker: Attacker, place: int) -> bytes:
        """Send a message that a client made up, in one of the ways that clients have."""
        way, message = next(self._attack.forged)
        messages = [shapes.user(f"u-f{place}", "hello"), message] if self._chance.random() < 0.5 else [message]
        if way == "post":
            answer = await self._client.post(f"{self._name}/chat", content=json.dumps({"messages": messages}))
            if answer.status_code >= 500:
                self._findings.blame(FORGED, f"{answer.status_code} for a post of {messages} ({self.where})")
        elif way == "sync":
            await attacker.send({"type": "cf_agent_chat_messages", "messages": messages})
        else:
            self._asked.append(f"forged-{place}")
            await attacker.send(shapes.request(f"forged-{place}", messages))
        if self._chance.random() < 0.7:  # whatever became of the message: have its calls run
            for each in shapes.MADE_UP_ANSWERS:
                self._findings.count(ANSWERS)
                await attacker.send(each)
            if self._chance.random() < 0.4:
                await asyncio.sleep(CONTINUED)
        return f"{way} {messages}".encode(errors="replace")

    async def _send_wire(self) -> None:
        """Send bytes that may close the socket, each to a socket of its own."""
        for place in range(BATCH // 2):
            what, data = wire_frames(self._chance, place + self.number // 3)
            self._findings.count(what)
            async with Attacker.connected(self._url, self._name) as attacker:
                try:
                    await attacker.push(data)
                    if what != PIECES:
                        await attacker.settle()
                except Closed as exc:
                    if exc.code is not None and exc.code not in CLOSES:
                        self._findings.blame(what, f"{exc} after {data[:200]!r} ({self.where})")
                except TimeoutError:
                    self._findings.blame(what, f"neither answer nor close after {data[:200]!r} ({self.where})")

    # -- afterwards ---------------------------------------------------------------------------------------------------

    async def _ask(self, attacker: Attacker, request: str, text: str, before: Sequence[Any] = ()) -> None:
        self._attack.check_answer(SAME, await attacker.ask(request, text, before), self.where)

    async def _ask_afterwards(self, attacker: Attacker) -> None:
        """Ask ordinary questions: alone, and behind the whole conversation as the stock client does."""
        await self._ask(attacker, "after", "and now?")
        await self._ask(attacker, "at-last", "at last", await self._shown())
        answer = (await self._shown())[-1]
        if "".join(part.get("text", "") for part in answer["parts"]) != "You said: at last":
            self._findings.blame(SAME, f"a question was answered by {answer} ({self.where})")

    async def _shown(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self._client.get(f"{self._name}/get-messages")).json()
        return found


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
        await server.kill()
