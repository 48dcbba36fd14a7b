"""Motions that get PiDog up: which one gravity chooses, what of it is mirrored, and how near legs come to each other."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from condyle.apps.pidog import get_up
from condyle.apps.pidog.controller import LOWER, UPPER

NEAR = 0.010  # m: of the middle lines of two legs; they are 12 to 16 mm thick


def played(down: tuple[float, float, float], seconds: float) -> tuple[np.ndarray, dict[str, Any]]:
    """Angles (frames, 8) of a dog that lies so all the time, and the last state."""
    state, angles = get_up.initial(), []
    for _ in range(round(seconds * get_up.RATE)):
        _, state = get_up.observe(get_up.NUMBERS, state, np.zeros(3), -9.81 * np.array(down))
        found, state = get_up.act(get_up.NUMBERS, state, np.zeros(8))
        angles.append(found)
    return np.array(angles), state


@pytest.mark.parametrize(
    ("down", "motion", "side"), [((0, 0, -1), 0, 1), ((0, -1, 0), 1, 1), ((0, 1, 0), 1, -1), ((0, 0.1, 1), 2, -1)]
)
def test_gravity_chooses_the_motion(down: tuple[float, float, float], motion: int, side: int) -> None:
    angles, state = played(down, get_up.WAIT + 0.1)
    assert (state["motion"][0], state["mirror"][0]) == (motion, side)
    wait = round(get_up.WAIT * get_up.RATE) - 1
    assert np.array_equal(angles[:wait], np.tile(np.radians(get_up.STAND), (wait, 1)))


def test_motions_are_mirrored() -> None:
    right, left = (played((0.0, side, 0.0), get_up.WAIT + 1.5)[0] for side in (-1.0, 1.0))
    assert np.array_equal(left, np.array([get_up.mirrored(frame, -1.0) for frame in right]))


def test_a_dog_that_stands_stays() -> None:
    angles, _ = played((0.0, 0.0, -1.0), get_up.WAIT + 3.0)
    assert np.allclose(angles[-50:], np.radians(get_up.STAND), rtol=0.0, atol=1e-12)


def test_legs_stay_apart() -> None:
    hips = np.array([0.0585, 0.0585, -0.0585, -0.0585])
    for name in get_up.MOTIONS:
        frames = np.radians(np.array(get_up.NUMBERS[name], dtype=float))
        assert np.abs(frames).max() <= get_up.NUMBERS["angle_limit"]
        between = np.linspace(0.0, 1.0, 8)[:, None]
        path = np.concatenate([a + between * (b - a) for a, b in pairwise(frames)])
        signs = np.array([1.0, -1.0, 1.0, -1.0])
        hip, shin = path[:, 0::2] * signs, path[:, 0::2] * signs + path[:, 1::2] * signs - 0.5 * np.pi
        knee = np.stack([hips - UPPER * np.sin(hip), -UPPER * np.cos(hip)], axis=-1)
        foot = knee + np.stack([-LOWER * np.sin(shin), -LOWER * np.cos(shin)], axis=-1)
        start = np.stack([hips + 0.0 * hip, 0.0 * hip], axis=-1)
        along = np.linspace(0.0, 1.0, 9)[:, None]
        lines = np.concatenate(
            [a[..., None, :] + along * (b - a)[..., None, :] for a, b in ((start, knee), (knee, foot))], axis=-2
        )
        for front, hind in ((0, 2), (1, 3)):
            gaps = np.linalg.norm(lines[:, front, :, None] - lines[:, hind, None], axis=-1)
            assert gaps.min() > NEAR, name
