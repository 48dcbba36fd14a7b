"""A policy file as what is deployed: the numbers of dog.py, and the 50 Hz step as one compiled function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from condyle.apps.pidog import controller
from condyle.apps.pidog.deploy.safety import SAFETY
from condyle.apps.pidog.deploy.step import Controller, bounded, first_state, pulses, step
from condyle.apps.pidog.kinematics import JOINTS
from condyle.apps.pidog.poses import pose_angles
from condyle.apps.pidog.servos import FASTEST
from condyle.blocks import policy as traced
from condyle.errors import ControlError
from condyle.methods.learn.policy import Policy
from condyle.methods.learn.policy_file import PolicyFile, parts_text
from condyle.tape.array import array
from condyle.tape.function import Function, function
from condyle.tape.loop import loop, map_rows, scan
from condyle.tape.table import Table, table
from condyle.tape.trace import Uniform

ROBOT = "pidog"
RAMP = 1.0  # s from one end of a command's range to the other
MARGIN = 1.0  # degrees that servos stay away from +-90; the controller itself stays within 88.8
# degrees in a frame while it walks: trained policies ask for up to 28, which servos follow as fast as they can (8), and a lower
# bound on the angles that they are asked for would change the gait
FASTEST_STEP = 36.0

# (part of the time, degrees of front hip and knee, of hind hip and knee) of poses between lying and standing, found by search.
# Straight from one to the other the hind feet are below the middle of the body and carry all of it, which weak servos cannot;
# here hips turn first, and knees stretch then. Front knees and hind feet, which move in the same planes, stay apart.
RISE = ((0.25, (55.0, -65.0, 85.0, -59.0)), (0.6, (81.0, -36.0, 66.0, -16.0)))


@dataclass(frozen=True)
class Deployment:
    """A policy of PiDog: `data` (plain numbers and names), `arrays` (float32, "layer0" of shape (neurons, inputs + 1), ...)."""

    data: dict[str, Any]
    arrays: dict[str, np.ndarray]
    module: ModuleType = controller

    @property
    def controller(self) -> Controller:
        """The functions of the controller, for NumPy."""
        return Controller(self.module.initial, self.module.observe, self.module.act)

    @property
    def layers(self) -> list[str]:
        """Names of the layers' arrays."""
        return [name for name in self.arrays if name.startswith("layer")]

    def state(self) -> dict[str, np.ndarray]:
        """The state before the first step."""
        return first_state(self.data, self.controller)

    @cached_property
    def kernel(self) -> Function:
        """The step as a compiled function of rate, acceleration, command, state (one vector) and the arrays."""
        first = self.state()
        ends = np.cumsum([x.size for x in first.values()])
        functions = Controller(self.module.initial, _arrays(self.module.observe), _arrays(self.module.act))
        data = self.data

        def policy_kernel(rate: Any, acceleration: Any, command: Any, state: Any, **arrays: Any) -> dict[str, Any]:
            def network(observation: Any) -> Any:
                clip, shape = data["observation_clip"], traced.ACTIVATIONS[data["activation"]]
                normalized = lambda o, mean, std: bounded((o - mean) / std, -clip, clip)  # noqa: E731
                x = map_rows(normalized, table(observation), arrays["mean"], arrays["std"])
                for name in self.layers:
                    x = dense(arrays[name], x, traced.identity if name == self.layers[-1] else shape)
                return x[:]

            parts = dict(zip(first, np.split(state, ends[:-1]), strict=True))
            _, degrees, after = step(data, functions, network, parts, rate, acceleration, command)
            return {"pulses": map_rows(pulses, table(degrees)), "next": np.concatenate([after[name] for name in first])}

        shapes = {name: Uniform(*self.arrays[name].shape) for name in self.arrays}
        names = {"rate": 3, "acceleration": 3, "command": len(self.data["commands"]), "state": int(ends[-1])}
        ports: dict[str, Any] = {**names, **shapes}
        return function(policy_kernel, **ports)

    def replay(self, rate: Any, acceleration: Any, command: Any) -> tuple[np.ndarray, np.ndarray]:
        """(pulses, degrees) of the kernel, (steps, 8) each, for the inputs of consecutive steps from the first on."""
        state = np.concatenate([x.reshape(-1) for x in self.state().values()])
        weights = [a.astype(float) for a in self.arrays.values()]
        counts, degrees = [], []
        for k in range(len(rate)):
            found, state = self.kernel(rate[k], acceleration[k], command[k], state, *weights)
            counts.append(found)
            degrees.append(state[-8:])
        return np.reshape(counts, (-1, 8)).astype(int), np.reshape(degrees, (-1, 8))


