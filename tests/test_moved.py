"""Names of modules before the package had storeys: public doors lead on, all others say the new name, which exists."""

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec

import pytest

from condyle.moved import DOORS, MOVED, new_name
from condyle.registered import LOOPS, registered

OLD_MODULES = (
    "control.paths",
    "control.lqr",
    "tasks.pidog",
    "tasks.registry",
    "deploy.deploy",
    "identify.read_log",
    "robot.to_mujoco",
)


@pytest.mark.parametrize("old", OLD_MODULES)
def test_an_old_name_says_the_new_one(old: str) -> None:
    new = new_name(f"condyle.{old}", MOVED)
    with pytest.raises(ImportError, match=rf"condyle\.{old} is {new} now"):
        import_module(f"condyle.{old}")
    package, _, name = old.partition(".")
    if package != "robot":
        with pytest.raises(ImportError, match=rf"condyle\.{old} is {new} now"):
            exec(f"from condyle.{package} import {name}")


@pytest.mark.parametrize("new", sorted({*MOVED.values(), *DOORS.values()}))
def test_every_new_name_exists(new: str) -> None:
    parent, _, name = new.rpartition(".")
    # all are modules but for one function
    assert hasattr(import_module(parent), name) if name == "read_log" else find_spec(new) is not None


def test_doors_give_the_modules_themselves_once() -> None:
    # in a process of its own: nothing is loaded before the door
    code = (
        "import condyle.flight.airframe, condyle.apps.flight.wind, condyle.flight.wind, sys, condyle as cd\n"
        "assert sys.modules['condyle.flight.wind'] is sys.modules['condyle.apps.flight.wind']\n"
        "assert cd.flight.airframe is condyle.apps.flight.airframe and callable(cd.flight.airframe)\n"
        "from condyle.compat.acados import AcadosOcp\n"
        "assert AcadosOcp.__module__.startswith('condyle.apps.compat.'), AcadosOcp.__module__\n"
        "assert cd.flight.__spec__.name == 'condyle.apps.flight'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_other_names_are_not_answered() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'condyle\.nosuch'"):
        import_module("condyle.nosuch")


def test_every_registered_loop_has_its_builder() -> None:
    from condyle.workbench.runs.loops import _builders

    for name, entry in registered(LOOPS).items():
        entry.load()
        assert name in _builders, name
