"""The picture of the page on avoidance and planning: a planned path, and distances with and without the safety filter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from picture_style import BLUE, FAINT, GREEN, INK, ORANGE, RED, labelled, save, sheet
from pictures_of_obstacles import shown

import condyle as cd
from condyle.methods.control.safety_filter import SafetyFilter
from condyle.methods.planning import plan_motion
from condyle.methods.planning.obstacles import Box, Capsule, Plane, robot_distances
from condyle.methods.planning.time_optimal import time_optimal
from condyle.workbench.view.picture import picture

SCENE = (
    Box((0.3, 0.05, 0.3), position=(0.36, 0.08, 0.15), name="wall"),
    Capsule(0.03, 0.5, position=(-0.12, 0.34, 0.28), name="post"),
    Plane(position=(0.0, 0.0, -0.01), name="floor"),
)
COLORS = {"wall": ORANGE, "post": BLUE, "floor": FAINT}
SKIP = [("base", "lift"), ("elbow", "wrist_2"), ("elbow", "wrist_3"), ("wrist_1", "wrist_3")]
START, GOAL = np.array([-0.7, -0.95, 1.5, -2.1, -1.5, 0.0]), np.array([1.0, -0.95, 1.5, -2.1, -1.5, 0.0])
MARGIN = 0.02  # m


def avoidance(path: Path) -> None:
    """The tool's path by a plan, and the least distance of a controller that knows no obstacles."""
    robot = cd.load("ur3")
    distances = robot_distances(robot, SCENE, skip=SKIP)
    plan = plan_motion(robot, distances, START, GOAL, seed=1, clearance=MARGIN)
    assert plan.path is not None, plan.reason
    motion = time_optimal(plan.path, robot=robot, acceleration=6.0)
    s = np.linspace(0.0, 1.0, 200)
    smooth = robot.frame_pose(plan.path.at(s).position, "tool")[1]
    filtered, without = simulated(robot, distances, True), simulated(robot, distances, False)
    lines = [smooth, robot.frame_pose(filtered, "tool")[1]]
    at = plan.path.at(0.5).position
    image = picture(shown(SCENE, COLORS), at, size=(1000, 860), polylines=lines, label=False)
    figure = sheet("A path over a wall, and a controller that knows no wall, with and without the safety filter", 9.6, 4.0)
    left, right = figure.subplots(1, 2, width_ratios=(1.05, 1.0))
    left.imshow(image)
    left.axis("off")
    left.set_title("Planned path of the tool, and filtered", loc="left", color=INK, fontsize=11.5)
    t = 0.001 * np.arange(1, len(without) + 1)
    for q, color, label in ((without, RED, "controller alone"), (filtered, GREEN, "with the filter")):
        right.plot(t, 1e3 * distances(q).min(axis=1), color=color, lw=1.8, label=label)
    planned = motion.at(t[t <= motion.duration]).position
    right.plot(t[t <= motion.duration], 1e3 * distances(planned).min(axis=1), color=BLUE, lw=1.8, label="planned, fastest")
    right.axhline(1e3 * MARGIN, color=INK, lw=0.8, ls="--")
    right.annotate("margin", (t[-1], 1e3 * MARGIN), (0, 4), textcoords="offset points", ha="right", fontsize=10)
    right.axhline(0.0, color=INK, lw=0.8)
    labelled(right, "least distance of any pair", "time, s", "mm; below zero: overlap")
    right.legend(frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.14), handlelength=1.2, columnspacing=1.2)
    save(figure, path)


def simulated(robot: cd.Robot, distances: Any, with_filter: bool) -> np.ndarray:
    """q at 1 kHz under computed torque towards the goal."""
    world = cd.Simulation(robot, dt=0.00025)
    safety = SafetyFilter(world, distances, margin=MARGIN, every=4)

    def control(x: Any, goal: Any) -> Any:
        v = 3.0 * (goal - x.q)
        u = robot.inverse_dynamics(x.q, x.v, 40.0 * (v / np.maximum(np.max(np.abs(v)), 1.0) - x.v))
        return safety(x, u) if with_filter else u

    loop = cd.Loop(world, control, goal=6)
    found: np.ndarray = loop.rollout(loop.state(START), GOAL, 12000, record=["q"], every=4)["q"]
    return found
