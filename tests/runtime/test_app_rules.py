"""The rules of agents as an app's settings change them, also while nodes of an older release run."""

from __future__ import annotations

from typing import Any

from everyword.core.state import Rules
from everyword.ids import AgentId
from everyword.log.features import SEARCH
from everyword.log.memory import MemoryLog
from everyword.runtime.app_rules import AppRules

ANN, BELOW = AgentId("chat/ann"), AgentId("chat/ann/sub/chat/x")


class Nodes:
    """Nodes of which the oldest knows the schema up to a version."""

    def __init__(self, oldest: int) -> None:
        self.oldest = oldest

    async def every_node_knows(self, version: int) -> bool:
        return self.oldest >= version


def shared(nodes: Any) -> MemoryLog:
    store = MemoryLog()
    store.nodes = nodes
    return store


async def test_texts_are_indexed_only_when_every_node_knows_how() -> None:
    nodes, rules = Nodes(SEARCH.version - 1), AppRules(has_search=True)
    store = shared(nodes)
    await rules.look(store)
    assert rules.applied(ANN, Rules(), store).is_searchable is None, (
        "what is indexed stays as it is until this is known"
    )
    nodes.oldest = SEARCH.version
    await rules.look(store)
    assert rules.applied(ANN, Rules(), store).is_searchable is True
    assert rules.applied(BELOW, Rules(), store).is_searchable is None


async def test_an_app_without_search_asks_nothing_of_older_nodes() -> None:
    rules = AppRules()
    store = shared(Nodes(SEARCH.version - 1))
    await rules.look(store)
    assert not rules.is_search_usable
    assert rules.applied(ANN, Rules(), store).is_searchable is False
