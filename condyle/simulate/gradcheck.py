"""Every derivative of a robot in its world, against differences of the same step in high precision.

The step's own tape is interpreted with 512 bits and its solver converged as far, so that a difference over 1e-62 is a derivative
with more digits than a double has. What remains is the error of the derivatives, rounding included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condyle.dynamics import manifold
from condyle.errors import SimulationError, require
from condyle.robot.spatial import Array
from condyle.simulate.kernels import compiled
from condyle.simulate.simulation import Simulation
from condyle.tape.function import function

COLUMNS = 8  # up to so many columns of a block one by one; along so many random directions beyond
DIRECTIONS = 2
PAIRS = 3  # of directions, for second derivatives
BITS = (128, 1024)  # the fewest that leave a double behind, and the most for which the tolerance is a double
FLOOR = 1e-9  # a block this much smaller than the largest counts as zero, and its error as a part of that

Say = Callable[[str, int, int], None]  # what is looked at, how many evaluations are done, and of how many


@dataclass(frozen=True)
class DerivativeError:
    """One derivative: its largest error over its largest entry, that entry, and how many columns or directions were seen."""

    what: str
    error: float
    size: float
    seen: int


class Precise:
    """The step of a simulation with `bits` digits: states are arrays of gmpy2.mpfr, or floats; use it inside `context`."""

    def __init__(self, simulation: Simulation, bits: int = 512) -> None:
        if not BITS[0] <= bits <= BITS[1]:
            raise SimulationError(f"derivatives are checked with {BITS[0]} to {BITS[1]} bits, not {bits}; 512 is a good choice")
        self.gmpy2 = require("gmpy2", "precision", "derivatives in high precision")
        self.simulation, self.bits = simulation, bits
        world = simulation._world
        reduced, nd = world.reduced, world.nd
        self.nq, self.nd, self.nv = reduced.nq, nd, world.nv
        # Newton's method converges to all the digits
        exact = world.coordinate_map.for_precision(bits)
        precise = replace(world, tolerance=2.0 ** -round(0.8 * bits), coordinate_map=exact)
        stepper = replace(simulation._stepper, world=precise)
        shapes = {"x": stepper.nx, "u": max(world.nu, 1)}  # without motors, an idle one
        if world.wrenches:
            shapes["wrenches"] = (len(world.wrenches), 6)  # type: ignore[assignment]
        backend = f"mpfr:{bits}"
        self._step = compiled(stepper, "step", **shapes).on(backend)
        self._integrate = function(lambda q, dv: manifold.integrate(reduced, q, dv), q=self.nq, dv=nd).on(backend)
        self._difference = function(lambda q0, q1: manifold.difference(reduced, q0, q1), q0=self.nq, q1=self.nq).on(backend)
        # first differences err by e, second ones lose twice its digits
        self.e, self.e2 = (self.numbers(2.0)[()] ** -round(part * bits) for part in (0.4, 0.25))

    def context(self) -> Any:
        """The context in which arithmetic of gmpy2 has all the bits."""
        return self.gmpy2.context(precision=self.bits)

    def numbers(self, x: Any) -> Array:
        """x as an array of numbers with all the bits."""
        x = np.asarray(x)
        numbers = [self.gmpy2.mpfr(float(a), self.bits) for a in x.ravel()]
        out: Array = np.array([*numbers, None], dtype=object)[:-1].reshape(x.shape)
        return out

    def step(self, x: Array, u: Array, *wrenches: Array) -> Array:
        """The state after one step."""
        after, residual = self._step(x, u if len(u) else np.zeros(1), *wrenches)
        if not residual <= 2.0 ** -(self.bits // 4):
            raise SimulationError(
                f"{self.simulation.robot.name}: the solver ends with a residual of {float(residual):.1e} in {self.bits} bits; "
                "is every number of the state finite?"
            )
        found: Array = after
        return found

    def moved(self, x: Array, dx: Array) -> Array:
        """The state x, changed by dx in its tangent space."""
        out = np.array(x, dtype=object)
        v = slice(self.nq, self.nq + self.nv)
        out[: self.nq], out[v] = self._integrate(x[: self.nq], dx[: self.nd]), x[v] + dx[self.nd :]
        return out

    def difference(self, x0: Array, x1: Array) -> Array:
        """The change of state in the tangent space that leads from x0 to x1."""
        v = slice(self.nq, self.nq + self.nv)
        return np.concatenate([self._difference(x0[: self.nq], x1[: self.nq]), x1[v] - x0[v]])


def check(
    simulation: Simulation,
    x: Any,
    u: Any = None,
    *,
    us: Any = None,
    wrenches: Any = None,
    second: bool = False,
    bits: int = 512,
    seed: int = 0,
    say: Say = lambda what, done, of: None,
) -> list[DerivativeError]:
    """The errors of the derivatives at a state: of one step under u, of a rollout under the controls us, and of second order.

    `us`: (steps, nu). `second`: whether those of second order are wanted; they take longer to compile. `say` hears how far it is.
    """
    x = np.asarray(x, dtype=float)
    u = np.zeros(simulation.nu) if u is None else np.asarray(u, dtype=float)
    if x.ndim != 1 or u.ndim != 1:
        raise SimulationError(f"derivatives are checked at one state under one control; got the shapes {x.shape} and {u.shape}")
    precise = Precise(simulation, bits)
    with precise.context():
        at = _Point(precise, x, u, wrenches, np.random.default_rng(seed), say)
        rows = at.first()
        if us is not None:
            rows += at.over_time(np.asarray(us, dtype=float))
        return rows + at.second() if second else rows


@dataclass
class _Point:
    """A state and a control, where derivatives are compared."""

    precise: Precise
    x: Array
    u: Array
    wrenches: Any
    rng: np.random.Generator
    say: Say

    def __post_init__(self) -> None:
        self.simulation = self.precise.simulation
        self.extra = () if self.wrenches is None else (np.asarray(self.wrenches, dtype=float),)
        if self.wrenches is None and self.simulation._world.wrenches:
            self.extra = (np.zeros((len(self.simulation._world.wrenches), 6)),)
        nd, n, nu = self.simulation._world.nd, self.simulation.ndx, self.simulation.nu
        self.parts = {"q": slice(0, nd), "v": slice(nd, n)}
        self.blocks = {**self.parts, **({"u": slice(n, n + nu)} if nu else {})}
        self.width = n + nu

    def first(self) -> list[DerivativeError]:
        """A and B of one step, block by block."""
        p, n = self.precise, self.simulation.ndx
        _, A, B = self.simulation.step(self.x, self.u, wrenches=self.wrenches, derivatives=True)
        directions = {name: self._directions(block) for name, block in self.blocks.items()}
        total, done = 1 + sum(len(d) for d in directions.values()), 0
        start = self._after(np.zeros(self.width), p.e)
        pairs = []
        for name, vectors in directions.items():
            ours, true = [], []
            for d in vectors:
                done += 1
                self.say("one step", done, total)
                ours.append(A @ d[:n] + B @ d[n:])
                true.append(_floats(p.difference(start, self._after(d, p.e)) / p.e))
            for of, rows in self.parts.items():
                pairs.append((f"d{of}1/d{name}", np.array(ours)[:, rows], np.array(true)[:, rows]))
        self.say("one step", total, total)
        return _rows(pairs)

    def over_time(self, us: Array) -> list[DerivativeError]:
        """A chain of steps: how the last state answers to the first and to all the controls, along one random direction each."""
        p, n = self.precise, self.simulation.ndx
        steps = len(us)
        _, As, Bs = self.simulation.rollout(self.x, us, wrenches=self.wrenches, derivatives=True)
        directions = {f"{name}0": (self._in_block(self.blocks[name])[:n], 0.0 * us) for name in ("q", "v")}
        if self.simulation.nu:
            directions["u"] = (np.zeros(n), self.rng.normal(size=us.shape))
        done, total = 0, steps * (1 + len(directions))

        def tell() -> None:
            nonlocal done
            done += 1
            self.say(f"{steps} steps", done, total)

        def end(dx: Array, dus: Array) -> Array:
            x = p.moved(p.numbers(self.x), p.numbers(dx) * p.e)
            for u in p.numbers(us) + p.numbers(dus) * p.e:
                x = p.step(x, u, *self.extra)
                tell()
            return x

        start = end(np.zeros(n), 0.0 * us)
        pairs = []
        for name, (dx, dus) in directions.items():
            true = _floats(p.difference(start, end(dx, dus)) / p.e)
            for A, B, du in zip(As, Bs, dus, strict=True):
                dx = A @ dx + B @ du
            for of, rows in self.parts.items():
                pairs.append((f"d{of}{steps}/d{name}", dx[None, rows], true[None, rows]))
        return _rows(pairs)

    def second(self) -> list[DerivativeError]:
        """Second derivatives of a random sum of the next state's entries: a^T H b for random a and b in each pair of blocks."""
        p, n = self.precise, self.simulation.ndx
        weight = self.rng.normal(size=n)
        H = self.simulation.step_hessian(self.x, self.u, weight, wrenches=self.wrenches)
        start = self._after(np.zeros(self.width), p.e2)
        exact = p.numbers(weight)

        def change(d: Array) -> Any:
            return exact @ p.difference(start, self._after(d, p.e2))

        names = list(self.blocks)
        both = [(a, b) for k, a in enumerate(names) for b in names[k:]]
        total = len(both) * PAIRS
        pairs: list[tuple[str, Array, Array]] = []
        for a, b in both:
            ours: list[float] = []
            true: list[float] = []
            for _ in range(PAIRS):
                self.say("second derivatives", len(pairs) * PAIRS + len(ours), total)
                da, db = (self._in_block(self.blocks[name]) for name in (a, b))
                ours.append(da @ H @ db)
                true.append(float((change(da + db) - change(da) - change(db)) / (p.e2 * p.e2)))
            pairs.append((f"d2x1/d{a}d{b}", np.array(ours), np.array(true)))
        self.say("second derivatives", total, total)
        return _rows(pairs)

    def _after(self, d: Array, e: Any) -> Array:
        """The state one step after the one moved by e d."""
        p, n = self.precise, self.simulation.ndx
        x = p.moved(p.numbers(self.x), p.numbers(d[:n]) * e)
        return p.step(x, p.numbers(self.u) + p.numbers(d[n:]) * e, *self.extra)

    def _directions(self, block: slice) -> list[Array]:
        """The columns of a block, or random directions in it if there are many."""
        if block.stop - block.start <= COLUMNS:
            return list(np.eye(self.width)[block])
        return [self._in_block(block) for _ in range(DIRECTIONS)]

    def _in_block(self, block: slice) -> Array:
        """A random direction in a block, of few digits, so that a sum of two is exact."""
        d = np.zeros(self.width)
        d[block] = np.rint(1024.0 * self.rng.normal(size=block.stop - block.start)) / 1024.0
        return d


def _floats(x: Array) -> Array:
    return np.asarray(x).astype(float)


def _rows(pairs: list[tuple[str, Array, Array]]) -> list[DerivativeError]:
    """The rows of (what, ours, true), errors relative to each block's largest entry."""
    overall = max(float(np.abs(true).max()) for _, _, true in pairs)
    rows = []
    for what, ours, true in pairs:
        size = float(np.abs(true).max())
        rows.append(
            DerivativeError(what, float(np.abs(ours - true).max() / (max(size, FLOOR * overall) or 1.0)), size, len(true))
        )
    return rows
