from __future__ import annotations

from everyword.client.protocol.agent_state import AgentState


def test_a_change_takes_effect_at_once_and_is_undone_if_refused() -> None:
    state = AgentState()
    state.replace("before")
    state.change("c1", "after")
    assert state.value == "after"
    state.refuse("no")
    assert (state.value, state.is_known, state.refusals) == ("before", True, {"c1": "no"})


def test_a_refused_first_state_leaves_none() -> None:
    state = AgentState()
    state.change("c1", "first")
    state.refuse("no")
    assert (state.value, state.is_known) == (None, False)


def test_a_refusal_concerns_the_oldest_unconfirmed_change() -> None:
    state = AgentState()
    for change in ("c1", "c2", "c3"):
        state.change(change, change)
    state.confirm("c1")
    state.refuse("no")
    assert (state.value, state.refusals) == ("c3", {"c2": "no"})


def test_a_refusal_without_an_open_change_is_ignored() -> None:
    state = AgentState()
    state.replace("kept")
    state.refuse("no")
    assert (state.value, state.version, state.refusals) == ("kept", 1, {})
