"""Distances of shapes and robots: against coal, their derivatives, capsules around links, same bits, and wrong arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markers import slow_except
from processors import OLD, elsewhere

import condyle as cd
from benchmarks.distances import KINDS, CoalConfiguration, batched, compare, random_shapes, scene, wrench
from condyle.errors import RobotError
from condyle.methods.planning import closest_points as pairs
from condyle.methods.planning.obstacles import (
    Box,
    Capsule,
    LinkCapsule,
    Plane,
    RobotDistances,
    Sphere,
    distance,
    fit_capsules,
    robot_distances,
)
from condyle.robot.mesh import read_vertices

TOLERANCE = 1e-9  # of distances (m) and derivatives, against a reference library whose iterations end at 1e-12
SAME = 1e-12  # the same algorithm by other operations
EPS = 1e-6  # step of differences
BY_DIFFERENCES = 1e-6


@pytest.fixture(scope="module")
def ur3() -> RobotDistances:
    return robot_distances(cd.load("ur3"), scene())


@pytest.fixture(scope="module")
def panda() -> RobotDistances:
    try:
        robot = cd.load("panda")
    except cd.CondyleError as error:
        pytest.skip(str(error))
    return robot_distances(robot, scene()[:5])


# ---- pairs


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_agree_with_coal(kind: str) -> None:
    pytest.importorskip("coal")
    found = compare(kind, np.random.default_rng(1), 500)
    assert 0 < found["overlapping"] < 500
    assert found["distance"] < TOLERANCE and found["derivatives"] < TOLERANCE


@pytest.mark.parametrize("kind", KINDS)
def test_witness_points_are_on_a_line_along_the_normal(kind: str) -> None:
    rng = np.random.default_rng(2)
    a, b = (random_shapes(each, rng, 300) for each in kind.split("-"))
    found = batched(kind, a, b)
    assert np.abs(found.point_b - found.point_a - found.distance * found.normal).max() < SAME
    assert np.abs(np.linalg.norm(found.normal, axis=0) - 1.0).max() < SAME


@pytest.mark.parametrize("spread", [1.0, 0.2], ids=["apart", "overlapping"])
def test_derivatives_of_a_capsule_and_a_box(spread: float) -> None:
    """By tape and by the force along the normal for all; by differences where the least depth does not change its face."""
    rng, n = np.random.default_rng(3), 300
    a, b = random_shapes("capsule", rng, n), random_shapes("box", rng, n)
    a["p"], b["p"] = a["p"] * spread, b["p"] * spread
    f = cd.function(
        lambda move, turn, p, along, R, c, half: pairs.capsule_box(
            p - along + move + np.cross(turn, p - along), p + along + move + np.cross(turn, p + along), 0.1, R, c, half
        ).distance,
        cache=False, move=3, turn=3, p=3, along=3, R=(3, 3), c=3, half=3,
    )  # fmt: skip
    along = a["R"][:, :, 2] * (0.5 * a["length"])[:, None]
    fixed, zero = (a["p"], along, b["R"], b["p"], b["half"]), np.zeros((n, 3))
    J = np.concatenate(f.jacobian(wrt=("move", "turn"))(zero, zero, *fixed), axis=-1)
    a["radius"] = np.full(n, 0.1)
    found = batched("capsule-box", a, b)
    assert np.abs(f(zero, zero, *fixed) - found.distance).max() < SAME
    assert np.abs(J + wrench(found.normal, found.point_a).T).max() < TOLERANCE

    def moved(k: int, h: float) -> Any:
        six = np.zeros((n, 6))
        six[:, k] = h
        return f(six[:, :3], six[:, 3:], *fixed)

    ahead = np.stack([moved(k, EPS) - found.distance for k in range(6)], axis=-1) / EPS
    back = np.stack([found.distance - moved(k, -EPS) for k in range(6)], axis=-1) / EPS
    smooth = np.abs(ahead - back).max(axis=-1) < 1e-3
    assert smooth.mean() > 0.97
    assert np.abs(0.5 * (ahead + back) - J)[smooth].max() < BY_DIFFERENCES


@pytest.mark.parametrize("angle", [1e-4, 1e-7, 1e-10])
def test_nearly_parallel_segments_are_exact(angle: float) -> None:
    """The same function in 200 bits is the reference."""
    pytest.importorskip("gmpy2")
    rng, n = np.random.default_rng(9), 40
    a, u, turn, shift = rng.normal(size=(4, n, 3))
    b = a + 0.3 * u + 1e-3 * shift
    f = cd.function(lambda a, u, b, v: pairs.capsule_capsule(a, a + u, 0.1, b, b + v, 0.1).distance, a=3, u=3, b=3, v=3)
    given = a, u, b, 0.8 * u + angle * turn
    exact = np.asarray(f.on("mpfr:200")(*given), dtype=float)
    assert np.abs(f(*given) - exact).max() < SAME


def test_degenerate_pairs_are_finite() -> None:
    turned = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])  # its z axis is x
    rod = Capsule(0.1, 1.0)
    assert distance(rod, Capsule(0.1, 1.0, position=(0.5, 0.0, 0.2))).distance == pytest.approx(0.3, abs=SAME)  # parallel
    assert distance(rod, Capsule(0.2, 1.0, rotation=turned)).distance == pytest.approx(-0.3, abs=SAME)  # segments that cross
    assert distance(Sphere(0.1), Sphere(0.2)).distance == pytest.approx(-0.3, abs=SAME)  # one centre
    assert distance(rod, Box((1.0, 0.4, 2.0), position=(0.7, 0.0, 0.0))).distance == pytest.approx(0.1, abs=SAME)  # along a face
    assert distance(rod, Box((1.0, 0.4, 2.0))).distance == pytest.approx(-0.3, abs=SAME)  # segment inside, parallel to an axis
    assert distance(Box((1.0, 1.0, 1.0)), Plane.through((0.0, 0.0, -1.0), (0.0, 0.0, 3.0))).distance == pytest.approx(
        0.5, abs=SAME
    )
    assert distance(Plane(), Sphere(0.1, position=(0.0, 0.0, 0.3))).normal == pytest.approx([0.0, 0.0, 1.0], abs=SAME)
    with pytest.raises(RobotError, match="no distance of a box and a box"):
        distance(Box((1.0, 1.0, 1.0)), Box((1.0, 1.0, 1.0)))


# ---- capsules


@pytest.mark.parametrize("name", ["ur3", "panda"])
def test_every_shape_is_inside_its_capsule(name: str, request: pytest.FixtureRequest) -> None:
    distances: RobotDistances = request.getfixturevalue(name)
    model, rng = distances.robot.model, np.random.default_rng(4)
    shapes = [*model.collisions, *(shape for link in model.links for shape in link.collisions)]
    assert len(shapes) == len(distances.capsules)
    for shape, capsule in zip(shapes, distances.capsules, strict=True):
        x = rng.normal(size=(2000, 3))
        x /= np.linalg.norm(x, axis=1)[:, None]
        if shape.kind == "mesh":
            assert shape.mesh is not None
            x = read_vertices(shape.mesh) * shape.size
        elif shape.kind == "box":
            x = np.sign(x) * 0.5 * np.array(shape.size)
        else:
            r, length = shape.size
            ends = np.sign(x[:, 2:]) * [0.0, 0.0, 0.5 * length]
            x = ends + r * (x if shape.kind == "capsule" else x * [1, 1, 0] / np.linalg.norm(x[:, :2], axis=1)[:, None])
        x = x @ shape.pose.R.T + shape.pose.p
        along = capsule.end - capsule.start
        t = np.clip((x - capsule.start) @ along / max(along @ along, 1e-30), 0.0, 1.0)
        beyond = np.linalg.norm(x - capsule.start - t[:, None] * along, axis=1) - capsule.radius
        assert beyond.max() < 1e-11
        assert beyond.max() > -1e-3 and 1.0 - 1e-9 < capsule.ratio < 3.5


# ---- robots


@pytest.mark.peers
@pytest.mark.parametrize("name", slow_except(["ur3"], ["ur3", "panda"]))
def test_robots_agree_with_coal(name: str, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("coal")
    distances: RobotDistances = request.getfixturevalue(name)
    reference = CoalConfiguration(distances)
    q = distances.robot.random_configuration(np.random.default_rng(5), 20)
    robot, (ours, J), (p_a, p_b) = distances.robot, distances.with_jacobian(q), distances.witness_points(q)
    normals = (p_b - p_a) / ours[..., None]
    assert np.abs(np.linalg.norm(normals, axis=-1) - 1.0).max() < TOLERANCE
    frames = [link.name for link in robot.model.links]
    for k, found in enumerate(ours):
        d, n, a, b = (np.array(column) for column in zip(*reference(q[k]), strict=True))
        assert np.abs(found - d).max() < TOLERANCE
        origins = [robot.frame_pose(q[k], frame)[1] for frame in frames]
        by_frame = [robot.jacobian(q[k], frame) for frame in frames]
        for row, pair in enumerate(distances.pairs):
            # n^T (J_b - J_a) at the points of coal, which may be others where links and obstacles are parallel
            expected = np.zeros(robot.nv)
            for sign, point, capsule_number in ((-1.0, a, pair.capsule), (1.0, b, pair.other)):
                link = distances.capsules[capsule_number].link if capsule_number >= 0 else -1
                if link >= 0:
                    arm = np.cross(point[row] - origins[link], n[row])
                    expected += sign * (n[row] @ by_frame[link][:3] + arm @ by_frame[link][3:])
            assert np.abs(J[k, row] - expected).max() < TOLERANCE, distances.names[row]


@pytest.mark.parametrize("name", slow_except(["ur3"], ["ur3", "panda"]))
def test_jacobians_of_robots(name: str, request: pytest.FixtureRequest) -> None:
    distances: RobotDistances = request.getfixturevalue(name)
    robot = distances.robot
    q = robot.random_configuration(np.random.default_rng(6), 100)
    d, J = distances.with_jacobian(q)
    assert J.shape == (100, len(distances), robot.nv) and np.abs(d - distances(q)).max() < SAME
    assert np.abs(distances.function.jacobian()(q) - J).max() < SAME
    ahead, back = (np.stack([distances(robot.integrate(q, h * e)) for e in np.eye(robot.nv)], axis=-1) for h in (EPS, -EPS))
    smooth = np.abs(ahead + back - 2.0 * d[..., None]).max(axis=-1) < 1e-3 * EPS
    assert smooth.mean() > 0.99
    assert np.abs((ahead - back) / (2.0 * EPS) - J)[smooth].max() < BY_DIFFERENCES


def test_jacobians_of_a_free_base_are_by_v() -> None:
    robot = cd.load("birotor")
    distances = robot_distances(robot, scene()[:6])
    q = robot.random_configuration(np.random.default_rng(10), 30)
    d, J = distances.with_jacobian(q)
    assert J.shape == (30, len(distances), robot.nv) and robot.nv != robot.nq
    ahead, back = (np.stack([distances(robot.integrate(q, h * e)) for e in np.eye(robot.nv)], axis=-1) for h in (EPS, -EPS))
    smooth = np.abs(ahead + back - 2.0 * d[..., None]).max(axis=-1) < 1e-3 * EPS
    assert smooth.mean() > 0.99
    assert np.abs((ahead - back) / (2.0 * EPS) - J)[smooth].max() < BY_DIFFERENCES


def test_same_bits_in_batches_and_lanes(ur3: RobotDistances) -> None:
    q = ur3.robot.random_configuration(np.random.default_rng(7), 33)
    d, J = ur3.with_jacobian(q)
    for k in (0, 32):
        one = ur3.with_jacobian(q[k])
        assert one[0].tobytes() == d[k].tobytes() and one[1].tobytes() == J[k].tobytes()
    narrow = ur3.function_with_jacobian.on("cpu", lanes=2)(q)
    assert narrow[0].tobytes() == d.tobytes() and narrow[1].tobytes() == J.tobytes()
    plain = ur3.function.on("reference")(q[0])
    assert plain.tobytes() == ur3(q[0]).tobytes()


@pytest.mark.slow
def test_tapes_have_the_same_hash_on_an_older_processor(panda: RobotDistances, tmp_path: Path) -> None:
    """Capsules of meshes, and an oblique plane."""
    tilted = Plane.through((0.1, 0.2, -0.3), (0.1, 0.2, 0.9))
    here = robot_distances(panda.robot, [tilted]).function_with_jacobian.tape.hash
    code = """
