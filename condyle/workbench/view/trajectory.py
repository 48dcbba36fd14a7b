"""Link poses, centre of mass, contacts and forces of a robot, at one configuration, at many, or over a run."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from condyle.dynamics.energy import center_of_mass
from condyle.dynamics.kinematics import poses
from condyle.errors import FileError, RobotError, ShapeError, SimulationError
from condyle.multibody.robot import Robot
from condyle.robot.model import Model
from condyle.robot.spatial import Array
from condyle.tape.function import Function
from condyle.workbench.runs.polylines import CENTER, check_source, decoded, rows_at

if TYPE_CHECKING:
    from condyle.simulate.simulation import Simulation
    from condyle.workbench.runs.run import Run

MAX_SAMPLES = 20_000  # of one trajectory
_kernels: WeakKeyDictionary[Robot, Function] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False, kw_only=True)
class Snapshot:
    """Poses and forces in the axes of the world, at one time or, with leading axes, at many."""

    R: np.ndarray  # (..., links, 3, 3)
    p: np.ndarray  # (..., links, 3)
    center: np.ndarray  # of mass, (..., 3)
    contacts: np.ndarray  # where the robot can touch the ground, (..., c, 3)
    forces: np.ndarray  # of the ground, N, (..., c, 3)
    push_points: np.ndarray  # of the wrenches, (..., w, 3)
    pushes: np.ndarray  # their forces, N, (..., w, 3)
    polylines: tuple[np.ndarray, ...] = ()  # recorded points, such as plans, (..., n, 3) each


@dataclass(frozen=True, eq=False, kw_only=True)
class Trajectory(Snapshot):
    """A robot at times t (n,), s, with configurations q (n, nq). A slope, stairs or other terrain is not part of it."""

    robot: Robot
    t: np.ndarray
    q: np.ndarray
    title: str = ""
    ground: float | None = None  # height of a level ground, m; None: zero, or the lowest point of a robot that reaches below

    def __len__(self) -> int:
        return len(self.t)


def link_poses(robot: Robot, q: Any) -> tuple[np.ndarray, np.ndarray]:
    """(R, p) of robot.model.links in the world, (..., links, 3, 3) and (..., links, 3); a constrained robot's q is lifted."""
    q = _configurations(robot, q)
    if not robot.model.links:
        return np.zeros((*q.shape[:-1], 0, 3, 3)), np.zeros((*q.shape[:-1], 0, 3))
    found = _kernel(robot)(q)
    if not np.all(np.isfinite(found.p)):
        raise RobotError([robot.explain(q) or f"{robot.name}: these configurations are too large to be shown"])
    return found.R, found.p


def mass_center(robot: Robot, q: Any) -> np.ndarray:
    """The centre of mass, (..., 3); the origin for a robot without mass."""
    q = _configurations(robot, q)
    if not robot.model.links or robot.mass <= 0.0:
        return np.zeros((*q.shape[:-1], 3))
    return np.asarray(_kernel(robot)(q).center)


def frame_positions(robot: Robot, R: np.ndarray, p: np.ndarray, frame: str) -> np.ndarray:
    """The origin of a frame, (..., 3), at link poses R (..., links, 3, 3), p (..., links, 3)."""
    found = robot.model.frame(frame)
    R_0l, p_0l = _link(R, p, found.link)
    return np.asarray(R_0l @ np.asarray(found.pose.p, dtype=float) + p_0l)


def frame_rotation(robot: Robot, R: np.ndarray, p: np.ndarray, frame: str) -> np.ndarray:
    """The rotation of a frame, (..., 3, 3), at link poses R (..., links, 3, 3), p (..., links, 3)."""
    found = robot.model.frame(frame)
    return np.asarray(_link(R, p, found.link)[0] @ np.asarray(found.pose.R, dtype=float))


def roll_pitch_yaw(R: np.ndarray) -> np.ndarray:
    """Roll, pitch, yaw of R = Rz(yaw) Ry(pitch) Rx(roll), rad."""
    return np.array([np.arctan2(R[2, 1], R[2, 2]), -np.arcsin(np.clip(R[2, 0], -1.0, 1.0)), np.arctan2(R[1, 0], R[0, 0])])


