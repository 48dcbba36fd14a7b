"""Films of the machines, with live numbers (needs the extra `plot`)."""

from __future__ import annotations

import os

import numpy as np

from condyle.demos import two_wheeled, wheeled_pendulum
from condyle.view.animate import animate_path, animate_wheeled_pendulum
from condyle.view.video import Progress

Path = str | os.PathLike[str]


def film_balancing(path: Path, done: wheeled_pendulum.Run, progress: Progress | None = None) -> None:
    """The pendulum from the side; forces are those of the step that begins at the time shown."""
    numbers = {
        "motor torque, N m": _to_the_end(done.torque),
        "normal force, N": _to_the_end(done.normal),
        "friction needed": _to_the_end(done.needed),
    }
    animate_wheeled_pendulum(path, done.t, done.q, numbers, progress=progress)


def film_driving(path: Path, done: two_wheeled.Run, progress: Progress | None = None) -> None:
    """The robot on two wheels from above."""
    left, right = (_to_the_end(done.forces[f"{motor}.normal"]) for motor in two_wheeled.MOTORS)
    numbers = {
        "left normal force, N": left,
        "right normal force, N": right,
        "pitch, mrad": 1e3 * done.motion.pitch,
    }
    animate_path(path, done.t, done.q, numbers, reference=done.plan.way.position, progress=progress)


def _to_the_end(values: np.ndarray) -> np.ndarray:
    """One more value, for the last time."""
    return np.append(values, values[-1])
