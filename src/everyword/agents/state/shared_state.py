"""An agent's state: its own code sees a new state at once, clients and other code after the commit (R-21)."""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ClassVar, Generic, Literal, NamedTuple

import msgspec

from ...errors import AgentStopped, BadInput, UsageError
from ...runtime.agent_runtime import AgentRuntime, StateAccess
from ..connections import Connection
from ..execution_context import set_current_agent
from .change import STOPPED, CommitOutcome, StateChange, StateT
from .models import state_from_json, state_to_json

__all__ = ["SharedState", "Source", "change_state", "shown_state"]

log = logging.getLogger("everyword.agents")

Source = Connection | Literal["server"]

Run = Callable[[Callable[[], Awaitable[None]]], None]
"""Runs a hook beside everything else."""


class SharedState(Generic[StateT]):
    """One JSON value that an agent and all its clients share."""

    _runtime: AgentRuntime

    initial_state: ClassVar[Any] = None
    """The state until one is set; JSON, or a `state_model`."""

    state_model: ClassVar[type[Any] | None] = None
    """A Pydantic model, dataclass or msgspec Struct that every state must fit; `state` is then an instance of it.

    `class Shop(Agent[Cart])` sets it to `Cart`, unless the class sets another.
    """

    _last_upgrade: tuple[bytes | None, bytes] = (None, b"")
    """The stored state that was read last, and what it was upgraded to."""

    @property
    def state(self) -> StateT:
        """The agent's state, shared with every client: a copy, so change it with `set_state` or `update_state` only.

        The agent's own code reads what was set last. Other code uses a handle, and reads what is committed.
        """
        value = self._runtime.state.read(self)
        state: StateT = self._initial() if value is None else self._from_json(self._upgraded(value))
        return state

    def set_state(self, state: StateT) -> StateChange[StateT]:
        """Replace the state. The agent's own code sees it at once, clients and other code after the commit.

        `self.state` gives the new value right after the call, so `set_state` of a value that was made from
        `self.state` loses nothing, as long as there is no `await` between the two. `await` waits for the commit, and
        returns the state; without `await` the state is stored, too, and a failure is logged. After the commit it
        is sent to the clients, then `on_state_changed` is called.

        Raises, when awaited:
            BadInput: it does not fit `state_model`, or has no JSON form.
            Exception: whatever `validate_state_change` raised. The state is what it was.
            LogError, AgentStopped: it could not be committed. The state is the committed one again, and states
                that were set after this one fail as well.
        """
        return change_state(self, lambda owner: state)

    def update_state(self, change: Callable[[StateT], StateT]) -> StateChange[StateT]:
        """Replace the state by the result of a plain function, in one step; `await` as with `set_state`.

        The function gets a copy of the state, which it may change and return. It runs at once. Even if called from a
        thread, no other state is set between its call and its result.
        """
        return change_state(self, lambda owner: _changed(change, owner.state))

    def upgrade_state(self, old: Any) -> Any:
        """Convert a stored state, given as JSON, that no longer fits `state_model`; return one that does.

        Called when such a state is read, by the agent's own code or for a client that connects. The result is used at
        once; it is stored with the next state that is set. May be called several times, so it should only compute.
        """
        return old

    def validate_state_change(self, state: StateT, source: Source) -> None:
        """Raise to refuse a state; clients read only that it was refused. Must be fast."""

    async def on_state_changed(self, state: StateT, source: Source) -> None:
        """Called when a state is committed and was sent; `source` is the connection that set it, or "server"."""

    def _initial(self) -> Any:
        if self.initial_state is None or self.state_model is None or isinstance(self.initial_state, self.state_model):
            return copy.deepcopy(self.initial_state)  # what the class has is shared by all of its agents
        return self._from_json(self._to_json(self.initial_state))

    def _to_json(self, state: Any) -> bytes:
        return state_to_json(self.state_model, state)

    def _upgraded(self, value: bytes) -> bytes:
        """Return a stored state as the present model wants it."""
        if self.state_model is None or self._last_upgrade[0] is value:
            return value if self.state_model is None else self._last_upgrade[1]
        try:
            self._from_json(value)
            fitting = value
        except BadInput:
            fitting = self._to_json(self.upgrade_state(msgspec.json.decode(value)))
            try:
                self._from_json(fitting)
            except BadInput as exc:
                cls = type(self).__name__
                raise BadInput(f"{exc}. Let `upgrade_state` of {cls} make one that fits of what is stored.") from None
        self._last_upgrade = value, fitting
        return fitting

    def _from_json(self, value: bytes) -> Any:
        return state_from_json(self.state_model, value)


def shown_state(agent: SharedState, value: bytes | None) -> bytes | None:
    """Return a committed state as clients are to be shown it, and the initial one if none was set; None for none."""
    if value is None:
        return None if agent.initial_state is None else agent._to_json(agent.initial_state)
    try:
        return agent._upgraded(value)
    except Exception:
        log.exception("unable to upgrade the state of %r; clients are shown the stored one", agent)
        return value


