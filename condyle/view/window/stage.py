"""The stage: theme, ground, grid, light and camera, to the measure of the robot that stands on it."""

from __future__ import annotations

from typing import Any

import numpy as np

CELLS = 60  # of a ground that is not flat, along each side
VIEW = np.array([1.0, -1.25, 0.62])  # from the robot to the camera
WIDE = 0.6  # half the angle of view that the robot fills, rad
BRAND = (30, 92, 168)
LIGHT = {"cell": (214, 218, 224), "section": (160, 167, 178), "ground": (246, 247, 249)}
DARK = {"cell": (58, 62, 70), "section": (96, 102, 112), "ground": (40, 43, 50)}


class Stage:
    """Where robots stand. `low`, `high`: corners of the box that they need, (3,)."""

    def __init__(self, server: Any, low: np.ndarray, high: np.ndarray, ground: Any = None, *, dark: bool = False) -> None:
        self._server, self._ground = server, ground
        self.low, self.high = low, high
        self.dark = dark
        self.grid_on = True
        self._nodes: list[Any] = []
        self.frame_all()
        self.paint()

    def paint(self) -> None:
        """Draw theme and ground, in dark or light."""
        self._server.gui.configure_theme(dark_mode=self.dark, show_logo=False, show_share_button=False, brand_color=BRAND)
        scene = self._server.scene
        colors = DARK if self.dark else LIGHT
        for node in self._nodes:
            node.remove()
        reach = float(np.linalg.norm(self.high - self.low))
        cell = nice(reach / 10.0)
        plane = _plane(self._ground)
        if self._ground is not None and plane is None:
            vertices, faces = _terrain(self._ground, self.low, self.high)
            self._nodes = [scene.add_mesh_simple("/ground", vertices, faces, color=colors["section"], side="double")]
            return
        normal, offset = plane if plane is not None else (np.array([0.0, 0.0, 1.0]), self._floor())
        self._nodes = [
            scene.add_grid(
                "/ground",
                infinite_grid=True,
                cell_size=cell,
                section_size=5.0 * cell,
                cell_color=colors["cell"],
                section_color=colors["section"],
                cell_thickness=0.8,
                section_thickness=1.2,
                fade_distance=14.0 * reach,
                shadow_opacity=0.45 if self.dark else 0.22,
                plane_color=colors["ground"],
                wxyz=_from_z(normal),
                position=normal * offset,
                visible=self.grid_on,
            ),
            scene.add_label(
                "/scale",
                f"grid {cell:g} m",
                position=self._corner(normal, offset, cell),
                font_screen_scale=0.75,
                visible=self.grid_on,
            ),
        ]

    def show_grid(self, on: bool) -> None:
        self.grid_on = on
        for node in self._nodes:
            node.visible = on

    def frame_all(self) -> None:
        """Put the first camera where it sees all of the box."""
        centre, radius = 0.5 * (self.low + self.high), 0.5 * float(np.linalg.norm(self.high - self.low))
        way = VIEW / np.linalg.norm(VIEW)
        distance = radius / np.sin(WIDE)
        # the panel covers the right side: the robot stands a little left of the middle
        right = np.cross(-way, [0.0, 0.0, 1.0])
        centre = centre + right / np.linalg.norm(right) * 0.3 * radius
        camera = self._server.initial_camera
        camera.up, camera.look_at, camera.position = (0.0, 0.0, 1.0), centre, centre + way * distance
        camera.near, camera.far = max(distance * 1e-3, 1e-4), distance * 200.0

    def frame_now(self) -> None:
        """Put the cameras of those who are watching there, too."""
        first = self._server.initial_camera
        for client in self._server.get_clients().values():
            with client.atomic():
                client.camera.up_direction = first.up
                client.camera.position, client.camera.look_at = first.position, first.look_at

    def _floor(self) -> float:
        """Below a robot that stands nowhere: zero, or its lowest point where that is deeper."""
        return float(min(self.low[2], 0.0))

    def _corner(self, normal: np.ndarray, offset: float, cell: float) -> np.ndarray:
        """A crossing of lines on the ground between the robot and the camera."""
        centre, radius = 0.5 * (self.low + self.high), 0.5 * float(np.linalg.norm(self.high - self.low))
        x, y = np.round((centre[:2] + 0.85 * radius * VIEW[:2] / np.linalg.norm(VIEW[:2])) / cell) * cell
        z = (offset - normal[0] * x - normal[1] * y) / normal[2] if abs(normal[2]) > 1e-6 else 0.0
        return np.array([x, y, z])


def nice(length: float) -> float:
    """1, 2 or 5 times a power of ten, near a length."""
    power = 10.0 ** np.floor(np.log10(max(length, 1e-9)))
    return float(min((1.0, 2.0, 5.0, 10.0), key=lambda k: abs(np.log(k * power / length))) * power)


def _plane(ground: Any) -> tuple[np.ndarray, float] | None:
    """(normal, offset) of a flat ground; None of another."""
    flat = getattr(ground, "plane", ground)
    normal, offset = getattr(flat, "normal", None), getattr(flat, "offset", None)
    return None if normal is None or offset is None else (np.asarray(normal, dtype=float), float(offset))


def _from_z(normal: np.ndarray) -> tuple[float, float, float, float]:
    """The quaternion (w, x, y, z) that turns z to the normal."""
    w = 1.0 + normal[2]
    found = np.array([w, -normal[1], normal[0], 0.0]) if w > 1e-9 else np.array([0.0, 1.0, 0.0, 0.0])
    w, x, y, z = (float(c) for c in found / np.linalg.norm(found))
    return w, x, y, z


def _terrain(ground: Any, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The surface of a ground about the box: where lines straight down meet it."""
    centre, half = 0.5 * (low + high)[:2], 1.5 * float(np.linalg.norm(high - low))
    steps = np.linspace(-half, half, CELLS + 1)
    points = np.array([[centre[0] + x, centre[1] + y, float(high[2])] for y in steps for x in steps])
    for point in points:
        for _ in range(8):
            distance, normal = ground.distance(point)
            rise = max(float(normal[2]), 0.2)
            point[2] -= float(distance) / rise
    a = (np.arange(CELLS)[:, None] * (CELLS + 1) + np.arange(CELLS)).ravel()
    b, c, d = a + 1, a + CELLS + 2, a + CELLS + 1
    return points, np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])
