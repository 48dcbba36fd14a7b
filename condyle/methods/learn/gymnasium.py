"""An environment as a gymnasium.vector.VectorEnv. Autoreset mode: same step."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.errors import ControlError, require

if TYPE_CHECKING:
    from condyle.methods.learn.env import VectorEnv


def box(size: int, bound: float | None, dtype: Any) -> Any:
    """The space of vectors of so many numbers up to a bound."""
    gymnasium = require("gymnasium", "learn", "the interface of Gymnasium")
    high = np.inf if bound is None else bound
    return gymnasium.spaces.Box(-high, high, (size,), dtype)


def gymnasium_env(env: VectorEnv) -> Any:
    """The environment with Gymnasium's interface; `.env` is the environment itself.

    A robot whose episode ends begins the next one in the same step (AutoresetMode.SAME_STEP): infos["final_obs"] holds its last
    observation, where infos["_final_obs"] is true. An environment of tensors gives and takes tensors, and gives
    both infos at every step: only the GPU knows whether an episode ended. reset(options={"reset_mask": mask}) begins again for
    some robots only.
    """
    require("gymnasium", "learn", "the interface of Gymnasium")
    return _class()(env)


@cache
def _class() -> Any:
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space

    class GymnasiumEnv(VectorEnv):  # type: ignore[misc]
        """Many robots in one kernel."""

        def __init__(self, env: Any) -> None:
            self.env, self.num_envs = env, env.num_envs
            self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": [], "render_fps": round(1.0 / env.dt)}
            self.single_observation_space = box(env.observation_size, None, env.dtype.type)
            self.single_action_space = box(env.action_size, env.plan.clip, env.dtype.type)
            self.observation_space = batch_space(self.single_observation_space, self.num_envs)
            self.action_space = batch_space(self.single_action_space, self.num_envs)

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
            """(observations, infos) of new episodes."""
            super().reset(seed=seed)
            unknown = [name for name in options or {} if name != "reset_mask"]
            if unknown:
                raise ControlError(f"reset knows the option 'reset_mask', not '{unknown[0]!s:.60}'")
            observations, infos = self.env.reset(seed, mask=(options or {}).get("reset_mask"))
            return observations, infos

        def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
            """(observations, rewards, terminations, truncations, infos) of one policy step."""
            observations, rewards, terminated, truncated, found = self.env.step(actions)
            infos: dict[str, Any] = {"reward_terms": found["reward_terms"], "failed": found["failed"]}
            if self.env.privileged_size:
                infos["privileged"] = found["privileged"]
            ended = terminated | truncated
            if self.env.device is not None:
                infos |= {"final_obs": found["final_obs"], "_final_obs": ended}
            elif ended.any():
                last = np.full(self.num_envs, None, dtype=object)
                for k in np.flatnonzero(ended):
                    last[k] = found["final_obs"][k]
                infos |= {"final_obs": last, "_final_obs": ended}
            return observations, rewards, terminated, truncated, infos

    return GymnasiumEnv
