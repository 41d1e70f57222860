"""A client of a chat: it sends questions and follows the answers, through reconnects and restarts of the server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import Any, Literal, Self
from uuid import uuid4

from ..errors import BadMessage, UsageError
from ..messages.message import Part, UIMessage
from ..messages.tool_calls import tool_parts
from .agent import AgentClient
from .http import Http
from .protocol.chat import ChatProtocol
from .protocol.message_list import answer_to
from .reply import Reply
from .tool_runner import ClientToolRunner
from .tools import declare

__all__ = ["ChatClient"]

JsonObject = dict[str, Any]
Content = str | Sequence[Part] | UIMessage


class ChatClient:
    """One client of one chat. Use it as an async context manager.

    `tools` are functions that the model may call and this client runs. `body` is sent with every question. `options`
    are those of AgentClient; the attribute `agent` is one, for the agent's state and methods.
    """

    def __init__(
        self,
        url: str,
        agent: str = "chat",
        name: str = "default",
        *,
        tools: Iterable[Callable[..., Any]] = (),
        body: JsonObject | None = None,
        **options: Any,
    ) -> None:
        self.protocol = ChatProtocol()
        self.agent = AgentClient(url, agent, name, chat=self.protocol, **options)
        self.connection = self.agent.connection
        self._http = Http(self.agent.address, self.agent.options)
        self._body = _checked(body)
        self._tools = declare(tools)
        self.tool_runner = ClientToolRunner(self.protocol, self.agent, self._tools)
        self._last: str | None = None
        """The newest request that this client sent."""
        if self._tools:
            self.connection.listen(self.tool_runner.start_calls)

    async def __aenter__(self) -> Self:
        await self.agent.__aenter__()
        try:
            await self.connection.until(lambda: bool(self.protocol.resume.answers))
            if not self.protocol.has_transcript:
                self.protocol.adopt(await self._http.messages())
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection. Turns keep running on the server, and other clients can follow them."""
        await self.agent.aclose()
        await self._http.aclose()

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def messages(self) -> list[UIMessage]:
        """The conversation as this client knows it, with the answers that stream."""
        return [UIMessage.from_dict(message) for message in self.protocol.messages]

    @property
    def status(self) -> Literal["ready", "submitted", "streaming", "error"]:
        """`submitted` from a question until its answer streams; `error` after a failure, until the next question."""
        if self.protocol.is_streaming:
            return "streaming"
        if self.protocol.running:
            return "submitted"
        return "error" if self.outcome == "error" else "ready"

    @property
    def outcome(self) -> str | None:
        """The outcome of the newest request of this client; None before it has ended."""
        request = self.protocol.requests.get(self._last or "")
        return request.ending.outcome if request is not None and request.ending is not None else None

    @property
    def pending_approvals(self) -> list[Part]:
        """The tool calls that wait for approval, as tool parts; `approve` and `deny` take their `toolCallId`."""
        parts = (part for message in self.messages for part in tool_parts(message))
        return [part for part in parts if part.get("state") == "approval-requested"]

    async def history(self) -> list[UIMessage]:
        """Read the stored conversation over HTTP. Answers that are streaming are not in it."""
        return [UIMessage.from_dict(message) for message in await self._http.messages()]

    async def watch(self) -> AsyncGenerator[list[UIMessage], None]:
        """Yield the conversation now and after every change, by any client. A slow reader skips to the newest."""
        shown: list[JsonObject] | None = None
        while True:
            newest = list(self.protocol.messages)
            if newest != shown:
                shown = newest
                yield [UIMessage.from_dict(message) for message in newest]
            else:
                await self.connection.change()

    def follow(self) -> Reply:
        """Follow the turn that runs or is about to run; the reply ends at once if there is none."""
        return Reply(self, None)

    async def follow_sse(self, request: str | None = None) -> AsyncGenerator[UIMessage, None]:
        """Yield snapshots of the running turn, or of the turn of `request`, over server-sent events.

        Reconnects from its cursor, and raises ChatFailed if the turn fails. Ends at once if no turn runs.
        """
        async for message in self._http.follow(request):
            yield message

    # -- asking ------------------------------------------------------------------------------------------------------

    def send(self, content: Content, *, body: JsonObject | None = None) -> Reply:
        """Send a question: text, parts, or a whole message. It is sent again after a reconnect until it is answered."""
        return self._ask([*self.protocol.messages, _question(content).to_dict()], body)

    def regenerate(self, message_id: str | None = None, *, body: JsonObject | None = None) -> Reply:
        """Ask for a new version of an answer: of the one with this id, or of the last."""
        place = self._place(message_id, "assistant", or_last=True)
        return self._ask(self.protocol.messages[:place], body, trigger="regenerate-message")

    def edit(self, message_id: str, content: Content, *, body: JsonObject | None = None) -> Reply:
        """Replace an earlier question and ask it again. The messages after it leave the conversation."""
        place = self._place(message_id, "user", or_last=False)
        edited = _question(content)
        edited.id = message_id
        return self._ask([*self.protocol.messages[:place], edited.to_dict()], body)

    async def stop(self, request: str | None = None) -> None:
        """Stop the turn of `request`, or all turns that run or wait. Returns once the server has the command."""
        running = [request] if request is not None else self.protocol.running
        marks = [self.protocol.stop(each) for each in running]
        await self._confirmed(*marks)

    async def clear(self) -> None:
        """Clear the conversation. Returns once the server has cleared it too."""
        await self._confirmed(self.protocol.clear())

    # -- answering calls ---------------------------------------------------------------------------------------------

    async def approve(self, call_id: str) -> None:
        """Approve a tool call. The turn continues, in the reply that is being iterated or with `follow`.

        If newer messages follow the call, only the call runs; its output appears in `messages` and `watch`.
        """
        self.tool_runner.note_answered(call_id)
        await self._confirmed(self.protocol.approve(call_id, True))

    async def deny(self, call_id: str, reason: str | None = None) -> None:
        """Deny a tool call. The turn continues as after an approval, unless newer messages follow the call."""
        self.tool_runner.note_answered(call_id)
        await self._confirmed(self.protocol.approve(call_id, False, reason=reason))

    async def answer(self, call_id: str, output: Any = None, *, error: str | None = None) -> None:
        """Send the result of a client tool call, or the text of its failure."""
        self.tool_runner.note_answered(call_id)
        await self._confirmed(self.protocol.answer(call_id, output, error=error))

    # -- for replies ---------------------------------------------------------------------------------------------------

    async def read_missed_answer(self, request_id: str) -> None:
        """Read the stored answer of a request, if it ended while this client was disconnected."""
        request = self.protocol.requests.get(request_id)
        if request is None or not request.is_unsure:
            return
        stored = await self._http.messages()
        answer_id = request.answer_id or answer_to(stored, request.question_id)
        answer = next((message for message in stored if message["id"] == answer_id), None)
        self.protocol.settle(request_id, answer)
        self.connection.notify()

    def _ask(self, messages: list[JsonObject], body: JsonObject | None, **more: Any) -> Reply:
        request = self._last = uuid4().hex
        tools = {"clientTools": [tool.declaration for tool in self._tools.values()]} if self._tools else {}
        self.protocol.ask(request, messages, **{**self._body, **_checked(body), **tools, **more})
        self.connection.flush()
        return Reply(self, request)

    def _place(self, message_id: str | None, role: str, *, or_last: bool) -> int:
        messages = self.protocol.messages
        for place in range(len(messages) - 1, -1, -1):
            is_named = messages[place]["id"] == message_id or (or_last and message_id is None)
            if is_named and messages[place]["role"] == role:
                return place
        if or_last and message_id is None:
            return len(messages)
        raise UsageError(f"unable to find the {role} message {message_id!r}; its id is not in chat.messages")

    async def _confirmed(self, *marks: str) -> None:
        self.connection.flush()
        await self.connection.until(lambda: all(self.protocol.is_confirmed(mark) for mark in marks))


def _checked(body: JsonObject | None) -> JsonObject:
    taken = {"messages", "trigger", "clientTools"} & set(body or {})
    if taken:
        raise UsageError(f"unable to send {', '.join(sorted(taken))} in the body; the client sets these fields itself")
    return body or {}


def _question(content: Content) -> UIMessage:
    if isinstance(content, UIMessage):
        if content.role != "user":
            raise BadMessage(f"unable to ask with a message of role {content.role!r}; its role must be 'user'")
        return content
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else [dict(part) for part in content]
    return UIMessage(f"user-{uuid4().hex}", "user", parts)
