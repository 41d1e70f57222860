"""The reference has every public name once, in full, and says what the source says."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from everyword import AIChatAgent, Everyword, ToolContext
from everyword.agents.class_members import HOOKS
from everyword.server import http as http_server
from tools import reference
from tools.reference import PACKAGES, PAGES, ungrouped
from tools.reference.docstrings import to_markdown
from tools.reference.http import COMMON, ROUTES, given_statuses, statuses
from tools.reference.packages import AGENT_CLASSES, FAMILIES, FRAMEWORK, documented
from tools.reference.rendering import own_classes
from tools.reference.source import attributes_of, methods_of, signature


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_in_one_group(package: str) -> None:
    assert ungrouped(package) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_page_says_what_the_source_says(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == PAGES[page](), "run `make docs`"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_there_in_full(package: str) -> None:
    text = reference.path_of(package).read_text(encoding="utf-8")
    names = [name for names in PACKAGES[package][1].values() for name in names]
    here = [name for name in names if package != "everyword" or name not in AGENT_CLASSES]
    assert re.findall(r"^### (\w+)$", text, re.MULTILINE) == here
    for name in here:
        if inspect.isfunction(documented(package, name)):
            assert signature(documented(package, name), name) in text


def test_what_was_only_in_the_source_is_on_a_page() -> None:
    """Types, defaults and texts: of fields, of settings, of hooks, of parameters."""
    everyword, agents = (
        (reference.FOLDER / f"{page}.md").read_text(encoding="utf-8") for page in ("everyword", "agents")
    )
    assert "| `frame` | `int` | `32 * 1024 * 1024` | Bytes of one frame or body;" in everyword
    assert '| `call_id` | `str` | `""` | The id of the call, as the model gave it. |' in everyword
    assert "retention: timedelta = timedelta(hours=24)," in everyword
    assert "| `max_steps` | `int` | `20` |" in agents
    assert "async def on_chat_message(" in agents


@pytest.mark.parametrize("name", AGENT_CLASSES)
def test_every_member_of_an_agent_class_is_a_setting_a_hook_or_something_to_use(name: str) -> None:
    text = (reference.FOLDER / "agents.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    titles = re.findall(r"^### (.+)$", section[1], re.MULTILINE)
    assert titles == [f"{what} of {name}" for what in ("Settings", "Hooks", "Methods and properties")]
    classes = own_classes("everyword", documented("everyword", name))
    members = {each.name for each in methods_of(classes)} - {*FRAMEWORK.get(name, ())}
    assert set(re.findall(r"^#### (\w+)$", section[1], re.MULTILINE)) == members
    settings = {each.name for each in attributes_of(classes)}
    assert set(re.findall(r"^\| `(\w+)` \|", section[1], re.MULTILINE)) == settings
    hooks = section[1].partition(f"### Hooks of {name}")[2].partition("### Methods")[0]
    assert set(re.findall(r"^#### (\w+)$", hooks, re.MULTILINE)) == members & HOOKS


@pytest.mark.parametrize("attribute", FAMILIES)
def test_what_is_behind_an_attribute_of_agents_is_there_in_full(attribute: str) -> None:
    text = (reference.FOLDER / "agents.md").read_text(encoding="utf-8")
    section = text.partition(f"\n## self.{attribute}\n")[2].partition("\n## ")[0]
    name, records = FAMILIES[attribute]
    assert re.findall(r"^### (.+)$", section, re.MULTILINE) == [*records]
    for each in (name, *records):
        assert all(
            method.code in section
            for method in methods_of([documented("everyword.agents", each)])
            if method.name != "of"
        )


def test_every_member_that_is_left_out_exists() -> None:
    left_out = {(cls, name) for cls, names in FRAMEWORK.items() for name in names}
    families = {(cls, name) for cls, name in left_out if any(cls in records for _, records in FAMILIES.values())}
    found = {(cls, name) for package in PACKAGES for cls, name in left_out if _has(package, cls, name)}
    assert found | families == left_out


def _has(package: str, cls: str, name: str) -> bool:
    listed = [each for names in PACKAGES[package][1].values() for each in names]
    return cls in listed and hasattr(documented(package, cls), name)


def test_a_name_that_is_nowhere_or_twice_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    introduction, groups = PACKAGES["everyword.models"]
    odd = {**groups, "Failures": ("ModelFailure", "classify", "from_openai")}
    monkeypatch.setitem(reference.PACKAGES, "everyword.models", (introduction, odd))
    assert ungrouped("everyword.models") == ["failure_of", "from_openai"]
    assert reference.write() == ["not in one group of everyword.models: failure_of, from_openai"]


def test_members_of_the_parts_of_a_class_are_shown_with_it_and_inherited_ones_are_not() -> None:
    agent, chat = (
        {each.name for each in methods_of(own_classes("everyword", documented("everyword", name)))}
        for name in ("Agent", "AIChatAgent")
    )
    assert "schedule" in agent and "schedule" not in chat and "versions" in chat


# -- reading the source ------------------------------------------------------------------------------------------------


def test_a_signature_is_as_it_is_written() -> None:
    def short(a: int, /, b: str = "x", *rest: int, c: float, d: bool = not True, **more: object) -> None: ...

    assert signature(short) == (
        'def short(a: int, /, b: str = "x", *rest: int, c: float, d: bool = not True, **more: object) -> None'
    )
    long = signature(Everyword.__init__, "Everyword")
    assert long.startswith(
        "def Everyword(\n    self,\n    agents: Sequence[type[Agent]],\n    *,\n    store: str | LogStore"
    )
    assert [each.code for each in methods_of([AIChatAgent]) if each.name == "messages"] == ["messages: list[UIMessage]"]


def test_a_field_has_what_its_factory_makes_as_its_default() -> None:
    fields = {each.name: (each.type, each.default) for each in attributes_of([ToolContext])}
    assert fields["cancelled"] == ("CancelToken", "CancelToken()")
    assert fields["threads"] == ("Executor | None", "None")


def test_sections_of_a_docstring_are_lists() -> None:
    text = """Do something.

    More of it: much more.

    Args:
        one: The first,
            on two lines.
        two, three: Others.

    Raises:
        UsageError: it cannot.
    Behind it.
    """
    assert to_markdown(text) == (
        "Do something.\n\nMore of it: much more.\n\nArgs:\n\n"
        "- `one`: The first, on two lines.\n- `two`, `three`: Others."
        "\n\nRaises:\n\n- `UsageError`: it cannot.\n\nBehind it."
    )


# -- HTTP --------------------------------------------------------------------------------------------------------------


def test_every_resource_has_a_section_with_its_statuses() -> None:
    text = (reference.FOLDER / "http.md").read_text(encoding="utf-8")
    routes = re.findall(r"^## (GET|POST|PATCH|DELETE|any method) (/\S+)$", text, re.MULTILINE)
    assert routes == list(ROUTES)
    ours = {f"/agents/{{kind}}/{{name}}/{resource}" for resource in http_server.RESOURCES}
    assert ours < {path for _, path in routes} and {"/healthz", "/metrics"} < {path for _, path in routes}
    for (method, path), answer in ROUTES.items():
        assert statuses(answer), f"{method} {path} documents no answers"


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
def test_every_status_that_is_written_in_an_answer_is_documented(route: tuple[str, str]) -> None:
    answer = ROUTES[route]
    assert given_statuses(answer) <= {*statuses(answer), *statuses(COMMON)}


def test_every_status_of_all_resources_is_documented() -> None:
    given = given_statuses(COMMON) | given_statuses(http_server._refuse_change)
    assert given and given <= {*statuses(COMMON)}
    assert {"401", "403", "404", "429", "503"} <= {*statuses(COMMON)}


# -- frames ------------------------------------------------------------------------------------------------------------


def test_the_frames_are_those_of_the_protocol() -> None:
    frames = (reference.FOLDER / "frames.md").read_text(encoding="utf-8")
    protocol = (reference.FOLDER.parent / "protocol.md").read_text(encoding="utf-8")
    types = re.findall(
        r"^\| `((?:cf_agent|rsm)_\w+)` \|", protocol.partition("## 8.")[2].partition("## 9.")[0], re.MULTILINE
    )
    assert len(types) > 20
    assert (
        re.findall(r"^\| `((?:cf_agent|rsm)_\w+)` \|", frames.partition("## The handshake")[0], re.MULTILINE) == types
    )
    assert "**P-" not in frames and "| 1013 |" in frames
