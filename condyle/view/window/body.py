"""A robot in the scene: one node for each link, with everything that is fixed to the link below it.

Nodes are numbered, not named after the robot's parts: names from files may hold anything, slashes included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from condyle.multibody.robot import Robot
from condyle.robot.model import Frame, Link
from condyle.view.geometry import Piece, bounds, pieces, shaded
from condyle.view.trajectory import link_poses, quaternions
from condyle.view.window.text import short

GHOST = (90, 130, 235)  # the tint of a second run
GHOST_OPACITY = 0.35
LAYERS = ("visuals", "collisions", "frames", "inertias")
LIGHTEST = 1e-9  # kg, of a link whose inertia is drawn
MOST_LABELS = 80


class Body:
    """The nodes of one robot under `root`; `show` makes a layer the first time it is wanted."""

    def __init__(self, server: Any, robot: Robot, root: str, *, ghost: bool = False) -> None:
        self.robot, self.root, self.ghost = robot, root, ghost
        self.looks = pieces(robot.model)
        self.notes = list(dict.fromkeys(piece.note for piece in self.looks if piece.note))
        self._scene, self._server = server.scene, server
        self._base = self._scene.add_frame(root, show_axes=False)
        self._links = [self._scene.add_frame(f"{root}/{i}", show_axes=False) for i in range(len(robot.model.links))]
        self._layers: dict[str, list[Any]] = {}
        self._shown: set[str] = set()
        self.grips: list[tuple[int, Any]] = []  # (link, mesh) that the mouse can hold
        self._when_made: Callable[[int, Any], None] | None = None
        R, p = link_poses(robot, robot.neutral())
        low, high = bounds(self.looks, R, p)
        self.size = float(np.clip(np.linalg.norm(high - low), 1e-3, 1e4))
        self.show("visuals", True)

    # ---- where it is

    def place(self, R: np.ndarray, p: np.ndarray) -> None:
        """Put the links where R (links, 3, 3) and p (links, 3) say."""
        turns = quaternions(R[None])[0] if len(R) else R
        for node, turn, at in zip(self._links, turns, p, strict=True):
            node.wxyz = (turn[3], turn[0], turn[1], turn[2])
            node.position = at

    def shift(self, by: np.ndarray) -> None:
        """Move the whole robot aside, with all that belongs to it."""
        self._base.position = by

    # ---- what is shown

    def shows(self, layer: str) -> bool:
        return layer in self._shown

    def hide(self, hidden: bool) -> None:
        """Hide all of it, or show again what was shown."""
        self._base.visible = not hidden

    def show(self, layer: str, on: bool) -> None:
        """Show or hide one of LAYERS."""
        if on and layer not in self._layers:
            self._layers[layer] = list(self._make(layer))
        for node in self._layers.get(layer, ()):
            node.visible = on
        (self._shown.add if on else self._shown.discard)(layer)

    def on_grip(self, made: Callable[[int, Any], None]) -> None:
        """Call `made(link, mesh)` for each mesh of the robot's looks, now and later."""
        self._when_made = made
        for link, mesh in self.grips:
            made(link, mesh)

    def _make(self, layer: str) -> Iterator[Any]:
        if layer == "visuals":
            yield from self._meshes(self.looks, "v", 1.0)
        elif layer == "collisions":
            found = pieces(self.robot.model, which="collision")
            self.notes = list(dict.fromkeys([*self.notes, *(piece.note for piece in found if piece.note)]))
            yield from self._meshes(found, "c", 0.5)
        elif layer == "frames":
            yield from self._axes()
        else:
            yield from self._ellipsoids()

    def _parent(self, link: int) -> str:
        return self.root if link < 0 else f"{self.root}/{link}"

    def _meshes(self, found: list[Piece], letter: str, opacity: float) -> Iterator[Any]:
        # one mesh for all pieces of a link that have one colour
        groups: dict[tuple[int, tuple[float, ...]], list[Piece]] = {}
        for piece in found:
            groups.setdefault((piece.link, piece.color), []).append(piece)
        for k, ((link, color), members) in enumerate(groups.items()):
            vertices, faces = _joined(members)
            see_through = color[3] * opacity * (GHOST_OPACITY if self.ghost else 1.0)
            tint = GHOST if self.ghost else tuple(round(255 * c) for c in color[:3])
            mesh = self._scene.add_mesh_simple(
                f"{self._parent(link)}/{letter}{k}",
                vertices,
                faces,
                color=tint,
                opacity=None if see_through >= 0.999 else max(see_through, 0.05),
                cast_shadow=not self.ghost and opacity == 1.0,
                receive_shadow=not self.ghost,
            )
            if letter == "v" and link >= 0 and not self.ghost:
                self.grips.append((link, mesh))
                if self._when_made is not None:
                    self._when_made(link, mesh)
            yield mesh

    def _axes(self) -> Iterator[Any]:
        length = 0.13 * self.size
        # frames at one place are drawn once, with all their names
        groups: list[list[Frame]] = []
        for frame in self.robot.model.frames:
            same = (group for group in groups if _same_place(group[0], frame))
            group = next(same, None)
            if group is None:
                groups.append([frame])
            else:
                group.append(frame)
        for k, group in enumerate(groups):
            first = group[0]
            x, y, z, w = quaternions(np.asarray(first.pose.R, dtype=float)[None])[0]
            name = f"{self._parent(first.link)}/f{k}"
            yield self._scene.add_frame(
                name,
                axes_length=length,
                axes_radius=0.03 * length,
                origin_radius=0.06 * length,
                origin_color=(120, 120, 120),
                wxyz=(w, x, y, z),
                position=np.asarray(first.pose.p, dtype=float),
            )
            if len(groups) <= MOST_LABELS:
                words = short(", ".join(short(frame.name, 60) for frame in group), 90)
                yield self._scene.add_label(f"{name}/n", words, font_screen_scale=0.75)

    def _ellipsoids(self) -> Iterator[Any]:
        ball, faces = _sphere()
        for i, link in self.robot.model.outward():
            found = ellipsoid(link)
            if found is None:
                continue
            centre, R, half = found
            # thin ones are still seen
            vertices = (ball * np.maximum(half, 2e-3 * self.size)) @ R.T + centre
            yield self._scene.add_mesh_simple(
                f"{self.root}/{i}/e",
                vertices,
                faces,
                color=GHOST if self.ghost else (235, 160, 20),
                opacity=0.45,
                cast_shadow=False,
                receive_shadow=False,
            )


