"""LSTM policies: as torch's, forward and backward; as a block with the same bits on every number of lanes; as a file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.errors import ControlError
from condyle.methods.learn.lstm import LSTMPolicy, State, backward, forward, initial_lstm
from condyle.methods.learn.policy_file import PolicyFile

OBSERVATIONS, UNITS, ACTIONS = 4, 6, 2


def policy() -> LSTMPolicy:
    rng = np.random.default_rng(5)
    mean, std = rng.normal(size=OBSERVATIONS), rng.uniform(0.5, 2.0, OBSERVATIONS)
    return initial_lstm(OBSERVATIONS, UNITS, ACTIONS, seed=3, mean=mean, std=std)


def test_gradients_are_those_of_torch() -> None:
    torch: Any = pytest.importorskip("torch")
    rng, steps, batch = np.random.default_rng(1), 7, 3
    weights = {name: array.astype(float) for name, array in policy().parameters().items()}
    weights = {name: array + 0.1 * rng.normal(size=array.shape) for name, array in weights.items()}
    x, start = rng.normal(size=(batch, steps, OBSERVATIONS)), State(*rng.normal(size=(2, batch, UNITS)))
    actions, end, kept = forward(weights, x, start)
    direction = rng.normal(size=actions.shape)
    found = backward(weights, kept, direction)

    net, head = torch.nn.LSTM(OBSERVATIONS, UNITS, batch_first=True).double(), torch.nn.Linear(UNITS, ACTIONS).double()
    rows = weights["gates"].swapaxes(0, 1).reshape(4 * UNITS, -1)  # torch stacks the gates, each with all units
    with torch.no_grad():
        net.weight_ih_l0.copy_(torch.from_numpy(rows[:, :OBSERVATIONS]))
        net.weight_hh_l0.copy_(torch.from_numpy(rows[:, OBSERVATIONS:-1]))
        net.bias_ih_l0.copy_(torch.from_numpy(rows[:, -1]))
        net.bias_hh_l0.zero_()
        head.weight.copy_(torch.from_numpy(weights["W"]))
        head.bias.copy_(torch.from_numpy(weights["b"]))
    hidden, (h, c) = net(torch.from_numpy(x), tuple(torch.from_numpy(part)[None] for part in start))
    wanted = head(hidden)
    (wanted * torch.from_numpy(direction)).sum().backward()
    np.testing.assert_allclose(actions, wanted.detach().numpy(), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(np.stack(end), torch.cat([h, c]).detach().numpy(), rtol=1e-12, atol=1e-13)
    by_rows = np.concatenate([net.weight_ih_l0.grad, net.weight_hh_l0.grad, net.bias_ih_l0.grad[:, None]], axis=1)
    by_gates = by_rows.reshape(4, UNITS, -1).swapaxes(0, 1)
    for name, gradient in (("gates", by_gates), ("W", head.weight.grad.numpy()), ("b", head.bias.grad.numpy())):
        np.testing.assert_allclose(found[name], gradient, rtol=1e-11, atol=1e-12)


def test_the_block_is_the_policy_on_every_number_of_lanes() -> None:
    net, rng, count, steps = policy(), np.random.default_rng(2), 5, 6
    x = rng.normal(size=(count, steps, OBSERVATIONS))
    block = net.block(every=2)
    loop = cd.Loop(None, lambda t, observation: {"action": block(observation)}, dt=0.01, observation=OBSERVATIONS)
    runs = [
        loop.rollout(np.tile(loop.state(), (count, 1)), x, 2 * steps, record=["action"], every=2, **options)
        for options in ({}, {"lanes": 1}, {"lanes": 4, "threads": 2}, {"backend": "reference"})
    ]
    for run in runs[1:]:
        assert np.array_equal(run["action"], runs[0]["action"]) and np.array_equal(run.x, runs[0].x)
    state, actions = net.initial(count), []
    for t in range(steps):
        action, state = net(x[:, t], state)
        actions.append(action)
    np.testing.assert_allclose(runs[0]["action"], np.stack(actions, axis=1), atol=2e-6)  # float32 beside float64
    # other weights are data
    other = {"policy.output": np.zeros((ACTIONS, UNITS + 1)), "policy.mean": np.zeros(OBSERVATIONS)}
    assert not loop.rollout(loop.state(), x[0], 2 * steps, parameters=other, record=["action"])["action"].any()


def test_files_and_wrong_shapes(tmp_path: Path) -> None:
    net = policy()
    file = PolicyFile(net, "pidog", "imitate", 50.0, [("rate", 3), ("clock", 1)], ["a", "b"])
    loaded = PolicyFile.load(file.save(tmp_path / "memory.cdp")).policy
    assert isinstance(loaded, LSTMPolicy) and loaded.sizes == (OBSERVATIONS, UNITS, ACTIONS)
    assert all(np.array_equal(a, b) for a, b in zip(net.arrays().values(), loaded.arrays().values(), strict=True))
    with pytest.raises(ControlError, match="gates of an LSTM policy must have the shape"):
        LSTMPolicy(np.ones((3, 4, 4)), net.W, net.b)
    with pytest.raises(ControlError, match="takes 4 observations, and is given"):
        net(np.zeros((2, 5)), net.initial(2))
    with pytest.raises(ControlError, match="has 6 units, and its output layer takes 5"):
        cd.blocks.LSTM(net.gates, (np.ones((2, 5)), np.ones(2)))
    with pytest.raises(ControlError, match=r"gates must have the shape \(units, 4, observations \+ units \+ 1\)"):
        cd.blocks.LSTM(np.ones((3, 4, 4)), (np.ones((2, 3)), np.ones(2)))  # without an observation
