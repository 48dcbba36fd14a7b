"""Placing a robot on the ground, and the error for a state that begins in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.errors import SimulationError
from condyle.multibody.robot import Robot
from condyle.robot.joints import Ball, Free, Prismatic
from condyle.robot.model import Model
from condyle.robot.names import nearest
from condyle.robot.spatial import product
from condyle.simulate.terrain import Ground
from condyle.simulate.validate import array_of, finite
from condyle.tape.compose import any_traced

if TYPE_CHECKING:
    from condyle.simulate.simulation import Simulation

DEEP = 10.0  # rest depths, up to which a state may begin in the ground
DEEP_PART = 0.05  # or this part of the robot's size, if that is more
FEW = 4  # states that are not worth compiling for
STEEPEST = 0.05  # rise of a surface's normal along the way up, below which it is taken for a wall
ITERATIONS, CONVERGED = 50, 1e-13
NAMED = 3  # contact points in an error


def standing_configuration(simulation: Simulation, q: Any = None, height: float = 0.0) -> np.ndarray:
    """q with every base moved against gravity until the lowest contact point is `height` above where it carries.

    On a plane, and on heights with gravity along z, the distance is exact; on other ground it is found by Newton's method.
    """
    world, robot = simulation.world, simulation.robot
    if world.ground is None or not world.points:
        raise SimulationError(
            f"robot '{robot.name}' has nothing to stand on; give the simulation a ground, as in Simulation(robot, ground=Plane())"
        )
    height = finite("stand", "height", height)
    q = array_of(f"{robot.name}: q", chosen_configuration(robot, q), robot.nq)
    if any_traced((q,)):
        raise SimulationError(f"robot '{robot.name}': stand(q) takes numbers; inside a trace, give the height of the base in q")
    require_unit_quaternions(robot.reduced, q)
    batch = np.array(q, dtype=float).reshape(-1, robot.nq)
    up = upward(simulation)
    placed = False
    for coordinates in base_translations(robot):
        moved, columns = _moved_by(simulation, coordinates)
        change = product(columns, up)
        direction = product(change, columns)
        if not len(moved) or product(direction, up) < 1e-6:
            continue
        distance = _lift(simulation, batch, moved, direction, height - (0.0 if world.on_surface else world.depth))
        batch[:, coordinates] += distance[:, None] * change
        placed = True
    if not placed:
        raise SimulationError(
            f"robot '{robot.name}' cannot be lifted onto the ground: its base is fixed, or moves along the ground only; load it "
            'with base="free", or place the ground below it with Plane(offset=...)'
        )
    return batch.reshape(q.shape).astype(q.dtype)


def initial_configuration(simulation: Simulation) -> np.ndarray:
    """Where robots begin unless a configuration is given: neutral, or standing if that is deep in the ground and their base can
    move. The neutral one of an arm may be in the ground, where no state at rest begins."""
    q = simulation.robot.neutral()
    lift = base_translations(simulation.robot) and begins_in_ground(simulation, q)
    return standing_configuration(simulation) if lift else q


def above_ground(simulation: Simulation, q: np.ndarray, *, lift: bool = False) -> np.ndarray:
    """q; SimulationError if it begins in the ground.

    `lift`: a robot whose base can move stands there instead, as `standing_configuration` has it by default.
    """
    error = begins_in_ground(simulation, q)
    if error and lift and base_translations(simulation.robot):
        return standing_configuration(simulation)
    if error:
        raise SimulationError(error)
    return q


def begins_in_ground(simulation: Simulation, q: np.ndarray) -> str:
    """A sentence if contact points of a configuration or a batch are deeper in the ground than a few rest depths or a twentieth
    of the robot's size, else ""."""
    world, robot = simulation.world, simulation.robot
    if world.ground is None or not world.points or not q.size:
        return ""
    rows = np.asarray(q, dtype=float).reshape(-1, robot.nq)
    centers = contact_centers(simulation, rows)
    if not np.all(np.isfinite(centers)):
        return ""
    depths = -gaps(simulation, centers)[0]
    size = np.max(np.ptp(centers, axis=1), axis=1)
    allowed = np.maximum(DEEP * world.depth, DEEP_PART * size)
    row = int(np.argmax(np.max(depths, axis=1) - allowed))
    if depths[row].max() <= allowed[row]:
        return ""
    order = [int(k) for k in np.argsort(-depths[row], kind="stable") if depths[row, k] > allowed[row]]
    names = ", ".join(f"'{world.points[k].name}'" for k in order[:NAMED])
    more = f" and {len(order) - NAMED} more" if len(order) > NAMED else ""
    which = f" (state {row} of {len(rows)})" if len(rows) > 1 else ""
    fix = "give a ground below it, as Plane(offset=...), or other joints"
    if base_translations(robot):
        fix = "world.stand(q) lifts it onto the ground"
    return (
        f"robot '{robot.name}' begins {depths[row].max():.3g} m deep in the ground{which}, with {names}{more}; {fix}, and a "
        "state with a velocity, state(q, v), is taken as it is"
    )


