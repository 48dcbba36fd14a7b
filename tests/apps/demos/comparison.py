"""What the reference checks of the demo robots share: comparison of arrays, sliding feet, composite inertia."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from condyle.apps.demos.checks import Check, largest
from condyle.workbench.runs.run import Run

Array = np.ndarray
Body = tuple[float, Any, Any]  # kg, its centre of mass (3), moments about it (3) or (3, 3)


def difference(group: str, name: str, found: Any, expected: Any, unit: str = "", tolerance: float = 1e-12) -> Check:
    """A check of the largest difference; arrays of different shape fail, and so does NaN."""
    one, other = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    return Check(group, name, largest(one - other) if one.shape == other.shape else np.inf, unit, high=tolerance)


def sliding_distance(run: Run, feet: Sequence[str], radius: float, loaded: float = 0.05) -> Array:
    """(steps, feet): distance, m, that each foot slides on level ground in a step, where it carries at least this part of the
    weight. The centre of a ball that rolls moves, its contact point does not:  v + omega x (0, 0, -r)."""
    weight = run.robot.mass * float(np.linalg.norm(run.robot.model.gravity))
    out = np.zeros((run.steps, len(feet)))
    for i, foot in enumerate(feet):
        V = np.sum(run.robot.jacobian(run.q[1:], foot) * run.v[1:, None, :], axis=-1)
        point = V[:, :3] + np.cross(V[:, 3:], (0.0, 0.0, -radius))
        out[:, i] = run.dt * np.hypot(point[:, 0], point[:, 1]) * (run.contact_forces[:, i, 2] >= loaded * weight)
    return out


def composite_inertia(bodies: Sequence[Body]) -> tuple[float, Array, Array]:
    """(mass, centre (3,), moments about it (3, 3)) of bodies whose axes are parallel, by the parallel axis theorem."""
    mass = float(sum(m for m, _, _ in bodies))
    centre: Array = np.sum([m * np.asarray(at, dtype=float) for m, at, _ in bodies], axis=0) / mass
    total = np.zeros((3, 3))
    for m, at, moments in bodies:
        I, d = np.asarray(moments, dtype=float), np.asarray(at, dtype=float) - centre
        total += (np.diag(I) if I.ndim == 1 else I) + m * (np.sum(d * d) * np.eye(3) - np.outer(d, d))
    return mass, centre, total


def symmetric(moments: Sequence[float], products: Sequence[float]) -> Array:
    """(3, 3) of (xx, yy, zz) and (xy, xz, yz)."""
    (xx, yy, zz), (xy, xz, yz) = moments, products
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
