"""A client of a chat: questions and answers that grow, whatever the network and the server do meanwhile."""

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
from .reply import Reply
from .tool_runner import ToolRunner
from .tools import declare

__all__ = ["ChatClient"]

JsonObject = dict[str, Any]
Content = str | Sequence[Part] | UIMessage


class ChatClient:
    """One client of one chat; use it as an async context manager.

    `tools` are functions that the model may call and this client runs; `body` is sent along with every question.
    `options` are those of AgentClient, which `agent` is: for the agent's state and methods.
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
        self.running = ToolRunner(self.protocol, self.agent, self._tools)
        self._last: str | None = None
        """The newest request that was asked here."""
        if self._tools:
            self.connection.listen(self.running.look)

    async def __aenter__(self) -> Self:
        await self.agent.__aenter__()
        try:
            await self.connection.until(lambda: bool(self.protocol.probes))
            if not self.protocol.has_transcript:
                self.protocol.adopt(await self._http.messages())
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Hang up. Turns go on without this client; another one finds them."""
        await self.agent.aclose()
        await self._http.aclose()

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def messages(self) -> list[UIMessage]:
        """The conversation as this client knows it, with what streams."""
        return [UIMessage.from_dict(message) for message in self.protocol.messages]

    @property
    def status(self) -> Literal["ready", "submitted", "streaming", "error"]:
        """`submitted` from a question to the first word of its answer; `error` until something is asked again."""
        if self.protocol.is_streaming:
            return "streaming"
        if self.protocol.running:
            return "submitted"
        return "error" if self.outcome == "error" else "ready"

    @property
    def outcome(self) -> str | None:
        """How the newest question that was asked here ended; None before."""
        ended = self.protocol.endings.get(self._last or "")
        return ended.outcome if ended is not None else None

    @property
    def pending_approvals(self) -> list[Part]:
        """The calls that wait for somebody's word, as tool parts; approve and deny take their `toolCallId`."""
        parts = (part for message in self.messages for part in tool_parts(message))
        return [part for part in parts if part.get("state") == "approval-requested"]

    async def history(self) -> list[UIMessage]:
        """Read the stored conversation; what streams right now is not in it."""
        return [UIMessage.from_dict(message) for message in await self._http.messages()]

    async def watch(self) -> AsyncGenerator[list[UIMessage], None]:
        """Yield the conversation, and again whenever it has changed, whoever talks. A slow reader gets the newest."""
        shown: list[JsonObject] | None = None
        while True:
            newest = list(self.protocol.messages)
            if newest != shown:
                shown = newest
                yield [UIMessage.from_dict(message) for message in newest]
            else:
                await self.connection.change()

    def follow(self) -> Reply:
        """Follow the turn that runs, or is about to; ends at once when there is none."""
        return Reply(self, None)

    async def follow_sse(self, request: str | None = None) -> AsyncGenerator[UIMessage, None]:
        """Follow the running turn, or the one that is named, over plain HTTP: server-sent events by cursor.

        Survives drops as the socket does, and raises ChatFailed likewise. Ends at once when nothing runs.
        """
        async for message in self._http.follow(request):
            yield message

    # -- asking ------------------------------------------------------------------------------------------------------

    def send(self, content: Content, *, body: JsonObject | None = None) -> Reply:
        """Ask something: text, parts, or a whole message. It is sent at once, and again until it was heard."""
        return self._ask([*self.protocol.messages, _question(content).to_dict()], body)

    def regenerate(self, message_id: str | None = None, *, body: JsonObject | None = None) -> Reply:
        """Have an answer given again: the one that is named, or the last."""
        place = self._place(message_id, "assistant", or_last=True)
        return self._ask(self.protocol.messages[:place], body, trigger="regenerate-message")

    def edit(self, message_id: str, content: Content, *, body: JsonObject | None = None) -> Reply:
        """Ask something else instead of an earlier question; what followed it is left."""
        place = self._place(message_id, "user", or_last=False)
        edited = _question(content)
        edited.id = message_id
        return self._ask([*self.protocol.messages[:place], edited.to_dict()], body)

    async def stop(self, request: str | None = None) -> None:
        """Stop a turn, running or waiting: the one that is named, or whatever runs. Returns once that is noted."""
        running = [request] if request is not None else self.protocol.running
        marks = [self.protocol.stop(each) for each in running]
        await self._confirmed(*marks)

    async def clear(self) -> None:
        """Begin anew. Returns once the server has forgotten the conversation as well."""
        await self._confirmed(self.protocol.clear())

    # -- answering calls ---------------------------------------------------------------------------------------------

    async def approve(self, call_id: str) -> None:
        """Allow a call that asked; the turn goes on, inside the iteration that saw it or with `follow`.

        When another answer has followed since, only the call runs; its output comes with `messages` and `watch`.
        """
        self.running.note(call_id)
        await self._confirmed(self.protocol.approve(call_id, True))

    async def deny(self, call_id: str, reason: str | None = None) -> None:
        """Refuse a call that asked; the turn goes on, as after an approval, unless another answer has followed."""
        self.running.note(call_id)
        await self._confirmed(self.protocol.approve(call_id, False, reason=reason))

    async def answer(self, call_id: str, output: Any = None, *, error: str | None = None) -> None:
        """Give the result of a call by hand, or the text of its failure."""
        self.running.note(call_id)
        await self._confirmed(self.protocol.answer(call_id, output, error=error))

    # -- for replies ---------------------------------------------------------------------------------------------------

    async def make_sure(self, request: str) -> None:
        """Read the answer of a request that ended while this client was away."""
        if request not in self.protocol.unsure:
            return
        stored = await self._http.messages()
        name = self.protocol.answers.get(request)
        if name is None:
            name = _answer_to(stored, self.protocol.questions.get(request))
        self.protocol.settle(request, next((message for message in stored if message["id"] == name), None))
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
        raise UsageError(f"unable to find the {role}'s message {message_id!r}; look at chat.messages for their ids")

    async def _confirmed(self, *marks: str) -> None:
        self.connection.flush()
        await self.connection.until(lambda: all(self.protocol.is_confirmed(mark) for mark in marks))


def _checked(body: JsonObject | None) -> JsonObject:
    taken = {"messages", "trigger", "clientTools"} & set(body or {})
    if taken:
        raise UsageError(f"unable to send {', '.join(sorted(taken))} along; these fields of the body are taken")
    return body or {}


def _question(content: Content) -> UIMessage:
    if isinstance(content, UIMessage):
        if content.role != "user":
            raise BadMessage(f"unable to ask with a message of the {content.role}; only users ask")
        return content
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else [dict(part) for part in content]
    return UIMessage(f"user-{uuid4().hex}", "user", parts)


def _answer_to(stored: list[JsonObject], question: str | None) -> str | None:
    """Return the id of the assistant's message that follows a question."""
    ids = [message["id"] for message in stored]
    if question not in ids:
        return None
    following = stored[ids.index(question) + 1 : ids.index(question) + 2]
    return next((message["id"] for message in following if message["role"] == "assistant"), None)
