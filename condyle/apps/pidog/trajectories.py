"""References of PiDog's servos in time: standing, and the manufacturer's gaits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, count, islice, repeat
from typing import Any

import numpy as np

from condyle.apps.pidog.gaits import frame_ticks, gait_frames, ticks
from condyle.apps.pidog.plant import leg_positions
from condyle.apps.pidog.poses import pose_angles
from condyle.apps.pidog.servos import PERIOD, SERVOS, TICK, quantized
from condyle.simulate.simulation import Simulation

Array = np.ndarray

REST = 0.8  # s of standing before it walks
SPEED, CYCLES = 98.0, 2  # the manufacturer's examples walk at 98
SETTLING = 60.0  # the speed at which it goes back to standing


def commands(simulation: Simulation, angles: Iterator[Array]) -> Iterator[Array]:
    """The reference of every step, (12,), rad, from angles of every 10 ms, degrees, of which every second one is sent.

    Eight angles are those of the legs; the servos of head and tail hold zero then.
    """
    # a pulse carries the latest angles
    sent = islice(angles, 0, None, round(PERIOD / TICK))
    number, pulse = -1, np.zeros(len(SERVOS))
    for k in count():
        while number < int(k * simulation.dt / PERIOD + 1e-9):
            number += 1
            given = next(sent)
            pulse = np.radians(quantized(np.concatenate([given, np.zeros(len(SERVOS) - len(given))])))
        yield pulse


def standing(simulation: Simulation, x0: Any, pose: str = "stand", *, speed: float = SETTLING) -> Iterator[Array]:
    """The references that move to a pose, from where the joints are in x0, and stay."""
    wanted = pose_angles(pose)
    return commands(simulation, chain(ticks([wanted], speed, leg_positions(simulation, x0)), repeat(wanted)))


def walking(
    simulation: Simulation,
    x0: Any,
    gait: str = "walk",
    speed: float = SPEED,
    *,
    rest: float = REST,
    cycles: int | None = None,
    forward: bool = True,
    turn: str = "",
) -> Iterator[Array]:
    """The references that stand for `rest` seconds, then walk: `cycles` times, after which they stand, or without end."""
    stand = pose_angles()
    cycle = gait_frames(gait, 1, forward=forward, turn=turn)
    frame_ticks(stand, stand, speed)  # an impossible speed is an error now
    begin = ticks([stand], SETTLING, leg_positions(simulation, x0))
    still = repeat(stand, max(round(rest / TICK) - frame_ticks(leg_positions(simulation, x0), stand, SETTLING), 0))
    cycles_ = repeat(cycle) if cycles is None else repeat(cycle, cycles)
    frames = (frame for one in cycles_ for frame in one)
    steps = ticks(frames, speed, stand)
    end = chain(ticks([stand], SETTLING, cycle[-1]), repeat(stand))
    return commands(simulation, chain(begin, still, steps, end))


def timetable(speed: float = SPEED, cycles: int = CYCLES, rest: float = REST) -> list[float]:
    """When the command of each cycle begins, and when that of the last one ends, s; the first frame of the first cycle is
    reached from standing before that."""
    cycle = gait_frames("walk", 1)
    into = frame_ticks(pose_angles(), cycle[0], speed)
    once = [frame_ticks(before, after, speed) for before, after in zip(np.roll(cycle, 1, axis=0), cycle, strict=True)]
    return [rest + TICK * (into - once[0] + n * sum(once)) for n in range(cycles + 1)]
