"""A four-limbed robot is dropped, stands on its feet, and takes a push: contact, friction and a controller in one loop.

python examples/09_stand_and_be_pushed.py
"""

import numpy as np

import condyle as cd

robot = cd.load("fourlimb", base="planar").lock("roll_")
world = cd.Simulation(robot, dt=0.001, ground=cd.Plane(friction=0.8), contacts="foot_*", wrenches=["torso"])
print(world)

# knees bent, feet below the hips, a few centimetres above the ground
pose = np.zeros(robot.nq)
for name in robot.joint_names:
    bend = {"pitch_1": 0.4, "pitch_2": -0.8, "pitch_3": 0.4}.get(name[:7])
    if bend is not None:
        pose[robot.q_slice(name)] = bend
pose[robot.q_slice("root_z")] = 0.70
x = world.state(pose)


def hold(x):
    """A spring and a damper in every joint."""
    q, v = world.split(x)
    return 1500.0 * (pose - q)[3:] - 30.0 * v[3:]


def run(x, seconds, push=0.0):
    for _ in range(round(seconds / world.dt)):
        x = world.step(x, hold(x), wrenches=[[push, 0.0, 0.0, 0.0, 0.0, 0.0]])
    return x


x = run(x, 4.0)
standing = world.contact_forces(x, hold(x))[:, 2].sum()
print(f"standing: {standing:.3f} N on four feet, the weight is {robot.mass * 9.81:.3f} N, residual {world.status.residual:.0e}")

pushed = run(x, 0.2, push=100.0)
after = run(pushed, 2.0)
moved = np.abs(world.split(after)[0] - world.split(x)[0])[:2]
print(f"after a push of 100 N for 0.2 s it stands {1000 * moved[0]:.2f} mm away, {1000 * moved[1]:.2f} mm lower or higher")

# a check of what is claimed
assert abs(standing - robot.mass * 9.81) < 1.0
assert np.abs(world.split(after)[1]).max() < 0.05
assert moved.max() < 0.1
print("checked: the ground carries the weight, and after the push the robot stands again")
