"""What needs no sockets: `make bench-core`, or `make bench-core ARGS=spine` for those whose name has the word."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main(words: list[str]) -> int:
    """Run the chosen benchmarks; return how many failed."""
    chosen = [path for path in sorted(HERE.glob("bench_*.py")) if all(word in path.stem for word in words)]
    failed = 0
    for path in chosen:
        print(f"\n== {path.stem.removeprefix('bench_')} " + "=" * 60, flush=True)
        failed += subprocess.run([sys.executable, str(path)], check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
