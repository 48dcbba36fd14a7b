"""Logs of a double pendulum with known numbers, by inverse dynamics along a Fourier series."""

import numpy as np

import condyle as cd
from condyle.methods.identify import FourierMotion, Log
from condyle.methods.identify.regressor import Regressor
from condyle.multibody.robot import Robot
from condyle.robot.parameters import with_parameters

TRUE = {
    "rod_1.mass": 1.3,
    "rod_1.com": np.array([0.02, 0.0, -0.45]),
    "rod_2.mass": 0.8,
    "rod_2.com": np.array([-0.03, 0.01, -0.6]),
    "rod_2.inertia": np.diag([0.09, 0.1, 0.02]),
    "shoulder.damping": 0.3,
    "elbow.damping": 0.1,
    "shoulder.friction": 0.2,
    "elbow.friction": 0.15,
}


def pendulum() -> Robot:
    return cd.load("double_pendulum")


def true_pendulum() -> Robot:
    return Robot(with_parameters(pendulum().model, TRUE))


def motion(seed: int = 0, periods: int = 1) -> FourierMotion:
    rng, k = np.random.default_rng(seed), np.arange(1, 6)[:, None]
    sines, cosines = 0.4 * rng.normal(size=(2, 5, 2)) / k
    sines[0] -= (k * sines).sum(axis=0)
    cosines[0] -= (k**2 * cosines).sum(axis=0)
    return FourierMotion(np.array([0.3, -0.2]), 0.4 * sines, 0.2 * cosines, 10.0, periods, ("shoulder", "elbow"))


def log(robot: Robot, noise: float = 0.0, seed: int = 0, encoder: float = 0.0, *, path: FourierMotion | None = None) -> Log:
    """500 Hz; the true friction is that of `Regressor`, smooth below a small speed."""
    path, rng = path or motion(), np.random.default_rng(1000 + seed)
    t = 0.002 * np.arange(round(path.duration / 0.002))
    q, v, a = path.at(t)
    regressor = Regressor(robot)
    tau = regressor(q, v, a) @ regressor.nominal
    return Log.of(robot, t, q + encoder * rng.normal(size=q.shape), tau + noise * rng.normal(size=q.shape))
