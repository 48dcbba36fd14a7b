"""The robot people touch: load one, and call its kinematics and dynamics for one state or any batch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.constraints.reduced_coordinates import remaining_joint, velocity_names
from condyle.dynamics import kernels, manifold
from condyle.errors import RobotError
from condyle.multibody.builders import Constraining
from condyle.multibody.compiled import Compiled
from condyle.multibody.html import robot_html
from condyle.robot import edit
from condyle.robot.load import Source, load_model
from condyle.robot.model import Model, digest
from condyle.tape.function import Function
from condyle.tape.trace import trace

if TYPE_CHECKING:
    from condyle.constraints.coordinate_map import CoordinateMap
    from condyle.constraints.reduced_dynamics import ReducedSystem

REFERENCES = ("local", "world", "world_aligned")
Wrenches = Mapping[str | tuple[str, str], Any]


def load(
    source: Source,
    base: str | None = None,
    gravity: Sequence[float] = (0.0, 0.0, -9.81),
    package_dirs: Sequence[str | PathLike[str]] = (),
    xacro_args: Mapping[str, str] | None = None,
    *,
    strict: bool = False,
    constraints: bool = True,
) -> Robot:
    """A robot from a URDF, xacro or MJCF file, a built-in name such as "ur3" or "pidog", or a Description.

    `base`: "fixed" (the default for files), "free", "planar" (x, z, pitch) or "euler" (three slides, three hinges); a built-in
    robot has the base it is meant for. `package_dirs`: where package:// and $(find ...) look. `strict`: repairs are errors.
    `constraints`: mimic joints follow and loops are closed; with False, the robot is its tree alone.
    """
    model = load_model(source, base=base, gravity=gravity, package_dirs=package_dirs, xacro_args=xacro_args, strict=strict)
    robot = Robot(model)
    if not constraints:
        return robot
    try:
        return robot.constrain_as_described()
    except RobotError as error:
        cure = "load it with constraints=False to have the robot without its mimic joints and loops, and close them yourself"
        raise RobotError([*error.problems, cure]) from None


class Robot(Constraining):
    """A robot with its compiled functions. Every call takes one state or any batch (leading axes) and checks shapes.

    q, v as in Pinocchio: a free joint has position and quaternion (x, y, z, w), and its velocity is in the body's frame, linear
    then angular. Common options of the calls: `backend` ("cpu", "reference", "mpfr:256", "interval"), `threads`, `out` (an array,
    or one per result, to write into: large batches are faster so), and `mask=True`, which adds an array that is False for states
    with non-finite entries instead of raising. A constrained robot (see condyle/multibody/builders.py) has the same
    functions in the coordinates that remain; `model` is that of all coordinates.
    """

    def __init__(self, model: Model, locked: edit.Locked | None = None, coordinate_map: CoordinateMap | None = None) -> None:
        self.model = model
        self.locked = locked
        self.coordinate_map = coordinate_map
        self.reduced, identity = model, digest(model)
        self.system: Model | ReducedSystem = model
        self._physics_of: Any = kernels
        if coordinate_map is not None:
            from condyle.constraints import reduced_dynamics

            self.reduced, identity = coordinate_map.reduced, f"{identity} {coordinate_map.key()}"
            self.system, self._physics_of = reduced_dynamics.ReducedSystem(model, coordinate_map), reduced_dynamics
        self._compiled = Compiled(self.system, identity, self.explain)
        self._quick = self._compiled.quick

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are made of what the robot is; they compile, or find in the cache, what they are asked for."""
        return Robot, (self.model, self.locked, self.coordinate_map), {"described": self.described, "rolled": self.rolled}

    # ---- what it is

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def nq(self) -> int:
        return self.system.nq

    @property
    def nv(self) -> int:
        return self.system.nv

    @property
    def mass(self) -> float:
        """The mass of everything that moves."""
        return float(sum(link.inertia.mass for link in self.model.links))

    @property
    def joint_names(self) -> list[str]:
        """The moving joints, in the order of v; of a constrained robot, the coordinates that remain."""
        return [link.joint for link in self.reduced.links]

    @property
    def velocity_names(self) -> list[str]:
        """One name for each entry of v."""
        return velocity_names(self.model) if self.coordinate_map is None else self.coordinate_map.constraints[-1].velocity_names

    @property
    def frame_names(self) -> list[str]:
        return [frame.name for frame in self.model.frames]

    @property
    def report(self) -> list[str]:
        """What was repaired, kept although doubtful, or ignored while loading, and what is constrained."""
        found = [f"{note.where}: {note.what}" if note.where else note.what for note in self.model.notes]
        constraints = () if self.coordinate_map is None else self.coordinate_map.constraints
        return found + [f"constrained: {layer.summary()}" for layer in constraints]

    def __repr__(self) -> str:
        tied = "" if self.coordinate_map is None else f" of {self.model.nv}"
        joints = len(self.model.links)
        return f"<condyle robot {self.name}: {joints} joints, nq {self.nq}, nv {self.nv}{tied}, {self.mass:.6g} kg>"

    _repr_html_ = robot_html

    # ---- configurations

    def neutral(self) -> np.ndarray:
        """The configuration with every joint at zero; of a constrained robot, where its constraint begins."""
        return self.model.neutral() if self.coordinate_map is None else self.coordinate_map.constraints[-1].start.copy()

    def random_configuration(self, rng: np.random.Generator, count: int | None = None) -> np.ndarray:
        """A configuration within the limits, uniform orientations; (count, nq) when a count is given."""
        return manifold.random_configuration(self.reduced, rng, count)

    def q_slice(self, joint: str) -> slice:
        """Where a joint's coordinates are in q."""
        return remaining_joint(self.model, self.reduced, joint).q

    def v_slice(self, joint: str) -> slice:
        """Where a joint's velocity is in v."""
        return remaining_joint(self.model, self.reduced, joint).v

    def integrate(self, q: Any, dv: Any, **options: Any) -> Any:
        """q moved by the tangent dv (velocity times time)."""
        return self._call("integrate", (q, dv), options)

    def difference(self, q0: Any, q1: Any, **options: Any) -> Any:
        """The tangent dv that takes q0 to q1."""
        return self._call("difference", (q0, q1), options)

    # ---- kinematics

    def frame_pose(self, q: Any, frame: str, **options: Any) -> Any:
        """(R, p) of a frame in the world, of shapes (..., 3, 3) and (..., 3)."""
        self.model.frame(frame)
        return self._compiled.run(
            ("frame_pose", frame), ("q",), lambda system, q: self._physics_of.frame_pose(system, q, frame), (q,), options
        )

    def jacobian(self, q: Any, frame: str, reference: str = "world_aligned", **options: Any) -> Any:
        """J with frame velocity = J v, (..., 6, nv), linear rows first; `reference`: "local", "world" or "world_aligned"."""
        self._check(frame, reference)
        physics = lambda system, q: self._physics_of.jacobian(system, q, frame, reference)  # noqa: E731
        return self._compiled.run(("jacobian", frame, reference), ("q",), physics, (q,), options)

    def jacobian_rate(self, q: Any, v: Any, frame: str, reference: str = "world_aligned", **options: Any) -> Any:
        """The time derivative of `jacobian` along v."""
        self._check(frame, reference)
        physics = lambda system, q, v: self._physics_of.jacobian_rate(system, q, v, frame, reference)  # noqa: E731
        return self._compiled.run(("jacobian_rate", frame, reference), ("q", "v"), physics, (q, v), options)

    # ---- dynamics

    def mass_matrix(self, q: Any, **options: Any) -> Any:
        """M(q), (..., nv, nv)."""
        return self._call("mass_matrix", (q,), options)

    def inverse_mass_matrix(self, q: Any, **options: Any) -> Any:
        """M(q)^-1."""
        return self._call("inverse_mass_matrix", (q,), options)

    def gravity_forces(self, q: Any, **options: Any) -> Any:
        """g(q): the joint forces that hold the robot still."""
        return self._call("gravity_forces", (q,), options)

    def bias_forces(self, q: Any, v: Any, **options: Any) -> Any:
        """c(q, v): the joint forces at zero acceleration, gravity included."""
        return self._call("bias_forces", (q, v), options)

    def coriolis_matrix(self, q: Any, v: Any, **options: Any) -> Any:
        """C(q, v) with C v = c - g and Mdot - 2 C skew-symmetric."""
        return self._call("coriolis_matrix", (q, v), options)

    def inverse_dynamics(self, q: Any, v: Any, a: Any, wrenches: Wrenches | None = None, **options: Any) -> Any:
        """tau = M a + c - (what the wrenches do).

        `wrenches`: frame name -> (force, couple) at the frame's origin in its own axes; for the axes of the world, the key is
        (frame name, "world_aligned").
        """
        return self._call("inverse_dynamics", (q, v, a), options, wrenches)

    def forward_dynamics(self, q: Any, v: Any, tau: Any, wrenches: Wrenches | None = None, **options: Any) -> Any:
        """The acceleration that tau and the wrenches (as in `inverse_dynamics`) produce."""
        return self._call("forward_dynamics", (q, v, tau), options, wrenches)

    def inverse_dynamics_derivatives(self, q: Any, v: Any, a: Any, **options: Any) -> Any:
        """(dtau_dq, dtau_dv, dtau_da), each (..., nv, nv), in the tangent space."""
        return self._call("inverse_dynamics_derivatives", (q, v, a), options)

    def forward_dynamics_derivatives(self, q: Any, v: Any, tau: Any, **options: Any) -> Any:
        """(da_dq, da_dv, da_dtau), each (..., nv, nv), in the tangent space."""
        return self._call("forward_dynamics_derivatives", (q, v, tau), options)

    def center_of_mass(self, q: Any, **options: Any) -> Any:
        """The centre of mass in the world, (..., 3)."""
        return self._call("center_of_mass", (q,), options)

    def kinetic_energy(self, q: Any, v: Any, **options: Any) -> Any:
        return self._call("kinetic_energy", (q, v), options)

    def potential_energy(self, q: Any, **options: Any) -> Any:
        """The energy in the field of gravity, zero with the centre of mass at the world's origin."""
        return self._call("potential_energy", (q,), options)

    def momentum(self, q: Any, v: Any, **options: Any) -> Any:
        """(linear, angular about the centre of mass), in the axes of the world, (..., 6)."""
        return self._call("momentum", (q, v), options)

    # ---- other robots and functions

    def lock(self, names_or_prefixes: str | Sequence[str], q: Any = None) -> Robot:
        """A new robot with those joints fixed where `q` has them (zero by default), and with them joints that mimic them.

        Its `full(q)` and `full_velocity(v)` give the coordinates of this one.
        """
        if self.coordinate_map is not None:
            from condyle.multibody.from_description import locked_as_described

            return locked_as_described(self, names_or_prefixes, q)
        locked = edit.lock(self.model, names_or_prefixes, None if q is None else np.asarray(q, dtype=float))
        return Robot(locked.model, locked)

    def full(self, q: Any) -> np.ndarray:
        """The configuration of the robot this one was locked from; of a constrained robot, all its coordinates."""
        q = q if self.coordinate_map is None else self.lift(q, np.zeros(self.nv))[0]
        return self._embedded(q, None if self.locked is None else (self.locked.q, self.locked.standing))

    def full_velocity(self, v: Any) -> np.ndarray:
        """The velocity of the robot this one was locked from: zero in the locked joints."""
        if self.coordinate_map is not None:
            raise RobotError([f"robot '{self.name}' is constrained: its full velocity depends on where it is; use lift(y, w)"])
        return self._embedded(v, None if self.locked is None else (self.locked.v, np.zeros(self.locked.full_nv)))

    def function(self, what: str | Callable[..., Any], free: Sequence[str] = (), **shapes: Any) -> Function:
        """A compiled function: a kernel by its name, or any `f(model, **arrays)` written with NumPy and condyle.dynamics.

        Arguments called q, v, a, tau, dv have their shapes by themselves; give the others in `shapes`. `free`: numbers of the
        model that become further inputs, named like "link3.mass" (input link3_mass); see condyle.robot.edit. Of a constrained
        robot, a function of one's own is given q, v and a of all coordinates, made of those that remain.
        """
        physics, names, outputs = self._physics(what)
        sizes = {n: shapes[n] if n in shapes else self._size(n, what) for n in (*names, *[s for s in shapes if s not in names])}
        inputs = {name.replace(".", "_"): name for name in free}
        sizes |= {port: edit.free_shape(self.model, name) for port, name in inputs.items()}

        def traced(**arrays: Any) -> Any:
            model = edit.with_free(self.model, {name: arrays.pop(port) for port, name in inputs.items()})
            if self.coordinate_map is None:
                return _named(physics(model, **arrays), outputs)
            coordinate_map = self.coordinate_map.differentiable()
            if any(name.endswith(".position") for name in free):
                coordinate_map = coordinate_map.with_iterations()
            system = self._physics_of.ReducedSystem(model, coordinate_map)
            if isinstance(what, str):
                return _named(physics(system, *arrays.values()), outputs)
            return physics(model, **self._physics_of.all_lifted(system, arrays))

        traced.__name__ = what if isinstance(what, str) else getattr(what, "__name__", "function")
        return Function(trace(traced, **sizes))

    def free_value(self, name: str) -> np.ndarray:
        """The present value of a number that `function(..., free=...)` can leave free."""
        return edit.free_value(self.model, name)

    # ---- inside

    def _call(self, name: str, arrays: tuple[Any, ...], options: dict[str, Any], wrenches: Wrenches | None = None) -> Any:
        if not wrenches and not options:
            quick = self._quick.get(name)
            if quick is not None and (result := quick(arrays)) is not None:
                return result
        kernel = kernels.kernel(name, self._physics_of.KERNELS)
        if not wrenches:
            physics = lambda system, **xs: _named(kernel.physics(system, *xs.values()), kernel.outputs)  # noqa: E731
            return self._compiled.run(name, kernel.inputs, physics, arrays, options)
        where = tuple(key if isinstance(key, tuple) else (key, "local") for key in wrenches)
        for frame, reference in where:
            self._check(frame, reference)
        extra = tuple(f"wrench{k}" for k in range(len(where)))

        def pushed(system: Any, **xs: Any) -> Any:
            own = [xs[n] for n in kernel.inputs]
            forces = self._physics_of.applied(system, own[0], where, [xs[n] for n in extra])
            return _named(kernel.physics(system, *own, forces), kernel.outputs)

        return self._compiled.run((name, where), (*kernel.inputs, *extra), pushed, (*arrays, *wrenches.values()), options)

    def _check(self, frame: str, reference: str) -> None:
        self.model.frame(frame)
        if reference not in REFERENCES:
            raise RobotError([f"the reference must be one of {', '.join(REFERENCES)}, got {reference!r}"])

    def _physics(self, what: str | Callable[..., Any]) -> tuple[Callable[..., Any], tuple[str, ...], tuple[str, ...]]:
        if isinstance(what, str):
            kernel = kernels.kernel(what, self._physics_of.KERNELS)
            return kernel.physics, kernel.inputs, kernel.outputs
        return what, tuple(list(inspect.signature(what).parameters)[1:]), ()

    def _size(self, name: str, what: Any) -> int:
        if name not in kernels.SIZES:
            raise RobotError(
                [f"the shape of '{name}' is not known: write robot.function({getattr(what, '__name__', what)}, {name}=...)"]
            )
        return kernels.SIZES[name](self.system)

    def _embedded(self, x: Any, into: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
        if into is None:
            return np.asarray(x, dtype=float)
        entries, rest = into
        x = np.asarray(x, dtype=float)
        full = np.broadcast_to(rest, (*x.shape[:-1], len(rest))).copy()
        full[..., entries] = x
        return full


def _named(result: Any, names: tuple[str, ...]) -> Any:
    if not names or isinstance(result, dict):
        return result
    return dict(zip(names, result if isinstance(result, tuple) else (result,), strict=True))
