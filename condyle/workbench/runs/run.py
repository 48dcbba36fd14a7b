"""A recorded run: states, controls and wrenches of every step, and all that is needed to simulate them again.

A run of a closed loop also has the states of its blocks, its references, seed and parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from condyle.atomic_write import PathLike, atomic_file, exclusive
from condyle.closed_loop.loop import Loop
from condyle.errors import FileError, RobotError, SimulationError
from condyle.methods.planning.obstacle_scene import solids_from, with_obstacles
from condyle.methods.planning.obstacle_shapes import Solid
from condyle.multibody.robot import Robot
from condyle.robot.model import digest as model_digest
from condyle.simulate.simulation import Simulation
from condyle.workbench.runs import file
from condyle.workbench.runs.json_codec import DecodeError, decode, entry, printable
from condyle.workbench.runs.loops import LoopData, loop_of
from condyle.workbench.runs.plot import plot, run_html
from condyle.workbench.runs.polylines import decoded as decoded_polylines
from condyle.workbench.runs.replay import Replay, replay, stepper
from condyle.workbench.runs.signals import Signal, columns_of, signals

PASS_IT = "pass the simulation: run.check(simulation=...) or read_run(path, simulation=...)"


@dataclass(frozen=True, eq=False)
class Run:
    """T steps of a simulation. State k is the one after k steps; control, wrenches and further signals k act from it to the next.

    `about` is JSON data: robot, title, controller, seed, dt, versions, computer, hashes, names of columns, and the simulation
    itself. `lost` is a sentence if something of the run is missing or was changed, and `changed` says that it was damaged or
    changed after it was recorded, not only cut. The arrays are read-only.
    """

    about: dict[str, Any]
    x: np.ndarray  # (T + 1, nx)
    u: np.ndarray  # (T, nu)
    wrenches: np.ndarray  # (T, frames, 6), force then torque, world axes; (T, 0, 6) if none
    extras: dict[str, np.ndarray] = field(default_factory=dict)  # further signals, (T, ...)
    lost: str | None = None
    path: Path | None = None
    changed: bool = False
    block_states: np.ndarray | None = None  # (T + 1, n) of a loop: the tick and the states of its blocks

    def __post_init__(self) -> None:
        if self.block_states is None:
            object.__setattr__(self, "block_states", np.zeros((len(self.x), 0)))
        for array in (self.x, self.u, self.wrenches, self.all_states, *self.extras.values()):
            array.setflags(write=False)

    # ---- what it is

    @property
    def steps(self) -> int:
        """How many steps it has."""
        return len(self.u)

    @property
    def dt(self) -> float:
        """The time step, s."""
        return float(self.about["dt"])

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return self.dt * self.steps

    @property
    def title(self) -> str:
        """Its title, or the robot's name."""
        return printable(str(self.about.get("title") or self.about.get("robot") or "run"))

    @property
    def t(self) -> np.ndarray:
        """The times of the states, s: (T + 1,)."""
        return self.dt * np.arange(self.steps + 1)

    @property
    def q(self) -> np.ndarray:
        """Configurations, (T + 1, nq)."""
        return self.x[:, : self.about["nq"]]

    @property
    def v(self) -> np.ndarray:
        """Velocities, (T + 1, nv)."""
        return self.x[:, self.about["nq"] : self.about["nq"] + self.about["nv"]]

    @cached_property
    def all_states(self) -> np.ndarray:
        """The states with those of blocks: (T + 1, nx + n)."""
        assert self.block_states is not None
        return np.concatenate([self.x, self.block_states], axis=1)

    @property
    def states(self) -> dict[str, np.ndarray]:
        """The states of a loop beside the robot's, by name, such as "servo.angle": (T + 1, ...)."""
        found, at = {}, 0
        assert self.block_states is not None
        for name, shape in [] if self.loop is None else self.loop.states:
            size = math.prod(shape)
            found[name] = self.block_states[:, at : at + size].reshape(-1, *shape)
            at += size
        return found

    @cached_property
    def loop(self) -> LoopData | None:
        """What the run keeps of its loop: states, references, seed, parameters, and its name if it is one of Condyle's."""
        data = self.about.get("loop")
        return None if data is None else decode(LoopData, data, "about.loop")

    @property
    def names(self) -> list[str]:
        """One name for each entry of a state, such as "q.hip", "v.root_joint.wx" or "servo.angle.0"."""
        return [str(row[0]) for row in self.about["columns"]["x"]]

    @cached_property
    def hash(self) -> str:
        """The sha256 of all numbers: the same only for the same bits."""
        extras = {f"extras.{name}": array for name, array in self.extras.items()}
        return file.digest({"x": self.all_states, "u": self.u, "wrenches": self.wrenches, **extras})

    def signals(self) -> dict[str, Signal]:
        """Group -> (values, unit, names of columns), such as "joint angles": values (T + 1, n) of states, (T, n) of all else."""
        return signals(self)

    def __repr__(self) -> str:
        cut = "" if self.lost is None else f"; {self.lost}"
        robot = printable(str(self.about.get("robot")))
        return f"<condyle run '{self.title}' of {robot}: {self.steps:,} steps of {self.dt:g} s{cut}>"

    def _repr_html_(self) -> str:
        return run_html(self)

    # ---- its simulation

    @cached_property
    def simulation(self) -> Simulation:
        """The simulation, built from the data in the file; a FileError if there is none, or if it is not the recorded one."""
        from condyle.workbench.runs.serialize import decode_simulation

        data = self.about.get("simulation_data")
        if data is None:
            reason = printable(str(self.about.get("simulation_missing") or "it was not written"))
            raise FileError(f"{self._name} does not hold its simulation, {reason}: {PASS_IT}.")
        try:
            made = decode_simulation(data)
        except DecodeError as error:
            raise FileError(f"{self._name}: its simulation cannot be built, {printable(str(error))}; {PASS_IT}.") from error
        self._compare(made)
        return made

    @cached_property
    def obstacles(self) -> list[Solid]:
        """What `Recorder(obstacles=...)` was given: drawn with the robot, and without any effect on it."""
        return solids_from(self.about.get("obstacles", []))

    @cached_property
    def scene(self) -> Robot:
        """The robot as it is drawn: with the obstacles."""
        return with_obstacles(self.robot, self.obstacles) if self.obstacles else self.robot

    @cached_property
    def robot(self) -> Robot:
        """The robot, also of a run whose simulation cannot be built while its robot can."""
        from condyle.workbench.runs.serialize import decode_robot

        try:
            return self.simulation.robot
        except FileError:
            simulation = self.about.get("simulation_data")
            data = simulation.get("robot") if isinstance(simulation, dict) else self.about.get("robot_data")
            if data is None:
                raise
            try:
                robot = decode_robot(data)
            except DecodeError as error:
                raise FileError(f"{self._name}: its robot cannot be built, {printable(str(error))}; {PASS_IT}.") from error
            if (robot.nq, robot.nv) != (self.about["nq"], self.about["nv"]):
                raise
            return robot

    def with_simulation(self, simulation: Simulation) -> Run:
        """The same run with this simulation, which must be the one that was recorded."""
        if not isinstance(simulation, Simulation):
            raise SimulationError(f"a run needs the simulation that it was recorded with, got {simulation!r:.40}")
        self._compare(simulation)
        run = replace(self)
        run.__dict__["simulation"] = simulation
        return run

    @cached_property
    def contact_forces(self) -> np.ndarray:
        """The forces of the ground on each contact point during each step, world axes, N: (T, contacts, 3)."""
        if self.loop is not None and "contact_forces" in self.extras:
            return self.extras["contact_forces"]
        simulation = self.simulation
        if not simulation.contact_points or not self.steps:
            return np.zeros((self.steps, len(simulation.contact_points), 3))
        return simulation.contact_forces(self.x[:-1], self.u, wrenches=self.wrenches if self.wrenches.shape[1] else None)

    # ---- again

    def check(
        self,
        simulation: Simulation | Loop | None = None,
        *,
        backend: str | None = None,
        lanes: int | None = None,
        threads: int | None = None,
        batch: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Replay:
        """Every step computed again and compared bit by bit; `backend`, `lanes` and `threads` as for Simulation.step.

        A run of a loop is compared with the loop that is given, or with the one of Condyle that it names; without either the
        robot alone is computed again, from the recorded controls, wrenches and parameters. `batch`: how many steps are computed
        at once. `progress(done, steps)` is called after each batch. This compares states; that controls beyond a limit and
        further signals are those that were recorded follows from the hash of all numbers, which is compared when a file is read:
        the result is false for a run that was `changed`.
        """
        options = {"backend": backend, "lanes": lanes, "threads": threads}
        options = {name: value for name, value in options.items() if value is not None}
        loop, run = (simulation, self) if isinstance(simulation, Loop) else (None, self)
        if simulation is not None and not isinstance(simulation, Loop):
            run = self.with_simulation(simulation)
        if loop is None and self.loop is not None and self.loop.built_in is not None:
            loop = loop_of(self.loop, run.simulation, self.x[0], self._name)
        found = replay(stepper(run, loop, options), self.steps, batch, progress)
        return replace(found, lost=self.lost, changed=self.changed)

    def save(self, path: PathLike) -> None:
        """None; the file `path` holds the run afterwards, or is what it was before if there is a FileError."""
        with exclusive(path), atomic_file(path) as temporary, open(temporary, "xb") as out:
            out.writelines(file.records(self))

    def plot(self, path: PathLike | None = None, *, signals: Sequence[str] = (), compare: Run | None = None) -> Any:
        """The matplotlib figure of the run over time, also written to `path` (.png, .svg, .pdf) if given; needs extra `plot`.

        `signals`: what to draw, of "height", "contact_forces", "energy", "joints", "velocities", "controls", "external_forces",
        "position", "orientation", "velocity", "angular_velocity" (of the base), or names of further signals; by default height,
        contact forces, energy, joints and controls, where the run has them. `compare`: another run, drawn dotted over this one.
        """
        return plot(self, path, signals, compare)

    # ---- inside

    @property
    def _name(self) -> str:
        return str(self.path) if self.path is not None else f"run '{self.title}'"

    def _compare(self, simulation: Simulation) -> None:
        """A FileError if this is not the simulation that was recorded."""
        from condyle import __version__

        recorded = self.about.get("versions", {}).get("condyle")
        version = "" if recorded == __version__ else f" (it was recorded with Condyle {recorded}, this is {__version__})"
        for what, found in (("robot", model_digest(simulation.robot.model)), ("world", simulation.hash)):
            if self.about.get(f"{what}_hash") != found:
                raise FileError(
                    f"{self._name} was recorded with another {what}{version}: its {what}_hash is "
                    f"{str(self.about.get(f'{what}_hash'))[:12]}, this one's is {found[:12]}; make the simulation as it was "
                    "then, or take the Condyle that recorded it."
                )
        columns = columns_of(simulation)
        columns["x"] = [*columns["x"], *self.about["columns"]["x"][simulation.nx :]]
        mine = {"dt": simulation.dt, "nq": simulation.robot.nq, "nv": simulation.robot.nv, "columns": columns}
        for what, value in mine.items():
            if self.about.get(what) != value:
                raise FileError(f"{self._name}: its {what} in the header is not that of its simulation, so it was changed.")


def read_run(path: PathLike, simulation: Simulation | None = None) -> Run:
    """The run in a file, with `lost` saying what is missing; a FileError for a file that is not a run.

    `simulation`: the one it was recorded with, for a run whose simulation could not be written.
    """
    run = run_of(file.read(path), path)
    return run if simulation is None else run.with_simulation(simulation)


def run_of(content: file.Content, path: PathLike) -> Run:
    """The run of what was read from a file; a FileError if its header or hash is not that of a run."""
    about = content.about
    try:
        check_about(about, content.x.shape[1])
    except DecodeError as error:
        what = printable(str(error))
        raise FileError(f"{path} was not written by Condyle, its header is wrong ({what}): do not use it.") from None
    about["steps"] = len(content.u)
    if "stopped" in content.end:
        about["stopped"] = printable(str(content.end["stopped"]))
    lost = content.lost or (printable(str(content.end["lost"])) if "lost" in content.end else None)
    changed = content.changed or content.end.get("changed") is True
    run = made_run(about, content.x, content.u, content.wrenches, content.extras, lost, Path(path), changed)
    if content.end and content.end.get("sha256") != run.hash:
        raise FileError(f"{path} was not written by Condyle, the hash of its numbers is wrong: do not use it.")
    return run


def made_run(about: dict[str, Any], states: np.ndarray, *rest: Any) -> Run:
    """The run whose rows of states also hold those of blocks."""
    nx = len(about["columns"]["x"]) - loop_entries(about)
    run = Run(about, np.ascontiguousarray(states[:, :nx]), *rest)
    return replace(run, block_states=np.ascontiguousarray(states[:, nx:]))


def loop_entries(about: dict[str, Any]) -> int:
    """How many entries of a row of states are those of a loop's blocks."""
    if about.get("loop") is None:
        return 0
    return sum(math.prod(shape) for _, shape in decode(LoopData, about["loop"], "about.loop").states)


HEADER: dict[str, Any] = {
    "dt": float,
    **dict.fromkeys(("robot", "title", "controller", "robot_hash", "world_hash", "created"), str),
    **dict.fromkeys(("nq", "nv"), int),
    "versions": dict[str, Any],
}
COLUMNS: dict[str, Any] = {
    **dict.fromkeys(("x", "u"), tuple[tuple[str, str], ...]),
    **dict.fromkeys(("wrenches", "contacts", "base"), tuple[str, ...]),
}


def check_about(about: Any, nx: int) -> None:
    """None for a header that a recorder writes; a DecodeError for any other."""
    for name, kind in HEADER.items():
        decode(kind, entry(about, name, "about"), f"about.{name}")
    for name, kind in COLUMNS.items():
        decode(kind, entry(entry(about, "columns", "about"), name, "about.columns"), f"about.columns.{name}")
    decoded_polylines(about)
    try:
        solids_from(about.get("obstacles", []))
    except RobotError as error:
        raise DecodeError(f"about.obstacles: {error}") from None
    if not about["dt"] > 0.0:
        raise DecodeError("about.dt is not positive")
    if min(about["nq"], about["nv"]) < 0 or about["nq"] + about["nv"] + loop_entries(about) > nx:
        raise DecodeError("about.nq and about.nv are not the sizes of a part of the state")
