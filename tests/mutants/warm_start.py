"""Import this to collect all witnesses, against the source in the folder that EVERYWORD_MUTANT names.

A fork server imports it once. Its forks have the witnesses and everyword in memory, and only run one of them.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
from pathlib import Path

import pytest

from tests.mutants.catalogue import ALL, HARMLESS
from tests.mutants.places import make
from tests.mutants.witness import OPTIONS, settle_in

_folder = os.environ["EVERYWORD_MUTANT"]
settle_in(_folder)
make(HARMLESS.where, HARMLESS.change, Path(_folder) / "everyword")  # indexes the source, once for all forks
_said = io.StringIO()
with contextlib.redirect_stdout(_said):
    _code = pytest.main([*OPTIONS, "--collect-only", *sorted({bug.witness.partition("::")[0] for bug in ALL})])
assert _code == pytest.ExitCode.OK, f"unable to collect the witnesses\n{_said.getvalue()[-2000:]}"
gc.freeze()  # a fork need not look at, and so copy, what is here
