"""The mass matrix by the composite-rigid-body algorithm."""

from __future__ import annotations

import numpy as np

from condyle.dynamics.limbs import joined
from condyle.dynamics.solve import tree_factor
from condyle.robot.model import Model
from condyle.robot.spatial import Array


def mass_matrix(model: Model, q: Array) -> Array:
    """M(q), symmetric, nv x nv (Featherstone 2008, table 6.2)."""
    I = [link.inertia for link in model.links]
    M = np.zeros((model.nv, model.nv), dtype=object)
    for i, link in model.inward():
        # everything beyond joint i, as one rigid body
        if link.parent >= 0:
            I[link.parent] = I[link.parent] + joined(link, I[i].seen_from(link.pose(q)))
        for k, S in enumerate(link.axes):
            row = link.v.start + k
            F = I[i] @ S
            for m in range(k + 1):
                M[row, link.v.start + m] = link.axes[m].dot(F)
            M[row, row] = M[row, row] + link.armature
            # the same force acts on the joints towards the base
            j = i
            while model.links[j].parent >= 0:
                F = model.links[j].pose(q) @ F
                j = model.links[j].parent
                for m, S_j in enumerate(model.links[j].axes):
                    M[row, model.links[j].v.start + m] = S_j.dot(F)
    for i in range(model.nv):
        for j in range(i):
            M[j, i] = M[i, j]
    return M


def inverse_mass_matrix(model: Model, q: Array) -> Array:
    """M(q)^-1, symmetric, nv x nv."""
    return tree_factor(model, mass_matrix(model, q)).inverse_matrix()
