"""A pendulum on one wheel rolls without slipping, and a regulator balances it by the wheel's motor.

python examples/11_rolling.py
"""

import numpy as np

import condyle as cd
from condyle.methods.control.lqr import dlqr

RADIUS, LENGTH = 0.04, 0.2
free = cd.load("wheeled_pendulum")  # q = (x, z, phi, theta), free to fly
robot = free.roll("axle", RADIUS)  # y = (x, phi): z and theta follow
print(robot)

# the regulator: exact derivatives of one step at rest upright
world = cd.Simulation(robot, dt=0.001, integrator="rk4", actuated=["axle"])
upright = world.state()
_, A, B = world.step(upright, [0.0], derivatives=True)
K, _ = dlqr(A, B, np.diag([10.0, 10.0, 1.0, 0.1]), [[10.0]])
pole = np.log(np.abs(np.linalg.eigvals(A)).max()) / world.dt
print(f"left alone it falls with exp({pole:.4f} t); the gains are {np.round(K[0], 3)}")

# let go at 0.25 rad
xs, us = [world.state([LENGTH * np.sin(0.25), 0.25])], []
for _ in range(4000):
    us.append(np.clip(-K @ xs[-1], -0.5, 0.5))
    xs.append(world.step(xs[-1], us[-1]))
xs, us = np.array(xs), np.array(us)
y, w = world.split(xs)

# all coordinates, and what the ground must do
q, v = robot.lift(y, w)
center = free.frame_pose(q, "center")[1]
spin = free.jacobian(q, "center") @ v[..., None]
slip = spin[:, 0, 0] - RADIUS * spin[:, 4, 0]
tau = np.zeros((len(us), free.nv))
tau[:, 3] = us[:, 0]
ground = robot.reactions(y[:-1], w[:-1], tau)
needed = np.abs(ground["axle.forward"] / ground["axle.normal"]).max()
print(f"after 4 s: {1e3 * xs[-1, 0]:.3f} mm from its place, {1e3 * xs[-1, 1]:.3f} mrad from upright")
print(f"peak torque {np.abs(us).max():.3f} N m; below a friction coefficient of {needed:.3f} the wheel would have slipped")

# what the motor did is what the energy gained
work = (us[:, 0] * np.diff(q[:, 3])).sum()
gained = world.energy(xs[-1]) - world.energy(xs[0])

# a check of what is claimed
assert abs(pole - 8.2867) < 5e-5
assert np.abs(center[:, 2] - RADIUS).max() < 1e-15 and np.abs(slip).max() < 1e-14
assert np.abs(xs[-1]).max() < 1e-3 and needed < 0.8
assert abs(work - gained) < 1e-9
print("checked: it balances, the wheel stays on the ground and does not slip, and the motor's work is the energy gained")
