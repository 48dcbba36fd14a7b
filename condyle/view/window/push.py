"""Pushes while a simulation runs: for a moment by a button, or for as long as the mouse holds a link, as a spring pulls."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from condyle.multibody.robot import Robot
from condyle.robot.model import Frame
from condyle.simulate.simulation import Simulation
from condyle.view.trajectory import frame_positions

MOST_FRAMES = 48  # that a simulation takes wrenches at, one for each link
STRONGEST = 3.0  # the pull of the mouse, in weights of the robot
DAMPING = 0.5  # of the spring, as a part of the critical one


def pushable(robot: Robot) -> list[str]:
    """A frame of each link with a mass, for `Simulation(..., wrenches=pushable(robot))`; of many links, of the heaviest."""
    frames: dict[int, str] = {}
    for frame in robot.model.frames:
        if frame.link >= 0 and robot.model.links[frame.link].inertia.mass > 0.0:
            frames.setdefault(frame.link, frame.name)
    heavy = sorted(frames, key=lambda link: -float(robot.model.links[link].inertia.mass))[:MOST_FRAMES]
    return [frames[link] for link in sorted(heavy)]


@dataclass
class Hold:
    """The mouse has a link: `grip` is the point it holds, in the link's frame, and `target` where it pulls it, in the world."""

    link: int
    grip: np.ndarray
    target: np.ndarray
    last: np.ndarray | None = field(default=None)


class Pushes:
    """The wrenches of each step, (frames, 6), from what the user does; safe to use from several threads."""

    def __init__(self, simulation: Simulation, size: float) -> None:
        self.simulation, self.robot = simulation, simulation.robot
        frames = [self.robot.model.frame(name) for name in simulation.wrench_frames]
        self.frames: list[Frame] = frames
        self.by_link = {frame.link: k for k, frame in reversed(list(enumerate(frames)))}
        self.weight = simulation.weight
        # a pull over half the robot's size is as strong as its weight
        self.stiffness = self.weight / (0.5 * size)
        self._lock = threading.Lock()
        self._hold: Hold | None = None
        self._shove: tuple[int, np.ndarray, float] | None = None  # frame, force, seconds left

    def shove(self, frame: int, force: np.ndarray, seconds: float) -> None:
        """Push at a frame, by its number, with a force for some time."""
        with self._lock:
            self._shove = (frame, np.asarray(force, dtype=float), float(seconds))

    def hold(self, link: int, grip: np.ndarray, target: np.ndarray) -> None:
        """Pull a point of a link, given in its frame, towards a target in the world."""
        with self._lock:
            if self._hold is not None and self._hold.link == link and np.array_equal(self._hold.grip, grip):
                self._hold.target = np.asarray(target, dtype=float)
            else:
                self._hold = Hold(link, np.asarray(grip, dtype=float), np.asarray(target, dtype=float))

    def release(self) -> None:
        with self._lock:
            self._hold = self._shove = None

    @property
    def active(self) -> bool:
        return self._hold is not None or self._shove is not None

    def wrenches(self, poses: Any, dt: float) -> np.ndarray | None:
        """What acts during the next step of dt seconds; `poses()` gives (R, p) of the links and is asked only if needed."""
        if not self.frames:
            return None
        out = np.zeros((len(self.frames), 6))
        with self._lock:
            hold, shove = self._hold, self._shove
            if shove is not None:
                out[shove[0], :3] = shove[1]
                left = shove[2] - dt
                self._shove = (shove[0], shove[1], left) if left > 0.5 * dt else None
        if hold is not None and hold.link in self.by_link:
            k = self.by_link[hold.link]
            R, p = poses()
            point = R[hold.link] @ hold.grip + p[hold.link]
            force = self._pull(hold, point, dt)
            arm = point - frame_positions(self.robot, R, p, self.frames[k].name)
            out[k, :3] += force
            out[k, 3:] += np.cross(arm, force)
        return out

    def _pull(self, hold: Hold, point: np.ndarray, dt: float) -> np.ndarray:
        """The force of a damped spring from the point to the target, at most a few weights."""
        speed = np.zeros(3) if hold.last is None else (point - hold.last) / dt
        hold.last = point
        mass = float(self.robot.model.links[hold.link].inertia.mass)
        # a light link would be thrown about by the damping of a heavy robot
        damping = min(2.0 * DAMPING * np.sqrt(self.stiffness * self.robot.mass), 0.2 * mass / dt)
        force = self.stiffness * (hold.target - point) - damping * speed
        size = float(np.linalg.norm(force))
        most = STRONGEST * self.weight
        return np.asarray(force if size <= most else force * (most / size))
