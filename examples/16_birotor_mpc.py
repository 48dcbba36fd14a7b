"""Nonlinear model-predictive control of the birotor in one kernel: multiple shooting, Gauss-Newton, Riccati interior point.

The model is the controller's single body with two tilting rotors: 15 states (position, velocity, quaternion, body rate, two
gimbal angles), 4 controls (two thrusts, two gimbal commands). Thrusts, commands and angles have hard bounds, velocity and rate
soft ones. One call makes one real-time iteration: it linearises the dynamics along the last trajectory and solves the quadratic
program, from the slacks and multipliers of the call before.
"""

import numpy as np

import condyle as cd

N, DT, NX, NU = 20, 0.1, 15, 4
MASS, INERTIA, GRAVITY = 1.444422, np.array([0.055430, 0.017874, 0.067852]), 9.798
ARMS, SPINS, DRAG, T_SERVO = np.array([[0.0, 0.2375, 0.12098], [0.0, -0.2375, 0.12098]]), (1.0, -1.0), 0.0172, 0.15858
HOVER = MASS * GRAVITY / 2.0
# weights: position, velocity, error quaternion, rate, angle; thrust, command less angle
WEIGHTS = np.array([300, 300, 400, 10, 10, 10, 300, 300, 600, 5, 5, 5, 1, 1, 1, 1, 250, 250.0])
# bounds SIGN * (x, u)[ENTRY] <= BOUND: velocity, rate, angle, thrust, command, upper and lower; the soft ones YIELD
HIGH = np.array([1, 1, 1, 6, 6, 6, 1.5708, 1.5708, 18, 18, 1.5708, 1.5708])
ENTRY, SIGN = np.tile([3, 4, 5, 10, 11, 12, 13, 14, 15, 16, 17, 18], 2), np.repeat([1.0, -1.0], 12)
BOUND = np.concatenate([HIGH, np.where(HIGH == 18, 0.0, HIGH)])
YIELD = np.tile(np.repeat([1.0 / 2000.0, 0.0], 6), 2)
NB, LOWER = len(ENTRY), np.tril_indices(NX)
CONJUGATE = np.array([1.0, -1.0, -1.0, -1.0])


def product(p, q):
    """The product of two quaternions (w, x, y, z)."""
    a, b, c, d = p
    return np.array([[a, -b, -c, -d], [b, a, -d, c], [c, d, a, -b], [d, -c, b, a]]) @ q


def derivative(x, u):
    """dx/dt of the single-body model."""
    v, q, w, angle = x[3:6], x[6:10], x[10:13], x[13:15]
    force, torque = np.zeros(3), np.zeros(3)
    for i in range(2):
        side = np.sign(ARMS[i, 1])  # the arm points along +-y, and the rotor tilts about it
        f = u[i] * np.array([side * np.sin(angle[i]), 0.0, np.cos(angle[i])])
        force = force + f
        torque = torque + np.cross(ARMS[i], f) - SPINS[i] * DRAG * f
    turned = product(product(q, np.array([0.0, *force])), q * CONJUGATE)[1:]
    acceleration = turned / MASS - np.array([0.0, 0.0, GRAVITY])
    rate = (torque - np.cross(w, INERTIA * w)) / INERTIA
    return np.concatenate([v, acceleration, 0.5 * product(q, np.array([0.0, *w])), rate, (u[2:] - angle) / T_SERVO])


def step(x, u):
    """The state after one interval of the horizon, by the classical Runge-Kutta method."""

    def stage(_, state, row):
        at, total = state
        k = derivative(at, u)
        return (x + row[0] * k, total + row[1] * k), None

    return cd.scan(stage, (x, x), DT * np.array([[1 / 2, 1 / 6], [1 / 2, 1 / 3], [1, 1 / 3], [0, 1 / 6]]))[0][1]


def residual(x, u, reference):
    """The errors that the weights square; a reference is position, velocity, quaternion, thrust."""
    error = product(reference[6:10] * CONJUGATE, x[6:10])[1:]
    return np.concatenate([x[:6] - reference[:6], error, x[10:15], u[:2] - reference[10], u[2:] - x[13:15]])


def cost(x, u, reference, weights):
    """(gradient, Hessian) of the cost of a stage by (x, u), Gauss-Newton."""
    r, rx, ru = cd.linearize(lambda x, u: residual(x, u, reference), x, u)
    J = np.concatenate([rx, ru], axis=1)
    return J.T @ (weights * r), J.T @ (weights[:, None] * J)


def barrier(dual, z, mu):
    """(stiffness, force) of the barrier of each bound, from its slack and multiplier."""
    s, multiplier = dual[:NB], dual[NB:]
    stiffness = 1.0 / (YIELD + s / multiplier)
    violation = SIGN * z[ENTRY] - BOUND - YIELD * multiplier + mu / multiplier
    return stiffness, multiplier + stiffness * violation


def symmetric(lower):
    """A symmetric matrix from the entries of its lower triangle."""
    matrix = np.empty((NX, NX), dtype=object)
    matrix[LOWER] = matrix.T[LOWER] = lower
    return cd.array(matrix)


def complementarity(duals):
    """A tenth of the mean product of slacks and multipliers: where the next iteration aims."""
    total = cd.scan(lambda k, total, dual: (total + dual[:NB] @ dual[NB:], None), 0.0, duals)[0]
    return np.maximum(0.1 * total / (N * NB), 1e-9)


