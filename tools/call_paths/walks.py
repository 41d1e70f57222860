"""The walks that are measured, and the server and the clients that take them."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .recorder import Recorder, Trace

__all__ = ["WALKS", "Walk", "measure"]

SECONDS: Final = 20.0
"""Longest wait for a frame, or for the end of a walk."""
QUIET: Final = 0.03
"""Seconds in which the server finishes what it does before a walk begins. Begin and end of a walk are not timed."""
WARM_UP: Final = 2
"""Rounds before the measured ones, for imports, caches and prepared statements."""

_PROTOCOLS: Final = (
    "server.uvicorn_websocket:UvicornWebSocketProtocol",
    "server.gathering:GatheringProtocol",
)
"""The protocol class of `everyword serve`, today's name first: older commits are measured as well."""


@dataclass(frozen=True)
class Walk:
    """One way through the code."""

    name: str
    title: str


WALKS: Final = (
    Walk("chunk", "one paced chunk, `yield` to socket bytes"),
    Walk("request", "request frame to the user's handler"),
    Walk("resume", "acknowledged resume to replay sent"),
    Walk("approval", "approval frame to the tool's code"),
)

FRAME_RECEIVED: Final = "the protocol receives the bytes of a frame (data_received)"
CHUNK_YIELDED: Final = "the handler yields a chunk (Story.on_chat_message)"
BYTES_WRITTEN: Final = "the transport takes the bytes (write)"
HANDLER_RUNS: Final = "the handler's first line (Story.on_chat_message)"
TOOL_RUNS: Final = "the tool's first line (Bank.refund)"


def measure(package: str, folder: Path, rounds: int) -> dict[str, list[Trace]]:
    """Take each walk `rounds` times after a warm-up, with a store in `folder`; return what each walk called."""
    recorder = Recorder(Path(str(importlib.import_module(package).__file__)).parent)
    found: dict[str, list[Trace]] = {walk.name: [] for walk in WALKS}
    with _served(package, folder / "walks.db", recorder) as server:
        for number in range(WARM_UP + rounds):
            taken = {**_story(server, recorder, f"story-{number}"), **_refund(server, recorder, f"bank-{number}")}
            if number >= WARM_UP:
                for name, trace in taken.items():
                    found[name].append(trace)
    return found


# -- the server --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Server:
    port: int
    pace: _Pace

    def connect(self, kind: str, name: str) -> AbstractContextManager[_Client]:
        return _connected(f"ws://127.0.0.1:{self.port}/agents/{kind}/{name}")


