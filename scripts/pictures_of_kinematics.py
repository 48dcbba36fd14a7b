"""The pictures of the page on inverse kinematics: all solutions for a pose, slices of the workspace, two tasks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from picture_style import BLUE, RED, WASH, labelled, save, sheet

import condyle as cd
from condyle.apps.demos import pick_and_place, welding
from condyle.apps.demos.arm_tracking import EVERY, tool_errors
from condyle.multibody.closed_form_kinematics import inverse_kinematics_solutions
from condyle.workbench.view.picture import picture
from condyle.workbench.view.workspace import draw_slice, workspace_map

DOWN = np.array([[0.0, -1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])


def inverse_kinematics(path: Path) -> None:
    """The solutions for one pose of the UR3, and two slices through its workspace."""
    robot = cd.load("ur3")
    found = inverse_kinematics_solutions(robot, "tool", (DOWN, np.array([0.3, 0.1, 0.25])))
    q = found.q[found.ok]
    image = picture(robot, q[0], ghosts=list(q[1:]), size=(900, 860), label=False)
    figure = sheet(f"UR3: {len(q)} solutions for one pose of the tool, and its workspace at y = 0", 13.0, 4.3)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.05, 1.0, 1.0))
    left.imshow(image)
    left.axis("off")
    left.set_title("one pose, tool down; one of the solutions is solid", loc="left", fontsize=11.5)
    space = workspace_map(robot, "tool", samples=400_000, voxel=0.04, orientations=60)
    draw_slice(middle, space, space.manipulability, "xz", 0.0, "viridis", None)
    labelled(middle, "highest manipulability, m^3/rad^3", "x, m", "z, m")
    assert space.reachability is not None
    draw_slice(right, space, space.reachability, "xz", 0.0, "magma", 1.0)
    labelled(right, "share of orientations reached", "x, m", "z, m")
    for each in (middle, right):
        each.grid(False)
    save(figure, path)


def arm_tasks(path: Path) -> None:
    """Pick and place with the tool's path and its errors with and without knowledge of the payload; the weld's errors."""
    robot = cd.load("ur3")
    plan, run = pick_and_place.plan(), pick_and_place.run()
    k = np.flatnonzero(plan.part == "across")[600]
    trail = robot.frame_pose(plan.q[::20], "tool")[1]
    image = picture(robot, plan.q[k], ghosts=[plan.q[0]], trail=trail, size=(900, 860), label=False)
    figure = sheet("Computed torque at 1 kHz on physics at 4 kHz: pick and place of 0.5 kg, and a weld at 50 mm/s", 13.0, 4.3)
    left, middle, right = figure.subplots(1, 3, width_ratios=(0.9, 1.1, 1.1))
    left.imshow(image)
    left.axis("off")
    left.set_title("pick and place: path of the tool", loc="left", fontsize=11.5)
    errors = {
        "payload unknown": (tool_errors(pick_and_place.without_feed_forward(), plan), RED),
        "payload known": (tool_errors(run.q[:-1], plan), BLUE),
    }
    for name, (error, color) in errors.items():
        middle.semilogy(plan.t, np.maximum(1e3 * error, 1e-7), color=color, lw=1.2, label=name)
    carried = plan.t[plan.holding > 0.0]
    middle.axvspan(carried[0], carried[-1], color=WASH, zorder=0)
    middle.text(carried[0] + 0.1, 20.0, "payload at the tool", fontsize=10)
    middle.set_ylim(1e-7, 60.0)
    middle.legend(frameon=False, fontsize=10, loc="lower center")
    labelled(middle, "error of the tool, mm", "time, s", "mm")
    done, rows = welding.run(), welding.on_seam()
    at = slice(EVERY * rows[0], EVERY * rows[-1], EVERY)
    p = robot.frame_pose(done.q[:-1][at], "tool")[1]
    t = done.t[:-1][at] - done.t[at.start]
    right.plot(t, 1e6 * welding.off_seam(p), color=BLUE, lw=1.0)
    right.set_ylim(0.0, 2.4)
    labelled(right, "weld: distance of the tool from the seam", "time on the seam, s", "micrometres")
    save(figure, path)
