"""Coordinates of MuJoCo and ROS: there and back for any state and batch, and right by the physics."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from condyle.errors import ShapeError
from condyle.robot import conventions
from condyle.robot.build import build
from condyle.robot.description import Description, JointSpec, LinkSpec
from condyle.robot.joints import rotation_of
from condyle.robot.model import Model

# a few rotations of numbers of size one
SAME = 1e-14


def mixed() -> Model:
    """A free body that carries a hinge, a ball, a slide and, in the world, another free body."""
    kinds = {"root": ("free", "world"), "hip": ("revolute", "root"), "neck": ("ball", "hip"), "arm": ("prismatic", "root")}
    kinds["other"] = ("free", "world")
    joints = tuple(JointSpec(f"to_{child}", kind, parent, child) for child, (kind, parent) in kinds.items())
    return build(Description("mixed", tuple(LinkSpec(name) for name in ("world", *kinds)), joints))


MODEL = mixed()


def states(rng: np.random.Generator, *batch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    q, v, a = (rng.normal(size=(*batch, n)) for n in (MODEL.nq, MODEL.nv, MODEL.nv))
    for link in MODEL.links:
        if link.kind.nq > 1:
            quaternion = q[..., link.q.stop - 4 : link.q.stop]
            quaternion /= np.linalg.norm(quaternion, axis=-1, keepdims=True)
    return q, v, a


@given(st.integers(0, 2**32 - 1), st.sampled_from([(), (1,), (5,), (2, 3)]))
def test_there_and_back(seed: int, batch: tuple[int, ...]) -> None:
    q, v, a = states(np.random.default_rng(seed), *batch)
    np.testing.assert_array_equal(conventions.q_from_mujoco(MODEL, conventions.q_to_mujoco(MODEL, q)), q)
    np.testing.assert_allclose(conventions.v_from_mujoco(MODEL, q, conventions.v_to_mujoco(MODEL, q, v)), v, atol=SAME)
    np.testing.assert_allclose(conventions.v_from_ros(MODEL, q, conventions.v_to_ros(MODEL, q, v)), v, atol=SAME)
    there = conventions.a_to_mujoco(MODEL, q, v, a)
    np.testing.assert_allclose(conventions.a_from_mujoco(MODEL, q, v, there), a, atol=10 * SAME)


def test_a_batch_is_its_states() -> None:
    q, v, _ = states(np.random.default_rng(0), 4)
    batch = conventions.v_to_ros(MODEL, q, v)
    for i in range(4):
        np.testing.assert_array_equal(conventions.v_to_ros(MODEL, q[i], v[i]), batch[i])
    # one q for many v
    assert conventions.v_to_mujoco(MODEL, q[0], v).shape == v.shape


def test_every_entry_by_hand() -> None:
    q, v, _ = states(np.random.default_rng(1))
    R, R_ball = rotation_of(q[3:7]), rotation_of(q[8:12])
    R_other = rotation_of(q[16:20])
    np.testing.assert_array_equal(conventions.q_to_mujoco(MODEL, q)[:12], q[[0, 1, 2, 6, 3, 4, 5, 7, 11, 8, 9, 10]])
    mujoco = np.concatenate([R @ v[:3], v[3:11], R_other @ v[11:14], v[14:]])
    np.testing.assert_allclose(conventions.v_to_mujoco(MODEL, q, v), mujoco, atol=SAME)
    ros = np.concatenate([R @ v[:3], R @ v[3:6], v[6:7], R_ball @ v[7:10], v[10:11], R_other @ v[11:14], R_other @ v[14:]])
    np.testing.assert_allclose(conventions.v_to_ros(MODEL, q, v), ros, atol=SAME)


def test_forces_do_the_same_work_in_every_layout() -> None:
    q, v, tau = states(np.random.default_rng(2))
    power = tau @ v
    assert conventions.v_to_mujoco(MODEL, q, tau) @ conventions.v_to_mujoco(MODEL, q, v) == pytest.approx(power, rel=1e-13)
    assert conventions.v_to_ros(MODEL, q, tau) @ conventions.v_to_ros(MODEL, q, v) == pytest.approx(power, rel=1e-13)


def test_acceleration_is_the_rate_of_velocity() -> None:
    """A free body that spins at w with constant body-frame velocity: its world velocity turns with it."""
    q, v, _ = states(np.random.default_rng(3))
    h = 1e-6

    def world_velocity(t: float) -> np.ndarray:
        # R(t) = R exp([w] t) by the quaternion of the small turn
        w, moved = v[3:6], q.copy()
        half = w * t / 2.0
        x, y, z, s = q[3:7]
        u = np.array([x, y, z])
        moved[3:7] = [*(s * half + u + np.cross(u, half)), s - u @ half]
        moved[3:7] /= np.linalg.norm(moved[3:7])
        return conventions.v_to_mujoco(MODEL, moved, v)[:3]

    rate = (world_velocity(h) - world_velocity(-h)) / (2.0 * h)
    np.testing.assert_allclose(conventions.a_to_mujoco(MODEL, q, v, np.zeros(MODEL.nv))[:3], rate, atol=1e-8)


def test_arguments_are_not_changed() -> None:
    q, v, _ = states(np.random.default_rng(4))
    q0, v0 = q.copy(), v.copy()
    conventions.q_to_mujoco(MODEL, q)
    conventions.v_to_mujoco(MODEL, q, v)
    np.testing.assert_array_equal(q, q0)
    np.testing.assert_array_equal(v, v0)


def test_a_wrong_size_is_refused() -> None:
    q, v, _ = states(np.random.default_rng(5))
    with pytest.raises(ShapeError, match=r"q must have shape \(\.\.\., 20\), got \(19,\)"):
        conventions.q_to_mujoco(MODEL, q[1:])
    with pytest.raises(ShapeError, match=r"v must have shape \(\.\.\., 17\)"):
        conventions.v_to_mujoco(MODEL, q, v[1:])
