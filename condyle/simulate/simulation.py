"""A robot in a world, in time: step, roll out, differentiate."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from condyle.errors import SimulationError
from condyle.multibody.robot import Robot
from condyle.robot.joints import Ball, Free
from condyle.robot.model import digest
from condyle.simulate import record
from condyle.simulate.make import make_world
from condyle.simulate.numbers import positive, whole
from condyle.simulate.points import ContactPoint, Contacts
from condyle.simulate.setup import INTEGRATORS, Setup
from condyle.simulate.status import Status, judge
from condyle.simulate.terrain import Ground
from condyle.simulate.world import JointForces
from condyle.tape.function import Function

CHUNKS = (64, 8, 1)  # steps that one call of a rollout makes


class Simulation:
    """A robot on its ground. States are packed values x = (q, v), one or any batch of them; nothing is remembered between calls.

    `contacts`: where the robot touches, see `condyle.simulate.points.contact_points`. `cone`: "round", or the number of
    directions of a friction pyramid. `rest_depth_mm`: how deep a contact sinks under its share of the weight. `smoothing`: how
    far from the sharp law; creep and rounding of corners grow with it. `limits`, `joint_friction`, `damping`, `torque_limits`:
    whether what the robot's joints say counts. `springs`: {joint: (stiffness, rest)}. `actuated`: joints with a motor, all
    but the base by default. `wrenches`: frames at which each step may be given a wrench, world axes. `force`: a function
    (model, q, v, t) -> joint forces, written with NumPy, traced with the step.
    `depth_exponent`: p of the largest contact force k depth^p.
    """

    def __init__(
        self,
        robot: Robot,
        dt: float = 0.002,
        ground: Ground | None = None,
        contacts: Contacts = None,
        *,
        integrator: str = "semi_implicit_euler",
        substeps: int = 1,
        cone: str | int = "round",
        rest_depth_mm: float = 1.0,
        smoothing: float = 1e-3,
        limits: bool = True,
        limit_depth: float = 0.01,
        joint_friction: bool = True,
        damping: bool = True,
        torque_limits: bool = True,
        springs: Mapping[str, tuple[float, float]] | None = None,
        actuated: Sequence[str] | None = None,
        wrenches: Sequence[str] = (),
        force: Callable[..., Any] | None = None,
        depth_exponent: int = 3,
        threads: int | None = None,
    ) -> None:
        if not isinstance(robot, Robot):
            raise SimulationError(f"a simulation needs a robot, as condyle.load gives it; got {robot!r:.40}")
        if integrator not in INTEGRATORS:
            raise SimulationError(f"the integrator must be one of {', '.join(INTEGRATORS)}; got {integrator!r:.40}")
        self.robot, self.dt = robot, positive("Simulation", "dt", dt)
        self.threads = None if threads is None else whole("Simulation", "threads", threads, 1)
        substeps = whole("Simulation", "substeps", substeps, 1)
        options: dict[str, Any] = {
            "cone": cone,
            "rest_depth_mm": rest_depth_mm,
            "smoothing": smoothing,
            "limits": limits,
            "limit_depth": limit_depth,
            "joint_friction": joint_friction,
            "damping": damping,
            "torque_limits": torque_limits,
            "springs": None if springs is None else dict(springs),
            "actuated": None if actuated is None else tuple(actuated),
            "wrenches": tuple(wrenches),
            "force": force,
            "depth_exponent": depth_exponent,
        }
        self._world = make_world(robot, self.dt / substeps, ground, contacts, integrator=integrator, **options)
        self.options = {**options, "integrator": integrator, "substeps": substeps}  # how it was made, for those who write it down
        self._setup = Setup(self._world, integrator, substeps)
        self.integrator, self.substeps = integrator, substeps
        self.status: Status | None = None
        self._functions: dict[Any, Function] = {}

    # ---- sizes and states

    @property
    def nx(self) -> int:
        """Entries of a state: q, v, and the count of steps if forces depend on time."""
        return self._setup.nx

    @property
    def ndx(self) -> int:
        """Entries of a small change of state: 2 nv, or more for a robot with more coordinates than velocities."""
        return self._world.nd + self._world.nv

    @property
    def nu(self) -> int:
        """Entries of a control."""
        return self._world.nu

    @property
    def timed(self) -> bool:
        """Whether `force` depends on time; a state then ends with the count of physics steps."""
        return self._world.timed

    @property
    def holonomic(self) -> bool:
        """Whether velocities are the rates of the coordinates; not for wheels that roll without slip."""
        return self._world.holonomic

    @property
    def actuated(self) -> tuple[int, ...]:
        """The index of each control's joint force in the velocities of `robot.model`."""
        return self._world.actuated

    @property
    def control_names(self) -> list[str]:
        """The joint of each entry of u; "joint.k" for coordinate k of a joint that has several."""
        names = []
        for k in self.actuated:
            link = next(link for link in self.robot.model.links if link.v.start <= k < link.v.stop)
            names.append(link.joint if link.kind.nv == 1 else f"{link.joint}.{k - link.v.start}")
        return names

    @property
    def effort_limits(self) -> np.ndarray:
        """The largest joint force of each control, N or N m: (nu,), inf where there is no limit."""
        return np.array([self._world.joints[k].effort or np.inf for k in self.actuated])

    @property
    def joint_forces(self) -> tuple[JointForces, ...]:
        """Damping, spring, friction, limits, effort, inertia and load of each velocity coordinate of `robot.model`."""
        return self._world.joints

    @property
    def ground(self) -> Ground | None:
        """The ground; None for a robot without."""
        return self._world.ground

    @property
    def contact_points(self) -> tuple[ContactPoint, ...]:
        """The spheres by which the robot touches the ground, in the order of `contact_forces`."""
        return self._world.points

    @property
    def contact_names(self) -> list[str]:
        """The names of the contact points."""
        return [point.name for point in self._world.points]

    @property
    def wrench_frames(self) -> tuple[str, ...]:
        """The frames at which each step may be given a wrench."""
        return tuple(frame for frame, _ in self._world.wrenches)

    @property
    def wrench_axes(self) -> tuple[str, ...]:
        """The axes of each wrench: "world_aligned" or "local"."""
        return tuple(axes for _, axes in self._world.wrenches)

    @property
    def rest_depth(self) -> float:
        """The depth of a contact under its share of the weight at rest, m."""
        return self._world.depth

    @property
    def weight(self) -> float:
        """mass * gravity, N; gravity is 9.81 m/s^2 where the model has none."""
        return self.robot.mass * self._world.gravity

    def state(self, q: Any = None, v: Any = None) -> np.ndarray:
        """The packed state: zero pose and rest where nothing is given; batches broadcast."""
        chart, nv = self._world.reduced, self._world.nv
        q = self.robot.neutral() if q is None else self._array("q", q, chart.nq)
        v = np.zeros(nv) if v is None else self._array("v", v, nv)
        for link in chart.links:
            if isinstance(link.kind, Ball | Free):
                quaternion = q[..., link.q][..., -4:]
                if np.any(np.abs(np.linalg.norm(quaternion, axis=-1) - 1.0) > 1e-6):
                    raise SimulationError(
                        f"the quaternion of joint '{link.joint}' in q must have length 1; divide it by its norm"
                    )
        lead = self._lead(q=q.shape[:-1], v=v.shape[:-1])
        x = np.zeros((*lead, self.nx))
        x[..., : chart.nq], x[..., chart.nq : chart.nq + nv] = q, v
        return x

    def split(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """(q, v) of a state."""
        x = self._array("x", x, self.nx)
        return x[..., : self.robot.nq], x[..., self.robot.nq : self.robot.nq + self.robot.nv]

    # ---- in time

    def step(
        self, x: Any, u: Any = None, *, wrenches: Any = None, derivatives: bool = False, freeze: bool = False, **options: Any
    ) -> Any:
        """The state after one step; with derivatives=True (x1, A, B), dx1 = A dx + B du in the tangent space.

        `wrenches`: (frames, 6), force then couple, for the frames the simulation was made with. A state with numbers that are not
        finite, or whose solver does not arrive, is an error; with freeze=True it stays as it is, and `status.ok` says so.
        """
        arrays = self._inputs(x, u, wrenches)
        function = self._function("step", ("x", "u"), options, all(array.ndim == 1 for array in arrays[:2]))
        x1, residual = function(*arrays)
        judge(self, residual, freeze, arrays, arrays[0])
        if not derivatives:
            return x1
        return (x1, *self._slopes(arrays, options))

    def rollout(
        self, x: Any, us: Any, *, wrenches: Any = None, derivatives: bool = False, freeze: bool = False, **options: Any
    ) -> Any:
        """The states (..., T + 1, nx) under the controls us (..., T, nu), the first one included.

        With derivatives=True also As (..., T, ndx, ndx) and Bs (..., T, ndx, nu) of every step.
        """
        x, us = self._array("x", x, self.nx), self._controls("us", us)
        if us.ndim < 2 or us.shape[-2] < 1:
            raise SimulationError(f"us must have the shape (..., steps, {self.nu}), got {us.shape}")
        steps = us.shape[-2]
        extra = self._wrenches(wrenches)
        lead = self._lead(x=x.shape[:-1], us=us.shape[:-2], wrenches=extra[0].shape[:-2] if extra else ())
        xs = np.empty((*lead, steps + 1, self.nx))
        xs[..., 0, :] = x
        residual: Any = np.zeros(lead)
        at = 0
        while at < steps:
            n = next(c for c in CHUNKS if c <= steps - at)
            function = self._function(("rollout", n), ("x", "us", "worst"), options, not lead)
            part, residual = function(xs[..., at, :], us[..., at : at + n, :], residual, *extra)
            xs[..., at + 1 : at + 1 + n, :] = part
            at += n
        judge(self, residual, freeze, (x, us, *extra), xs[..., -1, :])
        if not derivatives:
            return xs
        # the same wrenches at every step
        return (xs, *self._slopes((xs[..., :-1, :], us, *[w[..., None, :, :] for w in extra]), options))

    def step_hessian(self, x: Any, u: Any, weight: Any, *, wrenches: Any = None, **options: Any) -> np.ndarray:
        """Second derivatives of weight . (next state) by (dx, u): (..., ndx + nu, ndx + nu); `weight` has ndx entries."""
        if self.substeps > 1:
            raise SimulationError(
                "second derivatives are those of a single step of the physics; use substeps=1 with a smaller dt"
            )
        x, u, *extra = self._inputs(x, u, wrenches)
        weight = self._array("weight", weight, self.ndx)
        H: np.ndarray = self._function("hessian", ("x", "u", "weight"), options)(x, u, weight, *extra)
        return H

    # ---- what can be seen

    def contact_forces(self, x: Any, u: Any = None, *, wrenches: Any = None, **options: Any) -> np.ndarray:
        """The force of the ground on each contact point during the next step, world axes, N: (..., contacts, 3)."""
        if not self._world.points:
            return np.zeros((*np.shape(x)[:-1], 0, 3))
        out: np.ndarray = self._function("forces", ("x", "u"), options)(*self._inputs(x, u, wrenches))
        return out

    def energy(self, x: Any, **options: Any) -> Any:
        """Kinetic energy, potential energy and that of the springs, J."""
        return self._function("energy", ("x",), options)(self._array("x", x, self.nx))

    # ---- files

    def save(self, path: str | PathLike[str], **arrays: Any) -> None:
        """Write states, trajectories or controls to a file, atomically, with what they belong to: save(path, x=x, us=us)."""
        about = {"robot": self.robot.name, "robot_hash": digest(self._world.model), "world_hash": self.hash, "dt": self.dt}
        record.save(path, {name: np.asarray(value) for name, value in arrays.items()}, about)

    def load(self, path: str | PathLike[str], *, strict: bool = True) -> dict[str, np.ndarray]:
        """The arrays of a file, checked; one that another robot or world wrote is refused, unless strict=False."""
        saved = record.load(path)
        for what, mine in (("robot", digest(self._world.model)), ("world", self.hash)):
            if strict and saved.about.get(f"{what}_hash") != mine:
                raise SimulationError(
                    f"{path} belongs to another {what} (robot '{saved.about.get('robot')}', dt {saved.about.get('dt')}); make "
                    "the simulation as it was made then, or pass strict=False to take the numbers as they are"
                )
        return saved.arrays

    @property
    def hash(self) -> str:
        """A hash of everything a step depends on."""
        return hashlib.sha256(f"{self._world.key()} {self.integrator} {self.substeps}".encode()).hexdigest()

    def __repr__(self) -> str:
        ground = (
            "no ground" if self._world.ground is None else f"{len(self._world.points)} contacts on {self._world.ground!r:.60}"
        )
        return (
            f"<condyle simulation of {self.robot.name}: dt {self.dt} s, {self.integrator}, {ground}, nx {self.nx}, nu {self.nu}>"
        )

    # ---- inside

    def _function(self, name: Any, inputs: tuple[str, ...], options: Mapping[str, Any], single: bool = False) -> Function:
        backend, lanes = options.get("backend", "cpu"), options.get("lanes", 1 if single else None)
        threads = options.get("threads", self.threads)
        unknown = set(options) - {"backend", "lanes", "threads"}
        if unknown:
            raise SimulationError(f"there is no option '{min(unknown)}'; there are backend, lanes and threads")
        from condyle.simulate.kernels import compiled

        key = (name, backend, lanes, threads)
        if key not in self._functions:
            kernel, n = name if isinstance(name, tuple) else (name, 1)
            nu = max(self.nu, 1)
            sizes = {"x": self.nx, "u": nu, "us": (n, nu), "worst": (), "weight": self.ndx}
            shapes = {i: sizes[i] for i in inputs}
            if self._world.wrenches and kernel != "energy":
                shapes["wrenches"] = (len(self._world.wrenches), 6)
            self._functions[key] = compiled(self._setup, kernel, **shapes).on(backend, lanes=lanes, threads=threads)
        return self._functions[key]

    def _slopes(self, arrays: tuple[Any, ...], options: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
        """(A, B) of a step; with substeps, those of one step of the physics after the other."""
        function, n = self._function("slopes", ("x", "u"), options), self.ndx
        A, *rest = _results(function(*arrays))
        B = rest[0] if rest else np.zeros((*A.shape[:-1], 0))
        if self.substeps == 1:
            return A, B
        from condyle.simulate.kernels import compiled

        chained = compiled(self._setup, "chained", whole=(n, n + self.nu), A=(n, n), B=(n, max(self.nu, 1)))
        inner = object.__new__(Simulation)
        inner.__dict__.update(self.__dict__, _setup=replace(self._setup, substeps=1), substeps=1, _functions={})
        x, u, *extra = arrays
        whole = np.concatenate([A, B], axis=-1)
        for _ in range(self.substeps - 1):
            x = inner.step(x, u[..., : self.nu], wrenches=extra[0] if extra else None, freeze=True, **options)
            A, *rest = _results(function(x, u, *extra))
            whole = chained(whole, A, rest[0] if rest else np.zeros((*A.shape[:-1], 1)))
        return whole[..., :n], whole[..., n:]

    def _inputs(self, x: Any, u: Any, wrenches: Any) -> tuple[Any, ...]:
        u = np.zeros(self.nu) if u is None else u
        return (self._array("x", x, self.nx), self._controls("u", u), *self._wrenches(wrenches))

    def _controls(self, name: str, u: Any) -> np.ndarray:
        """The controls as the kernels take them: a robot without motors has one idle control."""
        u = self._array(name, u, self.nu)
        return u if self.nu else np.zeros((*u.shape[:-1], 1))

    def _wrenches(self, wrenches: Any) -> tuple[Any, ...]:
        count = len(self._world.wrenches)
        if not count:
            if wrenches is not None:
                raise SimulationError('this simulation takes no wrenches; name their frames when it is made: wrenches=["frame"]')
            return ()
        given = np.zeros((count, 6)) if wrenches is None else self._array("wrenches", wrenches, 6)
        if given.shape[-2:] != (count, 6):
            raise SimulationError(
                f"wrenches must have the shape (..., {count}, 6), force then couple per frame; got {given.shape}"
            )
        return (given,)

    def _array(self, name: str, value: Any, size: int) -> np.ndarray:
        try:
            array = np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            raise SimulationError(f"{self.robot.name}: {name} must be an array of numbers, got {value!r:.60}") from None
        if array.ndim < 1 or array.shape[-1] != size:
            raise SimulationError(f"{self.robot.name}: {name} must have {size} entries in its last axis, got shape {array.shape}")
        return array

    def _lead(self, **shapes: tuple[int, ...]) -> tuple[int, ...]:
        """The batch axes of arrays that belong together."""
        try:
            return np.broadcast_shapes(*shapes.values())
        except ValueError:
            given = " and ".join(f"{name} has {shape}" for name, shape in shapes.items())
            raise SimulationError(f"{self.robot.name}: the batch axes do not fit each other: {given}") from None


def _results(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)
