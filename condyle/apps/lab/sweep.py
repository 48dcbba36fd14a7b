"""Sweeps: an experiment with many values of its parameters, by a grid, at random, or both, into one table.

    found = sweep(experiment, grid={"controller.kp": np.linspace(100, 400, 7)}, path="kp.cds")
    found.values, found["rms_error"]

Every run has an id, the hash of its inputs. Rows are appended to a file as they are computed; the same sweep started again goes
on where it was killed, and the final table does not depend on engine, number of workers, batch size or interruptions.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from time import monotonic
from typing import Any
from zlib import crc32

import numpy as np

from condyle.apps.lab import engines
from condyle.apps.lab.chunks import Plan, Values, is_whole
from condyle.apps.lab.experiment import Experiment
from condyle.apps.lab.experiment_data import flat, toml_data
from condyle.apps.lab.metrics import NAMES
from condyle.apps.lab.sweep_table import TableFile, csv_text, write_parquet
from condyle.atomic_write import PathLike, write_bytes
from condyle.errors import ControlError
from condyle.robot.names import nearest, quoted
from condyle.tape.function import Function, function
from condyle.tape.host_info import available_threads

MAX_RUNS = 10_000_000
MAX_BUILDS = 256  # distinct loops of one sweep
DISTRIBUTIONS = ("uniform", "log_uniform", "normal")
Say = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Draw:
    """A distribution: uniform(a, b), log_uniform(a, b), or normal(a, b) with mean a and standard deviation b."""

    kind: str
    a: float
    b: float

    def __post_init__(self) -> None:
        if self.kind not in DISTRIBUTIONS:
            raise ControlError(f"there is no distribution '{self.kind!s:.40}'{nearest(self.kind, DISTRIBUTIONS)}")
        finite = all(isinstance(x, int | float) and math.isfinite(x) for x in (self.a, self.b))
        ordered = finite and (self.b >= 0.0 if self.kind == "normal" else self.a < self.b)
        if not ordered or (self.kind == "log_uniform" and self.a <= 0.0):
            wanted = {"normal": "a mean and a deviation from 0 up", "uniform": "low < high", "log_uniform": "0 < low < high"}
            raise ControlError(f"the distribution {self.kind} needs {wanted[self.kind]}, got {self.a!r} and {self.b!r}")

    def value(self, seed: int, sample: int, path: str) -> float:
        """The value of a sample: a function of the seed, the number of the sample and the path alone."""
        key = np.array([seed, (crc32(path.encode()) << 32) | sample], dtype=np.uint64)
        rng = np.random.Generator(np.random.Philox(key=key))
        if self.kind == "normal":
            return float(self.a + self.b * rng.standard_normal())
        part = rng.random()
        if self.kind == "uniform":
            return float(self.a + (self.b - self.a) * part)
        low, high = (float(x) for x in _log()(np.array([self.a, self.b])))
        return float(_exp()(np.array(low + (high - low) * part)))


@cache
def _log() -> Function:
    return function(lambda x: np.log(x), x=())


@cache
def _exp() -> Function:
    return function(lambda x: np.exp(x), x=())


@dataclass(frozen=True)
class SweepSpec:
    """What is swept: a grid {path: values}, and `samples` random draws {path: Draw} of a seed at every point of the grid."""

    grid: Mapping[str, tuple[float, ...]]
    random: Mapping[str, Draw]
    samples: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.grid and not self.random:
            raise ControlError("a sweep needs something to vary: --grid controller.kp=100:400:7, or --random, or both")
        twice = [path for path in self.grid if path in self.random]
        if twice:
            raise ControlError(f"'{twice[0]}' is in the grid and random at once: leave one out")
        if self.samples < 1 or (not self.random and self.samples > 1 and "seed" not in self.grid):
            raise ControlError(f"samples must be 1 or more, and needs --random if it is more than 1; got {self.samples}")
        if self.count > MAX_RUNS:
            raise ControlError(f"the sweep has {self.count:,} runs, more than {MAX_RUNS:,}: make the grid coarser")

    @property
    def paths(self) -> list[str]:
        """What varies, the grid first."""
        return [*self.grid, *self.random]

    @property
    def count(self) -> int:
        """How many runs there are."""
        return math.prod(len(values) for values in self.grid.values()) * self.samples

    def runs(self) -> list[Values]:
        """The values of every run."""
        found = []
        for point in itertools.product(*self.grid.values()):
            for sample in range(self.samples):
                own = dict(zip(self.grid, point, strict=True))
                own |= {path: draw.value(self.seed, sample, path) for path, draw in self.random.items()}
                found.append({path: float(round(value)) if is_whole(path) else value for path, value in own.items()})
        return found

    def data(self) -> dict[str, Any]:
        """It as plain data."""
        random = {path: [draw.kind, draw.a, draw.b] for path, draw in self.random.items()}
        grid = {path: list(values) for path, values in self.grid.items()}
        return {"grid": grid, "random": random, "samples": self.samples, "seed": self.seed}


def run_id(experiment: Mapping[str, Any], values: Values) -> str:
    """The id of a run: the first 16 digits of the sha256 of all its inputs."""
    text = json.dumps([experiment, values], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class SweepResult:
    """The table of a sweep: `values` {path: (runs,)}, result["rms_error"] (runs,), `ok` (runs,), in the order of the ids."""

    experiment: Experiment
    spec: SweepSpec
    ids: list[str]
    values: dict[str, np.ndarray]
    ok: np.ndarray
    metrics: np.ndarray  # (runs, metrics)
    csv: str
    lost: str | None = None
    computed: int = 0  # runs of this call; the others were in the file
    seconds: float = 0.0

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in NAMES:
            raise ControlError(f"a sweep has no metric '{name!s:.60}'{nearest(name, NAMES)}")
        return self.metrics[:, NAMES.index(name)]

    @cached_property
    def hash(self) -> str:
        """The sha256 of the table as CSV."""
        return hashlib.sha256(self.csv.encode()).hexdigest()

    def best(self, name: str = "score") -> int:
        """The row with the smallest value of a metric."""
        column = np.where(self.ok & np.isfinite(self[name]), self[name], np.inf)
        return int(np.argmin(column))


def sweep(
    experiment: Experiment,
    *,
    grid: Mapping[str, Sequence[float]] | None = None,
    random: Mapping[str, Draw] | None = None,
    samples: int = 1,
    seed: int = 0,
    path: PathLike | None = None,
    engine: str = "local",
    workers: int | None = None,
    batch: int | None = None,
    address: str | None = None,
    overwrite: bool = False,
    say: Say | None = None,
) -> SweepResult:
    """The table of all runs. `path`: the file in which rows are kept (.cds); the same call goes on from it.

    A CSV is written beside it.

    `engine`: "local", "ray" or "dask", with so many `workers` (all cores by default). `batch`: runs in one kernel call.
    """
    lists = {name: tuple(float(x) for x in values) for name, values in (grid or {}).items()}
    spec = SweepSpec(lists, dict(random or {}), samples, seed)
    return run_sweep(
        experiment, spec, path, engine=engine, workers=workers, batch=batch, address=address, overwrite=overwrite, say=say
    )


def run_sweep(
    experiment: Experiment,
    spec: SweepSpec,
    path: PathLike | None = None,
    *,
    engine: str = "local",
    workers: int | None = None,
    batch: int | None = None,
    address: str | None = None,
    overwrite: bool = False,
    say: Say | None = None,
) -> SweepResult:
    """As `sweep`, of a specification."""
    compute = engines.engine(engine)
    workers = workers or available_threads()
    if batch is not None and batch < 1:
        raise ControlError(f"batch must be a whole number of runs from 1 up, got {batch}")
    runs = spec.runs()
    _check_first(experiment, spec, runs)
    plan = Plan(experiment, spec.paths)
    data = experiment.data()
    ids = [run_id(data, values) for values in runs]
    head = {"experiment": data, "sweep": spec.data(), "metrics": list(NAMES), "runs": len(runs)}
    begin = monotonic()
    with TableFile(path, head, overwrite=overwrite) if path is not None else _Memory() as table:
        todo = [k for k in range(len(runs)) if k not in table.rows]
        jobs, members = _jobs(plan, runs, todo, plan.chunk_size(batch))
        done = len(runs) - len(todo)
        if say is not None:
            say("compiling", 0, 1)
        for number, (reached, measured) in compute(jobs, workers, address):
            table.append(members[number], reached, np.array(measured))
            done += len(reached)
            if say is not None:
                rate = (done - len(runs) + len(todo)) / max(monotonic() - begin, 1e-9)
                say(f"{rate:,.0f} runs/s", done, len(runs))
        rows, lost = dict(table.rows), table.lost
    text = csv_text(ids, spec.paths, [[run[p] for p in spec.paths] for run in runs], rows)
    order = sorted(range(len(runs)), key=lambda k: ids[k])
    values = {p: np.array([runs[k][p] for k in order]) for p in spec.paths}
    if path is not None:
        write_bytes(Path(path).with_suffix(".csv"), text.encode())
        write_parquet(
            Path(path).with_suffix(".parquet"), ids, spec.paths, np.array([[run[p] for p in spec.paths] for run in runs]), rows
        )
    ok = np.array([bool(rows[k]["ok"]) for k in order])
    found = np.array([rows[k]["metrics"] for k in order])
    return SweepResult(experiment, spec, [ids[k] for k in order], values, ok, found, text, lost, len(todo), monotonic() - begin)


def _check_first(experiment: Experiment, spec: SweepSpec, runs: Sequence[Values]) -> None:
    """Raise for a path that the experiment does not have, before anything is computed."""
    setup = experiment.setup()
    for path in spec.paths:
        name = path.removeprefix("plant.").removeprefix("wrenches.")
        if name in setup.loop.parameters:
            try:
                for value in {runs[0][path], runs[-1][path]}:
                    setup.loop.parameters.checked({name: np.full(setup.loop.parameters[name].shape, value)}, ControlError)
            except ControlError as error:
                raise ControlError(f"'{path}': {error}") from None
            continue
        value = runs[0][path]
        whole = round(value) if is_whole(path) else value
        try:
            experiment.with_values({path: whole}).setup()
        except ControlError as error:
            known = [n for n in setup.loop.parameters if n.partition(".")[0] not in ("dt", "contact")]
            near = nearest(path, known)
            advice = near if "did you mean" in near else ""
            raise ControlError(f"{quoted(path)} cannot be swept{advice}: {error}") from None


def _jobs(plan: Plan, runs: Sequence[Values], todo: Sequence[int], size: int) -> tuple[engines.Jobs, dict[int, list[int]]]:
    """(jobs, the runs of each): runs of one loop in chunks."""
    groups: dict[str, list[int]] = {}
    texts: dict[tuple[float, ...], str] = {}
    for k in todo:
        key = tuple(runs[k][path] for path in plan.built)
        if key not in texts:
            texts[key] = plan.group(runs[k])
            if len(texts) > MAX_BUILDS:
                raise ControlError(
                    f"the sweep needs more than {MAX_BUILDS} loops to be compiled, because {', '.join(plan.built)} is no "
                    "parameter of the loop: sweep fewer values of it"
                )
        groups.setdefault(texts[key], []).append(k)
    jobs: list[tuple[int, dict[str, Any]]] = []
    members: dict[int, list[int]] = {}
    for group, own in groups.items():
        for first in range(0, len(own), size):
            part = own[first : first + size]
            members[len(jobs)] = part
            jobs.append((len(jobs), plan.job(group, [runs[k] for k in part])))
    return jobs, members


class _Memory:
    """A table without a file."""

    def __init__(self) -> None:
        self.rows: dict[int, Any] = {}
        self.lost: str | None = None

    def append(self, indices: Sequence[int], ok: Sequence[bool], values: np.ndarray) -> None:
        """None; the rows are kept."""
        self.rows |= {k: {"ok": o, "metrics": v} for k, o, v in zip(indices, ok, values, strict=True)}

    def __enter__(self) -> _Memory:
        return self

    def __exit__(self, *_: Any) -> None:
        pass


# ---- what is written in files and on command lines


def grid_values(text: str) -> tuple[float, ...]:
    """The values of "100:400:7" (low, high, count), "log:1:100:5" (equal ratios) or "100,200,400"."""
    wanted = f"write low:high:count, log:low:high:count or a list like 1,2,4; got {quoted(text)}"
    parts = text.split(":")
    logarithmic = parts[0] == "log"
    parts = parts[1:] if logarithmic else parts
    try:
        if len(parts) == 1 and not logarithmic:
            found = [float(x) for x in text.split(",")]
        else:
            low, high, count = float(parts[0]), float(parts[1]), int(parts[2])
            if len(parts) != 3 or count < 1 or (logarithmic and not low > 0.0):
                raise ValueError
            low, high = (float(x) for x in _log()(np.array([low, high]))) if logarithmic else (low, high)
            found = [low + (high - low) * k / max(count - 1, 1) for k in range(count)]
            found = [float(x) for x in _exp()(np.array(found))] if logarithmic else found
    except (ValueError, IndexError):
        raise ControlError(f"a grid of values: {wanted}") from None
    if not all(map(math.isfinite, found)):
        raise ControlError(f"a grid of values: {wanted}")
    return tuple(found)


def draw_of(text: str) -> Draw:
    """The distribution of "uniform:0.2:0.6", "log_uniform:1:100" or "normal:1.0:0.1"."""
    parts = text.split(":")
    try:
        kind, a, b = parts[0].replace("-", "_"), float(parts[1]), float(parts[2])
        if len(parts) != 3:
            raise ValueError
    except (ValueError, IndexError):
        raise ControlError(f"a distribution is written like uniform:0.2:0.6 or normal:1.0:0.1; got {quoted(text)}") from None
    return Draw(kind, a, b)


def read_sweep(path: PathLike) -> tuple[Experiment, SweepSpec]:
    """(experiment, what is swept) of a TOML file:

    experiment = "lab.toml"
    samples = 100
    seed = 1
    [grid]
    "controller.kp" = "100:400:7"             # or a list of numbers
    [random]
    "plant.wrist_3.mass" = "uniform:0.3:0.5"
    """
    data = toml_data(path)
    known = ["experiment", "samples", "seed", "grid", "random"]
    for key in data:
        if key not in known:
            raise ControlError(f"{path}: has no key {quoted(key)}{nearest(key, known)}")
    name = data.get("experiment")
    if not isinstance(name, str):
        raise ControlError(f'{path}: experiment must be the name of a file, like "lab.toml", got {quoted(repr(name))}')
    for key in ("samples", "seed"):
        if not isinstance(data.get(key, 1), int) or isinstance(data.get(key, 1), bool):
            raise ControlError(f"{path}: {key} must be a whole number, got {quoted(repr(data[key]))}")
    try:
        grid = {p: _grid_entry(p, value) for p, value in _flat_table(data, "grid").items()}
        random = {p: _random_entry(p, value) for p, value in _flat_table(data, "random").items()}
        spec = SweepSpec(grid, random, data.get("samples", 1), data.get("seed", 0))
    except ControlError as error:
        raise ControlError(f"{path}: {error}") from None
    return Experiment.read(Path(path).parent / name), spec


def _flat_table(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = data.get(key, {})
    if not isinstance(found, Mapping):
        raise ControlError(f"[{key}] must be a table, got {quoted(repr(found))}")
    return flat(found)


def _grid_entry(path: str, value: Any) -> tuple[float, ...]:
    if isinstance(value, str):
        return grid_values(value)
    numbers = value if isinstance(value, list) else [value]
    if not numbers or not all(isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x) for x in numbers):
        raise ControlError(f'[grid] {path} must be a list of numbers or "low:high:count", got {quoted(repr(value))}')
    return tuple(float(x) for x in numbers)


def _random_entry(path: str, value: Any) -> Draw:
    if not isinstance(value, str):
        raise ControlError(f'[random] {path} must be a text like "uniform:0.2:0.6", got {quoted(repr(value))}')
    return draw_of(value)
