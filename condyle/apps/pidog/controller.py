"""PiDog's walking controller: what runs on the dog at 50 Hz around the network. It needs nothing but NumPy.

    state = initial()
    every 20 ms:  observation, state = observe(numbers, state, rate, acceleration, command)      rad/s, m/s^2, (m/s, rad/s)
                  angles, state      = act(numbers, state, network(observation))                 eight servo angles, rad

`observe` estimates which way is down (a complementary filter of gyroscope and accelerometer) and how far the heading is from
where the commanded turns should have brought it. `act` is a trot: a clock, and feet that move backward on the ground and
forward in the air. The network changes the clock, the steps of the left and right legs, and the place of each foot.

The same functions are traced into simulations and exported to C, and copied as they are into the program on the dog. Axes:
x forward, y left, z up. Legs in the order LF, RF, LH, RH, angles as (hip, knee) of each; those of the right side are negated.
"""

from __future__ import annotations

from typing import Any

import numpy as np

RATE = 50.0  # Hz: observe and act are called so often
UPPER, LOWER = 0.042, 0.076  # m: legs
OBSERVATION: list[list[Any]] = [
    ["rate", 3],
    ["acceleration", 3],
    ["down", 3],
    ["lean", 2],
    ["heading", 1],
    ["heading_sum", 1],
    ["command", 2],
    ["clock", 2],
    ["waves", 12],
    ["action", 11],
]
ACTION = [
    *[f"{leg}_{way}" for leg in ("lf", "rf", "lh", "rh") for way in ("forward", "up")],  # the place of a foot
    "frequency",
    "step",
    "turn",
]

# all lengths in m, angles in rad, times in s
NUMBERS: dict[str, Any] = {
    "frequency": 3.86,  # of the clock, Hz
    "duty": [0.485, 0.532],  # part of a cycle that the front and hind feet are on the ground
    "lag": -0.017,  # of the hind feet behind the front feet across of them, part of a cycle
    "depth": [0.1134, 0.1056],  # of the front and hind feet below their hips
    "center": [0.0167, -0.0231],  # of their steps, forward of the hips
    "lift": [0.0177, 0.0138],  # of a foot in the air
    "rise": 0.65,  # of the lift: 0 is slow at both ends, 1 leaves and meets the ground at speed
    "gain": 1.13,  # length of the steps over that of a foot that never slips
    "shape": -0.1,  # of the swing: 0 is slow at both ends, 1 comes down moving backward as fast as the ground
    "balance": [0.0395, 0.0003, 0.0161, -0.0012, -0.0049, -0.0004],  # see `balance`: m per unit of lean, and m per rad/s
    "lean_filter": 0.04,  # weight of one frame
    "wave_filter": 0.04,  # weight of one frame
    "balance_limit": 0.02,  # m
    "heading_gain": 2.6,  # turn of the steps per rad of heading error, 1/s
    "heading_sum_gain": 1.0,  # 1/s^2
    "turn_width": 0.049,  # m: half of the distance of left and right feet
    "turn_limit": 0.6,  # part of a step that left and right may differ by, to either side
    "stop_speed": 0.03,  # m/s: slower commands are steps in place that get lower, and zero is standing
    "acceleration": 0.2,  # m/s^2, of the speed command inside
    "filter": 0.02,  # weight of one measurement of the accelerometer against the gyroscope
    "heading_limit": 0.6,  # rad: larger errors of heading are not accumulated
    "foot_scale": 0.010,  # m per action
    "frequency_scale": 0.5,  # Hz per action
    "step_scale": 0.2,  # part of a step per action
    "turn_scale": 0.2,  # part of a step per action
    "action_limit": 3.0,
    "angle_limit": 1.55,  # rad: of a servo
    "rate_scale": 0.3,  # of observed angular rates
    "acceleration_scale": 0.1,
    "speed_scale": 5.0,  # of the observed speed command
}


