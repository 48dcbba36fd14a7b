"""Whether the states of a call were stepped, and the error sentence for those that were not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from threading import local
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from condyle.errors import SimulationError
from condyle.simulate.law_residuals import law_names
from condyle.simulate.solver import LIMIT, LIMIT_SINGLE, limit
from condyle.tape.device import on_device
from condyle.tape.scalar import Scalar

if TYPE_CHECKING:
    from condyle.simulate.simulation import Simulation
    from condyle.simulate.world import World


@dataclass(frozen=True)
class Failure:
    """A state that was not stepped: its place in the batch, the step of a rollout or the tick of a loop, and the law that fails.

    `step` is None for a call of one step. `law` is None where none can be named: numbers that are not finite, or a stage of a
    Runge-Kutta method.
    """

    state: tuple[int, ...]
    step: int | None
    law: str | None
    residual: float

    @property
    def reason(self) -> str:
        """What the solver ends with."""
        at = f" in the {self.law}" if self.law else ""
        if not np.isfinite(self.residual):
            return f"does not converge{at}" if at else "grows beyond all numbers"
        return f"ends with a residual of {self.residual:.1e}{at}"


@dataclass(frozen=True)
class Questions:
    """What finds the failures of a call and the smoothing of its states when it is called; None where nothing does."""

    failures: Callable[[], Iterator[Failure]] | None = None
    smoothing: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Status:
    """The largest residual of the solver for each state of a call, and whether the state was stepped.

    Both are traced values inside a trace, and arrays on the GPU for states there. `failures` names the laws that were not obeyed,
    `smoothing` is that with which the states were solved.
    """

    residual: Any
    ok: Any
    questions: Questions = field(default=Questions(), repr=False, compare=False)

    @staticmethod
    def of(
        residual: Any,
        look: Callable[[np.ndarray], Callable[[], Iterator[Failure]]] | None = None,
        smoothing: Callable[[], Any] | None = None,
    ) -> Status:
        """The status after a call whose solver ended with these residuals.

        `look`: of the places of states that were not stepped, what finds their failures when it is called. `smoothing`: what
        finds that of all states.
        """
        if on_device((residual,)):
            return Status(residual, residual <= (LIMIT_SINGLE if "32" in str(residual.dtype) else LIMIT))
        if isinstance(residual, Scalar):
            return Status(residual, residual <= limit())
        residual = np.asarray(residual)
        ok = residual <= (LIMIT_SINGLE if residual.dtype == np.float32 else LIMIT)
        failures = None if look is None or ok.all() else look(np.argwhere(~ok))
        return Status(residual, ok, Questions(failures, smoothing))

    @property
    def failures(self) -> list[Failure]:
        """One for each state that was not stepped; the first call compiles what looks at the laws one by one."""
        return [] if self.questions.failures is None else list(self.questions.failures())

    @property
    def first_failure(self) -> Failure:
        """That of the first state that was not stepped."""
        assert self.questions.failures is not None
        return next(self.questions.failures())

    @property
    def smoothing(self) -> Any:
        """The largest smoothing with which a step of each state was solved, in the unit of the option of the simulation.

        In float64 it is the simulation's own. In float32 it is larger where a state was solved again: the first call compiles
        what steps the arrays of the call once more, which must not have changed.
        """
        if self.questions.smoothing is None:
            raise SimulationError(
                "the smoothing is not known of this call: ask right after a call with NumPy arrays, outside of a trace; a loop "
                "records it for each tick, record=['smoothing']"
            )
        return self.questions.smoothing()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles and copies hold the numbers."""
        return Status, (self.residual, self.ok)


def worst_law(names: list[str], residuals: np.ndarray) -> tuple[str | None, float]:
    """(name, residual) of the law that is obeyed least; no name if all are obeyed, or if numbers are not finite."""
    numbers = np.where(np.isnan(residuals), -1.0, residuals)
    k = int(np.argmax(numbers))
    failed = numbers[k] > (LIMIT_SINGLE if residuals.dtype == np.float32 else LIMIT)
    return (names[k] if failed else None), float(numbers[k])


class LastStatus(local):
    """The status of the last call of each thread, for calls that give back arrays alone.

    A copy has that of the thread that makes it.
    """

    value: Status | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # that of a call inside a trace belongs to the trace
        numbers = self.value is not None and not isinstance(self.value.residual, Scalar)
        return LastStatus, (), {"value": self.value} if numbers else {}


def status_of(simulation: Simulation, residual: Any, arrays: tuple[Any, ...], rows: Any, parameters: dict[str, Any]) -> Status:
    """The status of a call with these residuals.

    `arrays`: states, controls, wrenches. `rows`: the states after each step, or after the only one.
    """
    return Status.of(
        residual,
        lambda places: _failures(simulation, places, residual, arrays, rows, parameters),
        _smoothing(simulation, residual, arrays, rows, parameters) if isinstance(arrays[0], np.ndarray) else None,
    )