def change_state(
    agent: SharedState, make: Callable[[SharedState], Any], source: Source = "server", run: Run | None = None
) -> StateChange:
    """Set the state that `make` returns for the agent's own object; `run` runs the hook afterwards.

    What goes wrong is raised to code that awaits the change, and not here; in a thread, here.
    """
    try:
        states = agent._runtime.state
        is_in_loop = _is_in(states.loop)
        posted = _post(agent, states, make, source) if is_in_loop and states.is_ready else None
    except Exception as exc:  # noqa: BLE001 - mostly the agent's own code
        return _failed(agent, exc)
    if not is_in_loop:
        return _change_from_thread(agent, make, states.loop)
    outcome = CommitOutcome(agent)
    if posted is not None:
        _follow(outcome, posted, states, source, run)
    else:
        task = states.wait_in_line(_post_when_loaded(outcome, agent, states, make, source, run))
        task.add_done_callback(lambda _: outcome.set_stopped())
    return StateChange(outcome)


def _failed(agent: SharedState, error: Exception) -> StateChange:
    outcome = CommitOutcome(agent)
    outcome.set_failed(error)
    return StateChange(outcome)


class _Posted(NamedTuple):
    """A state on its way to the log, what the hook of which object is given then, and when that is."""

    owner: SharedState
    state: Any
    told: Any
    reply: asyncio.Future[Any]


def _post(agent: SharedState, states: StateAccess, make: Callable[[SharedState], Any], source: Source) -> _Posted:
    owner = states.owner if isinstance(states.owner, SharedState) else agent
    state = owner._from_json(owner._to_json(make(owner)))  # a copy, as it will be read back
    owner.validate_state_change(state, source)
    value = owner._to_json(state)
    told = owner._from_json(value)  # the hook's own copy; and a validator may have changed what it was given
    origin = source.serial if isinstance(source, Connection) else None
    reply = states.put(value, agent, origin=origin, must_fit=origin is None)
    return _Posted(owner, state, told, reply)


async def _post_when_loaded(
    outcome: CommitOutcome,
    agent: SharedState,
    states: StateAccess,
    make: Callable[[SharedState], Any],
    source: Source,
    run: Run | None,
) -> None:
    try:
        await agent._runtime.load()
        states = agent._runtime.state  # raises if it was destroyed meanwhile
        posted = _post(agent, states, make, source)
    except Exception as exc:  # noqa: BLE001 - as in `change_state`
        outcome.set_failed(exc)
        del outcome  # what is raised knows this frame: drop the reference to avoid a cycle
        return
    _follow(outcome, posted, states, source, run)
    await asyncio.wait([posted.reply])


def _follow(outcome: CommitOutcome, posted: _Posted, states: StateAccess, source: Source, run: Run | None) -> None:
    """Call the hook and settle the futures of the callers, once the change is committed or has failed."""

    def settle(reply: asyncio.Future[Any]) -> None:
        error = reply.exception() if not reply.cancelled() else AgentStopped(STOPPED)
        if error is not None:
            outcome.set_failed(error)
            return
        owner = posted.owner
        if getattr(owner.on_state_changed, "__func__", None) is SharedState.on_state_changed:
            outcome.set_stored(posted.state)
            return
        tell = partial(_tell, owner, posted.told, source)
        if run is None:
            states.spawn(tell(), "on_state_changed")
        else:
            run(tell)
        states.loop.call_soon(outcome.set_stored, posted.state)  # behind the hook: it has begun when callers go on

    posted.reply.add_done_callback(settle)


async def _tell(owner: SharedState, state: Any, source: Source) -> None:
    """Tell the agent's own code of a state that was committed; what it raises changes nothing."""
    set_current_agent(owner)
    try:
        await owner.on_state_changed(state, source)
    except Exception:
        log.exception("on_state_changed of %r raised", owner)


def _is_in(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _change_from_thread(
    agent: SharedState, make: Callable[[SharedState], Any], loop: asyncio.AbstractEventLoop
) -> StateChange:
    """Let the loop do it and wait: a thread, as that of a tool that is a plain function, cannot await."""
    if not loop.is_running():
        raise UsageError("unable to set the state; the app is not running")

    async def change() -> Any:
        return await change_state(agent, make)

    outcome = CommitOutcome(agent)
    outcome.set_stored(asyncio.run_coroutine_threadsafe(change(), loop).result())
    return StateChange(outcome)


def _changed(change: Callable[[Any], Any], state: Any) -> Any:
    new = change(state)
    if inspect.isawaitable(new):
        if inspect.iscoroutine(new):
            new.close()
        raise UsageError("unable to update the state; the function is async. Await first, then give a plain function.")
    if new is None:
        raise UsageError("unable to update the state; the function returned None. Return the new state.")
    return new
