"""Cases of a parametrised test of which a few run in `make test` and all in `make test-all`."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def slow_except(quick: Collection[Any], cases: Iterable[Any]) -> list[Any]:
    """The cases in their order, those that are not in `quick` marked slow; a tuple is the arguments of one case."""
    cases = list(cases)
    assert quick and all(case in cases for case in quick), f"{quick} are not all among the cases {cases}"
    return [
        case if case in quick else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for case in cases
    ]
