"""Checks that only worlds of several nodes need."""

from __future__ import annotations

from ...ids import AgentId
from .nodes_world import NodesWorld

__all__ = ["check_nodes", "check_relays"]


def check_relays(world: NodesWorld) -> None:
    """Check N-5: a socket whose node is gone is closed. A node with a lease had a heartbeat within the last lease."""
    for run in world.open_runs():
        if world.loop.is_paused(run.tasks) or not run.is_valid:
            continue
        for link, incarnation in run.relays.items():
            gone_at = world.gone.get(incarnation)
            if gone_at is not None and gone_at + world.lease < world.loop.time() and not link.is_cut:
                world.report_problem("N-5", f"{link.name} waits for node {incarnation}, which is gone")


def check_nodes(world: NodesWorld) -> None:
    """Check, when all is quiet, that every frame was looked at, every job ended, and every agent has an owner."""
    for tab in world.tabs:
        if tab.link is not None and tab.link.unread:
            world.report_problem("N-5", f"{tab.link.unread} frames of {tab.link.name} were not looked at")
    for agent, log in world.written.items():
        for job in sorted(log.jobs):
            world.report_problem("jobs", f"{agent}: job {job} was never done")
    for key, times in world.job_runs.items():
        if times > 1:
            world.report_problem("jobs", f"{key} was called {times} times")
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
