"""Numbers made while loading: the same bits on every processor."""

import json
from math import pi
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from processors import OLD, elsewhere

from condyle.robot.angles import cos_sin, exact_quarters, of_degrees, tangent
from condyle.robot.spatial import length, product


@given(st.floats(-1e6, 1e6))
def test_sines_are_correctly_rounded(angle: float) -> None:
    with mpmath.workprec(400):
        true = float(mpmath.cos(angle)), float(mpmath.sin(angle)), float(mpmath.tan(angle))
    assert (*cos_sin(angle), tangent(angle)) == true


@pytest.mark.parametrize("turns", range(-8, 9))
def test_quarter_turns(turns: int) -> None:
    angle = turns * pi / 2.0
    with mpmath.workprec(400):
        assert cos_sin(angle) == (float(mpmath.cos(angle)), float(mpmath.sin(angle)))
    assert exact_quarters(angle) == of_degrees(90.0 * turns) == (round(np.cos(angle)), round(np.sin(angle)))


@pytest.mark.parametrize("angle", [float("nan"), float("inf"), 1e300])
def test_what_has_no_sine(angle: float) -> None:
    assert np.isnan(cos_sin(angle)).all()


@pytest.mark.parametrize("shapes", [((3, 3), (3, 3)), ((3, 3), (3,)), ((3,), (3,)), ((2, 5), (5, 4)), ((4,), (4, 2))])
def test_products_are_sums_in_order(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    rng = np.random.default_rng(0)
    A, B = (rng.normal(size=shape) for shape in shapes)
    exact = A.astype(object) @ B.astype(object)  # Python's floats, first to last
    assert (product(A, B) == exact).all()
    assert length(np.array([3.0, 4.0])) == 5.0


# what a world is made of, in a process that believes to run on another processor
CHILD = """
import json
import numpy as np
import condyle as cd
from condyle.apps.demos import two_wheeled, wheeled_pendulum
from condyle.robot.description import Description
from condyle.robot.parts import link, pose, solid, sphere
from condyle.simulate.build import build_world
found = {}
for name in ("pidog", "fourlimb", "ur3", "birotor"):
    ground = None if name == "ur3" else cd.Plane()
    world = cd.Simulation(cd.load(name), 0.002, ground, None if ground is None else "collisions")
    scales = build_world(world.robot, world.config)
    found[name] = [world.hash, [x.hex() for x in (*scales.effective_masses, *scales.inverse_inertia_diagonal)]]
for demo in (wheeled_pendulum, two_wheeled):
    found[demo.__name__] = demo.world().hash
shape = sphere(0.05, (0.01, 0.02, 0.03), name="ball")
ball = cd.load(Description("ball", (link("ball", solid(1.0, shape), [], [shape]),), ()), base="free")
for cone in ("round", 20):
    world = cd.Simulation(ball, 0.002, cd.Slope(26.2, 33.3), cone=cone)
    x = world.rollout(world.state(), np.zeros((3, world.nu)))
    found[f"slope {cone}"] = [float(entry).hex() for entry in x[-1]]
from condyle.robot.expression_functions import FUNCTIONS
found["xacro"] = [FUNCTIONS[f].call(0.1 * k).hex() for f in ("sin", "cos", "tan") for k in range(200)]
print(json.dumps(found))
"""


@pytest.mark.slow
def test_worlds_do_not_depend_on_the_processor(tmp_path: Path) -> None:
    found = [json.loads(elsewhere(CHILD, tmp_path / str(k), settings)) for k, settings in enumerate(({}, OLD))]
    assert found[0] == found[1]
