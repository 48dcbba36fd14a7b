"""Ten thousand quadrupeds thrown into the air: one call per step for all of them, and momentum stays what physics says.

python examples/07_dynamics_in_batches.py
"""

from time import perf_counter

import numpy as np

import condyle as cd

COUNT, STEPS, H = 10_000, 20, 1e-4

dog = cd.load("pidog")
rng = np.random.default_rng(0)
q = dog.random_configuration(rng, COUNT)
v = rng.normal(size=(COUNT, dog.nv))
tau = np.concatenate([np.zeros((COUNT, 6)), 0.02 * rng.normal(size=(COUNT, dog.nv - 6))], axis=1)  # motors in the joints only

before = dog.momentum(q, v)
start = q.copy(), v.copy()
begin = perf_counter()
for _ in range(STEPS):
    # explicit midpoint
    a = dog.forward_dynamics(q, v, tau)
    q_half, v_half = dog.integrate(q, 0.5 * H * v), v + 0.5 * H * a
    a = dog.forward_dynamics(q_half, v_half, tau)
    q, v = dog.integrate(q, H * v_half), v + H * a
seconds = perf_counter() - begin
print(f"{COUNT:,} robots, {STEPS} steps in {seconds:.2f} s: {COUNT * STEPS / seconds:,.0f} steps/s")

# whatever the motors do: gravity alone changes the momentum, and only the linear one
fallen = np.array([0.0, 0.0, -9.81 * dog.mass * STEPS * H, 0.0, 0.0, 0.0])
error = np.abs(dog.momentum(q, v) - before - fallen).max() / np.abs(before).max()
print(f"momentum is off by {error:.1e} of its largest entry")
assert error < 1e-4

# robot 1234 alone goes exactly the way it went in the crowd
q1, v1, tau1 = start[0][1234], start[1][1234], tau[1234]
for _ in range(STEPS):
    a = dog.forward_dynamics(q1, v1, tau1)
    q_half, v_half = dog.integrate(q1, 0.5 * H * v1), v1 + 0.5 * H * a
    a = dog.forward_dynamics(q_half, v_half, tau1)
    q1, v1 = dog.integrate(q1, H * v_half), v1 + H * a
assert (q1 == q[1234]).all() and (v1 == v[1234]).all()
print("checked: momentum changes by gravity alone, and one robot alone has the bits it has among ten thousand")
