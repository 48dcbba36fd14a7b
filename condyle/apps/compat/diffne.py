"""The interface of DiffNE, an older differentiable contact simulator, with Condyle's physics: ten modes, 64 bits or more.

    model = DiffNERobotModel("robot.urdf")                   base "euler"; or a built-in name, or a Robot
    model.eliminate_joints(["arm", "head"])                  fixed at their present angles
    simulator = model.create_simulator(accuracy=64)          or 128, or any number of bits
    simulator.set_PD_controller(1000.0, 1.0)
    simulator.set_floor([0, 0, 1, 0], model.end_effectors())
    x1, A, B = simulator.simulate(0.01, x, tau, Dqdq=True, Dtau=True)

Where the DiffNE interface leaves a choice:

* N counts minimal coordinates, nq = nv = N: bases "euler", "planar" and "fixed". Quaternions are refused.
* Torques have N entries; those on the base's coordinates act there like any other.
* The default torque is  P (target - q) - D v  on joints, zero on the base, from the state passed in, (q+, v+) for BACKWARD_RK1F.
  The target is the standing pose (`set_joint_angle`). Derivatives by the state include the controller; derivatives by the torque
  are those at the torque it gives. A torque that is passed replaces it.
* Modes INVERSE_* give the torque, so they take none, and have no derivative by it.
* INVERSE_BACKWARD_RK1F takes (q, v, a) at the end of the step, which began with the velocity v - dt a.
* Contact law "round" (default): Condyle's, round cone, strength k depth^3 with the feet 1 mm deep at rest. "pyramid":
  that of DiffNE, six directions, strength coef depth^2. Both with friction 0.7 and the smoothing of docs/contact.md.
* Limits, damping and dry friction of the joints are left out by default; joint_forces=True includes them.
* Precision above 64 bits runs the same tapes on MPFR numbers, with a smaller solver tolerance; inputs and outputs stay float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from condyle.apps.compat.modes import Mode, kernel
from condyle.errors import ShapeError, SimulationError
from condyle.multibody.robot import Robot, load
from condyle.robot import edit
from condyle.robot.description import Description
from condyle.robot.names import nearest
from condyle.simulate.mesh_fit import detected
from condyle.simulate.points import ContactPoint, contact_points, point_on
from condyle.simulate.solver import LIMIT
from condyle.simulate.terrain import Ground, Plane
from condyle.simulate.validate import finites, integer, not_negative, positive
from condyle.simulate.world import World, joint_forces
from condyle.tape.function import Function

FRICTION, DIRECTIONS, COEFFICIENT = 0.7, 6, 1e6
LAWS = ("round", "pyramid")
DEPTH, LIMIT_DEPTH = 1e-3, 0.01  # m, rad: how deep contacts and limits give way


@dataclass(frozen=True)
class EndEffectorBounds:
    """A sphere on a link by which the robot touches: a link or frame, the centre in its axes, and the radius."""

    link: str
    position: tuple[float, float, float] = (0.0, 0.0, 0.0)
    radius: float = 0.0

    def point(self, robot: Robot) -> ContactPoint:
        """The contact point on a robot; links that were eliminated are still there as frames."""
        return point_on(robot.model, self.link, self.position, self.radius)


class DiffNERobotModel:
    """A robot whose joints can be eliminated by prefix; the rest keeps its map to the full robot."""

    def __init__(
        self,
        source: str | PathLike[str] | Description | Robot,
        base: str = "euler",
        gravity: Sequence[float] = (0.0, 0.0, -9.81),
        package_dirs: Sequence[str | PathLike[str]] = (),
    ) -> None:
        robot = source if isinstance(source, Robot) else load(source, base, gravity, package_dirs, constraints=False)
        if not robot.coordinate_map.identity:
            raise SimulationError(
                f"robot '{robot.name}' is constrained, and here every joint moves by itself; load it with constraints=False"
            )
        for link in robot.model.links:
            if link.kind.nq != link.kind.nv:
                raise SimulationError(
                    f"joint '{link.joint}' of robot '{robot.name}' has a quaternion, but here every coordinate is one number; "
                    'load the robot with base "euler", "planar" or "fixed"'
                )
        self.full_robot = robot
        self.robot = robot
        self.standing = robot.neutral()  # of the full robot
        self._eliminated: list[str] = []

    @property
    def N(self) -> int:
        """Coordinates that are left."""
        return self.robot.nv

    @property
    def joint_names(self) -> list[str]:
        """The joints that remain."""
        return self.robot.joint_names

    def set_joint_angle(self, prefix: str, value: float) -> None:
        """Where the joints that begin so stand: eliminated ones are fixed there, the others have it as controller's target."""
        for i in edit.matching(self.full_robot.model, prefix):
            self.standing[self.full_robot.model.links[i].q] = finites("set_joint_angle", "value", [value], 1)[0]
        self._lock()

    def eliminate_joints(self, prefixes: str | Sequence[str], q: Any = None) -> None:
        """Fix the joints that begin with one of the prefixes where they stand, or where q, of the full robot, has them."""
        found = edit.matching(self.full_robot.model, prefixes)
        if q is not None:
            given = _numbers("q", q, (self.full_robot.nq,))
            for i in found:
                place = self.full_robot.model.links[i].q
                self.standing[place] = given[place]
        self._eliminated += [self.full_robot.model.links[i].joint for i in found]
        self._lock()

    def _lock(self) -> None:
        if self._eliminated:
            self.robot = self.full_robot.lock(self._eliminated, self.standing)

    def full(self, qdq: Any) -> np.ndarray:
        """(q, v) of the full robot for (q, v) of the remaining joints; batches too."""
        x = np.asarray(qdq, dtype=float)
        if x.ndim < 1 or x.shape[-1] != 2 * self.N:
            raise ShapeError(f"qdq must have 2N = {2 * self.N} numbers (q, v), got shape {x.shape}")
        return np.concatenate([self.robot.full(x[..., : self.N]), self.robot.full_velocity(x[..., self.N :])], axis=-1)

    def end_effectors(self, names: str | Sequence[str] | None = None) -> list[EndEffectorBounds]:
        """The end effectors that collision shapes give: all, or those of links, shapes or frames with these names (* for any)."""
        model = self.robot.model
        return [self._bounds(p) for p in contact_points(model, names)]

    def detect_end_effectors(
        self, link: str, direction: Sequence[float] = (0.0, 0.0, -1.0), thickness: float = 0.01, kind: str = "sphere"
    ) -> list[EndEffectorBounds]:
        """The end effectors fitted to the slab of a link's mesh farthest along a direction: a sphere, cylinder or ellipsoid."""
        return [self._bounds(p) for p in detected(self.robot.model, link, direction, thickness, kind)]

    def _bounds(self, point: ContactPoint) -> EndEffectorBounds:
        x, y, z = map(float, point.position)
        return EndEffectorBounds(self.robot.model.links[point.link].name, (x, y, z), point.radius)

    def create_simulator(
        self,
        accuracy: int = 64,
        mode: str | Mode = Mode.FORWARD_RK1F,
        *,
        law: str = "round",
        coef: float = COEFFICIENT,
        joint_forces: bool = False,
    ) -> DiffNESimulator:
        """A simulator of the robot as it is now. `coef`: strength of the law "pyramid", N/m^2."""
        return DiffNESimulator(self, accuracy, mode, law, coef, joint_forces)


