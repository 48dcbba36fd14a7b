"""Maps of an arm's workspace: where its tool gets, how well it moves there, and in how many orientations; as arrays and pictures.

found = workspace_map(robot, "tool", orientations=60)
found.manipulability                    # (nx, ny, nz), the highest in each voxel, NaN where the tool never was
found.picture("workspace.png", plane="xz", at=0.0)
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from condyle.atomic_write import write_bytes
from condyle.errors import RobotError, require
from condyle.multibody.closed_form_kinematics import geometry, inverse_kinematics_solutions
from condyle.multibody.manipulability import manipulability
from condyle.multibody.robot import Robot

CHUNK = 65536  # configurations of one kernel call
LARGEST = 4_000_000  # voxels of a map
PLANES = {"yz": 0, "xz": 1, "xy": 2}  # the axis across each plane
GOLDEN = np.pi * (3.0 - np.sqrt(5.0))  # rad, between points of the spiral on the sphere


@dataclass(frozen=True)
class WorkspaceMap:
    """A grid of voxels in the world's axes with what samples and inverse kinematics say about each.

    edges: three arrays of coordinates, m. counts: samples in each voxel, (nx, ny, nz). manipulability: the highest of them, NaN
    where there are none. reachability: the share of orientations that inverse kinematics reaches at the voxel's centre, from 0 to
    1, NaN where no sample was; None if it was not asked for.
    """

    robot: str
    frame: str
    edges: tuple[np.ndarray, np.ndarray, np.ndarray]
    counts: np.ndarray
    manipulability: np.ndarray
    reachability: np.ndarray | None

    @property
    def centres(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Coordinates of the voxels' centres along each axis, m."""
        x, y, z = (0.5 * (each[1:] + each[:-1]) for each in self.edges)
        return x, y, z

    @property
    def volume(self) -> float:
        """The volume of all voxels where the tool was, m^3."""
        return float(np.sum(self.counts > 0) * np.prod([each[1] - each[0] for each in self.edges]))

    def slice(self, values: np.ndarray, plane: str = "xz", at: float = 0.0) -> np.ndarray:
        """The layer of an array of this grid that contains the plane: "xz" at y, "xy" at z, or "yz" at x, m."""
        across = self._across(plane, at)
        k = int(np.clip(np.searchsorted(self.edges[across], at, side="right") - 1, 0, values.shape[across] - 1))
        layer: np.ndarray = np.take(values, k, axis=across)
        return layer

    def picture(self, path: str | PathLike[str] | None = None, *, plane: str = "xz", at: float = 0.0) -> Any:
        """A matplotlib figure of one slice, also written to `path` (.png, .svg, .pdf): manipulability and reachability.

        Without reachability the first panel is the number of samples. Needs extra `plot`.
        """
        across = self._across(plane, at)
        matplotlib: Any = require("matplotlib.figure", "plot", "maps of workspaces")
        first, second = (k for k in range(3) if k != across)
        panels: list[tuple[str, np.ndarray, str, Any]] = [("highest manipulability", self.manipulability, "viridis", None)]
        if self.reachability is not None:
            panels.append(("share of orientations that are reached", self.reachability, "magma", 1.0))
        else:
            shown = np.where(self.counts > 0, self.counts, np.nan)
            panels.insert(0, ("samples per voxel", shown, "Blues", None))
        figure = matplotlib.Figure(figsize=(5.0 * len(panels), 4.4), layout="constrained")
        for axis, (title, values, colors, high) in zip(figure.subplots(1, len(panels)), panels, strict=True):
            draw_slice(axis, self, values, plane, at, colors, high)
            axis.set_title(title, fontsize=11)
            axis.set_xlabel(f"{'xyz'[first]}, m")
            axis.set_ylabel(f"{'xyz'[second]}, m")
        figure.suptitle(f"{self.robot}: {self.frame}, {'xyz'[across]} = {at:g} m", x=0.01, ha="left", weight="bold")
        if path is not None:
            from io import BytesIO
            from pathlib import Path

            buffer = BytesIO()
            figure.savefig(buffer, format=Path(path).suffix[1:] or "png", dpi=120)
            write_bytes(path, buffer.getvalue())
        return figure

    def _across(self, plane: str, at: float) -> int:
        if plane not in PLANES:
            raise RobotError(f"the plane of a slice is 'xy', 'xz' or 'yz'; got {plane!r:.40}")
        edges = self.edges[PLANES[plane]]
        if not edges[0] <= at <= edges[-1]:
            raise RobotError(f"a slice at {at:g} m is outside of the map, which has {edges[0]:.3g} to {edges[-1]:.3g} m there")
        return PLANES[plane]


def draw_slice(
    axis: Any, found: WorkspaceMap, values: np.ndarray, plane: str, at: float, colors: str, high: float | None
) -> None:
    """Draw a slice of an array of the map with its colour bar on a matplotlib axis."""
    first, second = (k for k in range(3) if k != PLANES[plane])
    layer = found.slice(values, plane, at)
    mesh = axis.pcolormesh(found.edges[first], found.edges[second], layer.T, cmap=colors, vmin=0.0, vmax=high, rasterized=True)
    axis.set_aspect("equal")
    axis.figure.colorbar(mesh, ax=axis, shrink=0.85)


