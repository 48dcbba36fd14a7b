"""Pictures of robots: all that are built in, what belongs to which axes, and four numbers read in two orders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from picture_style import INK, save_image
from PIL import Image, ImageDraw, ImageFont

import condyle as cd
from condyle.robot import library
from condyle.workbench.view.camera import framed
from condyle.workbench.view.picture import picture
from condyle.workbench.view.scene import Arrow, robot_mesh
from condyle.workbench.view.trajectory import link_poses

FONTS = Path(matplotlib.get_data_path(), "fonts", "ttf")
AXES = ((0.80, 0.23, 0.18), (0.25, 0.56, 0.36), (0.16, 0.42, 0.75))  # x red, y green, z blue
GRAY, SPIN = (0.45, 0.48, 0.53), (0.48, 0.31, 0.71)
# the stand of PiDog's maker, in degrees; the servos of the right side are mounted the other way round
FRONT, HIND = (40.61, 15.54), (60.28, 5.26)
SERVOS = {"lf": (1.0, FRONT), "rf": (-1.0, FRONT), "lh": (1.0, HIND), "rh": (-1.0, HIND)}
STAND = {
    f"{leg}_{joint}": sign * np.radians(angle)
    for leg, (sign, angles) in SERVOS.items()
    for joint, angle in zip(("hip", "knee"), angles, strict=True)
}

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


def font(size: int, weight: str = "") -> Any:
    return ImageFont.truetype(FONTS / f"DejaVuSans{weight}.ttf", size)


def robots(path: Path) -> None:
    """Every built-in robot with its name and what it has."""
    width, height, caption, columns = 300, 230, 36, 5
    names = list(library.ROBOTS)
    sheet = Image.new("RGB", (columns * width, -(-len(names) // columns) * (height + caption)), "white")
    draw = ImageDraw.Draw(sheet)
    for k, name in enumerate(names):
        robot = cd.load(name)
        q, size = posed(robot, POSES.get(name, {})), (width - 8, height - 8)
        near = framed(np.array([[-0.9, -0.1, 0.0], [0.9, 0.1, 1.05]]), size) if name == "cartpole" else None  # its rail is long
        x, y = k % columns * width, k // columns * (height + caption)
        sheet.paste(Image.fromarray(picture(robot, q, size=size, label=False, camera=near)), (x + 4, y + 4))
        draw.text((x + 8, y + height + 2), name, fill=INK, font=font(15, "-Bold"))
        facts = f"nv {robot.nv}, {robot.mass:.3g} kg"
        draw.text((x + width - 8, y + height + 4), facts, fill=INK, font=font(13), anchor="ra")
    save_image(sheet, path)


# -- which axes


def conventions(path: Path) -> None:
    """A free robot, the world's axes, its own, and the vectors that belong to each."""
    robot, size = cd.load("birotor"), (1200, 680)
    q = robot.neutral()
    q[:3], q[3:7] = (0.30, 0.62, 0.62), turned((0.15, 0.35, 0.35))
    R, p = robot.frame_pose(q, "base")
    com = robot.center_of_mass(q)
    v, w = np.array([0.42, 0.0, 0.22]), np.array([-0.30, 0.0, 0.30])  # in the axes of the body
    vectors = [
        *(("world " + name, np.zeros(3), 0.35 * axis, color) for name, axis, color in zip("xyz", np.eye(3), AXES, strict=True)),
        *(
            ("body " + name, p, length * axis, color)
            for name, axis, color, length in zip("xyz", R.T, AXES, (0.46, 0.7, 0.46), strict=True)
        ),
        ("q[:3]", np.zeros(3), p, GRAY),
        ("v[:3], in body axes", p, R @ v, (0.75, 0.34, 0.13)),
        ("v[3:6], in body axes", p, R @ w, SPIN),
        ("gravity, in world axes", com, np.array([0.0, 0.0, -0.40]), (0.13, 0.15, 0.17)),
    ]
    arrows = [Arrow(start, along, color, 0.006 if name == "q[:3]" else 0.011) for name, start, along, color in vectors]
    ends = np.array([point for _, start, along, _ in vectors for point in (start, start + along)])
    camera = framed(
        np.concatenate([robot_mesh(robot).at(*link_poses(robot, q)).vertices, ends]), size, azimuth=-38.0, elevation=16.0
    )
    sheet = Image.fromarray(picture(robot, q, size=size, camera=camera, arrows=arrows, ground=0.0))
    for name, start, along, color in vectors:
        at = start + (0.5 if name == "q[:3]" else 1.0) * along
        label(sheet, camera.project(at[None], size)[0][0], name, color, OFFSETS.get(name, (0, -16)))
    save_image(sheet, path)


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


