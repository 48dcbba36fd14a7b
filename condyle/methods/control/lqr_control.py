"""Linear-quadratic regulators of the simulation itself: about a pose, and along a motion.

    balance = LQRControl(world, q, state_cost=..., control_cost=...)
    follow = TimeVaryingLQR(world, move)
    loop = cd.Loop(world, lambda x: follow(x))

A and B are the derivatives of the simulation's own step, so the gains are optimal for the sampled system with its integrator,
damping and hold, and not for a continuous model of it. The deviation is x - x_0 with x = (q, v); the cost of a tick is

    (x - x_0)^T Q (x - x_0) + (u - u_0)^T R (u - u_0).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from condyle.closed_loop.block import Weights
from condyle.errors import ControlError, ShapeError
from condyle.methods.control.arm_controller import ArmController
from condyle.methods.control.controllers import motors
from condyle.methods.control.joint_gains import PassiveForces, joint_sample, rounded, update_time
from condyle.methods.control.lqr import dlqr
from condyle.simulate.simulation import Simulation
from condyle.tape.linalg import riccati
from condyle.tape.table import Table

Array = np.ndarray

ANGLE, SPEED = 0.05, 0.5  # rad (m), rad/s (m/s): deviations that cost as much as a torque of a joint's load, by default
GAIN_DIGITS = 9  # of gains computed by LAPACK, whose last bits depend on the processor
STILL = 1e-6  # acceleration of an equilibrium, relative to that of its gravity


class LinearRegulator(ArmController):
    """What both regulators share: costs, and the linearised tick of the controller's own model."""

    underactuated = True

    def __init__(self, simulation: Simulation, state_cost: Any, control_cost: Any, **options: Any) -> None:
        super().__init__(simulation, **options)
        at, n = motors(simulation), self.size
        load = np.array([at.load[list(at.at_v).index(k)] for k in simulation.actuated])
        tolerance = np.repeat([ANGLE, SPEED], n)
        self.Q = self._cost("state_cost", 1.0 / tolerance**2 if state_cost is None else state_cost, 2 * n)
        self.R = self._cost("control_cost", 1.0 / load**2 if control_cost is None else control_cost, simulation.nu)
        # dry friction holds a joint at rest, where no torque would seem to move it; limits end a linear law
        config = replace(simulation.config, joint_friction=False, limits=False, torque_limits=False, wrenches=())
        self.linear = Simulation.from_config(self.robot, config, simulation.threads)
        self.passive = PassiveForces(self)

    def _cost(self, name: str, given: Any, size: int) -> Array:
        """A symmetric matrix: of one number, a diagonal, or the matrix itself."""
        value = np.asarray(given, dtype=float)
        value = value * np.eye(size) if value.ndim == 0 else np.diag(value) if value.shape == (size,) else value
        if value.shape != (size, size) or not np.all(np.isfinite(value)):
            raise ShapeError(
                f"controller '{self.name}': {name} is a number, {size} numbers or a {size} x {size} matrix; got shape "
                f"{np.shape(given)}"
            )
        return value

    def along(self, reference: Any) -> tuple[Any, Any]:
        """(state, controls) of a reference: its inverse dynamics, with damping and friction of the joints."""
        q, v, a = joint_sample(self, reference)
        return np.concatenate([q, v]), self.forces(q, v, a)[list(self.simulation.actuated)]

    def forces(self, q: Any, v: Any, a: Any) -> Any:
        """The joint forces of a motion, with damping, friction and springs of the joints, (..., nv)."""
        return self.robot.inverse_dynamics(q, v, a) + self.passive(q, v)

    def linearised(self, X: Array, U: Array) -> tuple[Array, Array]:
        """(A, B) of the updates that begin at the states X (N, every, 2 nv) under the controls U (N, nu), held for an update.

        All ticks are differentiated in one batch, and multiplied where an update takes several.
        """
        (N, every), n = X.shape[:2], self.size
        ticks = X.reshape(N * every, 2 * n)
        _, A, B = self.linear.step(self.linear.state(ticks[:, :n], ticks[:, n:]), np.repeat(U, every, axis=0), derivatives=True)
        A, B = (np.asarray(each).reshape(N, every, *each.shape[1:]) for each in (A, B))
        total, by_u = A[:, 0], B[:, 0]
        for k in range(1, every):
            total, by_u = A[:, k] @ total, A[:, k] @ by_u + B[:, k]
        return total, by_u


