"""The four-limbed robot against published numbers: what can be said without a simulation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from apps.demos.comparison import difference
from apps.demos.facts import GRAVITY
from apps.demos.facts import FourLimb as F

from condyle.apps.demos import fourlimb
from condyle.apps.demos.checks import Check, near
from condyle.dynamics.energy import center_of_mass, total_mass
from condyle.dynamics.kinematics import frame_pose
from condyle.robot.model import Model

Array = np.ndarray

LIMBS = {"fl": (+1, +1), "fr": (+1, -1), "hl": (-1, +1), "hr": (-1, -1)}  # (front, left)


def model_checks(model: Model | None = None) -> Iterator[Check]:
    """Rows for this model, or for the library's."""
    model = fourlimb.robot().model if model is None else model
    yield from parts(model)
    yield from pose(model)


def place(model: Model, q: Array, name: str) -> Array:
    return np.asarray(frame_pose(model, q, name).p, dtype=float)


def parts(model: Model) -> Iterator[Check]:
    group, q, torso = "masses and lengths", model.neutral(), model.links[0].inertia
    yield near(group, "mass", total_mass(model), F.MASS, 1e-9, "kg", ".4f")
    yield near(group, "mass of the torso", torso.mass, F.TORSO, 0.0, "kg", ".1f")
    yield difference(group, "moments of the torso, off the published ones", torso.I_com, np.diag(F.TORSO_MOMENTS), "kg m^2")
    yield difference(group, "centre of the torso, off its frame", torso.com, np.zeros(3), "m")
    hips = [place(model, q, f"roll_1_{limb}") for limb in LIMBS]
    wanted = [(front * F.HIP[0], left * F.HIP[1], F.HIP[2]) for front, left in LIMBS.values()]
    yield difference(group, "hips, off the published places", hips, wanted, "m")
    # hanging down, each segment leads to the next joint, the last one to the foot
    steps, by_hand = [], []
    for limb, (_, left) in LIMBS.items():
        ends = [place(model, q, name) for name in (f"roll_1_{limb}", f"roll_2_{limb}", f"roll_3_{limb}", f"foot_{limb}")]
        steps += [b - a for a, b in pairwise(ends)]
        by_hand += [(0.0, left * out, -down) for down, out in F.SEGMENTS]
    yield difference(group, "segments, off 0.17203, 0.2865 / 0.117 and 0.1925 / -0.117", steps, by_hand, "m")
    limbs = [float(link.inertia.mass) for link in model.links[1:]]
    yield Check(group, "lightest limb link, foot included", min(limbs), "kg", F.LIGHTEST, F.HEAVIEST, ".2f")
    yield Check(group, "heaviest limb link", max(limbs), "kg", F.LIGHTEST, F.HEAVIEST, ".2f")
    efforts = [link.limits.effort for link in model.links[1:]]
    yield difference(group, "efforts, off 300", efforts, [F.EFFORT] * 24, "N m", 0.0)
    yield near(group, "gain of the joints", fourlimb.P, F.P, 0.0, "N m/rad", ".0f")
    yield near(group, "gravity", -model.gravity[2], GRAVITY, 0.0, "m/s^2", ".2f")


def pose(model: Model) -> Iterator[Check]:
    """Feet below hips, and the same in front and behind: else it walks backward when it rocks."""
    group, q = "the pose to land in", fourlimb.crouched(fourlimb.robot())
    away = [place(model, q, f"foot_{limb}") - place(model, q, f"roll_1_{limb}") for limb in LIMBS]
    yield difference(group, "feet, beside the points below their hips", np.array(away)[:, :2], np.zeros((4, 2)), "m", 1e-4)
    centre = np.asarray(center_of_mass(model, q), dtype=float) - q[:3]
    yield difference(group, "centre of mass, off the middle of the feet", centre[:2], np.zeros(2), "m", 1e-12)
