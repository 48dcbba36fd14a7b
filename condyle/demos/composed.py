"""Bodies put together by hand: mass, centre and moments of a rigid group of parts, by the parallel axis theorem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray
Part = tuple[float, Any, Any]  # kg, where its centre is (3), moments about it (3) or (3, 3)


def composed(parts: Sequence[Part]) -> tuple[float, Array, Array]:
    """(mass, centre (3,), moments about the centre (3, 3)) of parts whose axes are parallel."""
    mass = float(sum(m for m, _, _ in parts))
    centre: Array = np.sum([m * np.asarray(at, dtype=float) for m, at, _ in parts], axis=0) / mass
    whole = np.zeros((3, 3))
    for m, at, moments in parts:
        I, away = np.asarray(moments, dtype=float), np.asarray(at, dtype=float) - centre
        whole += (np.diag(I) if I.ndim == 1 else I) + m * (np.sum(away * away) * np.eye(3) - np.outer(away, away))
    return mass, centre, whole


def full(moments: Sequence[float], products: Sequence[float]) -> Array:
    """(3, 3) of (xx, yy, zz) and (xy, xz, yz)."""
    (xx, yy, zz), (xy, xz, yz) = moments, products
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
