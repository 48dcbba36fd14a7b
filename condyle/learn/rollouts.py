"""What policy steps of many robots gave: arrays by name, as learning algorithms take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.robot.names import nearest


@dataclass(frozen=True)
class Rollouts:
    """What policy steps of all robots gave: arrays (num_envs, steps, ...), in the order of time.

    `observations` and `privileged` are those that the `actions` answer; `means` are the actions without noise. Rewards and ends
    belong to the step that the action began. `reward_terms`: mean of each term over all steps. `episode_returns` and
    `episode_lengths` (policy steps) are of the episodes that ended, in the order of robots, then time. `failed`: steps after
    which a robot was not finite or its solver did not converge; they are terminated, too. `records`: further values, after a
    step and before a reset. `final_observations`: those at the end of a step before a reset, if they were asked for. `memory`:
    what a policy with states remembered at the start, (num_envs, size).
    """

    observations: np.ndarray | None
    privileged: np.ndarray | None
    actions: np.ndarray
    means: np.ndarray | None
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    failed: np.ndarray
    reward_terms: dict[str, float]
    last_observations: np.ndarray
    last_privileged: np.ndarray | None
    episode_returns: np.ndarray
    episode_lengths: np.ndarray
    records: dict[str, np.ndarray] = field(default_factory=dict)
    final_observations: np.ndarray | None = None
    final_privileged: np.ndarray | None = None
    memory: np.ndarray | None = None

    def __getitem__(self, name: str) -> np.ndarray:
        """A record by name."""
        if name not in self.records:
            raise ControlError(f"'{name!s:.60}' was not recorded{nearest(name, list(self.records))}; give it in record=[...]")
        return self.records[name]


def rollouts_of(
    found: Mapping[str, Any], names: Sequence[str], terms: Any, actions: np.ndarray, records: dict[str, np.ndarray]
) -> Rollouts:
    """What the outputs of a kernel, by name, say of all steps; `names` and `terms`: of the reward, and their means."""
    ended = (found["terminated"] + found["truncated"]) > 0.5
    return Rollouts(
        observations=found.get("observations"),
        privileged=found.get("privileged"),
        actions=actions,
        means=found.get("means"),
        rewards=found["reward"],
        terminated=found["terminated"] > 0.5,
        truncated=found["truncated"] > 0.5,
        failed=found["failed"] > 0.5,
        reward_terms={name: float(value) for name, value in zip(names, terms, strict=True)},
        last_observations=found["last_observation"],
        last_privileged=found.get("last_privileged"),
        episode_returns=found["episode_return"][ended],
        episode_lengths=found["episode_length"][ended].astype(np.int64),
        records=records,
        final_observations=found.get("final_observation"),
        final_privileged=found.get("final_privileged"),
        memory=found.get("first_memory"),
    )
