"""Warnings about a simulation: what its robot's file asks and it does not do, and numbers that are unusual."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING
from weakref import WeakSet

import numpy as np

from condyle.errors import CondyleWarning
from condyle.multibody.robot import Robot
from condyle.robot.joints import Prismatic
from condyle.robot.model import Model
from condyle.robot.report import not_simulated

if TYPE_CHECKING:
    from condyle.simulate.simulation import Simulation

LONG_STEP = 0.05  # s
FAR, FAR_SLIDE = 0.1, 0.01  # rad, m: beyond a joint limit
WARNED: WeakSet[Robot] = WeakSet()  # of what their files ask
WARNED_OF_LIMITS: WeakSet[Simulation] = WeakSet()


def long_step(dt: float) -> list[str]:
    """A sentence about a time step that is very long."""
    return [f"a time step of {dt:g} s is too long for most motions; 0.002 s is usual"] if dt > LONG_STEP else []


def warn_of_simulation(simulation: Simulation) -> None:
    """Warn of a long time step and, once for each robot, of what its file asks and the simulation does not do."""
    for sentence in long_step(simulation.dt):
        warn(sentence)
    robot = simulation.robot
    asked = not_simulated(robot.model.notes)
    if asked and robot not in WARNED:
        WARNED.add(robot)
        warn("\n  ".join([f"robot '{robot.name}': its file asks for what a simulation does not do (robot.report)", *asked]))


def warn_of_limits(simulation: Simulation, q: np.ndarray) -> None:
    """Warn, once for each simulation, of a state with a joint far beyond its limits."""
    if (
        simulation not in WARNED_OF_LIMITS
        and simulation.config.limits
        and (sentence := beyond_limits(simulation.robot.reduced, q))
    ):
        WARNED_OF_LIMITS.add(simulation)
        warn(sentence)


def beyond_limits(reduced: Model, q: np.ndarray) -> str:
    """A sentence about the joint of a configuration, or a batch, that is farthest beyond its limits; "" for none far beyond."""
    worst, sentence = 1.0, ""
    for link in reduced.links:
        low, high = link.limits.lower, link.limits.upper
        if link.kind.nv != 1 or (low is None and high is None):
            continue
        place = q[..., link.q.start]
        beyond = np.maximum(place - np.inf if low is None else low - place, place - np.inf if high is None else place - high)
        far = FAR_SLIDE if isinstance(link.kind, Prismatic) else FAR
        if beyond.size and (ratio := float(np.max(beyond)) / far) > worst:
            at = float(place.flat[int(np.argmax(beyond))])
            span = f"{-np.inf if low is None else low:.6g} to {np.inf if high is None else high:.6g}"
            unit = "m" if isinstance(link.kind, Prismatic) else "rad"
            worst = ratio
            sentence = (
                f"a state begins with joint '{link.joint}' at {at:.6g} {unit}, far beyond its limits, {span}; they push it back"
            )
    return sentence


def warn(sentence: str) -> None:
    """Warn at the line outside of the package that led here."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "condyle":
        level, frame = level + 1, frame.f_back
    warnings.warn(sentence, CondyleWarning, stacklevel=level)
