"""The tool of a robot at rest: its pose in numbers, and a target that the mouse drags and the joints follow."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from condyle.multibody.robot import Robot
from condyle.workbench.view.trajectory import frame_positions, frame_rotation, link_poses, roll_pitch_yaw
from condyle.workbench.view.window.objects import wxyz
from condyle.workbench.view.window.panel import Panel, short, table

NAMES = ("tool0", "tool", "tcp", "ee", "end_effector", "gripper", "hand", "tip", "flange")  # of tools, the likeliest first
GIZMO = 0.24  # of the robot's size
TOLERANCE, ITERATIONS = 1e-7, 40
REACHED = 0.1  # mm and degrees, up to which a target counts as reached


class Tool:
    """A frame with its pose in numbers, and a gizmo whose drags `move(q)` answers; the base stays where it is."""

    def __init__(self, server: Any, panel: Panel, robot: Robot, size: float, move: Callable[[np.ndarray], None]) -> None:
        self.robot, self.panel, self._move = robot, panel, move
        self.frames = {short(frame.name, 60): frame.name for frame in robot.model.frames if frame.link >= 0}
        self.frame = tool_frame(robot)
        self.turns = self.frame is not None and joints_before(robot, self.frame) >= 6
        self.message = ""
        self.dragging = False
        self._wanted: tuple[np.ndarray, np.ndarray] | None = None
        self._lock = threading.Lock()
        self._solver: Robot | None = None
        self.gizmo: Any = None
        if self.frame is None:
            return
        gui = panel.gui
        panel.linked(gui.add_dropdown("tool", tuple(self.frames), initial_value=short(self.frame, 60)), self._choose)
        self._numbers = gui.add_html("")
        shown = not robot.model.base_coordinates and robot.nv > 0
        self.gizmo = server.scene.add_transform_controls("/target", GIZMO * size, depth_test=False, visible=shown)
        self.gizmo.on_update(self._dragged)
        panel.linked(gui.add_checkbox("drag the tool", shown, hint="the joints follow by inverse kinematics"), self._show)
        turns = gui.add_checkbox("with orientation", self.turns, hint="six joints or more can keep one")
        self._turns = panel.linked(turns, lambda on: setattr(self, "turns", on))

    def _choose(self, name: str) -> None:
        self.frame, self.message = self.frames[name], ""
        self.turns = self._turns.value = joints_before(self.robot, self.frame) >= 6
        self._move(self._q)

    def _show(self, on: bool) -> None:
        self.gizmo.visible = on

    def _dragged(self, event: Any) -> None:
        """Remember where the mouse wants the tool; the render loop moves the joints."""
        w, x, y, z = (float(c) for c in event.target.wxyz)
        R = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ]
        )
        with self._lock:
            self._wanted = (R, np.array(event.target.position, dtype=float))
            self.dragging = event.phase != "end"
        self.panel.wake()

    def follow(self, q: np.ndarray) -> np.ndarray:
        """The configuration that brings the tool where the mouse wants it, as near as it can; q itself without a wish."""
        with self._lock:
            wanted, self._wanted = self._wanted, None
        if wanted is None or self.frame is None:
            return q
        found = self.solve(q, *wanted)
        R, p = self._pose(found)
        away = 1000.0 * float(np.linalg.norm(wanted[1] - p))
        turn = np.degrees(np.arccos(np.clip(0.5 * (np.trace(R.T @ wanted[0]) - 1.0), -1.0, 1.0))) if self.turns else 0.0
        self.message = "" if away < REACHED and turn < REACHED else f"{away:.0f} mm and {turn:.0f}° out of reach"
        return found

    def _pose(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(R, p) of the tool in the world."""
        assert self.frame is not None
        poses = link_poses(self.robot, q)
        return frame_rotation(self.robot, *poses, self.frame), frame_positions(self.robot, *poses, self.frame)

    def solve(self, q: np.ndarray, R: np.ndarray, p: np.ndarray) -> np.ndarray:
        """The configuration that brings the tool to a pose in the world, or as near as it can; the base stays."""
        assert self.frame is not None
        base = [link for link in self.robot.reduced.links if link.base]
        if self._solver is None:
            self._solver = self.robot.lock([link.joint for link in base]) if base else self.robot
        free = np.ones(self.robot.nq, dtype=bool)
        for link in base:
            free[link.q] = False
        if base:
            # the solver's robot stands at the origin
            R_all, p_all = link_poses(self.robot, q)
            last = max(i for i, link in self.robot.model.outward() if link.base)
            R, p = R_all[last].T @ R, R_all[last].T @ (p - p_all[last])
        pose = (R, p) if self.turns else p
        found = self._solver.inverse_kinematics(self.frame, pose, q[free], tolerance=TOLERANCE, iterations=ITERATIONS, restarts=0)
        out = q.copy()
        out[free] = found.q
        return out

    def draw(self, q: np.ndarray) -> None:
        """Write the pose of the tool, and put the gizmo there unless the mouse holds it."""
        self._q = q
        if self.frame is None:
            return
        R, p = self._pose(q)
        rows: list[tuple[object, object]] = [
            ("x, y, z", "  ".join(f"{x:+z.4f}" for x in p) + " m"),
            ("roll, pitch, yaw", "  ".join(f"{x:+z.2f}" for x in np.degrees(roll_pitch_yaw(R))) + "°"),
        ]
        self._numbers.content = table(rows + ([("target", self.message)] if self.message else []))
        if not self.dragging:
            self.gizmo.position, self.gizmo.wxyz = p, wxyz(R)


def joints_before(robot: Robot, frame: str) -> int:
    """How many velocities of joints, those of the base aside, move a frame."""
    count, at = 0, robot.model.frame(frame).link
    while at >= 0:
        link = robot.model.links[at]
        count, at = count + (0 if link.base else link.kind.nv), link.parent
    return count


def tool_frame(robot: Robot) -> str | None:
    """The frame that is most likely the tool: one with a usual name, or the last one that moves."""
    moving = [frame.name for frame in robot.model.frames if frame.link >= 0]
    for name in NAMES:
        for frame in moving:
            if frame.lower() == name or frame.lower().endswith(f"_{name}"):
                return frame
    return moving[-1] if moving else None
