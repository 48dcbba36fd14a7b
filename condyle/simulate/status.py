"""Whether the states of a call were stepped, and the error sentence for those that were not."""

from __future__ import annotations

from dataclasses import dataclass
from threading import local
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.errors import SimulationError
from condyle.simulate.solver import LIMIT, LIMIT_SINGLE, limit
from condyle.tape.device import on_device
from condyle.tape.scalar import Scalar

if TYPE_CHECKING:
    from condyle.simulate.simulation import Simulation


@dataclass(frozen=True)
class Status:
    """The largest residual of the solver for each state of a call, and whether the state was stepped.

    Both are traced values inside a trace, and arrays on the GPU for states there.
    """

    residual: np.ndarray
    ok: np.ndarray

    @staticmethod
    def of(residual: Any) -> Status:
        """The status after a call whose solver ended with these residuals."""
        enough = limit()
        if on_device((residual,)):
            return Status(residual, residual <= (LIMIT_SINGLE if "32" in str(residual.dtype) else LIMIT))
        if not isinstance(residual, Scalar):
            residual = np.asarray(residual)
            enough = LIMIT_SINGLE if residual.dtype == np.float32 else LIMIT
        return Status(residual, residual <= enough)


class LastStatus(local):
    """The status of the last call of each thread, for calls that give back arrays alone.

    A copy has that of the thread that makes it.
    """

    value: Status | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # that of a call inside a trace belongs to the trace
        numbers = self.value is not None and not isinstance(self.value.residual, Scalar)
        return LastStatus, (), {"value": self.value} if numbers else {}


def require_ok(simulation: Simulation, status: Status, arrays: tuple[Any, ...], last: np.ndarray) -> None:
    """Raise a SimulationError for the first state that was not stepped; `arrays`: the inputs, `last`: the states reached.

    Nothing is asked of states on a GPU, which would have to be waited for: `status` says which were stepped.
    """
    if on_device((status.residual,)) or np.all(status.ok):
        return
    name, residual = simulation.robot.name, status.residual
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
    robot = simulation.robot
    if robot.coordinate_map.identity:
        return
    q, v = simulation.split(x)
    for ahead in (0.0, 0.5, 1.0):
        reason = robot.explain(robot.integrate(q, v * (ahead * simulation.dt)) if ahead else q)
        if reason:
            raise SimulationError(f"{reason}; freeze=True leaves such states as they are")
