"""The view of a robot at rest: a slider for every coordinate, within its limits, and a configuration to copy."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.errors import RobotError, ShapeError
from condyle.multibody.robot import Robot
from condyle.robot.joints import Ball, Free, Prismatic
from condyle.robot.model import Link
from condyle.robot.parts import pose
from condyle.view.trajectory import link_poses, quaternions, snapshot
from condyle.view.window.objects import Environment, RobotNode
from condyle.view.window.panel import Panel, View, paragraph, short

FEW = 10  # sliders that need no folders
HALF_TURN = float(np.pi)
MAX_TURN = 4.0 * HALF_TURN  # of a slider
STEP = 1e-3  # of a slider
SEED = 1


@dataclass(frozen=True)
class Coordinate:
    """What one slider sets: an entry of q, or of a joint with a quaternion, an angle: 0, 1, 2 for roll, pitch, yaw."""

    number: int  # of the link among robot.reduced.links
    link: Link
    label: str
    low: float
    high: float
    entry: int
    angle: int | None = None

    def of(self, q: np.ndarray) -> float:
        """Its value at q."""
        return float(q[self.entry] if self.angle is None else self._angles(q)[self.angle])

    def set(self, q: np.ndarray, value: float) -> np.ndarray:
        """q with this value."""
        q = q.copy()
        if self.angle is None:
            q[self.entry] = value
        else:
            rpy = self._angles(q)
            rpy[self.angle] = value
            R = pose(rpy=tuple(float(angle) for angle in rpy)).R
            q[self.link.q.stop - 4 : self.link.q.stop] = quaternions(np.asarray(R, dtype=float)[None])[0]
        return q

    def shown(self, q: np.ndarray) -> float:
        """Its value at q as its slider shows it."""
        return float(np.clip(round(self.of(q), 3), *self.ends))

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of its slider in whole thousandths, inside the limits where there is room."""
        low, high = np.ceil(self.low / STEP - 1e-6) * STEP, np.floor(self.high / STEP + 1e-6) * STEP
        return (round(float(low), 3), round(float(high), 3)) if high - low > 2.0 * STEP else (self.low, self.high)

    def _angles(self, q: np.ndarray) -> np.ndarray:
        """Roll, pitch, yaw of R = Rz(yaw) Ry(pitch) Rx(roll)."""
        R = self.link.kind.pose(q[self.link.q]).R
        return np.array([np.arctan2(R[2, 1], R[2, 2]), -np.arcsin(np.clip(R[2, 0], -1.0, 1.0)), np.arctan2(R[1, 0], R[0, 0])])


class PoseView(View):
    """A robot in a window; `q` is what it shows."""

    def __init__(self, server: Any, panel: Panel, robot: Robot, *, q: Any = None, dark: bool = False) -> None:
        self.robot, self.node = robot, RobotNode(server, robot, "/robot")
        self.coordinates = coordinates(robot, self.node.size)
        self.q = within(robot, self.coordinates, robot.neutral() if q is None else np.asarray(q, dtype=float))
        self.first = self.q.copy()
        self._rng = np.random.default_rng(SEED)
        environment = Environment(server, *self.node.mesh.bounds(*link_poses(robot, self.q)), dark=dark)
        super().__init__(server, panel, [self.node], environment)
        tabs = panel.gui.add_tab_group()
        with tabs.add_tab("Pose"):
            self._build_sliders()
        with tabs.add_tab("Show"):
            self.add_layers("contacts", "pushes", "trail")
        with tabs.add_tab("About"):
            panel.about_robot(robot, self.node.warnings)

    def _build_sliders(self) -> None:
        panel, gui = self.panel, self.panel.gui
        panel.buttons("pose", {"reset": lambda: self.set(self.first.copy()), "random": self.random})
        self.text = gui.add_text("q", as_text(self.q), hint="copy it, or write another here")
        panel.linked(self.text, lambda text: self.set(from_text(self.robot, text), source=self.text))
        self.sliders: list[Any] = []
        folders = [self.coordinates] if len(self.coordinates) <= FEW else chains(self.robot, self.coordinates)
        for chain in folders:
            first, last = chain[0].link.joint if chain else "", chain[-1].link.joint if chain else ""
            name = short(first, 40) if first == last else f"{short(first, 24)} … {short(last, 24)}"
            expanded = len(self.coordinates) <= 2 * FEW
            with gui.add_folder(name, expand_by_default=expanded) if len(folders) > 1 else nullcontext():
                self.sliders += [self._slider(each, in_folder=len(folders) > 1) for each in chain]
        if not self.coordinates:
            gui.add_html(paragraph("this robot has no joint that moves"))

    def _slider(self, each: Coordinate, *, in_folder: bool) -> Any:
        label = short(each.label.removeprefix(f"{each.link.joint} ") if in_folder else each.label, 60)
        marks = tuple((end, f"{end:.4g}") for end in each.ends)
        slider = self.panel.gui.add_slider(label, *each.ends, STEP, each.shown(self.q), marks=marks)

        def moved(value: float) -> None:
            inside = float(np.clip(value, each.low, each.high))
            # a number written beside the slider may lie beyond its ends
            self.set(each.set(self.q, inside), source=slider if inside == value else None)

        return self.panel.linked(slider, moved)

    def set(self, q: np.ndarray, source: Any = None) -> None:
        """Show a configuration, in the inputs other than `source` too; one that cannot be is refused."""
        link_poses(self.robot, q)
        self.q = q
        self._changed = True
        if source is not self.text:
            self.text.value = as_text(q)
        for each, slider in zip(self.coordinates, self.sliders, strict=True):
            if slider is not source:
                slider.value = each.shown(q)

    def random(self) -> None:
        """Show a random configuration within the limits; the base stays."""
        q = self.q.copy()
        drawn = self.robot.random_configuration(self._rng)
        for link in self.robot.reduced.links:
            if not isinstance(link.kind, Free):
                q[link.q] = drawn[link.q]
        self.set(within(self.robot, self.coordinates, q))

    def draw(self, elapsed: float) -> bool:
        """Draw if something changed; whether more is to come."""
        if self._changed:
            self._changed = False
            with self._server.atomic():
                self.node.draw(snapshot(self.robot, self.q))
        return self._changed


