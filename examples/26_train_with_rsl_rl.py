"""Train a task by rsl-rl's PPO: the same environment, hyperparameters and policy file as `condyle train` has.

python examples/26_train_with_rsl_rl.py [ROBOT TASK ITERATIONS POLICY.cdp]

`condyle judge` and `condyle deploy` take the policy. Hyperparameters with the same meaning are given to rsl-rl, and a task's
mirror is its symmetry, by doubled minibatches. Of ours it has no `action_bound`, takes `clip` for `value_clip`, bounds the
learning rate by its own numbers, and does not normalise returns; it has no checkpoints that go on with the same bits.
"""

import sys
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO

import numpy as np
import torch
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

from condyle.methods.learn.judge_task import judge_task
from condyle.methods.learn.mirror import mirrored
from condyle.methods.learn.policy import Policy, initial_policy
from condyle.methods.learn.policy_file import PolicyFile
from condyle.methods.learn.ppo import Settings
from condyle.methods.learn.task import load_task
from condyle.methods.learn.training import ALGORITHMS, policy_facts

UNBOUNDED = 1e6  # rsl-rl does not clip the normalised observations


def configuration(s, privileged, mirror):
    """What rsl-rl's runner takes, for our settings."""
    network = {"class_name": "MLPModel", "hidden_dims": list(s.hidden), "activation": s.activation, "obs_normalization": True}
    noise = {"class_name": "GaussianDistribution", "init_std": s.initial_std, "std_type": "log", "std_range": (s.min_std, 1e6)}
    algorithm = {
        "class_name": "PPO",
        "num_learning_epochs": s.epochs,
        "num_mini_batches": s.minibatches,
        "clip_param": s.clip,
        "gamma": s.gamma,
        "lam": s.lam,
        "value_loss_coef": s.value_coefficient,
        "entropy_coef": s.entropy,
        "learning_rate": s.learning_rate,
        "max_grad_norm": s.max_gradient_norm,
        "use_clipped_value_loss": s.value_clip is not None,
        "schedule": "fixed" if s.desired_kl is None else "adaptive",
        "desired_kl": s.desired_kl,
        "symmetry_cfg": None
        if mirror is None
        else {"data_augmentation_func": augmentation(mirror), "use_data_augmentation": True},
    }
    return {
        "num_steps_per_env": s.steps,
        "save_interval": 1,
        "obs_groups": {"actor": ["policy"], "critic": ["policy", "critic"] if privileged else ["policy"]},
        "actor": {**network, "distribution_cfg": noise},
        "critic": dict(network),
        "algorithm": algorithm,
    }


def augmentation(mirror):
    """The function by which rsl-rl appends mirror images to observations and actions."""
    maps = {"policy": mirror.observation, "critic": mirror.privileged, "action": mirror.action}
    tables = {name: (list(m[0]), torch.tensor(list(m[1]), dtype=torch.float32)) for name, m in maps.items() if m is not None}

    def both(name, x):
        order, signs = tables[name]
        return torch.cat([x, x[..., order] * signs])

    def augment(env, obs, actions):
        if obs is not None:
            groups = {name: both(name, obs[name]) for name in list(obs.keys())}
            obs = TensorDict(groups, batch_size=[2 * obs.batch_size[0]], device=obs.device)
        return obs, None if actions is None else both("action", actions)

    return augment


def policy_of(actor, s):
    """rsl-rl's actor as a policy of Condyle."""
    linear = [layer for layer in actor.mlp if hasattr(layer, "weight")]
    layers = tuple((layer.weight.detach().numpy().copy(), layer.bias.detach().numpy().copy()) for layer in linear)
    mean, std = actor.obs_normalizer.mean.numpy(), (actor.obs_normalizer.std + actor.obs_normalizer.eps).numpy()
    log_std = np.maximum(actor.distribution.log_std_param.detach().numpy(), np.log(s.min_std))
    return Policy(layers, s.activation, mean, std, UNBOUNDED, log_std)


def train(task, iterations, envs=None, seed=0):
    """(the policy file, the runner) after so many iterations."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # threads would wait for each other: the networks are small
    given = {"hidden": task.hidden, **task.hyperparameters}
    usual = int(given.pop("envs", ALGORITHMS["ppo"]))
    s = Settings.of(given)
    env = task.make(usual if envs is None else envs, seed=seed, **task.training)
    with redirect_stdout(StringIO()):  # it prints its networks
        runner = OnPolicyRunner(
            env.rsl_rl(), configuration(s, env.privileged_size > 0, task.mirror if s.mirror else None), log_dir=None, device="cpu"
        )
    for k in range(iterations):
        for name, value in ({} if task.schedule is None else task.schedule(k)).items():
            env.shared[name] = value
        runner.learn(1, init_at_random_ep_len=k == 0 and env.max_episode_steps is not None)
    facts = {"algorithm": "ppo", "library": "rsl-rl", "seed": seed, "iterations": iterations, "envs": env.num_envs}
    return PolicyFile(policy_of(runner.alg.get_policy(), s), training=facts, score={}, **policy_facts(task, env)), runner


if __name__ == "__main__":
    robot, name, iterations, path = (*sys.argv[1:], *("cartpole", "balance", "10", "balance.cdp")[len(sys.argv) - 1 :])
    task = load_task(robot, name)
    file, runner = train(task, int(iterations), None if len(sys.argv) > 1 else 256)
    file.save(path)

    # the file's policy is rsl-rl's actor, and mirror images double a minibatch
    seen = runner.env.get_observations()
    with torch.inference_mode():
        theirs = runner.get_inference_policy()(seen).numpy()
    policy = PolicyFile.load(path).policy
    assert np.allclose(policy(runner.env.env.observations), theirs, atol=1e-4)
    if task.mirror is not None:
        actions = torch.ones(runner.env.num_envs, runner.env.num_actions)
        both, doubled = augmentation(task.mirror)(None, seen, actions)
        images = mirrored(seen["policy"].numpy(), task.mirror.observation), mirrored(actions.numpy(), task.mirror.action)
        assert np.array_equal(both["policy"], np.concatenate([seen["policy"], images[0]]))
        assert np.array_equal(doubled, np.concatenate([actions, images[1]]))

    untrained = replace(file, policy=initial_policy(policy.sizes, activation=policy.activation, seed=0))
    before, after = (judge_task(task, each, 200)[1]["return"] for each in (untrained, file))
    print(
        f"{robot} {name}, 200 judged episodes: return {before:.1f} at first, {after:.1f} after {iterations} iterations of rsl-rl"
    )
    assert len(sys.argv) > 1 or after > 2.0 * before
    print(f"checked: {path} has rsl-rl's actor to 1e-4, and returns {after / before:.1f} times as much")
