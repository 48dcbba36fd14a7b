"""A robot in a world, in time: step, roll out, differentiate."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from condyle.errors import SimulationError
from condyle.multibody.robot import Robot
from condyle.robot.parameters import Parameters
from condyle.simulate.build import Wrenches, build_world, chosen_contacts, ground_of_file, spring_list, wrench_frames
from condyle.simulate.config import EULER, SimulationConfig
from condyle.simulate.one_state import OneState
from condyle.simulate.parameters import world_parameters
from condyle.simulate.points import ContactPoint, Contacts
from condyle.simulate.shape_reach import contact_notes
from condyle.simulate.simulation_warnings import warn_of_limits, warn_of_simulation
from condyle.simulate.standing import above_ground, require_unit_quaternions, standing_configuration
from condyle.simulate.status import LastStatus, Status, require_ok, status_of
from condyle.simulate.terrain import Ground
from condyle.simulate.validate import WEAKEST, array_of, batch_axes, default_options, in_one_precision, integer, wrench_arrays
from condyle.simulate.world import JointForces, World
from condyle.tape.array import array
from condyle.tape.compose import any_traced, traced_array
from condyle.tape.device import beside, joined, on_device, packed, repeated
from condyle.tape.function import Function
from condyle.tape.loop import scan
from condyle.tape.progress import compiling
from condyle.tape.threads import made_once
from condyle.tape.trace import Rows

if TYPE_CHECKING:
    from condyle.simulate.kernels import Stepper

On = tuple[str, int | None, int | None]  # backend, lanes, threads
# what a kernel is called while it is compiled
LABELS = {"rollout": "step", "inlined_rollout": "rollout", "inlined_step": "step"}
LABELS |= dict.fromkeys(("jacobians", "inlined_jacobians"), "derivatives of the step")


class Simulation:
    """A robot on its ground. States are packed values x = (q, v), one or any batch of them; nothing is kept between calls.

    `dt` and `ground`: by default the time step of an MJCF file, else 0.002 s, and its floor where the robot can move away from
    it; other robots have no ground unless one is given.
    `contacts`: where the robot touches, see `condyle.simulate.points.contact_points`. `cone`: "round", or the number of
    directions of a friction pyramid. `rest_depth_mm`: contact begins this far above the surface, and at the surface one contact
    supports the robot; a hundredth of the robot's size by default, at most 1 mm. `depth_exponent`: p of the largest contact
    force k depth^p. `smoothing`: distance from the exact complementarity law; creep and rounding of corners grow with it; 1e-5
    by default, 1e-3 with backward_euler. `recovery_time`: in which a contact deep in the ground comes up by a factor e, s; None
    leaves it there.
    `limits`, `joint_friction`, `damping`, `torque_limits`: whether the robot's own values act.
    `springs`: {joint: (stiffness, rest)}, in the place of those of the robot itself. `actuated`: joints with a motor, all but
    the base by default. `wrenches`: frames at which each step may be given a wrench: a name, a pattern with *, a list of names
    and of (name, axes), or {name: axes}, axes "world_aligned" (default) or "local". `force`: a function (model, q, v) or
    (model, q, v, t) -> joint forces, written with NumPy, traced with the step.

    The arrays decide the precision: a call computes in float32, and gives float32, if all arrays given are float32, else in
    float64; parameters follow. In float32 the smoothing is at least 1e-5, and a residual up to 1e-4 counts as converged; see
    docs/contact.md.

    Options of the calls: `backend` ("cpu", "reference", "mpfr:256", "interval"), `lanes` (states per vector), `threads`.
    """

    def __init__(
        self,
        robot: Robot,
        dt: float | None = None,
        ground: Ground | Literal["file"] | None = "file",
        contacts: Contacts = None,
        *,
        integrator: str = "semi_implicit_euler",
        substeps: int = 1,
        cone: str | int = "round",
        rest_depth_mm: float | None = None,
        smoothing: float | None = None,
        recovery_time: float | None = 0.1,
        depth_exponent: int = 3,
        limits: bool = True,
        limit_depth: float = 0.01,
        joint_friction: bool = True,
        damping: bool = True,
        torque_limits: bool = True,
        springs: Mapping[str, tuple[float, float]] | None = None,
        actuated: Sequence[str] | None = None,
        wrenches: Wrenches = (),
        force: Callable[..., Any] | None = None,
        threads: int | None = None,
    ) -> None:
        if not isinstance(robot, Robot):
            raise SimulationError(f"a simulation needs a robot, as condyle.load gives it; got {robot!r:.40}")
        if ground == "file":
            ground = ground_of_file(robot)
        config = SimulationConfig(
            dt if dt is not None else robot.model.timestep or SimulationConfig.dt,
            ground,
            integrator=integrator,
            substeps=substeps,
            cone=cone,
            rest_depth_mm=rest_depth_mm,
            smoothing=smoothing,
            recovery_time=recovery_time,
            depth_exponent=depth_exponent,
            limits=limits,
            limit_depth=limit_depth,
            joint_friction=joint_friction,
            damping=damping,
            torque_limits=torque_limits,
            springs=spring_list(springs),
            actuated=None if actuated is None else tuple(actuated),
            wrenches=wrench_frames(robot, wrenches),
            force=force,
        )
        self._build(robot, replace(config, contacts=chosen_contacts(robot, ground, contacts)), threads)
        warn_of_simulation(self)

    @classmethod
    def from_config(cls, robot: Robot, config: SimulationConfig, threads: int | None = None) -> Simulation:
        """The simulation of a robot with these options, as `simulation.config` holds them."""
        simulation = cls.__new__(cls)
        simulation._build(robot, config, threads)
        return simulation

    def _build(self, robot: Robot, config: SimulationConfig, threads: int | None) -> None:
        self.robot, self.config = robot, config
        self.threads = None if threads is None else integer("Simulation", "threads", threads, 1)
        self._last = LastStatus()
        self._world = build_world(robot, config)
        self._functions: dict[Any, Function] = {}
        self._one_state = OneState(self._world)

    def trace_data(self) -> tuple[Any, ...]:
        """All that a trace which uses the simulation depends on."""
        return self.robot, self.config

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles and copies hold robot and options; compiled functions come again from the cache."""
        return Simulation.from_config, (self.robot, self.config, self.threads), {"_last": self._last}

    @property
    def status(self) -> Status | None:
        """Which states were stepped by the last call of this thread, and their residuals; None before its first call."""
        return self._last.value

    # ---- sizes and states

    @property
    def dt(self) -> float:
        """The time step, s."""
        return self.config.dt

    @property
    def world(self) -> World:
        """All that a step depends on besides state and control, with the scales derived from the robot."""
        return self._world

    @property
    def integrator(self) -> str:
        """The name of the integrator."""
        return self.config.integrator

    @property
    def substeps(self) -> int:
        """Steps of the physics in one step."""
        return self.config.substeps

    @property
    def nx(self) -> int:
        """Entries of a state: q, v, and the count of physics steps if forces depend on time."""
        return self.robot.nq + self.robot.nv + self.timed

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

    @cached_property
    def report(self) -> list[str]:
        """What `robot.report` says, contact points that were left out, and links that stick out between the others."""
        asked = () if self.ground is None else self.config.contacts
        return self.robot.report + contact_notes(self.robot.model, asked, self._world.points)

    @property
    def wrench_frames(self) -> tuple[str, ...]:
        """The frames at which each step may be given a wrench."""
        return tuple(frame for frame, _ in self._world.wrenches)

    @property
    def wrench_axes(self) -> tuple[str, ...]:
        """The axes of each wrench: "world_aligned" or "local"."""
        return tuple(axes for _, axes in self._world.wrenches)

    @cached_property
    def parameters(self) -> Parameters:
        """The numbers of robot, ground and contact that calls may be given, with units and defaults; it prints as a table."""
        return world_parameters(self._world)

    @property
    def rest_depth(self) -> float:
        """The height above the surface at which contact begins, m; a body at rest stands on the surface."""
        return float(self._world.depth)

    @property
    def weight(self) -> float:
        """mass * gravity, N; gravity is 9.81 m/s^2 where the model has none."""
        return self.robot.mass * float(self._world.gravity)

    def state(self, q: Any = None, v: Any = None) -> np.ndarray:
        """The packed state x = (q, v): neutral configuration and rest by default; batches broadcast.

        A state at rest that is deep in the ground is an error: `stand` lifts it, and the default state, where its base can move.
        """
        reduced, nv, at_rest, lift = self._world.reduced, self._world.nv, v is None, q is None
        given = [self._array(name, x, n) for name, x, n in (("q", q, reduced.nq), ("v", v, nv)) if x is not None]
        if on_device(given):  # nothing is checked, because that would wait
            parts = (self.robot.neutral() if q is None else q, np.zeros(nv) if v is None else v, np.zeros(int(self.timed)))
            return packed(parts)  # type: ignore[no-any-return]
        dtype = np.result_type(*given) if given else np.dtype(float)
        q = self.robot.neutral().astype(dtype) if q is None else given[0]
        v = np.zeros(nv, dtype) if v is None else given[-1]
        if any_traced((q, v)):
            x = np.concatenate([q, v, np.zeros(int(self.timed))])
            return array(traced_array("x", x, (self.nx,)))
        require_unit_quaternions(reduced, q)
        q = above_ground(self, q, lift=lift) if at_rest else q
        warn_of_limits(self, q)
        x = np.zeros((*self._lead(q=q.shape[:-1], v=v.shape[:-1]), self.nx), dtype)
        x[..., : reduced.nq], x[..., reduced.nq : reduced.nq + nv] = q, v
        return x

    def stand(self, q: Any = None, *, height: float = 0.0) -> np.ndarray:
        """The state at rest with the base moved against gravity until the lowest contact points carry, or are `height` above.

        `q`: a configuration or a batch, the name of a keyframe, or every joint at zero or at the limit nearest to it by default.
        """
        q = standing_configuration(self, q, height)
        return self.state(q, np.zeros(self._world.nv, q.dtype))

    def split(self, x: Any) -> tuple[np.ndarray, np.ndarray]:
        """(q, v) of a state."""
        x = self._array("x", x, self.nx)
        return x[..., : self.robot.nq], x[..., self.robot.nq : self.robot.nq + self.robot.nv]

    # ---- in time

    def step(
        self,
        x: Any,
        u: Any = None,
        *,
        wrenches: Any = None,
        parameters: Mapping[str, Any] | None = None,
        derivatives: bool = False,
        freeze: bool = False,
        backend: str = "cpu",
        lanes: int | None = None,
        threads: int | None = None,
    ) -> Any:
        """The state after one step; with derivatives=True (x1, A, B), dx1 = A dx + B du in the tangent space.

        `wrenches`: (..., frames, 6), force then torque in the axes the frames were named with, or {frame: six numbers}.
        `parameters`: {name: value} of `simulation.parameters`, one value for all robots or one for each; a kernel is compiled for
        each set of names, never for a value. A state that is not finite, or whose solver does not converge, is an error; with
        freeze=True it stays as it is, and `status.ok` is False for it. Inside a trace, with traced values, it always is so:
        nothing is raised, and `status.ok` is a traced condition. Tape derivatives of the traced step are right to second order,
        by the implicit function theorem.
        """
        simple = backend == "cpu" and threads is None and not derivatives
        if simple and (one := self._one_state.step(x, u, wrenches, parameters, lanes)) is not None:
            x1, self._last.value = one
            return x1
        arrays, on = self._inputs(x, u, wrenches), (backend, lanes, threads)
        given = self._parameters(parameters, arrays[0])
        if any_traced((*arrays, *given.values())):
            x1, residual = self._function("inlined_step", ("x", "u"), default_options(on), given)(*arrays, *given.values())
            self._last.value = Status.of(residual)
            return (x1, *self._jacobians(arrays, given, on)) if derivatives else x1
        if derivatives and self.substeps == 1 and self.integrator in EULER:
            # the step is solved once
            x1, residual, *both = self._function("jacobians", ("x", "u"), on, given)(*arrays, *given.values())
            self._keep_status(residual, arrays, x1, given, freeze)
            return x1, *self._with_controls(both)
        # one row of controls: the kernel of rollouts makes steps, too
        function = self._function("rollout", ("x", "us"), on, given)
        xs, residual = function(arrays[0], arrays[1][..., None, :], *arrays[2:], *given.values())
        x1 = xs[..., 0, :]
        self._keep_status(residual, arrays, x1, given, freeze)
        if simple and x1.ndim == 1 and x1.dtype == np.float64 and not on_device((x1,)):
            self._one_state.keep(function, tuple(given.values()), parameters, lanes)
        if not derivatives:
            return x1
        return (x1, *self._jacobians(arrays, given, on))

    def _keep_status(self, residual: Any, inputs: tuple[Any, ...], rows: Any, given: dict[str, Any], freeze: bool) -> None:
        self._last.value = status = status_of(self, residual, inputs, rows, given)
        if not freeze:
            require_ok(self, status, inputs, rows)

    def rollout(
        self,
        x: Any,
        us: Any,
        *,
        wrenches: Any = None,
        parameters: Mapping[str, Any] | None = None,
        derivatives: bool = False,
        freeze: bool = False,
        backend: str = "cpu",
        lanes: int | None = None,
        threads: int | None = None,
    ) -> Any:
        """The states (..., T + 1, nx) under the controls us (..., T, nu), the first one included.

        `wrenches` act at every step, and `parameters` hold for all of them. With derivatives=True also As (..., T, ndx, ndx) and
        Bs (..., T, ndx, nu) of every step.
        """
        x, us, *rest = self._alike(self._array("x", x, self.nx), self._controls("us", us), *self._wrenches(wrenches))
        extra = tuple(rest)
        if us.ndim < 2 or us.shape[-2] < 1:
            raise SimulationError(f"us must have the shape (..., steps, {self.nu}), got {us.shape}")
        on = (backend, lanes, threads)
        given = self._parameters(parameters, x)
        if any_traced((x, us, *extra, *given.values())):
            return self._traced_rollout(x, us, extra, given, default_options(on), derivatives)
        own = {"x": x.shape[:-1], "us": us.shape[:-2], "wrenches": extra[0].shape[:-2] if extra else ()}
        lead = self._lead(**own, **dict(zip(given, self._batch_axes(given), strict=True)))
        rows, residual = self._function("rollout", ("x", "us"), on, given)(x, us, *extra, *given.values())
        start = repeated(beside(rows, x)[..., None, :], (*lead, 1, self.nx))
        xs = joined([start, rows], -2)
        self._keep_status(residual, (x, us, *extra), rows, given, freeze)
        if not derivatives:
            return xs
        # one more batch axis: the steps
        each = {k: v[(..., None, *[slice(None)] * len(self.parameters[k].shape))] for k, v in given.items()}
        before = joined([start, rows[..., :-1, :]], -2)
        return (xs, *self._jacobians((before, us, *[w[..., None, :, :] for w in extra]), each, on))

    def step_hessian(
        self,
        x: Any,
        u: Any,
        weight: Any,
        *,
        wrenches: Any = None,
        parameters: Mapping[str, Any] | None = None,
        backend: str = "cpu",
        lanes: int | None = None,
        threads: int | None = None,
    ) -> np.ndarray:
        """Second derivatives of weight . (next state) by (dx, u): (..., ndx + nu, ndx + nu); `weight` has ndx entries."""
        if self.substeps > 1:
            raise SimulationError(
                "second derivatives are those of a single step of the physics; use substeps=1 with a smaller dt"
            )
        x, u, *extra = self._inputs(x, u, wrenches)
        weight, x, u, *extra = self._alike(self._array("weight", weight, self.ndx), x, u, *extra)
        given = self._parameters(parameters, x)
        function = self._function("hessian", ("x", "u", "weight"), (backend, lanes, threads), given)
        H: np.ndarray = function(x, u, weight, *extra, *given.values())
        return H

    def step_function(self, parameters: Sequence[str] = ()) -> Function:
        """The step as a compiled function: x, u, wrenches if frames are named, and parameters in, x1 and the residual out.

        Its derivatives by all inputs are right to second order, by the implicit function theorem; x1 holds coordinates, so those
        by a quaternion are by its four entries. The input of "torso.mass" is torso_mass. A state whose residual is above 1e-10
        did not converge and stays as it is.
        """
        specs = {spec.name: spec.default for spec in (self.parameters.require(name, SimulationError) for name in parameters)}
        return self._function("inlined_step", ("x", "u"), ("cpu", None, None), specs)

    # ---- outputs

    def contact_forces(
        self,
        x: Any,
        u: Any = None,
        *,
        wrenches: Any = None,
        parameters: Mapping[str, Any] | None = None,
        backend: str = "cpu",
        lanes: int | None = None,
        threads: int | None = None,
    ) -> np.ndarray:
        """The force of the ground on each contact point during the next step, world axes, N: (..., contacts, 3)."""
        if not self.contact_points:
            return np.zeros((*np.shape(x)[:-1], 0, 3), np.asarray(x).dtype)
        arrays = self._inputs(x, u, wrenches)
        given = self._parameters(parameters, arrays[0])
        function = self._function("forces", ("x", "u"), (backend, lanes, threads), given)
        out: np.ndarray = function(*arrays, *given.values())
        return out

    def energy(
        self,
        x: Any,
        *,
        parameters: Mapping[str, Any] | None = None,
        backend: str = "cpu",
        lanes: int | None = None,
        threads: int | None = None,
    ) -> Any:
        """Kinetic energy + potential energy + energy of the springs, J."""
        x = self._array("x", x, self.nx)
        given = self._parameters(parameters, x)
        return self._function("energy", ("x",), (backend, lanes, threads), given)(x, *given.values())

    @property
    def hash(self) -> str:
        """A hash of everything a step depends on."""
        return hashlib.sha256(f"{self._world.key()} {self.integrator} {self.substeps}".encode()).hexdigest()

    def __repr__(self) -> str:
        ground = "no ground" if self.ground is None else f"{len(self.contact_points)} contacts on {self.ground!r:.60}"
        return (
            f"<condyle simulation of {self.robot.name}: dt {self.dt} s, {self.integrator}, {ground}, nx {self.nx}, nu {self.nu}>"
        )

    # ---- inside

    @cached_property
    def _stepper(self) -> Stepper:
        from condyle.simulate.kernels import Stepper

        return Stepper(self._world, self.integrator, self.substeps)

    def _function(self, name: Any, inputs: tuple[str, ...], on: On, parameters: Iterable[str] = ()) -> Function:
        """The compiled kernel `name`, or (name, steps), on (backend, lanes, threads): one for a single state and for batches.

        Without a number of steps, a rollout makes as many as there are controls. `parameters`: names of those that are inputs.
        """

        def make() -> Function:
            from condyle.simulate.kernels import compiled

            backend, lanes, threads = on
            kernel, steps = name if isinstance(name, tuple) else (name, None)
            nu = max(self.nu, 1)
            us = Rows(None, nu) if steps is None else (steps, nu)
            sizes = {"x": self.nx, "u": nu, "us": us, "weight": self.ndx}
            shapes: dict[str, Any] = {i: sizes[i] for i in inputs}
            if self.wrench_frames and kernel not in ("energy", "centers"):
                shapes["wrenches"] = (len(self.wrench_frames), 6)
            specs = [self.parameters[name] for name in parameters]
            shapes |= {spec.port: spec.shape for spec in specs}
            label = f"{LABELS.get(kernel, kernel.replace('_', ' '))} of '{self.robot.name}'"
            with compiling(label):
                function = compiled(self._stepper, kernel, {spec.port: spec.name for spec in specs}, **shapes)
            function.label = label
            return function.on(backend, lanes=lanes, threads=threads or self.threads)

        return made_once(self._functions, (name, tuple(parameters), *on), make)

    def _jacobians(self, arrays: tuple[Any, ...], given: dict[str, Any], on: On) -> tuple[np.ndarray, np.ndarray]:
        """(A, B) of a step; with substeps, the product of those of each step of the physics."""
        (x, u, *extra), values = arrays, tuple(given.values())
        alone = self.substeps == 1 and any_traced((*arrays, *values))
        function = self._function("inlined_jacobians" if alone else "jacobians", ("x", "u"), on, given)
        found, n = function(x, u, *extra, *values), self.ndx
        found = found if isinstance(found, tuple) else (found,)
        A, B = self._with_controls(found[2:] if self._stepper.gives_state and not alone else found)
        if self.substeps == 1:
            return A, B
        from condyle.simulate.kernels import compiled

        chained = compiled(self._stepper, "chained", total=(n, n + self.nu), A=(n, n), B=(n, max(self.nu, 1)))
        total = joined([A, B], -1)
        for _ in range(self.substeps - 1):
            found = function(found[0], u, *extra, *values)
            A, *rest = found[2:]
            total = chained(total, A, rest[0] if rest else beside(A, np.zeros((*A.shape[:-1], 1))))
        return total[..., :n], total[..., n:]

    def _with_controls(self, found: Sequence[Any]) -> tuple[Any, Any]:
        """(A, B): a robot without motors has a B without columns."""
        A = found[0]
        return A, found[1] if len(found) > 1 else beside(A, np.zeros((*A.shape[:-1], 0)))

    def _traced_rollout(self, x: Any, us: Any, extra: tuple[Any, ...], given: Any, on: Any, derivatives: bool) -> Any:
        """The states, and the derivatives of every step, inside a trace."""
        steps = len(us)
        function = self._function(("inlined_rollout", steps), ("x", "us"), on, given)
        chunk, residual = function(x, us, *extra, *given.values())
        self._last.value = Status.of(residual)
        xs = array([list(x), *chunk])
        if not derivatives:
            return xs

        def body(_: Any, state: Any, row: Any) -> Any:
            A, B = self._jacobians((*row, *extra), given, on)
            return state, {"A": A, "B": B} if self.nu else {"A": A}

        _, found = scan(body, 0.0, (xs[:-1], us))
        As, *Bs = [array([rows[k] for k in range(steps)]) for rows in found.values()]
        return xs, As, Bs[0] if Bs else np.zeros((steps, self.ndx, 0))

    def _inputs(self, x: Any, u: Any, wrenches: Any) -> tuple[Any, ...]:
        u = np.zeros(self.nu, WEAKEST) if u is None else u
        return self._alike(self._array("x", x, self.nx), self._controls("u", u), *self._wrenches(wrenches))

    def _alike(self, *arrays: Any) -> tuple[Any, ...]:
        """The arrays in float32 if all are, else in float64."""
        out = in_one_precision(arrays)
        if not on_device(out) and out[0].dtype == np.float32 and self.integrator == "backward_euler":
            raise SimulationError(f"{self.robot.name}: backward_euler converges in float64 only; pass float64 arrays")
        return out

    def _parameters(self, parameters: Mapping[str, Any] | None, x: Any) -> dict[str, Any]:
        """The parameters of a call by their own names, alphabetical; numbers are checked, in the precision of x."""
        if not parameters:
            return {}
        if not isinstance(parameters, Mapping):
            raise SimulationError(f"parameters are given as {{name: value}}, got {parameters!r:.60}")
        known = self.parameters
        traced = {known.require(k, SimulationError).name: v for k, v in parameters.items() if any_traced((v,))}
        values = known.checked({k: v for k, v in parameters.items() if not any_traced((v,))}, SimulationError)
        both = traced | values
        if not on_device((x, *values.values())) and x.dtype == np.float32:
            both = traced | {name: value.astype(np.float32) for name, value in values.items()}
        return {name: both[name] for name in sorted(both)}

    def _batch_axes(self, given: dict[str, Any]) -> list[tuple[int, ...]]:
        """The batch axes of the values of parameters."""
        return [value.shape[: value.ndim - len(self.parameters[name].shape)] for name, value in given.items()]

    def _controls(self, name: str, u: Any) -> Any:
        """The controls as the kernels take them: a robot without motors has one idle control."""
        u = self._array(name, u, self.nu)
        return u if self.nu else beside(u, np.zeros((*u.shape[:-1], 1)))

    def _wrenches(self, wrenches: Any) -> tuple[Any, ...]:
        """() or one array (..., frames, 6)."""
        return wrench_arrays(self.robot.name, self.wrench_frames, wrenches)

    def _array(self, name: str, value: Any, size: int) -> np.ndarray:
        return array_of(f"{self.robot.name}: {name}", value, size)

    def _lead(self, **shapes: tuple[int, ...]) -> tuple[int, ...]:
        """The batch axes of arrays that belong together."""
        return batch_axes(self.robot.name, **shapes)
