"""Settings: what one client may ask of the server (`Everyword(limits=...)`)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on clients. A client that exceeds one gets a refusal with a text and is never cut off silently."""

    frame: int = 32 * 1024 * 1024
    """Bytes of one frame or body; the stock client sends its whole history with every question."""
    sockets_per_agent: int = 100
    """Open sockets and event streams of one agent."""
    queued_turns: int = 50
    """Turns of one agent that may be open at the same time."""
    upload: int = 128 * 1024 * 1024
    """Bytes of one attachment."""
    attachments: int = 2 * 1024 * 1024 * 1024
    """Bytes of all attachments of one conversation."""
    uploads_per_minute: int = 60
    """Attachments that one principal may upload in a minute."""
    requests_per_minute: int = 120
    """Turns that one principal may ask for in a minute."""
    calls_per_minute: int = 3000
    """Calls of methods that one principal may make in a minute."""
    searches_per_minute: int = 300
    """Searches in lists of conversations that one principal may make in a minute, at each node."""
    frames_per_minute: int = 6000
    """Frames and requests with a body that one principal may send in a minute, over all its connections."""
    bytes_per_minute: int = 512 * 1024 * 1024
    """Bytes of them. No less than `frame`, or the largest question of all takes more than a minute's worth."""
    sockets_per_principal: int = 200
    """Open sockets and event streams of one principal, over all agents."""
    shared_readers: int = 50
    """Open pages that follow one shared link live, at each node."""
    shared_views_per_minute: int = 120
    """Requests for one shared link in a minute, at each node; those for its files are counted apart."""
    shared_files_per_minute: int = 6000
    """Requests for photos and other files of one shared link in a minute, at each node: fifty for each view."""
    unread: int = 4 * 1024 * 1024
    """Bytes of replies, and of what the agent's code sends, that may wait for one socket; then it is closed."""
    unread_seconds: float = 20.0
    """How long calls, and `connection.drain()`, wait until half of that is read; then the socket is closed."""
    unfinished: int = 256 * 1024 * 1024
    """Bytes of frames that have begun and are not whole, over all sockets; as many of bodies, over all requests."""
    request_seconds: float = 10.0
    """How long the headers of a request, or of a handshake, may take. Kept by `everyword serve`."""
    message_seconds: float = 300.0
    """How long a frame or a body may take to come whole. Kept by `everyword serve`."""
