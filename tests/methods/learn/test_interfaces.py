"""Environments behind the interfaces of Gymnasium and rsl-rl."""

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.errors import ControlError, MissingExtraError
from condyle.methods.learn.task import load_task

N = 8


@pytest.fixture(scope="module")
def env() -> cd.VectorEnv:
    return load_task("cartpole", "balance").make(N, privileged=lambda s: s.x.q)


def test_gymnasium(env: cd.VectorEnv) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    wrapped = env.gymnasium()
    assert isinstance(wrapped, gymnasium.vector.VectorEnv)
    assert wrapped.metadata["autoreset_mode"] == gymnasium.vector.AutoresetMode.SAME_STEP
    counted = gymnasium.wrappers.vector.RecordEpisodeStatistics(wrapped)
    first, _ = counted.reset(seed=3)
    again, _ = counted.reset(seed=3)
    other, _ = counted.reset()
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert first in wrapped.observation_space and first.dtype == wrapped.observation_space.dtype
    wrapped.action_space.seed(1)
    ended = 0
    for _ in range(120):
        actions = np.sign(wrapped.action_space.sample())
        observations, rewards, terminated, truncated, infos = counted.step(actions)
        assert observations in wrapped.observation_space and rewards.shape == (N,)
        assert terminated.dtype == truncated.dtype == bool
        done = terminated | truncated
        ended += done.sum()
        assert ("final_obs" in infos) == done.any()
        if done.any():
            assert np.array_equal(infos["_final_obs"], done)
            k = int(np.flatnonzero(done)[0])
            assert abs(infos["final_obs"][k][0]) > 2.2 or infos["final_obs"][k][2] < np.cos(0.6)
            assert abs(observations[k][0]) <= 0.1
    assert ended > 0
    before = wrapped.env.state
    wrapped.reset(options={"reset_mask": np.arange(N) < 2})
    assert np.array_equal(before[2:], wrapped.env.state[2:]) and not np.array_equal(before[:2], wrapped.env.state[:2])
    with pytest.raises(ControlError, match="reset knows the option 'reset_mask', not 'mask'"):
        wrapped.reset(options={"mask": 1})


def test_torch_tensors_share_memory(env: cd.VectorEnv) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("rsl_rl")
    wrapped = env.rsl_rl()
    seen: dict[str, Any] = {}
    step = env.step

    def spied(actions: Any) -> Any:
        seen["actions"] = actions
        seen["result"] = step(actions)
        return seen["result"]

    env.step = spied  # type: ignore[method-assign]
    try:
        actions = torch.zeros(N, 1)
        observations, rewards, _, extras = wrapped.step(actions)
    finally:
        del env.step  # type: ignore[method-assign]
    assert seen["actions"].__array_interface__["data"][0] == actions.data_ptr()
    assert env._arrays.actions(seen["actions"], (N, 1)) is seen["actions"]
    arrays = (seen["result"][0], seen["result"][1], seen["result"][3], seen["result"][4]["privileged"])
    tensors = (observations["policy"], rewards, extras["time_outs"], observations["critic"])
    for array, tensor in zip(arrays, tensors, strict=True):
        assert array.__array_interface__["data"][0] == tensor.data_ptr()


def test_rsl_rl_learns_some_iterations(env: cd.VectorEnv) -> None:
    torch = pytest.importorskip("torch")
    runners = pytest.importorskip("rsl_rl.runners")
    wrapped = env.rsl_rl()
    wrapped.episode_length_buf = torch.arange(N)
    assert wrapped.episode_length_buf.tolist() == list(range(N))
    network = {"class_name": "MLPModel", "hidden_dims": [8], "activation": "elu", "obs_normalization": False}
    noise = {"class_name": "GaussianDistribution", "init_std": 1.0, "std_type": "scalar"}
    algorithm = {
        "class_name": "PPO",
        "num_learning_epochs": 1,
        "num_mini_batches": 2,
        "learning_rate": 1e-3,
        "schedule": "adaptive",
        "gamma": 0.99,
        "lam": 0.95,
        "entropy_coef": 0.0,
        "desired_kl": 0.01,
        "max_grad_norm": 1.0,
        "value_loss_coef": 1.0,
        "use_clipped_value_loss": True,
        "clip_param": 0.2,
    }
    configuration = {
        "num_steps_per_env": 8,
        "save_interval": 100,
        "obs_groups": {"actor": ["policy"], "critic": ["policy", "critic"]},
        "actor": {**network, "distribution_cfg": noise},
        "critic": dict(network),
        "algorithm": algorithm,
    }
    runner = runners.OnPolicyRunner(wrapped, configuration, log_dir=None, device="cpu")
    runner.learn(2, init_at_random_ep_len=True)
    with pytest.raises(ControlError, match="learns in float32"):
        load_task("cartpole", "balance").make(2, dtype=np.float64).rsl_rl()


@pytest.mark.parametrize(("method", "package"), [("gymnasium", "gymnasium"), ("rsl_rl", "rsl_rl")])
def test_missing_packages_are_named(env: cd.VectorEnv, method: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import condyle.errors

    def absent(name: str) -> Any:
        if name.startswith(package):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return builtins.__import__(name)

    monkeypatch.setattr(condyle.errors, "import_module", absent)
    with pytest.raises(MissingExtraError, match=rf"{package}\w* is needed for the interface of .*learn"):
        getattr(env, method)()


def test_the_interface_of_stable_baselines_is_an_example(env: cd.VectorEnv) -> None:
    with pytest.raises(ControlError, match=r"examples/27_train_with_stable_baselines\.py has the VecEnv"):
        env.stable_baselines()
    assert (Path(__file__).parents[3] / "examples/27_train_with_stable_baselines.py").exists()


def test_environments_of_tensors() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("rsl_rl")
    options: Any = {"seed": 3, "privileged": lambda s: s.x.q}
    one, two = (load_task("cartpole", "balance").make(N, device=device, **options) for device in (None, "cpu"))
    actions = torch.linspace(-1.0, 1.0, N)[:, None]
    for env in (one, two):
        env.set("episode.step", np.full(N, 497))
    plain, wrapped = one.rsl_rl(), two.rsl_rl()
    wrapped.episode_length_buf = plain.episode_length_buf + 1
    plain.episode_length_buf = wrapped.episode_length_buf
    for _ in range(3):
        expected, found = plain.step(actions), wrapped.step(actions)
        assert torch.equal(expected[0]["policy"], found[0]["policy"]) and torch.equal(expected[0]["critic"], found[0]["critic"])
        assert torch.equal(expected[1], found[1]) and torch.equal(expected[2], found[2]) and found[2].dtype == torch.int64
        assert torch.equal(expected[3]["time_outs"], found[3]["time_outs"])
    assert found[0]["policy"].device.type == "cpu" and torch.equal(wrapped.get_observations()["policy"], found[0]["policy"])
    observations, _, terminated, truncated, infos = two.gymnasium().step(actions)
    assert isinstance(observations, torch.Tensor) and torch.equal(infos["_final_obs"], terminated | truncated)
    assert infos["final_obs"].shape == observations.shape
