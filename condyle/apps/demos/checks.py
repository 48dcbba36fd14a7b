"""How runs of the demos are recorded, and checks of them: each is a number, its bounds, and whether it lies within."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from os import PathLike
from typing import Any

import numpy as np

from condyle.closed_loop.loop import Loop
from condyle.simulate.simulation import Simulation
from condyle.workbench.runs.recorder import Recorder
from condyle.workbench.runs.run import Run

Array = np.ndarray
CHUNK = 512  # ticks between two reports of progress
Progress = Callable[[str, int, int], object]  # (what is done now, how many are done, of how many)


def silent(what: str, done: int, total: int) -> None:
    """Progress that nobody sees."""


@dataclass(frozen=True)
class Check:
    """A value with its bounds; `value` is None where the check was skipped, `low` or `high` where there is no such bound.

    `detail` is shown in place of a number that means little by itself.
    """

    group: str
    name: str
    value: float | None
    unit: str = ""
    low: float | None = None
    high: float | None = None
    form: str = ".1e"
    detail: str = ""

    @property
    def ok(self) -> bool | None:
        """Whether low <= value <= high; None if the check was skipped; False for a value that is not finite."""
        if self.value is None:
            return None
        above = self.low is None or self.value >= self.low
        return bool(np.isfinite(self.value) and above and (self.high is None or self.value <= self.high))

    @property
    def bound(self) -> str:
        """The bounds as text."""
        if self.detail:
            return ""
        if self.low is not None and self.high is not None:
            middle, half = (self.low + self.high) / 2.0, (self.high - self.low) / 2.0
            if half == 0.0:
                return f"exactly {middle:{self.form}}"
            if 0.0 < half < 1e-3 * abs(middle):
                return f"{middle:{self.form}} ± {half:.2g}"
            return f"{self.low:.4g} to {self.high:.4g}"
        return f"at least {self.low:g}" if self.low is not None else f"at most {self.high:g}" if self.high is not None else ""

    @property
    def shown(self) -> str:
        """The value with its unit, or the detail."""
        if self.detail:
            return self.detail
        return "" if self.value is None else f"{self.value:{self.form}} {self.unit}".strip()

    def data(self) -> dict[str, Any]:
        """As JSON data."""
        fields = asdict(self)
        del fields["form"]
        return {**fields, "ok": self.ok}


def near(group: str, name: str, value: Any, expected: float, tolerance: float, unit: str = "", form: str = ".6g") -> Check:
    """A check that |value - expected| <= tolerance."""
    return Check(group, name, float(value), unit, expected - tolerance, expected + tolerance, form)


def largest(values: Any) -> float:
    """max |values|."""
    return float(np.max(np.abs(values)))


def replays(group: str, run: Run) -> Check:
    """A check that every step of a run gives the same bits again."""
    again = run.check()
    return Check(group, "replays bit for bit", float(again.identical), "", 1.0, 1.0, ".0f", str(again))


# -- runs of loops


def next_rows(references: Mapping[str, Iterable[Any]], count: int) -> dict[str, np.ndarray] | None:
    """The next rows of each reference, (count, size); None for a loop without references."""
    return {name: np.array(list(islice(values, count))) for name, values in references.items()} or None


def recorded(
    loop: Loop,
    x0: np.ndarray,
    path: str | PathLike[str] | None,
    steps: int,
    references: Mapping[str, Iterable[Any]] | None = None,
    *,
    progress: Progress = silent,
    **options: Any,
) -> Run:
    """The run of a loop from x0 under references, one for each tick, also in a file; options are those of the recorder."""
    given: dict[str, Iterator[Any]] = {name: iter(values) for name, values in (references or {}).items()}
    with Recorder(loop, x0, path, overwrite=True, **options) as recorder:
        for first in range(0, steps, CHUNK):
            progress("simulating", first, steps)
            count = min(CHUNK, steps - first)
            recorder.rollout(next_rows(given, count), count)
        return recorder.finish()


# -- energy


def power(simulation: Simulation, x: Array, u: Array, wrenches: Array) -> Array:
    """Power of motors and wrenches less that of the joints' damping, W: (...,) for batches of states."""
    robot = simulation.robot
    q, v = simulation.split(x)
    total = np.zeros(x.shape[:-1])
    for k, (coordinate, effort) in enumerate(zip(simulation.actuated, simulation.effort_limits, strict=True)):
        total += np.clip(u[..., k], -effort, effort) * v[..., coordinate]
    for k, joint in enumerate(simulation.joint_forces):
        total -= joint.damping * v[..., k] ** 2
    for k, frame in enumerate(simulation.wrench_frames):
        V = np.sum(robot.jacobian(q, frame) * v[..., None, :], axis=-1)
        total += np.sum(V * wrenches[..., k, :], axis=-1)
    return total


def energy_residual(simulation: Simulation, half: Simulation, x: Array, u: Array, wrenches: Array) -> Array:
    """E(t) - E(0) - work done since the start, J, at every step: zero but for the error of the integration.

    Controls and wrenches are constant within a step; its middle is found by `half`, the same simulation with half the time step,
    and Simpson's rule gives the work.
    """
    begin, end = x[:-1], x[1:]
    middle = half.step(begin, u, wrenches=wrenches)
    parts = [weight * power(simulation, at, u, wrenches) for weight, at in ((1.0, begin), (4.0, middle), (1.0, end))]
    work = simulation.dt / 6.0 * np.cumsum(parts[0] + parts[1] + parts[2])
    energy = np.asarray(simulation.energy(x))
    residual: Array = energy[1:] - energy[0] - work
    return residual
