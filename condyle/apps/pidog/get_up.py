"""PiDog gets up: motions of its legs that turn it from its side or back onto its feet, chosen by the IMU. NumPy only.

    state = initial()
    every 20 ms:  observation, state = observe(numbers, state, rate, acceleration)       rad/s, m/s^2
                  angles, state      = act(numbers, state, network(observation))         eight servo angles, rad

A motion is four keyframes of the eight leg servos, each approached evenly and then held for the rest of its time. Legs move in
planes along the body, so nothing can push it sideways; they roll it over by how they are folded below it and by the swing of
those above. At the end of a motion the direction of gravity decides the next: "stand" if it is upright, else "side" or "back".
Motions are written for a dog whose right side is down; the other ones are mirrored, and so is what the network sees and does. Its
actions are added to the keyframes; zeros play the motions as they are.

Axes: x forward, y left, z up. Legs in the order LF, RF, LH, RH, angles as (hip, knee) of each, negated on the right side.
"""

from __future__ import annotations

from typing import Any

import numpy as np

RATE = 50.0  # Hz: observe and act are called so often
MOTIONS = ("stand", "side", "back")
KEYFRAMES = 4
WAIT = 0.8  # s
OBSERVATION: list[Any] = [["rate", 3], ["down", 3], ["motion", 3], ["time", 2], ["angles", 8], ["action", 8]]
ACTION = [f"{leg}_{joint}" for leg in ("lf", "rf", "lh", "rh") for joint in ("hip", "knee")]
STAND = [34.0, 25.0, -34.0, -25.0] * 2  # degrees: feet 100 mm below the hips

# angles in degrees here and in rad elsewhere, times in s
NUMBERS: dict[str, Any] = {
    "stand": [
        [47, -61, -47, 61, 57, -25, -57, 25],
        [40, -67, -40, 67, 68, -38, -68, 38],
        [16, 17, -16, -17, 47, 5, -47, -5],
        [34, 25, -34, -25, 34, 25, -34, -25],
    ],
    "side": [
        [-27, -33, 16, -25, 3, -13, 25, 68],
        [18, 9, 85, -12, 41, 12, 86, -8],
        [-1, -17, -30, 0, -7, -4, 2, 34],
        [-25, -3, 2, 35, 40, 5, 13, 61],
    ],
    "back": [
        [2, 13, 22, -27, 38, -6, 30, 41],
        [-25, -20, -12, 24, -74, -77, 23, -2],
        [-32, -3, 59, 62, -88, 15, -18, -31],
        [-30, 34, 62, -2, -49, -33, 59, -19],
    ],
    "times": [0.12, 0.26, 0.30],  # of a keyframe, for each of MOTIONS
    "approach": 0.67,  # part of that time in which the angles move
    "upright": 0.7,  # cosine of the tilt within which it stands up
    "overturned": -0.85,  # cosine of the tilt from which it lies on its back
    "filter": 0.04,  # weight of one measurement of the accelerometer against the gyroscope
    "angle_scale": 0.2,  # rad per action
    "action_limit": 3.0,
    "angle_limit": 1.55,  # rad: of a servo
    "rate_scale": 0.2,  # of observed angular rates
}


def initial() -> dict[str, Any]:
    """The state before the first call: the angles are held for WAIT, then gravity decides."""
    return {
        "down": np.array([0.0, 0.0, -1.0]),
        "measured": np.zeros(1),  # 1 after the first measurement
        "motion": np.full(1, -1.0),  # index into MOTIONS; -1: none yet
        "time": np.full(1, -WAIT),  # s since it began
        "mirror": np.ones(1),  # 1 if the right side is down, -1 if the left one is
        "from": np.radians(np.array(STAND)),  # angles before the present keyframe
        "angles": np.radians(np.array(STAND)),  # as commanded last
        "action": np.zeros(len(ACTION)),
    }


