"""Loops of a description are loops of the model; joints can be locked where a loop stays closed, and nowhere else."""

from dataclasses import replace
from math import pi

import numpy as np
import pytest

from condyle.errors import RobotError
from condyle.robot.build import build
from condyle.robot.check import checked
from condyle.robot.couplings import displacement
from condyle.robot.description import LOOP_AXES, Description, LoopSpec
from condyle.robot.edit import lock
from condyle.robot.joints import rotation_about
from condyle.robot.model import Loop, Model, digest
from condyle.robot.parts import Y, body, frame, joint, link, pose
from condyle.robot.spatial import Pose

PLANE = ("x", "z")
BAR = body(1.0, (0.0, 0.0, 0.2), (0.01, 0.01, 0.001))


def parallelogram(axes: tuple[str, ...] = PLANE) -> Description:
    """Two upright bars 0.4 high and 0.6 apart, a third on the first that ends on the second: closed at q = 0 and (a, -a, a)."""
    links = (link("ground"), link("left", BAR), link("top", BAR), link("right", BAR))
    joints = (
        joint("left_foot", "continuous", "ground", "left", axis=Y),
        joint("elbow", "continuous", "left", "top", pose((0.0, 0.0, 0.4)), Y),
        joint("right_foot", "continuous", "ground", "right", pose((0.6, 0.0, 0.0)), Y),
    )
    frames = (frame("end", "top", (0.6, 0.0, 0.0)), frame("head", "right", (0.0, 0.0, 0.4)))
    return Description("bars", links, joints, frames, loops=(LoopSpec("ring", "head", "end", axes),))


def bars() -> Model:
    return build(checked(parallelogram()))


def test_a_model_has_the_loops_of_its_description() -> None:
    assert bars().loops == (Loop("ring", "head", "end", PLANE),)
    assert build(checked(parallelogram()), "free").loops == bars().loops
    with pytest.raises(RobotError, match="robot 'bars': loop 'ring': frame 'edn' does not exist"):
        build(replace(parallelogram(), loops=(LoopSpec("ring", "head", "edn", PLANE),)))


def test_locking_keeps_a_loop_that_still_moves() -> None:
    model = lock(bars(), "elbow", np.array([0.1, 0.2, 0.3])).model
    assert model.loops == bars().loops
    assert model.frame("end").link == 0 and model.frame("head").link == 1
    # both feet stand, the elbow alone moves the loop
    assert lock(bars(), ["left_foot", "right_foot"]).model.loops == bars().loops


@pytest.mark.parametrize("base", ["fixed", "free"])
def test_locking_drops_a_loop_that_is_closed_and_cannot_move(base: str) -> None:
    full = build(checked(parallelogram()), base)
    q = full.neutral()
    q[-3:] = 0.3, -0.3, 0.3
    model = lock(full, ["left_foot", "right_foot", "elbow"], q).model
    assert model.loops == () and len(model.links) == (base == "free")


def test_locking_an_open_loop_is_refused_with_its_distance() -> None:
    sentence = (
        r"robot 'bars': loop 'ring': frames 'head' and 'end' are fixed to each other, {} apart: "
        "hold the joints between them where the loop is closed, or leave the loop out"
    )
    everything = ["left_foot", "right_foot", "elbow"]
    # the end hangs down from the top of the left bar
    with pytest.raises(RobotError, match=sentence.format("0.849 m")):
        lock(bars(), everything, np.array([0.0, pi / 2.0, 0.0]))
    with pytest.raises(RobotError, match=sentence.format("0.3 rad")):
        lock(build(checked(parallelogram(LOOP_AXES))), everything, np.array([0.3, -0.3, 0.3]))
    # what the loop does not hold may be anywhere
    assert lock(build(checked(parallelogram(("y", "rx", "rz")))), everything, np.array([1.0, 2.0, 3.0])).model.loops == ()


def test_a_loop_within_one_link_is_none() -> None:
    def within(end: str) -> Model:
        return build(checked(replace(parallelogram(), loops=(LoopSpec("short", "head", end, ("x", "y")),))))

    assert within("right").loops == () and within("right_foot").loops == ()
    with pytest.raises(RobotError, match=r"'far' are fixed to each other, 0\.5 m apart"):
        frames = (*parallelogram().frames, frame("far", "right", (0.3, 0.4, 0.0)))
        build(replace(parallelogram(), frames=frames, loops=(LoopSpec("short", "head", "far", ("x", "y")),)))


def test_the_digest_has_the_loops() -> None:
    model = bars()
    loop = model.loops[0]
    others = [
        (),
        (replace(loop, axes=("x",)),),
        (replace(loop, frame_a="right"),),
        (replace(loop, frame_b="top"),),
        (loop, replace(loop, name="again")),
    ]
    assert len({digest(model), *(digest(replace(model, loops=loops)) for loops in others)}) == 6


@pytest.mark.parametrize("angle", [0.0, 1e-300, 1e-9, 0.1, pi / 2, 2.0, pi - 1e-3, pi - 1e-7, pi - 1e-9, pi])
def test_displacements_are_origin_and_rotation_vector(angle: float) -> None:
    rng = np.random.default_rng(0)
    for n in (*np.eye(3), *-np.eye(3), *rng.normal(size=(20, 3))):
        axis = n / np.linalg.norm(n)
        p = rng.normal(size=3)
        d = displacement(Pose(rotation_about(tuple(axis), angle), p))
        np.testing.assert_array_equal(d[:3], p)
        # a half turn is one about either direction of its axis
        sign = np.sign(d[3:] @ axis) if angle > pi - 1e-8 else 1.0
        np.testing.assert_allclose(d[3:], sign * angle * axis, atol=1e-13, rtol=1e-12)
