"""Computed torque against damping and dry friction: an arm follows its plan to 1e-4 rad, and what a linearisation at rest says.

python examples/18_computed_torque.py
"""

from dataclasses import replace

import numpy as np

import condyle as cd
from condyle.apps.demos import arm
from condyle.robot.library import ur3

# the arm with gears: 1 N m of dry friction in the shoulder, 0.05 in the last wrist, and half as much damping
written, dry = ur3.description(), (1.0, 1.0, 0.5, 0.2, 0.2, 0.05)
joints = [replace(joint, damping=0.5 * f, friction=f) for joint, f in zip(written.joints, dry, strict=True)]
robot = cd.load(replace(written, joints=tuple(joints)))
world, plan = cd.Simulation(robot, 0.002), arm.trajectory()
KP, KD = 2500.0, 100.0  # 1/s^2 and 1/s: errors decay within 20 ms


def largest_error(passive):
    """The largest angle between plan and arm; `passive`: whether the torque makes up for the forces in the joints."""

    def control(x, q_ref, v_ref, a_ref):
        return robot.inverse_dynamics(x.q, x.v, a_ref + KP * (q_ref - x.q) + KD * (v_ref - x.v), passive=passive)

    loop = cd.Loop(world, control, q_ref=6, v_ref=6, a_ref=6)
    out = loop.rollout(loop.state(plan.q[0]), {"q_ref": plan.q, "v_ref": plan.v, "a_ref": plan.a}, record=["q"])
    return np.abs(out["q"][:-1] - plan.q[1:]).max()


errors = {passive: largest_error(passive) for passive in (False, True)}
print(f"largest error: {errors[False]:.1e} rad by the rigid bodies alone, {errors[True]:.1e} rad with the forces in the joints")

# at rest dry friction holds a joint: neither a push nor a torque moves it, and a linearisation says so
x = world.state(plan.q[0])
u = robot.gravity_forces(plan.q[0])
_, A, B = world.step(x, u, derivatives=True)
# smooth below 0.1 rad/s, the joints answer
_, a_v, a_tau = robot.forward_dynamics_derivatives(plan.q[0], np.zeros(6), u, passive=0.1)
stuck, smooth = np.abs(B[6:]).max(), world.dt * np.abs(a_tau).max()
print(f"a torque of 1 N m changes velocities within a step by {stuck:.1e} rad/s if they are stuck, by {smooth:.1f} if not")

# a check of what is claimed
assert errors[True] < 1e-4 < 1e-2 < errors[False]
assert stuck < 1e-4 * smooth and np.abs(A[6:, 6:]).max() < 1e-3
assert np.all(np.diag(a_v) < 0.0)
print("checked: the arm follows, the linearisation at rest is that of a stuck arm, and the smooth one is not")
