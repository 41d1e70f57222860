"""The addresses of agents."""

from __future__ import annotations

import pytest

from everyword.client.address import AgentAddress
from everyword.errors import UsageError


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("http://localhost:8787", "http://localhost:8787/agents/chat/ann"),
        ("http://localhost:8787/", "http://localhost:8787/agents/chat/ann"),
        ("localhost:8787", "http://localhost:8787/agents/chat/ann"),
        ("ws://localhost", "http://localhost/agents/chat/ann"),
        ("wss://example.org/api/", "https://example.org/api/agents/chat/ann"),
    ],
)
def test_sockets_and_http_have_one_root(url: str, root: str) -> None:
    address = AgentAddress(url, "chat", "ann")
    assert address.http("get-messages") == f"{root}/get-messages"
    assert address.socket({"_pk": "a b"}) == f"ws{root.removeprefix('http')}?_pk=a+b"


@pytest.mark.parametrize("base_path", ["x", "/x", "x/", "//x//"])
def test_a_base_path_may_begin_and_end_with_slashes(base_path: str) -> None:
    assert AgentAddress("http://h/", "chat", "ann", base_path).http("chat") == "http://h/x/chat/ann/chat"


@pytest.mark.parametrize(
    ("agent", "kind"),
    [
        ("chat", "chat"),
        ("ChatAgent", "chat-agent"),
        ("MyAIAgent", "my-a-i-agent"),
        ("CHAT_AGENT", "chat-agent"),
        ("Chat_", "chat"),
    ],
)
def test_class_names_become_kebab_case_in_urls(agent: str, kind: str) -> None:
    assert AgentAddress("http://h", agent, "n").http("") == f"http://h/agents/{kind}/n/"


def test_a_name_may_have_any_characters() -> None:
    assert AgentAddress("http://h", "chat", "a/b ü?", "/x").http("chat") == "http://h/x/chat/a%2Fb%20%C3%BC%3F/chat"


@pytest.mark.parametrize(("url", "name"), [("ftp://h", "ann"), ("http://", "ann"), ("http://h", "")])
def test_invalid_addresses_are_refused(url: str, name: str) -> None:
    with pytest.raises(UsageError, match="unable to connect"):
        AgentAddress(url, "chat", name)
