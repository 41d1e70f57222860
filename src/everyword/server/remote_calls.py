"""Calls of agents that live on other nodes: the same record, sent over a link."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable

import msgspec

from ..cluster.link import NodeLink
from ..core.erasure import Target
from ..errors import AgentStopped, LinkError, OwnedElsewhere, RemoteError
from ..ids import AgentId
from ..runtime.api.calls import MethodCall, StreamItem
from ..runtime.api.erasures import AgentErased
from ..runtime.call_errors import describe_failure, revive_failure
from ..runtime.method_calls import MethodCalls
from .node_links import NodeLinks

__all__ = ["CallsForOthers", "RemoteCalls"]

CALL, STREAM, DESTROY, ERASE = "call", "stream", "destroy", "erase"


class _EraseRequest(msgspec.Struct, frozen=True):
    agent: AgentId
    target: Target


class _Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of a call: a result, or a failure by class and text."""

    result: msgspec.Raw = msgspec.Raw(b"")
    failure: msgspec.Raw = msgspec.Raw(b"")
    is_result: bool = False


_decode_call = msgspec.json.Decoder(MethodCall).decode
_decode_outcome = msgspec.json.Decoder(_Outcome).decode


class RemoteCalls:
    """The caller's side: finds the owner and calls there. Where no other node owns the agent, `None` says so."""

    def __init__(self, links: NodeLinks) -> None:
        self._links = links

    async def call(self, call: MethodCall) -> bytes | None:
        """Run a method at its owner; None if this node may run it.

        Raises:
            EverywordError: what the method raised, by class and text.
            AgentStopped: the owner was lost meanwhile; the method may or may not have run.
        """
        while True:
            link = await self._links.owner(call.agent, takes=False)
            if link is None:
                return None
            try:
                return await _result(link, CALL, msgspec.json.encode(call))
            except OwnedElsewhere:
                continue  # it was handed over a moment ago
            except LinkError as exc:
                if not call.is_repeatable:
                    raise _lost(call.method, exc) from exc

    async def stream(self, call: MethodCall) -> AsyncGenerator[StreamItem, None] | None:
        """Run an async generator at the agent's owner; None if this node may run it."""
        link = await self._links.owner(call.agent, takes=False)
        return None if link is None else _items(link, call)

    async def destroy(self, agent: AgentId) -> bool:
        """Destroy an agent at its owner; False if this node may do it."""
        while True:
            link = await self._links.owner(agent, takes=False)
            if link is None:
                return False
            try:
                await _result(link, DESTROY, agent.encode())
            except (OwnedElsewhere, LinkError):
                continue  # destroying what is gone does nothing
            return True

    async def erase(self, agent: AgentId, target: Target) -> AgentErased | None:
        """Erase a principal from an agent at its owner; None if this node may do it."""
        while True:
            link = await self._links.owner(agent, takes=False)
            if link is None:
                return None
            try:
                result = await _result(link, ERASE, msgspec.json.encode(_EraseRequest(agent, target)))
            except RemoteError:
                raise  # a release that does not know it
            except (OwnedElsewhere, LinkError):
                continue  # doing it again is harmless
            return msgspec.json.decode(result, type=AgentErased)


async def _result(link: NodeLink, method: str, payload: bytes) -> bytes:
    outcome = _decode_outcome(await link.call(method, payload, timeout=None))
    if outcome.failure:
        raise revive_failure(bytes(outcome.failure))
    return bytes(outcome.result)


async def _items(link: NodeLink, call: MethodCall) -> AsyncGenerator[StreamItem, None]:
    parts = link.stream(STREAM, msgspec.json.encode(call))
    try:
        async for part in parts:
            outcome = _decode_outcome(part)
            if outcome.failure:
                raise revive_failure(bytes(outcome.failure))
            yield StreamItem(bytes(outcome.result), outcome.is_result)
    except LinkError as exc:
        raise _lost(call.method, exc) from exc
    finally:
        await parts.aclose()


def _lost(method: str, exc: LinkError) -> AgentStopped:
    return AgentStopped(
        f"unable to finish {method}; the node that ran it was lost ({exc}). It may or may not have run."
    )


class CallsForOthers:
    """The owner's side: runs calls of other nodes in the agents of this one."""

    def __init__(self, calls: Callable[[], MethodCalls]) -> None:
        self._calls = calls

    async def answer(self, method: str, payload: bytes) -> bytes | AsyncIterator[bytes] | None:
        """Run a call; None if the method is not one of ours."""
        if method == STREAM:
            return self._stream(_decode_call(payload))
        if method == CALL:
            call = _decode_call(payload)
            return await _outcome(self._calls().call_here(call), call.method)
        if method == DESTROY:
            return await _outcome(self._destroy(AgentId(payload.decode())), DESTROY)
        if method == ERASE:
            request = msgspec.json.decode(payload, type=_EraseRequest)
            return await _outcome(self._erase(request), ERASE)
        return None

    async def _destroy(self, agent: AgentId) -> bytes:
        await self._calls().destroy_here(agent)
        return b"null"

    async def _erase(self, request: _EraseRequest) -> bytes:
        return msgspec.json.encode(await self._calls().erase_here(request.agent, request.target))

    async def _stream(self, call: MethodCall) -> AsyncIterator[bytes]:
        try:
            async for item in self._calls().stream_here(call):
                yield msgspec.json.encode(_Outcome(result=msgspec.Raw(item.value), is_result=item.is_result))
        except Exception as exc:  # noqa: BLE001 - as above
            yield msgspec.json.encode(_Outcome(failure=msgspec.Raw(describe_failure(exc, call.method))))


async def _outcome(running: Awaitable[bytes], method: str) -> bytes:
    try:
        outcome = _Outcome(result=msgspec.Raw(await running))
    except Exception as exc:  # noqa: BLE001 - it travels by class and text
        outcome = _Outcome(failure=msgspec.Raw(describe_failure(exc, method)))
    return msgspec.json.encode(outcome)
