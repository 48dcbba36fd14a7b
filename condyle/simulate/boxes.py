"""The laws with corners: forces between 0 and a bound along some directions. A joint's limit and dry friction have one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.robot.spatial import Array
from condyle.simulate.laws import Part, largest


@dataclass(frozen=True)
class Corners:
    """Impulse  offset + E y  with y >= 0 and sum y <= 1; E has one column for each corner.

    One corner: a joint's limit (E = S) or dry friction (E = 2 S, offset = -S). Many: a friction pyramid.
    """

    E: Array
    kappa: Any
    per: Any  # 1 / kappa
    offset: Array | float = 0.0
    slip: Any = 0.0  # of a pyramid, as of a cone

    @staticmethod
    def of(E: Array, kappa: Any, offset: Array | float = 0.0, slip: Any = 0.0) -> Corners:
        return Corners(E, kappa, 1.0 / kappa, offset, slip)

    @property
    def strength(self) -> Any:
        """The largest impulse, along the first direction."""
        return abs(self.E[0, 0])

    @property
    def unknowns(self) -> int:
        return int(self.E.shape[1])

    @property
    def degree(self) -> int:
        return int(self.E.shape[1]) + 1

    def guess(self, impulse: Any) -> Any:
        """y for equal shares of the impulse that is expected."""
        return impulse / (self.degree * impulse + self.strength)

    def start(self, impulse: Any, k: Any, free: Array, mass: float) -> Part:
        """A point at the smoothing k: where the `free` velocity leads with one corner, else equal shares of the impulse."""
        n = self.degree - 1
        if n == 1:
            E, low = self.E[0, 0], self.offset if isinstance(self.offset, float) else self.offset[0]
            a, b = low + np.minimum(E, 0.0), low + np.maximum(E, 0.0)
            kept = free[0] + np.minimum(np.maximum(free[0] * -mass, a), b) * (1.0 / mass)
            # E u = k (1/y - 1/s)
            slope = E * kept / k
            root = np.sqrt(slope * slope + 4.0)
            y, s = 2.0 / (root + (2.0 + slope)), 2.0 / (root + (2.0 - slope))
            return {"y": np.array([y], dtype=object), "z": np.array([k / y], dtype=object), "s": s, "w": k / s}
        y = self.guess(impulse)
        s = 1.0 - n * y
        return {"y": np.array([y] * n, dtype=object), "z": np.array([k / y] * n, dtype=object), "s": s, "w": k / s}

    def impulse(self, y: Array) -> Array:
        """lambda = offset + E y."""
        return self.E @ y + self.offset

    def seen(self, u: Array) -> Array:
        """E^T (u + slip e): a velocity as the law sees it."""
        return self.E.T @ u + self.E[0] * self.slip

    def seen_change(self, du: Array) -> Array:
        """E^T du."""
        return self.E.T @ du

    def gap(self, part: Part, u: Array) -> Array:
        """seen(u) - z + w: zero at the solution."""
        return self.seen(u) - part["z"] + part["w"]

    def scaled(self, part: Part, gap: Array) -> ScaledCorners:
        """The law made linear about a point."""
        return ScaledCorners(self, part, gap)

    def compliance(self, y: Array, s: Any, u: Array | None = None) -> Array:
        """Q^-1 at the solution, Q = kappa (diag(1 / y^2) + 1 / s^2)."""
        return _without_bound(y * y * self.per, s * s * self.per)

    def gradient(self, y: Array, s: Any) -> Array:
        """1 / y - 1 / s, entry by entry."""
        return 1.0 / y - 1.0 / s

    def room(self, y: Array) -> Any:
        """s = 1 - sum y: what is left to the bound."""
        return 1.0 - sum(y[1:], y[0])

    def used(self, dy: Array) -> Any:
        """The change of -s with y."""
        return sum(dy[1:], dy[0])

    def change(self, dy: Array) -> Array:
        """The change of impulse with y."""
        return self.E @ dy

    def answer(self, compliance: Array) -> Array:
        """Sigma: impulses change by -Sigma du."""
        return self.E @ compliance @ self.E.T


def _without_bound(p: Array, b: Any) -> Array:
    """(diag(1/p) + 1 1^T / b)^-1."""
    if len(p) == 1:
        return np.array([[p[0] * b / (p[0] + b)]], dtype=object)
    return np.diag(p) - np.outer(p, p) * (1.0 / (b + sum(p[1:], p[0])))


class ScaledCorners:
    """The law made linear:  dy = Q^-1 (rho - E^T du)."""

    def __init__(self, law: Corners, part: Part, gap: Array) -> None:
        self.law, self.y, self.z, self.s, self.w = law, part["y"], part["z"], part["s"], part["w"]
        if len(self.y) == 1:
            # one division for each pair
            (y,), (z,) = self.y, self.z
            room, price = 1.0 / (y * self.s), 1.0 / (z * self.w)
            self.per_y, self.per_s = np.array([self.s * room], dtype=object), y * room
            self.per_z, self.per_w = np.array([self.w * price], dtype=object), z * price
            self.Q_inverse = np.array([[1.0 / (z * self.per_y[0] + self.w * self.per_s)]], dtype=object)
        else:
            self.per_y, self.per_z = 1.0 / self.y, 1.0 / self.z
            self.per_s, self.per_w = 1.0 / self.s, 1.0 / self.w
            self.Q_inverse = _without_bound(self.y * self.per_z, self.s * self.per_w)
        self.gap = gap
        self.energy = self.y @ self.z + self.s * self.w  # `degree` kappa at the solution
        off = [x * y * law.per - 1.0 for x, y in zip((*self.y, self.s), (*self.z, self.w), strict=True)]
        self.error = largest([x * x for x in off])
        self.noise = 0.0

    def aim(self, k: Any, ahead: dict[str, Any] | None, go: Any, most: Any) -> Array:
        """The change of impulse if the velocity stayed, on the way to the smoothing k; the others as for a cone."""
        to_z, to_w = k * self.per_y - self.z, k * self.per_s - self.w
        if ahead is not None:
            to_z = to_z - np.minimum(np.maximum(ahead["y"] * ahead["z"], -most), most) * (self.per_y * go)
            to_w = to_w - np.minimum(np.maximum(ahead["s"] * ahead["w"], -most), most) * (self.per_s * go)
        self.to_w, self.closing = to_w, self.gap * go
        self.rho = to_z - self.closing - to_w
        return self.law.E @ (self.Q_inverse @ self.rho)

    def step(self, du: Array) -> dict[str, Any]:
        """The step of all unknowns when the velocity changes by du."""
        turned = self.law.E.T @ du
        dy = self.Q_inverse @ (self.rho - turned)
        ds = -sum(dy[1:], dy[0])
        dw = self.to_w - self.w * self.per_s * ds
        return {"y": dy, "z": self.closing + turned + dw, "s": ds, "w": dw}

    def reach(self, step: dict[str, Any]) -> Any:
        """1 / (the largest multiple of a step that stays inside)."""
        pairs = [*zip(step["y"], self.per_y, strict=True), *zip(step["z"], self.per_z, strict=True)]
        return largest([-a * b for a, b in [*pairs, (step["s"], self.per_s), (step["w"], self.per_w)]])
