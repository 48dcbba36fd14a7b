"""How hard to push a box so that it slides exactly one metre: Newton's method on a rollout, with derivatives through friction.

python examples/10_derivatives_through_contact.py
"""

import numpy as np

import condyle as cd
from condyle.robot.description import Description
from condyle.robot.parts import box, link, solid

shape = box((0.2, 0.2, 0.1))
robot = cd.load(Description("box", (link("box", solid(1.0, shape), [], [shape]),), ()), base="free")
world = cd.Simulation(robot, dt=0.001, ground=cd.Plane(friction=0.5), contacts="collisions")

# resting on the ground, one millimetre deep
rest = world.state([0.0, 0.0, 0.049, 0.0, 0.0, 0.0, 1.0])
target, steps = 1.0, 1200
controls = np.zeros((steps, world.nu))

speed = 2.5
for _ in range(8):
    start = rest.copy()
    start[robot.nq] = speed
    xs, As, _ = world.rollout(start, controls, derivatives=True)
    # how far it slides, and how that depends on the speed at the start: the chain of all steps
    change = np.zeros(world.ndx)
    change[robot.nv] = 1.0
    for A in As:
        change = A @ change
    miss = xs[-1, 0] - target
    print(f"speed {speed:.9f} m/s: slides {xs[-1, 0]:.9f} m, d(distance)/d(speed) {change[0]:.6f} s")
    if abs(miss) < 1e-10:
        break
    speed -= miss / change[0]

expected = np.sqrt(2.0 * 0.5 * 9.81 * target)
print(f"Coulomb's law says sqrt(2 mu g d) = {expected:.6f} m/s")

# a check of what is claimed
assert abs(miss) < 1e-10
assert abs(speed / expected - 1.0) < 0.02
print("checked: the distance to 1e-10 m, and the speed against Coulomb's law")