def require_unit_quaternions(reduced: Model, q: np.ndarray) -> None:
    """SimulationError if a quaternion in q is not of length 1."""
    for link in reduced.links:
        if isinstance(link.kind, Ball | Free):
            norms = np.linalg.norm(q[..., link.q][..., -4:], axis=-1).ravel()
            if not np.all(np.abs(norms - 1.0) <= 1e-6):
                off = norms[np.argmax(~(np.abs(norms - 1.0) <= 1e-6))]
                raise SimulationError(
                    f"the quaternion (x, y, z, w) of joint '{link.joint}' in q must have length 1, got {off:.6g}; divide it "
                    "by its norm"
                )


def chosen_configuration(robot: Robot, q: Any = None) -> np.ndarray:
    """q as given, by the name of a keyframe, or, by default, every joint at zero or at the limit nearest to it."""
    if isinstance(q, str):
        keyframes = robot.keyframes
        if q not in keyframes or keyframes[q].q is None:
            raise SimulationError(f"robot '{robot.name}' has no keyframe '{q:.60}'{nearest(q, list(keyframes))}")
        return np.array(keyframes[q].q)
    if q is None:
        q = robot.neutral()
        for link in robot.reduced.links:
            if link.kind.nv == 1 and not link.base:
                low, high = link.limits.lower, link.limits.upper
                q[link.q] = np.clip(q[link.q], -np.inf if low is None else low, np.inf if high is None else high)
    return np.asarray(q)


def upward(simulation: Simulation) -> np.ndarray:
    """The unit vector against gravity; z where there is none."""
    g = np.asarray(simulation.robot.model.gravity, dtype=float)
    size = np.sqrt(np.sum(g * g))
    return -g / size if size > 0.0 else np.array([0.0, 0.0, 1.0])


def base_translations(robot: Robot) -> list[list[int]]:
    """The entries of q that move each tree of links as a whole along the axes of the world."""
    reduced, found = robot.reduced, dict[int, list[int]]()
    root: list[int] = []
    for i, link in reduced.outward():
        root.append(i if link.parent < 0 else root[link.parent])
        if isinstance(link.kind, Free) and link.parent < 0:
            found[root[i]] = list(range(link.q.start, link.q.start + 3))
        elif isinstance(link.kind, Prismatic) and link.base:
            found.setdefault(root[i], []).append(link.q.start)
    return list(found.values())


def contact_centers(simulation: Simulation, q: np.ndarray) -> np.ndarray:
    """The centres of the contact points at configurations (n, nq), in the world: (n, points, 3)."""
    backend = "reference" if len(q) <= FEW else "cpu"
    function = simulation._function("centers", ("x",), (backend, None, None))
    x = np.concatenate([q, np.zeros((len(q), simulation.nx - q.shape[1]))], axis=1)
    centers: np.ndarray = function(x)
    return centers


def gaps(simulation: Simulation, centers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(distance of each contact sphere from the ground, normals) at centres (..., points, 3)."""
    ground, radii = simulation.ground, np.array([point.radius for point in simulation.contact_points])
    assert ground is not None
    distance, normal = _distances(ground, centers)
    return distance - radii, normal


# -- inside


def _distances(ground: Ground, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distances and normals of the ground at points (..., 3)."""
    flat = at.reshape(-1, 3)
    try:
        distance, normal = ground.distance(flat.T)
    except (TypeError, ValueError):  # ground of a user's own, for one point at a time
        each = [ground.distance(p) for p in flat]
        distance, normal = np.array([d for d, _ in each]), np.array([n for _, n in each]).T
    normal = np.array([np.broadcast_to(np.asarray(x, dtype=float), len(flat)) for x in normal])
    return np.asarray(distance, dtype=float).reshape(at.shape[:-1]), normal.T.reshape(at.shape)


def _moved_by(simulation: Simulation, coordinates: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """(the contact points that these coordinates of a base move, the direction of each in the world)."""
    q = np.tile(simulation.robot.neutral(), (len(coordinates) + 1, 1))
    for row, k in enumerate(coordinates):
        q[row + 1, k] += 1.0
    centers = contact_centers(simulation, q)
    change = np.round(centers[1:] - centers[0], 12)
    moved = np.flatnonzero(np.any(change != 0.0, axis=(0, 2)))
    return moved, change[:, moved[0]] if len(moved) else np.zeros((len(coordinates), 3))


def _lift(simulation: Simulation, q: np.ndarray, moved: np.ndarray, direction: np.ndarray, height: float) -> np.ndarray:
    """How far each robot goes along `direction` until the lowest of its points is `height` above the ground."""
    centers, ground = contact_centers(simulation, q)[:, moved], simulation.ground
    assert ground is not None
    radii = np.array([simulation.contact_points[k].radius for k in moved])
    moved_by = np.zeros(len(q))
    for _ in range(ITERATIONS):
        distance, normal = _distances(ground, centers + moved_by[:, None, None] * direction)
        rise = np.maximum(np.sum(normal * direction, axis=-1), STEEPEST)
        change = np.max((height + radii - distance) / rise, axis=1)
        moved_by += change
        if np.max(np.abs(change), initial=0.0) <= CONVERGED * (1.0 + np.max(np.abs(moved_by), initial=0.0)):
            return moved_by
    raise SimulationError(
        f"robot '{simulation.robot.name}' cannot be placed on this ground: no height was found in {ITERATIONS} iterations; is "
        "its surface smooth and finite there?"
    )
