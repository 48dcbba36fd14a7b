"""Where everything of a robot is: links, centre of mass, contacts and forces, for one configuration or over a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from condyle.dynamics.energy import center_of_mass
from condyle.dynamics.kinematics import poses
from condyle.errors import FileError, RobotError, ShapeError
from condyle.multibody.robot import Robot
from condyle.robot.model import Model
from condyle.robot.spatial import Array
from condyle.tape.function import Function

if TYPE_CHECKING:
    from condyle.runs.run import Run
    from condyle.simulate.simulation import Simulation

MOST_PICTURES = 20_000  # of one trajectory
_functions: WeakKeyDictionary[Robot, dict[str, Function]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A robot over time, all in the axes of the world.

    t (n,) s; R (n, links, 3, 3) and p (n, links, 3) of every link; center (n, 3), the centre of mass; contacts (n, c, 3), where
    the robot can touch; forces (n, c, 3) of the ground, N; push_points and pushes (n, w, 3), the wrenches' forces and where.
    A slope, stairs or other terrain is not part of it.
    """

    robot: Robot
    t: np.ndarray
    R: np.ndarray
    p: np.ndarray
    center: np.ndarray
    contacts: np.ndarray
    forces: np.ndarray
    push_points: np.ndarray
    pushes: np.ndarray
    q: np.ndarray
    title: str = ""
    contact_names: tuple[str, ...] = ()
    push_names: tuple[str, ...] = ()
    ground: float | None = None  # the height of a level ground; None: zero, or the lowest point of a robot that reaches below

    @property
    def model(self) -> Model:
        return self.robot.model

    def __len__(self) -> int:
        return len(self.t)


def link_poses(robot: Robot, q: Any) -> tuple[np.ndarray, np.ndarray]:
    """(R, p) of robot.model.links in the world, (..., links, 3, 3) and (..., links, 3); a constrained robot's q is lifted."""
    q = _configurations(robot, q)
    if not robot.model.links:
        return np.zeros((*q.shape[:-1], 0, 3, 3)), np.zeros((*q.shape[:-1], 0, 3))
    found = _compiled(robot)(q)
    if not np.all(np.isfinite(found.p)):
        reason = robot.explain(q) or f"{robot.name}: these configurations are too large to be shown"
        raise RobotError([reason])
    return found.R, found.p


def mass_center(robot: Robot, q: Any) -> np.ndarray:
    """The centre of mass, (..., 3); the origin of a robot without mass."""
    q = _configurations(robot, q)
    if not robot.model.links or robot.mass <= 0.0:
        return np.zeros((*q.shape[:-1], 3))
    return np.asarray(_compiled(robot)(q).center)


def frame_positions(robot: Robot, R: np.ndarray, p: np.ndarray, frame: str) -> np.ndarray:
    """The origin of a frame at link poses R, p: (..., 3)."""
    found = robot.model.frame(frame)
    at = np.asarray(found.pose.p, dtype=float)
    if found.link < 0:
        return np.broadcast_to(at, (*p.shape[:-2], 3)).copy()
    return np.asarray(R[..., found.link, :, :] @ at + p[..., found.link, :])


