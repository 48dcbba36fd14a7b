"""The branch of a mechanism: follow it from the first pose, fit a guess to it, and see how many steps of Newton that takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from condyle.constraints.assembly import Mechanism
from condyle.constraints.initial_guess import InitialGuess, Series, fitted
from condyle.constraints.loops import CONVERGED, CORRECTIONS, MAX_STEP, MIN_STEPS, SINGULAR, Loops
from condyle.dynamics.manifold import integrate
from condyle.robot import ordered
from condyle.robot.joints import Revolute
from condyle.tape.function import Function
from condyle.tape.trace import trace

SAMPLES = 512  # poses in one turn or over the range
MIN_POSES = 16  # poses on one side of the first: if the branch ends before, it is followed again in shorter steps
MAX_REFINEMENTS = 4  # times, at most
MIN_STRENGTH = 1e-3  # a pose is left out where the conditions are this much weaker than at the first
LIMIT_MARGIN = 0.05  # how far beyond its limits a joint is followed, as a part of their range
STEPS = 12  # of Newton, at most
STAGES = (1, 2, 4, 8, 16)  # of the way from the first pose, where there is no fit
PROBES = 96  # random poses at which the stages are tried
SHORT_REACH = 0.5  # how far from the first pose a ball joint and a spring are tried, rad or m
MISFIT_POSES = 16  # random poses at which redundant conditions are looked at


def with_guess(mechanism: Mechanism, loops: Loops) -> Loops:
    """The constraint with a guess and the number of steps that go with it."""
    drivers = _drivers(mechanism, loops)
    if all(d is not None for d in drivers.values()):
        series: list[Series] = []
        for driver in sorted({d for d in drivers.values() if d is not None}):
            y, x, periodic = _followed(mechanism, loops, driver)
            for place in [p for p, d in drivers.items() if d == driver]:
                series.append(fitted(driver, place, y, x[:, place], periodic, _endless(loops, driver) and not periodic))
        fit = replace(loops, guess=InitialGuess(tuple(series)))
        return replace(fit, steps=_steps(mechanism, fit))
    return _staged(mechanism, loops)


def _drivers(mechanism: Mechanism, loops: Loops) -> dict[int, int | None]:
    """Entry of x of each dependent coordinate -> the only entry of y that moves it; None if several do."""
    below, rng = mechanism.below, np.random.default_rng(3)
    columns, kept = loops.following[1], loops.kept[1]
    moves = np.zeros((len(columns), len(kept)), dtype=bool)
    for _ in range(3):
        start = mechanism.moved(loops.first, 1e-2 * rng.standard_normal(below.nv))
        x, _ = mechanism.closed(start, columns)
        _, J = mechanism.at(x)
        J = J[list(loops.rows)]
        inverse = ordered.inverse(J[:, columns])
        T = np.column_stack([-ordered.matvec(inverse, column) for column in J[:, kept].T])
        moves |= np.abs(T) > 1e-9
    out: dict[int, int | None] = {}
    row = 0
    for i in loops.dependent:
        link = below.links[i]
        for k in range(link.kind.nq):
            by = np.flatnonzero(moves[row]) if link.kind.nv == 1 else np.zeros(2)
            single = len(by) <= 1 and all(loops.reduced.links[j].kind.nv == 1 for j in _owners(loops, by))
            entry = 0 if not len(by) else int(loops.reduced.links[_owners(loops, by)[0]].q.start) if single else None
            out[link.q.start + k] = entry if single else None
        row += link.kind.nv
    return out


def _endless(loops: Loops, driver: int) -> bool:
    """Whether a coordinate is that of a hinge without limits: a turn more is the same pose."""
    link = next(link for link in loops.reduced.links if link.q.start == driver)
    return isinstance(link.kind, Revolute) and link.limits.lower is None


def _owners(loops: Loops, coordinates: np.ndarray) -> list[int]:
    return [i for i, link in loops.reduced.outward() for c in coordinates if link.v.start <= c < link.v.stop]


def _followed(mechanism: Mechanism, loops: Loops, driver: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """(y, x in rows, whether a periodic turn closes) along one coordinate, both ways from the first pose."""
    link = next(link for link in loops.reduced.links if link.q.start == driver)
    below = mechanism.below
    place = next(b.q.start for b in below.links if b.joint == link.joint)
    reach = np.pi if isinstance(link.kind, Revolute) else 4.0 * mechanism.length
    here = loops.first[place]
    lower, upper = here - reach, here + reach
    if link.limits.lower is not None and link.limits.upper is not None and link.limits.upper - link.limits.lower < 2 * reach:
        # a little beyond the limits, which are soft in a simulation
        more = LIMIT_MARGIN * (link.limits.upper - link.limits.lower) + 1e-3
        lower, upper = min(link.limits.lower, here) - more, max(link.limits.upper, here) + more
    first = mechanism.closed(loops.first, loops.following[1])[0]
    sides = [_side(mechanism, loops, first, place, end) for end in (lower, upper)]
    x = np.vstack([sides[0][:0:-1], sides[1]])
    periodic = x[0, place] == lower and x[-1, place] == upper and upper - lower == 2 * np.pi and isinstance(link.kind, Revolute)
    if periodic:
        apart = (x[-1] - x[0])[loops.following[0]] / (2 * np.pi)
        periodic = bool(np.max(np.abs(apart - np.round(apart))) < 1e-6)
    return x[:, place], x, periodic


def _side(mechanism: Mechanism, loops: Loops, first: np.ndarray, place: int, end: float) -> np.ndarray:
    """Poses from the first one on, until the coordinate is at its end or the branch is; if that is near, in shorter steps."""
    columns = loops.following[1]
    weak = MIN_STRENGTH * mechanism.step(first, loops.rows, columns)[2]
    for _ in range(MAX_REFINEMENTS):
        rows, taken = [first], 0
        for y in np.linspace(first[place], end, SAMPLES // 2 + 1)[1:]:
            x, left, strength = mechanism.nearby(_straight_on(rows, place, y), loops.rows, columns)
            if not mechanism.is_closed(left) or np.max(np.abs(x - rows[-1])) > 1.0:
                break
            if not loops.through and (strength < weak or _beyond(mechanism, loops, x)):
                break
            taken += 1
            # a weak pose is left out: where the branch goes straight on beyond it, the next one closes
            if strength >= weak:
                rows.append(x)
        if taken >= MIN_POSES:
            break
        end = first[place] + (end - first[place]) * (taken + 1) / (SAMPLES // 2)
    return np.array(rows)


def _straight_on(rows: list[np.ndarray], place: int, y: float) -> np.ndarray:
    """The pose at y on the line through the last two."""
    last, before = rows[-1], rows[max(len(rows) - 2, 0)]
    length = last[place] - before[place]
    x: np.ndarray = last + (last - before) * ((y - last[place]) / length if length else 0.0)
    x[place] = y
    return x


def _beyond(mechanism: Mechanism, loops: Loops, x: np.ndarray) -> bool:
    """Whether a block of the conditions has another sign than at the first pose."""
    A = mechanism.at(x)[1][list(loops.rows)][:, loops.following[1]]
    signs = zip([A[np.ix_(*block)] for block in loops.blocks], loops.scales, strict=True)
    return any(ordered.determinant(block) * scale < 0.0 for block, scale in signs)


def _steps(mechanism: Mechanism, loops: Loops) -> int:
    """How many steps of Newton the guess takes, so that the last one is a short one, over all poses of the fit."""
    dependent, columns = loops.following
    most = MIN_STEPS
    for one in loops.guess.series[: 1 if len({s.driver for s in loops.guess.series}) == 1 else None]:
        for y in np.linspace(one.middle - one.half, one.middle + one.half, 97):
            x, everyone = loops.first.copy(), loops.start.copy()
            everyone[one.driver] = y
            x[loops.kept[0]] = everyone
            x[dependent] = np.asarray(loops.guess.at(loops, everyone), dtype=float)
            for step in range(1, STEPS + 1):
                move, _, strength = mechanism.step(x, loops.rows, columns)
                if strength < 1e-9 * mechanism.length:
                    break
                x = mechanism.moved(x, move)
                if np.max(np.abs(move)) <= 0.3 * CONVERGED:
                    most = max(most, step)
                    break
            else:
                most = STEPS
    return most


def _staged(mechanism: Mechanism, loops: Loops) -> Loops:
    """The constraint with as many stages on the way from the first pose as random poses within reach take."""
    rng = np.random.default_rng(4)
    trials = np.array([_somewhere(mechanism, loops, rng) for _ in range(PROBES)])
    values = _scalar_values if _scalar(mechanism, loops) else _values
    fine = values(mechanism, replace(loops, stages=64, steps=MIN_STEPS + 2), trials)
    for stages in STAGES:
        tried = replace(loops, stages=stages, steps=MIN_STEPS + 1)
        found = values(mechanism, tried, trials)
        good = np.all(np.isfinite(fine), axis=1)
        if np.all(np.isfinite(found[good])) and np.allclose(found[good], fine[good], atol=1e-9, rtol=1e-9):
            return tried
    return replace(loops, stages=STAGES[-1], steps=MIN_STEPS + 2)


def _somewhere(mechanism: Mechanism, loops: Loops, rng: np.random.Generator) -> np.ndarray:
    """A pose within the limits, or within a turn or the robot's length where there are none; half of them near the first."""
    step = np.zeros(loops.reduced.nv)
    for link in loops.reduced.links:
        turns = np.any(link.axes[0].angular)
        for k in range(link.v.start, link.v.stop):
            reach = (np.pi if turns else mechanism.length) if link.kind.nv == 1 and not link.stiffness else SHORT_REACH
            lower, upper = -reach, reach
            if link.limits.lower is not None and link.limits.upper is not None:
                here = loops.start[link.q.start]
                lower, upper = max(lower, link.limits.lower - here), min(upper, link.limits.upper - here)
            step[k] = rng.uniform(min(lower, 0.0), max(upper, 0.0))
    return np.asarray(integrate(loops.reduced, loops.start, step * rng.choice([0.2, 1.0])), dtype=float)


