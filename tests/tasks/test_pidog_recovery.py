"""PiDog's tasks after a fall and under pushes, on a few dogs."""

from __future__ import annotations

import numpy as np
import pytest

from condyle.errors import ControlError
from condyle.tasks import pidog_get_up
from condyle.tasks.registry import load_task


def test_it_gets_up_from_its_side() -> None:
    seconds = pidog_get_up.trials(8, "side", randomize=False, dtype=np.float32)
    assert np.isfinite(seconds).mean() >= 0.75 and np.nanmin(seconds) > pidog_get_up.STILL


def test_a_pose_that_is_unknown() -> None:
    with pytest.raises(ControlError, match=r"not dropped on 'sid'.*side"):
        load_task("pidog", "get-up").make(1, pose="sid")
