"""Actions in simulation: PiDog stands, performs an action on the ground with all of its body, and is measured.

played = play("walk", cycles=3)
played.metrics.duty_factor, played.advances, played.run
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, repeat
from math import ceil, isfinite
from os import PathLike
from typing import Any

import numpy as np

from condyle.apps.pidog.actions import LEG_LIMIT, Action, action
from condyle.apps.pidog.gaits import frame_ticks, ticks
from condyle.apps.pidog.kinematics import FEET
from condyle.apps.pidog.metrics import GaitMetrics, contact_velocities, gait_metrics
from condyle.apps.pidog.plant import attitude, loop, standing_state, world
from condyle.apps.pidog.poses import pose_angles
from condyle.apps.pidog.servos import PERIOD, TICK
from condyle.apps.pidog.trajectories import SETTLING, commands
from condyle.errors import CondyleError
from condyle.robot.library.pidog import FOOT_FRICTION, FOOT_RADIUS
from condyle.workbench.runs.recorder import Recorder
from condyle.workbench.runs.run import Run

Array = np.ndarray
Progress = Callable[[str, int, int], object]

REST = 0.4  # s of standing before an action, and of rest after it
MOST_CYCLES = 1000
CHUNK = 512  # steps between two reports of progress


@dataclass(frozen=True)
class Sequence:
    """Angles of the twelve servos each 10 ms, (n, 12), degrees, and the ticks where cycles begin and the last one ends."""

    angles: Array
    cycle_ticks: tuple[int, ...]


def sequence(chosen: Action, *, speed: float | None = None, cycles: int | None = None) -> Sequence:
    """What the servos are commanded: standing, `enter`, the cycles, `leave`, and rest; gaits end standing."""
    speed, cycles = chosen.speed if speed is None else speed, chosen.cycles if cycles is None else cycles
    if not isfinite(speed) or not 0.0 <= speed <= 100.0:
        raise CondyleError(f"speed must be from 0 to 100, got {speed!r:.40}")
    if not 1 <= cycles <= MOST_CYCLES:
        raise CondyleError(f"cycles must be from 1 to {MOST_CYCLES}, got {cycles}")
    stand, still = pose_angles(), round(REST / TICK)
    # a frame of a pose leads from one to the next at a moderate speed
    legs = [*repeat(stand, still), *ticks(chosen.enter, SETTLING, stand)]
    marks = []
    for _ in range(cycles):
        # a cycle ends with its last frame, from which it begins again; the way into the first one is not of it
        before = legs[-1]
        first = frame_ticks(chosen.legs[-1], chosen.legs[0], speed)
        marks.append(len(legs) + frame_ticks(before, chosen.legs[0], speed) - first)
        legs += ticks(chosen.legs, speed, before)
    head_frames, tail_frames = np.tile(chosen.head, (cycles, 1)), np.tile(chosen.tail, (cycles, 1))
    begin = marks[0] if chosen.gait else still + (len(chosen.enter) and len(list(ticks(chosen.enter, SETTLING, stand))))
    head = list(ticks(head_frames, chosen.head_speed, np.zeros(3), "head"))
    tail = list(ticks(tail_frames, chosen.tail_speed, np.zeros(1), "tail"))
    if len(chosen.legs) == 1:  # only head or tail move: stand as long as they do
        legs += repeat(legs[-1], max(begin + max(len(head), len(tail)) - len(legs), 0))
    end = len(legs)
    # head and tail repeat their frames while the legs move
    head, tail = (
        list(islice(chain(mine, chain.from_iterable(_again(frames, at, part))), max(end - begin, 0)))
        for mine, frames, at, part in (
            (head, chosen.head, chosen.head_speed, "head"),
            (tail, chosen.tail, chosen.tail_speed, "tail"),
        )
    )
    legs += ticks(chosen.leave, SETTLING, legs[-1])
    if chosen.gait:
        legs += ticks([stand], SETTLING, legs[-1])
    legs += repeat(legs[-1], still)
    angles = np.zeros((len(legs), 12))
    # no pulse is for more than 90 degrees; lifted hind legs of the table's backward walk would need 112
    angles[:, :8] = np.clip(legs, -LEG_LIMIT, LEG_LIMIT)
    for columns, part in ((slice(8, 11), head), (slice(11, 12), tail)):
        if part:
            angles[begin : begin + len(part), columns] = part
            last = part[-1] if not chosen.gait else np.zeros(len(part[-1]))
            angles[begin + len(part) :, columns] = last
    return Sequence(angles, (*marks, end))


def _again(frames: Array, speed: float, part: str) -> Iterator[Iterator[Array]]:
    """The ticks of frames, without end; nothing without frames."""
    while len(frames):
        yield ticks(frames, speed, frames[-1], part)


@dataclass(frozen=True)
class Played:
    """A recorded action, when its cycles began and ended (s), and how it was performed."""

    action: Action
    run: Run
    cycle_times: tuple[float, ...]
    friction: float

    @cached_property
    def rows(self) -> slice:
        """The states that are measured: of a gait its cycles, without the first one if there are more; else all."""
        if not self.action.gait:
            return slice(0, self.run.steps + 1)
        first = self.cycle_times[min(1, len(self.cycle_times) - 2)]
        return slice(round(first / self.run.dt), round(self.cycle_times[-1] / self.run.dt) + 1)

    @cached_property
    def foot_positions(self) -> Array:
        """Centres of the feet at every state, (steps + 1, 4, 3), m."""
        return np.stack([self.run.robot.frame_pose(self.run.q, foot)[1] for foot in FEET], axis=1)

    @cached_property
    def forces(self) -> Array:
        """Forces of the ground on the feet, that led to each state, (steps + 1, 4, 3), N."""
        forces = self.run.contact_forces[:, :4]
        return np.concatenate([forces[:1], forces])

    @cached_property
    def body_forces(self) -> Array:
        """Forces of the ground on torso and head, (steps + 1, n, 3), N."""
        names = self.run.simulation.contact_names
        of_body = [k for k, name in enumerate(names) if name.startswith(("torso", "head"))]
        forces = self.run.contact_forces[:, of_body]
        return np.concatenate([forces[:1], forces])

    @cached_property
    def metrics(self) -> GaitMetrics:
        """The gait metrics of what is measured."""
        run, rows = self.run, self.rows
        q, v = run.q[rows], run.v[rows]
        twists = np.stack([np.sum(run.robot.jacobian(q, foot) * v[:, None, :], axis=-1) for foot in FEET], axis=1)
        u = np.concatenate([run.u[:1], run.u])[rows]
        damping = np.array([joint.damping for joint in run.simulation.joint_forces[6:]])
        return gait_metrics(
            run.dt,
            self.foot_positions[rows],
            self.forces[rows],
            q[:, :3],
            run.robot.frame_pose(q, "torso")[0],
            mass=run.robot.mass,
            slip_velocities=contact_velocities(twists[..., :3], twists[..., 3:], FOOT_RADIUS),
            # what the motors give: the damping is that of their speed limit
            torques=u - damping * v[:, 6:],
            joint_velocities=v[:, 6:],
            com=run.robot.center_of_mass(q),
            body_forces=None if self.action.lies else self.body_forces[rows],
            foot_radius=FOOT_RADIUS,
        )

    @cached_property
    def advances(self) -> Array:
        """Displacement along the heading in each cycle, m."""
        yaw, p = self._at_cycles()
        step = np.diff(p, axis=0)
        found: Array = step[:, 0] * np.cos(yaw[:-1]) + step[:, 1] * np.sin(yaw[:-1])
        return found

    @cached_property
    def turns(self) -> Array:
        """Change of heading in each cycle, rad."""
        return np.diff(self._at_cycles()[0])

    def _at_cycles(self) -> tuple[Array, Array]:
        at = [min(round(t / self.run.dt), self.run.steps) for t in self.cycle_times]
        return np.unwrap(attitude(self.run.q)[:, 2])[at], self.run.q[at, :2]

    @property
    def fell(self) -> bool:
        """Whether it fell at any time: tilted by more than 57 degrees, or a gait that touched the ground with torso or head."""
        up = self.run.robot.frame_pose(self.run.q, "torso")[0][:, 2, 2]
        weight = self.run.robot.mass * 9.81
        touched = not self.action.lies and bool(np.any(self.body_forces[..., 2] > 0.05 * weight))
        return touched or bool(np.min(up) < np.cos(1.0))

    @property
    def first_fall(self) -> float | None:
        """When it fell, s; None if it did not."""
        up = self.run.robot.frame_pose(self.run.q, "torso")[0][:, 2, 2] < np.cos(1.0)
        if not self.action.lies:
            up |= np.any(self.body_forces[..., 2] > 0.05 * self.run.robot.mass * 9.81, axis=-1)
        return float(np.argmax(up)) * self.run.dt if np.any(up) else None


def silent(what: str, done: int, total: int) -> None:
    """Progress that nobody sees."""


def play(
    name: str | Action,
    *,
    speed: float | None = None,
    cycles: int | None = None,
    friction: float = FOOT_FRICTION,
    path: str | PathLike[str] | None = None,
    overwrite: bool = True,
    progress: Progress = silent,
    stopped: Callable[[], bool] = lambda: False,
) -> Played:
    """An action, simulated with contact of the whole body and recorded, also in a file."""
    chosen = action(name) if isinstance(name, str) else name
    if not isfinite(friction) or friction < 0.0:
        raise CondyleError(f"friction must be a number from 0 up, got {friction!r:.40}")
    planned = sequence(chosen, speed=speed, cycles=cycles)
    here = world("auto")
    x0 = standing_state(here)
    closed = loop(here, x0)
    every = round(PERIOD / here.dt)
    steps = ceil(len(planned.angles) * TICK / PERIOD) * every
    angles = chain(planned.angles, repeat(planned.angles[-1]))
    references = np.array(list(islice(commands(here, angles), steps)))
    about = {
        "action": chosen.name,
        "speed": chosen.speed if speed is None else speed,
        "cycles": len(planned.cycle_ticks) - 1,
        "friction": friction,
    }
    named: dict[str, Any] = {"title": f"PiDog: {chosen.name}", "controller": chosen.name, "about": about}
    parameters = {"ground.friction": friction}
    with Recorder(closed, closed.state(here.split(x0)[0]), path, parameters=parameters, overwrite=overwrite, **named) as recorder:
        for first in range(0, steps, CHUNK):
            if stopped():
                break
            progress(chosen.name, first, steps)
            count = min(CHUNK, steps - first)
            recorder.rollout({"reference": references[first : first + count]}, count)
        run = recorder.finish()
    return Played(chosen, run, tuple(tick * TICK for tick in planned.cycle_ticks), friction)
