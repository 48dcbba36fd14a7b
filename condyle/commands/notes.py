"""What is worth a word though nothing is wrong: commands to type next, doubts about a robot's file, a robot under the ground."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote

import numpy as np

from condyle.commands.source import Origin
from condyle.dynamics.kinematics import poses
from condyle.simulate.simulation import Simulation
from condyle.tape.host_info import program

LONG = 0.05  # s: a time step that is longer sees little of what happens


def command(verb: str, *words: object) -> str:
    """A command as it can be typed here."""
    return " ".join([program(), verb, *[quote(str(word)) for word in words]])


@dataclass(frozen=True)
class Examined:
    """What the doctor says of a robot's file in two words: how many doubts, and whether its base should rather move."""

    source: str
    doubts: int = 0
    nailed: bool = False

    @property
    def notes(self) -> list[str]:
        """In sentences."""
        n = self.doubts
        found = [f"{n} doubt{'s' * (n != 1)} about its file: {command('doctor', self.source)}"] if n else []
        return found + ["the base is fixed in the air; --base free lets it stand on the ground"] * self.nailed


def examined(origin: Origin) -> Examined:
    """A file as the doctor sees it; a built-in robot is healthy."""
    if not Path(origin.source).is_file():
        return Examined(origin.source)
    from condyle.doctor.diagnose import NAILED, diagnose
    from condyle.doctor.patient import HINT

    found = diagnose(origin.source, package_dirs=origin.package_dirs, xacro_args=dict(origin.xacro_args)).findings
    nailed = origin.base is None and any(finding.kind == NAILED for finding in found)
    return Examined(origin.source, sum(finding.severity != HINT for finding in found), nailed)


def about_step(dt: float) -> list[str]:
    """Whether a time step is very long."""
    return [f"a time step of {dt:g} s sees little of what happens; 0.002 is usual"] if dt > LONG else []


def sunk(simulation: Simulation, x: np.ndarray) -> list[str]:
    """Whether links are under the ground, because none of their shapes may touch it."""
    under, robot = simulation.ground, simulation.robot
    if under is None:
        return []
    q, v = simulation.split(x)
    X = poses(robot.model, q if robot.coordinate_map is None else robot.lift(q, v)[0])
    depths = []
    for i, link in robot.model.outward():
        shapes = [shape.pose.p for shape in link.collisions if shape.kind != "mesh"]
        middles = shapes or ([link.inertia.com] if link.inertia.mass > 0.0 else [])
        heights = [float(under.distance(np.asarray(X[i].point(p), dtype=float))[0]) for p in middles]
        depths += [(-height, link.name) for height in heights if height < 0.0]
    if not depths:
        return []
    depth, name = max(depths)
    touching = len(simulation.contact_names)
    return [
        f"{name} is {depth:.2g} m below the ground, which only {touching} point{'s' * (touching != 1)} can touch; "
        "--contacts '*' lets every simple shape touch it"
    ]
