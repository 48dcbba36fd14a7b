"""Identify an arm: record a motion that shows every parameter, and find masses, inertias and friction with their intervals.

python examples/25_identify_an_arm.py
"""

import numpy as np

import condyle as cd
from condyle.methods.identify import Log, excitation, fit_simulation, identify

nominal = cd.load("ur3")
READY = [0.0, -np.pi / 2, np.pi / 2, -np.pi / 2, 0.0, 0.0]

# 1. a motion within the limits that makes the equations well conditioned
motion = excitation(nominal, centre=READY, reach=1.5, acceleration=6.0, iterations=60, starts=3)
print(f"{motion.periods} periods of {motion.period:g} s, condition number {motion.condition:.1f}")

# 2. the robot whose numbers nobody knows: heavier upper arm, a tool on the last wrist, and dry friction
hidden = {"lift.mass": 4.2, "elbow.mass": 1.5, "wrist_3.mass": 0.6, "wrist_3.com": np.array([0.0, 0.05, 0.01])}
hidden |= {f"{joint}.friction": f for joint, f in zip(nominal.joint_names, (0.8, 1.0, 0.5, 0.2, 0.15, 0.1), strict=True)}
hidden |= {f"{joint}.damping": f for joint, f in zip(nominal.joint_names, (0.9, 0.7, 0.4, 0.2, 0.1, 0.1), strict=True)}

KP, KD = np.array([400.0, 400.0, 200.0, 40.0, 30.0, 20.0]), np.array([20.0, 20.0, 10.0, 1.0, 0.6, 0.3])
world = cd.Simulation(nominal, dt=0.001)


def control(x):
    goal = motion.at(x.tick * 0.001)
    return nominal.inverse_dynamics(*goal) + KP * (goal.position - x.q) + KD * (goal.velocity - x.v)


loop = cd.Loop(world, control)
with cd.Recorder(loop, loop.state(motion.start), parameters=hidden) as recorder:
    recorder.rollout(None, 20_000)
run = recorder.run

# 3. what sensors make of it: an encoder of 18 bits, and noise in the measured forces
rng = np.random.default_rng(0)
q = run.q[:-1] + 2e-5 * rng.normal(size=run.u.shape)
tau = run.u + np.array([0.3, 0.3, 0.2, 0.05, 0.03, 0.02]) * rng.normal(size=run.u.shape)
log = Log.of(nominal, run.t[:-1], q, tau)

# 4. least squares, with intervals, and a robot with the numbers
found = identify(nominal, log)
k = found.names.index("wrist_3.mcz")
low, high = found.intervals[k]
print(f"{found.names[k]} is in [{low:.5f}, {high:.5f}] kg m, truly {0.6 * 0.01:.5f}")
assert found.prediction is not None
print(f"joint forces: error {found.prediction.total:.2%} of their size, {found.prediction.total_nominal:.1%} before")
better = found.robot

# 5. through the simulation: single parameters, from measured positions and commanded forces
driven = cd.Loop(world, lambda x, u: u, u=6)
known = {name: value for name, value in hidden.items() if name not in ("wrist_3.mass", "wrist_3_joint.friction")}
short = Log.of(nominal, log.t[:4000], q[:4000], run.u[:4000])
fit = fit_simulation(driven, short, ["wrist_3.mass", "wrist_3_joint.friction"], parameters=known)
print(fit)

# a check of what is claimed
assert low < 0.006 < high
true = {"pan_joint.friction": 0.8, "elbow_joint.damping": 0.4}
assert all(abs(found.parameters[name] - value) < 0.03 * value for name, value in true.items())
assert found.prediction.total < 0.01
torque = better.gravity_forces(np.array(READY))[1] / nominal.gravity_forces(np.array(READY))[1]
assert 1.1 < torque < 1.3, "the identified arm is heavier"
assert abs(fit.values["wrist_3.mass"] - 0.6) < 0.01 and abs(fit.values["wrist_3_joint.friction"] - 0.1) < 0.005
print("checked: friction within 3 %, the tool's mass within 10 g")
