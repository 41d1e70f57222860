"""The framework's own operations that a handle calls, with arguments and results that have a JSON form.

They run in the loaded agent, like the methods of its class.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from ...errors import NoJsonForm, UsageError
from ...events import ShareContent
from ...ids import CallId, ShareId, parent_id, split_agent_id
from ...messages.json_values import plain_json
from ...principals import Principal
from ..agent_tools.types import type_name
from ..schedules import Every

__all__ = ["OPERATIONS", "PREFIX", "ConnectionRecord"]

PREFIX: Final = "everyword."
"""Prefix of their names in a call; no method can have it."""

OPERATIONS: Final[dict[str, Callable[..., Any]]] = {}


def _operation(function: Callable[..., Any]) -> Callable[..., Any]:
    OPERATIONS[function.__name__] = function
    return function


@dataclass(frozen=True, slots=True)
class ConnectionRecord:
    """A connection, for code outside of the agent. Several may have one id: tabs that were opened with the same one."""

    id: str
    tags: list[str]
    """The tags that the agent's `prepare_connection` set."""
    state: dict[str, Any]
    """The values of the connection's `state` that have a JSON form."""
    principal: str
    """The id of the principal that opened it."""
    read_only: bool
    since: float
    """When it was opened, in seconds since 1970."""


# -- every agent ---------------------------------------------------------------------------------------------------


@_operation
def load(agent: Any) -> None:
    """Do nothing: the agent is loaded to do it."""


@_operation
async def on_erase(agent: Any, principal: str) -> None:
    await agent.on_erase(Principal(principal))


@_operation
async def sql_tables(agent: Any) -> list[str]:
    rows = await agent.sql(
        "select name from sqlite_schema where type = 'table' and name not like 'sqlite\\_%' escape '\\'"
    )
    return [row["name"] for row in rows]


@_operation
async def sql_rows(agent: Any, table: str, offset: int, limit: int) -> list[dict[str, Any]]:
    name = table.replace('"', '""')
    rows = await agent.sql(f'select * from "{name}" limit ? offset ?', limit, offset)
    return [{column: _json_cell(value) for column, value in row.items()} for row in rows]


def _json_cell(value: Any) -> Any:
    return {"base64": b64encode(value).decode()} if isinstance(value, bytes) else value


@_operation
def get_state(agent: Any) -> Any:
    return agent.state


@_operation
async def set_state(agent: Any, state: Any) -> Any:
    return await agent.set_state(state)


@_operation
def connections(agent: Any, tag: str | None) -> list[ConnectionRecord]:
    return [
        ConnectionRecord(each.id, sorted(each.tags), _plain(each.state), *_who(each.principal), each.since)
        for each in agent.connections(tag)
    ]


def _who(principal: Principal) -> tuple[str, bool]:
    return principal.id, principal.read_only


def _plain(state: dict[str, Any]) -> dict[str, Any]:
    kept = {}
    for key, value in state.items():
        try:
            kept[key] = plain_json(value)
        except NoJsonForm:
            continue
    return kept


@_operation
def close_connection(agent: Any, connection_id: str, code: int, reason: str) -> int:
    found = [each for each in agent.connections() if each.id == connection_id]
    for each in found:
        each.close(code, reason)
    return len(found)


@_operation
def broadcast(agent: Any, message: Any, exclude: Sequence[str]) -> None:
    agent.broadcast(message, exclude=exclude)


@_operation
async def queue(agent: Any, callback: str, payload: Any, max_attempts: int) -> str:
    queued: str = await agent.queue(callback, payload, max_attempts=max_attempts)
    return queued


@_operation
async def schedule(
    agent: Any, when: Any, callback: str, payload: Any, zone: str, max_attempts: int, key: str | None
) -> Any:
    match when:
        case {"every": rule}:
            when = Every(seconds=int(rule) / 1000)
        case {"at": text}:
            when = datetime.fromisoformat(text)
    return await agent.schedule(when, callback, payload, zone=zone, max_attempts=max_attempts, key=key)


@_operation
async def list_jobs(agent: Any, callback: str | None, queued: bool | None) -> Any:
    return await agent.jobs.list(callback, queued=queued)


@_operation
async def get_job(agent: Any, job_id: str) -> Any:
    return await agent.jobs.get(job_id)


@_operation
async def cancel_job(agent: Any, job_id: str) -> Any:
    return await agent.jobs.cancel(job_id)


@_operation
async def cancel_jobs(agent: Any, callback: str | None, queued: bool | None) -> Any:
    return await agent.jobs.cancel_all(callback, queued=queued)


@_operation
async def make_sub_agent(agent: Any, kind: str, name: str) -> None:
    await agent._runtime.sub_agents.make(kind, name)


@_operation
async def has_sub_agent(agent: Any, kind: str, name: str) -> bool:
    return await agent._runtime.sub_agents.find(kind, name) is not None


