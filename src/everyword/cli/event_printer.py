"""Prints the events of a log as they happen: growing text, tool calls, how turns end."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..errors import BadMessage
from ..events import (
    AttemptDelayed,
    AttemptInterrupted,
    AttemptStarted,
    CallAnswered,
    CancelRequested,
    ChatCleared,
    Chunk,
    Event,
    FiberEnded,
    FiberStarted,
    JobAdded,
    JobEnded,
    LeafMoved,
    MessageReplaced,
    MessagesPut,
    MessagesRemoved,
    Outcome,
    Placed,
    RunEnded,
    RunStarted,
    StateSet,
    TurnAccepted,
    TurnEnded,
    TurnKind,
)
from ..ids import Millis, TurnId
from ..messages.message import Chunk as ChunkObject
from ..messages.message import UIMessage
from .event_source import CurrentState, SourceEvent
from .message_lines import brief, other_line, render_message
from .output import Output
from .text import clean, count_of, one_line

__all__ = ["EventPrinter"]

ENDINGS = {
    Outcome.COMPLETED: ("✓", "green"),
    Outcome.ERROR: ("✗", "red"),
    Outcome.ABORTED: ("■", "yellow"),
    Outcome.SKIPPED: ("·", "dim"),
}

OUTPUTS = {
    "tool-output-available": ("→", "cyan", "output"),
    "tool-output-error": ("failed:", "red", "errorText"),
    "tool-output-denied": ("was denied", "yellow", ""),
    "tool-input-error": ("has invalid arguments:", "red", "errorText"),
}

CAUSES = {"crash": "the process died", "stall": "the model stalled", "retry": "the model failed", "first": ""}
CAUSES["shutdown"] = "the server was restarted"


class EventPrinter:
    """Prints events. `open` has the turns that have not ended; `outcome` is the outcome of the last ended turn."""

    def __init__(self, output: Output) -> None:
        self.open: dict[TurnId, Millis | None] = {}
        self.outcome: Outcome | None = None
        self._output = output
        self._tools: dict[str, str] = {}
        self._speaker = ""
        self._style: str | None = None
        """Style of the unfinished line; None without one."""

    def here(self, here: CurrentState, count: int) -> None:
        """Print the last messages, and the text of open turns so far."""
        for message in list(here.messages)[-count:] if count else []:
            self._speak(message.role)
            self._lines(list(render_message(self._output, message)))
        self.open = dict.fromkeys(here.open)
        for chunks in here.open.values():
            for chunk in chunks:
                self._chunk(chunk)

    def happened(self, news: SourceEvent) -> None:
        """Print one event; events without a visible effect are skipped."""
        event = news.event
        match event:
            case Chunk():
                self.open.setdefault(event.turn)  # it may have been accepted before the reader started
                self._chunk(msgspec.json.decode(bytes(event.body)))
            case TurnAccepted():
                self._accepted(event, news.at)
            case AttemptStarted() if event.attempt > 1:
                restart = "; starting over" if event.fresh else ""
                self._remark(f"attempt {event.attempt}: {CAUSES[event.cause]}{restart}", "yellow")
            case AttemptDelayed():
                self._remark(f"attempt {event.attempt} is delayed: {CAUSES[event.cause]}", "yellow")
            case AttemptInterrupted():
                self._remark(f"attempt {event.attempt} was interrupted by a shutdown", "yellow")
            case CancelRequested():
                self._remark("stop requested", "yellow")
            case TurnEnded():
                self._ended(event, news.at)
            case CallAnswered():
                self._remark(f"{self._tools.get(event.call, 'a call')} was answered: {_json(event.value)}", "magenta")
            case _:
                self._other(event)

    def _other(self, event: Event) -> None:
        match event:
            case MessagesPut():
                self._placed(event.messages)
            case MessageReplaced():
                self._remark("a message was changed", "dim")
            case MessagesRemoved():
                self._remark(f"{count_of(len(event.nodes), 'message')} removed", "dim")
            case LeafMoved():
                self._remark("another version is shown", "dim")
            case ChatCleared():
                self._remark("the conversation was cleared", "yellow")
            case StateSet():
                self._remark(f"state {_json(event.state)}", "blue")
            case JobAdded():
                self._remark(f"job {one_line(event.callback)} was queued", "dim")
            case JobEnded() if event.outcome != "done":
                self._remark(f"job {one_line(event.job)} ended: {event.outcome}", "yellow")
            case _:
                self._background(event)

    def _background(self, event: Event) -> None:
        match event:
            case RunStarted():
                about = f": {one_line(event.preview)}" if event.preview else ""
                self._remark(f"{one_line(event.kind)} {one_line(event.run)} was started{about}", "cyan")
            case RunEnded():
                about = one_line(event.error or event.summary or "")
                self._remark(f"{one_line(event.run)} ended: {event.status} {about}".rstrip(), "cyan")
            case FiberStarted():
                again = f", attempt {event.attempt}" if event.attempt > 1 else ""
                self._remark(f"{one_line(event.name)} runs in the background{again}", "dim")
            case FiberEnded() if event.outcome != "done":
                self._remark(
                    f"background work ended: {event.outcome} {one_line(event.detail or '')}".rstrip(), "yellow"
                )
            case _:
                pass  # intermediate steps, or a kind that a newer version added

    def _accepted(self, event: TurnAccepted, at: Millis | None) -> None:
        if event.kind.is_bare:
            return
        self.open[event.turn] = at
        self._placed(event.messages)
        if event.kind is TurnKind.CONTINUATION:
            self._remark("the answer continues", "dim")
        elif event.kind is TurnKind.CALLS:
            self._remark("approved calls of an earlier answer run", "dim")

    def _placed(self, messages: Sequence[Placed]) -> None:
        for placed in messages:
            self._speak(placed.role)
            try:
                message = UIMessage.decode(bytes(placed.message))
            except BadMessage:
                continue
            self._lines(list(render_message(self._output, message)))

    def _ended(self, event: TurnEnded, at: Millis | None) -> None:
        begun = self.open.pop(event.turn, None)
        self.outcome = event.outcome
        sign, colour = ENDINGS[event.outcome]
        took = f" in {(at - begun) / 1000:.1f} s" if at is not None and begun is not None else ""
        why = event.error or (event.reason if event.outcome is not Outcome.COMPLETED else None)
        told = f"{sign} {event.outcome.value}{took}, {count_of(event.chunks, 'chunk')}"
        self._remark(f"{told}: {one_line(why)}" if why else told, colour, mark="")
        self._speaker = ""

    def _chunk(self, chunk: ChunkObject) -> None:
        kind = str(chunk.get("type"))
        match kind:
            case "text-delta" | "reasoning-delta":
                self._grow(clean(str(chunk.get("delta", ""))), "dim" if kind.startswith("reasoning") else "")
            case "text-end" | "reasoning-end":
                self._break()
            case "tool-input-available":
                name = one_line(str(chunk.get("toolName", "")))
                self._tools[str(chunk.get("toolCallId"))] = name
                self._line(f"  ⚙ {name}({brief(chunk.get('input'))})", "cyan")
            case "tool-approval-request":
                self._line(f"  ? {self._tool(chunk)} waits for approval", "magenta")
            case "error":
                self._line(f"  {one_line(str(chunk.get('errorText', '')))}", "red")
            case _ if kind in OUTPUTS:
                said, colour, field = OUTPUTS[kind]
                self._line(
                    f"  ⚙ {self._tool(chunk)} {said} {brief(chunk.get(field)) if field else ''}".rstrip(), colour
                )
            case _ if kind == "file" or kind.startswith(("source-", "data-")):
                self._line(f"  {other_line(chunk)}", "blue")
            case _:
                pass  # starts, steps and partial inputs are not printed

    def _tool(self, chunk: ChunkObject) -> str:
        return self._tools.get(str(chunk.get("toolCallId")), "a tool")

    # -- lines ---------------------------------------------------------------------------------------------------------

    def _speak(self, role: str) -> None:
        if self._speaker == role:
            return
        self._break()
        self._speaker = role
        colour = {"user": "blue", "assistant": "green"}.get(role, "dim")
        self._output.print(self._output.style(one_line(role), colour, "bold"))

    def _grow(self, text: str, style: str) -> None:
        self._speak("assistant")
        if self._style != style:
            self._break()
            self._output.write("  ")
            self._style = style
        shown = text.replace("\n", "\n  ")
        self._output.write(self._output.style(shown, style) if style else shown)

    def _break(self) -> None:
        if self._style is not None:
            self._style = None
            self._output.write("\n")

    def _line(self, text: str, colour: str) -> None:
        self._speak("assistant")
        self._break()
        self._output.write(self._output.style(text, colour) + "\n")

    def _remark(self, text: str, colour: str, mark: str = "· ") -> None:
        self._break()
        self._output.write(self._output.style(f"  {mark}{text}", colour) + "\n")

    def _lines(self, lines: Sequence[str]) -> None:
        self._break()
        self._output.write("".join(f"{line}\n" for line in lines))


def _json(value: msgspec.Raw) -> str:
    return brief(msgspec.json.decode(bytes(value)))
