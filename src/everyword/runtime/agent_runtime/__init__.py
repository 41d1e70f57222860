"""What an agent's own code may ask of the runtime: `AgentRuntime`, with one object per topic behind an attribute.

Everything here goes through the agent's own mailbox, as the commands of clients do: there is no second writer.
"""

from __future__ import annotations

from .agent_runtime import AgentRuntime
from .agent_tool_runs import AgentToolRunsAccess
from .bare_streams import BareStreams
from .fibers import FibersAccess
from .jobs import JobsAccess
from .state import StateAccess
from .storage import ManagedStreamsAccess, StorageAccess
from .sub_agents import SubAgentsAccess
from .submissions import SubmissionsAccess
from .versions import VersionsAccess

__all__ = [
    "AgentRuntime",
    "AgentToolRunsAccess",
    "BareStreams",
    "FibersAccess",
    "JobsAccess",
    "ManagedStreamsAccess",
    "StateAccess",
    "StorageAccess",
    "SubAgentsAccess",
    "SubmissionsAccess",
    "VersionsAccess",
]