def initial() -> dict[str, Any]:
    """The state before the first call: upright, standing, the clock at zero."""
    return {
        "phase": np.zeros(1),
        "down": np.array([0.0, 0.0, -1.0]),
        "heading": np.zeros(1),  # rad: how far it has turned beyond the command
        "lean": np.zeros(2),  # forward and left entries of `down`, smoothed over some cycles
        "heading_sum": np.zeros(1),  # rad s
        "waves": np.zeros(12),
        "rate": np.zeros(3),  # as measured last
        "command": np.zeros(2),  # the command, followed with bounded acceleration
        "action": np.zeros(len(ACTION)),
    }


def observe(
    numbers: dict[str, Any], state: dict[str, Any], rate: Any, acceleration: Any, command: Any
) -> tuple[Any, dict[str, Any]]:
    """What the network sees, in the order of OBSERVATION, and the next state."""
    dt = 1.0 / RATE
    down, w = state["down"], rate
    # a direction that is constant in the world turns against the body, and is pulled toward what the accelerometer says
    turned = [
        down[0] + dt * (down[1] * w[2] - down[2] * w[1]),
        down[1] + dt * (down[2] * w[0] - down[0] * w[2]),
        down[2] + dt * (down[0] * w[1] - down[1] * w[0]),
    ]
    size = np.sqrt(acceleration[0] ** 2 + acceleration[1] ** 2 + acceleration[2] ** 2) + 1e-3
    weight = numbers["filter"]
    mixed = [turned[k] - weight * (turned[k] + acceleration[k] / size) for k in range(3)]
    length = np.sqrt(mixed[0] ** 2 + mixed[1] ** 2 + mixed[2] ** 2) + 1e-6
    down = np.array([mixed[k] / length for k in range(3)])
    # yaw rate about the vertical, less what is commanded
    yaw_rate = -(down[0] * w[0] + down[1] * w[1] + down[2] * w[2])
    step = numbers["acceleration"] * dt
    speed = state["command"][0] + clipped(command[0] - state["command"][0], -step, step)
    turn = command[1]
    limit = numbers["heading_limit"]
    heading = clipped(state["heading"][0] + dt * (yaw_rate - turn), -limit, limit)
    lean = np.array([state["lean"][k] + numbers["lean_filter"] * (down[k] - state["lean"][k]) for k in range(2)])
    total = clipped(state["heading_sum"][0] + dt * heading, -limit, limit)
    angle = 2.0 * np.pi * state["phase"][0]
    sine, cosine = np.sin(angle), np.cos(angle)
    # once and twice a cycle, how the body rocks: a lopsided dog shows in what a mirror image would not have
    tones = [sine, cosine, 2.0 * sine * cosine, 1.0 - 2.0 * sine * sine]
    now = [w[k] * tone for k in range(3) for tone in tones]
    waves = [state["waves"][k] + numbers["wave_filter"] * (now[k] - state["waves"][k]) for k in range(12)]
    parts = [
        *[numbers["rate_scale"] * w[k] for k in range(3)],
        *[numbers["acceleration_scale"] * acceleration[k] for k in range(3)],
        *[down[k] for k in range(3)],
        lean[0],
        lean[1],
        heading,
        total,
        numbers["speed_scale"] * speed,
        turn,
        sine,
        cosine,
        *waves,
        *[state["action"][k] for k in range(len(ACTION))],
    ]
    after = {
        "down": down,
        "lean": lean,
        "heading": np.array([heading]),
        "heading_sum": np.array([total]),
        "rate": np.array([w[0], w[1], w[2]]),
    }
    after["waves"] = np.array(waves)
    after["command"] = np.array([speed, turn])
    return np.array(parts), {**state, **after}


