"""Drives of joints: a force, a spring and a damper whose sum is bounded, implicit in the velocity after the step.

    lambda = clip(w - G u, -S, S),   w = h force + h K (target - q),   G = h B + h^2 K,   S = h effort

with u the joint's velocity after the step. The law is piecewise linear, so it needs no barrier: the impulse is an unknown of the
solver beside the constraints, and each drive is taken to be within its bounds, where it is linear, or at one of them.

Which of the two is an active set, found by pivoting. The first attempt of the solver changes it from step to step (a primal-dual
active set; Hintermueller, Ito, Kunisch 2003), which mostly ends right. Each further attempt solves the step for a fixed set. Then
a drive within its bounds whose law is beyond one goes to that bound, and a drive at a bound that its law does not reach goes
within them (`Drive.pivot`): in the first BLOCKS attempts all such drives, later the first of them alone (Judice, Pires 1994).

This ends, at the only solution. Without its drives a step is the minimum of a strictly convex function of the velocity. Let f be
its least value as a function of the velocity u of the last drive alone, all other drives right, and x(u) = w - G u.

    within the bounds:    f'(u) = x(u). If x(u) > S, then f' - S > 0 there: the solution has a smaller u, a larger x, so x > S,
                          and the bound that the drive goes to is the right one.
    at the upper bound:   f'(u) = S. If x(u) < S, the solution is not at this bound, because the least f - S u is here.

So the last drive goes from a bound to within the bounds, from there to the right bound, and never back. Between two of its
changes the others come right after finitely many, by induction (for linear problems: Murty 1974). One or two sets are usual.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.robot.spatial import Array
from condyle.tape.array import where
from condyle.tape.precision import by_precision

LIGHTER = 0.01  # inertia of the prediction over that of the joint by itself: a stiff drive must not change from bound to bound
CORNER = 1e4  # weight of the error: with a corner in the law, a step from nearby may still end on the other side
BLOCKS = 8  # attempts after which a pivot changes one drive
EMPTY = 1e-30  # smoothing of a law that has none, J: it takes no part in the energies that the solver follows
AT_BOUND, AT_BOUND_SINGLE = 1e-12, 1e-6  # distance from its bound at which an impulse is there, relative to it: rounding errors
ROUNDING, ROUNDING_SINGLE = 1e-15, 5e-7  # of the law at a velocity that is rounded, relative to its terms


@dataclass(frozen=True)
class Drive:
    """The law of a drive with one unknown, y = lambda; arguments and results as those of a friction cone."""

    w: Any  # impulse at rest without bounds
    G: Any  # decrease of the impulse with the velocity
    S: Any  # largest impulse
    mass: Any  # inertia of the joint by itself
    scale: Any  # impulse that counts as large
    kappa = EMPTY
    per = 0.0  # no gradient of a barrier
    degree = 1
    unknowns = 1

    @property
    def max_impulse(self) -> Any:
        """S."""
        return self.S

    def smoothed(self, least: Any) -> Drive:
        """The law itself: it has no smoothing."""
        return self

    @property
    def start_impulse(self) -> Any:
        """The impulse whose work the smoothing starts from."""
        return self.S

    def initial_fraction(self, impulse: Any) -> Any:
        """Zero: no energy on the way to the solution."""
        return 0.0

    def bounded(self, impulse: Any) -> Any:
        """An impulse within the bounds."""
        return np.minimum(np.maximum(impulse, -self.S), self.S)

    def expected_impulse(self, free: Array) -> Array:
        """The impulse with which the joint by itself, at the `free` velocity without it, would obey the law."""
        return np.array([self.bounded((self.w - self.G * free[0]) / (1.0 + self.G / self.mass))], dtype=object)

    def start(self, impulse: Any, k: Any, free: Array, mass: Any) -> dict[str, Any]:
        """The impulse of the law at the `free` velocity, which includes the expected one."""
        return {"y": np.array([self.bounded(self.w - self.G * free[0])], dtype=object), "s": 0.0}

    def hold(self, iterate: dict[str, Any], before: dict[str, Any], fixed: Any) -> dict[str, Any]:
        """`iterate`, or where `fixed` the one `before`, with the active set kept: s is 1 there, else 0."""
        (y,), (kept,) = iterate["y"], before["y"]
        # false for NaN
        return {"y": np.array([where(fixed & (abs(kept) >= 0.0), kept, y)], dtype=object), "s": where(fixed, 1.0, 0.0)}

    def settled(self, iterate: dict[str, Any]) -> dict[str, Any]:
        """The iterate with an impulse beyond a bound put there, unless the active set is kept."""
        (y,) = iterate["y"]
        return iterate | {"y": np.array([where(iterate["s"] > 0.5, y, self.bounded(y))], dtype=object)}

    def impulse(self, y: Array) -> Array:
        """lambda; at a bound the bound itself, which may be a parameter."""
        return np.array([where(self.inside(y[0]), y[0], self.bounded(y[0] * 2.0))], dtype=object)

    def inside(self, y: Any) -> Any:
        """Whether the drive is taken to be within the bounds: an impulse is at one of them, or anywhere else."""
        return abs(abs(y) - self.S) > self.S * by_precision(AT_BOUND, AT_BOUND_SINGLE)

    def force_error(self, y: Any, u: Any, speed: Any, change: Any) -> Any:
        """|lambda - law(u)| over the bound, beyond what rounding makes of it; arguments as of dry friction."""
        off = abs(y - self.bounded(self.w - self.G * u))
        off = off - by_precision(ROUNDING, ROUNDING_SINGLE) * (abs(self.w) + self.G * (abs(u) + speed + change))
        return np.maximum(off, 0.0) / where(self.S > 0.0, self.S, 1.0)

    def pivot(self, y: Any, u: Any) -> tuple[Any, Any]:
        """(whether the law at the velocity u is not where the drive was taken to be, an impulse where it is taken to be next)."""
        x, inside = self.w - self.G * u, self.inside(y)
        return where(inside, abs(x), -where(y > 0.0, x, -x)) > where(inside, self.S, -self.S), where(inside, self.bounded(x), 0.0)

    def dual(self, u: Array, y: Array) -> Array:
        """G u + y - w: zero within the bounds."""
        return u * self.G + (y - self.w)

    def dual_change(self, du: Array) -> Array:
        """G du."""
        return du * self.G

    def dual_residual(self, iterate: dict[str, Any], u: Array) -> Array:
        """None: each step looks at the law anew."""
        return np.zeros(1)

    def scaled(self, iterate: dict[str, Any], residual: Array, u: Array) -> ScaledDrive:
        """The law linearised about an iterate, at the velocity u."""
        return ScaledDrive(self, iterate, u)

    def compliance(self, y: Array, s: Any, u: Array | None = None) -> Array:
        """1 within the bounds, else 0: how the impulse follows  w - G u."""
        return np.array([[where(self.inside(y[0]), 1.0, 0.0)]], dtype=object)

    def gradient(self, y: Array, s: Any) -> Array:
        """None: there is no barrier."""
        return np.zeros(1)

    def slack(self, y: Array) -> Any:
        """Of no meaning here: 1."""
        return 1.0

    def consistent(self, iterate: dict[str, Any]) -> dict[str, Any]:
        """The iterate as it is."""
        return iterate

    def distance(self, iterate: dict[str, Any]) -> Any:
        """Zero: there are no products."""
        return 0.0

    def slack_decrease(self, dy: Array) -> Any:
        """Zero."""
        return 0.0

    def impulse_change(self, dy: Array) -> Array:
        """The change of impulse with y."""
        return dy

    def stiffness(self, compliance: Array) -> Array:
        """Sigma: impulses change by -Sigma du."""
        return compliance * self.G


class ScaledDrive:
    """The law of a drive, linearised:  y + dy = w - G (u + du)  within the bounds, else the bound."""

    def __init__(self, law: Drive, iterate: dict[str, Any], u: Array) -> None:
        (y,) = self.y = iterate["y"]
        self.law, residual = law, law.w - law.G * u[0] - y
        predicted = y + residual / (1.0 + law.G / (LIGHTER * law.mass))
        self.s = iterate["s"]
        held = self.s > 0.5
        inside = (held & law.inside(y)) | (~held & (abs(predicted) <= law.S))
        self.Q_inverse = np.array([[where(inside, 1.0, 0.0)]], dtype=object)
        self.toward = where(inside, residual, where(where(held, y, predicted) > 0.0, law.S, -law.S) - y)
        self.energy = law.kappa
        off = self.toward / law.scale
        # with the set kept the step is exact
        self.error = where(held, 0.0, CORNER * (off * off))

    def impulse_toward(self, k: Any, ahead: dict[str, Any] | None, go: Any, most: Any) -> Array:
        """The change of impulse at constant velocity; none in a pure centering step of the other laws."""
        self.change = self.toward * go
        return np.array([self.change], dtype=object)

    def step(self, du: Array) -> dict[str, Any]:
        """The step of all unknowns when the velocity changes by du."""
        return {"y": np.array([self.change - self.Q_inverse[0, 0] * (self.law.G * du[0])], dtype=object), "s": 0.0}

    def moved(self, step: dict[str, Any], a: Any) -> dict[str, Any]:
        """The iterate after a step of length a."""
        return {"y": self.y + step["y"] * a, "s": self.s}

    def inverse_step_limit(self, step: dict[str, Any]) -> Any:
        """Zero: a step of any length is allowed."""
        return 0.0
