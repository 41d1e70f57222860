"""`python -m everyword` is the `everyword` command."""

from __future__ import annotations

import sys

from .cli import main

sys.exit(main())
