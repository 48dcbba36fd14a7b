"""Objects of the viewer's scene: robots with forces and other annotations, and the ground with light and camera.

Nodes are numbered, not named after the robot's parts: names from files may hold anything, slashes included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from condyle.multibody.robot import Robot
from condyle.robot.model import Frame, Link
from condyle.robot.parts import sphere
from condyle.workbench.view.geometry import Piece, triangles
from condyle.workbench.view.plots import round_up
from condyle.workbench.view.scene import DOT, FORCE, PLAN, PUSH, TRAIL, Rgb, arrow_vectors, merge, robot_mesh, robot_weight
from condyle.workbench.view.trajectory import Snapshot, flat_ground, link_poses, quaternions
from condyle.workbench.view.window.panel import CENTER, short

GHOST = (214, 40, 130)  # of a second run: like no colour of forces, pushes, paths and usual robots
GHOST_OPACITY = 0.45
MIN_MASS = 1e-9  # kg, of a link whose inertia is drawn
MAX_LABELS = 80
SHORTEST_ARROW, LONGEST_ARROW = 0.01, 1.5  # of the robot's size; shorter ones are not drawn
TERRAIN_CELLS = 60  # of a ground that is not flat, along each side
VIEW = np.array([1.0, -1.25, 0.62])  # from the robot to the camera
LOWEST_CAMERA = 0.02  # above the ground, of the radius of what is shown
HALF_ANGLE = 0.6  # rad: half the angle of view that the robot fills
BRAND = (30, 92, 168)
LIGHT = {"cell_color": (214, 218, 224), "section_color": (160, 167, 178), "plane_color": (246, 247, 249), "shadow_opacity": 0.22}
DARK = {"cell_color": (58, 62, 70), "section_color": (96, 102, 112), "plane_color": (40, 43, 50), "shadow_opacity": 0.45}
UNLIT = {"cast_shadow": False, "receive_shadow": False}


class RobotNode:
    """One robot under `root`: a node for each link, and the layers of panel.LAYERS, made the first time they are wanted."""

    def __init__(self, server: Any, robot: Robot, root: str, *, ghost: bool = False) -> None:
        self.robot, self.root, self.ghost, self._scene = robot, root, ghost, server.scene
        self.mesh = robot_mesh(robot)
        self.warnings: list[str] = []
        self._warn(self.mesh.pieces)
        self._base = self._scene.add_frame(root, show_axes=False)
        self._links = [self._scene.add_frame(f"{root}/{i}", show_axes=False) for i in range(len(robot.model.links))]
        self._layers: dict[str, list[Any]] = {}
        self.shown = {"contacts", "pushes", "plan"}
        self.stretch = 1.0  # of arrows: the robot's weight is one of its size
        self._link_meshes: list[tuple[int, Any]] = []
        self._last: Snapshot | None = None
        low, high = self.mesh.bounds(*link_poses(robot, robot.neutral()))
        self.size = float(np.clip(np.linalg.norm(high - low), 1e-3, 1e4))
        self.show("visuals", True)

    def draw(self, now: Snapshot) -> None:
        """Draw links, contacts and forces as they are at one time."""
        for node, R_0l, position in zip(self._links, now.R, now.p, strict=True):
            node.wxyz, node.position = wxyz(R_0l), position
        self._annotate(now)

    def shift(self, by: np.ndarray) -> None:
        """Move the whole robot aside, with all that belongs to it."""
        self._base.position = by

    def hide(self, hidden: bool) -> None:
        """Hide all of it, or show again what was shown."""
        self._base.visible = not hidden

    def show(self, layer: str, on: bool) -> None:
        """Show or hide one of panel.LAYERS."""
        (self.shown.add if on else self.shown.discard)(layer)
        makers = {"visuals": self._visuals, "collisions": self._collisions, "frames": self._frames, "inertias": self._inertias}
        if on and layer in makers and layer not in self._layers:
            self._layers[layer] = list(makers[layer]())
        for node in self._layers.get(layer, ()):
            node.visible = on
        if self._last is not None:
            self._annotate(self._last)

    def trail(self, points: np.ndarray) -> None:
        """Draw a line through points (n, 3)."""
        if len(points) >= 2:
            segments = np.stack([points[:-1], points[1:]], axis=1)
            style = {
                "colors": GHOST if self.ghost else bytes_of(TRAIL),
                "thickness": 2.5,
                "thickness_units": "screen",
                "visible": "trail" in self.shown,
            }
            self._layers["trail"] = [self._scene.add_line_segments(f"{self.root}/trail", segments, **style)]

    def on_drag(self, react: Callable[[int, Any], None]) -> None:
        """Call `react(link, event)` when the mouse drags a link."""
        for link, mesh in self._link_meshes:
            # the order of events is kept only by functions of this kind
            async def dragged(event: Any, link: int = link) -> None:
                react(link, event)

            mesh.on_drag("left")(dragged)

    def _warn(self, found: Sequence[Piece]) -> None:
        self.warnings = list(dict.fromkeys([*self.warnings, *(piece.warning for piece in found if piece.warning)]))

    # -- layers that move with the links

    def _visuals(self) -> Iterator[Any]:
        for link, mesh in self._meshes(self.mesh.pieces, "v", 1.0):
            if link >= 0 and not self.ghost:
                self._link_meshes.append((link, mesh))
            yield mesh

    def _collisions(self) -> Iterator[Any]:
        found = robot_mesh(self.robot, "collision").pieces
        self._warn(found)
        yield from (mesh for _, mesh in self._meshes(found, "c", 0.5))

    def _path(self, link: int) -> str:
        return self.root if link < 0 else f"{self.root}/{link}"

    def _meshes(self, found: Sequence[Piece], letter: str, opacity: float) -> Iterator[tuple[int, Any]]:
        """(link, mesh): one mesh for all pieces of a link that have one colour."""
        groups: dict[tuple[int, tuple[float, ...]], list[Piece]] = {}
        for piece in found:
            groups.setdefault((piece.link, piece.color), []).append(piece)
        for k, ((link, color), members) in enumerate(groups.items()):
            joined = merge(members)
            alpha = color[3] * opacity * (GHOST_OPACITY if self.ghost else 1.0)
            mesh = self._scene.add_mesh_simple(
                f"{self._path(link)}/{letter}{k}",
                joined.vertices,
                joined.faces,
                color=GHOST if self.ghost else bytes_of(color[:3]),
                opacity=None if alpha >= 0.999 else max(alpha, 0.05),
                cast_shadow=not self.ghost and opacity == 1.0,
                receive_shadow=not self.ghost,
            )
            yield link, mesh

    def _frames(self) -> Iterator[Any]:
        length = 0.13 * self.size
        style = {"axes_length": length, "axes_radius": 0.03 * length, "origin_radius": 0.06 * length}
        # frames with one pose are drawn once, with all their names
        groups: dict[tuple[float, ...], list[Frame]] = {}
        for frame in self.robot.model.frames:
            key = np.round(np.append(np.asarray(frame.pose.p, dtype=float), np.asarray(frame.pose.R, dtype=float)), 6)
            groups.setdefault((frame.link, *key), []).append(frame)
        for k, group in enumerate(groups.values()):
            name, pose = f"{self._path(group[0].link)}/f{k}", group[0].pose
            where = {"wxyz": wxyz(pose.R), "position": np.asarray(pose.p, dtype=float)}
            yield self._scene.add_frame(name, origin_color=(120, 120, 120), **style, **where)
            if len(groups) <= MAX_LABELS:
                label = short(", ".join(short(frame.name, 60) for frame in group), 90)
                yield self._scene.add_label(f"{name}/n", label, font_screen_scale=0.75)

    def _inertias(self) -> Iterator[Any]:
        ball = triangles(sphere(1.0))[0]
        color = GHOST if self.ghost else (235, 160, 20)
        for i, link in self.robot.model.outward():
            found = ellipsoid(link)
            if found is not None:
                center, R, axes = found
                # thin ones are still seen
                vertices = (ball.vertices * np.maximum(axes, 2e-3 * self.size)) @ R.T + center
                yield self._scene.add_mesh_simple(f"{self.root}/{i}/e", vertices, ball.faces, color=color, opacity=0.45, **UNLIT)

    # -- layers that change with time

    def _annotate(self, now: Snapshot) -> None:
        """Draw what is shown of one time besides the links: centre of mass, contact points, forces as arrows, polylines."""
        self._last = now
        self._update("center", "center" in self.shown, self._add_center, "position", now.center)
        self._arrows("contacts", now.contacts, now.forces, FORCE)
        self._arrows("pushes", now.push_points, now.pushes, PUSH)
        self._points("points", "contacts" in self.shown, now.contacts, FORCE, 0.012 * self.size)
        for k, points in enumerate(now.polylines):
            self._points(f"dots{k}", "plan" in self.shown, points, PLAN, 2.0 * DOT * self.size)
            self._lines(f"line{k}", "plan" in self.shown, points)

    def _points(self, name: str, wanted: bool, points: np.ndarray, color: Rgb, size: float) -> None:
        points = points.astype(np.float32)
        style = {"point_size": size, "point_shape": "circle", "precision": "float32"}

        def add(name: str) -> Any:
            return self._scene.add_point_cloud(name, points, bytes_of(color), **style)

        self._update(name, wanted and len(points) > 0, add, "points", points)

    def _lines(self, name: str, wanted: bool, points: np.ndarray) -> None:
        segments = np.stack([points[:-1], points[1:]], axis=1).astype(np.float32)

        def add(name: str) -> Any:
            return self._scene.add_line_segments(name, segments, bytes_of(PLAN), thickness=2.5, thickness_units="screen")

        self._update(name, wanted and len(segments) > 0, add, "points", segments)

    def _update(self, name: str, wanted: bool, add: Callable[[str], Any], attribute: str, value: np.ndarray) -> None:
        """Set an attribute of the node of this name, which is made when it is first wanted."""
        if wanted and name not in self._layers:
            self._layers[name] = [add(f"{self.root}/{name}")]
        for node in self._layers.get(name, ()):
            node.visible = wanted
            if wanted:
                setattr(node, attribute, value)

    def _add_center(self, name: str) -> Any:
        radius = 0.028 * self.size
        frame = self._scene.add_frame(name, show_axes=False)
        self._scene.add_icosphere(f"{name}/ball", radius, color=bytes_of(CENTER), opacity=0.9, **UNLIT)
        # the usual sign: a black ring in each of two planes
        for k, turn in enumerate([(1.0, 0.0, 0.0, 0.0), (0.7071067811865476, 0.7071067811865476, 0.0, 0.0)]):
            self._scene.add_cylinder(f"{name}/ring{k}", 1.02 * radius, 0.3 * radius, color=(25, 25, 25), wxyz=turn, **UNLIT)
        return frame

    def _arrows(self, layer: str, points: np.ndarray, forces: np.ndarray, color: Rgb) -> None:
        along = arrow_vectors(self.stretch * forces, robot_weight(self.robot) or 1.0, self.size, LONGEST_ARROW)
        drawn = np.linalg.norm(along, axis=1) > SHORTEST_ARROW * self.size
        ends = np.stack([points, points + along], axis=1)[drawn].astype(np.float32)
        thick = (0.006 if self.ghost else 0.008) * self.size

        def add(name: str) -> Any:
            # viser takes the colours of arrows for intensities of light
            light = bytes_of(c**2.2 for c in color)
            return self._scene.add_arrows(name, ends, light, shaft_radius=thick, head_radius=2.4 * thick, head_length=4.5 * thick)

        self._update(layer, layer in self.shown and len(ends) > 0, add, "points", ends)


class Environment:
    """Ground, grid, light and camera around the box from `low` to `high`, (3,) each."""

    def __init__(self, server: Any, low: np.ndarray, high: np.ndarray, ground: Any = None, *, dark: bool = False) -> None:
        self._server, self._ground, self._low, self._high = server, ground, low, high
        self._center, self._radius = 0.5 * (low + high), 0.5 * float(np.linalg.norm(high - low))
        self.grid_on = True
        self._nodes: list[Any] = []
        self._place_camera()
        self.paint(dark)

    def paint(self, dark: bool) -> None:
        """Draw theme and ground, in dark or light."""
        self.dark = dark
        self._server.gui.configure_theme(dark_mode=dark, show_logo=False, show_share_button=False, brand_color=BRAND)
        scene, colors = self._server.scene, DARK if dark else LIGHT
        for node in self._nodes:
            node.remove()
        normal, offset = self._plane()
        if normal is None:
            vertices, faces = terrain(self._ground, self._low, self._high)
            self._nodes = [scene.add_mesh_simple("/ground", vertices, faces, color=colors["section_color"], side="double")]
            return
        cell = round_up(self._radius / 7.0)
        size = {"cell_size": cell, "section_size": 5.0 * cell, "cell_thickness": 0.8, "section_thickness": 1.2}
        size["fade_distance"] = 28.0 * self._radius
        where = {"wxyz": z_to(normal), "position": normal * offset}
        corner = self._grid_corner(normal, offset, cell)
        self._nodes = [
            scene.add_grid("/ground", infinite_grid=True, visible=self.grid_on, **size, **colors, **where),
            scene.add_label("/scale", f"grid {cell:g} m", position=corner, font_screen_scale=0.75, visible=self.grid_on),
        ]

    def show_grid(self, on: bool) -> None:
        """Show or hide the ground's grid."""
        self.grid_on = on
        for node in self._nodes:
            node.visible = on

    def reset_cameras(self) -> None:
        """Put the cameras of all open pages where the first one was."""
        first = self._server.initial_camera
        for client in self._server.get_clients().values():
            with client.atomic():
                client.camera.up_direction = first.up
                client.camera.position, client.camera.look_at = first.position, first.look_at

    def _place_camera(self) -> None:
        """Put the first camera where it sees all of the box."""
        toward = VIEW / np.linalg.norm(VIEW)
        distance = self._radius / np.sin(HALF_ANGLE)
        # the panel covers the right side: the robot is a little left of the middle
        right = np.cross(-toward, [0.0, 0.0, 1.0])
        target = self._center + right / np.linalg.norm(right) * 0.3 * self._radius
        camera = self._server.initial_camera
        camera.up, camera.look_at, camera.position = (0.0, 0.0, 1.0), target, self.above_ground(target + toward * distance)
        camera.near, camera.far = max(distance * 1e-3, 1e-4), distance * 200.0

    def above_ground(self, position: np.ndarray) -> np.ndarray:
        """The position of a camera, lifted to a little above the ground if it is below; as it is where the ground is not flat."""
        normal, offset = self._plane()
        if normal is None:
            return position
        return position + normal * max(LOWEST_CAMERA * self._radius + offset - float(normal @ position), 0.0)

    def keep_above_ground(self, camera: Any) -> None:
        """Lift the camera of a page that was turned below the ground; it goes on looking at the same point."""
        position, target = np.array(camera.position), np.array(camera.look_at)
        lifted, (normal, _) = self.above_ground(position), self._plane()
        if normal is None or np.linalg.norm(lifted - position) < 1e-3 * self._radius:
            return
        # as far from the point as before: what is lost in depth is gained along the ground
        up = normal * float(normal @ (lifted - target))
        aside = lifted - target - up
        far = max(float(np.sum((position - target) ** 2) - np.sum(up**2)), 0.0) ** 0.5
        camera.position = target + up + aside * (far / max(float(np.linalg.norm(aside)), 1e-9))
        camera.look_at = target

    def _plane(self) -> tuple[np.ndarray | None, float]:
        """(normal, offset) of the ground, normal None if it is not flat; without one it is at zero, or at the lowest point."""
        plane = flat_ground(self._ground)
        if self._ground is not None and plane is None:
            return None, 0.0
        return plane if plane is not None else (np.array([0.0, 0.0, 1.0]), float(min(self._low[2], 0.0)))

    def _grid_corner(self, normal: np.ndarray, offset: float, cell: float) -> np.ndarray:
        """A crossing of grid lines between the robot and the camera."""
        x, y = np.round((self._center[:2] + 0.85 * self._radius * VIEW[:2] / np.linalg.norm(VIEW[:2])) / cell) * cell
        z = (offset - normal[0] * x - normal[1] * y) / normal[2] if abs(normal[2]) > 1e-6 else 0.0
        return np.array([x, y, z])


