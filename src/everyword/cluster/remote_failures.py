"""Failures as one node sends them to another: a code, and a text that clients may read."""

from __future__ import annotations

from typing import Final

import msgspec

from ..errors import EverywordError, RemoteError, public_text

__all__ = ["read_failure", "write_failure"]

FAILED: Final = "unable to finish the call; it failed on the node of the agent. The log of that node says why."
"""The text of an exception that is not written for clients."""


class _Failure(msgspec.Struct, frozen=True):
    code: str
    text: str


_decode: Final = msgspec.json.Decoder(_Failure).decode


def write_failure(exc: BaseException) -> bytes:
    """Return an exception as it is sent to another node: its code, and its text if that is public."""
    code = exc.code if isinstance(exc, EverywordError) else "internal"
    if isinstance(exc, RemoteError):  # of a third node: pass it on as it is
        return msgspec.json.encode(_Failure(exc.remote_code, str(exc)))
    return msgspec.json.encode(_Failure(code, public_text(exc, FAILED)))


def read_failure(payload: bytes) -> RemoteError:
    """Return the error that another node has sent."""
    if not payload:
        return RemoteError("unable to go on; the other node gave up the stream", remote_code="cancelled")
    try:
        failure = _decode(payload)
    except msgspec.MsgspecError:
        return RemoteError("unable to go on; the other node failed, and did not say why")
    return RemoteError(failure.text, remote_code=failure.code)
