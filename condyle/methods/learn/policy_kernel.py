"""A policy inside of the kernel of an environment: weights are shared arrays of the call, noise has keys like all noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from condyle.blocks.policy import LSTM, MLP
from condyle.closed_loop.block import Block
from condyle.closed_loop.tick import Tick
from condyle.errors import ControlError
from condyle.methods.learn.env_values import packed_layout
from condyle.tape.array import assemble, where
from condyle.tape.trace import Uniform


@dataclass(frozen=True)
class PolicyPlan:
    """The form of a policy: a block whose arrays are given with each call."""

    block: Block

    @cached_property
    def states(self) -> dict[str, np.ndarray]:
        """Initial values of what it remembers."""
        return dict(self.block.states)

    @cached_property
    def start(self) -> np.ndarray:
        """What it remembers of a robot whose episode begins, in one vector."""
        return np.concatenate([value.ravel() for value in self.states.values()])

    @property
    def memory_size(self) -> int:
        """Numbers that it remembers of each robot."""
        return sum(value.size for value in self.states.values())

    def shapes(self, actions: int) -> dict[str, Any]:
        """The inputs of a kernel for its arrays."""
        found: dict[str, Any] = {f"policy:{w.name}": Uniform(*w.shape) for w in self.block.tables.values()}
        found |= {f"policy:{p.name}": Uniform(*(p.shape or (1,))) for p in self.block.parameters.values()}
        found |= {"policy:std": Uniform(actions)}
        return found | ({"memory": self.memory_size} if self.states else {})

    def memory(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """What it remembers, by name."""
        layout = packed_layout({name: value.shape for name, value in self.states.items()})
        return {name: assemble(list(arrays["memory"][place]), shape) for name, (place, shape) in layout.items()}

    def packed(self, memory: Mapping[str, Any]) -> Any:
        """What it remembers as one vector."""
        entries = [x for name in self.states for x in np.ravel(memory[name])]
        return assemble(entries, (len(entries),))

    def forgotten(self, memory: Mapping[str, Any], ended: Any) -> dict[str, Any]:
        """The initial memory for robots whose episode ended."""
        return {name: where(ended, self.states[name], value) for name, value in memory.items()}

    def act(
        self, call: Any, parts: Mapping[str, Any], memory: Mapping[str, Any], arrays: Mapping[str, Any]
    ) -> tuple[Any, Any, dict[str, Any]]:
        """(action, mean, memory) for the observation of a robot."""
        seed, robot, step = call.keys(parts)
        tables = {w.name: arrays[f"policy:{w.name}"] for w in self.block.tables.values()}
        numbers = {p.name: _entries(arrays[f"policy:{p.name}"], p.shape) for p in self.block.parameters.values()}
        tick = Tick(call.plan.loop.dt, step, seed=seed, robot=robot, parameters=numbers, tables=tables, states={})
        with tick.running():
            mean, after = self.block.step(dict(memory), parts["observation"])
        mean = np.ravel(mean)
        if len(mean) != call.plan.actions:
            raise ControlError(f"the policy gives {len(mean)} actions, and the environment takes {call.plan.actions}")
        std = _entries(arrays["policy:std"], (len(mean),))
        action = mean + std * call.policy_noise(parts, len(mean))
        return action, mean, {**memory, **after}


def _entries(table: Any, shape: tuple[int, ...]) -> Any:
    count = math.prod(shape)
    if not shape:
        return table[0]
    return table[:] if len(shape) == 1 and table.shape == (count,) else assemble(list(np.ravel(table[:])), shape)


def policy_block(policy: Any) -> Block:
    """The block of a policy, which may be a block already."""
    made = policy.block() if callable(getattr(policy, "block", None)) else policy
    if not isinstance(made, Block):
        raise ControlError(
            f"a rollout needs a policy, a block such as condyle.blocks.MLP, or an array of actions; got {type(policy).__name__}"
        )
    return made


def policy_form(block: Block) -> tuple[Any, PolicyPlan]:
    """(key, plan) of a policy: two policies of one form share a kernel."""
    shapes = tuple((w.name, w.shape) for w in block.tables.values()), tuple((p.name, p.shape) for p in block.parameters.values())
    if type(block) not in (MLP, LSTM):
        return (id(block), *shapes), PolicyPlan(block)
    # the same form without its numbers, so that no trace depends on them
    sizes = [w.shape for w in block.tables.values()]
    optional: dict[str, Any] = {
        name: np.ones(p.shape) if name == "std" else np.zeros(p.shape) for name, p in block.parameters.items()
    }
    if isinstance(block, LSTM):
        gates, (n, m) = np.zeros(sizes[0]), sizes[1]
        return ("lstm", *shapes), PolicyPlan(LSTM(gates, (np.zeros((n, m - 1)), np.zeros(n)), name=block.name, **optional))
    assert isinstance(block, MLP)
    layers = [(np.zeros((n, m - 1)), np.zeros(n)) for n, m in sizes]
    return (block.activation, *shapes), PolicyPlan(MLP(layers, block.activation, name=block.name, **optional))


def policy_arrays(block: Block, std: Any, actions: int, dtype: Any) -> dict[str, np.ndarray]:
    """The arrays of a policy for a call."""
    found = {f"policy:{w.name}": w.default.astype(dtype) for w in block.tables.values()}
    found |= {f"policy:{p.name}": np.atleast_1d(p.default).astype(dtype) for p in block.parameters.values()}
    noise = np.zeros(actions) if std is None else np.asarray(std, dtype=float)
    try:
        noise = np.broadcast_to(noise, (actions,))
    except ValueError:
        raise ControlError(
            f"the noise of a policy has one standard deviation for each of {actions} actions, got {noise.shape}"
        ) from None
    if not np.all(np.isfinite(noise)) or np.any(noise < 0.0):
        raise ControlError("the standard deviations of a policy must be finite and at least 0")
    return {**found, "policy:std": np.ascontiguousarray(noise, dtype=dtype)}
