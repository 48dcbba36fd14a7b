"""An arm that is pushed, that yields, and that presses on a table: impedance, admittance and hybrid force control.

python examples/22_touch_and_push.py
"""

import numpy as np

import condyle as cd
from condyle.blocks.force_sensors import ForceTorque
from condyle.methods.control.arm_controller import ToolSample
from condyle.methods.control.external_wrench import ExternalWrench
from condyle.methods.control.force_control import Admittance, HybridForcePosition
from condyle.methods.control.task_control import CartesianImpedance

robot = cd.load("ur3")
ready = np.array([0.3, -1.2, 1.6, -2.0, -1.57, 0.2])
R, p = robot.frame_pose(ready, "tool")

# impedance and admittance: the tool yields to a push by F / K
air = cd.Simulation(robot, dt=0.001, ground=None)
here, K, push = ToolSample(R, p), np.array([800.0, 800.0, 400.0, 20.0, 20.0, 20.0]), np.array([0.0, 0.0, -10.0, 0.0, 0.0, 0.0])
spring = CartesianImpedance(air, "tool", stiffness=K)
yielding, sensor, external = Admittance(air, "tool", stiffness=K), ForceTorque("tool"), ExternalWrench(air, "tool")


def impedance(x):
    return {**spring(x, here), "wrenches": {"tool": push}}


def admittance(x):
    # the sensor reads the push of the last tick, the weight and the inertia of the last link
    measured = external(x, sensor(x, {"tool": push}))
    return {**yielding(x, here, wrench=measured), "wrenches": {"tool": push}}


moved = {}
for control in (impedance, admittance):
    loop = cd.Loop(air, control)
    q = loop.rollout(loop.state(ready), steps=4000, record=["q"], every=4000)["q"][-1]
    moved[control.__name__] = robot.frame_pose(q, "tool")[1][2] - p[2]
    print(
        f"{control.__name__}: 10 N down moves the tool by {1e3 * moved[control.__name__]:.4f} mm, F / K is {-1e4 / K[2]:.4f} mm"
    )

# hybrid: 20 N on a table with friction 0.3, while the tool draws a line
table = cd.Simulation(robot, dt=0.001, ground=cd.Plane(friction=0.3, offset=p[2] - 0.04), contacts={"tool": 0.02})
hybrid = HybridForcePosition(table, "tool", force_axes="z", compensation=1.0, friction=True)
speed, press = np.array([-0.03, 0.02, 0.0, 0.0, 0.0, 0.0]), np.array([0.0, 0.0, -20.0, 0.0, 0.0, 0.0])


def pressing(x):
    goal = ToolSample(R, p + speed[:3] * x.t, speed, wrench=press)
    return hybrid(x, goal, wrench=external(x, sensor(x)))


loop = cd.Loop(table, pressing)
out = loop.rollout(loop.state(ready), steps=4000, record=["force_error", "error"], every=10)
late = slice(200, None)
force, path = np.abs(out["force_error"][late, 2]).max(), np.abs(out["error"][late, :2]).max()
print(f"on the table: 20 N within {force:.1e} N, and {1e3 * path:.1e} mm from the line, against friction of 6 N")

# a check of what is claimed
assert all(abs(z + 10.0 / K[2]) < 1e-3 * 10.0 / K[2] for z in moved.values())
assert force < 1e-3 * 20.0 and path < 1e-4
print("checked: stiffness within 0.1 %, force within 0.1 %")
