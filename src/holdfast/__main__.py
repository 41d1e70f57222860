"""`python -m holdfast` is the `holdfast` command."""

from __future__ import annotations

import sys

from .cli import main

sys.exit(main())