def label(sheet: Any, at: np.ndarray, text: str, color: tuple[float, float, float], offset: tuple[float, float]) -> None:
    """Words on a pale plate beside a point of the picture."""
    draw = ImageDraw.Draw(sheet, "RGBA")
    place = (float(at[0] + offset[0]), float(at[1] + offset[1]))
    left, top, right, bottom = draw.textbbox(place, text, font=font(19), anchor="mm")
    draw.rounded_rectangle((left - 5, top - 4, right + 5, bottom + 4), 5, fill=(255, 255, 255, 215))
    draw.text(place, text, font=font(19), anchor="mm", fill=tuple(round(200 * c) for c in color))


def turned(rpy: tuple[float, float, float]) -> np.ndarray:
    """The quaternion (x, y, z, w) of roll, pitch and yaw: first about the fixed x, then y, then z."""
    from condyle.dynamics.rotations import quaternion_exp, quaternion_product

    x, y, z = (quaternion_exp(angle * axis) for angle, axis in zip(rpy, np.eye(3), strict=True))
    return np.array(quaternion_product(z, quaternion_product(y, x)), dtype=float)


# -- four numbers in two orders


def faq(path: Path) -> None:
    """The dog turned by sixty degrees, and the same four numbers read in the other order."""
    robot, size = cd.load("pidog"), (600, 420)
    numbers = turned((0.0, 0.0, np.radians(60.0)))
    sheet = Image.new("RGB", (2 * size[0], size[1] + 84), "white")
    draw = ImageDraw.Draw(sheet)
    words = ", ".join(f"{n:.3g}" for n in numbers)
    draw.text((12, 10), f"One orientation, four numbers: {words}", fill=INK, font=font(21, "-Bold"))
    panels = (
        ("read as (x, y, z, w): turned by 60 degrees about z", numbers),
        ("read as (w, x, y, z): facing back, rolled by 60 degrees", numbers[[1, 2, 3, 0]]),
    )
    for k, (words, quaternion) in enumerate(panels):
        q = posed(robot, STAND)
        q[3:7] = quaternion
        points = robot_mesh(robot).at(*link_poses(robot, q)).vertices
        q[2] -= points[:, 2].min()
        R, at = robot.frame_pose(q, "torso")
        arrows = [
            Arrow(at, length * axis, color, 0.003) for axis, color, length in zip(R.T, AXES, (0.18, 0.13, 0.13), strict=True)
        ]
        seen = np.concatenate([points - [0.0, 0.0, points[:, 2].min()], at + 0.13 * R.T])
        camera = framed(seen, size, azimuth=-70.0, elevation=22.0)
        sheet.paste(
            Image.fromarray(picture(robot, q, size=(size[0] - 8, size[1]), camera=camera, arrows=arrows, label=False)),
            (k * size[0] + 4, 46),
        )
        draw.text((k * size[0] + 12, size[1] + 54), words, fill=INK, font=font(18))
    save_image(sheet, path)


def posed(robot: cd.Robot, joints: dict[str, Any]) -> np.ndarray:
    """The neutral configuration with some joints elsewhere."""
    q = robot.neutral()
    for name, value in joints.items():
        q[robot.q_slice(name)] = value
    return q
