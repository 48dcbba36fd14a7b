"""A safety filter around a controller that knows no obstacles, a plan that does, and the fastest motion along it.

python examples/23_safety_filter.py
"""

import numpy as np

import condyle as cd
from condyle.methods.control.safety_filter import SafetyFilter
from condyle.methods.planning import plan_motion
from condyle.methods.planning.time_optimal import time_optimal
from condyle.obstacles import Box, Plane, robot_distances

MARGIN = 0.02  # m
robot = cd.load("ur3")
distances = robot_distances(
    robot,
    [Box((0.3, 0.05, 0.3), position=(0.36, 0.08, 0.15), name="wall"), Plane(position=(0.0, 0.0, -0.01), name="floor")],
    links=["elbow", "wrist_1", "wrist_2", "wrist_3"],
    self_collision=False,
)
start, goal = np.array([-0.7, -0.95, 1.5, -2.1, -1.5, 0.0]), np.array([1.0, -0.95, 1.5, -2.1, -1.5, 0.0])

# physics at 4 kHz; controller and filter at 1 kHz
world = cd.Simulation(robot, dt=0.00025)
safety = SafetyFilter(world, distances, margin=MARGIN, every=4)


def control(x, goal):
    """Computed torque straight towards the goal, through the wall."""
    v = 3.0 * (goal - x.q)
    return robot.inverse_dynamics(x.q, x.v, 40.0 * (v / np.maximum(np.max(np.abs(v)), 1.0) - x.v))


least = {}
for name, function in {"alone": control, "filtered": lambda x, goal: safety(x, control(x, goal))}.items():
    loop = cd.Loop(world, function, goal=6)
    out = loop.rollout(loop.state(start), goal, 8000, record=["q"])
    least[name] = distances(out["q"]).min()
    print(f"{name}: at least {1e3 * least[name]:.1f} mm from the wall, {np.abs(out['q'][-1] - goal).max():.2f} rad from the goal")

# the filter alone stops before the wall; a plan leads over it
plan = plan_motion(robot, distances, start, goal, seed=1, clearance=MARGIN)
motion = time_optimal(plan.path, robot=robot, acceleration=6.0)
planned = distances(motion.at(np.linspace(0.0, motion.duration, 2000)).position).min()
print(f"{plan}: {motion.duration:.2f} s, at least {1e3 * planned:.1f} mm away")

# a check of what is claimed
assert least["alone"] < 0.0
assert least["filtered"] >= MARGIN
assert plan.ok and planned >= MARGIN
print("checked: the filter keeps its margin, the controller alone does not, and the plan reaches the goal beyond the wall")
