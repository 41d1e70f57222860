"""`app.conversations`: the conversations of all agents, for sidebars and back offices."""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import msgspec

from ...errors import BadInput, ConversationNotFound
from ...ids import AgentId, Millis, agent_id, split_agent_id
from ...principals import Principal
from ...runtime.api.lists import (
    ConversationQuery,
    ConversationStatus,
    ListedConversation,
    Participant,
    excerpt,
    query_words,
)
from ...transcripts.document import Shown, kept_url
from ...transcripts.embedding import MOST_IN_EXPORT, MOST_OF_FILE, EmbedLimits
from ...transcripts.formats import FORMATS, filename_of, transcript_of
from ..kinds import agent_kind, all_kinds
from .exports import ConversationExport, EmbeddedAttachments, TranscriptFormat

if TYPE_CHECKING:
    from ..agent import Agent
    from .app_handle import AppHandle

__all__ = ["Conversation", "ConversationChange", "ConversationPage", "Conversations"]

MOST: Final = 200
"""Conversations in one page at most."""

LONGEST_TITLE: Final = 200
MOST_METADATA: Final = 4096
MOST_TOLD: Final = 10_000
"""Conversations of which a watcher remembers that it has yielded them."""
DEEPEST_METADATA: Final = 16
"""Levels of nested objects and lists. Some JSON encoders refuse deep nesting."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation, as lists show it. Times are seconds since 1970."""

    kind: str
    name: str
    title: str
    """The title that a person or a model gave it; else the beginning of the first question."""
    preview: str
    """The beginning of the newest message; of an answer that called tools, of what it says after the last call."""
    status: ConversationStatus
    """`running`, `waiting` for a person, `failed`, or `idle`."""
    owner: str | None
    participants: Sequence[Participant]
    created_at: float
    updated_at: float
    archived: bool
    messages: int
    """How many messages it has had; `mark_read` takes it."""
    unread: int | None = None
    """How many of them the principal has not read; None if no principal was given."""
    metadata: dict[str, Any] = field(default_factory=dict)
    has_own_title: bool = False
    """Whether the title was given, and is not the first question."""
    keep_for: float | None = None
    """Seconds after its last change at which it is deleted; None for never."""
    excerpt: str | None = None
    """Of a search: a short text around the first word that was found; else None."""


@dataclass(frozen=True, slots=True)
class ConversationPage:
    """Some conversations, newest first, and the cursor of the next page; None at the end."""

    conversations: Sequence[Conversation]
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class ConversationChange:
    """One event of `watch`. `list` comes first, and again when there were too many changes to send each of them."""

    type: Literal["list", "changed", "removed"]
    page: ConversationPage | None = None
    """Of `list`: the first page."""
    conversation: Conversation | None = None
    """Of `changed`."""
    kind: str | None = None
    """Of `removed`: it was deleted, or has another owner now."""
    name: str | None = None


