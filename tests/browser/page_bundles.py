"""The bundles of the page, one per client version: built by esbuild, cached by a hash of the sources."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Final

__all__ = ["CLIENTS", "INDEX", "build"]

HERE: Final = Path(__file__).parent
STOCK: Final = HERE / "stock"
MODULES: Final = HERE / "node_modules"
INDEX: Final = STOCK / "index.html"

# Import name → package, for all dependencies; without it each dependency would bundle its own copy.
CLIENTS: Final[dict[str, dict[str, str]]] = {
    "ai7": {"ai": "ai7", "@ai-sdk/react": "ai-react7"},
    "ai6": {"ai": "ai", "@ai-sdk/react": "@ai-sdk/react"},
}


def build(client: str, page: str = "use-agent-chat-page") -> Path:
    """Return a page's bundle for one client version, building it unless the same sources were built before."""
    kept = MODULES / ".cache" / "everyword" / f"{page}-{client}-{_fingerprint(client)}.js"
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            made = Path(folder) / "page.js"
            _esbuild(client, page, made)
            os.replace(made, kept)  # another worker may have been faster with the same bundle
    return kept


def _fingerprint(client: str) -> str:
    hashed = hashlib.sha256(repr(sorted(CLIENTS[client].items())).encode())
    versions = (
        MODULES / name / "package.json" for name in ("agents", "@cloudflare/ai-chat", "ai", "ai7", "partysocket")
    )
    for path in [Path(__file__), HERE / "package.json", *sorted(STOCK.glob("*.js*")), *versions]:
        assert path.is_file(), f"unable to bundle the page; {path.name} is missing: run `make setup`"
        hashed.update(path.read_bytes())
    return hashed.hexdigest()[:16]


def _esbuild(client: str, page: str, made: Path) -> None:
    command = [
        str(MODULES / ".bin" / "esbuild"),
        f"stock/{page}.jsx",
        "--bundle",
        "--format=esm",
        "--jsx=automatic",
        "--minify",
        "--target=chrome120",
        "--define:process.env.NODE_ENV='production'",
        "--log-level=warning",
        f"--outfile={made}",
        *(f"--alias:{name}={other}" for name, other in CLIENTS[client].items()),
    ]
    ran = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, f"unable to bundle the page for {client}:\n{ran.stderr}"
