"""Search for parameters of an experiment's loop that make its score small: by a grid, with Optuna, or by our gradients.

    found = tune(experiment, ["controller.kp", "controller.kd"], method="gradient", trials=30)
    found.best, found.score, found.values

Every search is over the logarithm of a factor: of the value in the file, from 1/5 to 5 by default, or of a range that is given. A
parameter with one number for each joint has one factor for all of them, or with [*] behind its name one for each.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condyle.apps.lab.chunks import compute_safely
from condyle.apps.lab.experiment import Experiment, Setup
from condyle.apps.lab.metrics import NAMES, segments
from condyle.apps.lab.run import parameter_name
from condyle.errors import ControlError, require
from condyle.robot.names import nearest, quoted

TRIALS = 30
FACTOR = 5.0  # of the value in the file, up and down
BATCH = 6  # trials of one generation of Optuna
STARTS = 3  # of the gradient, in one kernel
RATE = 0.35  # first step of the gradient, in the logarithm
EPSILON, SHARPNESS = 1e-4, 200.0  # of the smooth score: rad or m, 1
METHODS = ("grid", "optuna", "gradient")
Say = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Variable:
    """A parameter that is searched: its path and name in the loop, its value in the file, and the range of its factor."""

    path: str
    name: str
    base: np.ndarray
    each: bool
    low: float
    high: float

    @property
    def size(self) -> int:
        """How many numbers are searched for it."""
        return int(self.base.size) if self.each else 1

    def value(self, factors: np.ndarray) -> np.ndarray:
        """(..., *shape): the parameter for factors (..., size)."""
        found: np.ndarray = self.base * (factors if self.each else factors[..., :1] if self.base.ndim else factors[..., 0])
        return found


@dataclass(frozen=True)
class Trial:
    """Factors of all variables, and the score."""

    factors: tuple[float, ...]
    score: float


@dataclass(frozen=True)
class TuneResult:
    """What a search found. `values`: {path: value} of the best trial; `trials`: all of them; the first is the file's."""

    method: str
    experiment: Experiment
    variables: tuple[Variable, ...]
    trials: tuple[Trial, ...]

    @property
    def best(self) -> Trial:
        """The trial with the smallest score, the first of them."""
        return min(self.trials, key=lambda trial: trial.score)

    @property
    def start(self) -> float:
        """The score of the file."""
        return self.trials[0].score

    @property
    def score(self) -> float:
        """The smallest score."""
        return self.best.score

    @property
    def values(self) -> dict[str, Any]:
        """{path: value} of the best trial."""
        found, at = {}, 0
        for variable in self.variables:
            part = np.array(self.best.factors[at : at + variable.size])
            found[variable.path] = variable.value(part).tolist()
            at += variable.size
        return found

    @property
    def tuned(self) -> Experiment:
        """The experiment with these values."""
        return self.experiment.with_values(self.values)

    def history(self) -> np.ndarray:
        """The smallest score after each trial."""
        found: np.ndarray = np.minimum.accumulate([trial.score for trial in self.trials])
        return found


class Objective:
    """The scores of many sets of factors in one kernel call."""

    def __init__(self, experiment: Experiment, variables: Sequence[Variable], seconds: float, warm_up: float) -> None:
        self.experiment = replace(experiment, duration=seconds, warm_up=warm_up)
        self.variables, self.text = tuple(variables), json.dumps(self.experiment.data(), sort_keys=True)
        self.size = sum(variable.size for variable in variables)
        self.trials: list[Trial] = []

    @property
    def low(self) -> np.ndarray:
        """The logarithms of the smallest factors."""
        return np.concatenate([np.full(v.size, math.log(v.low)) for v in self.variables])

    @property
    def high(self) -> np.ndarray:
        """The logarithms of the largest factors."""
        return np.concatenate([np.full(v.size, math.log(v.high)) for v in self.variables])

    def parameters(self, factors: np.ndarray) -> dict[str, np.ndarray]:
        """{name in the loop: (count, *shape)} of factors (count, size)."""
        found, at = {}, 0
        for variable in self.variables:
            found[variable.name] = variable.value(factors[:, at : at + variable.size])
            at += variable.size
        return found

    def __call__(self, factors: np.ndarray) -> np.ndarray:
        """The scores (count,); inf for runs that do not reach their end."""
        given = {name: value.tolist() for name, value in self.parameters(factors).items()}
        ok, rows = compute_safely({"experiment": self.text, "count": len(factors), "parameters": given})
        column = NAMES.index("score")
        scores = np.array(
            [row[column] if good and math.isfinite(row[column]) else math.inf for good, row in zip(ok, rows, strict=True)]
        )
        self.trials += [Trial(tuple(map(float, f)), float(s)) for f, s in zip(factors, scores, strict=True)]
        return scores


