"""A gripper whose second finger follows the first, as a mimic joint does, and what holds it there.

python examples/13_coupled_gripper.py
"""

import numpy as np

import condyle as cd
from condyle.robot.description import Description
from condyle.robot.parts import X, body, frame, joint, link, pose

LEFT, RIGHT, MOTOR = 0.2, 0.3, 5.0  # kg, kg, N
fingers = {"left": (LEFT, 0.05), "right": (RIGHT, -0.05)}
links = (link("palm"), *(link(name, body(mass)) for name, (mass, _) in fingers.items()))
joints = tuple(joint(name, "prismatic", "palm", name, pose((at, 0.0, 0.0)), X) for name, (_, at) in fingers.items())
frames = tuple(frame(f"{name}_tip", name) for name in fingers)
free = cd.load(Description("gripper", links, joints, frames), gravity=(0.0, 0.0, 0.0))

gripper = free.couple("right", "left", ratio=-1.0)  # q[right] = -q[left]; a file's <mimic> does the same when it is loaded
print(gripper)

# one motor, in the left finger, moves both
y, w = np.zeros(1), np.zeros(1)
a = gripper.forward_dynamics(y, w, gripper.reduce_forces(y, [MOTOR, 0.0]))
coupling = float(gripper.reactions(y, w, [MOTOR, 0.0])["right"])
print(f"the motor's {MOTOR:g} N accelerate both fingers at {a[0]:.3f} m/s^2; the coupling carries {coupling:g} N")

# both tips are pushed outwards by what they hold: the motor feels the sum
grip = {"left_tip": [8.0, 0, 0, 0, 0, 0], "right_tip": [-8.0, 0, 0, 0, 0, 0]}
needed = gripper.inverse_dynamics(y, w, np.zeros(1), grip)
print(f"to hold 8 N at either tip the motor needs {needed[0]:.1f} N")

# in time: the fingers close by 2 cm and stop where a spring balances the motor
world = cd.Simulation(gripper, dt=0.001, actuated=["left"], springs={"left": (250.0, 0.0)}, force=lambda model, q, v: -20.0 * v)
xs = world.rollout(world.state(), np.full((2000, 1), -MOTOR))
q, v = gripper.lift(*world.split(xs))
print(f"after 2 s: left {1e3 * q[-1, 0]:.3f} mm, right {1e3 * q[-1, 1]:.3f} mm, fastest {np.abs(v).max():.3f} m/s")

# a check of what is claimed
assert abs(a[0] - MOTOR / (LEFT + RIGHT)) < 1e-12
assert abs(coupling + RIGHT * a[0]) < 1e-12  # the coupling is what moves the right finger
assert abs(needed[0] + 16.0) < 1e-12
assert (q[:, 1] == -q[:, 0]).all() and abs(q[-1, 0] + MOTOR / 250.0) < 1e-6
print("checked: one motor moves both fingers exactly alike, and the coupling's force is what the second finger needs")
