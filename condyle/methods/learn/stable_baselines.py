"""An environment as a VecEnv of Stable-Baselines3."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.errors import ControlError, require
from condyle.methods.learn.gymnasium import box

if TYPE_CHECKING:
    from condyle.methods.learn.env import VectorEnv


def stable_baselines_env(env: VectorEnv) -> Any:
    """The environment with the interface of Stable-Baselines3; `.env` is the environment itself.

    Of a robot whose episode ended, infos[k] holds "terminal_observation", "TimeLimit.truncated" and "episode" ("r" and "l").
    """
    require("stable_baselines3", "learn", "the interface of Stable-Baselines3")
    if env.device is not None:
        raise ControlError("Stable-Baselines3 takes NumPy arrays: make the environment without device=")
    return _class()(env)


@cache
def _class() -> Any:
    from stable_baselines3.common.vec_env import VecEnv

    class StableBaselinesEnv(VecEnv):  # type: ignore[misc]
        """Many robots in one kernel."""

        def __init__(self, env: Any) -> None:
            self.env, self.render_mode = env, None
            self._actions: np.ndarray | None = None
            observations = box(env.observation_size, None, env.dtype.type)
            super().__init__(env.num_envs, observations, box(env.action_size, env.plan.clip, env.dtype.type))

        def reset(self) -> np.ndarray:
            """Observations of new episodes."""
            seed = self._seeds[0]
            self._reset_seeds()
            self._reset_options()
            observations: np.ndarray = self.env.reset(seed)[0]
            return observations

        def step_async(self, actions: np.ndarray) -> None:
            """Keep the actions of the next step."""
            self._actions = actions

        def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
            """(observations, rewards, dones, infos) of one policy step."""
            if self._actions is None:
                raise ControlError("step_wait follows step_async, which gives the actions")
            observations, rewards, terminated, truncated, found = self.env.step(self._actions)
            self._actions = None
            infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
            ended = terminated | truncated
            for k in np.flatnonzero(ended):
                infos[k] = {
                    "terminal_observation": found["final_obs"][k],
                    "TimeLimit.truncated": bool(truncated[k]),
                    "episode": {"r": float(found["episode_returns"][k]), "l": int(found["episode_lengths"][k])},
                }
            return observations, rewards, ended, infos

        def close(self) -> None:
            """Nothing to close."""

        def seed(self, seed: int | None = None) -> list[int | None]:
            """The seed of the next reset, of which all robots have their own random numbers."""
            self._seeds = [seed] * self.num_envs
            return list(self._seeds)

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            """An attribute, for each of the robots."""
            owner = self if attr_name == "render_mode" else self.env
            return [getattr(owner, attr_name) for _ in self._get_indices(indices)]

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            """Set an attribute of the environment, which all robots share."""
            setattr(self.env, attr_name, value)

        def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
            """Call a method of the environment once; its result for each of the robots."""
            result = getattr(self.env, method_name)(*method_args, **method_kwargs)
            return [result for _ in self._get_indices(indices)]

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            """No robot has a wrapper of its own."""
            return [False for _ in self._get_indices(indices)]

    return StableBaselinesEnv
