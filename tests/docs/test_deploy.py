"""The deploy guide's samples do what the access rules need of them."""

from __future__ import annotations

import dataclasses
import re

import pytest

from everyword import Everyword, Limits
from everyword.agents.handles.shares import SHARED
from everyword.server.access_policy import FORWARDING
from everyword.server.list_requests import APPROVALS, CONVERSATIONS
from tests.architecture.tree import ROOT

HOW_TO = ROOT / "docs" / "how-to"
UNITS = ((" KiB", 1024), (" MiB", 1024**2), (" GiB", 1024**3))


def test_every_proxy_sample_says_that_a_request_was_forwarded() -> None:
    page = (HOW_TO / "deploy.md").read_text(encoding="utf-8")
    samples = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    nginx = [sample for sample in samples if "proxy_pass" in sample]
    assert len(nginx) == 1
    for sample in nginx:
        assert {"x-real-ip", "x-forwarded-for"} <= {name.lower() for name in re.findall(r"set_header (\S+)", sample)}
    assert "reverse_proxy" in page and "sets the `X-Forwarded` headers by itself" in page


def test_every_header_that_means_forwarded_is_documented() -> None:
    page = (HOW_TO / "authorize.md").read_text(encoding="utf-8").lower()
    assert [name for name in FORWARDING if f"`{name}`" not in page] == []
    assert "begins with `x-forwarded`" in page


def test_every_limit_is_on_the_page_with_its_default() -> None:
    page = (HOW_TO / "deploy.md").read_text(encoding="utf-8")
    for field in dataclasses.fields(Limits):
        value = getattr(Limits(), field.name)
        shown = [f"{value:,}", f"{value:g}", *(f"{value / size:g}{unit}" for unit, size in UNITS)]
        named = re.search(rf"`Limits\.{field.name}` \(([^);]+)", page)
        assert named is not None and named[1] in shown, field.name


@pytest.mark.parametrize("sample", ["docs/how-to/deploy.md", "examples/several_nodes/nginx.conf"])
def test_the_samples_for_nginx_pass_every_resource_on_with_bodies_of_any_allowed_size(sample: str) -> None:
    text = (ROOT / sample).read_text(encoding="utf-8")
    (location,) = re.findall(r"location ~ (\S+) \{", text)
    for resource in (Everyword([], store="memory:").base_path, CONVERSATIONS, APPROVALS, SHARED):
        assert re.search(location, resource) or re.search(location, f"{resource}/x"), resource
        assert re.search(location, f"{resource}/x/y")
    for other in ("/metrics", "/healthz", "/", "/agentsx"):
        assert not re.search(location, other)
    (size,) = re.findall(r"client_max_body_size (\d+)m;", text)
    assert int(size) * 1024**2 >= max(Limits().upload, Limits().frame)