def dense(weights: Table, x: Table, activation: Any) -> Table:
    """activation(b + W x) in two loops, over the neurons and over their inputs, for rows (W, b)."""
    inputs = weights.shape[1] - 1

    def neuron(i: Any, state: Any, _: Any) -> tuple[Any, Any]:
        return state, activation(loop(lambda j, total: total + weights[i, j] * x[j], weights[i, inputs], inputs))

    out: Table = scan(neuron, (), count=weights.rows)[1]
    return out


def deployment(file: PolicyFile) -> Deployment:
    """What is deployed of a policy file; one sentence if it is for another robot or another controller."""
    file.require_robot(ROBOT)
    policy = file.policy
    if not isinstance(policy, Policy):
        raise ControlError(f"only policies of the kind 'mlp' can be deployed, and this one is of the kind '{policy.kind}'")
    parts: Any = controller.OBSERVATION
    wanted = tuple((str(name), int(size)) for name, size in parts)
    if tuple(file.observation) != wanted or tuple(file.action) != tuple(controller.ACTION):
        raise ControlError(
            f"this policy of the task '{file.task}' observes {parts_text(file.observation)} and has {len(file.action)} actions, "
            f"and PiDog's controller gives {parts_text(wanted)} for {len(controller.ACTION)}: deploy a policy of the task 'walk'"
        )
    if file.rate != controller.RATE:
        raise ControlError(f"PiDog's controller runs at {controller.RATE:g} Hz, and this policy was trained at {file.rate:g} Hz")
    numbers = _numbers(file.controller)
    commands = _commands(file.commands)
    layers = {f"layer{k}": np.column_stack([W, b]).astype(np.float32) for k, (W, b) in enumerate(policy.layers)}
    arrays = {**layers, "mean": policy.mean, "std": policy.std}
    angles, _ = controller.act(numbers, controller.initial(), np.zeros(len(controller.ACTION)))
    stand = np.degrees(np.array(angles, dtype=float)).tolist()
    data = {
        "robot": file.robot,
        "task": file.task,
        "policy": file.hash,
        "rate": file.rate,
        "joints": list(JOINTS),
        "commands": commands,
        "controller": numbers,
        "stand": stand,
        "lie": pose_angles("lie").tolist(),
        "rise": [*([part, both_sides(pose)] for part, pose in RISE), [1.0, stand]],
        "limits": {
            "lowest": [MARGIN - 90.0] * 8,
            "highest": [90.0 - MARGIN] * 8,
            "fastest": FASTEST["legs"] / file.rate,
            "fastest_step": FASTEST_STEP,
            "command_change": 1.0 / (RAMP * file.rate),
        },
        "safety": dict(SAFETY),
        "activation": policy.activation,
        "observation_clip": float(policy.observation_clip),
        "arrays": {name: list(a.shape) for name, a in arrays.items()},
    }
    return Deployment(data, arrays)


def both_sides(pose: tuple[float, float, float, float]) -> list[float]:
    """Eight servo angles for hip and knee of the front and of the hind legs; those of the right side are negated."""
    front, hind = pose[:2], pose[2:]
    return [sign * x for pair in (front, hind) for sign in (1.0, -1.0) for x in pair]


def _numbers(given: Mapping[str, Any]) -> dict[str, Any]:
    """The controller's numbers of a policy file, all of them."""
    missing = [name for name in controller.NUMBERS if name not in given]
    if missing:
        raise ControlError(f"the policy lacks the number '{missing[0]}' of PiDog's controller: train it again with this version")
    numbers = {name: given[name] for name in controller.NUMBERS}
    for name, x in numbers.items():
        if np.shape(x) != np.shape(controller.NUMBERS[name]) or not np.isfinite(np.asarray(x, dtype=float)).all():
            raise ControlError(
                f"the controller's number '{name}' of the policy must be like {controller.NUMBERS[name]}, got {x!r:.60}"
            )
    return numbers


def _commands(given: Mapping[str, Any]) -> dict[str, list[float]]:
    """{name: [low, high]} of the two commands, speed and turn."""
    size = len(controller.initial()["command"])
    if len(given) != size:
        raise ControlError(f"PiDog's controller takes {size} commands, and the policy has {', '.join(given) or 'none'}")
    bounds = {name: [float(low), float(high)] for name, (low, high) in given.items()}
    for name, (low, high) in bounds.items():
        if not (np.isfinite([low, high]).all() and low <= high):
            raise ControlError(f"the range of the command '{name}' must be two numbers in order, got {low:g} and {high:g}")
    return bounds


def _arrays(method: Any) -> Any:
    """`observe` or `act` whose results are arrays of traced numbers."""

    def wrapped(*arguments: Any) -> tuple[Any, dict[str, Any]]:
        out, state = method(*arguments)
        return array(out), {name: array(x) for name, x in state.items()}

    return wrapped