def act(numbers: dict[str, Any], state: dict[str, Any], action: Any) -> tuple[Any, dict[str, Any]]:
    """Eight servo angles, rad, for the network's output, and the next state."""
    n = numbers
    a = [clipped(action[k], -n["action_limit"], n["action_limit"]) for k in range(len(ACTION))]
    speed, turn = state["command"][0], state["command"][1]
    # at low speeds steps get lower, and the clock stands where all feet are down
    moving = clipped((abs(speed) + n["turn_width"] * abs(turn)) / n["stop_speed"], 0.0, 1.0)
    frequency = n["frequency"] + n["frequency_scale"] * a[8]
    phase = state["phase"][0] + frequency / RATE
    phase = phase - np.floor(phase)
    stride = n["gain"] / frequency * speed * (1.0 + n["step_scale"] * a[9])
    # turning: feet at the sides move at speed -+ width * turn
    wanted = turn - n["heading_gain"] * state["heading"][0] - n["heading_sum_gain"] * state["heading_sum"][0]
    most = n["turn_limit"] * 0.05
    difference = 0.5 / frequency * n["turn_width"] * wanted
    difference = clipped(difference, -most, most) * moving + n["turn_scale"] * 0.05 * a[10] * moving
    shift, roll, pitch = balance(n, state["lean"], state["rate"])
    angles: list[Any] = []
    for leg in range(4):
        left, hind = leg % 2 == 0, leg // 2
        along, up = footpath(n, leg, phase)
        length = stride * n["duty"][hind] + (-difference if left else difference)
        x = n["center"][hind] + length * along + shift + n["foot_scale"] * a[2 * leg]
        z = n["depth"][hind] - n["lift"][hind] * moving * up - n["foot_scale"] * a[2 * leg + 1]
        z = z + (roll if left else -roll) + (-pitch if hind else pitch)
        hip, knee = leg_angles(x, z)
        side = 1.0 if left else -1.0
        angles += [side * clipped(each, -n["angle_limit"], n["angle_limit"]) for each in (hip, knee)]
    return np.array(angles), {**state, "phase": np.array([phase]), "action": np.array(a)}


def balance(numbers: dict[str, Any], lean: Any, rate: Any) -> tuple[Any, Any, Any]:
    """How far all feet move forward, left legs get longer than right ones, and front legs longer than hind ones, m.

    On a slope the dog's weight acts ahead of its feet or beside them: feet move there, legs on the lower side get longer.
    """
    k, limit = numbers["balance"], numbers["balance_limit"]
    shift = clipped(k[0] * lean[0] + k[1] * rate[1], -limit, limit)
    roll = clipped(k[2] * lean[1] + k[3] * rate[0], -limit, limit)
    pitch = clipped(k[4] * lean[0] + k[5] * rate[1], -limit, limit)
    return shift, roll, pitch


def footpath(numbers: dict[str, Any], leg: int, phase: Any) -> tuple[Any, Any]:
    """Where the foot of a leg is: along its step, 1/2 to -1/2 while on the ground and back in the air, and up, 0 to 1."""
    left, hind = leg % 2 == 0, leg // 2
    duty = numbers["duty"][hind]
    part = phase - numbers["lag"] * hind + (0.0 if left == (hind == 0) else 0.5)
    part = part - np.floor(part)
    swing = clipped((part - duty) / (1.0 - duty), 0.0, 1.0)
    forward = swing - (1.0 + numbers["shape"] * (1.0 - duty) / duty) * np.sin(2.0 * np.pi * swing) / (2.0 * np.pi)
    along = np.where(part < duty, 0.5 - part / duty, -0.5 + forward)
    lifted = np.sin(np.pi * swing)
    return along, lifted * (lifted + numbers["rise"] * (1.0 - lifted))


def leg_angles(x: Any, z: Any) -> tuple[Any, Any]:
    """(hip, knee) of a left leg whose foot is x in front of its hip and z below, m; out of reach: stretched toward it."""
    square = clipped(x * x + z * z, (LOWER - UPPER + 1e-3) ** 2, (LOWER + UPPER - 1e-4) ** 2)
    u = np.sqrt(square)
    knee = np.arccos((LOWER**2 + UPPER**2 - square) / (2.0 * LOWER * UPPER))
    hip = np.arccos((UPPER**2 + square - LOWER**2) / (2.0 * UPPER * u)) + np.arctan2(-x, z)
    return hip, knee - 0.5 * np.pi


def clipped(x: Any, low: Any, high: Any) -> Any:
    """x within [low, high]."""
    return np.minimum(np.maximum(x, low), high)
