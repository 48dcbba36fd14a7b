"""What a flight controller does not know: noise on its state, the wrench of wind and load, its state from IMU and position.

    measured = StateNoise()(state)                           # position 1 mm, velocity 5 mm/s, attitude 1 mrad, gyro 5 mrad/s
    estimate = WrenchObserver(body)(state, command)          # {"force": world, "torque": body}
    command = OffsetFreeNmpc(airframe)(state, reference)     # NMPC that predicts with that wrench
    estimate = InertialEstimator()(imu["rate"], imu["acceleration"], position, altitude)

The wrench is that of a momentum observer: with momentum p and what the model says of its change,  s' = model + d,  d = L (p - s).
The state is estimated by an error-state Kalman filter (Sola 2017): position, velocity, attitude and biases of the IMU, with 15
numbers for their errors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.apps.flight.allocation import Allocation
from condyle.apps.flight.nmpc import Nmpc, reference_size
from condyle.apps.flight.quaternions import conjugate, matrix_times, quaternion_product, rotated, rotation, small_rotation
from condyle.apps.flight.single_body import SingleBody, single_body
from condyle.closed_loop.block import Block
from condyle.errors import ControlError
from condyle.robot.spatial import cross, skew, vector
from condyle.tape.array import array, isfinite, where

Array = Any

BANDWIDTH = 4.0  # 1/s, of the wrench observer
MAX_FORCE, MAX_TORQUE = 15.0, 2.0  # N and N m, that an estimate is limited to


class StateNoise(Block):
    """A measured state of the single body: normal noise on position, velocity, attitude and rate; angles are exact."""

    def __init__(
        self,
        *,
        position: float = 1e-3,
        velocity: float = 5e-3,
        attitude: float = 1e-3,
        rate: float = 5e-3,
        name: str = "noise",
        every: int = 1,
    ) -> None:
        super().__init__(name=name, every=every)
        given = {
            "position": (position, "m"),
            "velocity": (velocity, "m/s"),
            "attitude": (attitude, "rad"),
            "rate": (rate, "rad/s"),
        }
        self.own = {key: self.parameter(key, value, unit, minimum=0.0) for key, (value, unit) in given.items()}

    def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
        """The state with noise."""
        (x,) = inputs
        n = self.normal(12)
        turned = small_rotation(x[6:10], n[6:9] * self.own["attitude"])
        parts = [x[:3] + n[:3] * self.own["position"], x[3:6] + n[3:6] * self.own["velocity"], turned]
        return np.concatenate([*parts, x[10:13] + n[9:12] * self.own["rate"], x[13:]]), {}


def momentum_change(body: SingleBody, x: Array, command: Array, mass: Any, gravity: Any) -> tuple[Array, Array]:
    """What the model says of the change of m v (world) and of I w (body)."""
    force, torque = body.wrench(body.thrusts(x, command), x[13 : 13 + body.n_g])
    w = x[10:13]
    weight = vector(0.0, 0.0, 1.0) * (mass * gravity)
    return rotated(x[6:10], force) - weight, torque - cross(w, matrix_times(body.inertia, w))


class WrenchObserver(Block):
    """The wrench that the model does not have: {"force": (3,) world, N; "torque": (3,) body, N m} for (state, command).

    The command is that of the time before the state. `bandwidth`: 1/s; it is zero at first, and within `max_force`, `max_torque`.
    """

    def __init__(
        self,
        airframe: Any,
        *,
        gravity: float = 9.81,
        bandwidth: float = BANDWIDTH,
        max_force: float = MAX_FORCE,
        max_torque: float = MAX_TORQUE,
        name: str = "wrench",
        every: int = 1,
    ) -> None:
        super().__init__(name=name, every=every)
        self.body = airframe if isinstance(airframe, SingleBody) else single_body(airframe, gravity)
        self.limits = float(max_force), float(max_torque)
        self.bandwidth = self.parameter("bandwidth", bandwidth, "1/s", minimum=0.0)
        self.mass, self.gravity = (
            self.parameter("mass", self.body.mass, "kg"),
            self.parameter("gravity", self.body.gravity, "m/s^2"),
        )
        for key in OBSERVED:
            self.state(key, np.zeros(3) if key != "started" else 0.0)

    def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
        """The estimate, and the observer's momentum."""
        x, command = inputs
        share = 1.0 - np.exp(-self.bandwidth * self.dt)
        return observed(self.body, state, x, command, share, self.dt, (self.mass, self.gravity), self.limits)


