"""Load a robot, look at it, hold it against gravity, and move its tool along a line.

python examples/06_load_a_robot.py
"""

import numpy as np

import condyle as cd

arm = cd.load("ur3")
print(arm)
for link in arm.model.links:
    print(f"  {link.joint:14} {type(link.kind).__name__.lower():9} {link.limits.lower:+.2f} .. {link.limits.upper:+.2f} rad")

ready = np.array([0.0, -np.pi / 2, np.pi / 2, -np.pi / 2, 0.0, 0.0])
R, p = arm.frame_pose(ready, "tool")
print("the tool is at", p.round(4), "m")
hold = arm.gravity_forces(ready)
print("torques that hold it:", hold.round(3), "N m")
assert np.abs(arm.forward_dynamics(ready, np.zeros(6), hold)).max() < 1e-10

# down by 10 cm in 100 steps: the joint velocity that moves the tool straight and keeps its orientation
q, step = ready, np.array([0.0, 0.0, -0.001, 0.0, 0.0, 0.0])
for k in range(100):
    goal = p + (k + 1) * step[:3]
    # Newton's method for the place; the orientation follows along
    for _ in range(4):
        R_now, p_now = arm.frame_pose(q, "tool")
        turn = R_now @ R.T  # small: its rotation vector is in the skew part
        off = 0.5 * np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
        error = np.concatenate([goal - p_now, -off])
        # damped, because this pose is near a singular one
        J = arm.jacobian(q, "tool")
        q = arm.integrate(q, J.T @ np.linalg.solve(J @ J.T + 1e-10 * np.eye(6), error))
R_end, p_end = arm.frame_pose(q, "tool")
print("moved by", (p_end - p).round(6), "m")
assert np.abs(p_end - p - 100 * step[:3]).max() < 1e-6 and np.abs(R_end - R).max() < 1e-6

# the same arm on a floating base, and with its wrist stop_gradient
flying, stiff = cd.load("ur3", base="free"), arm.lock("wrist", q)
print(flying, stiff, sep="\n")
assert np.allclose(stiff.frame_pose(q[:3], "tool")[1], p_end, atol=1e-14)
assert (stiff.full(q[:3]) == q).all()
print("checked: gravity is held to 1e-10, the tool went straight to 1e-6 m, and the locked arm has the tool in the same place")