class Conversations:
    """The conversations of an app. A conversation is that of a root agent; sub-agents are not listed.

    It is for trusted code: nothing here asks `authorize`. The HTTP resource does.
    """

    __slots__ = ("_app",)

    def __init__(self, app: AppHandle) -> None:
        self._app = app

    async def list(
        self,
        *,
        principal: Principal | str | None = None,
        kind: type[Agent] | str | None = None,
        status: ConversationStatus | None = None,
        archived: bool | None = False,
        query: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
        reader: Principal | str | None = None,
    ) -> ConversationPage:
        """Return a page of conversations, the newest change first.

        Args:
            principal: Only conversations that this principal owns. None for all.
            kind: Only agents of this class; None for all that the app serves.
            status: Only conversations with this status.
            archived: Only archived ones, only others (the default), or both (None).
            query: Only conversations whose title and messages have all of these words. Case and accents do not matter,
                and the last word may be the beginning of one. It needs `ConversationOptions(search=True)`.
            cursor: `cursor` of the page before.
            limit: Conversations in the page, 1 to 200.
            reader: `unread` is counted for this principal; by default for `principal`.

        Raises:
            BadInput: the cursor or the status is not one, the limit is out of range, or the query cannot be used: it
                has more than 200 characters or 8 words, or no word, or the app has no search.
        """
        found = await self._placed(
            principal=principal,
            kind=kind,
            status=status,
            archived=archived,
            query=query,
            cursor=cursor,
            limit=limit,
            reader=reader,
        )
        return ConversationPage([each for each, _ in found], found[-1][1] if len(found) == limit else None)

    async def _placed(
        self,
        *,
        principal: Principal | str | None = None,
        kind: type[Agent] | str | None = None,
        status: ConversationStatus | None = None,
        archived: bool | None = False,
        query: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
        reader: Principal | str | None = None,
    ) -> Sequence[tuple[Conversation, str]]:
        """Return what `list` returns: each conversation with the cursor of what comes after it."""
        if not 1 <= limit <= MOST:
            raise BadInput(f"unable to list conversations; limit is {limit}, and 1 to {MOST} are allowed")
        if status is not None and status not in get_args(ConversationStatus):
            raise BadInput(f'unable to list; "status" is one of {", ".join(get_args(ConversationStatus))}')
        words = query_words(query) if query is not None else []
        wanted = ConversationQuery(
            owner=_id(principal),
            kinds=self._kinds(kind),
            status=status,
            archived=archived,
            before=read_cursor(cursor, tuple[Millis, AgentId], "a cursor") if cursor is not None else None,
            words=words,
            limit=limit,
        )
        found = await self._app._calls.lists.conversations(wanted)
        counted = _id(reader) or _id(principal)
        return [
            (self._shown(each, counted, words), write_cursor(each.summary.updated_at, each.agent)) for each in found
        ]

    async def get(
        self, kind: type[Agent] | str, name: str, *, principal: Principal | str | None = None
    ) -> Conversation | None:
        """Return one conversation; None if it has no messages. `unread` is counted for `principal`."""
        try:
            found = await self._app._calls.lists.find_conversation(self._agent(kind, name))
        except ConversationNotFound:
            return None
        return self._shown(found, _id(principal)) if found is not None else None

    async def rename(self, kind: type[Agent] | str, name: str, title: str | None) -> None:
        """Give a conversation a title that no model replaces; None for the first question again.

        Raises:
            ConversationNotFound: it has no messages.
            BadInput: the title is empty or has more than 200 characters.
        """
        await self._change(kind, name, title=checked_title(title))

    async def archive(self, kind: type[Agent] | str, name: str, *, archived: bool = True) -> None:
        """Archive a conversation, or bring it back with `archived=False`."""
        if not isinstance(archived, bool):
            raise BadInput('unable to archive; "archived" must be true or false')
        await self._change(kind, name, archived=archived)

    async def set_owner(self, kind: type[Agent] | str, name: str, owner: Principal | str | None) -> None:
        """Give a conversation to another principal."""
        await self._change(kind, name, owner=_id(owner))

    async def set_metadata(self, kind: type[Agent] | str, name: str, metadata: dict[str, Any]) -> None:
        """Replace the app's own data of a conversation: a JSON object of at most 4 KiB."""
        await self._change(kind, name, metadata=checked_metadata(metadata))

    async def set_retention(self, kind: type[Agent] | str, name: str, keep_for: timedelta | None) -> None:
        """Delete the conversation when nothing has happened in it for this long; None to keep it."""
        milliseconds = None if keep_for is None else round(keep_for.total_seconds() * 1000)
        if milliseconds is not None and milliseconds <= 0:
            raise BadInput(f"unable to keep a conversation for {keep_for}; give a positive time, or None")
        await self._change(kind, name, keep_for=milliseconds)

    async def mark_read(
        self, kind: type[Agent] | str, name: str, principal: Principal | str, *, messages: int | None = None
    ) -> None:
        """Record what a principal has read: all messages, or the first `messages` (`Conversation.messages`).

        Raises:
            ConversationNotFound: it has no messages.
            BadInput: `messages` is not a count.
        """
        count: object = 0 if messages is None else messages
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise BadInput('unable to record what was read; "messages" must be a whole number')
        handle = await self._found(kind, name)
        await handle._do("mark_read", None, {"principal": _id(principal), "messages": messages})

    async def presence(self, kind: type[Agent] | str, name: str) -> Sequence[Participant]:
        """Return the principals that are connected to the conversation's agent: those with an open socket or stream.

        A client whose network is lost counts as connected until the server notices it, usually within a minute.
        """
        handle: Any = self._app._handle_at(self._agent(kind, name))
        return [
            Participant(*who) for who in await handle._do("presence", list[tuple[str, str | None]], {"known": None})
        ]

    async def watch_presence(self, kind: type[Agent] | str, name: str) -> AsyncGenerator[Sequence[Participant], None]:
        """Yield the connected principals, now and after each change, also after another node has taken the agent."""
        handle: Any = self._app._handle_at(self._agent(kind, name))
        options = {"is_wait": True, "is_repeatable": True, "ends_with_caller": True}
        known: list[tuple[str, str | None]] | None = None
        while True:
            here = await handle._do("presence", list[tuple[str, str | None]], {"known": known}, **options)
            if here != known:
                yield [Participant(*who) for who in here]
            known = here

    async def export(
        self,
        kind: type[Agent] | str,
        name: str,
        *,
        format: TranscriptFormat = "markdown",
        branch: int | str | None = None,
        reasoning: bool = True,
        file_url: Callable[[Mapping[str, Any]], str | None] | None = None,
        max_file_bytes: int = MOST_OF_FILE,
        max_embedded_bytes: int = MOST_IN_EXPORT,
    ) -> ConversationExport:
        """Return a conversation as a file for people: its messages as they are committed now.

        Args:
            kind: The class of the agent, or its kind.
            name: The name of the agent.
            format: `markdown`; `html`, one file without scripts that needs no network; or `json`.
            branch: The id of a message, or of a version (`Version.id`): the branch that leads over it, down to its
                newest message. None for the branch that is shown.
            reasoning: Whether the model's reasoning is included.
            file_url: Called with each file part; returns the URL to link or to embed, or None for no link. Attachments
                are not embedded then. By default HTML and JSON have the attachments in them, and other files have
                the URL of their part.
            max_file_bytes: A larger attachment is named with its link, and not embedded; 10 MiB by default.
            max_embedded_bytes: Bytes of all embedded attachments together, 50 MiB by default; 0 to embed none.

        Raises:
            ConversationNotFound: it has no messages.
            BadInput: the format is unknown, or the branch does not exist.
        """
        chosen = FORMATS.get(format)
        if chosen is None:
            raise BadInput(f"unable to export as {str(format)[:80]!r}; the formats are {', '.join(FORMATS)}")
        agent, lists = self._agent(kind, name), self._app._calls.lists
        record = await lists.record(agent)
        if record.summary is None:
            raise _not_found(name)
        leaf = record.leaf_of(branch) if branch is not None else None
        if branch is not None and leaf is None:
            raise BadInput(f"unable to export the branch {str(branch)[:80]!r}; there is no such message")
        shown = Shown(reasoning=reasoning, file_url=file_url if file_url is not None else kept_url)
        kind, name = self._address(agent)
        transcript = transcript_of(
            record, record.summary, chosen, kind=kind, name=name, now=lists.now(), shown=shown, leaf=leaf
        )
        is_embedding = chosen.embeds_files and file_url is None and max_embedded_bytes > 0
        reader = await lists.attachments(agent) if is_embedding else None
        limits = EmbedLimits(max_file_bytes, max_embedded_bytes)
        attachments = EmbeddedAttachments(reader, limits) if reader is not None else None
        return ConversationExport(chosen.media_type, filename_of(kind, name, chosen), transcript, attachments)

    async def delete(self, kind: type[Agent] | str, name: str) -> None:
        """Delete a conversation: its agent, all that it stored, and every agent below it.

        Raises:
            ConversationNotFound: it has no messages.
        """
        await self._found(kind, name)
        await self._app.destroy(kind, name)

    async def watch(
        self,
        *,
        principal: Principal | str | None = None,
        kind: type[Agent] | str | None = None,
        archived: bool | None = False,
        limit: int = 50,
        reader: Principal | str | None = None,
    ) -> AsyncGenerator[ConversationChange, None]:
        """Yield the first page, then each conversation that changes or is removed.

        `archived` chooses the conversations of the page, as for `list`; the changes are of archived ones, too.
        `unread` is counted for `reader`, by default for `principal`. With a `principal`, `removed` is told of
        conversations that this watcher was told of, or whose owner the principal was until now.

        Several changes of one conversation may be told as one. Changes by other nodes come within about a second.
        """
        query = {"principal": principal, "kind": kind, "archived": archived, "limit": limit, "reader": reader}
        owner = _id(principal)
        kinds, lists = self._kinds(kind), self._app._calls.lists
        told: dict[tuple[str, str], None] = {}
        with lists.watching() as watcher:
            yield await self._first_page(query, told)
            while True:
                agents = await watcher.next()
                if agents is None:
                    yield await self._first_page(query, told)
                    continue
                for agent in agents:
                    if split_agent_id(agent)[0] not in kinds:
                        continue
                    found = await lists.find_changed(agent)
                    place = self._address(agent)
                    was_owned = owner is None or lists.was_owned(agent, owner)
                    is_known = place in told or (found is None and was_owned)
                    change = self._change_of(place, found, query, is_known=is_known)
                    _remember(told, place, is_listed=change is not None and change.conversation is not None)
                    if change is not None:
                        yield change

    async def _first_page(self, query: dict[str, Any], told: dict[tuple[str, str], None]) -> ConversationChange:
        page = await self.list(**query)
        told.clear()
        told.update(dict.fromkeys((each.kind, each.name) for each in page.conversations))
        return ConversationChange("list", page=page)

    def _change_of(
        self, place: tuple[str, str], found: ListedConversation | None, query: dict[str, Any], *, is_known: bool
    ) -> ConversationChange | None:
        owner = _id(query["principal"])
        if found is not None and (owner is None or found.summary.owner == owner):
            return ConversationChange("changed", conversation=self._shown(found, _id(query["reader"]) or owner))
        if not is_known and (found is None or found.summary.former_owner != owner):
            return None  # it was never this principal's
        return ConversationChange("removed", kind=place[0], name=place[1])

    async def _change(self, kind: type[Agent] | str, name: str, **changes: Any) -> None:
        """Make all changes in one commit. They were checked."""
        handle = await self._found(kind, name)
        await handle._do("change_conversation", None, {"changes": changes})

    async def _found(self, kind: type[Agent] | str, name: str) -> Any:
        agent = self._agent(kind, name)
        if await self._app._calls.lists.find_conversation(agent) is None:
            raise _not_found(name)
        return self._app._handle_at(agent)

    def _agent(self, kind: type[Agent] | str, name: str) -> AgentId:
        if "\0" in name or any("\ud800" <= letter <= "\udfff" for letter in name):
            raise ConversationNotFound(f"unable to find a conversation named {name[:80]!r}; none can have this name")
        return agent_id(agent_kind(self._app._class(kind)), name)

    def _kinds(self, kind: type[Agent] | str | None) -> Sequence[str]:
        return sorted(self._app._served) if kind is None else all_kinds(self._app._class(kind))

    def _address(self, agent: AgentId) -> tuple[str, str]:
        kind, name = split_agent_id(agent)
        cls = self._app.class_of_kind(kind)
        return agent_kind(cls) if cls is not None else kind, name

    def _shown(self, found: ListedConversation, reader: str | None, words: Sequence[str] = ()) -> Conversation:
        summary = found.summary
        kind, name = self._address(found.agent)
        return Conversation(
            kind=kind,
            name=name,
            title=summary.title if summary.title is not None else summary.question,
            preview=summary.preview,
            status=found.status,
            owner=summary.owner,
            participants=summary.participants,
            created_at=summary.created_at / 1000,
            updated_at=summary.updated_at / 1000,
            archived=summary.archived_at is not None,
            messages=summary.messages,
            unread=None if reader is None else summary.messages - max(summary.reads.get(reader, 0), summary.cleared),
            metadata=msgspec.json.decode(bytes(summary.metadata)) or {},
            has_own_title=summary.title is not None,
            keep_for=None if summary.keep_for is None else summary.keep_for / 1000,
            excerpt=excerpt(found.text, words) if found.text is not None else None,
        )


