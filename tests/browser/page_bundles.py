"""The bundles of the page, one per client version: built by esbuild, cached by a hash of the sources."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["CLIENTS", "INDEX", "build", "build_example", "run_build"]

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


def build_example(example: Path, client: str = "ai7") -> Path:
    """Return the folder with an example's bundles, made as `npm run build` does, unless they were made before."""
    package = example / "package.json"
    names = json.loads(package.read_text(encoding="utf-8"))["dependencies"]
    hashed = hashlib.sha256(_fingerprint(client).encode())
    for path in [package, *sorted((example / "page").glob("*.js*")), *(MODULES / n / "package.json" for n in names)]:
        assert path.is_file(), f"unable to bundle the example; {path} is missing: run `make setup`"
        hashed.update(path.read_bytes())
    kept = MODULES / ".cache" / "everyword" / f"{example.name}-{hashed.hexdigest()[:16]}"
    if not kept.is_dir():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            made = Path(folder) / "made"
            run_build(example, made, client)
            with suppress(OSError):  # another worker was faster with the same bundles
                made.rename(kept)
    return kept


def run_build(example: Path, made: Path, client: str) -> None:
    """Run an example's `npm run build` with the packages of the tests; its output is the file or folder `made`."""
    script = json.loads((example / "package.json").read_text(encoding="utf-8"))["scripts"]["build"]
    script, count = re.subn(r"--(outfile|outdir)=\S+", lambda found: f"--{found[1]}={made}", script)
    assert count == 1, script
    aliases = [f"--alias:{name}={other}" for name, other in CLIENTS[client].items() if name != other]
    ran = subprocess.run(
        ["sh", "-c", shlex.join([*shlex.split(script), *aliases])],
        cwd=example,
        env={**os.environ, "PATH": f"{MODULES / '.bin'}{os.pathsep}{os.environ['PATH']}", "NODE_PATH": str(MODULES)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


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