OBSERVED = ("linear", "angular", "started")


def observed(
    body: SingleBody,
    state: Any,
    x: Array,
    command: Array,
    share: Any,
    dt: Any,
    weight: tuple[Any, Any],
    limits: tuple[float, float],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(estimate, next state) of a momentum observer that corrects `share` of its error in each update of `dt`."""
    mass, gravity = weight
    first = state["started"] <= 0.0
    p, h = x[3:6] * mass, matrix_times(body.inertia, x[10:13])
    linear, angular = momentum_change(body, x, command, mass, gravity)
    # a measurement that is not finite changes nothing
    ok = isfinite(sum(x, 0.0))
    found, after = {}, {"started": where(ok, 1.0, state["started"])}
    parts = (("force", "linear", p, linear, limits[0]), ("torque", "angular", h, angular, limits[1]))
    for name, key, momentum, change, limit in parts:
        # the observer's momentum one update ago, moved by the model; what is missing is the wrench
        s = where(first, momentum, state[key] + change * dt)
        d = (momentum - s) * (share / dt)
        d = np.minimum(np.maximum(d, np.full(3, -limit)), np.full(3, limit))
        found[name], after[key] = where(ok, d, 0.0), where(ok, s + d * dt, state[key])
    return found, after


class OffsetFreeNmpc(Nmpc):
    """NMPC with the wrench of a momentum observer in its prediction, so that wind, load and a wrong mass leave no offset.

    "nmpc.force" and "nmpc.torque" are the estimates.
    """

    def __init__(self, airframe: Any, *, bandwidth: float = BANDWIDTH, **options: Any) -> None:
        super().__init__(airframe, **options)
        self.bandwidth = self.parameter("bandwidth", bandwidth, "1/s", minimum=0.0)
        self.state("applied", self.body.trim())
        for key in (*OBSERVED[:2], "force", "torque"):
            self.state(key, np.zeros(3))
        self.state("started", 0.0)

    def step(self, state: dict[str, Any], *inputs: Any, **data: Any) -> tuple[Any, dict[str, Any]]:
        """(command, next plan and observer) for (measured state, reference)."""
        x, reference = inputs
        kept = {key: state[key] for key in ("applied", *OBSERVED, "force", "torque")}
        weight = self.own["mass"].resolve(), self.own["gravity"].resolve()
        share = 1.0 - np.exp(-self.bandwidth * self.dt)
        found, after = observed(self.body, kept, x, state["applied"], share, self.dt, weight, (MAX_FORCE, MAX_TORQUE))
        rest = {key: value for key, value in state.items() if key not in kept}
        rows = np.asarray(reference, dtype=object).reshape(-1, reference_size(self.body))
        rows = array([steady_reference(self.allocation, row, found["force"], found["torque"], weight) for row in rows])
        u, plan = super().step(rest, x, rows, force=found["force"], torque=found["torque"])
        return u, {**plan, **after, **found, "applied": u}


def steady_reference(allocation: Allocation, row: Array, force: Array, torque: Array, weight: tuple[Any, Any]) -> Array:
    """A row of references at which the wrench of a disturbance is balanced: other thrusts and angles.

    Where a side force is impossible, the attitude is another one, too: turned as the force that carries the weight has to be.
    """
    body, n, (mass, gravity) = allocation.body, allocation.body.n, weight
    up = vector(0.0, 0.0, 1.0) * (mass * gravity)
    wanted, q = up - force, row[6:10]
    before = rotated(conjugate(q), vector(0.0, 0.0, 1.0)) * (body.mass * body.gravity)
    if allocation.rank < 6:
        z = wanted * (1.0 / np.sqrt(wanted @ wanted))
        # the smallest rotation from up to z:  (1 + z_z, up x z)
        turn = vector(1.0 + z[2], -z[1], z[0], 0.0 * z[0])
        q = quaternion_product(turn * (1.0 / np.sqrt(turn @ turn)), q)
    change = np.concatenate([rotated(conjugate(q), wanted) - before, -torque])
    s_c = []
    for i, (ds, dc) in enumerate(allocation.components(change)):
        f, a = row[13 + i], 0.0 if body.gimbal[i] < 0 else row[13 + n + body.gimbal[i]]
        s_c.append((f * np.sin(a) + ds, f * np.cos(a) + dc))
    thrusts, angles = allocation.controls(s_c)
    return np.concatenate([row[:6], q, row[10:13], thrusts, *([angles] if body.n_g else [])])


# ---- the state from IMU, position and barometer


DEVIATIONS = {
    "rate": (5e-3, "rad/s"), "acceleration": (0.05, "m/s^2"), "position": (1e-3, "m"), "altitude": (0.1, "m"),
    "velocity": (5e-3, "m/s"), "attitude": (1e-3, "rad"), "rate_walk": (1e-4, "rad/s/sqrt(s)"),
    "acceleration_walk": (1e-3, "m/s^2/sqrt(s)"),
}  # fmt: skip
FIRST_ERRORS = np.repeat([0.01, 0.05, 0.02, 0.02, 0.05], 3)  # standard deviations at first: m, m/s, rad, rad/s, m/s^2


class InertialEstimator(Block):
    """An error-state Kalman filter: (rate, specific force, position, ...) -> position, velocity, attitude, rate, biases.

    Inputs of a call: gyroscope (3,) and accelerometer (3,) in the axes of the body, then by name what else was measured, of the
    point where the IMU is: `position` (3,), `altitude`, `velocity` (3,) in the world, `attitude` (4,) w, x, y, z. `valid=0`
    leaves them out in this update. `deviations`: of the samples: "rate" rad/s, "acceleration" m/s^2, "position" m, "altitude" m,
    "velocity" m/s, "attitude" rad, and the walks of the biases "rate_walk", "acceleration_walk" per sqrt(s).
    """

    def __init__(
        self, *, position: Any = (0.0, 0.0, 0.0), attitude: Any = (1.0, 0.0, 0.0, 0.0), gravity: float = 9.81,
        name: str = "estimator", every: int = 1, **deviations: float,
    ) -> None:  # fmt: skip
        super().__init__(name=name, every=every)
        strange = [key for key in deviations if key not in DEVIATIONS]
        if strange:
            known = ", ".join(DEVIATIONS)
            raise ControlError(f"block '{name}' has no deviation '{strange[0]}'; it has {known}")
        self.own = {
            key: self.parameter(key, deviations.get(key, value), unit, minimum=1e-9) for key, (value, unit) in DEVIATIONS.items()
        }
        self.gravity = self.parameter("gravity", gravity, "m/s^2")
        for key, value in (("p", position), ("v", np.zeros(3)), ("q", attitude), ("gyro_bias", np.zeros(3))):
            self.state(key, value)
        self.state("accelerometer_bias", np.zeros(3))
        self.state("covariance", np.diag(FIRST_ERRORS**2))

    def step(self, state: dict[str, Any], *inputs: Any, **measured: Any) -> tuple[Any, dict[str, Any]]:
        """{"position", "velocity", "attitude" (w, x, y, z), "rate", "gyro_bias", "accelerometer_bias"}."""
        rate, force = inputs
        dt, valid = self.dt, measured.pop("valid", 1.0)
        w, f = rate - state["gyro_bias"], force - state["accelerometer_bias"]
        R = rotation(state["q"])
        a = R @ f - vector(0.0, 0.0, 1.0) * self.gravity
        p = state["p"] + state["v"] * dt + a * (0.5 * dt * dt)
        v = state["v"] + a * dt
        q = small_rotation(state["q"], w * dt)
        P = self._predicted(state["covariance"], R, w, f, dt)
        d: Array = np.zeros(15)
        for key, where_, residual in self._residuals(p, v, q, measured):
            variance = self.own[key] * self.own[key]
            for k, r in zip(where_, residual, strict=True):
                gain = P[:, k] * (valid / (P[k, k] + variance))
                d = d + gain * (r - d[k])
                P = P - np.outer(gain, P[k])
        P = array(0.5 * (P + P.T))
        p, v, q = p + d[:3], v + d[3:6], small_rotation(q, d[6:9])
        bias, offset = state["gyro_bias"] + d[9:12], state["accelerometer_bias"] + d[12:15]
        found = {
            "position": p,
            "velocity": v,
            "attitude": q,
            "rate": rate - bias,
            "gyro_bias": bias,
            "accelerometer_bias": offset,
        }
        return found, {"p": p, "v": v, "q": q, "gyro_bias": bias, "accelerometer_bias": offset, "covariance": P}

    def _predicted(self, P: Array, R: Array, w: Array, f: Array, dt: Any) -> Array:
        """F P F^T + Q, by blocks of 3 x 3: errors of position, velocity, attitude, and both biases."""
        A, B, C = R @ skew(f) * (-dt), R * (-dt), np.eye(3) - skew(w) * dt

        def moved(M: Array) -> Array:
            p, v, t, g, b = (M[k : k + 3] for k in range(0, 15, 3))
            return np.concatenate([p + v * dt, v + A @ t + B @ b, C @ t - g * dt, g, b])

        P = moved(np.array(moved(P).T)).T
        own = self.own
        noise = [(3, own["acceleration"] * dt), (6, own["rate"] * dt), (9, own["rate_walk"] * np.sqrt(dt))]
        noise.append((12, own["acceleration_walk"] * np.sqrt(dt)))
        P = np.array(P)
        for start, sigma in noise:
            for k in range(start, start + 3):
                P[k, k] = P[k, k] + sigma * sigma
        return P

    def _residuals(self, p: Array, v: Array, q: Array, measured: dict[str, Any]) -> list[tuple[str, tuple[int, ...], Any]]:
        """(name, entries of the error, measured - predicted) of what was measured."""
        found: list[tuple[str, tuple[int, ...], Any]] = []
        for key, value in measured.items():
            if key == "position":
                found.append((key, (0, 1, 2), value - p))
            elif key == "altitude":
                found.append((key, (2,), [value - p[2]]))
            elif key == "velocity":
                found.append((key, (3, 4, 5), value - v))
            elif key == "attitude":
                error = quaternion_product(conjugate(q), value)
                found.append((key, (6, 7, 8), error[1:] * where(error[0] < 0.0, -2.0, 2.0)))
            else:
                raise ControlError(f"block '{self.name}' takes position=, altitude=, velocity=, attitude= and valid=, not {key}=")
        return found


def measured_state(body: SingleBody, estimate: dict[str, Any], angles: Array, angle_rates: Array = None) -> Array:
    """The state of the single body for an estimate at the origin of the base, and the gimbals' encoders.

    The IMU sits at the base; the state is that of the centre of mass, which moves with the gimbals.
    """
    model, q = body.model, estimate["attitude"]
    assert model is not None
    R = rotation(q)
    full = model.neutral().astype(object)
    full[:3], full[3:7] = estimate["position"], vector(q[1], q[2], q[3], q[0])
    v = np.zeros(model.nv, dtype=object)
    v[:3], v[3:6] = R.T @ estimate["velocity"], estimate["rate"]
    for k, (place, speed) in enumerate(body.gimbal_places):
        full[place] = angles[k]
        if angle_rates is not None:
            v[speed] = angle_rates[k]
    return body.from_multibody(full, v)
