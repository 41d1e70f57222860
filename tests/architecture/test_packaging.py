"""What the package says of itself, to installers and to people without an extra, is true."""

from __future__ import annotations

import re
import sys
import tomllib
from typing import Any

from everyword.extras import PACKAGES, missing
from tests.architecture.tree import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def _names(requirements: list[str]) -> list[str]:
    return [re.split(r"[<>=\[; ]", requirement, maxsplit=1)[0] for requirement in requirements]


def test_the_extra_all_has_all_the_others() -> None:
    (everything,) = EXTRAS["all"]
    assert everything == f"everyword[{','.join(sorted(EXTRAS.keys() - {'all'}))}]"


def test_a_missing_package_is_named_with_a_command_that_installs_all_of_its_extra() -> None:
    assert sys.platform != "win32", "the extra `server` has other packages there"
    assert {extra: list(packages) for extra, packages in PACKAGES.items()} == {
        extra: _names(requirements) for extra, requirements in EXTRAS.items() if extra != "all"
    }
    assert str(missing("httpx", "client", "read")) == (
        "unable to read; httpx is missing. Install what the extra 'client' needs: pip install httpx websockets"
    )


def test_the_metadata_has_what_an_index_shows() -> None:
    assert PROJECT["name"] == "everyword" and PROJECT["license"] == "MIT"
    assert all((ROOT / name).is_file() for name in [PROJECT["readme"], *PROJECT["license-files"]])
    assert PROJECT["description"] and PROJECT["authors"] and PROJECT["keywords"] == sorted(PROJECT["keywords"])
    classifiers = PROJECT["classifiers"]
    assert classifiers == sorted(classifiers, key=lambda each: each.split(" :: "))
    oldest = PROJECT["requires-python"].removeprefix(">=")
    versions = [each.rpartition(" ")[2] for each in classifiers if re.search(r":: 3\.\d+$", each)]
    assert versions[0] == oldest and "Programming Language :: Python :: 3 :: Only" in classifiers
    assert not any(each.startswith("License ::") for each in classifiers), "`license` says it"


def test_ci_runs_the_oldest_and_the_newest_python_that_the_metadata_names() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    named = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]
    (tested,) = re.findall(r"python: \[(.+)\]", workflow)
    assert re.findall(r'"(.+?)"', tested) == [named[0], named[-1]]
    assert "- run: .ci/run\n" in workflow


def test_every_target_of_make_that_the_pages_for_developers_name_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    pages = {
        name: (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CONTRIBUTING.md", "RELEASING.md")
    }
    named = {(page, found) for page, text in pages.items() for found in re.findall(r"(?:`|\$ )make ([a-z-]+)", text)}
    assert len(named) > 10
    assert {(page, target) for page, target in named if target not in targets} == set()
