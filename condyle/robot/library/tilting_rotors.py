"""Drones with three, four and six rotors, each on a gimbal that tilts it about the line from the body. Meant for the base "free".

Published for the trirotor and the quadrotor: mass, inertia, rotor positions from the centre of mass, spins, drag, lags. Ours: how
much of it the gimbals carry, the thrust limits, the shapes, and all of the hexarotor. The base is what the gimbals, at zero,
leave of the whole. The root is at the centre of mass of the whole; thrust directions are Rz(atan2(y, x)) Rx(angle) z.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, sqrt

import numpy as np

from condyle.robot.angles import of_degrees
from condyle.robot.description import Description
from condyle.robot.parts import (
    BLUE,
    DARK,
    RED,
    RUBBER,
    STEEL,
    X,
    body,
    box,
    cylinder,
    frame,
    joint,
    link,
    pose,
    rod,
    solid,
    sphere,
)
from condyle.robot.rotor import RotorData
from condyle.robot.rounded import atan2
from condyle.robot.spatial import Inertia

REACH = 0.05  # m, of a gimbal from its servo to the rotor
SERVO = 0.085883  # s, time constant
LIMIT = pi / 2.0  # rad, of a gimbal


@dataclass(frozen=True)
class Layout:
    """The whole at zero gimbal angles, and what each gimbal has of it."""

    name: str
    mass: float  # kg
    moments: tuple[float, float, float]  # kg m^2, about the centre of mass
    rotors: tuple[tuple[float, float, float], ...]  # m, from the centre of mass
    directions: tuple[float, ...]  # of spin
    drag: float  # m
    lag: float  # s, of the thrust
    thrust: tuple[float, float]  # N
    gimbal_mass: float  # kg
    radius: float  # m, of a propeller
    hull: tuple[float, float, float]  # m, size of the box about the base's centre of mass
    feet: float  # m, below the centre of mass


TRIROTOR = Layout(
    "trirotor",
    1.52127,
    (0.025102, 0.0190842, 0.0387961),
    ((0.0864353, -0.23752, 0.0259075), (0.0864353, 0.23748, 0.0259075), (-0.211065, -2e-5, 0.0259075)),
    (+1.0, -1.0, +1.0),
    drag=0.0172,
    lag=0.0,
    thrust=(0.0, 15.0),
    gimbal_mass=0.14,
    radius=0.09,
    hull=(0.16, 0.10, 0.06),
    feet=0.13,
)
QUADROTOR = Layout(
    "quadrotor",
    2.773,
    (0.0417, 0.03945, 0.07068),
    tuple((x * 0.1377, y * 0.138, 0.0297) for x, y in ((1, -1), (1, 1), (-1, 1), (-1, -1))),
    (-1.0, +1.0, -1.0, +1.0),
    drag=0.0153,
    lag=0.0942,
    thrust=(0.0, 20.0),
    gimbal_mass=0.20,
    radius=0.11,
    hull=(0.16, 0.14, 0.08),
    feet=0.16,
)
HEXAROTOR = Layout(
    "hexarotor",
    3.6,
    (0.085, 0.085, 0.150),
    tuple((0.32 * c, 0.32 * s, 0.03) for c, s in (of_degrees(30.0 + 60.0 * k) for k in range(6))),
    (+1.0, -1.0, +1.0, -1.0, +1.0, -1.0),
    drag=0.016,
    lag=0.05,
    thrust=(0.0, 18.0),
    gimbal_mass=0.16,
    radius=0.12,
    hull=(0.20, 0.20, 0.08),
    feet=0.18,
)


def trirotor() -> Description:
    """Three rotors on gimbals, 1.52 kg."""
    return description(TRIROTOR)


def quadrotor() -> Description:
    """Four rotors on gimbals, 2.77 kg."""
    return description(QUADROTOR)


def hexarotor() -> Description:
    """Six rotors on gimbals, 3.6 kg; its numbers are ours."""
    return description(HEXAROTOR)


def description(layout: Layout) -> Description:
    """The links, joints and frames: a base with feet, and the gimbals gimbal_1, ... with frames thrust_1, ... at the rotors."""
    motor = cylinder(0.02, 0.05, pose((REACH, 0.0, 0.0)))
    gimbal = solid(layout.gimbal_mass, motor)
    arms = [pose(_inward(p, REACH), (0.0, 0.0, atan2(p[1], p[0]))) for p in layout.rotors]
    base = _less(body(layout.mass, moments=layout.moments), [gimbal.seen_from(arm) for arm in arms])
    hull = box(layout.hull, pose(base.com), BLUE, "hull")
    visuals, collisions = [hull], []
    for arm in arms:
        visuals.append(rod((0.0, 0.0, float(arm.p[2]) - 0.01), tuple(arm.p), 0.007, STEEL))
    for k, foot in enumerate(_feet(layout), start=1):
        visuals += [rod((0.45 * foot[0], 0.45 * foot[1], 0.0), foot, 0.005, DARK), sphere(0.012, foot, RUBBER)]
        collisions.append(sphere(0.012, foot, name=f"foot_{k}"))
    links, joints, frames = [link("base", base, visuals, [hull, *collisions])], [], [frame("flight_controller", "base")]
    for i, arm in enumerate(arms, start=1):
        disc = cylinder(layout.radius, 0.006, pose((REACH, 0.0, 0.03)), RED if i <= (len(arms) + 1) // 3 else STEEL)
        visuals = [rod((0.0, 0.0, 0.0), (REACH, 0.0, 0.0), 0.009, DARK), cylinder(0.02, 0.05, motor.pose, DARK), disc]
        guard = cylinder(layout.radius, 0.02, pose((REACH, 0.0, 0.03)), name=f"guard_{i}")
        links.append(link(f"gimbal_{i}", gimbal, visuals, [guard]))
        turns = {"limits": LIMIT, "effort": 3.0, "speed": 8.0, "damping": 0.02}
        joints.append(joint(f"tilt_{i}", "revolute", "base", f"gimbal_{i}", arm, X, **turns))
        frames.append(frame(f"thrust_{i}", f"gimbal_{i}", (REACH, 0.0, 0.0)))
    rotors = tuple(
        RotorData(f"thrust_{i}", f"tilt_{i}", spin, layout.drag, layout.thrust, layout.lag, SERVO, radius=layout.radius)
        for i, spin in enumerate(layout.directions, start=1)
    )
    return Description(layout.name, tuple(links), tuple(joints), tuple(frames), source="library", rotors=rotors)


def _inward(p: tuple[float, float, float], by: float) -> tuple[float, float, float]:
    """A point nearer to the vertical axis."""
    scale = 1.0 - by / sqrt(p[0] * p[0] + p[1] * p[1])
    return p[0] * scale, p[1] * scale, p[2]


def _less(total: Inertia, parts: list[Inertia]) -> Inertia:
    """What the parts leave of the whole, all about one frame."""
    mass, h, I = total.mass, np.array(total.h, dtype=float), np.array(total.I, dtype=float)
    for part in parts:
        mass, h, I = mass - part.mass, h - part.h, I - part.I
    return Inertia(mass, h, I)


def _feet(layout: Layout) -> list[tuple[float, float, float]]:
    """Four feet on a square, three quarters as far out as the rotors."""
    far = 0.75 * max(sqrt(x * x + y * y) for x, y, _ in layout.rotors) * sqrt(0.5)
    return [(x * far, y * far, 0.012 - layout.feet) for x, y in ((1, -1), (1, 1), (-1, 1), (-1, -1))]
