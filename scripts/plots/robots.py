"""Pictures of robots: all that are built in, what belongs to which axes, and four numbers read in two orders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from plots.style import INK, picture

import condyle as cd
from condyle.apps.pidog.kinematics import JOINTS
from condyle.apps.pidog.poses import pose_angles
from condyle.dynamics.rotations import quaternion_exp, quaternion_product
from condyle.robot import library
from condyle.workbench.view.camera import framed
from condyle.workbench.view.picture import picture as render
from condyle.workbench.view.scene import Arrow, robot_mesh
from condyle.workbench.view.trajectory import link_poses

FONTS = Path(matplotlib.get_data_path(), "fonts", "ttf")
AXES = ((0.80, 0.23, 0.18), (0.25, 0.56, 0.36), (0.16, 0.42, 0.75))  # x red, y green, z blue
STAND = dict(zip(JOINTS, np.radians(pose_angles()), strict=True))
# joints that do not stand at zero in the gallery
POSES: dict[str, dict[str, Any]] = {
    "pendulum": {"swing": 0.6},
    "double_pendulum": {"shoulder": 0.5, "elbow": 0.7},
    "cartpole": {"hinge": 0.25},
    "wheeled_pendulum": {"root_pitch": 0.15},
    "two_wheeled": {"root_pitch": 0.15, "root_yaw": -0.3},
    "ur3": {"lift_joint": -1.1, "elbow_joint": 1.3, "wrist_1_joint": -1.7, "wrist_2_joint": -1.4},
    "birotor": {"tilt_1": 0.35, "tilt_2": -0.35},
    "pidog": STAND,
}
# of what the picture of axes labels: pixels from the tip of the arrow to the words
OFFSETS = {
    "world x": (34, 10),
    "world y": (38, -8),
    "body x": (34, 8),
    "body y": (46, -10),
    "q[:3]": (-44, -12),
    "v[:3], in body axes": (100, 4),
    "v[3:6], in body axes": (-100, -12),
    "gravity, in world axes": (0, 22),
}


def font(size: int, weight: str = "") -> Any:
    return ImageFont.truetype(FONTS / f"DejaVuSans{weight}.ttf", size)


def posed(robot: cd.Robot, joints: dict[str, Any]) -> np.ndarray:
    """The neutral configuration with some joints elsewhere."""
    q = robot.neutral()
    for name, value in joints.items():
        q[robot.q_slice(name)] = value
    return q


def quaternion(rpy: tuple[float, float, float]) -> np.ndarray:
    """The quaternion (x, y, z, w) of roll, pitch and yaw: first about the fixed x, then y, then z."""
    x, y, z = (quaternion_exp(angle * axis) for angle, axis in zip(rpy, np.eye(3), strict=True))
    return np.array(quaternion_product(z, quaternion_product(y, x)), dtype=float)


@picture()
def robots() -> Any:
    """Every built-in robot with its name and what it has."""
    width, height, caption, columns = 300, 230, 36, 5
    sheet = Image.new("RGB", (columns * width, -(-len(library.ROBOTS) // columns) * (height + caption)), "white")
    draw = ImageDraw.Draw(sheet)
    for k, name in enumerate(library.ROBOTS):
        robot, size = cd.load(name), (width - 8, height - 8)
        near = framed(np.array([[-0.9, -0.1, 0.0], [0.9, 0.1, 1.05]]), size) if name == "cartpole" else None  # its rail is long
        x, y = k % columns * width, k // columns * (height + caption)
        shown = render(robot, posed(robot, POSES.get(name, {})), size=size, label=False, camera=near)
        sheet.paste(Image.fromarray(shown), (x + 4, y + 4))
        draw.text((x + 8, y + height + 2), name, fill=INK, font=font(15, "-Bold"))
        facts = f"nv {robot.nv}, {robot.mass:.3g} kg"
        draw.text((x + width - 8, y + height + 4), facts, fill=INK, font=font(13), anchor="ra")
    return sheet


@picture()
def conventions() -> Any:
    """A free robot, the world's axes, its own, and the vectors that belong to each."""
    robot, size = cd.load("birotor"), (1200, 680)
    q = robot.neutral()
    q[:3], q[3:7] = (0.30, 0.62, 0.62), quaternion((0.15, 0.35, 0.35))
    R, p = robot.frame_pose(q, "base")
    v, w = np.array([0.42, 0.0, 0.22]), np.array([-0.30, 0.0, 0.30])  # in the axes of the body
    vectors = [
        *((f"world {name}", np.zeros(3), 0.35 * axis, color) for name, axis, color in zip("xyz", np.eye(3), AXES, strict=True)),
        *((f"body {name}", p, r * axis, color) for name, axis, color, r in zip("xyz", R.T, AXES, (0.46, 0.7, 0.46), strict=True)),
        ("q[:3]", np.zeros(3), p, (0.45, 0.48, 0.53)),
        ("v[:3], in body axes", p, R @ v, (0.75, 0.34, 0.13)),
        ("v[3:6], in body axes", p, R @ w, (0.48, 0.31, 0.71)),
        ("gravity, in world axes", robot.center_of_mass(q), np.array([0.0, 0.0, -0.40]), (0.13, 0.15, 0.17)),
    ]
    arrows = [Arrow(start, along, color, 0.006 if name == "q[:3]" else 0.011) for name, start, along, color in vectors]
    ends = np.array([point for _, start, along, _ in vectors for point in (start, start + along)])
    vertices = robot_mesh(robot).at(*link_poses(robot, q)).vertices
    camera = framed(np.concatenate([vertices, ends]), size, azimuth=-38.0, elevation=16.0)
    sheet = Image.fromarray(render(robot, q, size=size, camera=camera, arrows=arrows, ground=0.0))
    draw = ImageDraw.Draw(sheet, "RGBA")
    # words on a pale plate beside each arrow
    for name, start, along, color in vectors:
        at = start + (0.5 if name == "q[:3]" else 1.0) * along
        place = tuple((camera.project(at[None], size)[0][0] + OFFSETS.get(name, (0, -16))).tolist())
        left, top, right, bottom = draw.textbbox(place, name, font=font(19), anchor="mm")
        draw.rounded_rectangle((left - 5, top - 4, right + 5, bottom + 4), 5, fill=(255, 255, 255, 215))
        draw.text(place, name, font=font(19), anchor="mm", fill=tuple(round(200 * c) for c in color))
    return sheet


