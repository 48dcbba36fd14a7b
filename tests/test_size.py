"""The rules of scripts/check_size.py: what a file counts for, and that the budgets are those that were reached."""

from pathlib import Path

import pytest
from check_size import BUDGET, check_size, sizes, storey


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("condyle/tape/ops.py", "core"),
        ("condyle/errors.py", "core"),
        ("condyle/methods/mpc/sqp.py", "methods"),
        ("condyle/commands/app.py", "commands"),
        ("scripts/check_size.py", "scripts"),
        ("tests/tape/test_ops.py", "tests"),
    ],
)
def test_what_a_file_counts_for(path: str, kind: str) -> None:
    assert storey(Path(path)) == kind


def test_budgets_are_what_was_reached() -> None:
    assert not list(check_size())
    for kind, size in sizes().items():
        assert BUDGET[kind].lines <= 1.02 * size.lines + 100, f"{kind} is smaller than its budget: lower it"


def test_a_storey_beyond_its_budget_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BUDGET, "commands", BUDGET["commands"]._replace(files=1))
    (fault,) = check_size()
    assert fault.startswith("commands has") and "files" in fault and "merge before adding" in fault
