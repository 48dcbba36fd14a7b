"""Functions of any size to compile: the dynamics of a serial chain, and random arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import condyle as cd

INERTIA = np.array([[0.020, 0.001, 0.002], [0.001, 0.030, 0.003], [0.002, 0.003, 0.025]])
AXIS = np.array([0.0, 0.0, 1.0])


def tilt(a: float) -> np.ndarray:
    """A constant rotation from one joint axis to the next."""
    c, s = np.cos(a), np.sin(a)
    return np.array([[1, 0, 0], [0, c, -s], [0, s, c]]) @ np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])


def chain(q: Any, v: Any, tau: Any) -> Any:
    """Accelerations of a chain of hinges whose axes meet in one point, by articulated inertias of 3 x 3 (Featherstone)."""
    n = len(q)
    R, c, U, D, u = ([None] * n for _ in range(5))
    I: list[Any] = [INERTIA * (1.0 + 0.1 * (i % 5)) for i in range(n)]
    p: list[Any] = [None] * n

    # outward: how each link turns, and the torque it takes to keep it so
    w: Any = np.zeros(3)
    for i in range(n):
        cos, sin = np.cos(q[i]), np.sin(q[i])
        R[i] = tilt(0.3 + 0.1 * (i % 7)) @ np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]])
        w = R[i].T @ w + AXIS * v[i]
        c[i] = np.cross(w, AXIS * v[i])
        p[i] = np.cross(w, I[i] @ w)

    # inward: the inertia and the torque each joint feels of everything beyond it
    for i in reversed(range(n)):
        U[i] = I[i][:, 2]
        D[i] = 1.0 / U[i][2:]
        u[i] = tau[i : i + 1] - p[i][2:]
        if i:
            I_a = I[i] - np.outer(U[i], U[i] * D[i])
            I[i - 1] = I[i - 1] + R[i] @ I_a @ R[i].T
            p[i - 1] = p[i - 1] + R[i] @ (p[i] + I_a @ c[i] + U[i] * (D[i] * u[i]))

    # outward: the accelerations
    a: Any = np.zeros(3)
    result = []
    for i in range(n):
        a = R[i].T @ a + c[i]
        result.append(D[i] * (u[i] - U[i] @ a))
        a = a + AXIS * result[i]
    return np.concatenate(result)


def serial_chain(operations: int) -> tuple[Callable[..., Any], dict[str, int]]:
    """(function, shapes) of a chain with about so many operations after lowering."""
    few, more = (cd.function(chain, q=n, v=n, tau=n).operations for n in (4, 12))
    links = max(2, round(4 + 8 * (operations - few) / (more - few)))
    return chain, {"q": links, "v": links, "tau": links}


def random_arithmetic(operations: int) -> tuple[Callable[..., Any], dict[str, int]]:
    """(function, shapes) of random sums, products, quotients and roots of values that were computed not long before."""

    def scattered(x: Any) -> Any:
        random = np.random.default_rng(7)
        values = list(x)
        unused = list(x)
        while len(values) < 0.4 * operations:
            # one operand that nobody used yet, so that nothing is computed in vain
            a = unused.pop(int(random.integers(max(0, len(unused) - 40), len(unused))))
            b, c = (values[k] for k in random.integers(max(0, len(values) - 200), len(values), 2))
            kind = random.integers(16)
            if kind == 0:
                new = a / (1.0 + b * b)
            elif kind == 1:
                new = np.sqrt(1.0 + a * a) - b
            elif kind < 8:
                new = 0.5 * (a * b - c)
            else:
                new = 0.25 * a + b * (0.1 - c)
            values.append(new)
            unused.append(new)
            if len(unused) < 16:
                unused.append(values[int(random.integers(len(values)))])
        return np.array(unused[-16:])

    return scattered, {"x": 16}
