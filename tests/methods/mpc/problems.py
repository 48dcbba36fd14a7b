"""Small optimal control problems that the tests share."""

from functools import cache

import numpy as np

import condyle as cd

UPRIGHT = np.array([0.0, np.pi, 0.0, 0.0])


def cart_pole(x, u):
    """dx/dt of a pole of 0.8 m and 0.1 kg on a cart of 1 kg; the angle is zero upright."""
    M, m, length, g = 1.0, 0.1, 0.8, 9.81
    s, c, w, force = np.sin(x[1]), np.cos(x[1]), x[3], u[0]
    free = M + m - m * c * c
    a = (-m * length * s * w * w + m * g * c * s + force) / free
    b = (-m * length * c * s * w * w + force * c + (M + m) * g * s) / (length * free)
    return np.array([x[2], w, a, b])


PARTS = {"position": 1, "angle": 1, "velocity": 1, "rate": 1}
SWING_UP = {
    "N": 20,
    "dt": 0.05,
    "x": PARTS,
    "u": {"force": 1},
    "residual": lambda x, u: np.concatenate([x, u]),
    "weights": [2e3, 2e3, 1e-2, 1e-2, 2e-2],
    "terminal_residual": lambda x: x,
    "terminal_weights": [2e3, 2e3, 1e-2, 1e-2],
    "bounds": {"force": 80.0},
}


@cache
def swing_up() -> cd.mpc.Problem:
    """The pole from hanging to upright in a second."""
    return cd.ocp(cart_pole, **SWING_UP)


@cache
def bounded() -> cd.mpc.Problem:
    """A short horizon near the top, with hard bounds, soft ones of both kinds, a reference and a parameter."""
    return cd.ocp(
        lambda x, u, p: cart_pole(x, p["gain"] * u),
        N=5,
        dt=0.05,
        x=PARTS,
        u={"force": 1},
        residual=lambda x, u, r: np.concatenate([x - r, u]),
        weights=[20.0, 20.0, 0.1, 0.1, 0.02],
        reference=4,
        terminal_residual=lambda x, r: x - r,
        terminal_weights=[20.0, 20.0, 0.1, 0.1],
        parameters={"gain": [1.0]},
        bounds={"force": 8.0, "velocity": 0.3, "rate": 2.0},
        soft={"velocity": 50.0, "rate": (1.0, 20.0)},
    )


def linear(seed: int = 0, n: int = 4, m: int = 2, N: int = 8):
    """(problem, A, B) of a random linear system with quadratic costs and no bounds."""
    rng = np.random.default_rng(seed)
    A, B = np.eye(n) + 0.1 * rng.normal(size=(n, n)), rng.normal(size=(n, m))
    problem = cd.ocp(
        lambda x, u: A @ x + B @ u,
        N=N,
        x=n,
        u=m,
        residual=lambda x, u: np.concatenate([x, u]),
        weights=np.arange(1.0, 1.0 + n + m),
        terminal_residual=lambda x: x,
        terminal_weights=np.arange(2.0, 2.0 + n),
    )
    return problem, A, B