class LQRControl(LinearRegulator):
    """u = u_0 + K (x_0 - x): the regulator of the simulation's tick about the pose `q` at rest, with the gains of `dlqr`.

    `state_cost`: Q of (q, v), `control_cost`: R; each a number, a diagonal or a matrix. By default 0.05 rad, 0.5 rad/s and a
    torque of a joint's load cost the same. u_0 holds the pose, which must be an equilibrium; joints without a motor are allowed,
    as in an inverted pendulum. K (nu, 2 nv) is the parameter "K", `cost_to_go` the matrix P: from x on it costs
    (x - x_0)^T P (x - x_0). Called with a reference, x_0 is its position and velocity, and u_0 its inverse dynamics.
    """

    def __init__(
        self, simulation: Simulation, q: Any = None, *, state_cost: Any = None, control_cost: Any = None, **options: Any
    ) -> None:
        super().__init__(simulation, state_cost, control_cost, **options)
        self.q = np.array(self.robot.neutral() if q is None else q, dtype=float)
        if self.q.shape != (self.size,):
            raise ShapeError(f"controller '{self.name}': the pose has {self.size} joints, got shape {self.q.shape}")
        at_rest = np.zeros(self.size)
        hold = self.forces(self.q, at_rest, at_rest)
        self.u = hold[list(simulation.actuated)]
        free = np.setdiff1d(np.arange(self.size), simulation.actuated)
        load = motors(simulation).load.max()
        if np.any(np.abs(hold[free]) > STILL * load):
            joint = self.robot.joint_names[int(free[np.argmax(np.abs(hold[free]))])]
            raise ControlError(
                f"controller '{self.name}': the pose is no equilibrium, because joint '{joint}' has no motor and would need "
                f"{np.abs(hold[free]).max():.3g} N m; choose a pose in which it hangs or stands upright"
            )
        X = np.tile(np.concatenate([self.q, at_rest]), (1, self.every, 1))
        A, B = self.linearised(X, self.u[None])
        K, self.cost_to_go = dlqr(A[0], B[0], self.Q, self.R)
        self.K = self.parameter("K", rounded(K, GAIN_DIGITS), "N m/rad, N m s/rad")

    def step(self, state: dict[str, Any], x: Any, reference: Any = None) -> tuple[Any, dict[str, Any]]:
        """The controls."""
        here = np.concatenate([self.q, np.zeros(self.size)])
        nominal, u_0 = (here, self.u) if reference is None else self.along(reference)
        return u_0 + self.K.resolve() @ (nominal - np.concatenate([x.q, x.v])), {}


