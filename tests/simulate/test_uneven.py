"""Uneven ground: slopes of its surface, its numbers as parameters, its file form, and sentences for what is wrong."""

from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.errors import SimulationError
from condyle.simulate.ground_parameters import ground_parameters, with_ground_parameters

GROUND = cd.Uneven(0.7, roughness=0.02, step=-0.03, slope=5.0, azimuth=30.0, offset=(0.03, 0.4))


def test_the_slopes_are_those_of_the_heights() -> None:
    e = 1e-6
    for x, y in np.random.default_rng(0).uniform(-2.0, 2.0, (50, 2)):
        _, h_x, h_y = GROUND.surface(x, y)
        assert (GROUND.surface(x + e, y)[0] - GROUND.surface(x - e, y)[0]) / (2.0 * e) == pytest.approx(h_x, abs=1e-7)
        assert (GROUND.surface(x, y + e)[0] - GROUND.surface(x, y - e)[0]) / (2.0 * e) == pytest.approx(h_y, abs=1e-7)


def test_its_numbers_are_what_they_say() -> None:
    x = np.linspace(-5.0, 5.0, 4001)
    waves = cd.Uneven(roughness=0.02).surface(x, 0.7 * x)[0]
    assert 0.015 < np.ptp(waves) <= 0.02
    stairs = [cd.Uneven(step=0.05, run=0.3).surface(at, 0.0)[0] for at in (-0.3, 0.0, 0.3, 0.6)]
    assert np.diff(stairs) == pytest.approx([0.05, 0.05, 0.05])
    assert cd.Uneven(slope=10.0, azimuth=90.0).surface(3.0, 1.0)[0] == pytest.approx(np.tan(np.radians(10.0)))


def test_parameters_give_the_same_ground() -> None:
    specs = {spec.name.removeprefix("ground."): spec for spec in ground_parameters(GROUND)}
    values: dict[str, Any] = {
        name: specs[name].default for name in ("friction", "roughness", "step", "slope", "azimuth", "offset")
    }
    same = with_ground_parameters(cd.Uneven(), values)
    assert same.friction == 0.7 and isinstance(same, cd.Uneven)
    assert same.surface(0.3, -0.2) == GROUND.surface(0.3, -0.2)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"roughness": -1.0}, "roughness"),
        ({"slope": 90.0}, "less than 90 degrees"),
        ({"run": 0.01}, "rounding at most run"),
        ({"offset": 3.0}, "offset"),
        ({"step": float("nan")}, "step"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SimulationError, match=sentence):
        cd.Uneven(**options)
