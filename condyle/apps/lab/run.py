"""Runs of experiments: recorded tick by tick in a file, and their metrics.

    done = run_experiment(experiment, "run.cdl")
    done.metrics["rms_error"]

`Session` makes the same run one update of the controller at a time, for commands that come from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.apps.lab import controllers
from condyle.apps.lab.experiment import Experiment, Setup
from condyle.apps.lab.metrics import metrics
from condyle.atomic_write import PathLike
from condyle.closed_loop.kernel import recordable
from condyle.errors import ControlError, FileError
from condyle.multibody.robot import Robot
from condyle.robot.names import nearest
from condyle.workbench.runs.file import BLOCK
from condyle.workbench.runs.recorder import Recorder
from condyle.workbench.runs.run import Run

Say = Callable[[str, int, int], None]


def silent(what: str, done: int, total: int) -> None:
    """None; nothing is shown."""


@dataclass(frozen=True)
class Outcome:
    """A recorded run and its metrics."""

    run: Run
    metrics: dict[str, float]


def split_values(setup: Setup, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(parameters of the loop, values of the file) of given paths; parameters of the loop need no compilation."""
    inside: dict[str, Any] = {}
    outside: dict[str, Any] = {}
    for path, value in values.items():
        name = parameter_name(setup, path)
        if name is None or not _numeric(value):
            outside[path] = value
        else:
            shape = setup.loop.parameters[name].shape
            inside[name] = np.broadcast_to(np.asarray(value, dtype=float), np.broadcast_shapes(np.shape(value), shape)).copy()
    return inside, outside


def parameter_name(setup: Setup, path: str) -> str | None:
    """The parameter of the loop that a path of the file sets, or None."""
    name = path.removeprefix("plant.").removeprefix("wrenches.")
    return name if name in setup.loop.parameters else None


def _numeric(value: Any) -> bool:
    found = np.asarray(value)
    return found.dtype.kind in "fiu" and found.ndim <= 1


def prepared(experiment: Experiment, values: Mapping[str, Any]) -> tuple[Setup, dict[str, Any]]:
    """(setup, parameters of the call) of an experiment with other values, which are parameters where the loop has them."""
    setup = experiment.setup()
    inside, outside = split_values(setup, values)
    if outside:
        setup = experiment.with_values(outside).setup()
        missing = [name for name in inside if name not in setup.loop.parameters]
        if missing:
            raise ControlError(f"the loop has no parameter '{missing[0]}' with the other values that are set")
    parameters = setup.experiment.parameters | inside
    setup.loop._values(parameters)  # raises for values out of range
    return setup, parameters


class Session:
    """A run that goes on one update of the controller at a time: `advance(u)` holds the command u for its ticks.

    with Session(experiment, "run.cdl") as session:
        while not session.finished:
            session.advance(controller(session.q, session.v))

    For an experiment with an external controller; with any other one, `advance()` takes no command. Without a path it is kept in
    memory.
    """

    def __init__(
        self,
        experiment: Experiment,
        path: PathLike | None = None,
        *,
        values: Mapping[str, Any] | None = None,
        overwrite: bool = False,
    ) -> None:
        self.setup, self.parameters = prepared(experiment, values or {})
        self.experiment = self.setup.experiment
        self.external = "u_external" in self.setup.loop.inputs
        loop = self.setup.loop
        wanted = dict.fromkeys(["command", *self.experiment.record])
        try:
            recordable(loop, tuple(wanted))
        except ControlError as error:
            raise ControlError(f"record: {error}") from None
        name = controllers.canonical(self.experiment.controller.name)
        # what can be wrong with the reference is known before a file is begun
        self.rows = self.setup.rows
        self.recorder = Recorder(
            loop,
            self.setup.x0,
            path,
            title=self.experiment.title or f"{self.experiment.arm.name}: {name}",
            controller=name,
            seed=self.experiment.seed,
            parameters=self.parameters,
            record=list(wanted),
            obstacles=[each.solid() for each in self.experiment.obstacles],
            about={"experiment": self.experiment.data()},
            overwrite=overwrite,
        )

    @property
    def update(self) -> int:
        """How many updates of the controller are done."""
        return self.recorder.k // self.experiment.rates.control_ticks

    @property
    def finished(self) -> bool:
        """Whether the experiment's time is over."""
        return self.update >= self.experiment.control_updates

    @property
    def t(self) -> float:
        """The time, s."""
        return self.recorder.k / self.experiment.rates.physics

    @property
    def q(self) -> np.ndarray:
        """The joints as they are, (n,); `measured` has the errors of the sensors."""
        return np.asarray(self.recorder.x[: self.experiment.arm.nq])

    @property
    def v(self) -> np.ndarray:
        """The velocities as they are, (n,)."""
        n = self.experiment.arm.nq
        return np.asarray(self.recorder.x[n : n + self.experiment.arm.nv])

    @property
    def measured(self) -> tuple[np.ndarray, np.ndarray]:
        """(q, v) as the sensors give them at this update, with the noise, delay and dropout that the run has there."""
        loop = self.setup.loop
        if "sensors" not in loop.plan.blocks:
            return self.q, self.v
        rows = {name: np.zeros(size) for name, (size,) in loop.inputs.items()}
        _, found = loop.step(self.recorder.x, rows, record=("sensors.position", "sensors.velocity"), **self.recorder._keys())
        return found["sensors.position"], found["sensors.velocity"]

    @property
    def reference(self) -> np.ndarray:
        """The row of the reference at this update."""
        return np.asarray(self.rows[min(self.update, len(self.rows) - 1)])

    def advance(self, u: Any = None, updates: int = 1) -> np.ndarray:
        """The state after some updates of the controller, each with the ticks of the physics that belong to it."""
        if self.external != (u is not None):
            what = "needs the command u" if self.external else "takes no command"
            raise ControlError(f"an update of the controller '{self.experiment.controller.name}' {what}")
        ticks, at = self.experiment.rates.control_ticks, self.update
        rows: dict[str, Any] = {"reference": self.rows[at : at + updates]}
        if self.external:
            rows["u_external"] = np.broadcast_to(np.asarray(u, dtype=float), (len(rows["reference"]), self.setup.simulation.nu))
        return self.recorder.rollout(rows, len(rows["reference"]) * ticks)

    def finish(self) -> Outcome:
        """The run, complete and closed, with its metrics."""
        run = self.recorder.finish()
        return Outcome(run, run_metrics(run))

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: Any) -> None:
        self.recorder.__exit__(*error)


