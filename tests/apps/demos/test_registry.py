"""The registry of demos: the checks of every run pass, and runs have the same bits on what looks like another processor."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from apps.demos.runs_of_demos import recorded
from markers import slow_except
from processors import OLD, elsewhere

from condyle.apps.demos.checks import Check
from condyle.apps.demos.registry import DEMOS, OTHERS, find
from condyle.errors import CondyleError

CHILD = """
import json, sys
from condyle.apps.demos.registry import DEMOS
print(json.dumps({name: DEMOS[name].run().hash for name in sys.argv[1:]}))
"""
ROBOTS = [name for name in (*DEMOS, *OTHERS) if name != "compiler"]


# the world of the four-limbed robot is looked at in robot/test_angles.py; its run would take as long as all others
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in DEMOS if name != "fourlimb"])
def test_a_run_is_the_same_on_another_processor(name: str, tmp_path: Path) -> None:
    assert json.loads(elsewhere(CHILD, tmp_path, OLD, name)) == {name: recorded(name).hash}


@pytest.mark.slow
@pytest.mark.parametrize("name", ROBOTS)
def test_checks_of_a_run_pass(name: str) -> None:
    found = list(find(name, verified=True).checks(recorded(name)))
    assert [check.name for check in found if not check.ok] == [] and len(found) >= 10
    assert len({(check.group, check.name) for check in found}) == len(found)


# the others' rows are seen to fail in files of their own
@pytest.mark.parametrize("name", slow_except(["welding"], ROBOTS))
def test_checks_of_a_changed_run_fail(name: str) -> None:
    """Other torques than those applied, and states 10 mm off, are seen by several checks each."""
    done = recorded(name)
    x = done.x.copy()
    x[:, 0] += 0.01 * np.linspace(0.0, 1.0, len(x))
    for change in ({"u": 1.01 * done.u}, {"x": x}):
        other = replace(done, **change)
        other.__dict__["simulation"] = done.simulation
        failed = [check.name for check in find(name, verified=True).checks(other) if check.ok is False]
        assert "replays bit for bit" in failed and len(failed) >= 2, failed


@pytest.mark.slow
def test_the_compiler() -> None:
    found = list(find("compiler", verified=True).checks(None))
    assert [check.name for check in found if not check.ok] == [] and len(found) == 7


def test_names() -> None:
    assert find("wheeled_pendulum") is DEMOS["wheeled-pendulum"] and find("ur3") is DEMOS["arm"]
    with pytest.raises(CondyleError, match=r"no demo 'pidgo' \(did you mean 'pidog'\?\)"):
        find("pidgo")
    with pytest.raises(CondyleError, match="no demo 'two-wheeled'"):
        find("two-wheeled")


# ---- checks


def test_a_check_knows_its_bounds() -> None:
    assert Check("g", "c", 1.0, high=1.0).ok and not Check("g", "c", 1.1, high=1.0).ok
    assert Check("g", "c", 1.0, low=1.0).ok and not Check("g", "c", 0.9, low=1.0).ok
    assert not Check("g", "c", float("nan"), high=1.0).ok and not Check("g", "c", float("inf"), low=0.0).ok
    assert Check("g", "c", None, high=1.0).ok is None
    assert Check("g", "c", 1.0, low=1).bound == "at least 1" and Check("g", "c", 1.0, high=2).bound == "at most 2"
    assert Check("g", "c", 1.0, low=1, high=2).bound == "1 to 2"
    assert Check("g", "c", 7.0849, "N", 7.0848 - 1e-4, 7.0848 + 1e-4, ".4f").bound == "7.0848 ± 0.0001"
    assert Check("g", "c", 7.0849, "N", 7.0848 - 1.5e-4, 7.0848 + 1.5e-4, ".4f").bound == "7.0848 ± 0.00015"
    assert Check("g", "c", 30.0, "", 30.0, 30.0, ".0f").bound == "exactly 30"
    assert Check("g", "c", 2.0, "N", high=3.0).data() == {
        "group": "g", "name": "c", "value": 2.0, "unit": "N", "low": None, "high": 3.0, "detail": "", "ok": True,
    }  # fmt: skip
