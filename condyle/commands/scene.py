"""The robot and its world as given on a command line: where the robot is loaded from, its ground, contacts and initial pose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from condyle.commands.hints import shell_command
from condyle.errors import RobotError, SimulationError
from condyle.multibody.robot import Robot, load
from condyle.robot import library
from condyle.robot.joints import Free, Prismatic
from condyle.robot.model import Link, Model
from condyle.robot.names import nearest
from condyle.simulate.build import ground_of_file
from condyle.simulate.points import ContactPoint, point_on
from condyle.simulate.simulation import Simulation
from condyle.simulate.standing import chosen_configuration, standing_configuration
from condyle.simulate.terrain import Ground, Plane, Slope
from condyle.simulate.validate import finite

# ---- where a robot comes from


@dataclass(frozen=True)
class Origin:
    """Where a robot comes from: the arguments of `condyle.load` as options of a command, and the joints to lock afterwards."""

    source: str
    base: str | None = None
    package_dirs: Sequence[str] | None = None
    arguments: Sequence[str] | None = None  # of xacro, name:=value as in ROS
    lock: Sequence[str] | None = None
    strict: bool = False

    @property
    def reader_options(self) -> dict[str, Any]:
        """The options that reading a file takes: `package_dirs` and `xacro_args`."""
        pairs = [text.partition(":=") for text in self.arguments or ()]
        for name, separator, value in pairs:
            if not separator or not name:
                raise RobotError([f"--arg {name + separator + value!r}: write it as name:=value, as in --arg hand:=true"])
        return {"package_dirs": self.package_dirs or (), "xacro_args": {name: value for name, _, value in pairs}}

    def load(self, *, constraints: bool = True) -> Robot:
        """The robot; `constraints` as in `condyle.load`."""
        check_source(self.source)
        robot = load(self.source, self.base, **self.reader_options, strict=self.strict, constraints=constraints)
        return robot.lock(self.lock) if self.lock else robot


def is_run(target: str) -> bool:
    """Whether this is a file that begins as a run does."""
    from condyle.workbench.runs.file import MAGIC

    try:
        with Path(target).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        return False


def check_source(source: str) -> None:
    """RobotError if a run or a folder is given in place of a robot."""
    path = Path(source)
    if is_run(source):
        raise RobotError(
            [f"{source} is a run, not a robot: view, plot and replay show it, as in {shell_command('view', source)}"]
        )
    if library.meant(source) in library.ROBOTS or not path.is_dir():
        return
    inside = sorted(p.name for p in path.iterdir() if p.suffix in (".urdf", ".xacro"))[:1]
    raise RobotError([f"{source} is a folder, not a robot: give a file" + (f", as {path / inside[0]}" if inside else " in it")])


# ---- its world


@dataclass(frozen=True)
class Scene:
    """A robot and the options of its world."""

    origin: Origin
    dt: float | None = None  # s; that of the file, else 0.002
    ground: str | None = None
    friction: float = 0.8
    contacts: Sequence[str] | None = None
    integrator: str = "semi_implicit_euler"

    def simulation(self, **options: Any) -> Simulation:
        """The simulation; by default a moving base has a plane below it, and contacts are "auto", as in Python."""
        robot = self.origin.load()
        text = self.ground or ("plane" if robot.model.base_coordinates else "none")
        under = ground(text, self.friction)
        if self.ground is None and (written := ground_of_file(robot)) is not None:
            under = written if self.friction == Scene.friction else replace(written, friction=self.friction)
        if under is None and self.contacts:
            raise SimulationError("there are --contacts but no ground to touch: add --ground plane")
        points = None if under is None or not self.contacts else contacts(robot.model, self.contacts)
        return Simulation(robot, self.dt, under, points, integrator=self.integrator, **options)


def ground(text: str, friction: float = 0.8) -> Ground | None:
    """The ground that `text` names: plane, none, or slope:DEGREES."""
    kind, _, number = text.partition(":")
    if text == "none":
        return None
    if text == "plane":
        return Plane(friction)
    try:
        if kind == "slope":
            return Slope(float(number), friction=friction)
    except ValueError as error:
        if isinstance(error, SimulationError):
            raise
    raise SimulationError(f"--ground must be plane, none or slope:DEGREES, as in slope:10; got {text!r:.40}")


def contacts(model: Model, texts: Sequence[str]) -> str | list[str | ContactPoint]:
    """Contacts from texts: a word or name as in Python, or FRAME:RADIUS, FRAME:X,Y,Z or FRAME:X,Y,Z,RADIUS in m."""
    found: list[str | ContactPoint] = []
    for text in texts:
        name, _, written = text.rpartition(":")
        try:
            numbers = [float(number) for number in written.split(",")] if name else []
        except ValueError:
            numbers = []
        if len(numbers) in (1, 3, 4):
            radius = 0.0 if len(numbers) == 3 else numbers[-1]
            found.append(point_on(model, name, numbers[:3] if len(numbers) > 1 else (0.0, 0.0, 0.0), radius, name=name))
        else:
            found.append(text)
    return "none" if found == ["none"] else found


# ---- the initial pose


def initial_configuration(robot: Robot, texts: Sequence[str], pose: np.ndarray | None = None) -> np.ndarray:
    """q from texts NAME=VALUE, where NAME may contain * wildcards; other joints are as in `pose`, by default at zero or at the
    limit nearest to it."""
    q, joints = chosen_configuration(robot, pose).copy(), joint_indices(robot)
    spans = {link.joint: limits(link) for link in robot.reduced.links}
    for text in texts:
        name, _, value = text.partition("=")
        found = {joint: i for joint, i in joints.items() if fnmatchcase(joint, name)}
        if not found:
            raise SimulationError(f"--joint {text}: robot '{robot.name}' has no joint '{name}'{nearest(name, list(joints))}")
        try:
            number = finite("--joint", name, float(value))
        except ValueError:
            raise SimulationError(f"--joint {text}: write NAME=VALUE with a number, as in --joint {name}=0.5") from None
        for joint, i in found.items():
            low, high = spans[joint]
            q[i] = number
            if not low <= number <= high:
                bounds = f"give a value from {low:.6g} to {high:.6g}"
                raise SimulationError(f"--joint {text}: {number:g} is beyond the limits of '{joint}': {bounds}")
    return q


def joint_indices(robot: Robot) -> dict[str, int]:
    """Index in q of each independent joint with one coordinate that is not part of the base."""
    return {link.joint: link.q.start for link in robot.reduced.links if link.kind.nv == 1 and not link.base}


def limits(link: Link) -> tuple[float, float]:
    """Lower and upper limit of a joint, infinite where it has none."""
    low, high = link.limits.lower, link.limits.upper
    return -inf if low is None else low, inf if high is None else high


def place_on_ground(simulation: Simulation, q: np.ndarray, height: float) -> np.ndarray:
    """q standing on the ground as `Simulation.stand` has it, or `height` above it, where there are ground and a moving base."""
    if height_index(simulation.robot) is None or simulation.ground is None:
        return q
    return standing_configuration(simulation, q, height)


def height_index(robot: Robot) -> int | None:
    """Index in q of the base's height; None if the base cannot be lifted."""
    first = robot.reduced.links[0]
    if isinstance(first.kind, Free):
        return int(first.q.start) + 2
    vertical = robot.reduced.base_link("z")
    return None if vertical is None else int(robot.reduced.links[vertical].q.start)


