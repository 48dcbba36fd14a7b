"""A run: what happened to a robot, step by step, with all that is needed to let it happen again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from condyle.atomic_write import PathLike, atomic_file, exclusive
from condyle.errors import FileError, SimulationError
from condyle.multibody.robot import Robot
from condyle.runs import file, json_codec
from condyle.runs.replay import Replay, replayed
from condyle.simulate.record import digest_of
from condyle.simulate.simulation import Simulation

PASS_IT = "pass the simulation: run.check(simulation=...) or read_run(path, simulation=...)"


@dataclass(frozen=True, eq=False)
class Run:
    """T steps of a simulation. State k is the one after k steps; control, wrenches and further signals k act from it to the next.

    `about` is plain data: robot, title, controller, seed, dt, versions, machine, hashes, names of columns, and the recipe of the
    simulation. `lost` is a sentence if something of the run is missing or was changed, and `changed` says that it was damaged or
    changed after it was recorded, not only cut. The arrays cannot be written to.
    """

    about: dict[str, Any]
    x: np.ndarray  # (T + 1, nx)
    u: np.ndarray  # (T, nu)
    wrenches: np.ndarray  # (T, frames, 6), force then couple, world axes; (T, 0, 6) if none
    extras: dict[str, np.ndarray] = field(default_factory=dict)  # further signals, (T, ...)
    lost: str | None = None
    path: Path | None = None
    changed: bool = False

    def __post_init__(self) -> None:
        for array in (self.x, self.u, self.wrenches, *self.extras.values()):
            array.setflags(write=False)

    # ---- what it is

    @property
    def steps(self) -> int:
        return len(self.u)

    @property
    def dt(self) -> float:
        return float(self.about["dt"])

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return self.dt * self.steps

    @property
    def title(self) -> str:
        """Its title, or the robot's name."""
        return json_codec.printable(str(self.about.get("title") or self.about.get("robot") or "run"))

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

    @property
    def names(self) -> list[str]:
        """One name for each entry of a state, such as "q.hip" or "v.root_joint.wx"."""
        return [str(row[0]) for row in self.about["columns"]["x"]]

    @cached_property
    def hash(self) -> str:
        """The sha256 of all numbers: the same only for the same bits."""
        extras = {f"extras.{name}": array for name, array in self.extras.items()}
        return digest_of({"x": self.x, "u": self.u, "wrenches": self.wrenches, **extras})

    def signals(self) -> dict[str, tuple[np.ndarray, str]]:
        """Group -> (values, unit): values (T + 1, n) of states and (T, n) of all else; `signal_names` has the same groups."""
        from condyle.runs.signals import signals

        return {group: (values, unit) for group, (values, unit, _) in signals(self).items()}

    def signal_names(self) -> dict[str, list[str]]:
        """Group -> the name of each column."""
        from condyle.runs.signals import signals

        return {group: names for group, (_, _, names) in signals(self).items()}

    def __repr__(self) -> str:
        cut = "" if self.lost is None else f"; {self.lost}"
        robot = json_codec.printable(str(self.about.get("robot")))
        return f"<condyle run '{self.title}' of {robot}: {self.steps:,} steps of {self.dt:g} s{cut}>"

    def _repr_html_(self) -> str:
        from condyle.runs.html import run_html

        return run_html(self)

    # ---- its world

    @cached_property
    def simulation(self) -> Simulation:
        """The simulation, made again from the recipe; a FileError if there is none, or if it is not the one that was recorded."""
        from condyle.runs.serialize import simulation_of_data

        recipe = self.about.get("recipe")
        if recipe is None:
            reason = self.about.get("recipe_missing") or "it was not written down"
            raise FileError(f"{self._name} does not hold its simulation, {reason}: {PASS_IT}.")
        try:
            made = simulation_of_data(recipe)
        except json_codec.Wrong as error:
            raise FileError(
                f"{self._name}: its recipe cannot be followed, {json_codec.printable(str(error))}; {PASS_IT}."
            ) from error
        self._compare(made)
        return made

    @cached_property
    def robot(self) -> Robot:
        """The robot, also where the simulation could not be written down but the robot could."""
        from condyle.runs.serialize import robot_of_data

        alone = self.about.get("robot_recipe")
        if "simulation" in self.__dict__ or self.about.get("recipe") is not None or alone is None:
            return self.simulation.robot
        try:
            return robot_of_data(alone)
        except json_codec.Wrong as error:
            raise FileError(f"{self._name}: its robot cannot be made, {json_codec.printable(str(error))}; {PASS_IT}.") from error

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
        here = self.simulation
        if not here.contact_points or not self.steps:
            return np.zeros((self.steps, len(here.contact_points), 3))
        return here.contact_forces(self.x[:-1], self.u, wrenches=self.wrenches if self.wrenches.shape[1] else None)

    # ---- again

    def check(self, simulation: Simulation | None = None, **options: Any) -> Replay:
        """Every step computed again and compared bit by bit. `options`: backend, lanes or threads, as for Simulation.step.

        This is about states. That the controls beyond a limit and the further signals are those that were recorded is told by the
        hash of all numbers, which is compared when a file is read: the result is not true for a run that was `changed`.
        """
        if simulation is not None:
            return self.with_simulation(simulation).check(**options)
        found = replayed(self.simulation, self.x, self.u, self.wrenches, self.names, **options)
        return replace(found, lost=self.lost, changed=self.changed)

    def plot(self, path: PathLike | None = None, *, signals: Sequence[str] = (), compare: Run | None = None) -> Any:
        """The matplotlib figure of the run over time, also written to `path` (.png, .svg, .pdf) if given; needs extra `plot`.

        `signals`: what to draw, of "height", "contact_forces", "energy", "joints", "velocities", "controls", "external_forces",
        "position", "orientation", "velocity", "angular_velocity" (of the base), or names of further signals; by default height,
        contact forces, energy, joints and controls, where the run has them. `compare`: another run, drawn dotted over this one.
        """
        from condyle.runs.plot import plot

        return plot(self, path, signals, compare)

    def save(self, path: PathLike) -> None:
        """None; the file `path` holds the run afterwards, whole, or is what it was before if there is a FileError."""
        from condyle.runs.writing import parts_of

        with exclusive(path), atomic_file(path) as temporary, open(temporary, "xb") as out:
            for part in parts_of(self):
                out.write(part)

    # ---- inside

    @property
    def _name(self) -> str:
        return str(self.path) if self.path is not None else f"run '{self.title}'"

    def _compare(self, simulation: Simulation) -> None:
        """A FileError if this is not the simulation that was recorded."""
        from condyle import __version__
        from condyle.runs.columns import columns_of
        from condyle.runs.serialize import robot_hash

        recorded = self.about.get("versions", {}).get("condyle")
        version = "" if recorded == __version__ else f" (it was recorded with Condyle {recorded}, this is {__version__})"
        for what, found in (("robot", robot_hash(simulation)), ("world", simulation.hash)):
            if self.about.get(f"{what}_hash") != found:
                raise FileError(
                    f"{self._name} was recorded with another {what}{version}: its {what}_hash is "
                    f"{str(self.about.get(f'{what}_hash'))[:12]}, this one's is {found[:12]}; make the simulation as it was "
                    "then, or take the Condyle that recorded it."
                )
        mine = {"dt": simulation.dt, "nq": simulation.robot.nq, "nv": simulation.robot.nv, "columns": columns_of(simulation)}
        for what, value in mine.items():
            if self.about.get(what) != value:
                raise FileError(f"{self._name}: its {what} in the header is not that of its simulation, so it was changed.")


