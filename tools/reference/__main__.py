"""`python -m tools.reference` writes the pages."""

from __future__ import annotations

import sys

from tools.reference import write

if __name__ == "__main__":
    for line in (odd := write()):
        print(f"unable to write the reference; {line}", file=sys.stderr)
    sys.exit(1 if odd else 0)
