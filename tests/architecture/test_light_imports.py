"""What a plain import, and the command line's help, must not import: they stay quick by what they leave out."""

from __future__ import annotations

import subprocess
import sys

import pytest

THIRD_PARTY = {"anyio", "croniter", "msgspec", "pydantic", "starlette"}
EXTRAS = {"anthropic", "asyncpg", "httpx", "openai", "opentelemetry", "prometheus_client", "pydantic_ai"}
SERVER = {"click", "httptools", "rich", "uvicorn", "uvloop", "watchfiles", "websockets"}
NODES = {"everyword.cluster.link", "everyword.server.node_links", "everyword.server.remote_calls"}
"""What only an app needs whose store several nodes share."""
SLOW = {"asyncio", "email", "http", "sqlite3", "ssl"}

CASES: dict[str, tuple[str, set[str]]] = {
    "import everyword": ("import everyword", THIRD_PARTY | EXTRAS | SERVER | SLOW),
    "an agent and an app": ("from everyword import AIChatAgent, Everyword", EXTRAS | SERVER | NODES | {"pydantic"}),
    "everyword --help": (
        "from everyword.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass",
        THIRD_PARTY | EXTRAS | SERVER | SLOW,
    ),
    "everyword serve, until it listens": (
        "from everyword.cli.parser import make_parser\nmake_parser().parse_args(['serve', 'app.py'])",
        THIRD_PARTY | EXTRAS | SERVER | SLOW,
    ),
    "everyword dev, the process that watches": (
        "from everyword.cli.parser import make_parser\nmake_parser().parse_args(['dev', 'app.py'])",
        THIRD_PARTY | EXTRAS | SERVER | SLOW,
    ),
    "everyword ls": (
        "from everyword.cli.parser import make_parser\nmake_parser().parse_args(['ls'])",
        EXTRAS | SERVER | {"starlette"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_it_does_not_import(case: str) -> None:
    code, unwanted = CASES[case]
    script = f"{code}\nimport sys\nprint('imported:', *sorted({unwanted!r} & sys.modules.keys()))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "imported:"
