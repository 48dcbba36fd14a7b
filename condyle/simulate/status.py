"""How a call went: which states went on, and one sentence for those that could not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.errors import SimulationError
from condyle.simulate.solver import LIMIT

if TYPE_CHECKING:
    from condyle.simulate.simulation import Simulation


@dataclass(frozen=True)
class Status:
    """The largest residual of each state's solver, and whether the state went on."""

    residual: np.ndarray
    ok: np.ndarray


def judge(simulation: Simulation, residual: Any, freeze: bool, arrays: tuple[Any, ...], last: np.ndarray) -> None:
    """Set the status after a call; unless states may freeze, an error for the first that did not go on. `last`: where it is."""
    residual = np.asarray(residual)
    simulation.status = status = Status(residual, residual <= LIMIT)
    if freeze or np.all(status.ok):
        return
    name = simulation.robot.name
    for what, array in zip(("the state", "the control", "the wrench"), arrays, strict=False):
        bad = np.argwhere(~np.isfinite(array))
        if len(bad):
            place = ", ".join(map(str, bad[0]))
            raise SimulationError(
                f"{name}: entry [{place}] of {what} is {array[tuple(bad[0])]}; pass finite numbers, or freeze=True to leave such "
                "states as they are"
            )
    first = tuple(np.argwhere(~status.ok)[0]) if status.ok.ndim else ()
    _explain(simulation, last[first] if last.ndim > 1 else last)
    where = f" {list(map(int, first))}" if first else ""
    reason = "grows beyond all numbers" if not np.isfinite(residual[first]) else f"ends with a residual of {residual[first]:.1e}"
    raise SimulationError(
        f"{name}: the step of state{where} {reason}; take a smaller dt (now {simulation.dt} s), or freeze=True to leave such "
        "states as they are"
    )


def _explain(simulation: Simulation, x: np.ndarray) -> None:
    """Raise an error if the robot's constraint cannot be met at a state, or where it would be next."""
    if simulation._world.coordinate_map is None:
        return
    robot = simulation.robot
    q, v = simulation.split(x)
    for ahead in (0.0, 0.5, 1.0):
        reason = robot.explain(robot.integrate(q, v * (ahead * simulation.dt)) if ahead else q)
        if reason:
            raise SimulationError(f"{reason}; freeze=True leaves such states as they are")
