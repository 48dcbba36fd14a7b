"""One step of the deployed dog, 50 times a second: IMU and command in, pulses of eight servos out.

NumPy only: `condyle deploy` copies this text into dog.py, and Condyle traces the same functions into C. Where a number may be
traced there is no `if` about it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

SERVOS = 8
SHORTEST, LONGEST = 500.0, 2500.0  # us of a pulse, for -90 and 90 degrees
PERIOD, COUNTS = 20000.0, 4095.0  # us between two pulses, and in how many counts they are measured


class Controller(NamedTuple):
    """The three functions of condyle/apps/pidog/controller.py."""

    initial: Callable[..., Any]
    observe: Callable[..., Any]
    act: Callable[..., Any]


def bounded(x: Any, low: Any, high: Any) -> Any:
    """x, at least `low` and at most `high`; NaN stays NaN."""
    return np.minimum(np.maximum(x, low), high)


def approach(last: Any, target: Any, change: Any) -> Any:
    """`target`, or as far towards it from `last` as `change` allows."""
    return last + bounded(target - last, -change, change)


def pulses(degrees: Any) -> Any:
    """The pulse for an angle from -90 to 90 degrees, in whole counts of 20 ms / 4095, the nearest."""
    return np.rint((SHORTEST + (degrees + 90.0) / 180.0 * (LONGEST - SHORTEST)) * COUNTS / PERIOD)


def first_state(data: dict[str, Any], controller: Controller) -> dict[str, Any]:
    """The state before the first step: of the controller, of the ramp of the command, and the angles of standing."""
    state = {f"controller.{name}": np.asarray(x, dtype=float) for name, x in controller.initial().items()}
    return {**state, "command": np.zeros(len(data["commands"])), "degrees": np.array(data["stand"], dtype=float)}


def step(
    data: dict[str, Any],
    controller: Controller,
    network: Callable[[Any], Any],
    state: Any,
    rate: Any,
    acceleration: Any,
    command: Any,
) -> tuple[Any, Any, dict[str, Any]]:
    """(pulses, servo angles in degrees, next state) for body rates (3,), rad/s, specific force (3,), m/s^2, and a command.

    The command is bounded and ramped, the angles are clamped to `lowest` and `highest`, and change by at most `fastest_step`.
    """
    limits, numbers = data["limits"], data["controller"]
    low, high = np.array([x[0] for x in data["commands"].values()]), np.array([x[1] for x in data["commands"].values()])
    ramped = approach(state["command"], bounded(command, low, high), limits["command_change"] * (high - low))
    inner = {name[11:]: x for name, x in state.items() if name.startswith("controller.")}
    observation, inner = controller.observe(numbers, inner, rate, acceleration, ramped)
    angles, inner = controller.act(numbers, inner, network(observation))
    target = bounded(angles * (180.0 / np.pi), np.array(limits["lowest"]), np.array(limits["highest"]))
    degrees = approach(state["degrees"], target, limits["fastest_step"])
    following = {f"controller.{name}": x for name, x in inner.items()}
    return pulses(degrees), degrees, {**following, "command": ramped, "degrees": degrees}


# ---- the network in NumPy


def elu(x: Any) -> Any:
    """x above zero, exp(x) - 1 below."""
    return np.where(x > 0.0, x, np.exp(np.minimum(x, 0.0)) - 1.0)


def relu(x: Any) -> Any:
    """max(x, 0)."""
    return np.maximum(x, 0.0)


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {"elu": elu, "relu": relu, "tanh": np.tanh}


def unpacked(data: dict[str, Any], text: str) -> dict[str, Any]:
    """Arrays "layer0" (neurons, inputs + 1; the bias last), ..., "mean", "std", float64, from float32 in base64."""
    flat = np.frombuffer(base64.b64decode(text), dtype="<f4").astype(float)
    arrays, at = {}, 0
    for name, shape in data["arrays"].items():
        size = int(np.prod(shape))
        arrays[name] = flat[at : at + size].reshape(shape)
        at += size
    return arrays


def numpy_network(data: dict[str, Any], arrays: dict[str, Any]) -> Callable[[Any], Any]:
    """The function from an observation to the mean action, in float64."""
    layers = [(arrays[name][:, :-1].copy(), arrays[name][:, -1].copy()) for name in arrays if name.startswith("layer")]
    mean, std, clip, activation = arrays["mean"], arrays["std"], data["observation_clip"], ACTIVATIONS[data["activation"]]

    def network(observation: Any) -> Any:
        x = bounded((observation - mean) / std, -clip, clip)
        for W, b in layers[:-1]:
            x = activation(W @ x + b)
        return layers[-1][0] @ x + layers[-1][1]

    return network
