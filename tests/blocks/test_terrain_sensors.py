"""Range to the ground and heights around a robot, over every kind of ground, against planes and fine searches."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from simulate.bodies import a_box, lower_corners, simulation

import condyle as cd
from condyle.blocks import HeightScan, RangeFinder
from condyle.blocks.terrain_sensors import height_above, ray_length
from condyle.simulate.terrain import Ground

LIMIT = 4.0
rng = np.random.default_rng(5)
GROUNDS = [
    cd.Plane(normal=(0.1, -0.2, 1.0), offset=0.1),
    cd.Slope(20.0, 30.0),
    cd.Stairs(0.15, 0.4, 4, start=0.3),
    cd.HeightField(rng.uniform(-0.2, 0.2, (6, 5)), 0.5, (-1.0, -1.0)),
    cd.Terrain(lambda x, y: 0.2 * np.sin(2.0 * x) * np.cos(y) + 0.05 * x),
]
each_ground = pytest.mark.parametrize("ground", GROUNDS, ids=lambda ground: type(ground).__name__)
STARTS = np.array([[0.0, 0.0, 1.0], [-0.5, 0.4, 1.2], [0.7, -0.3, 1.5]])
RAYS = np.array([[0.0, 0.0, -1.0], [0.6, 0.0, -0.8], [-0.3, 0.4, -0.6], [0.8, 0.1, -0.3]])
RAYS = RAYS / np.linalg.norm(RAYS, axis=1, keepdims=True)


def searched(ground: Ground, p: np.ndarray, u: np.ndarray) -> float:
    """The first crossing by a search in steps of a millimetre, then in finer and finer ones."""
    distance = distance_to(ground)
    low, high = 0.0, LIMIT
    for _ in range(4):
        s = np.linspace(low, high, 4001)
        below = distance(p + s[:, None] * u) <= 0.0
        if not below.any():
            return LIMIT
        k = int(np.argmax(below))
        low, high = s[max(k - 1, 0)], s[k]
    return float(0.5 * (low + high))


@cache
def distance_to(ground: Ground) -> cd.Function:
    """The compiled signed distance of a point."""
    return cd.function(lambda p: ground.distance(p)[0], p=3)


@each_ground
def test_a_ray_meets_the_ground_first_where_a_search_does(ground: Ground) -> None:
    traced = cd.function(lambda p, u: ray_length(ground, p, u, LIMIT), p=3, u=3)
    for p in STARTS:
        expected = [searched(ground, p, u) for u in RAYS]
        assert np.abs(traced(np.tile(p, (4, 1)), RAYS) - expected).max() < 1e-11
    # on floats, too
    p, u = STARTS[1], RAYS[2]
    assert float(ray_length(ground, p, u, LIMIT)) == pytest.approx(traced(p, u), rel=1e-12)


def test_a_plane_is_met_exactly() -> None:
    ground = cd.Plane(offset=0.25)
    assert ray_length(ground, np.array([0.0, 0.0, 1.25]), np.array([0.6, 0.0, -0.8]), LIMIT) == 1.25
    assert ray_length(ground, np.array([0.0, 0.0, 1.25]), np.array([0.6, 0.0, 0.8]), LIMIT) == LIMIT
    assert ray_length(ground, np.array([0.0, 0.0, 0.2]), np.array([0.6, 0.0, 0.8]), LIMIT) == 0.0


def test_a_range_has_the_derivative_of_the_crossing() -> None:
    ground = GROUNDS[4]
    length = cd.function(lambda p: ray_length(ground, p, RAYS[2], LIMIT), p=3)
    gradient, h = length.jacobian("out", "p")(STARTS[1]), 1e-5
    steps = [(length(STARTS[1] + e) - length(STARTS[1] - e)) / (2.0 * h) for e in np.eye(3) * h]
    assert np.abs(gradient - steps).max() < 1e-8


@each_ground
def test_heights_are_those_of_the_ground(ground: Ground) -> None:
    for p in STARTS:
        h = height_above(ground, p)
        assert abs(ground.distance(p + np.array([0.0, 0.0, h]))[0]) < 1e-15 * 4


def test_both_in_a_loop() -> None:
    """A box in the air, rolled and yawed: the ray follows its axes, the grid its heading only."""
    ground, yaw, roll = cd.Terrain(lambda x, y: 0.1 * x * x - 0.2 * y), 0.7, 0.4
    down = RangeFinder("box", limit=LIMIT, name="down")
    scan = HeightScan("box", xs=(-0.2, 0.0, 0.3), ys=(-0.1, 0.1, 0.2, 0.4), resolution=0.0)
    few = HeightScan("box", xs=(0.3,), ys=(0.4,), name="few")

    def sensing(x: Any) -> Any:
        for sensor in (down, scan, few):
            sensor(x)
        return {}

    loop = cd.Loop(simulation(a_box(), 0.002, ground, lower_corners()[:1]), sensing)
    (a, b), (c, d) = ((np.cos(t / 2.0), np.sin(t / 2.0)) for t in (yaw, roll))
    q = np.array([0.5, -0.3, 1.0, a * d, b * d, b * c, a * c])  # yaw, then roll about its own x
    out = loop.rollout(loop.state(q=q), None, 1, record=["down.range", "height_scan.heights", "few.heights"])
    axis = np.array([np.sin(roll) * -np.sin(yaw), np.sin(roll) * np.cos(yaw), -np.cos(roll)])
    assert out["down.range"][0] == pytest.approx(searched(ground, q[:3], axis), abs=1e-11)
    heights = out["height_scan.heights"][0]
    assert heights.shape == (3, 4)
    for i, x in enumerate(scan.xs):
        for j, y in enumerate(scan.ys):
            X, Y = q[0] + np.cos(yaw) * x - np.sin(yaw) * y, q[1] + np.sin(yaw) * x + np.cos(yaw) * y
            assert heights[i, j] == pytest.approx(0.1 * X * X - 0.2 * Y - 1.0, abs=1e-14)
    assert out["few.heights"][0, 0, 0] == pytest.approx(heights[2, 3], abs=1e-14)


def test_a_world_without_ground_is_a_sentence() -> None:
    finder = RangeFinder("box")
    with pytest.raises(cd.ControlError, match="sensor 'range_finder': the world has no ground; give it one"):
        cd.Loop(simulation(a_box(), 0.002), lambda x: {"s": finder(x)["range"]})
    with pytest.raises(cd.ControlError, match="direction must be three numbers"):
        RangeFinder("box", direction=(0.0, 0.0, 0.0))
