"""What policy steps of many robots gave: arrays by name, as learning algorithms take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.methods.learn.env_arrays import integers, on_host
from condyle.robot.names import nearest


@dataclass(frozen=True)
class Rollouts:
    """What policy steps of all robots gave: arrays (num_envs, steps, ...), in the order of time.

    `observations` and `privileged` are those that the `actions` answer; `means` are the actions without noise. Rewards and ends
    belong to the step that the action began. `returns` and `lengths`: of the episode up to the end of each step. `failed`: steps
    after which a robot was not finite or its solver did not converge; they are terminated, too. `records`: further values, after
    a step and before a reset. `final_observations`: those at the end of a step before a reset, if they were asked for. `memory`:
    what a policy with states remembered at the start, (num_envs, size). `reward_means`: of each term over all steps.

    Arrays are those of the environment: of NumPy, or tensors. Tensors on a GPU are not copied until `reward_terms`,
    `episode_returns` or `episode_lengths` is read.
    """

    observations: np.ndarray | None
    privileged: np.ndarray | None
    actions: np.ndarray
    means: np.ndarray | None
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    failed: np.ndarray
    returns: np.ndarray
    lengths: np.ndarray
    reward_names: tuple[str, ...]
    reward_means: np.ndarray
    last_observations: np.ndarray
    last_privileged: np.ndarray | None
    records: dict[str, np.ndarray] = field(default_factory=dict)
    final_observations: np.ndarray | None = None
    final_privileged: np.ndarray | None = None
    memory: np.ndarray | None = None

    def __getitem__(self, name: str) -> np.ndarray:
        """A record by name."""
        if name not in self.records:
            raise ControlError(f"'{name!s:.60}' was not recorded{nearest(name, list(self.records))}; give it in record=[...]")
        return self.records[name]

    @cached_property
    def reward_terms(self) -> dict[str, float]:
        """Mean of each term of the reward over all steps."""
        return dict(zip(self.reward_names, self.reward_means.tolist(), strict=True))

    @cached_property
    def episode_returns(self) -> Any:
        """Returns of the episodes that ended, in the order of robots, then time."""
        return self.returns[self.terminated | self.truncated]

    @cached_property
    def episode_lengths(self) -> Any:
        """Policy steps of the episodes that ended, in the order of robots, then time."""
        return integers(self.lengths[self.terminated | self.truncated])


class HostRollouts:
    """Rollouts as NumPy arrays: each tensor is copied from its device when it is first read."""

    def __init__(self, rollouts: Rollouts) -> None:
        self._rollouts = rollouts

    def __getattr__(self, name: str) -> Any:
        value = on_host(getattr(self._rollouts, name))
        setattr(self, name, value)
        return value

    def __getitem__(self, name: str) -> np.ndarray:
        return np.asarray(on_host(self._rollouts[name]))


def rollouts_of(
    found: Mapping[str, Any], names: Sequence[str], terms: Any, actions: np.ndarray, records: dict[str, np.ndarray]
) -> Rollouts:
    """What the outputs of a kernel, by name, say of all steps; `names` and `terms`: of the reward, and their means."""
    return Rollouts(
        observations=found.get("observations"),
        privileged=found.get("privileged"),
        actions=actions,
        means=found.get("means"),
        rewards=found["reward"],
        terminated=found["terminated"] > 0.5,
        truncated=found["truncated"] > 0.5,
        failed=found["failed"] > 0.5,
        returns=found["episode_return"],
        lengths=found["episode_length"],
        reward_names=tuple(names),
        reward_means=terms,
        last_observations=found["last_observation"],
        last_privileged=found.get("last_privileged"),
        records=records,
        final_observations=found.get("final_observation"),
        final_privileged=found.get("final_privileged"),
        memory=found.get("first_memory"),
    )
