"""Tune the weights of a controller by gradient: the closed-loop cost of eight starts, differentiated through every solve.

A pole on a cart is balanced with a short horizon; its weights are tuned for the cost of two seconds of the motion, which the
horizon does not see. Other starts, which the tuning has not seen, tell whether it helped.
"""

import numpy as np

import condyle as cd


def rates(x, u):
    """dx/dt of a pole of 0.8 m and 0.1 kg on a cart of 1 kg; position, angle from upright, and their rates."""
    s, c, w = np.sin(x[1]), np.cos(x[1]), x[3]
    free = 1.1 - 0.1 * c * c
    a = (-0.08 * s * w * w + 0.981 * c * s + u[0]) / free
    return np.array([x[2], w, a, (-0.08 * c * s * w * w + u[0] * c + 10.791 * s) / (0.8 * free)])


problem = cd.ocp(
    rates,
    N=8,
    dt=0.05,
    x=4,
    u={"force": 1},
    residual=lambda x, u: np.concatenate([x, u]),
    weights=np.ones(5),
    terminal_residual=lambda x: x,
    terminal_weights=np.ones(4),
    bounds={"force": 10.0},
)
mpc = problem.sqp(tolerance=1e-9)
plant = cd.function(lambda x, u: problem.dynamics.step(x, u, {}, 0.05), x=4, u=1)
by_state, by_data = plant.jacobian("out", ("x", "u")), mpc.function.jacobian("u", ("x0", "weights", "terminal_weights"))
TRUE = np.array([1.0, 1.0, 0.1, 0.1, 0.01])  # the cost that counts


def closed_loop(starts, theta):
    """(cost of 40 ticks, its gradient by theta = log of all weights), the mean over the starts."""
    data = {"weights": np.exp(theta[:5]), "terminal_weights": np.exp(theta[5:])}
    x, plan, dx = starts, mpc.start(starts), np.zeros((len(starts), 4, 9))
    cost, gradient = 0.0, np.zeros(9)
    for _ in range(40):
        arrays = [plan[name] for name in mpc.plan_shapes]
        found = mpc(x, plan, **data)
        K, by_weights, by_end = by_data(x, *arrays, **data)
        du = K @ dx + np.concatenate([by_weights, by_end], axis=-1) * np.exp(theta)
        e = np.concatenate([x, found.u], axis=-1)
        cost += np.mean(np.sum(TRUE * e * e, axis=-1))
        gradient += np.mean(2.0 * np.einsum("ni,nij->nj", TRUE * e, np.concatenate([dx, du], axis=1)), axis=0)
        A, B = by_state(x, found.u)
        x, dx, plan = plant(x, found.u), A @ dx + B @ du, found.plan
    return cost, gradient


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    train, other = (rng.normal(size=(8, 4)) * [0.5, 0.2, 0.3, 0.3] for _ in range(2))
    theta = np.zeros(9)
    before = closed_loop(other, theta)[0]
    for k in range(30):
        cost, gradient = closed_loop(train, theta)
        theta = theta - 0.3 * gradient / np.linalg.norm(gradient) * 0.95**k
    h = 1e-4 * np.eye(9)[5]
    difference = (closed_loop(train, theta + h)[0] - closed_loop(train, theta - h)[0]) / 2e-4
    assert abs(closed_loop(train, theta)[1][5] - difference) < 1e-4 * (1.0 + abs(difference))
    after = closed_loop(other, theta)[0]
    print(f"closed-loop cost of other starts: {before:.2f} with equal weights, {after:.2f} with tuned ones")
    assert after < 0.9 * before
    print("checked: the gradient is right, and tuning helps where it was not done")
