"""Environments of tensors: the bits of NumPy arrays, on the processor and, by the interpreter of PTX, on a GPU."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tape.ptx_interpreter import Buffer, Code, Device

import condyle as cd
from condyle.errors import ControlError
from condyle.methods.learn.env_arrays import on_host
from condyle.methods.learn.rollouts import HostRollouts
from condyle.methods.learn.task import load_task
from condyle.methods.learn.training import Training
from condyle.tape import cuda_driver, device
from condyle.tape.backends import cuda

torch = pytest.importorskip("torch")
N = 4


class TensorsOfTheHost(device.Library):
    """Tensors of this process in the place of those on a GPU."""

    stream = 0  # type: ignore[assignment]

    place = "cpu"  # type: ignore[assignment]

    def moved(self, value: Any, precision: str) -> Any:
        raise AssertionError("an array was copied from the host")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The interpreter of PTX, and tensors that say they are on a GPU; the numbers of states of all launches."""
    launches: list[int] = []
    launch = cuda.CudaKernel.launch

    def counted(self: Any, ports: Any, states: int, *rest: Any) -> None:
        launches.append(states)
        launch(self, ports, states, *rest)

    monkeypatch.setattr(cuda.CudaKernel, "launch", counted)
    monkeypatch.setattr(cuda, "Code", Code)
    monkeypatch.setattr(cuda, "Buffer", Buffer)
    monkeypatch.setattr(cuda, "device", lambda number: Device())
    monkeypatch.setattr(cuda_driver, "device_of", lambda pointer: 0)
    monkeypatch.setattr(device, "_is_cuda", lambda value: isinstance(value, torch.Tensor))
    monkeypatch.setattr(device, "_library", TensorsOfTheHost)
    cuda._check_device.cache_clear()
    yield launches
    cuda._check_device.cache_clear()


def make(count: int = N, **options: Any) -> cd.VectorEnv:
    return load_task("cartpole", "balance").make(count, seed=3, privileged=lambda s: s.x.q, **options)


def block(size: int = 5) -> Any:
    rng = np.random.default_rng(0)
    return cd.blocks.MLP([(rng.normal(size=(3, size)), rng.normal(size=3)), (rng.normal(size=(1, 3)), np.zeros(1))])


def same(a: Any, b: Any) -> bool:
    return np.array_equal(on_host(a), on_host(b))


def compare(env: cd.VectorEnv, other: cd.VectorEnv, steps: int) -> None:
    """The same steps and rollouts in both, bit by bit."""
    assert same(env.state, other.state)
    actions = np.random.default_rng(1).uniform(-1.0, 1.0, (N, 1)).astype(np.float32)
    one, two = env.step(actions), other.step(torch.from_numpy(actions))
    for a, b in zip(one[:4], two[:4], strict=True):
        assert isinstance(b, torch.Tensor) and same(a, b)
    for name in ("final_obs", "privileged", "failed", "episode_returns", "episode_lengths"):
        assert same(one[4][name], two[4][name]), name
    one, two = (each.rollout(block(), steps, std=0.3, record=["q"], final=True) for each in (env, other))
    assert isinstance(two.observations, torch.Tensor)
    fields = ("observations", "privileged", "actions", "means", "rewards", "terminated", "truncated", "failed", "returns")
    for name in (*fields, "lengths", "last_observations", "last_privileged", "final_observations", "episode_returns"):
        assert same(getattr(one, name), getattr(two, name)), name
    assert same(one["q"], two["q"]) and same(one.episode_lengths, two.episode_lengths)
    assert list(one.reward_terms) == list(two.reward_terms)
    assert np.allclose(list(one.reward_terms.values()), list(two.reward_terms.values()), rtol=1e-6)
    host = HostRollouts(two)
    assert isinstance(host.rewards, np.ndarray) and isinstance(host["q"], np.ndarray)
    assert same(env.state, other.state)


def test_tensors_on_the_processor() -> None:
    env, other = make(), make(device="cpu")
    assert env.device is None and other.device == "cpu"
    compare(env, other, 150)  # poles that fall, and begin again
    # parts of the state, shared values, masks and seeds
    for each in (env, other):
        each.set("episode.step", np.arange(N))
        each.shared["randomization"] = 0.5
        each.reset(mask=np.arange(N) < 2)
        each.reset(7, mask=np.arange(N) > 2)
    assert same(env.state, other.state)
    other.set("episode.step", torch.zeros(N))
    assert same(other["episode.step"], np.zeros(N))
    kept = other.state
    first = other.rollout(block(), 3).rewards
    other.restore(kept)
    assert same(other.rollout(block(), 3).rewards, first)
    env.restore(kept)  # of another device
    assert same(env.rollout(block(), 3).rewards, first)


def test_memory_of_tensors() -> None:
    rng = np.random.default_rng(2)
    policy = cd.blocks.LSTM(0.5 * rng.normal(size=(4, 4, 5 + 4 + 1)), (rng.normal(size=(1, 4)), np.zeros(1)))
    env, other = make(), make(device="cpu")
    for each in (env, other):
        each.rollout(policy, 20, std=0.5)
        each.reset(mask=np.arange(N) < 1)
    assert same(env.memory, other.memory)
    for each, memory in ((env, other.memory), (other, env.memory)):
        each.remember(policy, memory)
    assert same(env.rollout(policy, 5).actions, other.rollout(policy, 5).actions)


@pytest.mark.gpu
def test_the_bits_of_a_gpu(gpu: list[int]) -> None:
    env, other = make(), make(device="cpu")
    compare(env, other, 3)
    assert [states for states in gpu if states == N] == [N, N, N]  # a reset, a step, a rollout: one launch each


@pytest.mark.gpu
def test_a_training_with_the_bits_of_a_gpu(gpu: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def trained() -> Training:
        settings = {"hidden": (4,), "steps": 2, "minibatches": 2, "epochs": 1}
        training = Training(load_task("cartpole", "balance"), seed=1, envs=N, device="cpu", hyperparameters=settings)
        for done in training.run(2):
            assert np.isfinite(done.numbers["kl"]) and done.numbers["samples"] == 2 * N
        return training

    there = trained()
    assert gpu.count(N) == 4  # a reset, the rollout that begins, and one for each iteration
    monkeypatch.undo()
    here = trained()
    assert here.policy_file().hash == there.policy_file().hash and same(here.env.state, there.env.state)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "gpu"}, "a device is 'cpu', 'cuda', or one of several GPUs such as 'cuda:1'; got 'gpu'"),
        ({"device": 0}, "a device is 'cpu', 'cuda'"),
    ],
)
def test_wrong_devices(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ControlError, match=message):
        make(**options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu_is_one_sentence() -> None:
    with pytest.raises(ControlError, match="device 'cuda' needs an NVIDIA GPU that PyTorch can use"):
        make(device="cuda")


def test_wrong_tensors() -> None:
    env = make(device="cpu")
    with pytest.raises(ControlError, match=r"actions must have shape \(4, 1\), one row for each robot; got \(4, 2\)"):
        env.step(torch.zeros(4, 2))
    with pytest.raises(ControlError, match=r"'q' of 4 robots has shape \(4, 2\), got \(3,\)"):
        env.set("q", torch.zeros(3))
    with pytest.raises(ControlError, match="mask must be 4 truth values"):
        env.reset(mask=torch.zeros(4))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_on_a_gpu(dtype: Any) -> None:
    compare(make(dtype=dtype), make(dtype=dtype, device="cuda"), 150)
