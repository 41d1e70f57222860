"""What a run against a mutant needs: the mutant and nothing but the mutant, and the same examples every time.

Loaded with `-p tests.mutants.profile` in the process that runs the witness. Hypothesis draws from a seed that comes
from the test itself, does not shrink, and stops at the first failure: catching a seeded bug does not depend on luck.
"""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

import everyword

hypothesis.settings.register_profile(
    "mutants",
    deadline=None,
    derandomize=True,
    database=None,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=list(hypothesis.HealthCheck),
)


def pytest_configure(config: pytest.Config) -> None:
    copy = Path(os.environ["EVERYWORD_MUTANT"])
    imported = Path(str(everyword.__file__)).resolve()
    if not imported.is_relative_to(copy.resolve()):
        pytest.exit(f"unable to test the mutant; {imported} was imported instead of {copy}", returncode=70)
