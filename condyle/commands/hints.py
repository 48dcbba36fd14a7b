"""Hints next to a result: commands to type next, warnings about a robot's file, links below the ground or between points."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import numpy as np

from condyle.dynamics.kinematics import poses
from condyle.simulate.simulation import Simulation
from condyle.tape.host_info import program

if TYPE_CHECKING:
    from condyle.commands.scene import Origin


def shell_command(name: str, *words: object) -> str:
    """A command line as it can be typed here."""
    return " ".join([program(), name, *[quote(str(word)) for word in words]])


@dataclass(frozen=True)
class FileHints:
    """What the doctor finds in a robot's file: the number of warnings, and whether its base is fixed but should move."""

    source: str
    warnings: int = 0
    fixed_in_air: bool = False

    @property
    def sentences(self) -> list[str]:
        """The hints to print."""
        n = self.warnings
        found = [f"{n} warning{'s' * (n != 1)} about its file: {shell_command('doctor', self.source)}"] if n else []
        return found + ["the base is fixed in the air; --base free lets it stand on the ground"] * self.fixed_in_air


def file_hints(origin: Origin) -> FileHints:
    """The hints about a robot's file; a built-in robot has none."""
    if not Path(origin.source).is_file():
        return FileHints(origin.source)
    from condyle.robot.report import HINT
    from condyle.workbench.doctor.diagnose import FIXED_BASE, diagnose

    found = diagnose(origin.source, **origin.reader_options).findings
    fixed_in_air = origin.base is None and any(finding.rule == FIXED_BASE for finding in found)
    return FileHints(origin.source, sum(finding.severity != HINT for finding in found), fixed_in_air)


def contact_hints(simulation: Simulation) -> list[str]:
    """What `simulation.report` says of contact points: those left out, and links that stick out between the others."""
    notes = simulation.report[len(simulation.robot.report) :]
    # the advice for a command line
    return [re.sub(r"contacts=\['(.*)', 'auto'\]", lambda m: f"--contacts {quote(m[1])} --contacts auto", note) for note in notes]


def ground_hints(simulation: Simulation, x: np.ndarray) -> list[str]:
    """A hint if links are below the ground because none of their shapes can touch it."""
    under, robot = simulation.ground, simulation.robot
    if under is None:
        return []
    q, v = simulation.split(x)
    X = poses(robot.model, robot.lift(q, v)[0])
    depths = []
    for i, link in robot.model.outward():
        shapes = [shape.pose.p for shape in link.collisions if shape.kind != "mesh"]
        centers = shapes or ([link.inertia.com] if link.inertia.mass > 0.0 else [])
        heights = [float(under.distance(np.asarray(X[i].point(p), dtype=float))[0]) for p in centers]
        depths += [(-height, link.name) for height in heights if height < 0.0]
    if not depths:
        return []
    depth, name = max(depths)
    contacts = len(simulation.contact_names)
    return [
        f"{name} is {depth:.2g} m below the ground, which only {contacts} point{'s' * (contacts != 1)} can touch; "
        "--contacts auto lets the whole robot touch it"
    ]
