"""The picture of the page on obstacles: a UR3 among obstacles with its closest pairs, and distances along a motion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from picture_style import BLUE, GREEN, INK, ORANGE, RED, VIOLET, labelled, save, sheet

import condyle as cd
from condyle.methods.planning.obstacle_shapes import Solid
from condyle.methods.planning.obstacles import Box, Capsule, Plane, Sphere, robot_distances, with_obstacles
from condyle.workbench.view.picture import picture

TURNED = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])  # its z axis is x
SCENE = [
    Box((0.2, 0.3, 0.24), position=(0.42, 0.12, 0.12), name="crate"),
    Capsule(0.04, 0.6, position=(0.1, -0.38, 0.34), name="post"),
    Capsule(0.03, 0.5, position=(0.1, 0.42, 0.62), rotation=TURNED, name="rail"),
    Sphere(0.09, position=(-0.34, 0.12, 0.52), name="ball"),
    Plane(name="floor"),
]
COLORS = dict(zip(("crate", "post", "rail", "ball", "floor"), (ORANGE, BLUE, VIOLET, RED, GREEN), strict=True))


def obstacles(path: Path) -> None:
    """The closest pair of each obstacle, and how the distances change while the arm turns."""
    robot = cd.load("ur3")
    distances = robot_distances(robot, SCENE, links=["lift", "elbow", "wrist_1", "wrist_2", "wrist_3"], self_collision=False)
    time = np.linspace(0.0, 1.0, 400)
    first, last = np.array([-1.6, -1.3, 1.2, -1.4, -1.4, 0.0]), np.array([1.9, -0.9, 1.3, -1.7, -1.4, 0.0])
    q = first + time[:, None] * (last - first)
    d, at = distances(q), 215
    p_a, p_b = (each[at] for each in distances.witness_points(q))
    columns = {name: [k for k, (_, other) in enumerate(distances.names) if other == name] for name in COLORS}
    lines = []
    for rows in columns.values():
        k = rows[int(np.argmin(d[at, rows]))]
        lines.append(np.array([p_a[k], p_b[k]]))
    image = picture(shown(), q[at], size=(1100, 900), polylines=lines, label=False)
    figure = sheet("The UR3 among obstacles: closest pairs, and the distance of the arm from each obstacle", 11.0, 4.6)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1.0))
    left.imshow(image)
    left.axis("off")
    for name, rows in columns.items():
        right.plot(time, 1e3 * d[:, rows].min(axis=1), color=COLORS[name], lw=1.8, label=name)
    right.axvline(time[at], color=INK, lw=0.8, ls=":")
    right.axhline(0.0, color=INK, lw=0.8)
    labelled(right, "least distance over the links", "part of the motion", "mm; below zero: overlap")
    right.legend(frameon=False, ncols=5, loc="upper center", bbox_to_anchor=(0.5, -0.13), handlelength=1.2, columnspacing=1.2)
    save(figure, path)


def shown(solids: Sequence[Solid] = SCENE, colors: Mapping[str, str] = COLORS) -> cd.Robot:
    """The UR3 with the obstacles."""
    rgb = {name: tuple(int(color[k : k + 2], 16) / 255.0 for k in (1, 3, 5)) for name, color in colors.items()}
    return with_obstacles(cd.load("ur3"), solids, rgb)
