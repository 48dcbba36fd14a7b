"""Identification of a UR3 with hidden masses and friction from noisy logs: coverage of intervals, prediction of joint forces."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from condyle.dynamics.regressor import inertial_parameters
from condyle.methods.identify import Identified, Log, excitation, identify
from condyle.methods.identify.pseudo_inertia import body, pseudo_inertia, upper_factor
from condyle.methods.identify.regressor import Regressor
from condyle.multibody.robot import Robot
from condyle.robot.parameters import with_parameters

READY = np.array([0.0, -np.pi / 2, np.pi / 2, -np.pi / 2, 0.0, 0.0])
FRICTION = np.array([1.0, 1.0, 0.6, 0.2, 0.15, 0.1])  # N m and N m s/rad, times 0.5 to 1.5
ENCODER = 2e-5  # rad: an encoder of 18 bits
SPEED = 2e-3  # rad/s: of the velocity that the controller uses
TORQUE = np.array([0.3, 0.3, 0.2, 0.05, 0.03, 0.02])  # N m: noise of the measured joint forces, of every sample
TICK, EVERY = 0.00025, 4  # s: physics at 4 kHz, control and log at 1 kHz
LEAD = (
    0.5 * TICK * (EVERY - 1)
)  # s: semi-implicit Euler has the first force of a sample at its row, and the last three ticks later


class Controller(cd.Block):
    """Feed-forward of the nominal model and a PD controller from noisy sensors; it also measures the joint forces."""

    def __init__(self, robot: Any, motion: Any, **options: Any) -> None:
        super().__init__(**options)
        self.robot, self.motion = robot, motion
        self.noise = self.parameter("noise", 1.0, "")
        self.kp, self.kd = np.array([400.0, 400.0, 200.0, 40.0, 30.0, 20.0]), np.array([20.0, 20.0, 10.0, 1.0, 0.6, 0.3])

    def step(self, state: Any, x: Any) -> Any:
        """{"u": joint forces, "q": measured positions, "tau": measured forces}."""
        goal = self.motion.at(self.t)
        q = x.q + ENCODER * self.noise * self.normal(6)
        v = x.v + SPEED * self.noise * self.normal(6)
        forward = self.robot.inverse_dynamics(goal.position, goal.velocity, goal.acceleration)
        u = forward + self.kp * (goal.position - q) + self.kd * (goal.velocity - v)
        return {"u": u, "q": q, "tau": u + TORQUE * self.noise * self.normal(6)}, {}


def hidden_parameters(robot: Any, rng: np.random.Generator, count: int, size: float = 0.4) -> dict[str, Any]:
    """Numbers of `count` robots: bodies of positive density whose masses, centres and inertias are up to 50 % off; friction."""
    pi = np.asarray(inertial_parameters(robot.model), dtype=float).reshape(-1, 10)
    found: dict[str, Any] = {}
    for link, ten in zip(robot.model.links, pi, strict=True):
        U = upper_factor(pseudo_inertia(ten))
        bodies = np.array([body(U, 0.5 * size * rng.uniform(-1.0, 1.0, 10)) for _ in range(count)], dtype=float)
        m, c = bodies[:, 0], bodies[:, 1:4] / bodies[:, :1]
        xx, xy, yy, xz, yz, zz = bodies[:, 4:].T
        about = np.stack([np.stack(row, -1) for row in ((xx, xy, xz), (xy, yy, yz), (xz, yz, zz))], -2)
        steiner = m[:, None, None] * (np.einsum("ra,ra->r", c, c)[:, None, None] * np.eye(3) - c[:, :, None] * c[:, None, :])
        found |= {f"{link.name}.mass": m, f"{link.name}.com": c, f"{link.name}.inertia": about - steiner}
    for link, f in zip(robot.model.links, FRICTION, strict=True):
        found[f"{link.joint}.friction"] = f * rng.uniform(0.5, 1.5, count)
        found[f"{link.joint}.damping"] = f * rng.uniform(0.5, 1.5, count)
    return found


def recorded_logs(robot: Any, motion: Any, hidden: dict[str, Any], count: int, seed: int) -> list[Log]:
    """The logs of all robots under the controller, simulated in one kernel."""
    world = cd.Simulation(robot, dt=TICK)
    controller = Controller(robot, motion, name="controller", every=EVERY)

    def control(x: Any) -> Any:
        found = controller(x)
        return {"u": found["u"], "measured": found["q"], "force": found["tau"]}

    loop = cd.Loop(world, control)
    steps = EVERY * round(motion.duration / (EVERY * TICK))
    x0 = np.tile(loop.state(motion.start), (count, 1))
    out = loop.rollout(x0, steps=steps, parameters=hidden, record=["measured", "force"], every=EVERY, seed=seed)
    t = TICK * EVERY * np.arange(steps // EVERY)
    return [
        Log.of(robot, t, q, tau, lead=LEAD, source=f"log {k}")
        for k, (q, tau) in enumerate(zip(out["measured"], out["force"], strict=True))
    ]


def of_one(hidden: dict[str, Any], k: int) -> dict[str, Any]:
    """The numbers of robot k."""
    return {name: value[k] for name, value in hidden.items()}


def prediction_error(found: Identified, true: Robot, motion: Any) -> tuple[float, np.ndarray]:
    """(of all joints, of each joint): the error of predicted joint forces along a motion over their size, without noise."""
    q, v, a = motion.at(np.arange(0.0, motion.period, 0.002))
    tau = Regressor(true)(q, v, a) @ Regressor(true).nominal
    error = found.predict(q, v, a) - tau
    return float(np.linalg.norm(error) / np.linalg.norm(tau)), np.linalg.norm(error, axis=0) / np.linalg.norm(tau, axis=0)


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the tables and return their numbers."""
    trials, iterations, period = (2, 2, 4.0) if tiny else (100, 100, 10.0)
    robot, rng = cd.load("ur3"), np.random.default_rng(2)
    limits: dict[str, Any] = {"centre": READY, "reach": 1.5, "acceleration": 6.0, "period": period}
    began = time.perf_counter()
    motion = excitation(robot, iterations=iterations, starts=4, periods=2, **limits)
    searching = time.perf_counter() - began
    plain = excitation(robot, iterations=1, starts=1, periods=1, seed=5, **limits)
    new = excitation(robot, iterations=1, starts=1, periods=1, seed=77, **limits)
    hidden = hidden_parameters(robot, rng, trials)
    began = time.perf_counter()
    logs = recorded_logs(robot, motion, hidden, trials, seed=1)
    simulating = time.perf_counter() - began
    validation = recorded_logs(robot, new, hidden, trials, seed=2)
    scores, sizes, errors, joints, measured, before, seconds = [], [], [], [], [], [], []
    for k, (log, other) in enumerate(zip(logs, validation, strict=True)):
        began = time.perf_counter()
        found = identify(robot, log, validation=other)
        seconds.append(time.perf_counter() - began)
        true = Robot(with_parameters(robot.model, of_one(hidden, k)))
        off = found.values - found.base.map @ Regressor(true).nominal
        scores.append(off / found.standard_errors)
        sizes.append(float(off @ np.linalg.solve(found.estimate.covariance, off)))
        total, each = prediction_error(found, true, new)
        errors.append(total)
        joints.append(each)
        assert found.prediction is not None
        measured.append(found.prediction.total)
        before.append(found.prediction.total_nominal)
    z = np.array(scores)
    inside = np.abs(z) < found.quantile
    per_parameter = inside.mean(axis=0)
    jointly = float(np.mean(np.array(sizes) < chi_square(z.shape[1], 0.95)))
    # of an ellipsoid with the volume of each
    smaller = float(np.exp((plain.information - motion.information) / (2 * z.shape[1])))
    table = Table("UR3, hidden parameters, one log of 20 s at 1 kHz each", "value")
    rows = {
        "trials": f"{trials}",
        "base parameters": f"{z.shape[1]}",
        "condition number, optimised and random excitation": f"{motion.condition:.1f}, {plain.condition:.1f}",
        "mean standard error of the optimised over that of the random one": f"{smaller:.2f}",
        "true base parameters inside of their 95 % intervals": f"{inside.mean():.1%}",
        "the same of single parameters, least and most": f"{per_parameter.min():.0%}, {per_parameter.max():.0%}",
        "all of them inside of their joint 95 % ellipsoid": f"{jointly:.0%}",
        "standard deviation of error / standard error": f"{z.std():.3f}",
        "mean of the same, largest of a parameter": f"{np.abs(z.mean(axis=0)).max():.2f}",
        "error of joint forces on a new motion, median and largest": f"{np.median(errors):.2%}, {np.max(errors):.2%}",
        "the same of the worst joint": f"{np.median(np.max(joints, axis=1)):.2%}, {np.max(joints):.2%}",
        "against its noisy log, and before identification": f"{np.median(measured):.2%}, {np.median(before):.1%}",
        "search of the excitation": f"{searching:.1f} s",
        f"simulation of {trials} logs in one kernel": f"{simulating:.1f} s",
        "identification of one log": f"{np.median(seconds):.2f} s",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table)
    return {
        "coverage": float(inside.mean()),
        "coverage_of_parameters": dict(zip(found.names, per_parameter.tolist(), strict=True)),
        "mean_score_of_parameters": dict(zip(found.names, z.mean(axis=0).tolist(), strict=True)),
        "joint_coverage": jointly,
        "prediction": errors,
        "prediction_of_joints": np.array(joints).tolist(),
        "seconds": seconds,
    }


def chi_square(freedom: int, share: float) -> float:
    """The quantile of chi-squared, by Wilson and Hilferty's cube: within 0.1 % for ten degrees of freedom and more."""
    from statistics import NormalDist

    h = 2.0 / (9.0 * freedom)
    return float(freedom * (1.0 - h + NormalDist().inv_cdf(share) * np.sqrt(h)) ** 3)
