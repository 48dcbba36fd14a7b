"""A robot that stands still: a slider for every coordinate, within its limits, and a configuration to copy."""

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
from condyle.robot.spatial import Pose
from condyle.view.geometry import bounds
from condyle.view.trajectory import link_poses, mass_center, quaternions
from condyle.view.window.body import Body
from condyle.view.window.marks import Marks, Moment
from condyle.view.window.panel import POSED, Panel, Show
from condyle.view.window.stage import Stage
from condyle.view.window.text import paragraphs, short, table

FEW = 10  # sliders that need no folders
TURN = float(np.pi)
MOST_TURN = 4.0 * TURN  # a slider is no use beyond
STEP = 1e-3
SEED = 1


@dataclass(frozen=True)
class Dial:
    """One slider: entry `index` of q, or for joints with a quaternion, number `index` of (x, y, z, roll, pitch, yaw)."""

    link: int  # of the chart
    index: int
    label: str
    low: float
    high: float


class PoseView:
    """A window on a robot; `q` is what it shows."""

    def __init__(self, server: Any, panel: Panel, robot: Robot, *, q: Any = None, dark: bool = False) -> None:
        self.robot, self.panel, self._server = robot, panel, server
        self.body = Body(server, robot, "/robot")
        self.marks = Marks(server, "/robot", self.body.size, 1.0)
        self.dials = dials(robot, self.body.size)
        self.q = within(robot, self.dials, robot.neutral() if q is None else np.asarray(q, dtype=float))
        self.first = self.q.copy()
        self._rng = np.random.default_rng(SEED)
        R, p = link_poses(robot, self.q)
        self.stage = Stage(server, *bounds(self.body.looks, R, p), dark=dark)
        self._dirty = True
        self._build()

    # ---- the panel

    def _build(self) -> None:
        gui, does = self.panel.gui, self.panel.does
        tabs = gui.add_tab_group()
        with tabs.add_tab("Pose"):
            buttons = gui.add_button_group("pose", ("reset", "random"))
            buttons.on_click(does(lambda: self.reset() if buttons.value == "reset" else self.random()))
            self.text = gui.add_text("q", as_text(self.q), hint="copy it, or write another here")
            self.text.on_update(does(self._written))
            self.sliders = [self._slider(dial) for dial in self._folders()]
            if not self.dials:
                gui.add_html(paragraphs(["this robot has no joint that moves"]))
        with tabs.add_tab("Show"):
            self.show = Show(self.panel, self.stage, [self.body], [self.marks], POSED)
        with tabs.add_tab("About"):
            gui.add_html(table(about(self.robot)))
            notes = [*self.robot.report, *self.body.notes]
            if notes:
                with gui.add_folder(f"notes ({len(notes)})"):
                    gui.add_html(paragraphs(notes[:50], small=True))

    def _folders(self) -> Sequence[Dial]:
        """The dials, after a folder is made for each chain of joints, if there are many."""
        self._folder: dict[int, Any] = {}
        chains = [self.dials] if len(self.dials) <= FEW else chained(self.robot, self.dials)
        for chain in chains:
            first, last = (self.robot.reduced.links[dial.link].joint for dial in (chain[0], chain[-1]))
            name = short(first, 40) if first == last else f"{short(first, 24)} … {short(last, 24)}"
            folder = self.panel.gui.add_folder(name, expand_by_default=len(self.dials) <= 2 * FEW) if len(chains) > 1 else None
            for dial in chain:
                self._folder[id(dial)] = folder
        return self.dials

    def _slider(self, dial: Dial) -> Any:
        low, high = rounded(dial.low, dial.high)
        value = float(np.clip(round(read(self.robot, self.q, dial), 3), low, high))
        folder, link = self._folder[id(dial)], self.robot.reduced.links[dial.link]
        with folder or nullcontext():
            ends = tuple((end, f"{end:.4g}") for end in (low, high))
            label = short(dial.label if folder is None else dial.label.removeprefix(f"{link.joint} "), 60)
            slider = self.panel.gui.add_slider(label, low, high, STEP, value, marks=ends)

        def moved() -> None:
            value = float(np.clip(slider.value, dial.low, dial.high))
            # a number written beside the slider may lie beyond its ends
            self.set(write(self.robot, self.q, dial, value), but=slider if value == slider.value else None)

        slider.on_update(self.panel.does(moved))
        return slider

    def _written(self) -> None:
        self.set(from_text(self.robot, self.text.value), but=self.text)

    # ---- what is shown

    def set(self, q: np.ndarray, but: Any = None) -> None:
        """Show a configuration, in the sliders too; one that cannot be is refused, and the sliders go back."""
        link_poses(self.robot, q)
        self.q = q
        self._dirty = True
        if but is not self.text:
            self.text.value = as_text(q)
        for dial, slider in zip(self.dials, self.sliders, strict=True):
            if slider is not but:
                slider.value = float(np.clip(round(read(self.robot, q, dial), 3), *rounded(dial.low, dial.high)))

    def reset(self) -> None:
        self.set(self.first.copy())

    def random(self) -> None:
        """A configuration within the limits; the base stays."""
        q = self.q.copy()
        drawn = self.robot.random_configuration(self._rng)
        for link in self.robot.reduced.links:
            if not isinstance(link.kind, Free):
                q[link.q] = drawn[link.q]
        self.set(within(self.robot, self.dials, q))

    def beat(self, elapsed: float) -> bool:
        """Draw if something changed."""
        if self._dirty:
            self._dirty = False
            R, p = link_poses(self.robot, self.q)
            with self._server.atomic():
                self.body.place(R, p)
                self.marks.draw(Moment(R, p, mass_center(self.robot, self.q)))
        return self._dirty


