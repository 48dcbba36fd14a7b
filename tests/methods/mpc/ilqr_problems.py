"""Small optimal control problems that several tests use."""

from typing import Any

import numpy as np

import condyle as cd


def _matrices() -> tuple[np.ndarray, ...]:
    """(A, B, Q, R) of the linear problem."""
    A = np.array([[1.0, 0.1, 0.0], [0.05, 0.9, 0.2], [-0.1, 0.0, 1.05]])
    return A, np.array([[0.1, 0.0], [0.0, 0.3], [0.2, 0.1]]), np.diag([1.0, 2.0, 0.5]), np.diag([0.1, 0.2])


def linear(N: int, **options: Any) -> Any:
    """A linear system of three states and two controls with a quadratic cost; the final cost is five times that of a stage."""
    A, B, Q, R = _matrices()
    return cd.ocp(
        lambda x, u: A @ x + B @ u, N=N, x=3, u=2, residual=lambda x, u: np.concatenate([x, u]),
        weights=np.concatenate([np.diag(Q), np.diag(R)]), terminal_residual=lambda x: x, terminal_weights=5.0 * np.diag(Q),
        **options,
    )  # fmt: skip


linear.matrices = _matrices  # type: ignore[attr-defined]


def cart_pole(N: int) -> Any:
    """A cart of 1 kg with a pole of 0.1 kg and 0.5 m, its angle from upright: to swing up within N intervals of 0.05 s."""

    def rates(x: Any, u: Any) -> Any:
        _, angle, speed, rate = x
        s, c = np.sin(angle), np.cos(angle)
        force = (u[0] + 0.05 * rate * rate * s) / 1.1
        turn = (9.81 * s - c * force) / (0.5 * (4.0 / 3.0 - 0.1 * c * c / 1.1))
        return cd.array([speed, rate, force - 0.05 * turn * c / 1.1, turn])

    return cd.ocp(
        rates, N=N, x=4, u=1, dt=0.05, residual=lambda x, u: np.concatenate([x, u]), weights=[0.1, 0.1, 0.01, 0.01, 0.01],
        terminal_residual=lambda x: x, terminal_weights=[1000.0, 1000.0, 100.0, 100.0], bounds={"u": 20.0},
    )  # fmt: skip
