"""Train by Stable-Baselines3: many robots in one kernel, behind its VecEnv.

`env.gymnasium()` and `env.rsl_rl()` are such interfaces for other libraries; this one takes NumPy arrays only.
"""

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv

from condyle.methods.learn.gymnasium import box
from condyle.methods.learn.task import load_task


class StableBaselinesEnv(VecEnv):
    """A condyle.VectorEnv as a VecEnv.

    Of a robot whose episode ended, infos[k] holds "terminal_observation", "TimeLimit.truncated" and "episode" ("r" and "l").
    """

    def __init__(self, env):
        if env.device is not None:
            raise ValueError("Stable-Baselines3 takes NumPy arrays: make the environment without device=")
        self.env, self.render_mode = env, None
        observations = box(env.observation_size, None, env.dtype.type)
        super().__init__(env.num_envs, observations, box(env.action_size, env.plan.clip, env.dtype.type))

    def reset(self):
        """Observations of new episodes; with a seed all random numbers begin again."""
        seed = self._seeds[0]
        self._reset_seeds()
        self._reset_options()
        return self.env.reset(seed)[0]

    def step_async(self, actions):
        """Keep the actions of the next step."""
        self.actions = actions

    def step_wait(self):
        """(observations, rewards, dones, infos) of one policy step."""
        observations, rewards, terminated, truncated, found = self.env.step(self.actions)
        infos = [{} for _ in range(self.num_envs)]
        for k in np.flatnonzero(terminated | truncated):
            infos[k] = {
                "terminal_observation": found["final_obs"][k],
                "TimeLimit.truncated": bool(truncated[k]),
                "episode": {"r": float(found["episode_returns"][k]), "l": int(found["episode_lengths"][k])},
            }
        return observations, rewards, terminated | truncated, infos

    def close(self):
        """Nothing to close."""

    def seed(self, seed=None):
        """The seed of the next reset, of which all robots have their own random numbers."""
        self._seeds = [seed] * self.num_envs
        return list(self._seeds)

    def get_attr(self, attr_name, indices=None):
        """An attribute, for each of the robots."""
        owner = self if attr_name == "render_mode" else self.env
        return [getattr(owner, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name, value, indices=None):
        """Set an attribute of the environment, which all robots share."""
        setattr(self.env, attr_name, value)

    def env_method(self, method_name, *method_args, indices=None, **method_kwargs):
        """Call a method of the environment once; its result for each of the robots."""
        result = getattr(self.env, method_name)(*method_args, **method_kwargs)
        return [result for _ in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class, indices=None):
        """No robot has a wrapper of its own."""
        return [False for _ in self._get_indices(indices)]


if __name__ == "__main__":
    torch.set_num_threads(1)  # threads would wait for each other: the networks are small
    env = StableBaselinesEnv(load_task("cartpole", "balance").make(64))
    env.seed(3)
    first = env.reset()
    env.seed(3)
    assert np.array_equal(first, env.reset())

    agent = PPO("MlpPolicy", env, n_steps=32, batch_size=512, n_epochs=5, learning_rate=1e-3, seed=1, device="cpu")
    lengths = []
    for steps in (4_096, 24_576):
        agent.learn(steps, reset_num_timesteps=False)
        lengths.append(np.mean([episode["l"] for episode in agent.ep_info_buffer]))  # the last 100 episodes
    before, after = lengths
    print(f"episodes of 64 cart-poles last {before:.0f} policy steps at first, {after:.0f} after {agent.num_timesteps:,} steps")

    # an episode that ends says where, and whether time was up
    env.reset()
    ends = []
    for _ in range(100):
        _, _, dones, infos = env.step(np.ones((64, 1), np.float32))
        ends += [infos[k] for k in np.flatnonzero(dones)]
    assert ends and all(e["terminal_observation"].shape == (5,) and not e["TimeLimit.truncated"] for e in ends)
    assert after > 1.5 * before
    print(
        f"checked: episodes become {after / before:.1f} times as long, and the {len(ends)} of a constant push say where they end"
    )