def tune(
    experiment: Experiment,
    parameters: Sequence[str],
    *,
    method: str = "optuna",
    trials: int = TRIALS,
    seconds: float | None = None,
    warm_up: float | None = None,
    seed: int = 0,
    say: Say | None = None,
) -> TuneResult:
    """The result of a search; `parameters`: "controller.kp", "controller.kp[*]", or with a range "controller.kp=100:800".

    `seconds`, `warm_up`: of a run; the duration and the warm-up of the experiment by default.
    """
    if method not in METHODS:
        raise ControlError(f"there is no method '{method:.40}'{nearest(method, METHODS)}")
    if trials < 1 or not parameters:
        raise ControlError("a search needs one or more --parameters, such as controller.kp, and one or more trials")
    seconds = experiment.duration if seconds is None else seconds
    warm_up = experiment.warm_up if warm_up is None else warm_up
    setup = experiment.setup(threads=1)
    objective = Objective(experiment, [variable(setup, text) for text in parameters], seconds, warm_up)
    search = {"grid": _grid, "optuna": _optuna, "gradient": _gradient}[method]
    # the file itself is the first trial
    objective(np.ones((1, objective.size)))
    search(objective, trials, seed, say or (lambda what, done, total: None))
    return TuneResult(method, experiment, objective.variables, tuple(objective.trials))


def variable(setup: Setup, text: str) -> Variable:
    """The variable that a text names."""
    path, _, span = text.partition("=")
    each = path.endswith("[*]")
    path = path.removesuffix("[*]")
    name = parameter_name(setup, path)
    known = [n for n in setup.loop.parameters if n.partition(".")[0] in setup.loop.plan.blocks]
    if name is None:
        raise ControlError(f"{quoted(path)} is no parameter of the loop{nearest(path, known)}")
    base = np.array(setup.experiment.parameters.get(name, setup.loop.parameters[name].default), dtype=float)
    if each and not base.ndim:
        base = np.full(setup.simulation.nu, float(base)) if setup.loop.parameters[name].shape else base
        if not base.ndim:
            raise ControlError(f"'{path}' is one number for all joints: leave [*] out, or give a list in the file")
    low, high = 1.0 / FACTOR, FACTOR
    if span:
        try:
            low, high = (float(x) for x in span.split(":"))
        except ValueError:
            raise ControlError(f"a range is written {path}=low:high, got {quoted(span)}") from None
        if not 0.0 < low < high < math.inf:
            raise ControlError(f"the range of '{path}' needs 0 < low < high, got {quoted(span)}")
        middle = math.sqrt(low * high)
        base, low, high = np.full(base.shape, middle), low / middle, high / middle
    if np.any(base == 0.0):
        raise ControlError(f"'{path}' is zero in the file, so a factor does not change it: give a range, {path}=low:high")
    return Variable(path, name, base, each, low, high)


def _grid(objective: Objective, trials: int, seed: int, say: Say) -> None:
    """None; all points of a grid with no more than `trials` points, equal ratios apart, in one kernel call."""
    count = max(int(trials ** (1.0 / objective.size) + 1e-9), 1)
    if count < 2:
        raise ControlError(
            f"a grid of {objective.size} numbers with two values each has {2**objective.size:,} points, more than {trials} "
            "trials: take --method optuna or gradient, or more trials"
        )
    axes = [np.linspace(a, b, count) for a, b in zip(objective.low, objective.high, strict=True)]
    points = np.stack([each.ravel() for each in np.meshgrid(*axes, indexing="ij")], axis=1)
    objective(np.exp(points))
    say("grid", len(points), len(points))


