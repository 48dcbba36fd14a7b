"""Robots whose files have mimic joints, against Pinocchio's own mimic joints."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from published import PACKAGE_DIRS, REFUSED, URDFS, name

import condyle as cd
from condyle.robot.couplings import linear_couplings

pin: Any = pytest.importorskip("pinocchio")

# the same sums in another order: relative to the largest entry
SAME = 1e-12

# Pinocchio wants the leader before its followers in the tree, by the alphabet
NOT_IN_PINOCCHIO = {"romeo.urdf", "talos_full_v2.urdf", "talos_full_v2_box.urdf", "alex_psyonic_hands.urdf"}


@cache
def tree(path: Path) -> cd.Robot:
    return cd.load(path, package_dirs=PACKAGE_DIRS, constraints=False)


# in some files all mimic joints are fixed
WRITTEN = [path for path in URDFS if "<mimic" in path.read_text() and path.name not in REFUSED]
MIMICS = [path for path in WRITTEN if linear_couplings(tree(path).model)]
each = pytest.mark.parametrize("path", MIMICS, ids=name)
each_in_pinocchio = pytest.mark.parametrize("path", [p for p in MIMICS if p.name not in NOT_IN_PINOCCHIO], ids=name)


class Twin:
    """Pinocchio's model of a file, with mimic joints or without; coordinates in the order of our robot."""

    def __init__(self, path: Path, robot: cd.Robot, mimic: bool) -> None:
        self.model = pin.buildModelFromUrdf(str(path), mimic=mimic)
        self.model.armature = np.zeros(self.model.nv)
        self.data = self.model.createData()
        ids = [self.model.getJointId(joint) for joint in robot.joint_names]
        self.v = [int(self.model.idx_vs[i]) for i in ids]
        self.joints = ids

    def q(self, q: np.ndarray) -> np.ndarray:
        out = pin.neutral(self.model)
        for i, value in zip(self.joints, q, strict=True):
            at = self.model.idx_qs[i]
            out[at : at + self.model.nqs[i]] = [value] if self.model.nqs[i] == 1 else [np.cos(value), np.sin(value)]
        return out

    def along(self, v: np.ndarray) -> np.ndarray:
        out = np.zeros(self.model.nv)
        out[self.v] = v
        return out

    def mass_matrix(self, q: np.ndarray) -> np.ndarray:
        M = np.triu(pin.crba(self.model, self.data, self.q(q)))
        return (M + np.triu(M, 1).T)[np.ix_(self.v, self.v)]

    def inverse_dynamics(self, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        return np.asarray(pin.rnea(self.model, self.data, self.q(q), self.along(v), self.along(a))[self.v])


@cache
def constrained(path: Path) -> cd.Robot:
    return cd.load(path, package_dirs=PACKAGE_DIRS)


def state(robot: cd.Robot) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.uniform(-1, 1, robot.nq), rng.uniform(-1, 1, robot.nv), rng.uniform(-1, 1, robot.nv)


def close(ours: np.ndarray, theirs: np.ndarray) -> bool:
    return float(np.max(np.abs(ours - theirs))) <= SAME * max(1.0, float(np.max(np.abs(theirs))))


def test_there_are_robots() -> None:
    assert not URDFS or len(MIMICS) >= 5


@each
def test_followers_are_the_mimic_joints(path: Path) -> None:
    robot = constrained(path)
    followers = linear_couplings(robot.model)
    assert robot.coordinate_map.passive == set(followers)
    assert robot.nv == tree(path).nv - len(followers)
    assert any(line.startswith("constrained: ") for line in robot.report)
    assert repr(tree(path).constrain_as_described()) == repr(robot)
    # they are where the file says, and move as it says
    y, w, _ = state(robot)
    q, v = robot.lift(y, w)
    for joint, (leader, multiplier, offset) in followers.items():
        assert q[tree(path).q_slice(joint)] == pytest.approx(multiplier * q[tree(path).q_slice(leader)] + offset, abs=1e-15)
        assert v[tree(path).v_slice(joint)] == pytest.approx(multiplier * v[tree(path).v_slice(leader)], abs=1e-15)


@each_in_pinocchio
def test_physics_is_that_of_mimic_joints_in_pinocchio(path: Path) -> None:
    robot = constrained(path)
    twin = Twin(path, robot, mimic=True)
    y, w, a = state(robot)
    assert twin.model.nv == robot.nv
    assert close(robot.mass_matrix(y), twin.mass_matrix(y))
    assert close(robot.inverse_dynamics(y, w, a), twin.inverse_dynamics(y, w, a))


@pytest.mark.peers
@each
def test_physics_is_that_of_the_tree_in_pinocchio_projected(path: Path) -> None:
    robot = constrained(path)
    twin = Twin(path, tree(path), mimic=False)
    y, w, a = state(robot)
    T = np.column_stack([robot.lift(y, e)[1] for e in np.eye(robot.nv)])
    q = robot.lift(y, w)[0]
    M, tau = T.T @ twin.mass_matrix(q) @ T, T.T @ twin.inverse_dynamics(q, T @ w, T @ a)
    assert close(robot.mass_matrix(y), M)
    assert close(robot.inverse_dynamics(y, w, a), tau)
    # forward dynamics, which Pinocchio does not have for mimic joints, undoes inverse dynamics; romeo has joints without mass
    if np.linalg.cond(M) < 1e12:
        assert np.max(np.abs(robot.forward_dynamics(y, w, tau) - a)) <= 1e-14 * np.linalg.cond(M)