def contact_positions(simulation: Simulation, R: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The point of each contact sphere that is nearest to the ground, (..., contacts, 3), at link poses R, p."""
    out = np.empty((*p.shape[:-2], len(simulation.contact_points), 3))
    for k, point in enumerate(simulation.contact_points):
        centre = R[..., point.link, :, :] @ point.position + p[..., point.link, :]
        out[..., k, :] = centre - point.radius * _normals(simulation.ground, centre)
    return out


def sample_run(run: Run, fps: float = 30.0) -> Trajectory:
    """The run at about `fps` pictures a second, the first and the last state included."""
    which = samples(len(run.x), float(run.dt), fps)
    robot = run.robot
    q = np.asarray(run.q, dtype=float)[which]
    R, p = link_poses(robot, q)
    try:
        simulation = run.simulation
    except FileError:
        # a run that does not hold its world has no forces to show
        return replace(trajectory(robot, np.asarray(run.t)[which], q), title=str(run.title))
    # a force belongs to the step that begins at the sample: the last state has that of the last step
    steps = np.minimum(which, max(run.steps - 1, 0))
    count = len(simulation.contact_points)
    forces = _forces(run, simulation, steps) if run.steps and count else np.zeros((len(q), count, 3))
    names = simulation.wrench_frames
    given = np.asarray(run.wrenches)[steps] if run.steps and names else np.zeros((len(q), len(names), 6))
    pushes, points = np.zeros((len(q), len(names), 3)), np.zeros((len(q), len(names), 3))
    for k, (name, axes) in enumerate(zip(names, simulation.wrench_axes, strict=True)):
        frame = robot.model.frame(name)
        points[:, k] = frame_positions(robot, R, p, name)
        pushes[:, k] = given[:, k, :3]
        if axes == "local":
            R_frame = np.asarray(frame.pose.R, dtype=float)
            R_0f = R[:, frame.link] @ R_frame if frame.link >= 0 else np.broadcast_to(R_frame, (len(q), 3, 3))
            pushes[:, k] = np.einsum("nij,nj->ni", R_0f, given[:, k, :3])
    return Trajectory(
        robot=robot,
        t=np.asarray(run.t, dtype=float)[which],
        R=R,
        p=p,
        center=mass_center(robot, q),
        contacts=contact_positions(simulation, R, p),
        forces=forces,
        push_points=points,
        pushes=pushes,
        q=q,
        title=str(run.title),
        contact_names=tuple(simulation.contact_names),
        push_names=names,
        ground=_level(simulation.ground),
    )


def trajectory(robot: Robot, t: Any, q: Any, *, title: str = "") -> Trajectory:
    """A trajectory of configurations q (n, nq) at times t (n,), without forces."""
    t, q = np.asarray(t, dtype=float), _configurations(robot, q)
    if t.ndim != 1 or q.ndim != 2 or len(t) != len(q) or not len(t):
        raise ShapeError(
            f"{robot.name}: a trajectory needs times (n,) and configurations (n, {robot.nq}), got {t.shape}, {q.shape}"
        )
    R, p = link_poses(robot, q)
    none = np.zeros((len(t), 0, 3))
    return Trajectory(robot, t, R, p, mass_center(robot, q), none, none, none, none, q, title or robot.name)


def samples(states: int, dt: float, fps: float) -> np.ndarray:
    """The numbers of the states to show: about `fps` a second, never more than there are, the first and last included."""
    if not (np.isfinite(fps) and fps > 0.0):
        raise ShapeError(f"pictures a second must be a positive number, got {fps!r:.40}")
    wanted = int(np.ceil((states - 1) * dt * fps)) + 1 if states > 1 else 1
    count = max(min(wanted, states, MOST_PICTURES), min(states, 2))
    return np.unique(np.rint(np.linspace(0, states - 1, count)).astype(int))


def quaternions(R: np.ndarray) -> np.ndarray:
    """(x, y, z, w) of rotations R (..., 3, 3), each of the sign nearest to the one before along the first axis."""
    m = np.moveaxis(R.reshape(*R.shape[:-2], 9), -1, 0)
    xx, xy, xz, yx, yy, yz, zx, zy, zz = m
    # four formulas, each good where its own entry is the largest
    tries = np.stack(
        [
            np.stack([1.0 + xx - yy - zz, xy + yx, xz + zx, zy - yz], axis=-1),
            np.stack([xy + yx, 1.0 - xx + yy - zz, yz + zy, xz - zx], axis=-1),
            np.stack([xz + zx, yz + zy, 1.0 - xx - yy + zz, yx - xy], axis=-1),
            np.stack([zy - yz, xz - zx, yx - xy, 1.0 + xx + yy + zz], axis=-1),
        ],
        axis=-2,
    )
    best = np.argmax(np.diagonal(tries, axis1=-2, axis2=-1), axis=-1)
    q = np.take_along_axis(tries, best[..., None, None], axis=-2)[..., 0, :]
    q = np.asarray(q / np.linalg.norm(q, axis=-1, keepdims=True))
    if q.ndim > 1 and len(q) > 1:
        turns = np.where(np.einsum("n...i,n...i->n...", q[1:], q[:-1]) < 0.0, -1.0, 1.0)
        q[1:] *= np.cumprod(turns, axis=0)[..., None]
    return q


# -- inside


def _forces(run: Run, simulation: Simulation, steps: np.ndarray) -> np.ndarray:
    """The contact forces of these steps alone, unless all are known."""
    if "contact_forces" in run.__dict__:
        return np.asarray(run.contact_forces[steps])
    wrenches = run.wrenches[steps] if run.wrenches.shape[1] else None
    return np.asarray(simulation.contact_forces(run.x[steps], run.u[steps], wrenches=wrenches))


def _compiled(robot: Robot) -> Any:
    functions = _functions.setdefault(robot, {})
    if "places" not in functions:
        functions["places"] = robot.function(_places if robot.mass > 0.0 else _places_without_mass)
    return functions["places"]


def _places(model: Model, q: Array) -> dict[str, Any]:
    return {**_places_without_mass(model, q), "center": center_of_mass(model, q)}


def _places_without_mass(model: Model, q: Array) -> dict[str, Any]:
    X = poses(model, q)
    return {"R": np.array([x.R for x in X]), "p": np.array([x.p for x in X])}


def _configurations(robot: Robot, q: Any) -> np.ndarray:
    try:
        array: np.ndarray = np.asarray(q, dtype=float)
    except (TypeError, ValueError):
        raise ShapeError(f"{robot.name}: q must be an array of numbers, got {q!r:.60}") from None
    if array.ndim < 1 or array.shape[-1] != robot.nq:
        raise ShapeError(f"{robot.name}: q must have {robot.nq} entries in its last axis, got shape {array.shape}")
    if not np.all(np.isfinite(array)):
        raise RobotError([f"{robot.name}: q has a number that is not finite, so there is nothing to show; give finite numbers"])
    return array


def _level(ground: Any) -> float | None:
    """The height of a level plane."""
    normal = getattr(ground, "normal", None)
    return float(ground.offset) if normal is not None and normal[2] > 0.999999 else None


def _normals(ground: Any, points: np.ndarray) -> np.ndarray:
    """The way up from the ground at each point, (..., 3)."""
    up = np.broadcast_to([0.0, 0.0, 1.0], points.shape).copy()
    plane = getattr(ground, "plane", ground)
    if ground is None:
        return up
    if hasattr(plane, "normal"):
        return np.broadcast_to(np.asarray(plane.normal, dtype=float), points.shape).copy()
    flat = points.reshape(-1, 3)
    return np.array([np.asarray(ground.distance(p)[1], dtype=float) for p in flat]).reshape(points.shape)