# -- coordinates and sliders


def dials(robot: Robot, size: float) -> list[Dial]:
    """A slider for each coordinate that remains, in order; a fixed range where the file has none."""
    found = []
    reach = float(np.ceil(max(2.0 * size, 0.5)))
    for i, link in enumerate(robot.reduced.links):
        if isinstance(link.kind, Ball | Free):
            ways = ("roll", "pitch", "yaw") if isinstance(link.kind, Ball) else ("x", "y", "z", "roll", "pitch", "yaw")
            first = 6 - len(ways)
            for k, way in enumerate(ways, first):
                far = reach if k < 3 else TURN / 2.0 if way == "pitch" else TURN
                found.append(Dial(i, k, f"{link.joint} {way}", -far, far))
        else:
            low, high = limits(link, reach)
            found.append(Dial(i, int(link.q.start), link.joint, low, high))
    return found


def limits(link: Link, reach: float) -> tuple[float, float]:
    """Where a slider of this joint begins and ends."""
    far, most = (reach, 50.0 * reach) if isinstance(link.kind, Prismatic) else (TURN, MOST_TURN)
    low, high = (None if x is None or not np.isfinite(x) else float(x) for x in (link.limits.lower, link.limits.upper))
    # a limit on one side only leaves room on the other
    low = min(-far, high - far) if low is None and high is not None else -far if low is None else low
    high = max(far, low + far) if high is None else high
    low, high = (float(np.clip(x, -most, most)) for x in (low, high))
    return (low, high) if low < high else (min(low, most - STEP), min(low, most - STEP) + STEP)


def rounded(low: float, high: float) -> tuple[float, float]:
    """The ends of a slider in whole thousandths, inside the limits where there is room."""
    inner = float(np.ceil(low / STEP - 1e-6) * STEP), float(np.floor(high / STEP + 1e-6) * STEP)
    return (round(inner[0], 3), round(inner[1], 3)) if inner[1] - inner[0] > 2.0 * STEP else (low, high)


def read(robot: Robot, q: np.ndarray, dial: Dial) -> float:
    """The value of a slider at q."""
    link = robot.reduced.links[dial.link]
    if not isinstance(link.kind, Ball | Free):
        return float(q[dial.index])
    if dial.index < 3:
        return float(q[link.q.start + dial.index])
    return float(angles(link.kind.pose(q[link.q]).R)[dial.index - 3])