def solve(x0, path, controls, duals, references, weights, iterations=6):
    """(states, controls, slacks and multipliers, complementarity) after one real-time iteration from a trajectory."""
    xs, us, last = cd.table(path[:N]), cd.table(controls), path[N]

    def stage(k, _, row):
        x, u, following, reference = row
        after, A, B = cd.linearize(step, x, u)
        g, H = cost(x, u, reference, weights)
        return _, {"A": A, "B": B, "c": after - following, "g": g, "H": H, "z": np.concatenate([x, u])}

    _, qp = cd.scan(stage, (), (xs, us, cd.table(path[1:]), cd.table(references[:N])))
    end_g, end_H = cost(last, np.array([references[N][10]] * 2 + [last[13], last[14]]), references[N], weights)

    def iteration(i, state):
        _, duals, mu, _ = state

        def backward(k, state, row):
            P, p = state
            H, g, AB = row["H"].copy(), row["g"].copy(), np.column_stack([row["A"], row["B"]])
            for b, (stiffness, force) in enumerate(zip(*barrier(row["dual"], row["z"], mu), strict=True)):
                H[ENTRY[b], ENTRY[b]], g[ENTRY[b]] = H[ENTRY[b], ENTRY[b]] + stiffness, g[ENTRY[b]] + SIGN[b] * force
            # the columns of P [A B c], then of [A B]' P [A B c]: independent of each other, so that one state fills a vector
            columns = cd.table(np.column_stack([AB, row["c"]]).T)
            products = cd.map_rows(lambda column: AB.T @ (symmetric(P) @ column), columns)[:]
            g = g + products[-1] + AB.T @ p
            Qux, Quu = H[NX:, :NX] + products[:NX, NX:].T, H[NX:, NX:] + products[NX:-1, NX:].T
            gains = -cd.linalg.cholesky_solve(cd.linalg.cholesky(Quu), np.column_stack([Qux, g[NX:]]))
            K, k0 = gains[:, :NX], gains[:, NX]
            lower = [H[i, j] + products[j, i] + Qux[:, i] @ K[:, j] for i in range(NX) for j in range(i + 1)]
            return (cd.array(lower), g[:NX] + Qux.T @ k0), {"K": K, "k": k0}

        _, gains = cd.scan(backward, (end_H[LOWER], end_g[:NX]), {**qp, "dual": duals}, reverse=True)

        def forward(k, dx, row):
            du = row["K"] @ dx + row["k"]
            return row["A"] @ dx + row["B"] @ du + row["c"], np.concatenate([dx, du])

        end, target = cd.scan(forward, x0 - path[0], {**qp, **gains})

        def direction(k, alpha, row):
            s, multiplier = row["dual"][:NB], row["dual"][NB:]
            stiffness, force = barrier(row["dual"], row["z"], mu)
            dm = force - multiplier + stiffness * SIGN * row["target"][ENTRY]
            change = np.concatenate([(mu - s * multiplier - s * dm) / multiplier, dm])
            for value, d in zip(row["dual"], change, strict=True):
                alpha = np.minimum(alpha, cd.where(d < 0.0, -0.995 * value / d, 1.0))
            return alpha, change

        alpha, changes = cd.scan(direction, 1.0, {"z": qp["z"], "target": target, "dual": duals})
        duals = cd.map_rows(lambda dual, change: dual + alpha * change, duals, changes)
        return target, duals, complementarity(duals), end

    duals = cd.table(duals)
    state = cd.zeros_table((N, NX + NU)), duals, complementarity(duals), np.zeros(NX)
    target, duals, mu, end = cd.loop(iteration, state, iterations)
    states = cd.map_rows(lambda x, d: x + d[:NX], xs, target)
    return {
        "states": states,
        "last": last + end,
        "controls": cd.map_rows(lambda u, d: u + d[NX:], us, target),
        "duals": duals,
        "mu": mu,
    }


SHAPES = {"x0": NX, "path": (N + 1, NX), "controls": (N, NU), "duals": (N, 2 * NB), "references": (N + 1, 11), "weights": 18}

if __name__ == "__main__":
    mpc, plant = cd.function(solve, **SHAPES), cd.function(step, x=NX, u=NU)
    x = np.array([0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0.0])
    target = np.array([0.3, 0.6, 1.0, 0, 0, 0, 1, 0, 0, 0, HOVER])
    path, controls, duals = np.tile(x, (N + 1, 1)), np.tile([HOVER, HOVER, 0.0, 0.0], (N, 1)), np.ones((N, 2 * NB))
    for _ in range(60):
        found = mpc(x, path, controls, duals, np.tile(target, (N + 1, 1)), WEIGHTS)
        x = plant(x, found.controls[0])
        path = np.vstack([found.states[1:], found.last, found.last])
        controls, duals = np.vstack([found.controls[1:], found.controls[-1:]]), found.duals
    print(f"position after 6 s: {x[:3].round(4)}; gimbals {x[13:].round(4)}; thrusts {found.controls[0, :2].round(3)}")
    assert np.abs(x[:3] - target[:3]).max() < 1e-3
    print("checked: it reaches the target")
