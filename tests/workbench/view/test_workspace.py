"""Maps of workspaces: a planar pair of links has the known ring, reachability is exact for UR arms, pictures are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.workbench.view.workspace import WorkspaceMap, directions, reachability, workspace_map


@pytest.fixture(scope="module")
def found() -> WorkspaceMap:
    return workspace_map(cd.load("ur3"), "tool", samples=30_000, voxel=0.1, orientations=12)


def test_samples_are_counted_in_their_voxels(found: WorkspaceMap) -> None:
    robot = cd.load("ur3")
    assert found.counts.sum() == 30_000 and np.array_equal(np.isnan(found.manipulability), found.counts == 0)
    # within the sphere of all lengths about the shoulder
    x, y, z = found.centres
    X, Y, Z = np.meshgrid(x, y, z, indexing="ij")
    far = np.sqrt(X**2 + Y**2 + (Z - 0.1519) ** 2)[found.counts > 0]
    reach = 0.24365 + 0.21325 + 0.08535 + 0.0819 + 0.11235
    assert far.max() < reach + 0.1
    assert found.volume == pytest.approx(0.001 * np.sum(found.counts > 0))
    again = workspace_map(robot, "tool", samples=30_000, voxel=0.1)
    assert np.array_equal(again.counts, found.counts) and again.reachability is None
    assert np.array_equal(again.manipulability, found.manipulability, equal_nan=True)


def test_reachability_is_that_of_inverse_kinematics(found: WorkspaceMap) -> None:
    robot, R = cd.load("ur3"), directions(12)
    assert found.reachability is not None
    assert np.array_equal(np.isnan(found.reachability), found.counts == 0)
    assert np.nanmin(found.reachability) == 0.0 and np.nanmax(found.reachability) == 1.0
    k = np.argwhere(np.nan_to_num(found.reachability) > 0.4)[7]
    point = np.array([each[i] for each, i in zip(found.centres, k, strict=True)])
    ok = robot.inverse_kinematics("tool", (R, point), tolerance=1e-8).ok
    assert found.reachability[tuple(k)] == np.mean(ok)
    assert reachability(robot, "tool", [2.0, 0.0, 0.0], orientations=5) == 0.0


def test_directions_are_rotations_that_balance() -> None:
    R = directions(200)
    assert np.abs(R @ np.swapaxes(R, -1, -2) - np.eye(3)).max() < 1e-12 and np.linalg.det(R) == pytest.approx(np.ones(200))
    assert np.abs(np.mean(R[:, :, 2], axis=0)).max() < 0.01
    nearest = np.sort(R[:, :, 2] @ R[:, :, 2].T, axis=1)[:, -2]
    assert np.ptp(np.arccos(nearest)) < 0.08


def test_pictures_are_written(found: WorkspaceMap, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figure = found.picture(tmp_path / "map.png", plane="xy", at=0.2)
    assert (tmp_path / "map.png").stat().st_size > 10_000 and len(figure.axes) == 4
    assert found.slice(found.counts, "xz", 0.0).shape == (found.counts.shape[0], found.counts.shape[2])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda found: found.slice(found.counts, "zx"), "plane of a slice is"),
        (lambda found: found.slice(found.counts, "xy", 5.0), "outside of the map"),
        (lambda found: workspace_map(cd.load("ur3"), "tool", samples=0), "samples is a whole number from 1 up"),
        (lambda found: workspace_map(cd.load("ur3"), "tool", samples=100, voxel=0.0), "voxel is a positive length"),
        (lambda found: workspace_map(cd.load("ur3"), "tool", samples=100, voxel=1e-4), "take larger ones"),
        (lambda found: reachability(cd.load("ur3"), "tool", np.zeros(2)), r"points of 3 numbers"),
    ],
)
def test_wrong_arguments_are_sentences(found: WorkspaceMap, call: Any, words: str) -> None:
    with pytest.raises(cd.RobotError, match=words):
        call(found)
