"""Proximal policy optimisation with tensors of PyTorch, on a GPU or the processor: ppo.ActorCritic in float32.

The tensors of a rollout are used where they are. Learning rate, norms and statistics stay on the device, so an iteration waits
for it once, for the numbers it reports. Products are of full float32 precision (no TF32), and nothing uses atomics, so the same
seed gives the same weights on the same kind of device with the same PyTorch; they differ from those of ppo.py by rounding, and by
the order of samples. The mirror image is taken of half of each minibatch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import numpy as np

from condyle.errors import ControlError, require
from condyle.methods.learn.actor import Perceptron
from condyle.methods.learn.env_arrays import checked_device
from condyle.methods.learn.mirror import Mirror
from condyle.methods.learn.network import BETA1, BETA2, EPSILON, Network, Running
from condyle.methods.learn.policy import OBSERVATION_CLIP
from condyle.methods.learn.ppo import ActorCritic, Settings
from condyle.methods.learn.tile_code import LARGEST_LOG_RATIO

Tensor = Any  # of PyTorch, which is imported by those who make tensors
SHRINK, GROW = 1.0 / 1.5, 1.5  # of the learning rate, where the KL divergence is far from the desired one


class TorchPPO(ActorCritic):
    """PPO with tensors on a device; `update` improves it by the samples of a rollout.

    Checkpoints (`arrays`) have the layout of ppo.PPO, so either goes on with those of the other.
    """

    def __init__(
        self,
        observations: int,
        actions: int,
        privileged: int = 0,
        settings: Settings | None = None,
        *,
        seed: int = 0,
        mirror: Mirror | None = None,
        device: str = "cuda",
    ) -> None:
        if settings is not None and settings.units:
            raise ControlError("an LSTM is trained on the processor only: leave the device out, or train a perceptron (units=0)")
        self.torch = self.xp = torch = require("torch", "torch", "training on a device")
        self.device = checked_device(device)
        super().__init__(observations, actions, privileged, settings, seed, mirror)
        self._gradient = torch.zeros_like(self.parameters)
        parts, gradients = self._parts(self.parameters), self._parts(self._gradient)
        self.log_std, self._log_std_gradient = parts[1], gradients[1]
        assert isinstance(self.actor, Perceptron)
        self._policy_network = TensorNetwork(torch, self.actor.network, parts[0], gradients[0])
        self._critic = TensorNetwork(torch, self.critic, parts[2], gradients[2])
        self.adam = TensorAdam(torch, self.parameters)
        self.inputs = TensorRunning(torch, self.columns.critic.stop, self.device)
        self.returns = TensorRunning(torch, 1, self.device)
        self._block = self.actor.initial(seed).block()

    def own(self, value: Any) -> Tensor:
        """An array or a number as a tensor on the device."""
        return self.torch.from_numpy(np.array(value)).to(self.device)

    def single(self, array: Tensor) -> Tensor:
        """In float32."""
        return array.float()

    def double(self, array: Tensor) -> Tensor:
        """In float64."""
        return array.double()

    # ---- the policy

    @property
    def acting(self) -> Any:
        """Its tensors are the policy of the kernel."""
        return self

    def block(self) -> Any:
        """The form of the policy, for the kernel of an environment."""
        return self._block

    def kernel_arrays(self) -> dict[str, Tensor]:
        """The weights, the normalisation and the deviations of the policy of now, as the kernel of an environment takes them."""
        torch, n = self.torch, self.columns.observations
        layers = [torch.cat((Wt.T, b[:, None]), 1) for Wt, b in self._policy_network.layers]
        found = dict(zip([w.name for w in self._block.tables.values()], layers, strict=True))
        mean, std = self._normalization()
        bound = torch.full((1,), OBSERVATION_CLIP, device=self.device)
        normalization = {"mean": mean[:n].contiguous(), "std": std[:n].contiguous(), "observation_clip": bound}
        found |= {p.name: normalization[name] for name, p in self._block.parameters.items()}
        return {**{f"policy:{name}": value for name, value in found.items()}, "policy:std": self.log_std.exp()}

    # ---- one iteration

    def observe(self, rollouts: Any) -> None:
        """None; the normalisation of observations begins with those of `rollouts`."""
        self.inputs = TensorRunning(self.torch, self.columns.critic.stop, self.device)
        self.inputs.add_rows(self._seen(rollouts.observations, rollouts.privileged).flatten(0, -2))

    def iterate(self, env: Any, record: Any = ()) -> tuple[Any, dict[str, float]]:
        """(rollouts of all robots with these records, numbers of the iteration); actor and critic are improved."""
        timer = _Timer(self.torch, self.device)
        rollouts = env.rollout(self, self.settings.steps, record=record)
        timer.stop()
        found = self.update(rollouts)  # waits for the device, so the time is known then
        return rollouts, found | {"simulating": timer.seconds}

    def _update(self, rollouts: Any) -> dict[str, float]:
        torch, s = self.torch, self.settings
        self.iteration += 1
        with torch.no_grad(), _full_precision(torch):
            rows, moments, deviation = self._rows(rollouts)
            samples = len(rows)
            size = -(-samples // s.minibatches)
            found = []
            for order in self._orders(samples):
                found += [self._minibatch(rows, order[start : start + size]) for start in range(0, samples, size)]
            self._add_inputs(moments, samples)
            sums = torch.stack(found).sum(0)
            last = torch.stack([self.learning_rate, self.log_std.exp().mean().double(), deviation])
            numbers = torch.cat([sums, last]).tolist()  # the one wait of an iteration
        *totals, rate, std, deviation = numbers
        if not np.isfinite(deviation):
            raise self._diverged("rewards or values are not finite")
        named = dict(zip(("surrogate", "value_loss", "clipped", "kl", "norm"), totals, strict=True))
        return self._numbers(named, samples, rate, std)

    def _orders(self, samples: int) -> Iterator[Tensor]:
        """A random order of the samples for each epoch, by seed and iteration."""
        seed = np.random.SeedSequence([self.seed, self.iteration]).generate_state(1, np.uint64)[0] >> np.uint64(1)
        generator = self.torch.Generator(self.device).manual_seed(int(seed))
        for _ in range(self.settings.epochs):
            yield self.torch.randperm(samples, generator=generator, device=self.device)

    def _minibatch(self, rows: Tensor, index: Tensor) -> Tensor:
        """Sums over the samples of a minibatch and its KL divergence and norm, after one step of Adam."""
        torch, s, c = self.torch, self.settings, self.columns
        batch = rows[index]
        n = originals = len(batch)
        if self._signed is not None:
            order, signs = self._signed
            originals = n - n // 2
            batch[originals:] = batch[originals:, order] * signs
        means, values = self._policy_network.forward(batch[:, : c.observations]), self._critic.forward(batch[:, c.critic])[:, 0]
        inverse = torch.exp(-self.log_std)
        z = (batch[:, c.action] - means) * inverse
        squares = z * z
        distance = ((means[:originals] - batch[:originals, c.mean]) * inverse).square().sum() / originals
        advantage, target, old_value, old_log = batch[:, c.advantage : c.advantage + 4].unbind(1)

        # surrogate: min(ratio A, clip(ratio) A), and its derivative by the logarithm of the probability
        log_ratio = squares.sum(1).mul_(-0.5).sub_(old_log).sub_(self.log_std.sum())
        ratio = log_ratio.clamp_(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO).exp_()
        weight, bounded = ratio * advantage, ratio.clamp(1.0 - s.clip, 1.0 + s.clip) * advantage
        active = weight <= bounded
        surrogate = torch.minimum(weight, bounded).sum()
        weight = torch.where(active, weight, 0.0).mul_(-1.0 / n)
        # gradients by log_std and by the means: weight (z^2 - 1), weight z / std, and the penalty on means beyond the bound
        torch.mv((squares - 1.0).T, weight, out=self._log_std_gradient)
        self._log_std_gradient.sub_(s.entropy)  # the entropy is the sum of log_std, and a constant
        by_means = z.mul_(weight[:, None]).mul_(inverse)
        if s.action_bound is not None and s.bound_coefficient > 0.0:
            by_means.add_(means - means.clamp(-s.action_bound, s.action_bound), alpha=2.0 * s.bound_coefficient / n)

        # critic: squared error against the target, or that of a value near the old one if it is larger
        error = values - target
        squared = error * error
        if s.value_clip is not None:
            change = values - old_value
            near = (old_value + change.clamp(-s.value_clip, s.value_clip) - target).square_()
            # where nothing is clipped both are the same, but for rounding
            counted = (squared >= near) | (change.abs_() <= s.value_clip)
            error, squared = torch.where(counted, error, 0.0), torch.maximum(squared, near)
        self._policy_network.backward(by_means)
        self._critic.backward(error.mul(2.0 * s.value_coefficient / n)[:, None])

        kl = self._kl(distance)
        self._adapt(kl)
        norm = self._clip_norm(self._gradient[: self._split[1]])
        self._clip_norm(self._gradient[self._split[1] :])
        self._step()
        return torch.stack([each.double() for each in (surrogate, squared.sum(), n - active.sum(), kl, norm)])

    def _kl(self, distance: Tensor) -> Tensor:
        """Mean KL divergence from the policy that took the actions, for the mean squared distance of the means in deviations."""
        change = (self._old_log_std - self.log_std).double()
        return ((2.0 * change).exp_().mul_(0.5).sub_(0.5).sub_(change)).sum() + 0.5 * distance.double()

    def _adapt(self, kl: Tensor) -> None:
        """None; the learning rate follows the KL divergence."""
        s, torch, rate = self.settings, self.torch, self.learning_rate
        wanted = s.kl_at(self.iteration)
        if wanted is not None:
            less, more = (rate * SHRINK).clamp_(min=s.smallest_rate), (rate * GROW).clamp_(max=s.largest_rate)
            slow = (kl > 0.0) & (kl < 0.5 * wanted)
            self.learning_rate = torch.where(kl > 2.0 * wanted, less, torch.where(slow, more, rate))

    def _clip_norm(self, gradient: Tensor) -> Tensor:
        """The Euclidean norm of the gradient before it is scaled down to its bound, where it is larger."""
        bound = self.settings.max_gradient_norm
        norm = self.torch.linalg.vector_norm(gradient, dtype=self.torch.float64)
        gradient.mul_((bound / (norm + 1e-6)).clamp_(max=1.0).float())
        return norm

    def _step(self) -> None:
        """None; one step of Adam."""
        self.adam.step(self.parameters, self._gradient, self.learning_rate)
        self.log_std.clamp_(min=float(np.log(self.settings.min_std)))

    # ---- samples

    def _rows(self, rollouts: Any) -> tuple[Tensor, Tensor, Tensor]:
        """(rows of all samples, sums of normalised inputs and of their squares, deviation of the advantages)."""
        torch, s, c = self.torch, self.settings, self.columns
        seen = self._seen(rollouts.observations, rollouts.privileged)
        if seen.shape[-1] != c.critic.stop:
            raise ControlError(f"the critic takes {c.critic.stop} observations, and the environment gives {seen.shape[-1]}")
        self._old_log_std = self.log_std.clone()
        mean, std = self._normalization()
        inverse = 1.0 / std
        rows = torch.zeros((*seen.shape[:2], c.width), device=self.device)
        x = rows[..., c.critic]
        torch.mul(seen - mean, inverse, out=x)
        moments = torch.stack([x.sum((0, 1), dtype=torch.float64), (x * x).sum((0, 1), dtype=torch.float64)])
        x.clamp_(-OBSERVATION_CLIP, OBSERVATION_CLIP)
        rows[..., c.action], rows[..., c.mean] = rollouts.actions, rollouts.means
        z = (rows[..., c.action] - rows[..., c.mean]) * torch.exp(-self.log_std)
        rows[..., c.advantage + 3] = -0.5 * (z * z).sum(-1) - self.log_std.sum()
        last = ((self._seen(rollouts.last_observations, rollouts.last_privileged) - mean) * inverse).clamp_(
            -OBSERVATION_CLIP, OBSERVATION_CLIP
        )
        # values in the units of the reward, advantages, and the returns that normalise the critic
        center, scale = self._return_scale()
        flat = rows.flatten(0, 1)
        values = (self._critic.forward(flat[:, c.critic])[:, 0] * scale + center).view(rows.shape[:2])
        last_values = self._critic.forward(last)[:, 0] * scale + center
        ends = rollouts.terminated, rollouts.truncated
        advantages = generalized_advantages(torch, rollouts.rewards.float(), values, last_values, *ends, s.gamma, s.lam)
        rows[..., c.advantage + 1], rows[..., c.advantage + 2] = self._normalized_returns(advantages + values, values)
        exact = advantages.double()
        center, deviation = exact.mean(), exact.std(correction=0)
        rows[..., c.advantage] = (advantages - center.float()) * (1.0 / (deviation + 1e-8)).float()
        return flat, moments, deviation

    def _seen(self, observations: Tensor, privileged: Tensor) -> Tensor:
        """What the critic sees."""
        parts = [observations.float()] + ([privileged.float()] if self.columns.privileged else [])
        return self.torch.cat(parts, -1)


def generalized_advantages(
    torch: Any,
    rewards: Tensor,
    values: Tensor,
    last_values: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    gamma: float,
    lam: float,
) -> Tensor:
    """Advantages (robots, steps) (Schulman et al. 2016); an episode that is truncated goes on with its present value."""
    v = values.T.contiguous()  # steps first: rows of all robots
    goes_on = torch.where((terminated | truncated).T, 0.0, gamma)
    after = torch.cat([v[1:], last_values[None]])
    delta = rewards.T + gamma * v * (truncated & ~terminated).T + goes_on * after - v
    kept = goes_on * lam
    advantages = torch.empty_like(delta)
    sum_after = torch.zeros_like(last_values)
    for k in range(len(v) - 1, -1, -1):
        sum_after = torch.addcmul(delta[k], kept[k], sum_after, out=advantages[k])
    return advantages.T


@contextmanager
def _full_precision(torch: Any) -> Iterator[None]:
    """Products of float32 with all of its digits, whatever the caller has chosen."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


