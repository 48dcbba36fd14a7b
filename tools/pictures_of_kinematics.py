"""The picture of the page on inverse kinematics: all solutions for a pose, and slices of the workspace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from picture_style import labelled, save, sheet

import condyle as cd
from condyle.multibody.closed_form_kinematics import inverse_kinematics_solutions
from condyle.view.picture import picture
from condyle.view.workspace import draw_slice, workspace_map

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