def workspace_map(
    robot: Robot,
    frame: str,
    *,
    samples: int = 200_000,
    voxel: float | None = None,
    task: str = "position",
    orientations: int = 0,
    seed: int = 0,
) -> WorkspaceMap:
    """The workspace of a frame from random configurations within the joint limits, on a grid of voxels.

    voxel: the edge of a voxel, m; by default a 24th of the longest side. task: whose manipulability, as in
    condyle.multibody.manipulability. orientations: if above zero, so many directions of the frame's z axis, evenly spread, each
    with one roll, are searched by inverse kinematics at the centre of every voxel where a sample was.
    """
    for name, value, least in (("samples", samples, 1), ("orientations", orientations, 0)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise RobotError(f"workspace_map: {name} is a whole number from {least} up; got {value!r:.40}")
    rng = np.random.default_rng(seed)
    positions, measures = np.empty((samples, 3)), np.empty(samples)
    for begin in range(0, samples, CHUNK):
        part = slice(begin, min(begin + CHUNK, samples))
        q = robot.random_configuration(rng, part.stop - part.start)
        positions[part] = robot.frame_pose(q, frame)[1]
        measures[part] = manipulability(robot, q, frame, task=task)
    low, high = np.min(positions, axis=0), np.max(positions, axis=0)
    size = float(np.max(high - low)) / 24.0 if voxel is None else float(voxel)
    if not 0.0 < size < np.inf:
        raise RobotError(f"workspace_map: voxel is a positive length in m, and the frame must move; got {voxel!r:.40}")
    shape = np.maximum(np.ceil((high - low) / size).astype(int), 1)
    if np.prod(shape.astype(float)) > LARGEST:
        raise RobotError(f"workspace_map: voxels of {size:g} m make a grid of {' x '.join(map(str, shape))}; take larger ones")
    # the grid is centred on what was reached
    origin = 0.5 * (low + high) - 0.5 * size * shape
    edges = tuple(origin[k] + size * np.arange(shape[k] + 1) for k in range(3))
    index = np.clip(((positions - origin) / size).astype(int), 0, shape - 1)
    flat = np.ravel_multi_index((index[:, 0], index[:, 1], index[:, 2]), tuple(shape))
    counts = np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)
    best = np.full(counts.size, -np.inf)
    np.maximum.at(best, flat, measures)
    highest = np.where(np.isfinite(best), best, np.nan).reshape(shape)
    found = WorkspaceMap(robot.name, frame, (edges[0], edges[1], edges[2]), counts, highest, None)
    if not orientations:
        return found
    x, y, z = found.centres
    occupied = np.argwhere(counts > 0)
    share = np.full(counts.shape, np.nan)
    share[tuple(occupied.T)] = reachability(
        robot, frame, np.column_stack([x[occupied[:, 0]], y[occupied[:, 1]], z[occupied[:, 2]]]), orientations=orientations
    )
    return WorkspaceMap(robot.name, frame, found.edges, counts, highest, share)


def reachability(robot: Robot, frame: str, points: Any, *, orientations: int = 60, restarts: int = 4) -> np.ndarray:
    """The share of orientations in which a frame reaches each point (Zacharias et al. 2007), (...,) of points (..., 3), m.

    Exact for arms like a UR, by their analytic solutions; of others, from `restarts` random configurations, a lower bound.
    """
    points = np.asarray(points, dtype=float)
    if points.shape[-1:] != (3,):
        raise RobotError(f"reachability needs points of 3 numbers, (..., 3); got the shape {points.shape}")
    try:
        geometry(robot.system, frame)
        closed_form = True
    except RobotError:
        closed_form = False
    R, flat = directions(orientations), points.reshape(-1, 3)
    share, step = np.empty(len(flat)), max(CHUNK // orientations, 1)
    for begin in range(0, len(flat), step):
        part = flat[begin : begin + step]
        pose = R, part[:, None, :]
        if closed_form:
            ok = np.any(inverse_kinematics_solutions(robot, frame, pose).ok, axis=-1)
        else:
            ok = robot.inverse_kinematics(frame, pose, tolerance=1e-6, restarts=restarts, iterations=50).ok
        share[begin : begin + step] = np.mean(ok, axis=-1)
    return share.reshape(points.shape[:-1])


def directions(count: int) -> np.ndarray:
    """(count, 3, 3): rotations whose z axes are spread evenly over the sphere, on a spiral (Vogel 1979)."""
    k = np.arange(count) + 0.5
    z = 1.0 - 2.0 * k / count
    r = np.sqrt(1.0 - z * z)
    axis = np.column_stack([r * np.cos(GOLDEN * k), r * np.sin(GOLDEN * k), z])
    # the least component of the axis is never zero everywhere: cross with the unit vector most across
    side = np.cross(axis, np.eye(3)[np.argmin(np.abs(axis), axis=1)])
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    return np.stack([side, np.cross(axis, side), axis], axis=-1)