class _Timer:
    """Seconds of what is queued until `stop`; on a GPU they are known once it has been waited for."""

    def __init__(self, torch: Any, device: str) -> None:
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if device != "cpu" else []
        self.start, self.end = perf_counter(), 0.0
        if self.events:
            self.events[0].record(torch.cuda.current_stream(device))
            self.stream = torch.cuda.current_stream(device)

    def stop(self) -> None:
        """None; the time is over."""
        self.end = perf_counter()
        if self.events:
            self.events[1].record(self.stream)

    @property
    def seconds(self) -> float:
        """From the making of the timer to `stop`."""
        return 1e-3 * float(self.events[0].elapsed_time(self.events[1])) if self.events else self.end - self.start


class TensorNetwork:
    """A perceptron whose layers are views of a vector of parameters, and whose gradients are views of another one."""

    def __init__(self, torch: Any, network: Network, parameters: Tensor, gradient: Tensor) -> None:
        self.torch, self.activation = torch, network.activation
        self.layers: list[Any] = network.views(parameters)
        self.gradients: list[Any] = network.views(gradient)
        self.outputs: list[Tensor] = []  # inputs of the network, then the outputs of each layer but the last

    def forward(self, x: Tensor) -> Tensor:
        """Outputs (n, outputs) of the rows of x."""
        self.outputs = [x]
        for k, (Wt, b) in enumerate(self.layers):
            x = self.torch.addmm(b, x, Wt)
            if k < len(self.layers) - 1:
                x = self._activated(x)
                self.outputs.append(x)
        return x

    def backward(self, delta: Tensor) -> None:
        """None; the gradients are those of the parameters, for the gradient `delta` (n, outputs) of the outputs of `forward`."""
        for k in range(len(self.layers) - 1, -1, -1):
            below = self.outputs[k]
            self.torch.mm(below.T, delta, out=self.gradients[k][0])
            self.torch.sum(delta, 0, out=self.gradients[k][1])
            if k > 0:
                delta = self._times_derivative(delta @ self.layers[k][0].T, below)

    def _activated(self, x: Tensor) -> Tensor:
        """The activation of x, in its place."""
        if self.activation == "tanh":
            return x.tanh_()
        return x.relu_() if self.activation == "relu" else self.torch.nn.functional.elu_(x)

    def _times_derivative(self, d: Tensor, y: Tensor) -> Tensor:
        """d times the derivative of the activation, from its value y."""
        aten = self.torch.ops.aten
        if self.activation == "tanh":
            return aten.tanh_backward(d, y)
        return aten.threshold_backward(d, y, 0.0) if self.activation == "relu" else aten.elu_backward(d, 1.0, 1.0, 1.0, True, y)


