"""A Python function over NumPy arrays, compiled: one state, a batch, the tape, and the same bits for both.

python examples/01_first_function.py
"""

import numpy as np

import condyle as cd


def spring(x, h):
    """One step of a mass on a spring: state x = (position, speed), time step h."""
    position, speed = x
    speed = speed - h * (4.0 * position + 0.1 * speed)
    return np.array([position + h * speed, speed])


# shapes are given by name: a vector of 2, and a single number
step = cd.function(spring, x=2, h=())
print(step)

# one state, and a thousand: leading axes are the batch, and h serves all of them
x = np.random.default_rng(1).normal(size=(1000, 2))
one, many = step(x[0], 0.01), step(x, 0.01)
print("one state:", one)

# what was recorded, and what is computed: sums of products became fma
print(step.tape)
print(step.source("tape"))
print(f"{step.operations} operations for each state")

# NumPy itself runs the same Python function, and rounds each product on its own
numpy = np.array([spring(row, 0.01) for row in x])
assert np.allclose(many, numpy, rtol=1e-14, atol=1e-16)
assert all((step(row, 0.01) == out).all() for row, out in zip(x, many, strict=True))
print("checked: each of 1000 states has the same bits alone as in the batch, and agrees with NumPy to rounding")
