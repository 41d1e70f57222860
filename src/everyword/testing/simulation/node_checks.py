"""Checks that only worlds of several nodes need."""

from __future__ import annotations

from ...ids import AgentId, root_id
from .nodes_world import NodesWorld

__all__ = ["check_memory", "check_nodes", "check_relays", "check_woken"]


def check_relays(world: NodesWorld) -> None:
    """Check N-5: a socket whose node is gone is closed, as soon as a heartbeat has said so: within a lease."""
    for run in world.open_runs():
        if world.loop.is_paused(run.tasks) or not run.is_valid:
            continue
        for link, incarnation in run.relays.items():
            gone_at = world.gone.get(incarnation)
            if gone_at is None or link.is_cut:
                continue
            if incarnation in run.gone_nodes or gone_at + world.lease < world.loop.time():
                world.report_problem("N-5", f"{link.name} waits for node {incarnation}, which is gone")


def check_memory(world: NodesWorld) -> None:
    """Check, when nothing runs, that each node owns what it has in memory, and has nothing there without its lease."""
    for run in world.open_runs():
        if world.loop.is_paused(run.tasks):
            continue
        for loaded in run.directory.loaded():
            agent, root = loaded.actor.agent, world.database.tables.agent(root_id(loaded.actor.agent))
            if not run.is_valid:
                world.report_problem("N-4", f"server {run.number} has {agent} in memory, and no lease")
            elif root is None or root.node != run.nodes.incarnation:
                owner = root.node if root is not None else None
                world.report_problem("owners", f"server {run.number} has {agent} in memory, node {owner} owns it")


def check_nodes(world: NodesWorld) -> None:
    """Check, when all is quiet, that every frame was looked at, every job ended, and every agent has an owner."""
    for tab in world.tabs:
        if tab.link is not None and tab.link.unread:
            world.report_problem("N-5", f"{tab.link.unread} frames of {tab.link.name} were not looked at")
    check_woken(world)
    for key, times in world.job_runs.items():
        if times > 1:
            world.report_problem("jobs", f"{key} was called {times} times")


def check_woken(world: NodesWorld) -> None:
    """Check that every job ended, and that every wake time is known to the agent's owner, or can be claimed."""
    for agent, log in world.written.items():
        for job in sorted(log.jobs):
            world.report_problem("jobs", f"{agent}: job {job} was never done")
    _check_owners(world)


def _check_owners(world: NodesWorld) -> None:
    """Check that every agent that is to be woken will be: its owner knows, or it has none and can be claimed."""
    tables = world.database.tables
    for key, at in tables.wakes.items():
        root = tables.agents[tables.agents[key].root]
        if not tables.is_live(root.node):
            if at <= world.clock.now():
                world.report_problem("owners", f"{root.id} is due and no node has claimed it")
            continue
        owner = [run for run in world.open_runs() if run.nodes.incarnation == root.node]
        if not owner:
            world.report_problem("owners", f"{root.id} is owned by node {root.node}, which no process is")
        elif AgentId(root.id) not in owner[0].directory.families() and not owner[0].directory.wakes.knows(
            AgentId(root.id)
        ):
            world.report_problem("owners", f"{root.id} is to be woken, and its owner does not know")
