"""A recorder: steps a simulation and keeps every step, in memory and in a file that survives a kill of the process."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from math import isfinite
from time import monotonic
from types import TracebackType
from typing import Any

import numpy as np

from condyle.atomic_write import PathLike
from condyle.errors import SimulationError
from condyle.robot.model import digest
from condyle.runs import file
from condyle.runs.json_codec import DecodeError, EncodeError
from condyle.runs.run import Run, check_about
from condyle.runs.serialize import encode_robot, encode_simulation
from condyle.runs.signals import columns_of
from condyle.simulate.simulation import Simulation
from condyle.tape import host_info

BLOCK_SECONDS = 0.25  # after which a block is written, however few steps it has
FORMAT = f"condyle run {file.VERSION}"


class Recorder:
    """Steps a simulation and records it; with a path, in a file from which a kill at any moment loses at most the last block.

    with cd.Recorder(simulation, x0, "run.cdl", title="a fall") as recorder:
        for k in range(1000):
            recorder.step(control(recorder.x))
    run = recorder.run
    """

    def __init__(
        self,
        simulation: Simulation,
        x0: Any,
        path: PathLike | None = None,
        *,
        title: str = "",
        controller: str = "",
        seed: int | None = None,
        about: Mapping[str, Any] | None = None,
        overwrite: bool = False,
    ) -> None:
        if not isinstance(simulation, Simulation):
            raise SimulationError(f"a recorder needs a Simulation, got {simulation!r:.40}")
        self.simulation = simulation
        try:
            start = np.array(x0, dtype=float)
        except (TypeError, ValueError):
            raise SimulationError(f"x0 must be an array of numbers, got {x0!r:.60}") from None
        if start.shape != (simulation.nx,) or not np.all(np.isfinite(start)):
            raise SimulationError(f"x0 must be one state of {simulation.nx} finite numbers, got the shape {start.shape}")
        self.about = about_of(simulation, title, controller, seed, about or {})
        # refuse now what could not be read again
        file.header(self.about)
        try:
            check_about(self.about, simulation.nx)
        except DecodeError as error:
            raise SimulationError(f"a run of robot '{simulation.robot.name:.60}' cannot be recorded: {error}") from None
        self.run: Run | None = None
        self._start = start.copy()
        self._now = 0, start  # (k, x) in one assignment, so that an interrupt sees the old pair or the new
        self._layout = file.Layout(simulation.nx, simulation.nu, len(simulation.wrench_frames))
        self._extras: dict[str, tuple[int, ...]] | None = None
        self._blocks: list[list[np.ndarray]] = []  # states, controls, wrenches and further signals, BLOCK steps each
        self._since = monotonic()
        self._writer = None if path is None else file.Writer(path, self.about, self._start, overwrite)

    @property
    def k(self) -> int:
        """The number of steps so far."""
        return self._now[0]

    @property
    def x(self) -> np.ndarray:
        """The present state."""
        return self._now[1]

    def step(self, u: Any = None, wrenches: Any = None, **extras: Any) -> np.ndarray:
        """The state after one step under the control u, (nu,), and wrenches, (frames, 6); none are zeros.

        `extras`: further signals to keep, numbers or arrays; every step must have the same.
        """
        if self.run is not None:
            raise SimulationError("this recorder has finished: make another one for another run")
        x1: np.ndarray = self.simulation.step(self.x, u, wrenches=wrenches)
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
        x1.setflags(write=False)  # the next step starts from it
        self._now = self.k + 1, x1
        if n + 1 == file.BLOCK or monotonic() - self._since > BLOCK_SECONDS:
            self._flush()
        return x1

    def finish(self) -> Run:
        """The run; its file, if there is one, is complete and closed."""
        return self._finished()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """None; the run is finished, and about["stopped"] has the error that ended the block, if any."""
        known = error is None or (self._writer is not None and self._writer.failed is error)
        self._finished(None if known else f"{type(error).__name__}: {error}"[:1000])

    # ---- inside

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
        run = Run(about, np.concatenate([self._start[None], parts[0]]), parts[1], parts[2], extras, None, path)
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
    taken = [name for name in more if name in about or name in ("steps", "stopped", "sha256", "extras", "lost")]
    if taken:
        raise SimulationError(f"about= must not have the name '{taken[0]}', which the recorder sets itself: take another name")
    return {**about, **more}
