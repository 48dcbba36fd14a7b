"""Derivatives through a loop: aim a throw with air drag by Newton's method.

python examples/03_derivatives.py
"""

import gmpy2
import numpy as np

import condyle as cd

STEPS = 200


def throw(velocity, seconds):
    """Where a ball thrown from the origin is after `seconds`: gravity, and drag that grows with the square of the speed."""
    h = seconds / STEPS

    def step(i, state):
        p, v = state
        a = np.array([0.0, -9.81]) - 0.02 * np.sqrt(v @ v) * v
        v = v + h * a
        return p + h * v, v

    p, _ = cd.loop(step, (0.0 * velocity, velocity), STEPS)
    return p


flight = cd.function(throw, velocity=2, seconds=())
aim = flight.jacobian(wrt="velocity")  # 2 x 2: how the end moves with the start

# a hundred targets at once: each lane solves its own
targets = np.random.default_rng(3).uniform([10.0, 0.0], [25.0, 8.0], size=(100, 2))
velocity = targets / 1.5 + [0.0, 8.0]
for _ in range(8):
    miss = flight(velocity, 1.5) - targets
    velocity = velocity - np.linalg.solve(aim(velocity, 1.5), miss[..., None])[..., 0]
print("largest miss:", abs(flight(velocity, 1.5) - targets).max(), "m")

# the same tape in 256 bits, and its difference quotient with a step of 2^-80
with gmpy2.context(precision=256):
    v, h = np.array([gmpy2.mpfr(entry) for entry in velocity[0]]), 2.0**-80
    exact = flight.on("mpfr:256")
    columns = [(exact(v + h * d, 1.5) - exact(v - h * d, 1.5)) / (2 * h) for d in np.eye(2, dtype=int)]
quotient = np.stack(columns, axis=1).astype(float)
error = abs(aim(velocity[0], 1.5) - quotient).max()
print("the derivative differs from a difference quotient in 256 bits by", error)
assert error < 1e-14

# the gradient of a cost, backward through the loop
cost = cd.function(lambda velocity, target: ((throw(velocity, 1.5) - target) ** 2).sum(), velocity=2, target=2)
gradient = cost.vjp(wrt="velocity")(velocity + 0.1, targets, 1.0)
forward = cost.jacobian(wrt="velocity", mode="forward")(velocity + 0.1, targets)
assert np.allclose(gradient, forward, rtol=1e-12)
assert abs(flight(velocity, 1.5) - targets).max() < 1e-12
print("checked: 100 throws hit their targets to 1e-12 m, and forward and reverse derivatives agree to 1e-12")
