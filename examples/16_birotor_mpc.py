"""Nonlinear model-predictive control of the birotor in one kernel: multiple shooting, Gauss-Newton, Riccati interior point.

The model is the controller's single body with two tilting rotors: 15 states (position, velocity, quaternion, body rate, two
gimbal angles), 4 controls (two thrusts, two gimbal commands). Thrusts, commands and angles have hard bounds, velocity and rate
soft ones. One call makes one real-time iteration: it linearises the dynamics along the last trajectory and solves the quadratic
program.
"""

import time

import numpy as np

import condyle as cd

N, DT, NX, NU = 20, 0.1, 15, 4
MASS, INERTIA, GRAVITY = 1.444422, np.array([0.055430, 0.017874, 0.067852]), 9.798
ARMS, SPINS, DRAG, T_SERVO = np.array([[0.0, 0.2375, 0.12098], [0.0, -0.2375, 0.12098]]), (1.0, -1.0), 0.0172, 0.15858
HOVER = MASS * GRAVITY / 2
# weights: position, velocity, error quaternion, rate, angle; thrust, command less angle
W = np.array([300, 300, 400, 10, 10, 10, 300, 300, 600, 5, 5, 5, 1, 1, 1, 1, 250, 250.0])
# bounded entries of (x, u), their bounds, and the inverse stiffness of the soft ones (0: hard)
BOUNDED = np.array([3, 4, 5, 10, 11, 12, 13, 14, 15, 16, 17, 18])
LOW = np.array([-1, -1, -1, -6, -6, -6, -1.5708, -1.5708, 0, 0, -1.5708, -1.5708])
HIGH = np.array([1, 1, 1, 6, 6, 6, 1.5708, 1.5708, 18, 18, 1.5708, 1.5708])
SOFT = np.array([1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0.0]) / 2000.0
SIGN = np.repeat([1.0, -1.0], len(BOUNDED))  # upper bounds, then lower ones
ENTRY, BOUND, YIELD = np.tile(BOUNDED, 2), np.concatenate([HIGH, -LOW]), np.tile(SOFT, 2)


def product(p, q):
    """The product of two quaternions (w, x, y, z)."""
    (a, b, c, d), (e, f, g, h) = p, q
    return np.array(
        [
            a * e - b * f - c * g - d * h,
            a * f + b * e + c * h - d * g,
            a * g - b * h + c * e + d * f,
            a * h + b * g - c * f + d * e,
        ]
    )


def cross(a, b):
    """The cross product."""
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def derivative(x, u):
    """dx/dt of the single-body model."""
    v, q, w, angle = x[3:6], x[6:10], x[10:13], x[13:15]
    force, torque = np.zeros(3), np.zeros(3)
    for i in range(2):
        side = np.sign(ARMS[i, 1])
        f = u[i] * np.array([side * np.sin(angle[i]), 0.0, np.cos(angle[i])])  # the arm points along +-y, so it tilts about it
        force = force + f
        torque = torque + cross(ARMS[i], f) - SPINS[i] * DRAG * f
    turned = product(product(q, np.array([0.0, *force])), q * np.array([1.0, -1.0, -1.0, -1.0]))[1:]
    acceleration = turned / MASS - np.array([0.0, 0.0, GRAVITY])
    rate = (torque - cross(w, INERTIA * w)) / INERTIA
    return np.concatenate([v, acceleration, 0.5 * product(q, np.array([0.0, *w])), rate, (u[2:] - angle) / T_SERVO])


def step(x, u):
    """The state after one interval of the horizon, by the classical Runge-Kutta method."""
    k1 = derivative(x, u)
    k2 = derivative(x + 0.5 * DT * k1, u)
    k3 = derivative(x + 0.5 * DT * k2, u)
    k4 = derivative(x + DT * k3, u)
    return x + DT / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def residual(x, u, reference):
    """The errors that the weights square: reference = position, velocity, quaternion, hover thrust."""
    error = product(reference[6:10] * np.array([1.0, -1.0, -1.0, -1.0]), x[6:10])
    return np.concatenate(
        [x[0:3] - reference[0:3], x[3:6] - reference[3:6], error[1:], x[10:13], x[13:15], u[:2] - reference[10], u[2:] - x[13:15]]
    )


def quadratic(x, u, reference, weights):
    """(gradient, Hessian) of the cost of a stage by (x, u), Gauss-Newton."""
    r, rx, ru = cd.linearize(residual, x, u, reference)[:3]
    J = np.concatenate([rx, ru], axis=1)
    return J.T @ (weights * r), J.T @ (weights[:, None] * J)


