"""The samples for several nodes: they parse, name settings that exist, and agree with each other."""

from __future__ import annotations

import dataclasses
import importlib
import re
from typing import Any

import pytest
import yaml

from everyword import Everyword
from everyword.cli.web_server import EXIT_DEADLINE
from everyword.log.postgres.store import DEFAULT_LEASE
from everyword.server.access_policy import FORWARDING
from everyword.server.node_settings import NodeSettings
from tests.architecture.tree import ROOT

EXAMPLE = ROOT / "examples" / "several_nodes"
PAGE = (ROOT / "docs" / "how-to" / "several-nodes.md").read_text(encoding="utf-8")

VARIABLES = {
    f"EVERYWORD_NODE_{'SECRET' if field.name == 'secrets' else field.name.upper()}"
    for field in dataclasses.fields(NodeSettings)
}


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Everyword:
    monkeypatch.setenv("CHAT_TOKEN", "open sesame")
    monkeypatch.setenv("DATABASE_URL", "postgresql://localhost/chats")
    made: Everyword = importlib.import_module("examples.several_nodes.app").app
    return made


def read(name: str) -> str:
    return (EXAMPLE / name).read_text(encoding="utf-8")


def environment_of(pod: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value") for each in pod["containers"][0]["env"]}


def test_the_table_of_variables_has_every_setting_and_the_defaults() -> None:
    rows = dict(re.findall(r"^\| `(EVERYWORD_NODE_\w+)` \| (.*?) \|", PAGE, re.MULTILINE))
    assert set(rows) == VARIABLES - {"EVERYWORD_NODE_GROUP"}  # that one is for the supervisor of `--workers`
    assert rows["EVERYWORD_NODE_LISTEN"] == f"`{NodeSettings().listen}`"
    assert rows["EVERYWORD_NODE_LEASE"] == f"`{NodeSettings().lease:g}`"
    assert NodeSettings().lease == DEFAULT_LEASE


@pytest.mark.parametrize("name", ["compose.yaml", "kubernetes.yaml"])
def test_the_samples_name_only_settings_that_exist(name: str) -> None:
    assert set(re.findall(r"EVERYWORD_NODE_\w+", read(name))) <= VARIABLES


def test_every_node_of_the_compose_file_has_an_address_of_its_own(app: Everyword) -> None:
    services = yaml.safe_load(read("compose.yaml"))["services"]
    nodes = {name: each for name, each in services.items() if name.startswith("node")}
    for name, node in nodes.items():
        settings = NodeSettings.from_environment(node["environment"])
        assert (settings.name, settings.address) == (name, f"{name}:9100")
        assert settings.advertised(settings.listen) == f"{name}:9100"
        assert int(node["stop_grace_period"].rstrip("s")) > app.grace + EXIT_DEADLINE
        assert "ports" not in node
        assert f"{name}:8787" in read("Caddyfile") and f"{name}:8787" in read("nginx.conf")
    assert len(nodes) == 3


def test_the_deployment_has_time_to_stop_and_is_asked_for_its_health(app: Everyword) -> None:
    documents = {each["kind"]: each for each in yaml.safe_load_all(read("kubernetes.yaml"))}
    assert list(documents) == ["Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"]
    deployment = documents["Deployment"]["spec"]
    pod, labels = deployment["template"]["spec"], deployment["template"]["metadata"]["labels"]
    (container,) = pod["containers"]
    waits = float(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > waits + app.grace + EXIT_DEADLINE
    assert container["readinessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    environment = environment_of(pod)
    assert environment["EVERYWORD_NODE_ADDRESS"] == "$(POD_IP):9100"
    assert list(environment).index("POD_IP") < list(environment).index("EVERYWORD_NODE_ADDRESS")
    assert environment["EVERYWORD_NODE_LISTEN"] == "0.0.0.0:9100"
    assert documents["Service"]["spec"]["selector"] == deployment["selector"]["matchLabels"] == labels
    public, links = documents["NetworkPolicy"]["spec"]["ingress"]
    assert (public["ports"], links["ports"]) == ([{"port": 8787}], [{"port": 9100}])
    assert links["from"] == [{"podSelector": {"matchLabels": labels}}] and "from" not in public


def test_the_proxies_say_that_a_request_was_forwarded_and_hash_by_agent() -> None:
    headers = {name.lower() for name in re.findall(r"proxy_set_header (\S+)", read("nginx.conf"))}
    assert {"upgrade", "x-real-ip", "x-forwarded-for"} <= headers and headers & set(FORWARDING)
    agent = re.compile("^/agents/[^/]+/[^/]+")
    assert agent.pattern in read("Caddyfile") and "/agents/[^/]+/[^/]+" in read("nginx.conf")
    for path in ("/agents/chat/ann", "/agents/chat/ann/get-messages", "/agents/chat/ann/sub/notes/1"):
        found = agent.match(path)
        assert found is not None and found[0] == "/agents/chat/ann"


def test_the_example_lets_only_clients_with_the_token_in(app: Everyword) -> None:
    assert app.access_policy.has_authorize
    assert app.where == "postgresql://localhost/chats"