def contact_positions(simulation: Simulation, R: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The point of each contact sphere that is nearest to the ground, (..., contacts, 3), at link poses R, p."""
    out = np.empty((*p.shape[:-2], len(simulation.contact_points), 3))
    for k, point in enumerate(simulation.contact_points):
        center = R[..., point.link, :, :] @ point.position + p[..., point.link, :]
        out[..., k, :] = center - point.radius * _normals(simulation.ground, center)
    return out


def push_lines(simulation: Simulation, R: np.ndarray, p: np.ndarray, wrenches: Any) -> tuple[np.ndarray, np.ndarray]:
    """(points, forces), (..., w, 3) each, of wrenches (..., w, 6) at the simulation's frames, in the axes of the world.

    A point is that of the line of action nearest to the frame: p + f x tau / f^2.
    """
    wrenches = np.asarray(wrenches, dtype=float)
    points, forces = np.empty((*p.shape[:-2], wrenches.shape[-2], 3)), wrenches[..., :3].copy()
    for k, (name, axes) in enumerate(zip(simulation.wrench_frames, simulation.wrench_axes, strict=True)):
        frame = simulation.robot.model.frame(name)
        torque = wrenches[..., k, 3:]
        if axes == "local":
            R_0f = _link(R, p, frame.link)[0] @ np.asarray(frame.pose.R, dtype=float)
            forces[..., k, :], torque = (np.einsum("...ij,...j->...i", R_0f, f) for f in (wrenches[..., k, :3], torque))
        force = forces[..., k, :]
        squared = np.sum(force * force, axis=-1, keepdims=True)
        shift = np.where(squared > 0.0, np.cross(force, torque) / np.where(squared > 0.0, squared, 1.0), 0.0)
        points[..., k, :] = frame_positions(simulation.robot, R, p, name) + shift
    return points, forces


def polyline_points(run: Run, states: Any) -> tuple[np.ndarray, ...]:
    """The points (k, n, 3), in the world, of each polyline of a run at these states, by their indices (k,)."""
    states, robot, found = np.asarray(states, dtype=int), run.robot, []
    known = {name: rows.shape[1:] for name, rows in {**run.extras, **run.states}.items()}
    for name, source in decoded(run.about).items() if run.steps else ():
        try:
            check_source(name, source, known.get(name, ()), robot)
        except SimulationError as error:
            raise FileError(f"run '{run.title}' cannot be drawn, its header was changed: {error}") from None
        rows = rows_at(run, name, states)
        if not isinstance(source, str):
            found.append(rows if source is None else rows[..., list(source)])
        elif source == CENTER and CENTER not in robot.frame_names:
            found.append(mass_center(robot, rows[..., : robot.nq]))
        else:
            found.append(frame_positions(robot, *link_poses(robot, rows[..., : robot.nq]), source))
    return tuple(found)


def snapshot(
    robot: Robot,
    q: Any,
    simulation: Simulation | None = None,
    *,
    forces: Any = None,
    wrenches: Any = None,
    polylines: tuple[np.ndarray, ...] = (),
) -> Snapshot:
    """The robot at q (..., nq), with contact forces (..., c, 3) and wrenches (..., w, 6) that act on it in a simulation."""
    R, p = link_poses(robot, q)
    contacts = pushed = points = np.zeros((*p.shape[:-2], 0, 3))
    if simulation is not None and simulation.contact_points:
        contacts = contact_positions(simulation, R, p)
    if simulation is not None and wrenches is not None:
        points, pushed = push_lines(simulation, R, p, wrenches)
    forces = np.zeros_like(contacts) if forces is None else np.asarray(forces)
    center = mass_center(robot, q)
    of_forces = {"contacts": contacts, "forces": forces, "push_points": points, "pushes": pushed}
    return Snapshot(R=R, p=p, center=center, polylines=polylines, **of_forces)


def sample_run(run: Run, fps: float = 30.0) -> Trajectory:
    """The run at about `fps` samples per second, the first and the last state included."""
    which = samples(len(run.x), float(run.dt), fps)
    q = np.asarray(run.q, dtype=float)[which]
    simulation = forces = wrenches = level = None
    with suppress(FileError):  # a run that does not hold its world has no forces to show
        simulation = run.simulation
    if simulation is not None:
        plane = flat_ground(simulation.ground)
        level = plane[1] if plane is not None and plane[0][2] > 0.999999 else None
        # a force belongs to the step that begins at the sample: the last state has that of the last step
        steps = np.minimum(which, max(run.steps - 1, 0))
        if run.steps and simulation.contact_points:
            forces = _forces(run, simulation, steps)
        count = len(simulation.wrench_frames)
        wrenches = np.asarray(run.wrenches)[steps] if run.steps and count else np.zeros((len(q), count, 6))
    found = snapshot(run.robot, q, simulation, forces=forces, wrenches=wrenches, polylines=polyline_points(run, which))
    t = np.asarray(run.t, dtype=float)[which]
    return Trajectory(robot=run.scene, t=t, q=q, title=str(run.title), ground=level, **vars(found))


def trajectory(robot: Robot, t: Any, q: Any, *, title: str = "") -> Trajectory:
    """A trajectory of configurations q (n, nq) at times t (n,), without forces."""
    t, q = np.asarray(t, dtype=float), _configurations(robot, q)
    if t.ndim != 1 or q.ndim != 2 or len(t) != len(q) or not len(t):
        raise ShapeError(
            f"{robot.name}: a trajectory needs times (n,) and configurations (n, {robot.nq}), got {t.shape}, {q.shape}"
        )
    return Trajectory(robot=robot, t=t, q=q, title=title or robot.name, **vars(snapshot(robot, q)))


def samples(states: int, dt: float, fps: float) -> np.ndarray:
    """The indices of the states to show: about `fps` per second, never more than there are, the first and last included."""
    if not (np.isfinite(fps) and fps > 0.0):
        raise ShapeError(f"frames per second must be a positive number, got {fps!r:.40}")
    wanted = int(np.ceil((states - 1) * dt * fps)) + 1 if states > 1 else 1
    return spread(states, max(min(wanted, MAX_SAMPLES), 2))


def spread(count: int, most: int) -> np.ndarray:
    """At most so many indices from 0 to count - 1, the first and the last included."""
    return np.unique(np.rint(np.linspace(0, count - 1, min(count, most))).astype(int))


def quaternions(R: np.ndarray) -> np.ndarray:
    """(x, y, z, w) of rotations R (..., 3, 3), each with the sign nearest to the one before along the first axis."""
    xx, xy, xz, yx, yy, yz, zx, zy, zz = np.moveaxis(R.reshape(*R.shape[:-2], 9), -1, 0)
    # four formulas, each accurate where its own diagonal entry is the largest
    rows = [
        [1.0 + xx - yy - zz, xy + yx, xz + zx, zy - yz],
        [xy + yx, 1.0 - xx + yy - zz, yz + zy, xz - zx],
        [xz + zx, yz + zy, 1.0 - xx - yy + zz, yx - xy],
        [zy - yz, xz - zx, yx - xy, 1.0 + xx + yy + zz],
    ]
    candidates = np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)
    best = np.argmax(np.diagonal(candidates, axis1=-2, axis2=-1), axis=-1)
    q = np.take_along_axis(candidates, best[..., None, None], axis=-2)[..., 0, :]
    q = np.asarray(q / np.linalg.norm(q, axis=-1, keepdims=True))
    if q.ndim > 1 and len(q) > 1:
        signs = np.where(np.einsum("n...i,n...i->n...", q[1:], q[:-1]) < 0.0, -1.0, 1.0)
        q[1:] *= np.cumprod(signs, axis=0)[..., None]
    return q


def _forces(run: Run, simulation: Simulation, steps: np.ndarray) -> np.ndarray:
    """The contact forces of these steps alone, unless all are known."""
    if "contact_forces" in run.__dict__:
        return np.asarray(run.contact_forces[steps])
    wrenches = run.wrenches[steps] if run.wrenches.shape[1] else None
    return np.asarray(simulation.contact_forces(run.x[steps], run.u[steps], wrenches=wrenches))


def _link(R: np.ndarray, p: np.ndarray, link: int) -> tuple[np.ndarray, np.ndarray]:
    """(R, p) of a link; of the world for -1."""
    if link >= 0:
        return R[..., link, :, :], p[..., link, :]
    lead = p.shape[:-2]
    return np.broadcast_to(np.eye(3), (*lead, 3, 3)), np.zeros((*lead, 3))


def _kernel(robot: Robot) -> Any:
    if robot not in _kernels:
        _kernels[robot] = robot.function(_poses_and_center)
    return _kernels[robot]


def _poses_and_center(model: Model, q: Array) -> dict[str, Any]:
    X = poses(model, q)
    found = {"R": np.array([x.R for x in X]), "p": np.array([x.p for x in X])}
    return found | ({"center": center_of_mass(model, q)} if any(link.inertia.mass > 0.0 for link in model.links) else {})


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


def flat_ground(ground: Any) -> tuple[np.ndarray, float] | None:
    """(normal, offset) of a plane or a slope; None of another ground."""
    plane = getattr(ground, "plane", ground)
    normal, offset = getattr(plane, "normal", None), getattr(plane, "offset", None)
    return None if normal is None or offset is None else (np.asarray(normal, dtype=float), float(offset))


def _normals(ground: Any, points: np.ndarray) -> np.ndarray:
    """The normal of the ground at each point, (..., 3); up where there is none."""
    flat = ((0.0, 0.0, 1.0), 0.0) if ground is None else flat_ground(ground)
    if flat is not None:
        return np.broadcast_to(flat[0], points.shape)
    normals = [np.asarray(ground.distance(p)[1], dtype=float) for p in points.reshape(-1, 3)]
    return np.array(normals).reshape(points.shape)