class TensorRunning(Running):
    """Running mean and variance of rows of tensors, float64, on their device; the number of rows is known to the host."""

    def __init__(self, torch: Any, size: int, device: str) -> None:
        self.torch, self.count = torch, 0.0
        self.mean: Tensor = torch.zeros(size, dtype=torch.float64, device=device)
        self.squares: Tensor = torch.zeros_like(self.mean)

    @property
    def variance(self) -> Tensor:
        """Of the rows; one before there are any."""
        return self.squares / self.count if self.count else self.torch.ones_like(self.mean)

    def add_rows(self, rows: Tensor) -> None:
        """None; the rows (n, size) are part of the statistics."""
        mean = rows.mean(0, dtype=self.torch.float64)
        squares = (rows - mean.to(rows.dtype)).square().sum(0, dtype=self.torch.float64)
        self.add(len(rows), mean, squares)

    def arrays(self) -> np.ndarray:
        """Everything in one array (3, size), on the host."""
        mean, squares = self.mean.cpu().numpy(), self.squares.cpu().numpy()
        return np.stack([np.full_like(mean, self.count), mean, squares])

    def restore(self, arrays: np.ndarray) -> None:
        """None; the statistics are those whose `arrays()` these are."""
        mean, squares = (self.torch.from_numpy(row.copy()).to(self.mean.device) for row in arrays[1:])
        self.count, self.mean, self.squares = float(arrays[0, 0]), mean, squares


class TensorAdam:
    """Adam as in network.py, with tensors."""

    def __init__(self, torch: Any, parameters: Tensor) -> None:
        self.m, self.v = torch.zeros_like(parameters), torch.zeros_like(parameters)
        self.steps = 0

    def step(self, parameters: Tensor, gradient: Tensor, rate: Tensor) -> None:
        """None; the parameters move against the gradient."""
        self.steps += 1
        self.m.mul_(BETA1).add_(gradient, alpha=1.0 - BETA1)
        self.v.mul_(BETA2).addcmul_(gradient, gradient, value=1.0 - BETA2)
        scale = self.v.sqrt().mul_(1.0 / np.sqrt(1.0 - BETA2**self.steps)).add_(EPSILON)
        parameters.sub_((self.m / scale).mul_((rate / (1.0 - BETA1**self.steps)).float()))
