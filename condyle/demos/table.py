"""The machines by name: what each is, the run that shows it, and everything that is checked about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from condyle.demos.row import Row
from condyle.errors import CondyleError
from condyle.robot.names import nearest
from condyle.runs.run import Run


@dataclass(frozen=True)
class Machine:
    """A machine, by the modules that run and check it, which are imported when asked for."""

    name: str
    title: str
    story: str  # what its run shows, in a sentence
    module: str  # with run(path=None, *, say=...) -> Run
    checked: str  # with checks(run=None, *, quick=..., say=...) -> rows
    frame: str  # whose way is drawn
    view: tuple[float, float] = (-60.0, 20.0)  # from where it is seen: degrees about the vertical, and above the horizon
    moment: float = 0.0  # s, shown in its picture
    others: tuple[float, ...] = ()  # s, of further poses in it, translucent
    filled: float = 0.76  # the part of its picture that it fills: the title needs room
    pushed: bool = True  # its wrenches come from outside: their arrows end where they act
    next: Sequence[str] = ()  # what to type to go on, after `condyle`

    def run(self, *arguments: Any, **options: Any) -> Run:
        """The run that shows it."""
        made: Run = import_module(self.module).run(*arguments, **options)
        return made

    @property
    def checks(self) -> Callable[..., Iterator[Row]]:
        rows: Callable[..., Iterator[Row]] = import_module(self.checked).checks
        return rows


ALSO = {"ur3": "arm"}  # a robot by whose name its machine is known, too
HOME = "condyle.demos"
MACHINES = {
    machine.name: machine
    for machine in (
        Machine(
            "birotor",
            "Birotor",
            "A drone with two rotors on tilting gimbals rises, flies a circle at a tilt of 18 degrees while it turns, and stops "
            "in the air: servos with their real lag, thrust and drag where the rotors are.",
            f"{HOME}.birotor",
            f"{HOME}.birotor_checks",
            "base",
            view=(-50.0, 14.0),
            moment=6.0,
            others=(0.0, 2.2, 12.9),
            filled=0.86,
            pushed=False,
            next=("view birotor", "sim birotor --controller hover -o hover.cdl"),
        ),
        Machine(
            "arm",
            "Arm",
            "An arm of the UR3's size follows a rectangle with its tool down, held by soft gains and what its own dynamics ask "
            "for, and is pushed on the way.",
            f"{HOME}.arm",
            f"{HOME}.arm_checks",
            "tool",
            moment=5.95,
            others=(0.0,),
            next=("view ur3", "sim ur3 --controller swing --seconds 5 -o swing.cdl"),
        ),
        Machine(
            "wheeled-pendulum",
            "Wheeled pendulum",
            "A body on one wheel rolls without slipping, in two coordinates instead of four; a motor brings it upright and "
            "holds it when it is pushed.",
            f"{HOME}.wheel_run",
            f"{HOME}.wheel_run",
            "top",
            view=(-78.0, 10.0),
            moment=4.08,
            others=(0.0,),
            filled=0.68,
            next=(
                "verify wheeled-pendulum",
                "sim wheeled_pendulum --controller balance -o balance.cdl",
            ),
        ),
        Machine(
            "pidog",
            "PiDog",
            "A desktop quadruped stands and walks its maker's walk with the torque, speed and steps of hobby servos.",
            f"{HOME}.pidog",
            f"{HOME}.pidog_checks",
            "torso",
            moment=3.5,
            others=(0.0,),
            next=("sim pidog --controller walk --seconds 6 -o walk.cdl", "view pidog --live"),
        ),
        Machine(
            "fourlimb",
            "Four-limbed machine",
            "A hundred kilograms on four limbs are dropped, land, and are pushed from the side: contact by maximal dissipation, "
            "smooth enough to be differentiated.",
            f"{HOME}.fourlimb",
            f"{HOME}.fourlimb_checks",
            "torso",
            moment=2.1,
            others=(0.0,),
            next=("sim fourlimb --height 0.05 --controller hold --push 300 0 0 -o push.cdl", "gradcheck pendulum --steps 20"),
        ),
    )
}


def machine(name: str) -> Machine:
    """The machine of this name."""
    plain = name.lower().replace("_", "-")
    found = MACHINES.get(ALSO.get(plain, plain))
    if found is None:
        raise CondyleError(f"there is no machine '{name}'{nearest(name, list(MACHINES))}")
    return found