class DiffNESimulator:
    """One mode of a robot in a world. Nothing is remembered between calls but what `set_...` says."""

    def __init__(self, model: DiffNERobotModel, accuracy: int, mode: str | Mode, law: str, coef: float, own: bool) -> None:
        self.mode, self.accuracy = Mode.of(mode), integer("create_simulator", "accuracy (bits)", accuracy, 64)
        if law not in LAWS:
            raise SimulationError(f"the law must be one of {', '.join(LAWS)}; got {law!r:.40}{nearest(str(law), LAWS)}")
        self.robot, self.N, self.law = model.robot, model.N, law
        robot = model.robot
        joints = joint_forces(
            robot.model, robot.coordinate_map,
            limits=own, friction=own, damping=own, efforts=own, depth=DEPTH, limit_depth=LIMIT_DEPTH, springs=own,
        )  # fmt: skip
        world = World(robot.model, robot.coordinate_map, 1.0, depth=DEPTH, joints=joints, actuated=tuple(range(robot.nv)))
        if law == "pyramid":
            world = replace(world, pyramid=DIRECTIONS, power=2, given_stiffness=positive("create_simulator", "coef", coef))
        if self.accuracy > 64:
            # a solver as exact as the numbers: 1e-30 for 128 bits
            world = replace(world, tolerance=10.0 ** -min(round(0.234 * self.accuracy), 300))
        self.world = world
        self.threads: int | None = None
        base = robot.model.base_coordinates
        self._motors = np.array([0.0 if k in base else 1.0 for k in range(self.N)])
        self._gains = np.zeros((3, self.N))
        kept = slice(None) if robot.locked is None else robot.locked.q
        self._target = model.standing[kept].copy()
        self._functions: dict[Any, Function] = {}

    # ---- the world

    def set_mode(self, mode: str | Mode) -> None:
        """Compute something else from now on."""
        self.mode = Mode.of(mode)

    def set_PD_controller(self, P: float, D: float, target: Any = None) -> None:
        """The torque when none is passed: P (target - q) - D v on the joints; `target` is a configuration of N numbers."""
        P, D = not_negative("set_PD_controller", "P", P), not_negative("set_PD_controller", "D", D)
        where = self._target if target is None else _numbers("target", target, (self.N,))
        self._gains = np.stack([P * self._motors, D * self._motors, where])

    def set_floor(self, plane: Sequence[float], ees: Sequence[EndEffectorBounds], friction: float = FRICTION) -> None:
        """The ground a x + b y + c z + d >= 0, touched by these end effectors."""
        a, b, c, d = finites("set_floor", "the plane (a, b, c, d)", plane, 4)
        length = float(np.linalg.norm([a, b, c])) or 1.0
        self.set_terrain(Plane(friction, (a, b, c), -d / length), ees)

    def set_terrain(self, ground: Ground, ees: Sequence[EndEffectorBounds]) -> None:
        """Any ground of Condyle, touched by these end effectors."""
        points = contact_points(self.robot.model, [ee.point(self.robot) for ee in ees])
        self.world = replace(self.world, ground=ground, points=points)
        self._functions.clear()

    def set_threads(self, n: int) -> None:
        """Threads that share a batch."""
        self.threads = integer("set_threads", "n", n, 1)
        self._functions.clear()

    # ---- in time

    def simulate(self, dt: float, qdq: Any, tau: Any = None, Dqdq: bool = False, Dtau: bool = False) -> Any:
        """The mode's result; asked for, also its derivatives by the state (result x state) and the torque (result x N)."""
        x = _numbers(f"qdq, ({', '.join(self.mode.parts)}),", qdq, (len(self.mode.parts) * self.N,))
        return self._run(dt, x, None if tau is None else _numbers("tau", tau, (self.N,)), Dqdq, Dtau)

    def simulate_batched(self, dt: float, states: Any, tau: Any = None, Dqdq: bool = False, Dtau: bool = False) -> Any:
        """The same for a list of states, and one torque for all or a list; results are stacked along the first axis."""
        size = len(self.mode.parts) * self.N
        x = _numbers(f"states, each ({', '.join(self.mode.parts)}),", states, (len(states), size))
        if tau is not None:
            tau = _numbers("tau", tau, (self.N,) if np.ndim(tau) == 1 else (len(x), self.N))
        return self._run(dt, x, tau, Dqdq, Dtau)

    def _run(self, dt: float, x: np.ndarray, tau: np.ndarray | None, Dqdq: bool, Dtau: bool) -> Any:
        h = positive("simulate", "dt", dt)
        if self.mode.gives_torque and (tau is not None or Dtau):
            raise SimulationError(f"mode {self.mode.value} gives the torque; leave out tau and Dtau, or take another mode")
        gains = self._gains if tau is None and not self.mode.gives_torque else np.zeros((3, self.N))
        arrays = (x, np.zeros(self.N) if tau is None else tau, gains)
        result, residual = self._function(h, False)(*arrays)
        failed = ~(np.asarray(residual, dtype=float) <= LIMIT)
        if np.any(failed):
            where = f" of state {int(np.argmax(failed))}" if failed.ndim else ""
            raise SimulationError(f"{self.robot.name}: the step{where} does not converge; take a smaller dt (now {h} s)")
        out = [np.asarray(result, dtype=float)]
        if Dqdq or Dtau:
            by_x, by_tau = self._function(h, True)(*arrays)
            out += [np.asarray(by_x, dtype=float)] * Dqdq + [np.asarray(by_tau, dtype=float)] * Dtau
        return out[0] if len(out) == 1 else tuple(out)

    def _function(self, h: float, with_derivatives: bool) -> Function:
        key = (self.mode, h, with_derivatives)
        if key not in self._functions:
            made = kernel(replace(self.world, h=h), self.mode, with_derivatives=with_derivatives)
            backend = "cpu" if self.accuracy == 64 else f"mpfr:{self.accuracy}"
            self._functions[key] = made.on(backend, threads=self.threads)
        return self._functions[key]


def _numbers(name: str, given: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The finite numbers given, in this shape."""
    try:
        array = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise ShapeError(f"{name} must be {shape[-1]} numbers, got {given!r:.60}") from None
    if array.shape != shape:
        raise ShapeError(f"{name} must have the shape {shape}, got {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ShapeError(f"{name} must be finite; entry {np.argwhere(~np.isfinite(array))[0].tolist()} is not")
    return array


__all__ = ["DiffNERobotModel", "DiffNESimulator", "EndEffectorBounds", "Mode"]
