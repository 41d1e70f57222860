"""Ids of agents are paths: taken apart they give what they were made of, and no two agents share one."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everyword.ids import (
    LONGEST_ID,
    AgentId,
    agent_depth,
    agent_id,
    can_name_a_root,
    children_prefix,
    cut_id,
    id_problem,
    parent_id,
    split_agent_id,
    sub_agent_id,
)

KINDS = st.sampled_from(["chat", "worker", "sub-agent", "a"])
ODD = st.sampled_from(["sub", "/", "%2F", "a/b", "sub/x", "x/sub/y", "é", " ", "%", "?", "..", "a%2Fsub"])
NAMES = st.one_of(ODD, st.text(min_size=1, max_size=5), st.lists(ODD, min_size=1, max_size=3).map("".join))
ROOTS = st.tuples(KINDS, NAMES.filter(can_name_a_root))
CHILDREN = st.lists(st.tuples(KINDS, NAMES), max_size=4)
Path = tuple[tuple[str, str], list[tuple[str, str]]]
PATHS = st.tuples(ROOTS, CHILDREN)
PLAIN = st.sampled_from(["ann", "x", "sub"])


def _beside(kind: str, name: str, ending: str, subs: list[tuple[str, str]], more: list[tuple[str, str]]) -> list[Path]:
    """Return a path, one of a root whose name begins like its root's, and one that leads on from it."""
    roots = [(kind, name), *([(kind, name + ending)] if can_name_a_root(name + ending) else [])]
    return [(root, [*subs, *on]) for root in roots for on in ([], more)]


FEW = st.one_of(st.just([]), CHILDREN)
RELATED = st.builds(_beside, KINDS, PLAIN, st.sampled_from(["/sub", "/sub", "/sub/chat", "/x"]), FEW, CHILDREN)
FAMILIES = st.one_of(RELATED, st.lists(PATHS, min_size=2, max_size=3))
"""Paths that could be mistaken for each other, and others."""


def _id(path: Path) -> AgentId:
    agent = agent_id(*path[0])
    for kind, name in path[1]:
        agent = sub_agent_id(agent, kind, name)
    return agent


@given(PATHS)
def test_an_id_gives_back_the_path_that_it_was_made_of(path: Path) -> None:
    agent: AgentId | None = _id(path)
    assert agent is not None and agent_depth(agent) == len(path[1])
    for step in [*reversed(path[1]), path[0]]:
        assert agent is not None and split_agent_id(agent) == step
        agent = parent_id(agent)
    assert agent is None


@given(FAMILIES)
def test_different_paths_have_different_ids(paths: list[Path]) -> None:
    """Trap 208."""
    for one, other in product(paths, paths):
        assert (_id(one) == _id(other)) == (one == other)


@given(FAMILIES)
def test_the_prefix_of_an_agents_children_is_that_of_no_one_else(paths: list[Path]) -> None:
    for one, other in product(paths, paths):
        (root, subs), (other_root, other_subs) = one, other
        is_below = root == other_root and len(other_subs) > len(subs) and other_subs[: len(subs)] == subs
        assert _id(other).startswith(children_prefix(_id(one))) == is_below


def test_names_that_look_like_paths_are_not_for_roots() -> None:
    assert [can_name_a_root(name) for name in ("ann", "a/b", "sub", "a/subs/b")] == [True] * 4
    assert [can_name_a_root(name) for name in ("a/sub/b", "sub/a", "a/sub", "sub/")] == [False] * 4


@pytest.mark.parametrize("letter", ["x", "é", "語", "🦊", "\ud800"])
def test_an_id_of_a_client_has_at_most_512_bytes(letter: str) -> None:
    size = len(letter.encode(errors="replace"))
    fits = letter * (LONGEST_ID // size)
    assert id_problem(fits, "it") is None
    assert id_problem(fits + letter, "it") == f"it has {(len(fits) + 1) * size} bytes, and 512 is the limit"


@pytest.mark.parametrize("name", ["", "short", "é" * 100, "語" * 1000, "a" + "🦊" * 200, "x" * 513])
def test_a_cut_id_is_the_beginning_of_it_and_fits(name: str) -> None:
    cut = cut_id(name)
    assert name.startswith(cut) and id_problem(cut, "it") is None
    assert cut == name or len(cut.encode()) > LONGEST_ID - 4