def checked_title(title: str | None) -> str | None:
    """Return the title as it is stored; None for the first question.

    Raises:
        BadInput: it is empty or too long.
    """
    if title is None:
        return None
    title = " ".join(title.split())
    if not title or len(title) > LONGEST_TITLE or any("\ud800" <= letter <= "\udfff" for letter in title):
        raise BadInput(f"unable to rename; a title has 1 to {LONGEST_TITLE} characters of UTF-8")
    return title


def checked_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the app's own data of a conversation as it is stored: numbers that JSON does not have are null.

    Raises:
        BadInput: it is not a JSON object, or too large.
    """
    if not isinstance(metadata, dict):
        raise BadInput(f"unable to set metadata; it is {type(metadata).__name__}, and must be an object")
    try:
        encoded = msgspec.json.encode(metadata)
    except (TypeError, ValueError, RecursionError) as exc:
        raise BadInput(f"unable to set metadata; it is not JSON ({exc})") from None
    if not _is_nested_at_most(metadata, DEEPEST_METADATA):
        raise BadInput(f"unable to set metadata; its objects and lists are nested deeper than {DEEPEST_METADATA}")
    if len(encoded) > MOST_METADATA:
        raise BadInput(f"unable to set metadata; it has {len(encoded)} bytes, and {MOST_METADATA} is the limit")
    stored: dict[str, Any] = msgspec.json.decode(encoded)
    return stored


def _is_nested_at_most(value: object, depth: int) -> bool:
    """Return whether JSON has at most this many objects and lists inside each other."""
    if not isinstance(value, dict | list):
        return True
    inner: Iterable[object] = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(_is_nested_at_most(each, depth - 1) for each in inner)


def _remember(told: dict[tuple[str, str], None], place: tuple[str, str], *, is_listed: bool) -> None:
    """Remember whether a watcher shows a conversation. The oldest entry is forgotten when there are too many."""
    told.pop(place, None)
    if is_listed:
        told[place] = None
        if len(told) > MOST_TOLD:
            del told[next(iter(told))]


def _not_found(name: str) -> ConversationNotFound:
    return ConversationNotFound(f"unable to find the conversation {name!r}; it does not exist or has no messages")


def _id(principal: Principal | str | None) -> str | None:
    if principal is None or isinstance(principal, Principal):
        return principal.id if principal is not None else None
    return Principal(principal).id  # raises UsageError for what cannot be an id: no store could keep it


def write_cursor(*place: Any) -> str:
    """Return a place in a list as text for clients."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def read_cursor(text: str, type: Any, what: str) -> Any:
    """Return the values in a text of `write_cursor`.

    Raises:
        BadInput: it is not such a text.
    """
    try:
        padded = text.encode("ascii", "replace") + b"=" * (-len(text) % 4)
        place = msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True), type=type)
    except (msgspec.DecodeError, binascii.Error, ValueError):
        place = ()
    if not place or not all(map(_can_be_stored, place)):
        raise BadInput(f"unable to use {text[:80]!r}; it is not {what}") from None
    return place


def _can_be_stored(value: int | str) -> bool:
    """Return whether every database accepts this part of a cursor. Clients may invent cursors."""
    return "\0" not in value if isinstance(value, str) else abs(value) < 2**62
