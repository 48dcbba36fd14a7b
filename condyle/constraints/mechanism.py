"""Mechanisms as numbers: the conditions of a robot at a pose, how strong they are, and poses that meet them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from condyle.constraints.coordinate_map import CoordinateMap
from condyle.constraints.loop_residuals import Conditions, all_rows
from condyle.dynamics.kinematics import poses
from condyle.dynamics.manifold import integrate
from condyle.robot.model import Model
from condyle.robot.spatial import Array
from condyle.tape.function import Function
from condyle.tape.local_derivatives import jacobian_at_zero
from condyle.tape.scalar import constant
from condyle.tape.trace import trace

CLOSED = 1e-11  # the largest condition of a closed pose, in units of the robot's length
RANK = 1e-7  # singular values below this part of the largest count as zero
FAR = 0.5  # the longest step towards a closed pose, rad or m


@dataclass(frozen=True)
class Mechanism:
    """The conditions of a robot as functions of numbers."""

    model: Model
    lower: CoordinateMap
    below: Model
    conditions: Conditions
    function: Function
    slopes: np.ndarray  # dphi/dx, where it is the same at all poses
    moving: tuple[np.ndarray, np.ndarray]  # (rows, columns) where it is not: what the function gives
    length: float

    @staticmethod
    def of(model: Model, lower: CoordinateMap, conditions: Conditions) -> Mechanism:
        below = lower.reduced
        seen: list[np.ndarray] = []

        def traced(x: Array) -> dict[str, Array]:
            at = lower.differentials(model, lower.configurations(model, x))

            def moved(d: Array) -> dict[str, Array]:
                step = d if at.total is None else at.total @ d
                return {"phi": all_rows(conditions, model, integrate(model, at.q, step))}

            J = jacobian_at_zero(moved, below.nv)["phi"]
            # most entries are zero, and compiling them would take long
            fixed = np.array([[constant(entry) for entry in row] for row in J], dtype=float)
            seen.append(fixed)
            return {"phi_and_slopes": np.concatenate([all_rows(conditions, model, at.q), J[np.isnan(fixed)]])}

        function = Function(trace(traced, x=below.nq))
        rows, columns = np.nonzero(np.isnan(seen[0]))
        return Mechanism(model, lower, below, conditions, function, seen[0], (rows, columns), _length(model))

    def at(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(phi, dphi/dx)."""
        values: np.ndarray = self.function(x)
        J, n = self.slopes.copy(), len(self.slopes)
        J[self.moving] = values[n:]
        return values[:n], J

    def moved(self, x: np.ndarray, dx: np.ndarray) -> np.ndarray:
        return np.asarray(integrate(self.below, x, dx), dtype=float)

    def is_closed(self, left: float) -> bool:
        """Whether a pose is closed, by what is left of its conditions."""
        return left <= CLOSED * self.length

    def closed(self, x: np.ndarray, columns: np.ndarray, steps: int = 60) -> tuple[np.ndarray, float]:
        """(x moved along these coordinates until the loops close, what is left of the conditions): Gauss-Newton, with care."""
        phi, J = self.at(x)
        if not (np.all(np.isfinite(phi)) and np.all(np.isfinite(J))):
            return x, np.inf
        for _ in range(steps):
            if _largest(phi) <= CLOSED * self.length * 1e-3:
                break
            step = np.zeros(self.below.nv)
            step[columns] = -np.linalg.lstsq(J[:, columns], phi, rcond=1e-10)[0]
            step *= min(1.0, FAR / max(_largest(step), FAR))
            for _ in range(12):
                there = self.moved(x, step)
                new, J_new = self.at(there)
                if np.linalg.norm(new) < np.linalg.norm(phi) and np.all(np.isfinite(J_new)):
                    break
                step *= 0.5
            else:
                break
            x, phi, J = there, new, J_new
        return x, _largest(phi)

    def step(self, x: np.ndarray, rows: Sequence[int], columns: np.ndarray) -> tuple[np.ndarray, float, float]:
        """(a step of Newton along these coordinates, what is left before it, the strength 1 / |J^-1|); a square part of J."""
        phi, J = self.at(x)
        chosen, step = list(rows), np.zeros(self.below.nv)
        try:
            inverse = np.linalg.inv(J[chosen][:, columns])
        except np.linalg.LinAlgError:
            return step, np.inf, 0.0
        step[columns] = -inverse @ phi[chosen]
        return step, _largest(phi), 1.0 / float(np.linalg.norm(inverse))

    def nearby(self, x: np.ndarray, rows: Sequence[int], columns: np.ndarray) -> tuple[np.ndarray, float, float]:
        """(x closed by steps of Newton from near it, what is left of the conditions, their strength there)."""
        for _ in range(12):
            step, left, strength = self.step(x, rows, columns)
            if not np.isfinite(left) or self.is_closed(left):
                break
            x = self.moved(x, step * min(1.0, FAR / max(_largest(step), FAR)))
        return x, left, strength


def rank_of(J: np.ndarray) -> int:
    """The number of singular values that count."""
    s = np.linalg.svd(J, compute_uv=False)
    return int(np.sum(s > RANK * max(s[0], 1e-300))) if len(s) else 0


def _largest(x: np.ndarray) -> float:
    return float(np.max(np.abs(x), initial=0.0))


def _length(model: Model) -> float:
    """About how large the robot is, m."""
    q = model.neutral()
    points = [X.p for X in poses(model, q)] + [link.placement.p for link in model.links] + [f.pose.p for f in model.frames]
    return max(float(np.max(np.abs(np.array(points, dtype=float)))), 1e-3)
