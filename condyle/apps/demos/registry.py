"""The demo robots by name: what each is, the run that shows it, and the checks of that run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from condyle.apps.demos.checks import Check, Progress, silent
from condyle.errors import CondyleError
from condyle.robot.names import nearest
from condyle.workbench.runs.run import Run


@dataclass(frozen=True)
class Demo:
    """A robot and what it does; its module, imported when needed, has run(path=None, *, progress) -> Run and checks(run)."""

    name: str
    title: str
    summary: str
    frame: str = ""  # whose path is drawn
    view: tuple[float, float] = (-60.0, 20.0)  # azimuth and elevation of its picture, degrees
    time: float = 0.0  # s, of the state in its picture
    ghosts: tuple[float, ...] = ()  # s, of further states in it, translucent
    fill: float = 0.76  # the part of its picture that it fills: the title needs room
    pushed: bool = True  # its wrenches come from outside: their arrows end where they act

    def _module(self) -> Any:
        return import_module(f"condyle.apps.demos.{self.name.replace('-', '_')}")

    def run(self, path: Any = None, *, progress: Progress = silent) -> Run:
        """The recorded run, also written to `path`."""
        made: Run = self._module().run(path, progress=progress)
        return made

    def checks(self, run: Run) -> Iterator[Check]:
        """The checks of a run."""
        found: Iterator[Check] = self._module().checks(run)
        return found


DEMOS = {
    demo.name: demo
    for demo in (
        Demo(
            "birotor",
            "Birotor",
            "A drone with two rotors on tilting gimbals rises, flies a circle at a tilt of 18 degrees while it yaws, and stops "
            "in the air: servos with their measured lag, thrust and drag at the rotors' frames.",
            "base",
            view=(-50.0, 14.0),
            time=6.0,
            ghosts=(0.0, 2.2, 12.9),
            fill=0.86,
            pushed=False,
        ),
        Demo(
            "arm",
            "Arm",
            "An arm of the UR3's size follows a rectangle with its tool down, by inverse dynamics and soft gains, and is pushed "
            "on the way.",
            "tool",
            time=5.95,
            ghosts=(0.0,),
        ),
        Demo(
            "wheeled-pendulum",
            "Wheeled pendulum",
            "A body on one wheel rolls without slipping, in two coordinates instead of four; a motor brings it upright and "
            "holds it when it is pushed.",
            "top",
            view=(-78.0, 10.0),
            time=4.08,
            ghosts=(0.0,),
            fill=0.68,
        ),
        Demo(
            "pidog",
            "PiDog",
            "A desktop quadruped stands and walks its manufacturer's gait with the torque, speed and resolution of hobby servos.",
            "torso",
            time=3.5,
            ghosts=(0.0,),
        ),
        Demo(
            "fourlimb",
            "Four-limbed robot",
            "A robot of 100 kg on four limbs is dropped, lands, and is pushed from the side: contact by maximal dissipation, "
            "smooth enough to be differentiated.",
            "torso",
            time=2.1,
            ghosts=(0.0,),
        ),
    )
}
# verified, but no part of `condyle demo`
OTHERS = {
    demo.name: demo
    for demo in (
        Demo(
            "pick-and-place",
            "Pick and place",
            "An arm of the UR3's size carries 0.5 kg from one place to another, with and without knowledge of the payload.",
            "tool",
        ),
        Demo(
            "welding", "Welding", "The arm's tool goes round a rectangle with rounded corners at 50 mm/s, pointing down.", "tool"
        ),
        Demo("two-wheeled", "Robot on two wheels", "It balances and drives a figure of eight without slipping."),
        Demo("compiler", "The compiler", "The same bits for every lane width, batch size and backend; derivatives; intervals."),
    )
}
ALIASES = {"ur3": "arm"}


def find(name: str, *, verified: bool = False) -> Demo:
    """The demo of this name; `verified`: those that only `condyle verify` has, too."""
    known = {**DEMOS, **OTHERS} if verified else DEMOS
    key = name.lower().replace("_", "-")
    found = known.get(ALIASES.get(key, key))
    if found is None:
        raise CondyleError(f"there is no demo '{name}'{nearest(name, list(known))}")
    return found
