"""The arm and its controller against published numbers: what can be said without a simulation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from apps.demos.comparison import difference
from apps.demos.facts import GRAVITY
from apps.demos.facts import Arm as F

from condyle.apps.demos import arm
from condyle.apps.demos.arm import TOOL, robot
from condyle.apps.demos.checks import Check, near
from condyle.dynamics.energy import total_mass
from condyle.dynamics.kinematics import frame_pose
from condyle.dynamics.rnea import inverse_dynamics
from condyle.robot.library import ur3
from condyle.robot.model import Model

Array = np.ndarray


def model_checks(model: Model | None = None) -> Iterator[Check]:
    """Rows for this model, or for the library's."""
    model = robot().model if model is None else model
    yield from links(model)
    yield from by_hand(model)
    yield from controller(model)


def links(model: Model) -> Iterator[Check]:
    group, found = "the arm", model.links
    off = "off the published ones"
    yield near(group, "mass of what moves", total_mass(model), sum(F.MASSES), 1e-9, "kg", ".2f")
    yield difference(group, f"masses of the six links, {off}", [link.inertia.mass for link in found], F.MASSES, "kg")
    centres = [(0.0, 0.0, z) for z in F.CENTRES]
    yield difference(group, f"centres of mass, {off}", [link.inertia.com for link in found], centres, "m")
    moments = [np.diag([xx, xx, zz]) for xx, zz in zip(F.IXX, F.IZZ, strict=True)]
    yield difference(group, f"moments of inertia, {off}", [link.inertia.I_com for link in found], moments, "kg m^2", 1e-14)
    yield difference(group, f"origins of the joints, {off}", [link.placement.p for link in found], F.ORIGINS, "m")
    rotations = [[[np.cos(a), 0.0, np.sin(a)], [0.0, 1.0, 0.0], [-np.sin(a), 0.0, np.cos(a)]] for a in F.PITCHES]
    yield difference(group, f"rotations of the joints, {off}", [link.placement.R for link in found], rotations)
    yield difference(group, f"axes, {off}", [link.axes[0].angular for link in found], F.AXES)
    limits = [(link.limits.lower, link.limits.upper) for link in found]
    yield difference(group, f"limits, {off}", limits, [(-most, most) for most in F.LIMITS], "rad")
    yield difference(group, f"efforts, {off}", [link.limits.effort for link in found], F.EFFORTS, "N m", 0.0)
    yield difference(group, f"speeds, {off}", [link.limits.velocity for link in found], F.SPEEDS, "rad/s", 0.0)
    yield difference(group, f"friction of the joints, {off}", [link.damping for link in found], [F.FRICTION] * 6, "N m s", 0.0)
    tool = model.frame(TOOL).pose
    yield difference(group, "tool on the last link, off the published place", tool.p, F.TOOL, "m")
    yield difference(group, "its axes, off a quarter turn about -x", tool.R, [[1, 0, 0], [0, 0, 1], [0, -1, 0]])
    base = ur3.description().links[0].inertia
    yield near(group, "mass of the base", base.mass if base is not None else 0.0, F.BASE, 0.0, "kg", ".1f")


def by_hand(model: Model) -> Iterator[Check]:
    """In the ready pose the upper arm is upright, and the rest lies along x: sums of published numbers."""
    group, q = "ready pose, by hand", np.array(F.READY)
    yield difference(group, "ready pose, off the published one", ur3.READY, F.READY, "rad", 0.0)
    along = (F.ORIGINS[3][2] + F.ORIGINS[5][2], sum(F.ORIGINS[i][1] for i in range(5)) + F.TOOL[1], 0.1519 + 0.24365)
    place = np.asarray(frame_pose(model, q, TOOL).p, dtype=float)
    for axis, found, wanted in zip("xyz", place, along, strict=True):
        yield near(group, f"tool in the ready pose, along {axis}", found, wanted, 1e-9, "m", ".5f")
    torques = np.asarray(inverse_dynamics(model, q, np.zeros(6), np.zeros(6)), dtype=float)
    forearm, hand = F.ORIGINS[3][2], F.ORIGINS[5][2]
    lever = F.MASSES[2] * F.CENTRES[2] + sum(F.MASSES[3:]) * forearm + F.MASSES[5] * hand  # kg m, about the elbow
    for i, name, wanted in ((1, "lift", lever), (2, "elbow", lever), (3, "wrist 1", F.MASSES[5] * hand)):
        yield near(group, f"torque that holds the {name}", torques[i], -GRAVITY * wanted, 1e-12, "N m", ".4f")
    rest = torques[[0, 4, 5]]
    yield difference(group, "torque of pan, wrist 2 and wrist 3", rest, np.zeros(3), "N m")


def controller(model: Model) -> Iterator[Check]:
    """Gains, clamps and friction as they act in the law."""
    group, q, still = "the law", np.array(F.READY), np.zeros(6)

    def law(place: Array, rate: Array, v: Array) -> Array:
        return np.asarray(arm.law(model, q, v, np.stack([place, rate, still]))["u"], dtype=float)

    constant = law(q, still, still)
    yield difference(group, "torque by angle, off the published kp", law(q + 1.0, still, still) - constant, F.KP, "N m/rad")
    # friction is fed forward with the wanted rate
    by_rate = law(q, still + 1.0, still) - constant
    yield difference(group, "torque by wanted rate, off kd and friction", by_rate, np.array(F.KD) + F.FRICTION, "N m s")
    far = law(q + 1e6, still, still)
    yield difference(group, "torque far from its place, off the clamp of 100 N m", far, [F.CLAMP] * 6, "N m", 0.0)
    # the whole is clamped too: the rate's part shows where the angle takes some of it back
    taken = law(q - 50.0 / np.array(F.KP), still + 1e3, still)
    back = np.minimum(np.array(F.KD) * 1e3, F.CLAMP) - 50.0 + F.FRICTION * 1e3 + constant
    yield difference(
        group, "torque of a rate that is too high, off its clamp", taken, np.clip(back, -F.CLAMP, F.CLAMP), "N m", 1e-9
    )
    corners, (centre, half, height) = arm.corners(), F.RECTANGLE
    wanted = [(centre[0] + a * half[0], centre[1] + b * half[1], height) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
    yield difference(group, "corners of the rectangle, off the published ones", corners, wanted, "m")