class TimeVaryingLQR(LinearRegulator):
    """u = u_k + K_k (x_k - x): the regulator along a motion, by a Riccati sweep backward over its linearised ticks.

    `motion`: one with `at(t)` and `duration` (see `methods/planning/profiles.py`), whose controls are its inverse dynamics with
    damping and friction; or (states (T + 1, 2 nv), controls (T, nu)) at every tick, as an optimiser or a rollout gives them, for
    which joints without a motor are allowed. `terminal_cost`: Q of the end, by default that of the regulator about the end where
    it exists, else `state_cost`. After the end its regulator goes on. The tables "gains" (N + 1, nu, 2 nv), "states" and
    "controls" are shared by all robots and looked up by the tick; `cost_to_go[k]` is P_k: from update k on, a deviation d
    costs d^T P_k d. Called with a reference, x_k is its position and velocity, and u_k its inverse dynamics.
    """

    def __init__(
        self,
        simulation: Simulation,
        motion: Any,
        *,
        state_cost: Any = None,
        control_cost: Any = None,
        terminal_cost: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(simulation, state_cost, control_cost, **options)
        X, U = self._sampled(motion) if hasattr(motion, "at") else self._given(motion)
        A, B = self.linearised(X[:-1].reshape(-1, self.every, 2 * self.size), U)
        N = len(A)
        q, v, at_rest = X[-1, : self.size], X[-1, self.size :], np.zeros(self.size)
        last = U[-1] if self.simulation.nu < self.size else self.forces(q, v, at_rest)
        end, hold = self._regulator(X[-1], last)
        if terminal_cost is not None:
            end = self._cost("terminal_cost", terminal_cost, 2 * self.size)
        Q = np.concatenate([np.broadcast_to(self.Q, (N, *self.Q.shape)), end[None]])
        found = riccati(A, B, Q, np.ascontiguousarray(np.broadcast_to(self.R, (N, *self.R.shape))))
        gains, self.cost_to_go = -np.asarray(found.K), np.concatenate([np.asarray(found.P), end[None]])
        if not np.all(np.isfinite(gains)):
            raise ControlError(
                f"controller '{self.name}': the Riccati sweep has no finite gains; control_cost must be positive definite, and "
                "state_cost and terminal_cost positive semidefinite"
            )
        # one more row: what holds the end
        self.gains = self.weights("gains", np.concatenate([gains, gains[-1:] if hold is None else hold[None]]))
        self.states_table = self.weights("states", X[:: self.every])
        self.controls_table = self.weights("controls", np.concatenate([U, last[None]]))

    def _sampled(self, motion: Any) -> tuple[Array, Array]:
        """States at every tick and controls of every update of a motion."""
        if self.simulation.nu != self.size:
            raise ControlError(
                f"controller '{self.name}': a motion says nothing of how joints without a motor move; give (states, controls)"
            )
        h = self.simulation.dt
        N = max(int(np.ceil(float(motion.duration) / update_time(self) - 1e-9)), 1)
        q, v, _ = motion.at(h * np.arange(N * self.every + 1))
        X = np.concatenate([q, v], axis=-1)
        # the mean acceleration over an update, which a semi-implicit step turns into the velocity after it
        a = np.diff(v[:: self.every], axis=0) / update_time(self)
        return X, self.forces(q[: -1 : self.every], v[: -1 : self.every], a)

    def _given(self, motion: Any) -> tuple[Array, Array]:
        """States at every tick and controls of every update, given as arrays."""
        try:
            X, U = (np.asarray(each, dtype=float) for each in motion)
        except (TypeError, ValueError):
            raise ControlError(
                f"controller '{self.name}': motion is one with at(t) and duration, or (states, controls) as arrays; got "
                f"{type(motion).__name__}"
            ) from None
        n, T = 2 * self.size, len(U)
        if U.ndim != 2 or X.shape != (T + 1, n) or U.shape[1] != self.simulation.nu or T == 0 or T % self.every:
            raise ShapeError(
                f"controller '{self.name}': states must have shape (T + 1, {n}) and controls (T, {self.simulation.nu}), T a "
                f"multiple of every={self.every} ticks; got {X.shape} and {U.shape}"
            )
        return X, U[:: self.every]

    def _regulator(self, x: Array, u: Array) -> tuple[Array, Array | None]:
        """(P, K) of the regulator about a state; (Q, None) where there is none."""
        A, B = self.linearised(np.tile(x, (1, self.every, 1)), u[None])
        try:
            K, P = dlqr(A[0], B[0], self.Q, self.R)
        except ControlError:
            return self.Q, None
        return rounded(P, GAIN_DIGITS), rounded(K, GAIN_DIGITS)

    def step(self, state: dict[str, Any], x: Any, reference: Any = None) -> tuple[Any, dict[str, Any]]:
        """The controls of the update that begins at this tick."""
        k = np.rint(self.t / self.dt)
        if reference is None:
            nominal, u_k = row_of(self.states_table, k), row_of(self.controls_table, k)
        else:
            nominal, u_k = self.along(reference)
        return u_k + row_of(self.gains, k) @ (nominal - np.concatenate([x.q, x.v])), {}


def row_of(shared: Weights, k: Any) -> Any:
    """The k-th row of a shared array, the last one beyond the end."""
    value = shared.value
    # while a loop looks for what its function uses, there is no table yet, and only shapes count
    return value[k] if isinstance(value, Table) else value[0] + 0.0 * k
