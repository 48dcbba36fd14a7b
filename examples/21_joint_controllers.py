"""Seven controllers of one arm, with a load in its hand that none of them knows: errors, adaptation, and stored energy.

python examples/21_joint_controllers.py
"""

from dataclasses import replace

import numpy as np

import condyle as cd
from condyle.methods.control.adaptive import AdaptiveControl, PassivityControl
from condyle.methods.control.joint_control import ComputedTorque, JointImpedance, JointPID
from condyle.methods.control.lqr_control import LQRControl, TimeVaryingLQR
from condyle.methods.control.passivity import EnergyMeter
from condyle.methods.planning.profiles import Sample, quintic
from condyle.robot.spatial import Inertia

READY = np.array([0.0, -np.pi / 2, np.pi / 2, -np.pi / 2, 0.0, 0.0])
known = cd.load("ur3")
load = Inertia.about_com(0.5, np.array([0.0, 0.12, 0.0]), 5e-4 * np.eye(3))  # kg, m, kg m^2: a ball at the tool
links = [replace(k, inertia=k.inertia + load) if k.name == "wrist_3" else k for k in known.model.links]
loaded = cd.Robot(replace(known.model, links=tuple(links)))
world = cd.Simulation(loaded, dt=0.001)

# there and back, again and again
out, back = quintic(READY, READY + 0.6, 1.5), quintic(READY + 0.6, READY, 1.5)


def motion(t):
    """The reference at time t: two moves of 1.5 s, repeated."""
    t = t - 3.0 * np.floor(t / 3.0)
    first, second = out.at(t), back.at(t - 1.5)
    return Sample(*(cd.where(t < 1.5, a, b) for a, b in zip(first, second, strict=True)))


CONTROLLERS = {
    "PID": JointPID(world, model=known, ki=50.0),
    "computed torque": ComputedTorque(world, model=known),
    "impedance": JointImpedance(world, model=known),
    "passivity-based": PassivityControl(world, model=known),
    "adaptive": AdaptiveControl(world, model=known),
    "LQR": LQRControl(world, READY, model=known),
    "time-varying LQR": TimeVaryingLQR(world, out, model=known),
}
t = 0.001 * np.arange(1, 15001)
target = np.tile(np.concatenate([move.at(t[:1500]).position for move in (out, back)]), (5, 1))
errors = {}


def following(controller):
    """The function of a loop: a controller along the motion."""
    return lambda x: controller(x, motion(x.t))


for name, controller in CONTROLLERS.items():
    loop = cd.Loop(world, following(controller))
    q = loop.rollout(loop.state(READY), steps=15000, record=["q"])["q"]
    e = np.abs(q - target).max(axis=1)
    errors[name] = e[:3000].max(), e[-3000:].max()
    print(f"{name:17} largest error: {errors[name][0]:.4f} rad in the first 3 s, {errors[name][1]:.4f} rad in the last 3 s")

# how much energy a push leaves in the compliant arm: never more than it put in
bare = cd.Simulation(known, dt=0.00025)
spring, meter = JointImpedance(bare), EnergyMeter(6, name="meter")
push, rest = cd.blocks.WrenchPulse("tool", [25.0, -10.0, 15.0, 0.0, 1.0, 0.0], 0.01, 0.08), Sample(READY, 0.0, 0.0)


def pushed(x):
    """Impedance control of an arm that is pushed, and what the push does."""
    wrench = push(x)
    force = known.jacobian(x.q, "tool").T @ wrench["wrenches"]["tool"]
    return {"u": spring(x, rest), **wrench, **meter(spring.energy(x.q, x.v, rest), force, x.v)}


loop = cd.Loop(bare, pushed)
energy = loop.rollout(loop.state(READY), steps=4000, record=["stored", "supplied", "gain"])
put_in, gain = energy["supplied"].max(), energy["gain"][-1]
print(f"a push puts {put_in:.2f} J in, of which {energy['stored'][-1]:.0e} J are left after 1 s")

# a check of what is claimed
first, last = errors["adaptive"]
assert last < 0.3 * first and last < 0.5 * errors["passivity-based"][1]
assert errors["PID"][1] < errors["computed torque"][1]
assert 0.0 <= gain < 1e-6 * put_in and energy["stored"][-1] < 1e-3 * put_in
print("checked: adaptation follows with an unknown load, and the compliant arm stores no more than it is given")
