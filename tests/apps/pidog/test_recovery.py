"""PiDog's tasks after a fall and under pushes, on a few dogs."""

from __future__ import annotations

import numpy as np
import pytest

from condyle.apps.pidog import get_up_task as pidog_get_up
from condyle.errors import ControlError
from condyle.methods.learn.task import load_task


@pytest.mark.slow
def test_it_gets_up_from_its_side() -> None:
    seconds = pidog_get_up.trials(8, "side", randomize=False, dtype=np.float32)
    assert np.isfinite(seconds).mean() >= 0.75 and np.nanmin(seconds) > pidog_get_up.STILL


def test_a_pose_that_is_unknown() -> None:
    with pytest.raises(ControlError, match=r"not dropped on 'sid'.*side"):
        load_task("pidog", "get-up").make(1, pose="sid")


@pytest.mark.slow
def test_it_stands_when_kicked() -> None:
    env = load_task("pidog", "stand").make(4, impulse=0.2)
    found = env.rollout(np.zeros((4, 100, env.action_size), np.float32), record=["q", "kick.wrench"])
    assert not found.terminated.any()
    assert np.allclose(np.linalg.norm(found["kick.wrench"][:, 0], axis=-1) * 0.05, 0.2, rtol=1e-5, atol=0.0)