import condyle as cd
from condyle.methods.planning.obstacles import Plane
from condyle.methods.planning.obstacles import robot_distances
tilted = Plane.through((0.1, 0.2, -0.3), (0.1, 0.2, 0.9))
print(robot_distances(cd.load("panda"), [tilted]).function_with_jacobian.tape.hash)
"""
    assert elsewhere(code, tmp_path / "cache", OLD).strip() == str(here)


def test_obstacles_that_move() -> None:
    robot, obstacles = cd.load("ur3"), scene()[:5]
    moving = robot_distances(robot, obstacles, moving=True, self_collision=False)
    q, shift = robot.random_configuration(np.random.default_rng(8), 4), np.array([0.1, -0.2, 0.05])
    poses = np.array([each.pose for each in obstacles])
    poses[:, :3, 3] += shift
    there = [type(x)(**{**vars(x), "position": x.position + shift}) for x in obstacles]
    d, J = robot_distances(robot, there, self_collision=False).with_jacobian(q)
    assert np.abs(moving(q, poses) - d).max() < SAME and np.abs(moving.with_jacobian(q, poses)[1] - J).max() < SAME
    with pytest.raises(RobotError, match="take the poses of 5 obstacles after q"):
        moving(q)


def test_pairs_have_names_and_leave_out_neighbours(ur3: RobotDistances) -> None:
    own = [(a, b) for a, b in ur3.names if b in {c.name for c in ur3.capsules}]
    assert ("pan", "elbow") in own and ("base", "lift") in own and ("base_2", "wrist_3") in own
    assert not {("pan", "lift"), ("base", "pan"), ("base", "base_2")} & set(own)
    assert ur3.names[:2] == [("pan", "floor"), ("pan", "box_1")]
    fewer = robot_distances(ur3.robot, scene()[:1], links=["elbow"], skip=[("pan", "elbow")])
    assert fewer.names == [("elbow", "floor"), ("base", "elbow"), ("base_2", "elbow"), ("elbow", "wrist_2"), ("elbow", "wrist_3")]


def test_a_nan_stays_one(ur3: RobotDistances) -> None:
    q = np.zeros(6)
    q[0] = np.nan
    beside = [k for k, (_, name) in enumerate(ur3.names) if name != "floor"][: 6 * 9]
    assert np.isnan(ur3(q)[beside]).all()


def capsule(link: int, radius: float) -> LinkCapsule:
    return LinkCapsule(link, "a", np.zeros(3), np.ones(3), radius)


WRONG = {
    "the radius of a sphere must be a positive, finite number, got 0.0": lambda robot: Sphere(0.0),
    "the radius of obstacle 'rod' must be a positive": lambda robot: Capsule(np.nan, 1.0, name="rod"),
    "the length of a capsule must be a finite number, not negative": lambda robot: Capsule(0.1, -1.0),
    "the size of a box must be three positive lengths": lambda robot: Box((1.0, -1.0, 1.0)),
    "the size of a box must be three finite numbers": lambda robot: Box((1.0, 1.0)),
    "the position of a sphere must be three finite numbers": lambda robot: Sphere(0.1, position=(0.0, np.nan, 0.0)),
    "the rotation of a box must be a 3 x 3 rotation matrix": lambda robot: Box((1.0, 1.0, 1.0), rotation=2.0 * np.eye(3)),
    "the normal of a plane must not be zero": lambda robot: Plane.through((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
    "has no link 'elbo' .did you mean 'elbow'": lambda robot: robot_distances(robot, [Sphere(0.1)], links=["elbo"]),
    "has no link 'hand'": lambda robot: robot_distances(robot, [Sphere(0.1)], skip=[("pan", "hand")]),
    "`skip` is a list of pairs of links": lambda robot: robot_distances(robot, skip=["pan"]),
    "an obstacle is a Sphere, Capsule, Box or Plane": lambda robot: robot_distances(robot, [1.0]),
    "obstacles are a list": lambda robot: robot_distances(robot, Sphere(0.1)),
    "has no pair to compute": lambda robot: robot_distances(robot, self_collision=False),
    "`which` must be 'collision' or 'visual'": lambda robot: robot_distances(robot, shapes="mesh"),
    "capsule 'a' needs two ends": lambda robot: robot_distances(robot, capsules=[capsule(0, 0.0)]),
    "capsules are LinkCapsule on the links -1": lambda robot: robot_distances(robot, capsules=[capsule(9, 1.0)]),
    "has no collision shapes on its links: use shapes='visual'": lambda robot: fit_capsules(_bare(robot.model)),
}


def _bare(model: Any) -> Any:
    from dataclasses import replace

    return replace(model, collisions=(), links=tuple(replace(link, collisions=()) for link in model.links))


@pytest.mark.parametrize("message", list(WRONG))
def test_wrong_arguments_are_one_sentence(ur3: RobotDistances, message: str) -> None:
    with pytest.raises(RobotError, match=message) as raised:
        WRONG[message](ur3.robot)
    assert len(str(raised.value).splitlines()) == 1