def base_frame(robot: Robot) -> str:
    """The frame of the link that the base moves, of the largest of several bodies, or of the first link that moves at all."""
    return base_frames(robot)[0]


def base_frames(robot: Robot) -> list[str]:
    """The frame of each body that moves freely, the one that carries the most links first."""
    last, size = dict[int, int](), dict[int, int]()
    roots: list[int] = []
    for i, link in robot.model.outward():
        roots.append(i if link.parent < 0 else roots[link.parent])
        size[roots[i]] = size.get(roots[i], 0) + 1
        if link.base:
            last[roots[i]] = i
    chosen = [last[root] for root in sorted(last, key=lambda root: -size[root])] or [0]
    return [next(frame.name for frame in robot.model.frames if frame.link == i) for i in chosen]


def push_frame(robot: Robot) -> str | None:
    """The frame that a push acts on: the base, or the tip of an arm; None if a push on neither would move anything."""
    links = robot.model.links
    if robot.model.base_coordinates or isinstance(links[0].kind, Prismatic):
        return base_frame(robot)
    if any(link.parent != i - 1 for i, link in enumerate(links)):
        return None
    frames = [frame for frame in robot.model.frames if frame.link == len(links) - 1]
    tip = max(frames, key=lambda frame: float(np.linalg.norm(frame.pose.p)))
    return tip.name if len(links) > 1 or np.linalg.norm(tip.pose.p) > 0.0 else None