def read_run(path: PathLike, simulation: Simulation | None = None) -> Run:
    """The run in a file, with `lost` saying what is missing; a FileError for a file that is not a run.

    `simulation`: the one it was recorded with, for a run whose simulation could not be written down.
    """
    content = file.read(path)
    about = content.about
    try:
        checked_about(about, content.x.shape[1])
    except json_codec.Wrong as error:
        what = json_codec.printable(str(error))
        raise FileError(f"{path} was not written by Condyle, its header is wrong ({what}): do not use it.") from None
    about["steps"] = len(content.u)
    if "stopped" in content.end:
        about["stopped"] = json_codec.printable(str(content.end["stopped"]))
    lost = content.lost or (json_codec.printable(str(content.end["lost"])) if "lost" in content.end else None)
    changed = content.changed or content.end.get("changed") is True
    run = Run(about, content.x, content.u, content.wrenches, content.extras, lost, Path(path), changed)
    if content.end and content.end.get("sha256") != run.hash:
        raise FileError(f"{path} was not written by Condyle, the hash of its numbers is wrong: do not use it.")
    return run if simulation is None else run.with_simulation(simulation)


def checked_about(about: Any, nx: int) -> None:
    """None for a header that a recorder writes; Wrong for any other."""
    at = "about"
    dt = json_codec.number(json_codec.entry(about, "dt", at), "about.dt")
    if not dt > 0.0:
        raise json_codec.Wrong("about.dt is not positive")
    for name in ("robot", "title", "controller", "robot_hash", "world_hash", "created"):
        json_codec.text(json_codec.entry(about, name, at), f"about.{name}")
    nq, nv = (json_codec.whole(json_codec.entry(about, name, at), f"about.{name}", 0, nx) for name in ("nq", "nv"))
    if nq + nv > nx:
        raise json_codec.Wrong("about.nq and about.nv are more than a state has")
    columns = about["columns"]

    def pair(row: Any, where: str) -> None:
        if len(json_codec.items(row, where, json_codec.text, 2)) != 2:
            raise json_codec.Wrong(f"{where} is not a name and a unit")

    for name in ("x", "u"):
        json_codec.items(columns[name], f"about.columns.{name}", pair)
    for name in ("wrenches", "contacts", "base"):
        json_codec.items(json_codec.entry(columns, name, "about.columns"), f"about.columns.{name}", json_codec.text)
    if not isinstance(json_codec.entry(about, "versions", at), dict):
        raise json_codec.Wrong("about.versions is not a table")
