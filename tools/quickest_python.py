"""Print the path of the quickest Python of this machine that the benchmarks can use.

How an interpreter was compiled is a third of what everything costs: distributions and official images build theirs with
profile-guided optimisation, who compiles one without further ado does not. What is measured is to be what people run.
"""

from __future__ import annotations

import shutil
import subprocess
import sys

OTHERS = ("/usr/bin/python3", "/usr/local/bin/python3")
OLDEST = (3, 11)
ROUNDS = 5

WORK = """
import ensurepip, sys, time, venv
assert sys.version_info >= %r
class Word:
    def __init__(self, text): self.text = text
    def grown(self): return Word(self.text + "x")
def work():
    words = {}
    for number in range(100_000):
        word = Word(str(number)).grown()
        words[number & 255] = (word, len(word.text))
began = time.process_time()
work()
print(time.process_time() - began)
"""


def seconds(python: str) -> float | None:
    """Return how long a bit of work takes it; None for one that is too old, or cannot make an environment."""
    done = subprocess.run([python, "-c", WORK % (OLDEST,)], capture_output=True, text=True, check=False)
    return float(done.stdout) if done.returncode == 0 else None


def main() -> int:
    found = dict.fromkeys(filter(None, map(shutil.which, [*sys.argv[1:], *OTHERS])))
    usable: dict[str, float] = {}
    for python in [*found] * ROUNDS:
        if (took := seconds(python)) is not None:
            usable[python] = min(took, usable.get(python, took))
    if not usable:
        print(f"unable to find a Python {OLDEST[0]}.{OLDEST[1]} or newer with `venv`", file=sys.stderr)
        return 1
    print(min(usable, key=lambda python: usable[python]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
