"""An environment as rsl-rl's VecEnv: torch tensors on the processor that share the memory of the environment's arrays."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.errors import ControlError, require

if TYPE_CHECKING:
    from condyle.learn.env import VectorEnv


def rsl_rl_env(env: VectorEnv, cfg: Any = None) -> Any:
    """The environment with the interface of rsl-rl; `.env` is the environment itself, `cfg` what loggers are shown.

    Observations have the groups "policy" and, if there are privileged ones, "critic". extras["time_outs"] are the episodes that
    the time limit ended, and extras["log"] the terms of the reward.
    """
    for name in ("torch", "tensordict", "rsl_rl"):
        require(name, "learn", "the interface of rsl-rl")
    if env.dtype != np.float32:
        raise ControlError(f"rsl-rl learns in float32; make the environment with dtype=np.float32, not {env.dtype}")
    return _class()(env, cfg)


@cache
def _class() -> Any:
    import torch
    from rsl_rl.env import VecEnv
    from tensordict import TensorDict

    class RslRlEnv(VecEnv):  # type: ignore[misc]
        """Many robots in one kernel."""

        def __init__(self, env: Any, cfg: Any) -> None:
            self.env, self.cfg, self.device = env, {} if cfg is None else cfg, "cpu"
            self.num_envs, self.num_actions = env.num_envs, env.action_size
            # without a limit an episode is as long as its counter counts
            self.max_episode_length = env.max_episode_steps or 2**24

        @property
        def episode_length_buf(self) -> Any:
            """Policy steps of the present episodes; a tensor that is assigned replaces them."""
            return torch.from_numpy(self.env["episode.step"].astype(np.int64))

        @episode_length_buf.setter
        def episode_length_buf(self, value: Any) -> None:
            self.env.set("episode.step", value.detach().cpu().numpy())

        def get_observations(self) -> Any:
            """The present observations."""
            return self._groups(self.env.observations, self.env.privileged_observations)

        def step(self, actions: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
            """(observations, rewards, dones, extras) of one policy step."""
            observations, rewards, terminated, truncated, infos = self.env.step(actions.detach().numpy())
            extras = {
                "time_outs": torch.from_numpy(truncated),
                "log": {f"/reward/{name}": torch.from_numpy(value) for name, value in infos["reward_terms"].items()},
            }
            dones = torch.from_numpy(terminated | truncated)
            return self._groups(observations, infos.get("privileged")), torch.from_numpy(rewards), dones.long(), extras

        def _groups(self, observations: np.ndarray, privileged: np.ndarray | None) -> Any:
            groups = {"policy": torch.from_numpy(observations)}
            groups |= {} if privileged is None else {"critic": torch.from_numpy(privileged)}
            return TensorDict(groups, batch_size=[self.num_envs], device="cpu")

    return RslRlEnv