def run_experiment(
    experiment: Experiment,
    path: PathLike | None = None,
    *,
    values: Mapping[str, Any] | None = None,
    commands: Callable[[Session], Any] | None = None,
    overwrite: bool = False,
    say: Say = silent,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """The recorded run of an experiment, with other `values` at paths of its file; `commands`: (session) -> u of an external one.

    `say(what, done, total)` shows progress; `stop()` ends the run early.
    """
    session = Session(experiment, path, values=values, overwrite=overwrite)
    if session.external and commands is None:
        raise ControlError("[controller] external: its commands come from outside: `condyle serve` the file, or pass commands=")
    rates, count = session.experiment.rates, session.experiment.control_updates
    # whole blocks of the file at a time
    block = max(BLOCK // rates.control_ticks, 1) * 16 if commands is None else 1
    with session:
        say("compiling", 0, 1)
        while not session.finished and not stop():
            say(session.experiment.arm.name, session.update, count)
            if commands is None:
                session.advance(updates=block)
            else:
                session.advance(np.asarray(commands(session), dtype=float))
    return session.finish()


# ---- metrics of a recorded run


def experiment_of(run: Run) -> Experiment:
    """The experiment that a run holds; a FileError if it has none."""
    data = run.about.get("experiment")
    if not isinstance(data, Mapping):
        raise FileError(f"{run.path or run.title} is no run of an experiment: `condyle lab run` makes one.")
    try:
        return Experiment.from_data(data)
    except ControlError as error:
        raise FileError(f"{run.path or run.title}: its experiment cannot be read, {error}") from None


@dataclass(frozen=True)
class Signals:
    """What metrics need of a run, at the updates of the controller after the warm-up: (rows, n) each."""

    t: np.ndarray
    reference: np.ndarray
    response: np.ndarray
    velocity: np.ndarray
    torque: np.ndarray
    start: np.ndarray  # the reference before the first row
    names: list[str]
    unit: str


def signals_of(experiment: Experiment, arm: Robot, records: Mapping[str, np.ndarray]) -> Signals:
    """The signals from records "q", "v", "reference" and "command", each (updates, ...), at the start of every update."""
    n, rate = arm.nv, experiment.rates.control
    first = round(experiment.warm_up * rate)
    q, v, rows, u = (np.ascontiguousarray(records[name][first:]) for name in ("q", "v", "reference", "command"))
    t = np.arange(len(q)) / rate
    if experiment.space == "tool":
        p = arm.frame_pose(q, experiment.tool_of(arm))[1] if len(q) else np.zeros((0, 3))
        before = p[0] if first == 0 and len(p) else records["reference"][first - 1, 9:12]
        return Signals(t, rows[:, 9:12], p, v, u, before, ["x", "y", "z"], "m")
    before = q[0] if first == 0 and len(q) else records["reference"][first - 1, :n]
    return Signals(t, rows[:, :n], q, v, u, before, list(arm.joint_names), "rad")


def run_signals(run: Run) -> Signals:
    """The signals of a recorded run."""
    experiment = experiment_of(run)
    if not run.steps:
        raise FileError(f"{run.path or run.title} holds no step: record a longer run.")
    every = experiment.rates.control_ticks
    # a run that was served to another program holds its commands as references
    command = "command" if "command" in run.extras else "u_external"
    for name in ("reference", command):
        if name not in run.extras:
            raise FileError(f"{run.path or run.title} has no signal '{name}'{nearest(name, list(run.extras))}")
    # the reference at the first tick of an update, the command at its last
    records = {"reference": run.extras["reference"][::every], "command": run.extras[command][every - 1 :: every]}
    whole = len(records["command"])
    records |= {"q": run.q[:-1][::every], "v": run.v[:-1][::every]}
    records = {name: value[:whole] for name, value in records.items()}
    return signals_of(experiment, run.robot, records)


def run_metrics(run: Run) -> dict[str, float]:
    """The metrics of a recorded run."""
    s = run_signals(run)
    if len(s.t) < 2:
        raise FileError(f"{run.path or run.title} ends within the warm-up: there is nothing to measure.")
    return metrics(s.t, s.reference, s.response, velocity=s.velocity, torque=s.torque, start=s.start)