def misfit(mechanism: Mechanism, loops: Loops) -> float:
    """The largest value of any condition where those that are solved for are met: at the first pose and at random ones."""
    phi = mechanism.at(mechanism.closed(loops.first, loops.following[1])[0])[0]
    worst = float(np.max(np.abs(phi)))
    if len(loops.rows) == len(phi):
        return worst
    rng = np.random.default_rng(5)
    for _ in range(MISFIT_POSES):
        x = loops.first.copy()
        x[loops.kept[0]] = _somewhere(mechanism, loops, rng)
        x, left, _ = mechanism.nearby(x, loops.rows, loops.following[1])
        if mechanism.is_closed(left):
            worst = max(worst, float(np.max(np.abs(mechanism.at(x)[0]))))
    return worst


def _scalar(mechanism: Mechanism, loops: Loops) -> bool:
    """Whether all joints in the loops have one coordinate."""
    unmoved = np.all(mechanism.jacobian == 0.0, axis=0)
    return all(link.kind.nv == 1 or bool(np.all(unmoved[link.v])) for link in loops.below.links)


def _scalar_values(mechanism: Mechanism, loops: Loops, y: np.ndarray) -> np.ndarray:
    """x for each y as `Loops.configuration` finds it, with NumPy for all at once: it decides the stages, and compiles nothing.

    For loops of hinges and slides only, whose coordinates add.
    """
    (dependent, columns), rows = loops.following, list(loops.rows)
    away, d = y - loops.start, np.tile(loops.first[dependent], (len(y), 1))
    for link in loops.reduced.links:
        if isinstance(link.kind, Revolute) and link.limits.lower is None:
            away[:, link.q] -= np.rint(away[:, link.q] / (2.0 * np.pi)) * (2.0 * np.pi)

    def joined(y: np.ndarray, d: np.ndarray) -> np.ndarray:
        x = np.zeros((len(y), loops.below.nq))
        x[:, loops.kept[0]], x[:, dependent] = y, d
        return x

    def newton(y: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(d one step further, the size of the step, the weakest block)."""
        phi, J = mechanism.at_each(joined(y, d))
        A = J[:, rows][:, :, columns]
        blocks = [
            np.linalg.det(A[:, block[0]][:, :, block[1]]) / scale for block, scale in zip(loops.blocks, loops.scales, strict=True)
        ]
        weakest = np.min(np.abs(blocks) if loops.through else blocks, axis=0)
        fine = np.all(np.isfinite(A), axis=(1, 2)) & (np.abs(np.linalg.det(A)) > 0.0)
        step = np.full_like(d, np.nan)
        step[fine] = -np.linalg.solve(A[fine], (phi[:, rows] - loops.offsets)[fine][..., None])[..., 0]
        size = np.max(np.abs(step) / loops.units, axis=1)
        return d + step * np.minimum(1.0, MAX_STEP / np.maximum(size, MAX_STEP))[:, None], size, weakest

    with np.errstate(all="ignore"):
        for i in range(loops.stages):
            for _ in range(CORRECTIONS):
                d, _, _ = newton(loops.start + away * ((i + 1.0) / loops.stages), d)
        for _ in range(loops.steps):
            d, size, weakest = newton(y, d)
        good = (size <= CONVERGED) & (weakest >= SINGULAR)
    return joined(y, np.where(good[:, None], d, np.nan))


def _values(mechanism: Mechanism, loops: Loops, y: np.ndarray) -> np.ndarray:
    """x for each y, as the kernel finds it."""
    model, lower = mechanism.model, mechanism.lower
    function = Function(trace(lambda y: {"x": loops.configuration(model, lower, y)}, y=loops.reduced.nq))
    found: np.ndarray = function(y)
    return found
