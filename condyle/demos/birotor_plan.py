"""Where the birotor should be: a plan is a function of time, and its derivatives are taken by the compiler.

What two rotors can hold: hovering needs the whole thrust vertical, through the centre of mass. The gimbals turn the thrust
about the body's y axis only, so a roll leaves a side force that nothing answers; the rotors sit 0.121 m above the centre of
mass, so a pitch hangs the vehicle beside its thrust, and it swings back like a pendulum. Level, at any heading, is the only
attitude to hover in. A tilt can be held while it accelerates: tan(tilt) = a / g. So the plan flies a circle.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import pi
from typing import Any

import numpy as np

from condyle.demos.smooth import smooth, smooth_sum
from condyle.tape.function import Function, function

Array = Any

START, FIRST, LAST = np.zeros(3), np.array([0.3, 0.6, 1.0]), np.array([1.0, 1.0, 1.0])  # m, of the centre of mass
RISE = (0.5, 2.8)  # when it leaves for the first place, and how long it takes, s
CIRCLE, RAMP, TURNS = (3.8, 3.8), 1.0, 2  # when it begins and how long it takes but for one ramp, s; rounds
RADIUS = 0.3  # m
QUARTER = (4.6, 2.4)  # s, a quarter turn of the heading
LEAVE = (8.9, 2.3)  # s, to the last place, turning back
SECONDS = 13.0

RATE = TURNS * 2.0 * pi / CIRCLE[1]  # rad/s, of going round


def demonstration(t: Any) -> dict[str, Any]:
    """Rise to the first place, fly a circle while the heading turns, come to rest, go to the last place."""
    round_by = RATE * (smooth_sum(t, CIRCLE[0], RAMP) - smooth_sum(t, CIRCLE[0] + CIRCLE[1], RAMP))
    first, last = smooth(t, *RISE), smooth(t, *LEAVE)
    way = START + first * (FIRST - START) + last * (LAST - FIRST)
    way = way + RADIUS * np.array([np.sin(round_by), 1.0 - np.cos(round_by), 0.0 * t])
    return {"place": way, "heading": 0.5 * pi * (smooth(t, *QUARTER) - last)}


@cache
def derived(plan: Callable[[Any], dict[str, Any]]) -> tuple[Function, ...]:
    """The plan and its first four derivatives, compiled."""
    orders = [function(plan, t=())]
    for _ in range(4):
        orders.append(orders[-1].jacobian())
    return tuple(orders)


def references(plan: Callable[[Any], dict[str, Any]], t: np.ndarray) -> np.ndarray:
    """(times, 18): place and its first four derivatives, heading and its first two, as the control law takes them."""
    parts = [tuple(order(t)) for order in derived(plan)]
    return np.concatenate(
        [*[places for places, _ in parts], *[np.asarray(heading)[:, None] for _, heading in parts[:3]]], axis=-1
    )


def staying(place: np.ndarray, heading: float) -> np.ndarray:
    """(18,) of hovering here."""
    return np.concatenate([place, np.zeros(12), [heading, 0.0, 0.0]])