def write(robot: Robot, q: np.ndarray, dial: Dial, value: float) -> np.ndarray:
    """q with one slider at a value."""
    link, q = robot.reduced.links[dial.link], q.copy()
    if not isinstance(link.kind, Ball | Free):
        q[dial.index] = value
    elif dial.index < 3:
        q[link.q.start + dial.index] = value
    else:
        turns = angles(link.kind.pose(q[link.q]).R)
        turns[dial.index - 3] = value
        q[link.q.stop - 4 : link.q.stop] = quaternions(rotation(*turns)[None])[0]
    return q


def within(robot: Robot, found: Sequence[Dial], q: np.ndarray) -> np.ndarray:
    """q with its joints inside their sliders."""
    if q.shape != (robot.nq,):
        raise ShapeError(f"{robot.name}: q must have {robot.nq} entries, got shape {q.shape}")
    q = q.copy()
    for dial in found:
        if not isinstance(robot.reduced.links[dial.link].kind, Ball | Free):
            q[dial.index] = np.clip(q[dial.index], dial.low, dial.high)
    return q


def chained(robot: Robot, found: Sequence[Dial]) -> list[list[Dial]]:
    """The dials in folders: a new one where a link does not hang on the one before; of a chart without a tree, by tens."""
    links = robot.reduced.links
    tree = robot.coordinate_map is None
    chains: list[list[Dial]] = []
    for dial in found:
        link, before = links[dial.link], chains[-1][-1] if chains else None
        follows = before is not None and (
            before.link == dial.link or (link.parent == before.link and links[before.link].kind.nv == link.kind.nv)
        )
        if before is not None and (follows if tree else len(chains[-1]) < FEW):
            chains[-1].append(dial)
        else:
            chains.append([dial])
    # a joint alone needs no folder of its own: it goes with the one before, if that is alone too
    joined: list[list[Dial]] = []
    for chain in chains:
        if joined and len(chain) == 1 and len(joined[-1]) < 4 and links[joined[-1][0].link].kind.nv == 1:
            joined[-1] += chain
        else:
            joined.append(chain)
    return joined


def angles(R: Any) -> np.ndarray:
    """Roll, pitch, yaw of R = Rz(yaw) Ry(pitch) Rx(roll)."""
    return np.array([np.arctan2(R[2, 1], R[2, 2]), -np.arcsin(np.clip(R[2, 0], -1.0, 1.0)), np.arctan2(R[1, 0], R[0, 0])])


def rotation(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """R = Rz(yaw) Ry(pitch) Rx(roll)."""
    from condyle.robot.parts import pose

    found: Pose = pose((0.0, 0.0, 0.0), (float(roll), float(pitch), float(yaw)))
    return np.asarray(found.R, dtype=float)


def as_text(q: np.ndarray) -> str:
    """q as Python reads it."""
    return "[" + ", ".join(f"{x + 0.0:.6g}" for x in q) + "]"


def from_text(robot: Robot, text: str) -> np.ndarray:
    """q from numbers with commas or spaces between them; a quaternion is given length one."""
    try:
        q = np.array([float(word) for word in text.strip("[]() \n").replace(",", " ").split()])
    except ValueError:
        raise RobotError([f"q must be {robot.nq} numbers with commas between them, got {short(text, 60)!r}"]) from None
    if q.shape != (robot.nq,) or not np.all(np.isfinite(q)):
        raise RobotError([f"q of robot '{short(robot.name, 40)}' has {robot.nq} finite numbers, got {len(q)}"])
    for link in robot.reduced.links:
        if isinstance(link.kind, Ball | Free):
            turn = q[link.q.stop - 4 : link.q.stop]
            length = float(np.linalg.norm(turn))
            if length < 1e-6:
                raise RobotError([f"the quaternion of joint '{short(link.joint, 40)}' in q is zero: give it length one"])
            turn /= length
    return q


def about(robot: Robot) -> list[tuple[object, object]]:
    """Rows of facts about a robot."""
    gravity = " ".join(f"{x:g}" for x in robot.model.gravity)
    tied = "" if robot.coordinate_map is None else f" of {robot.model.nv}"
    return [
        ("robot", robot.name),
        ("mass", f"{robot.mass:.6g} kg"),
        ("links that move", len(robot.model.links)),
        ("coordinates", f"nq {robot.nq}, nv {robot.nv}{tied}"),
        ("frames", len(robot.model.frames)),
        ("gravity", f"{gravity} m/s²"),
    ]
