"""Sensors, a PID controller and a motor around a pendulum in one kernel: 1,000 robots, and the same from Python.

python examples/17_closed_loop.py
"""

from time import perf_counter

import numpy as np

import condyle as cd

robot = cd.load("pendulum")
world = cd.Simulation(robot, dt=0.001)

# an IMU on the rod measures its rate at 1 kHz, noisy; the controller runs at 200 Hz; its command goes through a slow motor
imu = cd.blocks.IMU(robot.frame_names[-1], rate_noise=0.02, name="imu")
angle = cd.blocks.Encoders(robot.joint_names, position_noise=1e-3, name="encoder")
pid = cd.blocks.PID(1, kp=15.0, ki=20.0, every=5, name="pid")
motor = cd.blocks.LowPass(1, 50.0, name="motor")


def control(x, target):
    """The torque of the motor."""
    return motor(pid(target, angle(x)["position"]) - 3.0 * imu(x)["rate"][1])


loop = cd.Loop(world, control, target=1)
print(loop)

# 1,000 robots, 4 s each, in one call: no value of a mass compiles anything
count, steps = 1000, 4000
masses = np.random.default_rng(1).uniform(0.5, 1.5, count) * robot.mass
rod = robot.model.links[-1].name
start = np.repeat(loop.state()[None], count, axis=0)
loop.rollout(start[:8], [0.5], 10, parameters={f"{rod}.mass": masses[:8]}, record=["q"])  # compile
clock = perf_counter()
out = loop.rollout(start, [0.5], steps, seed=7, parameters={f"{rod}.mass": masses}, record=["q"])
seconds = perf_counter() - clock
end = out["q"][:, -1]
print(f"{count * steps / seconds / 1e6:.1f} million ticks a second; final angles {end.min():.3f} to {end.max():.3f} rad")

# a controller that is Python code, or another process, takes part through loop.step: here it moves the target of robot 3
x = loop.state()
targets = []
for _ in range(300):
    targets.append([0.5 if x[0] < 0.4 else 0.45])  # any code: it reads the state, and gives the references of the next tick
    x = loop.step(x, targets[-1], seed=7, robots=3)
again = loop.rollout(loop.state(), np.array(targets), seed=7, robots=3, record=["q"])

# a check of what is claimed
assert np.abs(end - 0.5).max() < 0.05
assert np.array_equal(x, again.x), "the same bits, from Python and in the kernel"
one = loop.rollout(loop.state(), [0.5], 300, seed=7, robots=3, parameters={f"{rod}.mass": masses[3]}, record=["q"])
assert np.array_equal(one["q"], out["q"][3, :300]), "and alone or among a thousand"
print("checked: every robot reaches its target, and Python, kernel and batch have the same bits")
