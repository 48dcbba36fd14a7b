"""An environment as rsl-rl's VecEnv: its own tensors, on a GPU, too; or tensors that share the memory of its NumPy arrays."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.errors import ControlError, require

if TYPE_CHECKING:
    from condyle.methods.learn.env import VectorEnv


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

    def tensor(value: Any) -> Any:
        return value if isinstance(value, torch.Tensor) else torch.from_numpy(value)

    class RslRlEnv(VecEnv):  # type: ignore[misc]
        """Many robots in one kernel."""

        def __init__(self, env: Any, cfg: Any) -> None:
            self.env, self.cfg, self.device = env, {} if cfg is None else cfg, env.device or "cpu"
            self.num_envs, self.num_actions = env.num_envs, env.action_size
            # without a limit an episode is as long as its counter counts
            self.max_episode_length = env.max_episode_steps or 2**24

        @property
        def episode_length_buf(self) -> Any:
            """Policy steps of the present episodes; a tensor that is assigned replaces them."""
            return tensor(self.env["episode.step"]).long()

        @episode_length_buf.setter
        def episode_length_buf(self, value: Any) -> None:
            self.env.set("episode.step", value.detach() if self.env.device else value.detach().cpu().numpy())

        def get_observations(self) -> Any:
            """The present observations."""
            return self._groups(self.env.observations, self.env.privileged_observations)

        def step(self, actions: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
            """(observations, rewards, dones, extras) of one policy step."""
            observations, rewards, terminated, truncated, infos = self.env.step(
                actions.detach() if self.env.device else actions.detach().numpy()
            )
            extras = {
                "time_outs": tensor(truncated),
                "log": {f"/reward/{name}": tensor(value) for name, value in infos["reward_terms"].items()},
            }
            dones = tensor(terminated | truncated).long()
            return self._groups(observations, infos.get("privileged")), tensor(rewards), dones, extras

        def _groups(self, observations: Any, privileged: Any) -> Any:
            groups = {"policy": tensor(observations)}
            groups |= {} if privileged is None else {"critic": tensor(privileged)}
            return TensorDict(groups, batch_size=[self.num_envs], device=self.device)

    return RslRlEnv
