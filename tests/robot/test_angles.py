"""Numbers made while loading: the same bits on every processor."""

import json
import os
import subprocess
import sys
from math import pi

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from condyle.robot.angles import cos_sin, exact_quarters
from condyle.robot.spatial import length, product


@given(st.floats(-1e6, 1e6))
def test_sines_are_correctly_rounded(angle: float) -> None:
    with mpmath.workprec(400):
        true = float(mpmath.cos(angle)), float(mpmath.sin(angle))
    assert cos_sin(angle) == true


@pytest.mark.parametrize("turns", range(-8, 9))
def test_quarter_turns(turns: int) -> None:
    angle = turns * pi / 2.0
    with mpmath.workprec(400):
        assert cos_sin(angle) == (float(mpmath.cos(angle)), float(mpmath.sin(angle)))
    assert exact_quarters(angle) == (round(np.cos(angle)), round(np.sin(angle)))


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
import condyle as cd
from condyle.machines import two_wheeled, wheeled_pendulum
found = {}
for name in ("pidog", "fourlimb", "ur3", "birotor"):
    ground = None if name == "ur3" else cd.Plane()
    world = cd.Simulation(cd.load(name), 0.002, ground, None if ground is None else "collisions")
    found[name] = [world.hash, [x.hex() for x in (*world.world.felt, *world.world.lightness)]]
for machine in (wheeled_pendulum, two_wheeled):
    found[machine.__name__] = machine.world().hash
print(json.dumps(found))
"""


def test_worlds_do_not_depend_on_the_processor() -> None:
    """The kernels of BLAS and of the C library are chosen by the processor; here, by hand."""
    plain = "glibc.cpu.hwcaps=-FMA,-FMA_Usable,-AVX2,-AVX2_Usable,-AVX512F"
    settings = [{}, {"OPENBLAS_CORETYPE": "Haswell"}, {"OPENBLAS_CORETYPE": "Prescott", "GLIBC_TUNABLES": plain}]
    found = []
    for more in settings:
        child = subprocess.run(
            [sys.executable, "-c", CHILD], env={**os.environ, **more}, capture_output=True, text=True, timeout=120
        )
        assert child.returncode == 0, child.stderr
        found.append(json.loads(child.stdout))
    assert found[0] == found[1] == found[2]
