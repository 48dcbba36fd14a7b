"""Where the robot touches: each contact point over the ground, and the laws of all bounded forces of a step."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.dynamics.kinematics import ancestors, axes, root_poses
from condyle.robot.angles import of_degrees
from condyle.robot.spatial import Array, skew
from condyle.simulate.contact_frame import at, ground_axes, surface, turned
from condyle.simulate.friction_cone import Cone, Corners
from condyle.simulate.points import ContactPoint
from condyle.simulate.solver import Bounded
from condyle.simulate.world import IMPACT, World


def strength(world: World, depth: Any) -> Any:
    """S = h k depth^power: the largest normal impulse; zero above the ground."""
    return grown(world, depth) * (world.h * world.stiffness)


def grown(world: World, depth: Any) -> Any:
    """depth^power, zero where the depth is negative."""
    d = np.maximum(depth, 0.0)
    product = d
    for _ in range(world.power - 1):
        product = product * d
    return product


def contact_law(world: World, point: ContactPoint, mass: float, depth: Any, u: Array) -> Cone | Corners:
    """The law of one contact at this depth; u is its velocity before the step, and `mass` what the ground feels there."""
    S = strength(world, depth)
    kappa = world.contact_smoothing + impact_smoothing((mass * world.share) ** 0.5, world.gravity * world.h, S, u @ u)
    assert world.ground is not None
    mu = float(world.ground.friction if point.friction is None else point.friction)
    # the sliding speed before the step, smooth at rest
    square, least = u[1] * u[1] + u[2] * u[2], world.gravity * world.h
    slip = mu * square / np.sqrt(square + least * least)
    if not world.pyramid:
        return Cone.of(S, mu, kappa, slip)
    n = world.pyramid
    around = [of_degrees(360.0 * k / n) for k in range(n)]
    directions = np.array([[1.0] * n, [mu * c for c, _ in around], [mu * s for _, s in around]])
    return Corners.of(directions * S, kappa, slip=slip)


def coordinates(world: World, link: int) -> tuple[int, ...]:
    """The coordinates that move a link."""
    links = world.model.links
    return tuple(k for i in ancestors(world.model, link) for k in range(links[i].v.start, links[i].v.stop))


def touches(world: World, q: Array, v: Array) -> list[Bounded]:
    """The contacts, at the geometry of q, in the coordinates of aligned.py; v is the velocity before the step, in those of q."""
    if world.ground is None:
        return []
    X_0F, X = root_poses(world.model, q)
    S = axes(world.model, X)
    turn = ground_axes(world, q)
    out = []
    for point, mass in zip(world.points, world.felt, strict=True):
        centre = X[point.link].point(np.array(point.position))
        ground = surface(world, point, X_0F, centre)
        path = coordinates(world, point.link)
        J = np.array([at(S[k], centre + ground.arm) for k in path]).T
        C = ground.C
        if turn is not None:
            # the base's columns are 1 and -[r] in any axes; the others turn
            J = np.hstack([np.eye(3), -skew(C @ (centre + ground.arm)), C @ J[:, 6:]])
            C = None
            u = J @ turned(turn, v)[list(path)]
        else:
            u = C @ (J @ v[list(path)])
        law = contact_law(world, point, mass, ground.depth, u)
        least = world.gravity * world.h
        out.append(Bounded(law, path, J, C, np.sqrt(u @ u) + least, mass, least))
    return out


def joint_laws(world: World, q: Array, v: Array) -> list[Bounded]:
    """Joint limits and dry friction."""
    out = []
    for k, joint in enumerate(world.joints):
        scale = joint.load * world.h / joint.inertia
        speed = abs(v[k]) + scale
        if joint.lower is not None or joint.upper is not None:
            angle = q[position(world, k)]
            _, size = limit_strength(world, k, angle)
            law = limit_law(world, k, angle, v[k])
            out.append(Bounded(law, (k,), None, None, speed, joint.inertia, scale, size <= 0.0))
        if joint.friction:
            S = joint.friction * world.h
            kappa = world.smoothing * S * S / joint.inertia
            out.append(
                Bounded(Corners.of(np.array([[2.0 * S]]), kappa, np.array([-S])), (k,), None, None, speed, joint.inertia, scale)
            )
    return out


def impact_smoothing(mass: float, least: float, S: Any, square: Any) -> Any:
    """A part of the energy that an impact can take up: of speed times the smaller of S and mass times speed.

    `square` is that of the speed, and speeds below `least` do not count. In steady sliding the friction misses
    this part, at any dt.
    """
    speed = np.sqrt(square + least * least)
    return (IMPACT * mass) * (square * S / (S + mass * speed))


def limit_law(world: World, k: int, angle: Any, speed: Any) -> Corners:
    """The law of a joint's limits at an angle; `speed` is that before the step."""
    joint = world.joints[k]
    D, size = limit_strength(world, k, angle)
    scale = joint.load * world.h / joint.inertia
    kappa = world.smoothing * joint.inertia * scale * scale + impact_smoothing(joint.inertia, scale, size, speed * speed)
    return Corners.of(np.array([[D]], dtype=object), kappa)


def limit_strength(world: World, k: int, angle: Any) -> tuple[Any, Any]:
    """(the largest impulse of a joint's limits, its size): positive at the lower one, negative at the upper, zero between."""
    joint = world.joints[k]
    scale = 2.0 * joint.load * world.h / joint.depth**world.power
    signed, size = 0.0, 0.0
    for bound, sign in ((joint.lower, 1.0), (joint.upper, -1.0)):
        if bound is not None:
            d = grown(world, (bound - angle) * sign)
            signed, size = signed + d * (sign * scale), size + d * scale
    return signed, size


def position(world: World, k: int) -> int:
    """The place in q of a joint with the single coordinate k."""
    for link in world.model.links:
        if link.v.start == k and link.kind.nv == 1:
            return int(link.q.start)
    raise AssertionError(f"coordinate {k} is not a joint of one coordinate")
