"""Gradients of an environment's rollouts by the weights of the policy, in reverse mode through physics, contact and rewards.

    found, pullback = rollout_vjp(env, policy, 32, std)
    by = pullback(reward=weights)          # {"policy.layer0": ..., "std": ...} of each robot's sum of weights times rewards

Episodes that end within the rollout cut the gradient: what follows a reset does not depend on what was before. One kernel goes
forward and keeps the states, one goes back through them; neither depends on the number of steps (condyle/closed_loop/adjoint.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.methods.learn.env import VectorEnv
from condyle.methods.learn.env_kernel import RESULTS, rollout_kernel
from condyle.methods.learn.policy_kernel import PolicyPlan, policy_arrays, policy_block, policy_form
from condyle.robot.names import nearest
from condyle.tape.function import Function
from condyle.tape.trace_cache import traced_function

Array = np.ndarray
PREFIX = "policy:"
VALUES = ("reward", "observations", "privileged", "final_observation", "final_privileged", "actions")  # what has gradients
LAST = ("last_observation", "last_privileged", "term_sums")  # after all steps


def rollout_vjp(
    env: VectorEnv, policy: Any, steps: int, std: Any = None
) -> tuple[dict[str, Array], Callable[..., dict[str, Array]]]:
    """({name: (num_envs, steps, ...)}, pullback) of policy steps with exploration noise `std`; the environment goes on.

    Names are "reward", "observations", "final_observation" (before a reset), "actions", "terminated", "truncated", "failed", ...;
    pullback(reward=..., observations=..., final_observation=..., actions=...) gives the gradients by the arrays of the policy's
    block, and by "std", of each robot's sum of weights times values: (num_envs, ...). Weights that are not given are zero.
    """
    if env.device is not None:
        raise ControlError("gradients through an environment are of NumPy arrays: make it without device=")
    block = policy_block(policy)
    function, names = _function(env, block)
    forward, backward = function.forward_and_backward(names)
    arrays: dict[str, Any] = {"row": env.state, "rows": np.zeros((steps, 1), env.dtype), **env.arrays()}
    arrays |= policy_arrays(block, std, env.action_size, env.dtype)
    outputs = dict(zip([p.name for p in forward.tape.outputs], forward(**arrays), strict=True))
    kept = {name: value for name, value in outputs.items() if name not in function.outputs}
    found = {name: outputs[name] for name in (*VALUES, "means", *LAST) if name in outputs}
    found |= {name: outputs["results"][..., k] for k, name in enumerate(RESULTS)}
    env.restore(np.where(np.isfinite(outputs["row"]), outputs["row"], 0.0))

    def pullback(**weights: Any) -> dict[str, Array]:
        """{name: gradient} of the sum of weights times values."""
        given = {f"{name}_weight": np.zeros_like(outputs[name]) for name in function.outputs}
        for name, weight in weights.items():
            if name not in VALUES or name not in found:
                known = [each for each in VALUES if each in found]
                raise ControlError(f"this rollout has no gradient of '{name!s:.40}'{nearest(name, known)}")
            if name == "reward":
                given["results_weight"][..., RESULTS.index(name)] = weight
            else:
                given[f"{name}_weight"][:] = weight
        results = backward(**arrays, **kept, **given)
        results = results if isinstance(results, tuple) else (results,)
        return {name.removeprefix(PREFIX): by for name, by in zip(names, results, strict=True)}

    return found, pullback


def _function(env: VectorEnv, block: Any) -> tuple[Function, list[str]]:
    """(the compiled rollout, the names of the policy's arrays)."""
    key, plan = policy_form(block)
    if plan.states:
        raise ControlError("gradients through a rollout are for policies without memory: give a perceptron, not an LSTM")
    names = [f"{PREFIX}{w.name}" for w in block.tables.values()] + [f"{PREFIX}std"]

    def compiled() -> tuple[Function, PolicyPlan]:
        shapes = env.shapes(plan)
        kernel = rollout_kernel(env.plan, plan, (), env.plan.signals, True)
        tape = traced_function(kernel, shapes, values_only=True)
        return Function(tape, differentiable=partial(traced_function, kernel, shapes), label="the environment"), plan

    function, _ = env.kernels.find(("gradients", key), compiled)
    return function, names
