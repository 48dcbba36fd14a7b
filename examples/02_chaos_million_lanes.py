"""The Lorenz system on a million lanes: chaos forgives no bit, and none is wrong.

python examples/02_chaos_million_lanes.py
"""

from time import perf_counter

import numpy as np

import condyle as cd

STEPS, H = 400, 0.01


def derivative(p):
    """The Lorenz equations, sigma = 10, rho = 28, beta = 8/3."""
    x, y, z = p
    return np.array([10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z])


def step(i, p):
    """One Runge-Kutta step."""
    k1 = derivative(p)
    k2 = derivative(p + 0.5 * H * k1)
    k3 = derivative(p + 0.5 * H * k2)
    k4 = derivative(p + H * k3)
    return p + H / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


# the loop stays a loop: its body is recorded once
lorenz = cd.function(lambda p: cd.loop(step, p, STEPS), p=3)

starts = np.random.default_rng(2).uniform([-20, -20, 5], [20, 20, 45], size=(1_000_000, 3))
lorenz(starts[0])  # compile first
start = perf_counter()
ends = lorenz(starts)
seconds = perf_counter() - start
print(f"{len(starts):,} states, {STEPS} steps, {lorenz.operations:,} operations each: {seconds:.2f} s")
print(f"{len(starts) * lorenz.operations / seconds / 1e9:.1f} billion operations per second")

# ten times as long: two starts that differ in the last bit are far apart at the end; two lane widths are not
longer = cd.function(lambda p: cd.loop(step, p, 10 * STEPS), p=3)
few = starts[:1001]
far = longer(few)
apart = np.linalg.norm(longer(np.nextafter(few, np.inf)) - far, axis=1)
print(f"after {10 * STEPS} steps, starts one bit apart are {np.median(apart):.1f} apart (median)")

for lanes in (1, 2, 4):
    assert (longer.on("cpu", lanes=lanes, threads=1)(few) == far).all()
    assert (lorenz.on("cpu", lanes=lanes)(few) == ends[:1001]).all()
assert (lorenz.on("reference")(starts[:2]) == ends[:2]).all()
print("checked: lane widths 1, 2 and 4, and plain Python, end in the same bits as the million")
