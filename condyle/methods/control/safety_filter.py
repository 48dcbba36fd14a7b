"""A safety filter around any controller: the least change of its joint forces that keeps the robot away from obstacles.

    safety = SafetyFilter(world, distances, margin=0.02, every=4)
    loop = cd.Loop(world, lambda x, goal: safety(x, controller(x, goal)))

A robot that brakes by  a = -alpha v  moves on the straight line from q to its stop at q + v / alpha. The state is safe if all
of this line is:  H_i(q, v) = min over s in [0, 1] of  d_i(q + s v / alpha) - margin  is not negative for any pair i. From a
safe state braking leads to safe states only, so that this set is a control-invariant one, found without a search. H is a
barrier function of relative degree one, and to first order in v it is  (hd + alpha h) / alpha  of the exponential barrier
function of h = d - margin. The filter asks for  H(x+) >= (1 - gamma) H(x)  at the next tick, gamma = 1 - exp(-decay T), which
for small T is

    hdd + (alpha + decay) hd + alpha decay h >= 0

without a second derivative of the distance: rows  d(q_s) + J(q_s) dq_s/da (a - a_brake)  are exact distances and derivatives at
the configurations of the next tick's line, linearised at the braking motion, which meets them. Among the accelerations that do,
and that keep the limits of position, speed, acceleration and torque, it takes the one nearest to the controller's in the metric
of M:

    min (a - a_c)^T M (a - a_c)    u = u_c + M (a - a_c)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from condyle.dynamics.rotations import quaternion_exp
from condyle.errors import ControlError
from condyle.methods.control.arm_controller import ArmController
from condyle.methods.control.least_change import Rows, least_change
from condyle.methods.planning.motion_bound import core_radii, curvature_bounds, extent, lever_arms, revolute
from condyle.methods.planning.robot_distances import RobotDistances
from condyle.multibody.robot import Robot
from condyle.robot.joints import rotation_of
from condyle.simulate.simulation import Simulation
from condyle.tape import linalg
from condyle.tape.array import array, where
from condyle.tape.loop import loop, scan
from condyle.tape.table import table

BRAKING = 20.0  # 1/s, at most, by default
CONFIGURATIONS = 500  # at random, for defaults and checks
# of an exact penalty: distances give way first, which they need for obstacles that move alone, then limits, then torques
WEIGHT_DISTANCES, WEIGHT_LIMITS, WEIGHT_TORQUES = 1e3, 1e4, 1e5
ROUNDS = 3  # of the program with rows at its own solution, where the first one does not keep the barrier
NO_ROW = -1e30  # right side of a row that bounds nothing


class SafetyFilter(ArmController):
    """Joint forces near those given, such that no pair of `distances` comes closer than `margin`: called (x, u).

    The output is a dict: "u" (nu,); "barrier": the least H over the pairs when the robot brakes, m; "slack": by how much the
    distances of the next tick are short of their condition, m, zero while the program has a solution; "change": the length of
    a - a_c in the metric of M; "brakes": 1 where it brakes instead. Where u is safe and within all limits, "u" is u, to the
    last bit. Pairs of links whose distance never changes are left out.

    `margin`: m, one for all pairs or one for each. `alpha`: 1/s, rate of braking, by default 20 or what the torques allow.
    `decay`: 1/s, at which H may fall to zero, alpha by default. `speed`, `acceleration`: limits of the joints, by default those
    of the robot and 2 alpha speed; `torque`: by default those of the robot. `samples`: points on the line at which distances
    are computed. `robustness`: m, added to the margin for what happens within a tick, computed by default (`tick_error`).

    With moving obstacles (`moving=True`) call (x, u, poses, velocities): 4 x 4 poses (obstacles, 4, 4), and velocities
    (obstacles, 6), linear at the origin of the pose, then angular, in world axes; the parameter "poses" where none are given.
    """

    def __init__(
        self,
        simulation: Simulation,
        distances: RobotDistances,
        *,
        margin: Any = 0.02,
        alpha: float | None = None,
        decay: float | None = None,
        speed: Any = None,
        acceleration: Any = None,
        torque: Any = None,
        samples: int = 2,
        robustness: Any = None,
        model: Robot | None = None,
        **options: Any,
    ) -> None:
        super().__init__(simulation, model=model, **options)
        if not isinstance(distances, RobotDistances) or distances.robot.joint_names != self.robot.joint_names:
            raise ControlError(f"controller '{self.name}' needs the robot_distances of its own robot '{self.robot.name}'")
        if isinstance(samples, bool) or not isinstance(samples, int) or samples < 1:
            raise ControlError(f"controller '{self.name}': samples must be a whole number from 1 up, got {samples!r:.40}")
        self.distances, self.samples = distances, samples
        self.radii, self.curvatures = core_radii(distances), curvature_bounds(distances)
        speeds = self._limit("speed", self.robot.velocity_limits if speed is None else speed)
        torques = np.broadcast_to(np.asarray(self.robot.effort_limits if torque is None else torque, dtype=float), self.size)
        rate = braking_rate(self.robot, speeds, torques) if alpha is None else float(alpha)
        accelerations = self._limit("acceleration", 2.0 * rate * speeds if acceleration is None else acceleration)
        self._check_margin(margin)
        self.margin = self.parameter("margin", margin, "m", minimum=0.0)
        self.alpha = self.parameter("alpha", rate, "1/s", minimum=1e-3)
        self.decay = self.parameter("decay", rate if decay is None else decay, "1/s", minimum=0.0)
        self.speed = self.parameter("speed", speeds, "rad/s", minimum=0.0)
        self.acceleration = self.parameter("acceleration", accelerations, "rad/s^2", minimum=0.0)
        self.torque = self.parameter("torque", np.minimum(torques, 1e9), "N m", minimum=0.0)
        T = simulation.dt * self.every
        chosen = tick_error(distances, accelerations, T, rate) if robustness is None else robustness
        self.robustness = self.parameter("robustness", chosen, "m", minimum=0.0)
        if distances.moving:
            self.poses = self.parameter("poses", np.array([each.pose for each in distances.obstacles]), "m")

    def _limit(self, name: str, value: Any) -> np.ndarray:
        found = np.broadcast_to(np.asarray(value, dtype=float), self.size)
        if not np.all(np.isfinite(found)) or not np.all(found > 0.0):
            raise ControlError(f"controller '{self.name}' needs a positive, finite {name} for each joint: give {name}=")
        return np.array(found)

    def _check_margin(self, margin: Any) -> None:
        """Raise if a pair can never be as far apart as its margin."""
        count = len(self.distances)
        if np.shape(margin) not in ((), (count,)):
            raise ControlError(
                f"controller '{self.name}': margin must be one number, or {count} for the pairs; got {np.shape(margin)}"
            )
        if self.distances.moving:
            apart = np.array([each.pose for each in self.distances.obstacles])
            apart = np.broadcast_to(apart, (CONFIGURATIONS, *apart.shape))
            d = self.distances(_random(self.robot), apart)
        else:
            d = self.distances(_random(self.robot))
        most, least = np.max(d, axis=0), np.min(d, axis=0)
        for k, (pair, high, wanted) in enumerate(zip(self.distances.pairs, most, np.broadcast_to(margin, count), strict=True)):
            if pair.other >= 0 and high <= wanted + 1e-3 and high - least[k] > 1e-6:
                a, b = self.distances.names[k]
                raise ControlError(
                    f"controller '{self.name}': '{a}' and '{b}' are never farther apart than {1e3 * high:.1f} mm, so "
                    f"that a margin of {1e3 * wanted:.1f} mm cannot hold: leave them out by skip=, or give a margin for each pair"
                )
        # a pair of links whose distance never changes bounds nothing
        self.constant = np.array([pair.other >= 0 for pair in self.distances.pairs]) & (most - least <= 1e-6)

    # ---- one tick

    def step(
        self, state: dict[str, Any], x: Any, u: Any, poses: Any = None, velocities: Any = None
    ) -> tuple[Any, dict[str, Any]]:
        """({"u", "barrier", "slack", "change"}, {}): the joint forces of this tick."""
        q, v, n = array(x.q), array(x.v), self.size
        u = array(u)
        a_c = self.robot.forward_dynamics(q, v, u, passive=True)
        L = linalg.cholesky(array(self.robot.mass_matrix(q)))
        tau = 1.0 / array([self.alpha + 0.0])[0]
        at = _Tick(q, v, self.dt, tau, -v / (tau + 0.5 * self.dt), a_c, L, *self._obstacles(poses, velocities))
        braking, barrier = self._distance_rows(at, at.brake, 1e9)
        fixed = [
            _rows(table(self._limit_rows(at)), n, WEIGHT_LIMITS),
            _rows(table(self._torque_rows(L, u)), n, WEIGHT_TORQUES),
        ]
        z = least_change([_rows(braking, n, WEIGHT_DISTANCES), *fixed]).z
        wanted = np.minimum(barrier * np.exp(-self.decay * at.T), 0.0)

        def again(_: Any, last: Any) -> Any:
            """The program with the rows at the solution, too: where closest points jump, those on both sides."""
            z = least_change([_rows(each, n, WEIGHT_DISTANCES) for each in (braking, last["rows"])] + fixed).z
            rows, found = self._distance_rows(at, a_c + _backward(L, z), 1e9)
            return {"z": z, "rows": rows, "barrier": found, "rounds": last["rounds"] + 1.0}

        rows, found = self._distance_rows(at, a_c + _backward(L, z), 1e9)
        first = {"z": z, "rows": rows, "barrier": found, "rounds": 0.0}
        end = loop(again, first, ROUNDS, until=lambda last: last["barrier"] >= wanted)
        # what does not keep the barrier is replaced by braking, where that keeps more of it
        ok = end["barrier"] >= np.minimum(wanted, barrier)
        stop = _multiplied(L, at.brake - a_c)
        z = where(ok, end["z"], stop)
        safe = u + L @ z
        limit = self.torque + 0.0
        output = {
            "u": np.minimum(np.maximum(safe, -limit), limit),
            "barrier": barrier,
            "slack": np.maximum(wanted - end["barrier"], 0.0),
            "change": np.sqrt(sum((each * each for each in z), 0.0)),
            "brakes": where(ok, 0.0, 1.0),
        }
        return output, {}

    def _distance_rows(self, at: _Tick, a: Any, most: float) -> tuple[Any, Any]:
        """(rows (samples pairs, n + 1) over z, linearised at the acceleration a; the least barrier there, m)."""
        count, K = len(self.distances), self.samples
        gamma = 1.0 - np.exp(-self.decay * at.T)
        margin, robustness = (np.broadcast_to(np.asarray(p + 0.0, dtype=object), count) for p in (self.margin, self.robustness))
        dips = [self._dip(i, at.v + a * at.T, at.tau, at.rates) for i in range(count)]

        def sample(_: Any, least: Any, s: Any) -> Any:
            # what the acceleration moves within a tick
            reach = at.T * (0.5 * at.T + s * at.tau)
            q_s = at.q + at.v * (at.T + s * at.tau) + a * reach
            d, J = self.distances.function_with_jacobian(q_s, *self._moved(at.poses, at.rates, at.T + s * at.tau))
            rows = []
            for i in range(count):
                if self.constant[i]:
                    rows.append(array([*np.zeros(self.size), NO_ROW]))
                    continue
                dip, by_v = dips[i]
                # rows ask for all of the robustness, and half of it is for their errors
                kept = d[i] - margin[i] - 0.5 * robustness[i] - dip
                room = kept - 0.5 * robustness[i]
                c = J[i] * reach - by_v * at.T
                lost = (1.0 - gamma) * at.T * self._obstacle_speed(i, at.rates)
                rows.append(_row(at.L, c, c @ (a - at.a_c) - gamma * room + lost))
                least = np.minimum(least, kept)
            return least, array(rows)

        least, written = scan(sample, most, np.arange(1, 2 * K, 2) / (2 * K - 1))
        return written.reshape(K * count, self.size + 1), least

    def _dip(self, pair: int, v: Any, tau: Any, rates: Any) -> tuple[Any, Any]:
        """(how far the distance may be below its values at the samples, m; its derivative by v)  (`curvature_bounds`)."""
        scale = tau * tau * (0.5 / (2 * self.samples - 1) ** 2)
        by_v = array([scale * float(c) * each for c, each in zip(self.curvatures[pair], v, strict=True)])
        dip = by_v @ v
        if rates is not None and self.distances.pairs[pair].obstacle >= 0 and np.isfinite(self.radii[pair]):
            # the motion of an obstacle adds to that of the points: (a + b)^2 <= 2 a^2 + 2 b^2
            speed = self._obstacle_speed(pair, rates)
            return 2.0 * (dip + scale / float(self.radii[pair]) * speed * speed), 4.0 * by_v
        return dip, 2.0 * by_v

    def _obstacle_speed(self, pair: int, rates: Any) -> Any:
        """The largest speed of a point of the obstacle of a pair, m/s: what the distance may lose without the robot."""
        k = self.distances.pairs[pair].obstacle
        if rates is None or k < 0:
            return 0.0
        linear, angular = (np.sqrt(sum((each * each for each in part), 0.0)) for part in (rates[k][:3], rates[k][3:]))
        return linear + extent(self.distances.obstacles[k]) * angular

    def _obstacles(self, poses: Any, velocities: Any) -> tuple[Any, Any]:
        if not self.distances.moving:
            if poses is not None:
                raise ControlError(f"controller '{self.name}': its obstacles do not move; make the distances with moving=True")
            return None, None
        count = len(self.distances.obstacles)
        given = self.poses + 0.0 if poses is None else np.asarray(poses, dtype=object).reshape(count, 4, 4)
        return given, None if velocities is None else np.asarray(velocities, dtype=object).reshape(count, 6)

    def _moved(self, poses: Any, rates: Any, time: Any) -> tuple[Any, ...]:
        """The poses of the obstacles after a time."""
        if poses is None:
            return ()
        if rates is None:
            return (array(poses),)
        found = np.array(poses, dtype=object)
        for k, rate in enumerate(rates):
            found[k, :3, 3] = found[k, :3, 3] + rate[:3] * time
            found[k, :3, :3] = rotation_of(quaternion_exp(array(rate[3:]) * time)) @ found[k, :3, :3]
        return (array(found),)

    def _limit_rows(self, at: _Tick) -> list[Any]:
        """Both sides of the interval that limits of position, speed and acceleration leave each acceleration."""
        reach = at.T * (0.5 * at.T + at.tau)
        ahead = at.q + at.v * (at.T + at.tau)
        speed, most = (np.broadcast_to(np.asarray(p + 0.0, dtype=object), self.size) for p in (self.speed, self.acceleration))
        lower, upper = self.robot.lower, self.robot.upper
        rows = []
        for i in range(self.size):
            low = np.maximum(-most[i], (-speed[i] - at.v[i]) / at.T)
            high = np.minimum(most[i], (speed[i] - at.v[i]) / at.T)
            if np.isfinite(lower[i]):
                low = np.maximum(low, (lower[i] - ahead[i]) / reach)
            if np.isfinite(upper[i]):
                high = np.minimum(high, (upper[i] - ahead[i]) / reach)
            # braking is always allowed
            unit = np.eye(self.size)[i]
            low, high = np.minimum(low, at.brake[i]), np.maximum(high, at.brake[i])
            rows += [_row(at.L, unit, low - at.a_c[i]), _row(at.L, -unit, at.a_c[i] - high)]
        return rows

    def _torque_rows(self, L: Any, u: Any) -> list[Any]:
        """|u + L z| <= torque, since M (a - a_c) = L z."""
        limit = np.broadcast_to(np.asarray(self.torque + 0.0, dtype=object), self.size)
        rows = []
        for i in range(self.size):
            length = np.sqrt(sum((each * each for each in L[i, : i + 1]), 0.0))
            by = 1.0 / length
            for sign in (1.0, -1.0):
                rows.append(array([*(sign * each * by for each in L[i]), (-limit[i] - sign * u[i]) * by]))
        return rows


class _Tick(NamedTuple):
    """The state of the robot, the length T of a tick, the time 1 / alpha, accelerations, the factor of M, and the obstacles."""

    q: Any
    v: Any
    T: Any
    tau: Any
    brake: Any
    a_c: Any
    L: Any
    poses: Any
    rates: Any


def _row(L: Any, c: Any, right: Any) -> Any:
    """(g of length 1, right side) over z = L^T (a - a_c) of  c (a - a_c) >= right; one that bounds nothing where c is zero."""
    g: list[Any] = []
    for i in range(len(c)):
        g.append((c[i] - sum((L[i, j] * g[j] for j in range(i)), 0.0)) / L[i, i])
    squared = sum((each * each for each in g), 0.0)
    ok = squared > 1e-24
    by = where(ok, 1.0 / np.sqrt(where(ok, squared, 1.0)), 0.0)
    return array([*(each * by for each in g), where(ok, right * by, NO_ROW)])


def _rows(written: Any, n: int, weight: float) -> Rows:
    g, h = scan(lambda _, state, row: (state, (row[:n], row[n])), (), written)[1]
    return Rows(g, h, weight)


def _backward(L: Any, z: Any) -> Any:
    """L^-T z."""
    n = len(z)
    found: list[Any] = [0.0] * n
    for i in reversed(range(n)):
        found[i] = (z[i] - sum((L[j, i] * found[j] for j in range(i + 1, n)), 0.0)) / L[i, i]
    return array(found)


def _multiplied(L: Any, a: Any) -> Any:
    """L^T a."""
    n = len(a)
    return array([sum((L[j, i] * a[j] for j in range(i, n)), 0.0) for i in range(n)])


def _random(robot: Robot) -> np.ndarray:
    found: np.ndarray = robot.random_configuration(np.random.default_rng(0), CONFIGURATIONS)
    return found


def braking_rate(robot: Robot, speed: np.ndarray, torque: np.ndarray) -> float:
    """The alpha with which the robot brakes from its largest speeds within its torques, at most 20 1/s.

    |c(q, v) - alpha M v| <= torque at 500 random configurations, at speeds of random signs. Lower speeds allow a larger one.
    """
    rng = np.random.default_rng(1)
    q = _random(robot)
    v = np.where(rng.uniform(size=q.shape) < 0.5, -1.0, 1.0) * speed
    bias = np.asarray(robot.bias_forces(q, v))
    inertial = np.einsum("kij,kj->ki", np.asarray(robot.mass_matrix(q)), v)
    room = np.asarray(torque) + np.where(inertial > 0.0, bias, -bias)
    rate = float(np.min(room / np.maximum(np.abs(inertial), 1e-12)))
    if not rate > 0.0:
        raise ControlError(
            f"robot '{robot.name}' cannot brake from its largest speeds within its torques: give speed= or torque=, or alpha="
        )
    return min(rate, BRAKING)


def tick_error(distances: RobotDistances, acceleration: Any, T: float, alpha: float) -> np.ndarray:
    """(pairs,): what is added to the margin, m: motion within a tick, and what the linearisation of a tick leaves out.

    2 (sum_j R_ij a_j T^2 / 2  +  W D / 2),  W and D: rotation and motion by the largest change of the stop in one tick, a T /
    alpha.
    """
    R, a = lever_arms(distances), np.asarray(acceleration, dtype=float)
    turn = a * T / alpha
    found: np.ndarray = R @ a * (T * T) + (R @ turn) * float(np.sum(turn * revolute(distances.robot)))
    return found


__all__: Sequence[str] = ["SafetyFilter", "braking_rate", "tick_error"]
