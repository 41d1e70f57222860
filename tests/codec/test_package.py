"""The example in the docstring of the package runs."""

from __future__ import annotations

import doctest

from everyword import codec


def test_the_example_of_the_package_runs() -> None:
    result = doctest.testmod(codec)
    assert result.attempted > 5 and result.failed == 0
