"""How far a joint can move the points of a capsule: lever arms, by which distances along a path are bounded.

    |d_i(q + dq) - d_i(q)| <= sum_j R_ij |dq_j|

R_ij is an upper bound, over all configurations, of the speed of any point on the axis of a capsule of pair i, relative to the
other side of the pair, at unit speed of joint j.
"""

from __future__ import annotations

import numpy as np

from condyle.dynamics.kinematics import ancestors
from condyle.errors import RobotError
from condyle.methods.planning.link_capsules import LinkCapsule
from condyle.methods.planning.obstacle_shapes import Box, Capsule, Plane, Solid
from condyle.methods.planning.robot_distances import RobotDistances
from condyle.multibody.robot import Robot
from condyle.robot.joints import Prismatic, Revolute
from condyle.robot.model import Model


def lever_arms(distances: RobotDistances) -> np.ndarray:
    """R (pairs, nv), m per rad for revolute joints and 1 for prismatic ones; zero for joints that do not move the pair.

    The lever arm about a joint is at most the length of the chain from its axis to the end of the capsule.
    """
    robot = distances.robot
    if not robot.coordinate_map.identity or any(not isinstance(x.kind, Revolute | Prismatic) for x in robot.model.links):
        raise RobotError(
            f"lever arms are those of revolute and prismatic joints without constraints; robot '{robot.name}' has others"
        )
    R = np.zeros((len(distances), robot.nv))
    arms = [_arms(robot.model, each) for each in distances.capsules]
    for row, pair in enumerate(distances.pairs):
        # joints below both links do not change their distance
        a, b = arms[pair.capsule], arms[pair.other] if pair.other >= 0 else {}
        for joint in a.keys() ^ b.keys():
            R[row, joint] = a.get(joint, 0.0) + b.get(joint, 0.0)
    return R


def _arms(model: Model, capsule: LinkCapsule) -> dict[int, float]:
    """{column of v: lever arm} of the joints that move a capsule."""
    chain = ancestors(model, capsule.link)
    found: dict[int, float] = {}
    # the farthest end of the capsule from the origin of the link that the loop is at, outermost first
    reach, offsets = 0.0, [np.asarray(capsule.start, dtype=float), np.asarray(capsule.end, dtype=float)]
    for i in reversed(chain):
        link = model.links[i]
        if isinstance(link.kind, Prismatic):
            found[link.v.start] = 1.0
            stroke = _stroke(link.limits.lower, link.limits.upper, link.joint)
        else:
            axis = np.asarray(link.kind.axis, dtype=float)  # type: ignore[union-attr]
            found[link.v.start] = reach + max(float(np.linalg.norm(np.cross(axis, p))) for p in offsets)
            stroke = 0.0
        reach += max(float(np.linalg.norm(p)) for p in offsets) + stroke
        offsets = [np.asarray(link.placement.p, dtype=float)]
    return found


def _stroke(lower: float | None, upper: float | None, joint: str) -> float:
    """The largest |q| of a prismatic joint."""
    if lower is None or upper is None or not np.isfinite(lower + upper):
        raise RobotError(f"the prismatic joint '{joint}' has no limits, so that its reach has no bound: give it limits")
    return max(abs(lower), abs(upper))


def core_radii(distances: RobotDistances) -> np.ndarray:
    """(pairs,): the sum of the radii of both sides, m: as far as their axes are apart where they touch; inf for planes."""
    radii = []
    for pair in distances.pairs:
        own = distances.capsules[pair.capsule].radius
        radii.append(
            own + (distances.capsules[pair.other].radius if pair.other >= 0 else _radius(distances.obstacles[pair.obstacle]))
        )
    return np.array(radii)


def extent(solid: Solid) -> float:
    """The largest distance of a point of an obstacle from its position, m; 1 m for planes, which have none."""
    if isinstance(solid, Box):
        return 0.5 * float(np.linalg.norm(solid.size))
    return 1.0 if isinstance(solid, Plane) else solid.radius + (0.5 * solid.length if isinstance(solid, Capsule) else 0.0)


def _radius(solid: Solid) -> float:
    return float("inf") if isinstance(solid, Plane) else 0.0 if isinstance(solid, Box) else solid.radius


def revolute(robot: Robot) -> np.ndarray:
    """(nv,): 1 for revolute joints, 0 for prismatic ones."""
    return np.array([1.0 if isinstance(link.kind, Revolute) else 0.0 for link in robot.model.links])


def curvature_bounds(distances: RobotDistances) -> np.ndarray:
    """c (pairs, nv):  d_i'' <= sum_j c_ij dq_j^2  along  q + s dq, wherever the pair is apart.

    A distance is the least over pairs of points a and b of |b - a| less both radii. Points move by at most D = sum_j R_ij
    |dq_j|, and on curves with |p''| <= W D, W = sum |dq_j| over revolute joints, so that the second derivative of |b - a| is at
    most D^2 / r + W D with the sum r of the radii (no D^2 / r for planes). Products are bounded by squares:  D^2 <= (sum R) sum
    R dq^2. Only from above: where the closest points jump, the derivative of the distance falls.
    """
    R, radii, w = lever_arms(distances), core_radii(distances), revolute(distances.robot)
    total = R.sum(axis=1, keepdims=True)
    found: np.ndarray = total / radii[:, None] * R + 0.5 * (total * w + float(w.sum()) * R)
    return found