def _same_place(one: Frame, two: Frame) -> bool:
    return one.link == two.link and all(
        np.allclose(a, b, atol=1e-6) for a, b in ((one.pose.p, two.pose.p), (one.pose.R, two.pose.R))
    )


def ellipsoid(link: Link) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """(centre, R, half axes) of the uniform ellipsoid with the mass and inertia of a link, in its frame; None without mass.

    Its moments are I_k = m (a_i^2 + a_j^2) / 5, so a_i^2 = 5 (I_j + I_k - I_i) / (2 m).
    """
    inertia = link.inertia
    if not inertia.mass > LIGHTEST:
        return None
    I = np.asarray(inertia.I_com, dtype=float)
    if not np.all(np.isfinite(I)):
        return None
    moments, R = np.linalg.eigh(0.5 * (I + I.T))
    if np.linalg.det(R) < 0.0:
        R = R * np.array([1.0, 1.0, -1.0])
    # moments that no body has (they break the triangle inequality) leave an axis of no length
    squares = 2.5 / float(inertia.mass) * (moments.sum() - 2.0 * moments)
    return np.asarray(inertia.com, dtype=float), R, np.sqrt(np.maximum(squares, 0.0))


def _joined(members: list[Piece]) -> tuple[np.ndarray, np.ndarray]:
    """One mesh of several, vertices doubled where an edge is sharp."""
    vertices, faces, count = [], [], 0
    for piece in members:
        v, _, f = shaded(piece.vertices, piece.faces)
        vertices.append(v)
        faces.append(f + count)
        count += len(v)
    return np.concatenate(vertices), np.concatenate(faces)


def _sphere(around: int = 24, along: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """A unit sphere, (n, 3) vertices and (m, 3) faces."""
    turn, rise = np.meshgrid(np.arange(around) * 2.0 * np.pi / around, np.linspace(-np.pi / 2, np.pi / 2, along + 1))
    vertices = np.stack([np.cos(rise) * np.cos(turn), np.cos(rise) * np.sin(turn), np.sin(rise)], axis=-1).reshape(-1, 3)
    a = (np.arange(along)[:, None] * around + np.arange(around)).ravel()
    b = (np.arange(along)[:, None] * around + (np.arange(around) + 1) % around).ravel()
    faces = np.concatenate([np.stack([a, b, b + around], axis=1), np.stack([a, b + around, a + around], axis=1)])
    return vertices, faces