class _Pace:
    """Lets the handler yield one word each time that the client's thread allows it."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._allowed = asyncio.Semaphore(0)

    async def wait(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._allowed.acquire()

    def allow(self) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._allowed.release)


@contextmanager
def _served(package: str, store: Path, recorder: Recorder) -> Iterator[_Server]:
    """Run a real server in a thread of its own, which the recorder watches."""
    import uvicorn

    pace = _Pace()
    app = _app(package, store, recorder, pace)
    config = uvicorn.Config(
        app, ws=_protocol(package, recorder), ws_per_message_deflate=False, log_config=None, access_log=False
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        recorder.install()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="event loop")
        thread.start()
        try:
            _wait_until(lambda: server.started or not thread.is_alive())
            yield _Server(listener.getsockname()[1], pace)
        finally:
            recorder.uninstall()
            server.should_exit = True
            thread.join(SECONDS)


def _wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_true():
        if time.monotonic() > deadline:
            raise TimeoutError("the server did not start")
        time.sleep(0.01)


def _app(package: str, store: Path, recorder: Recorder, pace: _Pace) -> Any:
    names: Any = importlib.import_module(package)

    class Story(names.AIChatAgent):  # type: ignore[misc]  # the package is chosen by name
        async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
            recorder.end("request", HANDLER_RUNS)
            for number in range(WORDS):
                await pace.wait()
                recorder.begin("chunk", CHUNK_YIELDED)
                yield _word(number)

    class Bank(names.AIChatAgent):  # type: ignore[misc]
        async def on_chat_message(self, turn: Any) -> AsyncIterator[Any]:
            async for step in turn.steps():
                async for chunk in step.run(_model(step.messages)):
                    yield chunk

        @names.tool(needs_approval=True)  # type: ignore[untyped-decorator]
        async def refund(self, amount: float) -> str:
            """Give money back."""
            recorder.end("approval", TOOL_RUNS)
            return f"refunded {amount:g}"

    app = getattr(names, package.title())  # the class of apps has had the package's name under each of its names
    return app([Story, Bank], store=str(store))


async def _model(messages: Any) -> AsyncIterator[Any]:
    """Stand in for a model: call the tool first, then say that it is done."""
    has_called = any(part["type"].startswith("tool-") for part in messages[-1].parts)
    yield {"type": "start-step"}
    if has_called:
        yield "Done."
    else:
        given = {"amount": 150.0}
        yield {"type": "tool-input-available", "toolCallId": CALL, "toolName": "refund", "input": given}
    yield {"type": "finish-step"}


def _protocol(package: str, recorder: Recorder) -> type[Any]:
    """Return the protocol class of `everyword serve`, which says when a frame arrives and when bytes are written."""

    class Transport:
        def __init__(self, transport: Any) -> None:
            self._transport = transport

        def write(self, data: bytes) -> None:
            if _MEASURED_WORD in data:
                recorder.end("chunk", BYTES_WRITTEN)
            if b'"replayComplete":true' in data:
                recorder.end("resume", BYTES_WRITTEN)
            self._transport.write(data)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._transport, name)

    class Protocol(_protocol_class(package)):  # type: ignore[misc]
        def connection_made(self, transport: Any) -> None:
            super().connection_made(Transport(transport))

        def data_received(self, data: bytes) -> None:
            for walk in ("request", "resume", "approval"):
                recorder.begin(walk, FRAME_RECEIVED)
            super().data_received(data)

    return Protocol


def _protocol_class(package: str) -> Any:
    for path in _PROTOCOLS:
        module, name = path.split(":")
        try:
            return getattr(importlib.import_module(f"{package}.{module}"), name)
        except ModuleNotFoundError:
            continue
    raise LookupError(f"unable to measure {package}; it has none of {', '.join(_PROTOCOLS)}")


# -- the clients -------------------------------------------------------------------------------------------------

WORDS: Final = 5
MEASURED: Final = 3
"""Words of an answer, and which of them is measured: one that neither begins nor ends it."""
CALL: Final = "call-1"


def _word(number: int) -> str:
    return f"word-{number} "


_MEASURED_WORD: Final = _word(MEASURED).encode()


class _Client:
    """A WebSocket that sends the frames of the stock client and reads until a frame arrives that it waits for."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def send(self, kind: str, **fields: Any) -> None:
        self._connection.send(json.dumps({"type": kind, **fields}))

    def read(self, is_wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            frame: dict[str, Any] = json.loads(self._connection.recv(timeout=SECONDS))
            if is_wanted(frame):
                return frame

    def read_kind(self, kind: str) -> dict[str, Any]:
        return self.read(lambda frame: frame["type"] == kind)

    def read_text(self, text: str) -> None:
        self.read(lambda frame: text in str(frame.get("body")))

    def read_end(self) -> None:
        self.read(lambda frame: frame.get("done") is True)


@contextmanager
def _connected(url: str) -> Iterator[_Client]:
    from websockets.sync.client import connect

    with connect(url, compression=None, ping_interval=None, proxy=None) as connection:
        client = _Client(connection)
        client.read_kind("cf_agent_mcp_servers")  # the last of the connect frames
        yield client


_ids = itertools.count(1)


def _ask(client: _Client, text: str) -> None:
    message = {"id": f"m{next(_ids)}", "role": "user", "parts": [{"type": "text", "text": text}]}
    body = json.dumps({"messages": [message], "trigger": "submit-message"})
    client.send("cf_agent_use_chat_request", id=f"r{next(_ids)}", init={"method": "POST", "body": body})


def _story(server: _Server, recorder: Recorder, name: str) -> dict[str, Trace]:
    """Ask, let the words come one by one, and join from a second socket in the middle of the answer."""
    with server.connect("story", name) as first:
        time.sleep(QUIET)
        recorder.arm("request")
        _ask(first, "Tell a story.")
        request = recorder.wait(SECONDS)
        for number in range(MEASURED):
            server.pace.allow()
            first.read_text(_word(number))
        resume = _resume(server, recorder, name)
        time.sleep(QUIET)
        recorder.arm("chunk")
        server.pace.allow()
        chunk = recorder.wait(SECONDS)
        for _ in range(MEASURED + 1, WORDS):
            server.pace.allow()
        first.read_end()
    return {"request": request, "resume": resume, "chunk": chunk}


def _resume(server: _Server, recorder: Recorder, name: str) -> Trace:
    with server.connect("story", name) as second:
        # A socket that connects during a turn is offered its stream, before the frame that ends the connect frames.
        second.send("cf_agent_stream_resume_request")
        offer = second.read_kind("cf_agent_stream_resuming")
        time.sleep(QUIET)
        recorder.arm("resume")
        second.send("cf_agent_stream_resume_ack", id=offer["id"])
        return recorder.wait(SECONDS)


def _refund(server: _Server, recorder: Recorder, name: str) -> dict[str, Trace]:
    """Ask for a call that needs approval, and approve it."""
    with server.connect("bank", name) as client:
        _ask(client, "Refund 150.")
        client.read_end()
        time.sleep(QUIET)
        recorder.arm("approval")
        client.send("cf_agent_tool_approval", toolCallId=CALL, approved=True, autoContinue=True)
        approval = recorder.wait(SECONDS)
        client.read_end()
    return {"approval": approval}
