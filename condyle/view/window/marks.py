"""What is drawn about a robot besides its body: centre of mass, contact points, forces as arrows, and a trail."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

CONTACT = (232, 84, 32)  # the ground's forces: red-orange
PUSH = (139, 63, 214)  # forces of others: violet
CENTRE = (242, 196, 15)
TRAIL = (38, 130, 190)
LAYERS = ("centre of mass", "contacts", "pushes", "trail")
SHORTEST = 0.01  # an arrow shorter than this part of the robot is not drawn
LONGEST = 1.5  # and none is longer than this
_NONE = np.zeros((0, 3))


@dataclass(frozen=True, eq=False)
class Moment:
    """Where a robot is and what acts on it: R, p of the links; points and forces (n, 3) in the axes of the world."""

    R: np.ndarray
    p: np.ndarray
    centre: np.ndarray
    contacts: np.ndarray = field(default_factory=lambda: _NONE)
    forces: np.ndarray = field(default_factory=lambda: _NONE)
    push_points: np.ndarray = field(default_factory=lambda: _NONE)
    pushes: np.ndarray = field(default_factory=lambda: _NONE)


class Marks:
    """The marks of one robot under its root; `weight` in N is drawn as an arrow of the robot's size."""

    def __init__(self, server: Any, root: str, size: float, weight: float, *, faint: bool = False) -> None:
        self._scene, self._root, self._size = server.scene, root, size
        self._faint = faint
        self.weight = weight if weight > 0.0 else 1.0
        self.stretch = 1.0
        self.shown = {"contacts", "pushes"}
        self._nodes: dict[str, Any] = {}
        self._last: Moment | None = None

    def show(self, layer: str, on: bool) -> None:
        """Show or hide one of LAYERS."""
        (self.shown.add if on else self.shown.discard)(layer)
        if self._last is not None:
            self.draw(self._last)
        if layer == "trail" and "trail" in self._nodes:
            self._nodes["trail"].visible = on

    def draw(self, moment: Moment) -> None:
        """Draw what is to be shown of a moment."""
        self._last = moment
        self._centre(moment.centre)
        self._arrows("contacts", moment.contacts, moment.forces, CONTACT)
        self._arrows("pushes", moment.push_points, moment.pushes, PUSH)
        self._points(moment.contacts)

    def trail(self, points: np.ndarray) -> None:
        """Draw a line through points (n, 3)."""
        if len(points) < 2:
            return
        segments = np.stack([points[:-1], points[1:]], axis=1)
        self._nodes["trail"] = self._scene.add_line_segments(
            f"{self._root}/trail", segments, colors=TRAIL, thickness=2.5, thickness_units="screen", visible="trail" in self.shown
        )

    def length(self, force: float) -> float:
        """Of the arrow of a force, m."""
        return float(min(self.stretch * force / self.weight, LONGEST) * self._size)

    def _centre(self, at: np.ndarray) -> None:
        wanted = "centre of mass" in self.shown
        if wanted and "centre" not in self._nodes:
            radius = 0.028 * self._size
            ball = {"cast_shadow": False, "receive_shadow": False}
            frame = self._scene.add_frame(f"{self._root}/centre", show_axes=False)
            self._scene.add_icosphere(f"{self._root}/centre/ball", radius, color=CENTRE, opacity=0.9, **ball)
            # a black ring in each of two planes makes it the usual sign
            for k, turn in enumerate([(1.0, 0.0, 0.0, 0.0), (0.7071067811865476, 0.7071067811865476, 0.0, 0.0)]):
                self._scene.add_cylinder(
                    f"{self._root}/centre/ring{k}", 1.02 * radius, 0.3 * radius, color=(25, 25, 25), wxyz=turn, **ball
                )
            self._nodes["centre"] = frame
        if "centre" in self._nodes:
            self._nodes["centre"].visible = wanted
            self._nodes["centre"].position = at

    def _arrows(self, layer: str, points: np.ndarray, forces: np.ndarray, color: tuple[int, int, int]) -> None:
        arrows = []
        for at, force in zip(points, forces, strict=True) if layer in self.shown else ():
            size = float(np.linalg.norm(force))
            length = self.length(size)
            if np.isfinite(size) and length > SHORTEST * self._size:
                arrows.append((at, at + force * (length / size)))
        node = self._nodes.get(layer)
        if not arrows:
            if node is not None:
                node.visible = False
            return
        ends = np.array(arrows, dtype=np.float32)
        if node is None:
            thick = (0.006 if self._faint else 0.008) * self._size
            self._nodes[layer] = self._scene.add_arrows(
                f"{self._root}/{layer}",
                ends,
                _linear(color),
                shaft_radius=thick,
                head_radius=2.4 * thick,
                head_length=4.5 * thick,
            )
        else:
            node.points = ends
            node.visible = True

    def _points(self, at: np.ndarray) -> None:
        wanted = "contacts" in self.shown and len(at) > 0
        node = self._nodes.get("points")
        if not wanted:
            if node is not None:
                node.visible = False
            return
        if node is None:
            self._nodes["points"] = self._scene.add_point_cloud(
                f"{self._root}/points",
                at.astype(np.float32),
                CONTACT,
                point_size=0.012 * self._size,
                point_shape="circle",
                precision="float32",
            )
        else:
            node.points = at.astype(np.float32)
            node.visible = True


def _linear(color: tuple[int, int, int]) -> tuple[int, int, int]:
    """The numbers that make arrows look like this colour: viser takes those of arrows for intensities of light."""
    r, g, b = (round(255.0 * (c / 255.0) ** 2.2) for c in color)
    return r, g, b
