"""ANYmal in MJX: a batch of robots that stand under constant torques, or tread under given ones, as one call of JAX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Scenes:
    """What all are given: MuJoCo's model, its states (qpos, qvel) at rest with torques, and of treading with torques per step."""

    model: Any
    standing: np.ndarray  # (nq + nv,)
    torques: np.ndarray  # (nu,)
    treading: np.ndarray  # (states, nq + nv)
    us: np.ndarray  # (states, steps, nu)

    def batch(self, task: str, count: int, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(qpos, qvel, torques (steps, robots, nu)) of some robots."""
        nq = self.model.nq
        if task == "step, standing":
            x, us = np.tile(self.standing, (count, 1)), np.broadcast_to(self.torques, (steps, count, len(self.torques)))
        else:
            x = np.resize(self.treading, (count, self.treading.shape[1]))
            us = np.resize(self.us[:, :steps], (count, steps, self.us.shape[2])).swapaxes(0, 1)
        return x[:, :nq], x[:, nq:], us


def stepper(scenes: Scenes, task: str, count: int, steps: int) -> Callable[[], Any]:
    """A call that makes some steps of some robots, compiled; it gives qpos and waits for it."""
    import jax
    from mujoco import mjx

    model = mjx.put_model(scenes.model)
    template = mjx.make_data(model)

    def rollout(qpos: Any, qvel: Any, us: Any) -> Any:
        data = template.replace(qpos=qpos, qvel=qvel)
        return jax.lax.scan(lambda data, u: (mjx.step(model, data.replace(ctrl=u)), None), data, us)[0].qpos

    batched = jax.jit(jax.vmap(rollout, in_axes=(0, 0, 1)))
    arrays = [jax.device_put(jax.numpy.asarray(a, dtype=template.qpos.dtype)) for a in scenes.batch(task, count, steps)]
    batched(*arrays).block_until_ready()
    return lambda: batched(*arrays).block_until_ready()