@picture()
def faq() -> Any:
    """The dog turned by sixty degrees, and the same four numbers read in the other order."""
    robot, (width, height) = cd.load("pidog"), (600, 420)
    numbers = quaternion((0.0, 0.0, np.radians(60.0)))
    sheet = Image.new("RGB", (2 * width, height + 84), "white")
    draw = ImageDraw.Draw(sheet)
    words = f"One orientation, four numbers: {', '.join(f'{n:.3g}' for n in numbers)}"
    draw.text((12, 10), words, fill=INK, font=font(21, "-Bold"))
    orders = {
        "read as (x, y, z, w): turned by 60 degrees about z": numbers,
        "read as (w, x, y, z): facing back, rolled by 60 degrees": numbers[[1, 2, 3, 0]],
    }
    for k, (words, order) in enumerate(orders.items()):
        q = posed(robot, STAND)
        q[3:7] = order
        points = robot_mesh(robot).at(*link_poses(robot, q)).vertices
        q[2] -= points[:, 2].min()
        R, at = robot.frame_pose(q, "torso")
        arrows = [Arrow(at, r * axis, color, 0.003) for axis, color, r in zip(R.T, AXES, (0.18, 0.13, 0.13), strict=True)]
        seen = np.concatenate([points - [0.0, 0.0, points[:, 2].min()], at + 0.13 * R.T])
        camera = framed(seen, (width, height), azimuth=-70.0, elevation=22.0)
        shown = render(robot, q, size=(width - 8, height), camera=camera, arrows=arrows, label=False)
        sheet.paste(Image.fromarray(shown), (k * width + 4, 46))
        draw.text((k * width + 12, height + 54), words, fill=INK, font=font(18))
    return sheet
