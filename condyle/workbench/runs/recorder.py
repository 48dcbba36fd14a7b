"""A recorder: steps a simulation and keeps every step, in memory and in a file that survives a kill of the process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from math import isfinite
from time import monotonic
from types import TracebackType
from typing import Any

import numpy as np

from condyle.atomic_write import PathLike
from condyle.closed_loop.arguments import references_of, rows_of
from condyle.closed_loop.kernel import recordable
from condyle.closed_loop.loop import Loop
from condyle.errors import FileError, SimulationError
from condyle.methods.planning.obstacle_scene import solids_data
from condyle.methods.planning.obstacle_shapes import Solid
from condyle.robot.model import digest
from condyle.simulate.simulation import Simulation
from condyle.tape import host_info
from condyle.workbench.runs import file
from condyle.workbench.runs.json_codec import DecodeError, EncodeError
from condyle.workbench.runs.loops import CLOCK, OPEN, data_of, plant, state_columns
from condyle.workbench.runs.polylines import Polylines, check_source, encoded, sources_of
from condyle.workbench.runs.run import Run, check_about, made_run
from condyle.workbench.runs.serialize import encode_robot, encode_simulation
from condyle.workbench.runs.signals import columns_of

BLOCK_SECONDS = 0.25  # after which a block is written, however few steps it has
FORMAT = f"condyle run {file.VERSION}"


class Recorder:
    """Steps a loop or a simulation and records it; with a path, in a file from which a kill loses at most the last 64 steps.

    with cd.Recorder(loop, loop.state(q), "run.cdl", title="a walk", record=["imu.rate"]) as recorder:
        recorder.rollout(commands, 1000)
    run = recorder.run

    The run of a loop has the states of all blocks, controls, wrenches, contact forces and references, and of the other signals
    those in `record`. `seed`, `robot` and `parameters` as in Loop.rollout. That of a simulation has what each step was given.
    `polylines` names signals or states of blocks that are drawn as points and lines, such as {"mpc.states": "tool"}.
    """

    def __init__(
        self,
        simulation: Simulation | Loop,
        x0: Any,
        path: PathLike | None = None,
        *,
        title: str = "",
        controller: str = "",
        seed: int | None = None,
        robot: int = 0,
        parameters: Mapping[str, Any] | None = None,
        record: Sequence[str] = (),
        polylines: Polylines = (),
        obstacles: Sequence[Solid] = (),
        about: Mapping[str, Any] | None = None,
        overwrite: bool = False,
    ) -> None:
        if not isinstance(simulation, Simulation | Loop):
            raise SimulationError(f"a recorder needs a Simulation or a Loop, got {simulation!r:.40}")
        self.loop = simulation if isinstance(simulation, Loop) else None
        self.simulation = simulation if isinstance(simulation, Simulation) else plant(simulation)
        if self.loop is None and (robot or parameters or record):
            raise SimulationError("robot, parameters and record belong to runs of a loop; a step takes further signals by name")
        self.seed, self.robot, self.parameters = seed, robot, parameters or {}
        nx = simulation.nx
        try:
            start = np.array(x0, dtype=float)
        except (TypeError, ValueError):
            raise SimulationError(f"x0 must be an array of numbers, got {x0!r:.60}") from None
        if start.shape != (nx,) or not np.all(np.isfinite(start)):
            raise SimulationError(f"x0 must be one state of {nx} finite numbers, got the shape {start.shape}")
        simulation = self.simulation
        self.about = about_of(simulation, title, controller, seed, about or {})
        self._polylines = sources_of(polylines)
        if self._polylines:
            self.about["polylines"] = encoded(self._polylines)
        if obstacles:
            self.about["obstacles"] = solids_data(obstacles)
        if self.loop is not None:
            self._describe(self.loop, tuple(record))
        # refuse now what could not be read again
        file.header(self.about)
        try:
            check_about(self.about, len(self.about["columns"]["x"]))
        except DecodeError as error:
            raise SimulationError(f"a run of robot '{simulation.robot.name:.60}' cannot be recorded: {error}") from None
        self.run: Run | None = None
        self.last: dict[str, np.ndarray] = {}  # outputs of the last tick that `hold` made
        self._start = self._rows(start[None])[0]
        self._now = 0, start  # (k, x) in one assignment, so that an interrupt sees the old pair or the new
        self._layout = file.Layout(len(self._start), simulation.nu, len(simulation.wrench_frames))
        self._extras: dict[str, tuple[int, ...]] | None = None
        self._blocks: list[list[np.ndarray]] = []  # states, controls, wrenches and further signals, BLOCK steps each
        self._since = monotonic()
        self._writer = None if path is None else file.Writer(path, self.about, self._start, overwrite)

    def __getstate__(self) -> dict[str, Any]:
        if self._writer is not None:
            raise FileError(f"{self._writer.path} is written by one recorder, which has no copies: copy what finish() gives")
        return self.__dict__

    @property
    def k(self) -> int:
        """The number of steps so far."""
        return self._now[0]

    @property
    def x(self) -> np.ndarray:
        """The present state."""
        return self._now[1]

    @property
    def recorded(self) -> tuple[str, ...]:
        """The names of the signals of a loop that are kept, besides its states and references."""
        return self._recorded if self.loop is not None else ()

    def step(self, u: Any = None, wrenches: Any = None, **extras: Any) -> np.ndarray:
        """The state after one step under the control u, (nu,), and wrenches, (frames, 6); none are zeros. Of a loop: after one
        tick under the references u.

        `extras`: further signals to keep, numbers or arrays; every step must have the same.
        """
        self._require_open()
        if self.loop is not None:
            if wrenches is not None or extras:
                raise SimulationError("a step of a loop takes its references alone; record=[...] names further signals to keep")
            return self._loop_step(self.loop, u)
        return self.append(self.simulation.step(self.x, u, wrenches=wrenches), u, wrenches, **extras)

    def hold(self, references: Any = None, ticks: int = 1, **clock: float) -> np.ndarray:
        """The state after some ticks of a loop, one after the other, under references that are held; few ticks take less time
        so than in a rollout, and have the same bits.

        `clock`: numbers of the computer's clock to keep with each of these ticks, as signals "clock.NAME", which no replay
        computes.
        """
        self._require_open()
        loop = self.loop
        if loop is None:
            raise SimulationError(
                "references are held in a loop; step a simulation, or make a loop of it, cd.Loop(simulation, ...)"
            )
        given = references_of(loop.inputs, references)
        # one reference alone is passed as an array, which is faster
        one: Any = next(iter(given.values())) if len(given) == 1 else given or None
        done: list[tuple[np.ndarray, dict[str, np.ndarray]]] = []
        x, keys = self.x, self._keys()
        try:
            for _ in range(ticks):
                found = loop.step(x, one, record=self._recorded, **keys)
                x, records = found if self._recorded else (found, {})
                done.append((x, records))
                self.last = records
        finally:
            # what was made before an error is kept
            extra = {f"{CLOCK}{name}": float(value) for name, value in clock.items()}
            while done:
                n = min(file.BLOCK - self.k % file.BLOCK, len(done))
                part, done = done[:n], done[n:]
                rows = {name: np.array([records[name] for _, records in part]) for name in self._recorded}
                rows |= {name: np.full(n, value) for name, value in extra.items()}
                repeated = {name: np.broadcast_to(value, (n, *value.shape)) for name, value in given.items()}
                self._append_rows(np.array([state for state, _ in part]), rows, repeated)
        return self.x

    def outputs(self, references: Any = None) -> dict[str, np.ndarray]:
        """The signals that the next tick of a loop would have under these references, by name; nothing is recorded."""
        self._require_open()
        if self.loop is None or not self._recorded:
            return {}
        found: dict[str, np.ndarray] = self.loop.step(self.x, references, record=self._recorded, freeze=True, **self._keys())[1]
        return found

    def rollout(self, references: Any = None, steps: int | None = None) -> np.ndarray:
        """The state after some ticks of a loop, in one kernel for each block of the file; references as in Loop.rollout."""
        self._require_open()
        loop = self.loop
        if loop is None:
            raise SimulationError(
                "a rollout is recorded of a loop; step a simulation, or make a loop of it, cd.Loop(simulation, ...)"
            )
        count, rows, hold = rows_of(references_of(loop.inputs, references), steps, 1)
        rows = {name: np.repeat(value, hold, axis=-2) for name, value in rows.items()}
        if any(value.ndim != 2 for value in rows.values()):
            raise SimulationError("a recorder has one robot; the references have more than two axes")
        done = 0
        while done < count:
            n = min(file.BLOCK - self.k % file.BLOCK, count - done)
            part = {name: value[done : done + n] for name, value in rows.items()}
            x = self.x
            out = loop.rollout(x, part or None, n, record=["x", *self._recorded], freeze=True, **self._keys())
            # a robot that fails stays as it is: what came before is kept
            tick = loop.layout["tick"][0]
            made = int((out.x[tick] - x[tick])[0])
            records = {name: value[:made] for name, value in out.items()}
            self._append_rows(records.pop("x"), records, {name: value[:made] for name, value in part.items()})
            loop._require_ok(out.status, x)
            done += n
        return self.x

    def compile(self, references: Any = None) -> None:
        """None; the kernel of a loop's rollouts is compiled, for a tick under the first of these references."""
        if self.loop is not None:
            _, rows, _ = rows_of(references_of(self.loop.inputs, references), None, 1)
            first = {name: value[:1] for name, value in rows.items()}
            self.loop.rollout(self.x, first or None, 1, record=["x", *self._recorded], freeze=True, **self._keys())

    def append(self, x1: np.ndarray, u: Any = None, wrenches: Any = None, **extras: Any) -> np.ndarray:
        """The state x1, recorded as the one after a step of the simulation under u and wrenches, which somebody else made."""
        if x1.ndim != 1:
            raise SimulationError(f"a recorder takes one control and one set of wrenches a step, got u of shape {np.shape(u)}")
        if self._extras is None or extras or self._extras:
            extras = self._checked(extras)
        index, n = divmod(self.k, file.BLOCK)
        if index == len(self._blocks):
            self._blocks.append([np.zeros((file.BLOCK, *shape)) for shape in self._layout.shapes])
        block = self._blocks[index]
        block[0][n] = x1
        for what, row, value in (("u", block[1], u), ("wrenches", block[2], wrenches)):
            row[n] = 0.0 if value is None else value
            if value is not None and not all(map(isfinite, row[n].ravel().tolist())):
                raise SimulationError(f"{what} of step {self.k:,} must be finite numbers, got {value!r:.60}")
        for row, value in zip(block[3:], extras.values(), strict=True):
            row[n] = value
        self._moved(1, x1)
        return x1

    def append_tick(self, x1: np.ndarray, records: Mapping[str, np.ndarray], references: Mapping[str, np.ndarray]) -> None:
        """None; x1 is recorded as the state after a tick of the loop, which somebody else made, with its signals."""
        self._require_open()
        if self.loop is None:
            raise SimulationError("a tick is recorded of a loop; of a simulation, append a step")
        given = {name: np.atleast_2d(references[name]) for name in self.loop.inputs}
        self._append_rows(x1[None], {name: records[name][None] for name in self._recorded}, given)

    def finish(self, stopped: str | None = None) -> Run:
        """The run; its file, if there is one, is complete and closed. `stopped`: why it ended early, for about["stopped"]."""
        return self._finished(stopped)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """None; the run is finished, and about["stopped"] has the error that ended the block, if any."""
        known = error is None or (self._writer is not None and self._writer.failed is error)
        self._finished(None if known else f"{type(error).__name__}: {error}"[:1000])

    # ---- inside

    def _require_open(self) -> None:
        if self.run is not None:
            raise SimulationError("this recorder has finished: make another one for another run")

    def _moved(self, steps: int, x1: np.ndarray) -> None:
        """None; the steps that are in the blocks now are part of the run."""
        x1.setflags(write=False)  # the next step starts from it
        self._now = self.k + steps, x1
        if self.k % file.BLOCK == 0 or monotonic() - self._since > BLOCK_SECONDS:
            self._flush()

    def _describe(self, loop: Loop, record: tuple[str, ...]) -> None:
        """None; the names of what is recorded of a loop."""
        own = [name for name in loop.plan.signals if name in ("wrenches", "contact_forces") or name.startswith(OPEN)]
        drawn = [name for name in self._polylines if name not in loop.layout]
        self._recorded = tuple(dict.fromkeys([*(["u"] if self.simulation.nu else []), *own, *record, *drawn]))
        shapes = recordable(loop, self._recorded)
        for name, shape in recordable(loop, tuple(self._polylines)).items():
            check_source(name, self._polylines[name], shape, self.simulation.robot)
        taken = [name for name in shapes if name in loop.inputs and name != "u"]
        if taken:
            raise SimulationError(f"the loop has a signal and a reference '{taken[0]}': give the block another name")
        parameters = {name: np.asarray(value, dtype=float).tolist() for name, value in self.parameters.items()}
        self.about["loop"] = data_of(loop, self.robot, parameters)
        self.about["seed"] = 0 if self.seed is None else int(self.seed)
        self.about["columns"]["x"] += state_columns(loop)

    def _rows(self, packed: np.ndarray) -> np.ndarray:
        """The rows of the file for packed states: those of the simulation, then of blocks."""
        if self.loop is None or not self.simulation.timed:
            return packed
        at = self.loop.layout["tick"][0].start
        return np.concatenate([packed[:, :at], packed[:, at : at + 1] * self.simulation.substeps, packed[:, at:]], axis=1)

    def _keys(self) -> dict[str, Any]:
        return {"seed": self.about["seed"], "robots": self.robot, "parameters": self.parameters}

    def _loop_step(self, loop: Loop, references: Any) -> np.ndarray:
        given = {name: value[None] for name, value in references_of(loop.inputs, references).items()}
        x1, records = loop.step(self.x, references, record=self._recorded, **self._keys())
        self._append_rows(x1[None], {name: value[None] for name, value in records.items()}, given)
        return self.x

    def _append_rows(self, x: np.ndarray, records: dict[str, np.ndarray], references: dict[str, np.ndarray]) -> None:
        """None; these ticks, which lie in one block, are recorded."""
        if not len(x):
            return
        u, wrenches = records.pop("u", np.zeros((len(x), 0))), records.pop("wrenches", np.zeros((len(x), 0, 6)))
        extras = {**references, **records}
        if self._extras is None:
            self._extras = {name: value.shape[1:] for name, value in extras.items()}
            self._layout = file.with_extras(self._layout, [[name, list(shape)] for name, shape in self._extras.items()])
        index, n = divmod(self.k, file.BLOCK)
        if index == len(self._blocks):
            self._blocks.append([np.zeros((file.BLOCK, *shape)) for shape in self._layout.shapes])
        for rows, value in zip(self._blocks[index], (self._rows(x), u, wrenches, *extras.values()), strict=True):
            rows[n : n + len(x)] = value
        self._moved(len(x), np.array(x[-1]))

    def _checked(self, extras: dict[str, Any]) -> dict[str, np.ndarray]:
        """The further signals as arrays in their order, the same at every step."""
        arrays = {}
        for name, value in extras.items():
            try:
                arrays[name] = np.asarray(value, dtype=float)
            except (TypeError, ValueError):
                raise SimulationError(f"the signal '{name}' must be numbers, got {value!r:.40}") from None
            if not np.isfinite(arrays[name]).all():
                raise SimulationError(f"the signal '{name}' of step {self.k:,} must be finite numbers, got {value!r:.60}")
        shapes = {name: array.shape for name, array in arrays.items()}
        if self._extras is None:
            for name, source in self._polylines.items():
                if name not in shapes:
                    raise SimulationError(f"polyline '{name:.60}' is no signal of this run: give it with every step, by its name")
                check_source(name, source, shapes[name], self.simulation.robot)
            try:
                self._layout = file.with_extras(self._layout, [[name, list(shape)] for name, shape in shapes.items()])
            except DecodeError as error:
                raise SimulationError(f"the further signals of a run cannot be recorded: {error}") from None
            self._extras = shapes
        if shapes != self._extras:
            raise SimulationError(
                f"every step of a run has the same further signals; the first had {self._extras or 'none'}, "
                f"step {self.k:,} has {shapes or 'none'}"
            )
        return {name: arrays[name] for name in self._extras}

    def _flush(self) -> None:
        """None; all steps are in the file, if there is one, also those that an interrupt kept from it before."""
        self._since = monotonic()
        while self._writer is not None and (first := self._writer.written.steps) < self.k:
            index, n = divmod(first, file.BLOCK)
            self._writer.block([array[n : self.k - first + n] for array in self._blocks[index]], self._extras or {})

    def _finished(self, stopped: str | None = None) -> Run:
        if self.run is not None:
            return self.run
        try:
            if self._writer is None or self._writer.failed is None:
                self._flush()
        finally:
            self.run = self._run(stopped)
            if self._writer is not None:
                self._writer.close(file.end(self.run) if self._writer.written.steps == self.k else None)
        return self.run

    def _run(self, stopped: str | None) -> Run:
        parts = [np.zeros((0, *shape)) for shape in self._layout.shapes]
        if self.k:
            parts = [np.concatenate(p)[: self.k] for p in zip(*self._blocks, strict=True)]
        about = {**self.about, "steps": self.k, **({} if stopped is None else {"stopped": stopped})}
        extras = dict(zip(self._extras or {}, parts[3:], strict=True))
        path = None if self._writer is None else self._writer.path
        run = made_run(about, np.concatenate([self._start[None], parts[0]]), parts[1], parts[2], extras, None, path)
        run.__dict__["simulation"] = self.simulation
        return run


