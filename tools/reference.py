"""Write the reference: a page per public package, with every public name in a group of its own kind.

The pages in docs/reference/ have one line per name, the first of its docstring, so that they can be read anywhere. On
the site (tools/site.py) each group goes on with the whole of it: signatures, members, docstrings.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"

Groups = dict[str, tuple[str, ...]]

PACKAGES: dict[str, tuple[str, Groups]] = {
    "everyword": (
        "What agents and servers are made of. Everything here is imported from `everyword`.",
        {
            "Agents": ("Agent", "AIChatAgent", "Think", "Turn", "SaveMessagesResult", "UIMessage"),
            "Tools": ("tool", "ToolContext", "agent_tool", "AgentToolResult", "create_ui_message_stream"),
            "Overlap, recovery, work for later": (
                *("Debounce", "Recovery", "Continue", "Wait", "Stop", "Retry", "Every", "FiberContext"),
            ),
            "Clients and callables": ("callable", "CallResult", "Connection", "get_current_agent", "SubAgentAddress"),
            "The server": ("Everyword", "Connecting", "Principal", "Reject", "Limits"),
            "Streams of your own": (
                *("ResumableStream", "ResumableStreamManager", "LifecycleTracker", "create_lifecycle_tracker"),
            ),
            "Messages": ("prune_messages", "convert_to_model_messages", "validate_ui_messages"),
            "Errors": ("EverywordError", "ChatError", "ToolError"),
        },
    ),
    "everyword.client": (
        "Clients for Python. They need `everyword[client]`.",
        {
            "Clients": ("ChatClient", "AgentClient", "Reply", "Options", "Backoff"),
            "Errors": (
                *("ClientError", "Unreachable", "TurnedAway", "ConnectionLost"),
                *("ChatFailed", "CallFailed", "StateRefused"),
            ),
        },
    ),
    "everyword.models": (
        "Providers' streams as chunks, and conversations as providers want them. No SDK is needed to import it.",
        {
            "From a provider's stream": ("from_openai", "from_anthropic", "from_pydantic_ai", "from_iterator"),
            "To a provider": (
                *("to_openai", "to_openai_responses", "to_anthropic", "to_pydantic_ai"),
                *("from_pydantic_ai_messages", "deferred_results"),
            ),
            "Tools for a provider": ("openai_tools", "openai_responses_tools", "anthropic_tools"),
            "Failures": ("ModelFailure", "classify", "failure_of"),
        },
    ),
    "everyword.testing": (
        "The test kit: real implementations with one job each, and a check that every client sees the same.",
        {
            "A model and a server": ("ScriptedModel", "LocalServer", "ManualClock"),
            "What a scripted model says": ("Call", "Once", "Reasoning"),
            "Parity": (
                *("assert_parity", "Parity", "Ask", "Approve", "Deny", "Give", "Regenerate", "Edit"),
                *("AskAndStop", "Meanwhile", "StopAnswer", "InAnotherTab"),
            ),
            "Below the server": ("Gate", "CrashingLog", "ScriptedResponder"),
        },
    ),
}


def path_of(package: str) -> Path:
    return FOLDER / f"{package.rpartition('.')[2]}.md"


def summary(package: str, name: str) -> str:
    """Return the first sentence of a name's docstring, on one line, as a cell of a table."""
    documented = getattr(importlib.import_module(package), name)
    text = inspect.getdoc(documented) or ""
    if not text:
        raise ValueError(f"unable to write the reference; {package}.{name} has no docstring")
    return " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|")


def borrowed(package: str, name: str) -> list[str]:
    """Return the members that a class has from classes that nobody is to know, such as the parts it is made of."""
    documented = getattr(importlib.import_module(package), name)
    if not inspect.isclass(documented):
        return []
    public = {
        id(getattr(importlib.import_module(package), each)) for names in PACKAGES[package][1].values() for each in names
    }
    known = {id(each) for base in documented.__mro__[1:] if id(base) in public for each in base.__mro__}
    hidden = [
        base for base in documented.__mro__[1:] if id(base) not in known and base.__module__.startswith("everyword.")
    ]
    return sorted({each for base in hidden for each in vars(base) if not each.startswith("_")})


def directive(package: str, name: str) -> list[str]:
    lines = ["", f"::: {package}.{name}"]
    if members := borrowed(package, name):
        lines += ["    options:", f"      inherited_members: [{', '.join(members)}]"]
    return lines


def render(package: str, *, whole: bool = False) -> str:
    """Return a page; with `whole`, each group ends with what the site's generator is to put there."""
    introduction, groups = PACKAGES[package]
    lines = ["<!-- written by `make docs` from the docstrings -->", "", f"# {package}", "", introduction]
    for group, names in groups.items():
        lines += ["", f"## {group}", "", "| name | what it is |", "|---|---|"]
        lines += [f"| `{name}` | {summary(package, name)} |" for name in names]
        if whole:
            lines += [line for name in names for line in directive(package, name)]
    return "\n".join(lines) + "\n"


def ungrouped(package: str) -> list[str]:
    """Return the names that the package exports and the page lacks, or lists twice, or has of its own."""
    public = [name for name in importlib.import_module(package).__all__ if name != "__version__"]
    listed = [name for names in PACKAGES[package][1].values() for name in names]
    return sorted({*public} ^ {*listed} | {name for name in listed if listed.count(name) > 1})


def main() -> int:
    for package in PACKAGES:
        if odd := ungrouped(package):
            print(f"unable to write the reference; not in one group of {package}: {', '.join(odd)}", file=sys.stderr)
            return 1
        path_of(package).write_text(render(package), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