def _optuna(objective: Objective, trials: int, seed: int, say: Say) -> None:
    """None; generations of BATCH trials by Optuna's tree-structured Parzen estimator, each in one kernel call."""
    optuna = require("optuna", "tune", "searches with Optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=False, multivariate=False))
    names = [f"x{k}" for k in range(objective.size)]
    space = {
        name: optuna.distributions.FloatDistribution(float(a), float(b))
        for name, a, b in zip(names, objective.low, objective.high, strict=True)
    }
    study.enqueue_trial(dict.fromkeys(names, 0.0))
    first = study.ask(space)
    study.tell(first, objective.trials[0].score)
    done = 0
    while done < trials:
        asked = [study.ask(space) for _ in range(min(BATCH, trials - done))]
        points = np.array([[trial.params[name] for name in names] for trial in asked])
        for trial, score in zip(asked, objective(np.exp(points)), strict=True):
            study.tell(trial, float(score) if math.isfinite(score) else 1e9)
        done += len(asked)
        say("optuna", done, trials)


def _gradient(objective: Objective, trials: int, seed: int, say: Say) -> None:
    """None; steps of Adam (Kingma and Ba 2015) in the logarithms, from STARTS points at once, for the smooth score."""
    starts = min(STARTS, trials)
    rng = np.random.default_rng(seed)
    low, high = objective.low, objective.high
    theta = np.zeros((starts, objective.size))
    theta[1:] = rng.uniform(0.5 * low, 0.5 * high, (starts - 1, objective.size))
    theta = np.clip(theta, low, high)
    m, s = np.zeros_like(theta), np.zeros_like(theta)
    steps = max(trials // starts, 1)
    smooth = SmoothScore(objective)
    for k in range(steps):
        _, slope = smooth(np.exp(theta))
        slope = slope * np.exp(theta)
        m, s = 0.8 * m + 0.2 * slope, 0.95 * s + 0.05 * slope * slope
        step = (m / (1.0 - 0.8 ** (k + 1))) / (np.sqrt(s / (1.0 - 0.95 ** (k + 1))) + 1e-12)
        theta = np.clip(theta - RATE * (1.0 - k / steps) * step, low, high)
        objective(np.exp(theta))
        say("gradient", (k + 1) * starts, steps * starts)


class SmoothScore:
    """The score with |x| = sqrt(x^2 + eps^2) and soft maxima, and its gradient by the factors, through `loop.vjp`."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.setup: Setup = objective.experiment.setup(threads=1)
        if objective.experiment.space != "joint":
            raise ControlError("gradients of the score are for controllers of joints: take --method optuna or grid")

    def __call__(self, factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(scores (count,), gradients (count, size)) of factors (count, size); zero for runs that are not finite."""
        setup, experiment = self.setup, self.objective.experiment
        n, count, every = experiment.arm.nv, len(factors), experiment.rates.control_ticks
        given = self.objective.parameters(factors)
        parameters: dict[str, Any] = dict(experiment.parameters) | given
        out, pullback = setup.loop.vjp(
            np.repeat(setup.x0[None], count, axis=0),
            {"reference": setup.rows},
            experiment.ticks,
            seed=experiment.seed,
            robots=np.zeros(count, dtype=int),
            parameters=parameters,
            wrt=list(given),
            record=["q", "v"],
            every=every,
            checkpoint=_checkpoint(experiment.control_updates),
        )
        first = round(experiment.warm_up * experiment.rates.control)
        r, h = setup.rows[first:, :n], 1.0 / experiment.rates.control
        before = setup.x0[:n] if first == 0 else setup.rows[first - 1, :n]
        wq, wv, scores = np.zeros_like(out["q"]), np.zeros_like(out["v"]), np.zeros(count)
        for k in range(count):
            # state i of the metrics is recorded as row i - 1
            q = np.concatenate([setup.x0[None, :n], out["q"][k, :-1]])[first:]
            v = np.concatenate([setup.x0[None, n : 2 * n], out["v"][k, :-1]])[first:]
            scores[k], dq, dv = smooth_score(r, q, v, h, before)
            begin = max(first - 1, 0)
            wq[k, begin:-1], wv[k, begin:-1] = dq[1 if first == 0 else 0 :], dv[1 if first == 0 else 0 :]
        slopes = pullback(q=wq, v=wv)
        parts = [_by_factor(variable, slopes[variable.name], count) for variable in self.objective.variables]
        gradient = np.concatenate(parts, axis=1)
        return scores, np.where(np.isfinite(gradient), gradient, 0.0)


def _by_factor(variable: Variable, slope: np.ndarray, count: int) -> np.ndarray:
    """The gradient by the factors of a variable (count, size), from that by the parameter."""
    whole: np.ndarray = (slope * variable.base).reshape(count, -1)
    return whole if variable.each else whole.sum(axis=1, keepdims=True)


def _checkpoint(rows: int) -> int:
    """A divisor of the number of rows near its root: so many rows between two states that are kept."""
    wanted = int(math.sqrt(rows))
    return next(k for k in range(max(wanted, 1), 0, -1) if rows % k == 0)


def smooth_score(
    r: np.ndarray, q: np.ndarray, v: np.ndarray, h: float, start: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """(score, its gradient by q, by v) of rows (T, n): 3 IAE + 0.2 mean|v| + final error + overshoot terms, all smooth.

    start: (n,), the reference before the first row.
    """
    e = r - q
    size = np.sqrt(e * e + EPSILON**2)
    n, entries = e.shape[1], e.size
    score, dq = 3.0 * h / n * size.sum(), -3.0 * h / n * e / size
    speed = np.sqrt(v * v + EPSILON**2)
    score, dv = score + 0.2 * speed.sum() / entries, 0.2 / entries * v / speed
    final = math.sqrt(float(e[-1] @ e[-1]) + EPSILON**2)
    score += final
    dq[-1] += -e[-1] / final
    t = h * np.arange(len(r))
    motions = [(k, each, each.passing(q[:, k])) for k in range(n) for each in segments(t, r[:, k], float(start[k]))]
    if motions:
        over, weights = _soft_maximum(np.concatenate([each.part(q[rows, k]) - 1.0 for k, each, rows in motions]))
        above, slope = _soft_plus(over)
        excess, steep = _soft_plus(over - 0.1)
        score += 0.7 * above + 40.0 * excess
        at = 0
        for k, each, rows in motions:
            own = weights[at : at + rows.stop - rows.start]
            dq[rows, k] += (0.7 * slope + 40.0 * steep) * own / (each.target - each.start)
            at += len(own)
    return float(score), dq, dv


def _soft_maximum(x: np.ndarray) -> tuple[float, np.ndarray]:
    """log(mean(exp(b x))) / b, between mean and maximum, and its derivatives."""
    top = float(x.max())
    w = np.exp(SHARPNESS * (x - top))
    total = float(w.sum())
    return top + math.log(total / x.size) / SHARPNESS, w / total


def _soft_plus(x: float) -> tuple[float, float]:
    """log(1 + exp(b x)) / b and its derivative."""
    y = SHARPNESS * x
    slope = 1.0 / (1.0 + math.exp(-max(min(y, 60.0), -60.0)))
    return (x if y > 60.0 else math.log1p(math.exp(y)) / SHARPNESS if y > -60.0 else 0.0), slope


def values_text(values: Mapping[str, Any]) -> str:
    """Values of parameters with four digits."""

    def one(value: Any) -> str:
        return f"[{', '.join(f'{x:.4g}' for x in value)}]" if isinstance(value, list) else f"{value:.4g}"

    return ", ".join(f"{path} = {one(value)}" for path, value in values.items())