def about_of(simulation: Simulation, title: str, controller: str, seed: int | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """All that is known of a run before its first step, as JSON data: no names of people or folders."""
    data: dict[str, Any] = {}
    try:
        data["simulation_data"] = encode_simulation(simulation)
    except EncodeError as error:
        data = {"simulation_data": None, "simulation_missing": str(error), "robot_data": None}
        with suppress(EncodeError):
            data["robot_data"] = encode_robot(simulation.robot)
    found = host_info.versions()
    about = {
        "format": FORMAT,
        "title": str(title),
        "robot": simulation.robot.name,
        "controller": str(controller),
        "seed": None if seed is None else int(seed),
        "dt": simulation.dt,
        "nq": simulation.robot.nq,
        "nv": simulation.robot.nv,
        "columns": columns_of(simulation),
        "robot_hash": digest(simulation.robot.model),
        "world_hash": simulation.hash,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {name: str(found[name]) for name in ("condyle", "numpy", "python", "llvmlite", "llvm")},
        "computer": {"cpu": host_info.processor(), "target": found["cpu"], "lanes": found["lanes"], "threads": found["threads"]},
        **data,
    }
    taken = [
        name for name in more if name in about or name in ("loop", "polylines", "steps", "stopped", "sha256", "extras", "lost")
    ]
    if taken:
        raise SimulationError(f"about= must not have the name '{taken[0]}', which the recorder sets itself: take another name")
    return {**about, **more}