def solve(x0, path, controls, references, weights, iterations=12):
    """(states, controls, residual of the complementarity) after one real-time iteration from a trajectory."""
    xs, us = cd.table(path), cd.table(controls)

    def stage(k, _, row):
        x, u, reference = row
        after, A, B = cd.linearize(step, x, u)
        g, H = quadratic(x, u, reference, weights)
        return _, {"A": A, "B": B, "c": after - xs[k + 1], "g": g, "H": H, "z": np.concatenate([x, u])}

    _, qp = cd.scan(stage, (), (cd.table(path[:-1]), us, cd.table(references[:-1])))
    gN, HN = quadratic(path[-1], np.array([references[-1][10]] * 2 + [path[-1][13], path[-1][14]]), references[-1], weights)

    def backward(k, state, row):
        P, p = state
        A, B, c, g, H, z, dual = (row[name] for name in ("A", "B", "c", "g", "H", "z", "dual"))
        stiffness, shift = barrier(dual, z, row["mu"])
        H, g = H.copy(), g.copy()
        for b, (e, s) in enumerate(zip(ENTRY, SIGN, strict=True)):
            H[e, e], g[e] = H[e, e] + stiffness[b], g[e] + s * shift[b]
        PA, PB, Pc = P @ A, P @ B, P @ c + p
        Qux = H[NX:, :NX] + B.T @ PA
        Quu, qu, qx = H[NX:, NX:] + B.T @ PB, g[NX:] + B.T @ Pc, g[:NX] + A.T @ Pc
        L = cd.linalg.cholesky(Quu)
        gains = -cd.linalg.cholesky_solve(L, np.concatenate([Qux, qu[:, None]], axis=1))
        K, k0 = gains[:, :NX], gains[:, NX]
        new = H[:NX, :NX] + A.T @ PA + Qux.T @ K
        return (0.5 * (new + new.T), qx + Qux.T @ k0), {"K": K, "k": k0}

    def barrier(dual, z, mu):
        """(stiffness, gradient) of the barrier of each bound: s, l are slack and multiplier of SIGN * z <= BOUND."""
        s, l = dual[: len(ENTRY)], dual[len(ENTRY) :]
        stiffness = 1.0 / (YIELD + s / l)
        violation = SIGN * z[ENTRY] - BOUND - YIELD * l + s
        return stiffness, l + stiffness * (violation + mu / l - s)

    def iteration(i, state):
        _, duals, mu, _ = state
        rows = {**qp, "dual": duals, "mu": cd.map_rows(lambda r: mu + 0.0 * r[0], duals)}
        (_, _), gains = cd.scan(backward, (HN[:NX, :NX] + 0.0 * P0, gN[:NX] + 0.0 * x0), rows, reverse=True)

        def forward(k, dx, row):
            du = row["K"] @ dx + row["k"]
            return row["A"] @ dx + row["B"] @ du + row["c"], np.concatenate([dx, du])

        dxN, target = cd.scan(forward, x0 - path[0], {"A": qp["A"], "B": qp["B"], "c": qp["c"], "K": gains["K"], "k": gains["k"]})

        def direction(k, alpha, row):
            z, new, dual = row["z"], row["target"], row["dual"]
            s, l = dual[: len(ENTRY)], dual[len(ENTRY) :]
            stiffness, shift = barrier(dual, z, mu)
            dl = shift - l + stiffness * SIGN * new[ENTRY]
            ds = (mu - s * l - s * dl) / l
            for value, change in zip([*s, *l], [*ds, *dl], strict=True):
                alpha = np.minimum(alpha, cd.where(change < 0.0, -0.995 * value / change, 1.0))
            return alpha, np.concatenate([ds, dl])

        alpha, steps = cd.scan(direction, 1.0 + 0.0 * mu, {"z": qp["z"], "target": target, "dual": duals})
        duals = cd.map_rows(lambda d, change: d + alpha * change, duals, steps)
        gap = cd.scan(lambda k, total, d: (total + d[: len(ENTRY)] @ d[len(ENTRY) :], None), 0.0 * mu, duals)[0] / (
            N * len(ENTRY)
        )
        return target, duals, np.maximum(0.1 * gap, 1e-9), dxN

    P0 = np.zeros((NX, NX)) + 0.0 * x0[0]
    start = cd.map_rows(lambda u: np.concatenate([np.full(len(ENTRY), 1.0), np.full(len(ENTRY), 1.0)]) + 0.0 * u[0], us)
    dz, _, mu, dxN = cd.loop(iteration, (cd.zeros_table((N, NX + NU)), start, 1.0 + 0.0 * x0[0], 0.0 * x0), iterations)
    new_u = cd.map_rows(lambda u, d: u + d[NX:], us, dz)
    new_x = cd.map_rows(lambda x, d: x + d[:NX], cd.table(path[:-1]), dz)
    return new_x, new_u, path[-1] + dxN, mu


if __name__ == "__main__":
    start = time.perf_counter()
    mpc = cd.function(solve, x0=NX, path=(N + 1, NX), controls=(N, NU), references=(N + 1, 11), weights=len(W))
    print(f"trace {time.perf_counter() - start:.1f} s")