def bytes_of(color: Iterable[float]) -> tuple[int, ...]:
    """A colour from 0 to 255."""
    return tuple(round(255 * c) for c in color)


def wxyz(R: Any) -> tuple[float, float, float, float]:
    """The quaternion (w, x, y, z) of a rotation R (3, 3)."""
    x, y, z, w = quaternions(np.asarray(R, dtype=float)[None])[0]
    return w, x, y, z


def z_to(normal: np.ndarray) -> tuple[float, float, float, float]:
    """The quaternion (w, x, y, z) of the rotation that takes z to a unit normal."""
    w = 1.0 + normal[2]
    found = np.array([w, -normal[1], normal[0], 0.0]) if w > 1e-9 else np.array([0.0, 1.0, 0.0, 0.0])
    w, x, y, z = (float(c) for c in found / np.linalg.norm(found))
    return w, x, y, z


def ellipsoid(link: Link) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """(centre, R, half axes) of the uniform ellipsoid with the mass and inertia of a link, in its frame; None without mass.

    Its moments are I_k = m (a_i^2 + a_j^2) / 5, so a_i^2 = 5 (I_j + I_k - I_i) / (2 m).
    """
    inertia = link.inertia
    I = np.asarray(inertia.I_com, dtype=float)
    if not inertia.mass > MIN_MASS or not np.all(np.isfinite(I)):
        return None
    moments, R = np.linalg.eigh(0.5 * (I + I.T))
    if np.linalg.det(R) < 0.0:
        R = R * np.array([1.0, 1.0, -1.0])
    # moments that no body has (they break the triangle inequality) leave an axis of no length
    squares = 2.5 / float(inertia.mass) * (moments.sum() - 2.0 * moments)
    return np.asarray(inertia.com, dtype=float), R, np.sqrt(np.maximum(squares, 0.0))


def terrain(ground: Any, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(vertices, faces) of a ground's surface about the box: where vertical lines meet it, by Newton's method."""
    center, half = 0.5 * (low + high)[:2], 1.5 * float(np.linalg.norm(high - low))
    steps = np.linspace(-half, half, TERRAIN_CELLS + 1)
    points = np.array([[center[0] + x, center[1] + y, float(high[2])] for y in steps for x in steps])
    for point in points:
        for _ in range(8):
            distance, normal = ground.distance(point)
            point[2] -= float(distance) / max(float(normal[2]), 0.2)
    a = (np.arange(TERRAIN_CELLS)[:, None] * (TERRAIN_CELLS + 1) + np.arange(TERRAIN_CELLS)).ravel()
    b, c, d = a + 1, a + TERRAIN_CELLS + 2, a + TERRAIN_CELLS + 1
    return points, np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])