def coordinates(robot: Robot, size: float) -> list[Coordinate]:
    """What the sliders of a robot set, in order; a range by its `size`, m, where the file has none."""
    found = []
    reach = float(np.ceil(max(2.0 * size, 0.5)))
    for i, link in enumerate(robot.reduced.links):
        entry = link.q.start
        if not isinstance(link.kind, Ball | Free):
            found.append(Coordinate(i, link, link.joint, *limits(link, reach), entry))
            continue
        if isinstance(link.kind, Free):
            found += [Coordinate(i, link, f"{link.joint} {axis}", -reach, reach, entry + k) for k, axis in enumerate("xyz")]
        for k, (name, far) in enumerate({"roll": HALF_TURN, "pitch": HALF_TURN / 2.0, "yaw": HALF_TURN}.items()):
            found.append(Coordinate(i, link, f"{link.joint} {name}", -far, far, entry, k))
    return found


def limits(link: Link, reach: float) -> tuple[float, float]:
    """The ends of a joint's slider: its limits, or `reach`, m, and half a turn about them."""
    far, most = (reach, 50.0 * reach) if isinstance(link.kind, Prismatic) else (HALF_TURN, MAX_TURN)
    low, high = (None if x is None or not np.isfinite(x) else float(x) for x in (link.limits.lower, link.limits.upper))
    # a limit on one side only leaves room on the other
    low = min(-far, high - far) if low is None and high is not None else -far if low is None else low
    high = max(far, low + far) if high is None else high
    low, high = (float(np.clip(x, -most, most)) for x in (low, high))
    return (low, high) if low < high else (min(low, most - STEP), min(low, most - STEP) + STEP)


def within(robot: Robot, found: Sequence[Coordinate], q: np.ndarray) -> np.ndarray:
    """q with its joints inside their sliders."""
    if q.shape != (robot.nq,):
        raise ShapeError(f"{robot.name}: q must have {robot.nq} entries, got shape {q.shape}")
    q = q.copy()
    for each in found:
        if not isinstance(each.link.kind, Ball | Free):
            q[each.entry] = np.clip(q[each.entry], each.low, each.high)
    return q


def chains(robot: Robot, found: Sequence[Coordinate]) -> list[list[Coordinate]]:
    """The coordinates in groups: a new one where a link is not the child of the one before; by tens with constraints."""
    tree = robot.coordinate_map.identity
    out: list[list[Coordinate]] = []
    for each in found:
        last = out[-1][-1] if out else None
        child = last is not None and each.link.parent == last.number and last.link.kind.nv == each.link.kind.nv
        if last is not None and (last.number == each.number or child if tree else len(out[-1]) < FEW):
            out[-1].append(each)
        else:
            out.append([each])
    # single joints share a group
    joined: list[list[Coordinate]] = []
    for chain in out:
        if joined and len(chain) == 1 and len(joined[-1]) < 4 and joined[-1][0].link.kind.nv == 1:
            joined[-1] += chain
        else:
            joined.append(chain)
    return joined


def as_text(q: np.ndarray) -> str:
    """q as Python reads it."""
    return "[" + ", ".join(f"{x + 0.0:.6g}" for x in q) + "]"


def from_text(robot: Robot, text: str) -> np.ndarray:
    """q from numbers with commas or spaces between them; quaternions are normalized."""
    try:
        q = np.array([float(word) for word in text.strip("[]() \n").replace(",", " ").split()])
    except ValueError:
        raise RobotError([f"q must be {robot.nq} numbers with commas between them, got {short(text, 60)!r}"]) from None
    if q.shape != (robot.nq,) or not np.all(np.isfinite(q)):
        raise RobotError([f"q of robot '{short(robot.name, 40)}' has {robot.nq} finite numbers, got {len(q)}"])
    for link in robot.reduced.links:
        if isinstance(link.kind, Ball | Free):
            quaternion = q[link.q.stop - 4 : link.q.stop]
            length = float(np.linalg.norm(quaternion))
            if length < 1e-6:
                raise RobotError([f"the quaternion of joint '{short(link.joint, 40)}' in q is zero: give it length one"])
            quaternion /= length
    return q
