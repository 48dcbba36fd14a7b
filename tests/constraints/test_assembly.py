"""Closing loops from poses beyond joint limits: joints are led to well within their limits, not to the limits themselves."""

import numpy as np
import pytest

import condyle as cd
from condyle.constraints.assembly import LIMIT_MARGIN, _beyond_limits


@pytest.mark.parametrize(("beyond", "side"), [(-0.5, -1.0), (0.25, 1.0)])
def test_a_joint_beyond_its_limit_is_led_within_it(beyond: float, side: float) -> None:
    model = cd.load("ur3").model
    limits = model.links[2].limits
    assert limits.lower is not None and limits.upper is not None
    x = np.zeros(model.nq)
    x[2] = (limits.upper if side > 0.0 else limits.lower) + beyond
    far = _beyond_limits(model, x)
    inside = LIMIT_MARGIN * (limits.upper - limits.lower)
    assert np.allclose(far[2], beyond + side * inside, rtol=1e-12)
    assert not np.any(np.delete(far, 2)) and not np.any(_beyond_limits(model, x - far))