@_operation
async def list_sub_agents(agent: Any) -> list[tuple[str, str]]:
    found = await agent._runtime.sub_agents.all()
    return [split_agent_id(each) for each in found if parent_id(each) == agent._runtime.agent]


@_operation
async def abort_sub_agent(agent: Any, kind: str, name: str) -> None:
    child = await agent._runtime.sub_agents.find(kind, name)
    if child is not None:
        await agent._runtime.of(child).cancel(None)


@_operation
async def delete_sub_agent(agent: Any, kind: str, name: str) -> bool:
    child = await agent._runtime.sub_agents.find(kind, name)
    if child is not None:
        await agent._runtime.of(child).destroy()
    return child is not None


# -- conversations -------------------------------------------------------------------------------------------------


@_operation
def get_messages(agent: Any) -> Any:
    return agent.messages


@_operation
async def save_messages(agent: Any, messages: Any, request_id: str) -> Any:
    return await agent.save_messages(messages, request_id=request_id)


@_operation
async def persist_messages(agent: Any, messages: Any) -> None:
    await agent.persist_messages(messages)


@_operation
async def continue_last_turn(agent: Any, body: dict[str, Any] | None) -> Any:
    return await agent.continue_last_turn(body)


@_operation
async def clear_history(agent: Any) -> None:
    await agent.clear_history()


@_operation
async def abort_request(agent: Any, request_id: str) -> None:
    await agent.abort_request(request_id)


@_operation
async def abort_all_requests(agent: Any) -> None:
    await agent.abort_all_requests()


@_operation
async def reset_turn_state(agent: Any) -> None:
    await agent.reset_turn_state()


@_operation
async def wait_until_stable(agent: Any, timeout: float | None) -> bool:  # noqa: ASYNC109 - the agent's own name for it
    is_stable: bool = await agent.wait_until_stable(timeout)
    return is_stable


@_operation
async def has_pending_interaction(agent: Any) -> bool:
    is_pending: bool = await agent.has_pending_interaction()
    return is_pending


@_operation
async def list_versions(agent: Any, message_id: str) -> Any:
    return await agent.versions.list(message_id)


@_operation
async def switch_version(agent: Any, version: int | str) -> None:
    await agent.versions.switch(version)


@_operation
async def fork(agent: Any, message_id: str, name: str) -> None:
    await agent.versions.fork(message_id, name)


@_operation
async def change_conversation(agent: Any, changes: dict[str, Any]) -> None:
    await agent._runtime.conversation.change(**changes)


@_operation
async def mark_read(agent: Any, principal: str, messages: int | None) -> None:
    await agent._runtime.conversation.mark_read(principal, messages)


@_operation
async def presence(agent: Any, known: list[list[str | None]] | None) -> list[tuple[str, str | None]]:
    here = await agent._runtime.conversation.presence(known)
    return [(who.id, who.name) for who in here]


@_operation
async def create_share(
    agent: Any,
    share: str,
    digest: str,
    frozen: bool,
    expires_at: int | None,
    shows: dict[str, Any],
    label: str | None,
) -> Any:
    record = await agent._runtime.shares.create(
        ShareId(share),
        digest,
        frozen=frozen,
        expires_at=expires_at,
        shows=msgspec.convert(shows, ShareContent),
        label=label,
    )
    return msgspec.to_builtins(record)


@_operation
async def list_shares(agent: Any) -> Any:
    return msgspec.to_builtins(await agent._runtime.shares.list())


@_operation
async def revoke_share(agent: Any, share: str) -> bool:
    revoked: bool = await agent._runtime.shares.revoke(ShareId(share))
    return revoked


@_operation
async def answer_approval(agent: Any, call: str, fingerprint: str, approved: bool, reason: str | None) -> bool:
    conversation = agent._runtime.conversation
    answered: bool = await conversation.answer_approval(CallId(call), fingerprint, approved=approved, reason=reason)
    return answered


# -- agents with a model -------------------------------------------------------------------------------------------


@_operation
async def run_turn(
    agent: Any, messages: Any, body: dict[str, Any] | None, idempotency_key: str, output: str | None
) -> Any:
    if output is None:
        return await agent.run_turn(messages, body=body, idempotency_key=idempotency_key)
    expected = next((each for each in agent.output_types if type_name(each) == output), None)
    if expected is None:
        raise UsageError(f"unable to ask for {output}; list it in output_types of {type(agent).__name__}")
    return await agent.run_turn(messages, output_type=expected, body=body, idempotency_key=idempotency_key)


@_operation
async def submit_messages(agent: Any, messages: Any, body: dict[str, Any] | None, idempotency_key: str) -> Any:
    return await agent.submit_messages(messages, body=body, idempotency_key=idempotency_key)


@_operation
async def get_submission(agent: Any, submission_id: str) -> Any:
    return await agent.submissions.get(submission_id)


@_operation
async def list_submissions(agent: Any) -> Any:
    return await agent.submissions.list()


@_operation
async def cancel_submission(agent: Any, submission_id: str) -> Any:
    return await agent.submissions.cancel(submission_id)
