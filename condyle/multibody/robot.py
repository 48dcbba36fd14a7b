"""The robot people touch: load one, and call its kinematics and dynamics for one state or any batch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Unpack

import numpy as np

from condyle.constraints import builders
from condyle.constraints import reduced_dynamics as physics
from condyle.constraints.builders import ClosingOptions
from condyle.constraints.coordinate_map import CoordinateMap
from condyle.constraints.diagnostics import why_not
from condyle.constraints.explicit_map import explicit
from condyle.constraints.loop_residuals import Condition
from condyle.constraints.reduced_coordinates import floats, keyframe_along, remaining_joint
from condyle.dynamics import manifold
from condyle.dynamics.passive import FRICTION_SPEED
from condyle.errors import RobotError
from condyle.multibody import inverse_kinematics
from condyle.multibody.compiled import CallOptions, Compiled, DynamicsOptions, Wrenches, check_frame, smooth_below, wrench_axes
from condyle.multibody.frame_task import joint_limits
from condyle.multibody.html import robot_html
from condyle.multibody.inverse_kinematics import InverseKinematics
from condyle.multibody.scatter import scattered
from condyle.robot import edit
from condyle.robot.actuator import ActuatorSpec
from condyle.robot.description import Description, Keyframe
from condyle.robot.load import Source, load_model
from condyle.robot.model import Model, digest
from condyle.robot.parameters import Parameters, geometric, model_parameters, with_parameters
from condyle.tape.function import Function
from condyle.tape.trace_cache import traced_function

FUNCTIONS = physics.ROBOT_FUNCTIONS | physics.CONSTRAINT_FUNCTIONS


def load(
    source: Source,
    base: str | None = None,
    gravity: Sequence[float] | None = None,
    package_dirs: Sequence[str | PathLike[str]] = (),
    xacro_args: Mapping[str, str] | None = None,
    *,
    strict: bool = False,
    constraints: bool = True,
) -> Robot:
    """A robot from a URDF, xacro or MJCF file, a built-in name such as "ur3" or "pidog", or a Description.

    `base`: "fixed" (the default for files), "free", "planar" (x, z, pitch), "euler" (three slides, three hinges), or "auto": free
    for a robot that nothing joins to the world and that has feet, wheels, rotors or legs, else fixed; a built-in robot has the
    base it is meant for. `gravity`: by default that of an MJCF file, else (0, 0, -9.81). `package_dirs`: where package:// and
    $(find ...) look. `strict`: repairs are errors. `constraints=False`: the tree alone, without mimic joints and loops.
    """
    if not isinstance(source, str | PathLike | Description):
        raise RobotError(f"load takes the path of a file, the name of a built-in robot or a Description, got {source!r:.60}")
    model = load_model(source, base=base, gravity=gravity, package_dirs=package_dirs, xacro_args=xacro_args, strict=strict)
    if not constraints:
        return Robot(model)
    try:
        return Robot(model).constrain_as_described()
    except RobotError as error:
        advice = "load it with constraints=False to have the robot without its mimic joints and loops, and close them yourself"
        raise RobotError([*error.problems, advice]) from None


class Robot:
    """A model and a coordinate map, with compiled functions. Every call takes one state or any batch (leading axes).

    q, v as in Pinocchio: a free joint has position and quaternion (x, y, z, w), and its velocity is in the body's frame, linear
    then angular. A constrained robot has the same functions in the reduced coordinates; `model` is that of all coordinates, and
    `reduced` has the reduced ones as joints. A free robot is the same with the identity as its map.

    A wrench is (force, torque) at the origin of a frame: {frame: six numbers} in the axes of the world, or
    {(frame, "local"): six numbers} in the frame's own. References of velocities and Jacobians: "world_aligned" (the frame's
    origin, axes of the world), "local" (the frame's own axes), "world" (the world's origin and axes).

    Options of the calls: `backend` ("cpu", "reference", "mpfr:256", "interval"), `threads`, `out` (an array, or one per result,
    to write into: large batches are faster so), and `mask=True`, which adds an array that is False for states that are not
    valid (not finite, a quaternion not of length one, a constraint that cannot be met) instead of raising. Forward and inverse
    dynamics and their derivatives have `passive=True`: damping, dry friction and springs of the joints act (`passive_forces`); a
    number is the speed below which dry friction is smooth.

    Inside a trace, called with traced values, every function records its physics there, for one state. Nothing is checked then,
    for there are no numbers yet; `mask=True` adds the check as a traced condition.
    """

    described = False  # whether the constraints are just those of the description
    rolled: dict[str, Any] | None = None  # how its wheels roll, as data; not on a ground that is a function

    def __init__(self, model: Model, locked: edit.Locked | None = None, coordinate_map: CoordinateMap | None = None) -> None:
        self.model = model
        self.locked = locked
        self.coordinate_map = CoordinateMap(model) if coordinate_map is None else coordinate_map
        self.reduced = self.coordinate_map.reduced
        self.system = physics.System(model, self.coordinate_map)
        joints = [(i.limits, i.damping, i.friction, i.stiffness, i.rest) for i in model.links]  # of passive forces and of IK
        self.compiled = Compiled(self.system, f"{digest(model)} {self.coordinate_map.key()} {joints}", self.explain)
        self._quick = self.compiled.quick

    def trace_data(self) -> tuple[Any, ...]:
        """All that a trace which uses the robot depends on."""
        return self.model, self.locked, self.coordinate_map, self.described, self.rolled

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles hold the data of the robot; they compile, or find in the cache, what they need."""
        return Robot, (self.model, self.locked, self.coordinate_map), {"described": self.described, "rolled": self.rolled}

    # ---- what it is

    @property
    def name(self) -> str:
        """The robot's name."""
        return self.model.name

    @property
    def nq(self) -> int:
        """The number of coordinates."""
        return self.system.nq

    @property
    def nv(self) -> int:
        """The number of velocities."""
        return self.system.nv

    @property
    def mass(self) -> float:
        """The mass of everything that moves, kg."""
        return float(sum(link.inertia.mass for link in self.model.links))

    @property
    def joint_names(self) -> list[str]:
        """The moving joints, in the order of v; of a constrained robot, the reduced coordinates."""
        return [link.joint for link in self.reduced.links]

    @property
    def velocity_names(self) -> list[str]:
        """One name for each entry of v."""
        return self.coordinate_map.velocity_names

    @property
    def frame_names(self) -> list[str]:
        """The frames: of links, and of what is fixed to them."""
        return [frame.name for frame in self.model.frames]

    @property
    def lower(self) -> np.ndarray:
        """The lower limit of every entry of q, (nq,): rad or m, -inf where there is none and for free and ball joints."""
        return joint_limits(self.system)[0]

    @property
    def upper(self) -> np.ndarray:
        """The upper limit of every entry of q, (nq,): rad or m, inf where there is none and for free and ball joints."""
        return joint_limits(self.system)[1]

    @property
    def velocity_limits(self) -> np.ndarray:
        """The largest speed of every entry of v, (nv,): rad/s or m/s, inf where there is none."""
        return self._limits("velocity")

    @property
    def effort_limits(self) -> np.ndarray:
        """The largest joint force of every entry of v, (nv,): N m or N, inf where there is none."""
        return self._limits("effort")

    @property
    def actuators(self) -> tuple[ActuatorSpec, ...]:
        """The actuators of its file, one for each control; `condyle.blocks.RobotActuators` simulates them."""
        return self.model.actuators

    @property
    def report(self) -> list[str]:
        """What was repaired, kept with a warning, or ignored while loading, and what is constrained."""
        found = [f"{note.where}: {note.what}" if note.where else note.what for note in self.model.notes]
        return found + [f"constrained: {constraint.summary()}" for constraint in self.coordinate_map.constraints]

    def __repr__(self) -> str:
        of = "" if self.coordinate_map.identity else f" of {self.model.nv}"
        joints = len(self.model.links)
        return f"<condyle robot {self.name}: {joints} joints, nq {self.nq}, nv {self.nv}{of}, {self.mass:.6g} kg>"

    _repr_html_ = robot_html

    # ---- configurations

    def neutral(self) -> np.ndarray:
        """The configuration with every joint at zero, or in the pose of an MJCF file; a constraint begins where it is closed."""
        return self.coordinate_map.start

    @property
    def keyframes(self) -> dict[str, Keyframe]:
        """The states that the file names, such as keyframes["home"].q: q and v of this robot, and the controls u."""
        return {name: keyframe_along(self.model, self.coordinate_map, key) for name, key in self.model.keyframes.items()}

    def random_configuration(self, rng: np.random.Generator, count: int | None = None) -> np.ndarray:
        """A configuration within the limits, uniform orientations; (count, nq) when a count is given."""
        return manifold.random_configuration(self.reduced, rng, count)

    def q_slice(self, joint: str) -> slice:
        """The entries of a joint in q."""
        return remaining_joint(self.model, self.reduced, joint).q

    def v_slice(self, joint: str) -> slice:
        """The entries of a joint in v."""
        return remaining_joint(self.model, self.reduced, joint).v

    def integrate(self, q: Any, dv: Any, **options: Unpack[CallOptions]) -> Any:
        """q moved by the tangent dv (velocity times time)."""
        return self._call("integrate", (q, dv), options)

    def difference(self, q0: Any, q1: Any, **options: Unpack[CallOptions]) -> Any:
        """The tangent dv that takes q0 to q1."""
        return self._call("difference", (q0, q1), options)

    # ---- kinematics

    def frame_pose(self, q: Any, frame: str, **options: Unpack[CallOptions]) -> Any:
        """(R, p) of a frame in the world, of shapes (..., 3, 3) and (..., 3)."""
        return self._call_frame("frame_pose", (q,), options, frame)

    def frame_velocity(self, q: Any, v: Any, frame: str, reference: str = "world_aligned", **options: Unpack[CallOptions]) -> Any:
        """The velocity of a frame, J v: linear then angular, (..., 6)."""
        return self._call_frame("frame_velocity", (q, v), options, frame, reference)

    def frame_acceleration(
        self, q: Any, v: Any, a: Any, frame: str, reference: str = "world_aligned", **options: Unpack[CallOptions]
    ) -> Any:
        """The classical acceleration of a frame: of its origin, then angular, (..., 6); gravity is no part of it.

        As Pinocchio's getFrameClassicalAcceleration. In "world_aligned" axes it is J a + (dJ/dt) v, the time derivative of
        `frame_velocity`; "local" are the same vectors in the frame's axes; "world" is that of the point at the world's origin.
        """
        return self._call_frame("frame_acceleration", (q, v, a), options, frame, reference)

    def jacobian(self, q: Any, frame: str, reference: str = "world_aligned", **options: Unpack[CallOptions]) -> Any:
        """J with frame velocity = J v, (..., 6, nv), linear rows first."""
        return self._call_frame("jacobian", (q,), options, frame, reference)

    def jacobian_rate(self, q: Any, v: Any, frame: str, reference: str = "world_aligned", **options: Unpack[CallOptions]) -> Any:
        """The time derivative of `jacobian` along v."""
        return self._call_frame("jacobian_rate", (q, v), options, frame, reference)

    def inverse_kinematics(
        self,
        frame: str,
        pose: Any,
        q0: Any = None,
        *,
        tolerance: float = 1e-9,
        iterations: int = 50,
        restarts: int = 100,
        choose: str = "first",
        null_space: str | None = None,
        posture: Any = None,
        method: str = "numeric",
        backend: str = "cpu",
        threads: int | None = None,
    ) -> InverseKinematics:
        """(q, residual, ok): a configuration within the limits that brings a frame to a pose in the world.

        `pose`: (R, p), a 4 x 4 matrix, or a position alone; poses, q0 and posture have leading axes that broadcast. Damped least
        squares begins at `q0`, `neutral()` by default, and at `restarts` random configurations, the same for every pose, so a row
        of a batch has the bits of a single call. `choose`: "first" that converges, "nearest" to q0, highest "manipulability".
        `null_space`: "posture" (near `posture`, or q0), "centre" of the limits, "manipulability", with the joints that a pose
        leaves free. `method="analytic"`: in closed form, for arms like a UR. `residual`: length of the error, m and rad
        together; where it is not `ok`, q is the best found. Limits of joints that follow others are not considered.
        """
        return inverse_kinematics.search(
            self.compiled, frame, pose, self.neutral() if q0 is None else q0, tolerance=tolerance, iterations=int(iterations),
            restarts=restarts, choose=choose, null_space=null_space, posture=posture, method=method,
            options={"backend": backend, "threads": threads},
        )  # fmt: skip

    # ---- dynamics

    def mass_matrix(self, q: Any, **options: Unpack[CallOptions]) -> Any:
        """M(q), (..., nv, nv)."""
        return self._call("mass_matrix", (q,), options)

    def inverse_mass_matrix(self, q: Any, **options: Unpack[CallOptions]) -> Any:
        """M(q)^-1, (..., nv, nv)."""
        return self._call("inverse_mass_matrix", (q,), options)

    def gravity_forces(self, q: Any, **options: Unpack[CallOptions]) -> Any:
        """g(q): the joint forces that hold the robot at rest, (..., nv)."""
        return self._call("gravity_forces", (q,), options)

    def bias_forces(self, q: Any, v: Any, **options: Unpack[CallOptions]) -> Any:
        """c(q, v): the joint forces at zero acceleration, gravity included, (..., nv)."""
        return self._call("bias_forces", (q, v), options)

    def coriolis_matrix(self, q: Any, v: Any, **options: Unpack[CallOptions]) -> Any:
        """C(q, v) with C v = c - g and Mdot - 2 C skew-symmetric, (..., nv, nv)."""
        return self._call("coriolis_matrix", (q, v), options)

    def inverse_dynamics(
        self, q: Any, v: Any, a: Any, wrenches: Wrenches | None = None, **options: Unpack[DynamicsOptions]
    ) -> Any:
        """tau = M a + c - J^T wrenches, less the passive forces of the joints if they act, (..., nv)."""
        return self._call("inverse_dynamics", (q, v, a), options, wrenches)

    def forward_dynamics(
        self, q: Any, v: Any, tau: Any, wrenches: Wrenches | None = None, **options: Unpack[DynamicsOptions]
    ) -> Any:
        """a = M^-1 (tau + J^T wrenches - c), with the passive forces of the joints if they act, (..., nv)."""
        return self._call("forward_dynamics", (q, v, tau), options, wrenches)

    def inverse_dynamics_derivatives(self, q: Any, v: Any, a: Any, **options: Unpack[DynamicsOptions]) -> Any:
        """(dtau_dq, dtau_dv, dtau_da), each (..., nv, nv), in the tangent space."""
        return self._call("inverse_dynamics_derivatives", (q, v, a), options)

    def forward_dynamics_derivatives(self, q: Any, v: Any, tau: Any, **options: Unpack[DynamicsOptions]) -> Any:
        """(da_dq, da_dv, da_dtau), each (..., nv, nv), in the tangent space."""
        return self._call("forward_dynamics_derivatives", (q, v, tau), options)

    def passive_forces(self, q: Any, v: Any, friction_speed: float = FRICTION_SPEED, **options: Unpack[CallOptions]) -> Any:
        """tau_p = -B v - f v / sqrt(v^2 + friction_speed^2) - K (q - rest): damping, dry friction and springs, (..., nv)."""
        return self._call("passive_forces", (q, v), {**options, "passive": friction_speed})

    def center_of_mass(self, q: Any, **options: Unpack[CallOptions]) -> Any:
        """The centre of mass in the world, (..., 3)."""
        return self._call("center_of_mass", (q,), options)

    def kinetic_energy(self, q: Any, v: Any, **options: Unpack[CallOptions]) -> Any:
        """T = 1/2 v^T M v, J."""
        return self._call("kinetic_energy", (q, v), options)

    def potential_energy(self, q: Any, **options: Unpack[CallOptions]) -> Any:
        """The energy in the field of gravity, zero with the centre of mass at the world's origin, J."""
        return self._call("potential_energy", (q,), options)

    def momentum(self, q: Any, v: Any, **options: Unpack[CallOptions]) -> Any:
        """(linear, angular about the centre of mass), in the axes of the world, (..., 6)."""
        return self._call("momentum", (q, v), options)

    # ---- constraints: each of the first ones gives a new robot

    def embed(
        self,
        gamma: Callable[..., Any],
        velocity: Callable[..., Any] | None = None,
        *,
        names: Sequence[str] | None = None,
        start: Any = None,
        velocities: Sequence[str] | None = None,
    ) -> Robot:
        """The robot that moves only as  q = gamma(y), v = (dgamma/dy) w, or v = velocity(y) w.

        `gamma`: a function of y, or of (model, y), written with NumPy, that gives all coordinates. `velocity`: a matrix of nv
        rows, where the constraint is one of velocities, such as rolling; then there may be fewer velocities w than coordinates y.
        `names`: of the coordinates; `velocities`: names of the velocities; `start`: the y that takes the place of zero.
        """
        constraint = explicit(builders.holonomic(self.coordinate_map), gamma, velocity, names, start, velocities)
        return self._constrained(self.coordinate_map.extended(constraint))

    def couple(self, joint: str | Mapping[str, Any], to: Any = None, ratio: float = 1.0, offset: float = 0.0) -> Robot:
        """The robot whose `joint` follows: q[joint] = offset + ratio * q[to]; `to` may be {other joint: ratio, ...} for several.

        Several joints at once: couple({"finger2": ("finger1", 1.0, 0.0), "finger3": ({"finger1": 0.5, "thumb": 0.5}, 0.1)}).
        """
        if not isinstance(joint, str | Mapping):
            raise RobotError(f"robot '{self.name}': couple takes the name of a joint or {{joint: coupling}}, got {joint!r:.60}")
        row = (to, offset) if isinstance(to, Mapping) else (to, ratio, offset)
        return self._constrained(builders.couple(self.coordinate_map, joint if isinstance(joint, Mapping) else {joint: row}))

    def close_loop(
        self, frame_a: str, frame_b: str, axes: str | Sequence[str] = "xyz", *, name: str = "", **options: Unpack[ClosingOptions]
    ) -> Robot:
        """The robot whose frame b stays on frame a, in the displacements `axes` ("xyz" is a ball joint), in the axes of a.

        `q`: a pose near a closed one, of the robot that this is called on; zero, or the last closed pose, by default.
        `independent`: the joints that remain, of those in loops; `dependent`: those that follow. By default they are chosen by
        pivoting at the closed pose. Called again on the result, it closes one more loop together with those before.
        `through`: whether to go straight on beyond singular poses, where the mechanism could go on in two ways, as a flat
        parallelogram can; they are reported otherwise.
        """
        return self.close_loops([(frame_a, frame_b, axes, name)], **options)

    def close_loops(self, loops: Sequence[tuple[Any, ...]], **options: Unpack[ClosingOptions]) -> Robot:
        """Several loops at once, each (frame_a, frame_b, axes) with a name or without; otherwise as `close_loop`."""
        return self._constrained(builders.close_loops(self.coordinate_map, loops, **options))

    def constrain(self, condition: Callable[..., Any], *, name: str = "condition", **options: Unpack[ClosingOptions]) -> Robot:
        """The robot with condition(model, q) = 0: one number or several, written with NumPy and condyle.dynamics.

        q there are all coordinates. The other arguments are those of `close_loop`.
        """
        new = Condition.of(self.model, name, condition)
        return self._constrained(builders.closed(self.coordinate_map, (new,), **options))

    def point_on(self, frame: str, surface: Callable[..., Any], **options: Unpack[ClosingOptions]) -> Robot:
        """The robot whose frame has its origin on a surface: surface(p) = 0 for its position p in the world, (3,)."""
        new = builders.on_surface(self.model, frame, surface)
        return self._constrained(builders.closed(self.coordinate_map, (new,), **options))

    def roll(
        self,
        wheels: str | Sequence[str],
        radius: float,
        *,
        ground: Callable[[Any], Any] | None = None,
        independent: str | Sequence[str] | None = None,
    ) -> Robot:
        """The robot whose wheels roll on the ground z = 0 without slipping; `wheels` are their hinges.

        One wheel under a planar base rolls in the plane: the base's height and the wheel's angle follow. There, `ground` may be
        the height as a function of x; the coordinate root_x is then that of the point of contact. Wheels in space roll on flat
        ground and do not slide sideways: the base's height and roll follow, and of its velocities those that the wheels fix.
        `independent`: velocities that remain, in space; by default the wheels' own, and those that the wheels do not fix.
        """
        lower = self.coordinate_map
        robot = self._constrained(builders.roll(lower, wheels, radius, ground, independent))
        if ground is None and (lower.identity or self.described):
            names = {"wheels": builders.listed_names(wheels), "independent": builders.listed_names(independent)}
            robot.rolled = {**names, "radius": float(radius), "described": not lower.identity}
        return robot

    def constrain_as_described(self) -> Robot:
        """The robot with the constraints of its description: mimic joints follow, and loops close from the written pose.

        `load` does this by default; joints can be locked before.
        """
        coordinate_map = builders.from_description(self.model)
        robot = self if coordinate_map.identity else self._constrained(coordinate_map)
        robot.described = True
        return robot

    def lift(self, y: Any, w: Any, **options: Unpack[CallOptions]) -> Any:
        """(q, v): all coordinates and their velocities."""
        return self._call("lift", (y, w), options)

    def reduce_forces(self, y: Any, tau: Any, **options: Unpack[CallOptions]) -> Any:
        """T^T tau: the joint forces tau, one for each entry of the full v, along the reduced velocities."""
        return self._call("reduce_forces", (y, self._full_forces(tau)), options)

    def constraint_forces(self, y: Any, w: Any, tau: Any = None, **options: Unpack[CallOptions]) -> Any:
        """M a + c - tau, (..., full nv): the forces of the constraint along all coordinates.

        `tau`: the joint forces, one for each entry of the full v (none: zero), because it matters in which joint a motor sits.
        """
        self._needs_constraint("constraint_forces")
        return self._call("constraint_forces", (y, w, self._full_forces(tau)), options)

    def reactions(self, y: Any, w: Any, tau: Any = None, **options: Unpack[CallOptions]) -> Any:
        """{name: force} of loops, couplings and wheels, N or N m; positive along the gradients of their conditions."""
        self._needs_constraint("reactions")
        names = [name for constraint in self.coordinate_map.constraints for name in constraint.reaction_names]
        found = self._call("reactions", (y, w, self._full_forces(tau)), options)
        # a mask comes behind the values
        values, *mask = found if isinstance(found, tuple) else (found,)
        forces = {name: values[..., k] for k, name in enumerate(names)}
        return (forces, *mask) if mask else forces

    def explain(self, y: Any) -> str | None:
        """Why the constraint cannot be met at y, or at the first bad row of y; None if it can."""
        return why_not(self.model, self.coordinate_map, np.atleast_1d(floats(self.model, "y", y)))

    # ---- other robots and functions

    def lock(self, names_or_prefixes: str | Sequence[str], q: Any = None) -> Robot:
        """A new robot with those joints fixed where `q` has them (zero by default), and with them joints that mimic them.

        Its `full(q)` and `full_velocity(v)` give the coordinates of this one.
        """
        if self.coordinate_map.identity:
            locked = edit.lock(self.model, names_or_prefixes, None if q is None else floats(self.model, "q", q))
            return Robot(locked.model, locked)
        if not self.described:
            raise RobotError(
                f"robot '{self.name}' is constrained, and its joints must be locked before: lock what was loaded, and then "
                "constrain the robot that comes back"
            )
        pose = floats(self.model, "q", self.neutral() if q is None else q)
        if pose.shape == (self.nq,):
            pose = self.lift(pose, np.zeros(self.nv))[0]
        joints = builders.with_coupled(self.model, names_or_prefixes)
        return Robot(self.model, self.locked).lock(joints, pose).constrain_as_described()

    def full(self, q: Any) -> np.ndarray:
        """The configuration of the robot this one was locked from; of a constrained robot, all its coordinates."""
        q = q if self.coordinate_map.identity else self.lift(q, np.zeros(self.nv))[0]
        into = None if self.locked is None else (self.locked.q, self.locked.standing)
        return scattered(self.model, "q", q, self.model.nq, into)

    def full_velocity(self, v: Any) -> np.ndarray:
        """The velocity of the robot this one was locked from: zero in the locked joints."""
        if not self.coordinate_map.identity:
            raise RobotError(f"robot '{self.name}' is constrained: its full velocity depends on where it is; use lift(y, w)")
        into = None if self.locked is None else (self.locked.v, np.zeros(self.locked.full_nv))
        return scattered(self.model, "v", v, self.model.nv, into)

    def function(self, what: str | Callable[..., Any], parameters: Sequence[str] = (), **shapes: Any) -> Function:
        """A compiled function: one of the robot by its name, or any `f(model, **arrays)` written with NumPy and condyle.dynamics.

        Arguments called q, v, a, tau, dv have their shapes by themselves; give the others in `shapes`. `parameters`: numbers of
        the model that become further inputs, named like "link3.mass" (input link3_mass), see `robot.parameters`. Of a
        constrained robot, a function of one's own is given q, v and a of all coordinates, computed from the reduced ones.
        """
        if not isinstance(what, str) and not callable(what):
            raise RobotError(f"robot '{self.name}': function takes a name or a function f(model, ...), got {what!r:.60}")
        known = physics.robot_function(what, FUNCTIONS) if isinstance(what, str) else None
        names = list(inspect.signature(what).parameters)[1:] if callable(what) else list(known.inputs if known else ())
        sizes = {n: shapes[n] if n in shapes else self._size(n, what) for n in (*names, *[s for s in shapes if s not in names])}
        known_parameters = self.parameters
        chosen = [known_parameters.require(name) for name in parameters]
        inputs = {spec.port: spec.name for spec in chosen}
        sizes |= {spec.port: spec.shape for spec in chosen}

        def traced(**arrays: Any) -> Any:
            model = with_parameters(self.model, {name: arrays.pop(port) for port, name in inputs.items()})
            coordinate_map = self.coordinate_map
            if any(geometric(name) for name in inputs.values()):
                coordinate_map = coordinate_map.with_iterations()
            system = physics.System(model, coordinate_map)
            if known is not None:
                return known.named(known.physics(system, *arrays.values()))
            assert callable(what)
            return what(model, **physics.lifted_arguments(system, arrays))

        traced.__name__ = what if isinstance(what, str) else getattr(what, "__name__", "function")
        # without constraints there are no derivative rules that the tape's hash must know
        return Function(traced_function(traced, sizes, values_only=known is not None and self.coordinate_map.identity))

    def parameter(self, name: str) -> np.ndarray:
        """The present value of a number that `function(..., parameters=...)` can make an input, like "link3.mass"."""
        return np.asarray(self.parameters.require(name).default, dtype=float)

    @property
    def parameters(self) -> Parameters:
        """The numbers of the model that `function(..., parameters=...)` can make inputs, with units and present values."""
        return model_parameters(self.model)

    # ---- inside

    def _call(self, name: str, arrays: tuple[Any, ...], options: Any, wrenches: Wrenches | None = None) -> Any:
        passive = options.pop("passive", False) if options and name in physics.PASSIVE_FUNCTIONS else False
        static = () if passive is False else (smooth_below(self.name, passive),)
        key: Any = (name, *static) if static else name
        if wrenches is not None and not isinstance(wrenches, Mapping):
            raise RobotError(f"wrenches are given as {{frame: (force, torque)}}, got {wrenches!r:.60}")
        if not wrenches:
            if not options:
                quick = self._quick.get(key)
                if quick is not None and (result := quick(arrays)) is not None:
                    return result
            elif (out := options.get("out")) is not None and len(options) == 1 and self.compiled.write(key, arrays, out):
                return out
        function = physics.PASSIVE_FUNCTIONS[name] if static else FUNCTIONS[name]
        if not wrenches:
            return self.compiled.run(key, function, arrays, options, static)
        where = wrench_axes(self.model, wrenches)
        return self.compiled.run((key, where), function, (*arrays, *wrenches.values()), options, static, where)

    def _call_frame(self, name: str, arrays: tuple[Any, ...], options: CallOptions, *static: str) -> Any:
        """A function of a frame: its name, and the reference but for poses, are compiled in."""
        key = (name, *static)
        if not options:
            try:
                quick = self._quick.get(key)
            except TypeError:
                quick = None  # a frame that is no name, of which the next line says so
            if quick is not None and (result := quick(arrays)) is not None:
                return result
        check_frame(self.model, *static)
        return self.compiled.run(key, physics.FRAME_FUNCTIONS[name], arrays, options, static)

    def _limits(self, what: str) -> np.ndarray:
        found = {link.joint: getattr(link.limits, what) or np.inf for link in self.reduced.links if link.kind.nv == 1}
        return np.array([found.get(name, np.inf) for name in self.velocity_names])

    def _size(self, name: str, what: Any) -> Any:
        if name not in physics.SIZES:
            raise RobotError(
                f"the shape of '{name}' is not known: write robot.function({getattr(what, '__name__', what)}, {name}=...)"
            )
        return physics.SIZES[name](self.system)

    def _constrained(self, coordinate_map: CoordinateMap) -> Robot:
        return Robot(self.model, self.locked, coordinate_map)

    def _full_forces(self, tau: Any) -> Any:
        """Joint forces of all coordinates, checked."""
        if tau is None:
            return np.zeros(self.model.nv)
        if np.shape(tau)[-1:] != (self.model.nv,):
            raise RobotError(
                f"robot '{self.name}': tau must have {self.model.nv} entries, one for each joint of the full robot, "
                f"got the shape {np.shape(tau)}; T^T of it is what reduce_forces gives"
            )
        return tau

    def _needs_constraint(self, what: str) -> None:
        if self.coordinate_map.identity:
            raise RobotError(
                f"robot '{self.name}' is not constrained, so {what} has nothing to do; see embed, couple, close_loop and roll"
            )
