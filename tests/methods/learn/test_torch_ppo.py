"""PPO with tensors: the updates of the NumPy one to rounding, the same bits for the same seed, and a problem it solves."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from condyle.errors import ControlError
from condyle.methods.learn.mirror import Mirror
from condyle.methods.learn.network import Network
from condyle.methods.learn.policy import initial_policy
from condyle.methods.learn.ppo import PPO, Settings, generalized_advantages
from condyle.methods.learn.task import load_task

torch = pytest.importorskip("torch")

from condyle.methods.learn import torch_ppo  # noqa: E402
from condyle.methods.learn.torch_ppo import TorchPPO  # noqa: E402

OBSERVATIONS, PRIVILEGED, ACTIONS = 5, 3, 2
MIRROR = Mirror(((1, 0, 2, 3, 4), (1, 1, -1, 1, 1)), ((1, 0), (-1, -1)), ((0, 1, 2), (1, 1, -1)))
# float32 sums in another order; Adam divides small gradients by their own size, so that their rounding is not small
PARAMETERS = 2e-4


class SameOrder(TorchPPO):
    """Samples in the order of the NumPy PPO."""

    def _orders(self, samples: int) -> Any:
        rng = np.random.default_rng([self.seed, self.iteration])
        for _ in range(self.settings.epochs):
            yield torch.from_numpy(rng.permutation(samples))


def samples(policy: Any, robots: int = 64, steps: int = 8, seed: int = 0) -> SimpleNamespace:
    """A random rollout; the reward is larger the closer the action is to two entries of the observation."""
    rng = np.random.default_rng(seed)
    observations = (0.5 + 2.0 * rng.normal(size=(robots, steps, OBSERVATIONS))).astype(np.float32)
    means = policy(observations)
    actions = means + np.exp(policy.log_std) * rng.normal(size=means.shape).astype(np.float32)
    return SimpleNamespace(
        observations=observations,
        privileged=rng.normal(size=(robots, steps, PRIVILEGED)).astype(np.float32),
        actions=actions,
        means=means,
        rewards=(3.0 - np.square(actions - 0.5 * observations[..., :ACTIONS]).sum(axis=-1)).astype(np.float32),
        terminated=rng.random((robots, steps)) < 0.1,
        truncated=rng.random((robots, steps)) < 0.1,
        last_observations=rng.normal(size=(robots, OBSERVATIONS)).astype(np.float32),
        last_privileged=rng.normal(size=(robots, PRIVILEGED)).astype(np.float32),
    )


def tensors(rollout: SimpleNamespace) -> SimpleNamespace:
    return SimpleNamespace(**{name: torch.from_numpy(value) for name, value in vars(rollout).items()})


def both(mirror: Mirror | None = None, **options: Any) -> tuple[PPO, SameOrder]:
    sizes, settings = (OBSERVATIONS, ACTIONS, PRIVILEGED), Settings(**({"hidden": (16, 16)} | options))
    return PPO(*sizes, settings, seed=1, mirror=mirror, threads=1), SameOrder(
        *sizes, settings, seed=1, mirror=mirror, device="cpu"
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"activation": "tanh", "value_coefficient": 0.5, "desired_kl": None}, marks=pytest.mark.slow),
        pytest.param(
            {"activation": "relu", "action_bound": None, "max_gradient_norm": 0.1, "entropy": 0.0}, marks=pytest.mark.slow
        ),
        {"mirror": MIRROR, "action_bound": 0.1, "bound_coefficient": 0.3, "desired_kl": 1e-3, "final_kl": 1e-4, "anneal": (0, 2)},
    ],
    ids=["elu", "tanh", "relu", "mirror"],
)
def test_an_update_is_that_of_numpy(options: dict[str, Any]) -> None:
    one, two = both(**options)
    assert np.array_equal(one.parameters, two.parameters)
    for iteration in range(3):  # minibatches of 128 samples are one tile, whose second half is mirrored
        rollout = samples(one.policy, seed=iteration)
        expected, found = one.update(rollout), two.update(tensors(rollout))
        assert found == pytest.approx(expected, rel=2e-3, abs=1e-5), iteration
        scale = np.abs(one.parameters).max()
        assert np.abs(one.parameters - two.parameters.numpy()).max() < PARAMETERS * scale
        for name, array in one.arrays().items():
            if name in ("inputs", "returns"):
                assert two.arrays()[name] == pytest.approx(array, rel=1e-4, abs=1e-4)
        assert np.array_equal(two.arrays()["counters"], one.arrays()["counters"])
        two.restore(one.arrays())  # a checkpoint of either one; and rounding does not add up
        assert np.array_equal(two.policy.layers[0][0], one.policy.layers[0][0])
        assert two.policy.mean == pytest.approx(one.policy.mean, rel=1e-6)


@pytest.mark.parametrize("value_clip", [None, 0.05])
def test_gradients_are_those_of_autograd(value_clip: float | None, monkeypatch: pytest.MonkeyPatch) -> None:
    _, ppo = both(value_clip=value_clip, clip=0.1, max_gradient_norm=1e9, entropy=0.02, action_bound=0.1)
    s, c = ppo.settings, ppo.columns
    rows, _, _ = ppo._rows(tensors(samples(ppo.policy)))
    ppo.parameters += 0.02 * torch.randn(len(ppo.parameters), generator=torch.Generator().manual_seed(0))
    before = ppo.parameters.double().requires_grad_()
    monkeypatch.setattr(ppo, "_step", lambda: None)
    ppo._minibatch(rows, torch.arange(len(rows)))

    actor, log_std, critic = ppo._parts(before)
    batch = rows.double()

    def net(network: Any, flat: Any, x: Any) -> Any:
        layers = network.views(flat)
        for k, (Wt, b) in enumerate(layers):
            x = x @ Wt + b
            x = torch.nn.functional.elu(x) if k < len(layers) - 1 else x
        return x

    means = net(ppo.actor.network, actor, batch[:, : c.observations])
    values = net(Network((c.critic.stop, *s.hidden, 1)), critic, batch[:, c.critic])[:, 0]
    advantage, target, old_value, old_log = batch[:, c.advantage : c.advantage + 4].unbind(1)
    z = (batch[:, c.action] - means) / log_std.exp()
    ratio = torch.exp(-0.5 * (z * z).sum(1) - log_std.sum() - old_log)
    surrogate = torch.minimum(ratio * advantage, ratio.clamp(1.0 - s.clip, 1.0 + s.clip) * advantage)
    squared = (values - target) ** 2
    if value_clip is not None:
        near = (old_value + (values - old_value).clamp(-value_clip, value_clip) - target) ** 2
        assert ((values - old_value).abs() > value_clip).any() and ((values - old_value).abs() < value_clip).any()
        squared = torch.maximum(squared, near)
    beyond = means - means.clamp(-0.1, 0.1)
    assert (beyond != 0.0).any() and (surrogate != ratio * advantage).any()
    loss = -surrogate.mean() + s.value_coefficient * squared.mean() - s.entropy * log_std.sum()
    (loss + s.bound_coefficient * (beyond**2).sum(1).mean()).backward()
    assert before.grad is not None
    assert ppo._gradient.numpy() == pytest.approx(before.grad.numpy(), rel=1e-4, abs=2e-6)


def test_advantages_are_those_of_numpy() -> None:
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(2, 6, 9)).astype(np.float32)
    last, ends = rng.normal(size=6).astype(np.float32), rng.random((2, 6, 9)) < 0.2
    wanted = generalized_advantages(rewards, values, last, *ends, 0.97, 0.9)
    given = (torch.from_numpy(a) for a in (rewards, values, last, *ends))
    assert torch_ppo.generalized_advantages(torch, *given, 0.97, 0.9).numpy() == pytest.approx(wanted, rel=1e-5, abs=1e-6)


def test_precision_of_products_is_given_back() -> None:
    torch.set_float32_matmul_precision("high")
    try:
        with torch_ppo._full_precision(torch):
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_the_kernel_takes_the_policy_of_now() -> None:
    task = load_task("cartpole", "balance")
    one, two = (task.make(8, seed=1, device="cpu") for _ in range(2))
    ppo = TorchPPO(one.observation_size, one.action_size, 0, Settings(hidden=(16,)), seed=2, device="cpu")
    ppo.begin(one)
    two.restore(one.state)
    found, wanted = one.rollout(ppo, 5, deterministic=True), two.rollout(ppo.policy, 5, deterministic=True)
    assert torch.equal(found.actions, wanted.actions) and torch.equal(found.observations, wanted.observations)
    noisy = one.rollout(ppo, 5)
    assert not torch.equal(noisy.actions, noisy.means)


def test_starts_from_a_policy() -> None:
    one, two = both()
    policy = initial_policy((OBSERVATIONS, 16, 16, ACTIONS), std=0.3, seed=9)
    for each in (one, two):
        each.start_from(policy)
    a, b = one.arrays(), two.arrays()
    assert np.array_equal(a["parameters"], b["parameters"]) and a["inputs"] == pytest.approx(b["inputs"])
    with pytest.raises(ControlError, match="the policy to begin with is of the kind 'mlp'"):
        two.start_from(initial_policy((OBSERVATIONS, 8, ACTIONS)))


def test_what_is_not_supported_or_diverges() -> None:
    with pytest.raises(ControlError, match="an LSTM is trained on the processor only: leave the device out"):
        TorchPPO(5, 2, 3, Settings(units=8), device="cpu")
    _, two = both()
    rollout = samples(two.policy)
    rollout.rewards[0, 0] = np.nan
    with pytest.raises(ControlError, match="training diverged in iteration 1: rewards or values are not finite"):
        two.update(tensors(rollout))
    with pytest.raises(ControlError, match="the checkpoint's 'parameters' does not fit"):
        two.restore({})


def test_an_update_that_fails_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    _, ppo = both()
    rollout = tensors(samples(ppo.policy))
    before, calls, minibatch = ppo.arrays(), [], ppo._minibatch

    def third(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return minibatch(*args)

    monkeypatch.setattr(ppo, "_minibatch", third)
    with pytest.raises(KeyboardInterrupt):
        ppo.update(rollout)
    assert all(np.array_equal(before[name], value) for name, value in ppo.arrays().items())