def observe(
    numbers: dict[str, Any], state: dict[str, Any], rate: Any, acceleration: Any, command: Any = None
) -> tuple[Any, dict[str, Any]]:
    """What the network sees, in the order of OBSERVATION, and the next state; there is no command."""
    dt, down, w = 1.0 / RATE, state["down"], rate
    turned = [
        down[0] + dt * (down[1] * w[2] - down[2] * w[1]),
        down[1] + dt * (down[2] * w[0] - down[0] * w[2]),
        down[2] + dt * (down[0] * w[1] - down[1] * w[0]),
    ]
    size = np.sqrt(acceleration[0] ** 2 + acceleration[1] ** 2 + acceleration[2] ** 2) + 1e-3
    # the first measurement is all that is known
    weight = numbers["filter"] + (1.0 - numbers["filter"]) * (1.0 - state["measured"][0])
    mixed = [turned[k] - weight * (turned[k] + acceleration[k] / size) for k in range(3)]
    length = np.sqrt(mixed[0] ** 2 + mixed[1] ** 2 + mixed[2] ** 2) + 1e-6
    down = np.array([mixed[k] / length for k in range(3)])
    motion, side = state["motion"][0], state["mirror"][0]
    part = clipped(state["time"][0] / np.maximum(KEYFRAMES * entry(numbers["times"], motion), dt), 0.0, 1.0)
    scale, a = numbers["rate_scale"], mirrored(state["angles"], side)
    parts = [
        *[scale * w[0] * side, scale * w[1], scale * w[2] * side],
        *[down[0], down[1] * side, down[2]],
        *[chosen(motion == k, 1.0, 0.0) for k in range(len(MOTIONS))],
        *[np.sin(2.0 * np.pi * part), np.cos(2.0 * np.pi * part)],
        *[a[k] for k in range(8)],
        *[state["action"][k] for k in range(8)],
    ]
    return np.array(parts), {**state, "down": down, "measured": np.ones(1)}


def act(numbers: dict[str, Any], state: dict[str, Any], action: Any) -> tuple[Any, dict[str, Any]]:
    """Eight servo angles, rad, for the network's output, and the next state."""
    n, dt = numbers, 1.0 / RATE
    a = [clipped(action[k], -n["action_limit"], n["action_limit"]) for k in range(8)]
    down, motion, side, time = state["down"], state["motion"][0], state["mirror"][0], state["time"][0] + dt
    # at the end of a motion gravity decides; a dog that stands stays in the last keyframe
    whole = KEYFRAMES * entry(n["times"], motion)
    found = chosen(-down[2] > n["upright"], 0.0, chosen(-down[2] < n["overturned"], 2.0, 1.0))
    stays = chosen(motion == 0.0, chosen(found == 0.0, 1.0, 0.0), 0.0)
    begins = chosen(time >= whole - 0.5 * dt, 1.0 - stays, 0.0)
    turned = chosen(found == 0.0, side, chosen(down[1] <= 0.0, 1.0, -1.0))
    motion = chosen(begins > 0.5, found, motion)
    side = chosen(begins > 0.5, turned, side)
    length = np.maximum(entry(n["times"], motion), dt)
    time = chosen(begins > 0.5, 0.0, np.minimum(time, KEYFRAMES * length))
    # the keyframe of this time, and how far the way to it has been gone
    number = clipped(np.floor(time / length + 1e-3), 0.0, KEYFRAMES - 1.0)
    within = time - number * length
    start = [chosen(within < 0.5 * dt, state["angles"][k], state["from"][k]) for k in range(8)]
    gone = chosen(motion < 0.0, 0.0, np.minimum((within + dt) / (n["approach"] * length), 1.0))
    wanted = mirrored([keyframe(n, motion, number, k) for k in range(8)], side)
    pushed = mirrored([n["angle_scale"] * a[k] for k in range(8)], side)
    limit = n["angle_limit"]
    path = [start[k] + gone * (wanted[k] - start[k]) for k in range(8)]
    angles = [clipped(path[k] + pushed[k], -limit, limit) for k in range(8)]
    after = {"motion": np.array([motion]), "time": np.array([time]), "mirror": np.array([side]), "from": np.array(start)}
    return np.array(angles), {**state, **after, "angles": np.array(path), "action": np.array(a)}


def keyframe(numbers: dict[str, Any], motion: Any, number: Any, joint: int) -> Any:
    """The angle of a joint in a keyframe of a motion, rad, of a dog whose right side is down."""
    found: Any = 0.0
    for m, name in enumerate(MOTIONS):
        for k in range(KEYFRAMES):
            here = chosen(motion == float(m), chosen(number == float(k), 1.0, 0.0), 0.0)
            found = found + here * numbers[name][k][joint]
    return found * (np.pi / 180.0)


def mirrored(angles: Any, side: Any) -> list[Any]:
    """Angles of the legs as they are (side 1), or with left and right exchanged (side -1)."""
    other = [-angles[2], -angles[3], -angles[0], -angles[1], -angles[6], -angles[7], -angles[4], -angles[5]]
    return [chosen(side > 0.0, angles[k], other[k]) for k in range(8)]


def entry(values: Any, index: Any) -> Any:
    """values[index]."""
    found: Any = 0.0
    for k in range(len(values)):
        found = found + chosen(index == float(k), values[k], 0.0)
    return found


def chosen(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y; numbers, never arrays without axes."""
    return 1.0 * np.where(condition, x, y)


def clipped(x: Any, low: Any, high: Any) -> Any:
    """x within [low, high]."""
    return np.minimum(np.maximum(x, low), high)