def given_smoothing(world: World, parameters: Mapping[str, Any], shape: tuple[int, ...] = ()) -> Callable[[], np.ndarray]:
    """What gives the smoothing of states of this shape that are solved with the one that is given."""
    smoothing = parameters.get("contact.smoothing", world.smoothing)
    return lambda: np.array(np.broadcast_to(smoothing, shape))


def _smoothing(
    simulation: Simulation, residual: Any, arrays: tuple[Any, ...], rows: Any, parameters: dict[str, Any]
) -> Callable[[], Any]:
    """What finds the smoothing of a call: in float32 it repeats the steps; the simulation is not kept for it."""
    if arrays[0].dtype != np.float32:
        return given_smoothing(simulation.world, parameters, np.shape(residual))
    again, (x, us, *wrenches) = ref(simulation), arrays
    us = us[..., None, :] if rows.ndim == np.ndim(residual) + 1 else us

    def find() -> Any:
        simulation = again()
        if simulation is None:
            raise SimulationError("the smoothing is not known of this call: its simulation is gone; keep it until you ask")
        name = simulation.robot.name
        function = simulation._function("smoothing", ("x", "us"), ("cpu", None, None), tuple(parameters))
        repeated, smoothing = function(x, us, *wrenches, *parameters.values())
        if not np.array_equal(repeated, residual, equal_nan=True):
            raise SimulationError(
                f"{name}: the smoothing is not known of this call: its arrays have changed since; ask before, or step copies"
            )
        return smoothing

    return find


def require_ok(simulation: Simulation, status: Status, arrays: tuple[Any, ...], rows: Any) -> None:
    """Raise a SimulationError for the first state that was not stepped; the arguments are those of `status_of`.

    Nothing is asked of states on a GPU, which would have to be waited for: `status` says which were stepped.
    """
    if status.questions.failures is None:
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
    _explain(simulation, np.reshape(rows[first], (-1, simulation.nx))[-1])
    failure = status.first_failure
    where = f" {list(map(int, first))}" if first else ""
    step = "the step" if failure.step is None else f"step {failure.step}"
    raise SimulationError(
        f"{name}: {step} of state{where} {failure.reason}; take a smaller dt (now {simulation.dt} s), or freeze=True to leave "
        "such states as they are"
    )


def _failures(
    simulation: Simulation, places: np.ndarray, residual: Any, arrays: tuple[Any, ...], rows: Any, parameters: dict[str, Any]
) -> Callable[[], Iterator[Failure]]:
    """What finds the failures of the states at these places of a batch; their numbers are copied."""
    lead, index = np.shape(residual), tuple(places.T)
    single = rows.ndim == len(lead) + 1
    if single:
        arrays, rows = (arrays[0], arrays[1][..., None, :], *arrays[2:]), rows[..., None, :]
    shapes = [(simulation.nx,), arrays[1].shape[-2:], *[a.shape[-2:] for a in arrays[2:]]]
    shapes += [simulation.parameters[name].shape for name in parameters]

    def pick(a: Any, shape: tuple[int, ...]) -> Any:
        return np.array(np.broadcast_to(a, (*lead, *shape))[index]).reshape(len(places), *shape)

    columns = [pick(a, shape) for a, shape in zip((*arrays, *parameters.values()), shapes, strict=True)]
    # a state that is not stepped stays as it is
    xs = np.concatenate([columns[0][:, None], pick(rows, rows.shape[-2:])], axis=1)
    worst, names = pick(residual, ()), tuple(parameters)

    def look() -> Iterator[Failure]:
        for k, place in enumerate(places.tolist()):
            failure = _failure(simulation, tuple(place), xs[k], [a[k] for a in columns[1:]], names, float(worst[k]))
            yield replace(failure, step=None) if single else failure

    return look


def _failure(
    simulation: Simulation, place: Any, xs: np.ndarray, given: list[Any], parameters: tuple[str, ...], residual: float
) -> Failure:
    """The failure of one state, by the laws at the steps from which on it stays as it is; `given`: controls and what follows."""
    last, (us, *rest) = xs[-1], given
    moving = np.flatnonzero(np.any(xs != last, axis=-1))
    first = int(moving[-1]) + 1 if len(moving) else 0
    first = min(first, len(us) - 1)
    if simulation.integrator == "backward_euler" or not np.all(np.isfinite(last)):
        return Failure(place, first, None, residual)
    function = simulation._function("laws", ("x", "u"), ("cpu", None, None), parameters)
    names = law_names(simulation.world)
    for k, laws in enumerate(function(last, us[first:], *rest)):
        # of a robot at rest, steps before the one that fails leave it as it is, too
        law, _ = worst_law(names, laws)
        if law is not None:
            return Failure(place, first + k, law, residual)
    return Failure(place, first, None, residual)


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
