"""Many runs of an experiment in one kernel call: what a worker of a sweep computes, on any engine.

A run depends on its own values and seed alone: its random numbers are those of robot 0, and its metrics are computed from its own
rows. So a row of a sweep has the same bits in any chunk, on any engine, and as `condyle lab run --set` gives it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from condyle.apps.lab.experiment import Experiment, Setup
from condyle.apps.lab.metrics import NAMES, metrics
from condyle.apps.lab.run import parameter_name, signals_of
from condyle.errors import CondyleError

Values = dict[str, float]
SETUPS = 4  # compiled experiments that a process keeps
MEMORY = 64 << 20  # bytes of records in a chunk
MOST = 512  # runs in a chunk
OF_ROWS = "reference."  # paths that change the reference and not the loop


@lru_cache(maxsize=SETUPS)
def _setup(text: str) -> Setup:
    return Experiment.from_data(json.loads(text)).setup(threads=1)


@lru_cache(maxsize=256)
def _rows(text: str) -> np.ndarray:
    return Experiment.from_data(json.loads(text)).rows()


class Plan:
    """How the paths of a sweep are given to the kernel: as parameters of the loop, as its seed, as rows, or by another loop."""

    def __init__(self, experiment: Experiment, paths: Sequence[str]) -> None:
        self.base = experiment
        setup = experiment.setup(threads=1)
        self.inside = {path: name for path in paths if (name := parameter_name(setup, path)) is not None}
        self.of_rows = [path for path in paths if path.startswith(OF_ROWS)]
        self.seeded = "seed" in paths
        rest = [path for path in paths if path not in self.inside and path not in self.of_rows and path != "seed"]
        self.built = rest

    def group(self, values: Values) -> str:
        """The experiment that must be built for a run, as text: the same for runs that can share a kernel call."""
        own = {path: values[path] for path in self.built}
        return json.dumps(self._with(own).data(), sort_keys=True)

    def _with(self, own: Mapping[str, Any]) -> Experiment:
        whole = {path: round(value) if is_whole(path) else value for path, value in own.items()}
        return self.base.with_values(whole) if own else self.base

    def job(self, group: str, runs: Sequence[Values]) -> dict[str, Any]:
        """What a worker needs for some runs of one group, as plain data."""
        job: dict[str, Any] = {"experiment": group, "count": len(runs)}
        job["parameters"] = {name: [run[path] for run in runs] for path, name in self.inside.items()}
        if self.seeded:
            job["seeds"] = [round(run["seed"]) for run in runs]
        if self.of_rows:
            base = Experiment.from_data(json.loads(group))
            texts = [json.dumps(base.with_values({p: run[p] for p in self.of_rows}).data(), sort_keys=True) for run in runs]
            job["references"] = texts
        return job

    def chunk_size(self, chosen: int | None = None) -> int:
        """Runs in a chunk: those whose records fit into the memory of one."""
        if chosen is not None:
            return chosen
        arm = self.base.arm
        row = 8 * (2 * arm.nv + arm.nv + (3 * arm.nv if self.of_rows else 0))
        return int(min(max(MEMORY // (row * self.base.control_updates), 8), MOST))


def is_whole(path: str) -> bool:
    """Whether a path takes whole numbers."""
    return path.startswith("rates.") or path == "seed"


def compute(job: Mapping[str, Any]) -> tuple[list[bool], list[list[float]]]:
    """([whether each run reached its end], [its metrics in the order of NAMES]) of the runs of a chunk."""
    setup = _setup(job["experiment"])
    experiment, loop, count = setup.experiment, setup.loop, job["count"]
    every, arm = experiment.rates.control_ticks, experiment.arm
    parameters: dict[str, Any] = dict(experiment.parameters)
    for name, given in job["parameters"].items():
        shape = loop.parameters[name].shape
        values = np.asarray(given, dtype=float)
        if shape and values.ndim == 1:
            values = np.broadcast_to(values[:, None], (count, *shape)).copy()
        parameters[name] = values
    rows = np.stack([_rows(text) for text in job["references"]]) if "references" in job else setup.rows
    seeds: Any = np.array(job["seeds"]) if "seeds" in job else experiment.seed
    out = loop.rollout(
        np.repeat(setup.x0[None], count, axis=0),
        {"reference": rows},
        experiment.ticks,
        seed=seeds,
        robots=np.zeros(count, dtype=int),
        parameters=parameters,
        record=["q", "v", "command"],
        every=every,
        freeze=True,
    )
    n = arm.nv
    found: list[list[float]] = []
    for k in range(count):
        if not out.status.ok[k]:
            found.append([float("nan")] * len(NAMES))
            continue
        # states are recorded after their ticks, and metrics take those before
        q = np.concatenate([setup.x0[None, :n], out["q"][k, :-1]])
        v = np.concatenate([setup.x0[None, n : 2 * n], out["v"][k, :-1]])
        records = {"q": q, "v": v, "reference": rows[k] if rows.ndim == 3 else rows, "command": out["command"][k]}
        s = signals_of(experiment, arm, records)
        measured = metrics(s.t, s.reference, s.response, velocity=s.velocity, torque=s.torque, start=s.start)
        found.append([measured[name] for name in NAMES])
    return [bool(ok) for ok in out.status.ok], found


def compute_safely(job: Mapping[str, Any]) -> tuple[list[bool], list[list[float]]]:
    """As `compute`; runs whose values the experiment refuses are not ok."""
    try:
        return compute(job)
    except CondyleError:
        if job["count"] == 1:
            return [False], [[float("nan")] * len(NAMES)]
    parts = [compute_safely(part) for part in _single(job)]
    return [ok for oks, _ in parts for ok in oks], [row for _, rows in parts for row in rows]


def _single(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The chunk as chunks of one run each."""
    parts = []
    for k in range(job["count"]):
        part: dict[str, Any] = {"experiment": job["experiment"], "count": 1}
        part["parameters"] = {name: given[k : k + 1] for name, given in job["parameters"].items()}
        part |= {name: job[name][k : k + 1] for name in ("seeds", "references") if name in job}
        parts.append(part)
    return parts
