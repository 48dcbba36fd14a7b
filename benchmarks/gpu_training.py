"""Learning on a GPU: policy steps per second of PiDog's walk by batch, of PPO as a whole, and the time until it walks.

python -m benchmarks.gpu_training                    # rates, on the first GPU; needs neither LLVM, Rich nor Typer
python -m benchmarks.gpu_training --train -o walk.cdp --set minibatches=8
python -m benchmarks.gpu_training --digest           # the same text on every device, and with --device numpy
"""

from __future__ import annotations

import argparse
import hashlib
import json
from statistics import median
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np

from condyle.apps.pidog.gait_episodes import Trial
from condyle.apps.pidog.judge import judge
from condyle.methods.learn.env_arrays import on_host
from condyle.methods.learn.policy import initial_policy
from condyle.methods.learn.rollouts import HostRollouts
from condyle.methods.learn.task import load_task
from condyle.methods.learn.training import Training

BATCHES = (1024, 4096, 8192, 16384, 32768, 65536)
STEPS, WARM_UP, REPEATS = 24, 96, 5
ITERATIONS = 60  # of PPO, for a policy whose robots walk
BAR, FALLS = 0.15, 0.02  # m/s in the mean and part that falls: untrained, the gait of the controller has this speed already
SCORES = (60.0, 70.0, 75.0, 80.0)  # of docs/judging.md; 900 iterations on the processor reach 80 to 84
JUDGED = Trial(256, 10.0)
TASK = ("pidog", "walk")


def waited(device: str | None) -> float:
    """The time, after all that is queued on the device."""
    if device not in (None, "cpu"):
        import torch

        torch.cuda.synchronize(device)
    return perf_counter()


def allocated(device: str | None) -> float:
    """The most memory that tensors had on the GPU, GB."""
    if device in (None, "cpu"):
        return 0.0
    import torch

    return float(torch.cuda.max_memory_allocated(device)) / 1e9


def rates(console: Any, policy: Any, device: str | None, batches: tuple[int, ...], steps: int, warm_up: int) -> dict[str, Any]:
    """Policy steps per second of the environment with the policy and its noise in the kernel, by the number of robots."""
    found: dict[str, Any] = {}
    for robots in batches:
        start = waited(device)
        env = load_task(*TASK).make(robots, device=device)
        env.rollout(policy, steps)
        first = waited(device) - start
        for _ in range(warm_up // steps):
            env.rollout(policy, steps)
        before, times = on_host(env["q"]).copy(), []
        for _ in range(REPEATS):
            start = waited(device)
            last = env.rollout(policy, steps)
            times.append(waited(device) - start)
        host = HostRollouts(last)
        facts = {
            "rate": robots * steps / min(times),
            "median": robots * steps / median(times),
            "first": first,
            "ended": float(host.terminated.mean()),
            "failed": float(host.failed.mean()),
            "frozen": int(np.sum(np.all(on_host(env["q"]) == before, axis=1))),
            "speed": float(on_host(env["velocity"])[:, 0].mean()),
        }
        found[str(robots)] = facts
        console.print(
            f"{robots:7,} robots: {facts['rate']:12,.0f} policy steps/s (median {facts['median']:,.0f}), first {first:.1f} s, "
            f"ended {facts['ended']:.2%}, failed {facts['failed']:.3%}, frozen {facts['frozen']}, {facts['speed']:.3f} m/s"
        )
    return found


def ppo(console: Any, device: str | None, iterations: int, **options: Any) -> tuple[Training, dict[str, Any]]:
    """(a training of so many iterations, its policy steps per second)."""
    start = perf_counter()
    training = Training(load_task(*TASK), seed=0, device=device, **options)
    made = perf_counter() - start
    done = [training.step() for _ in range(iterations)]
    times = [(each.numbers["simulating"], each.numbers["updating"]) for each in done[1:] or done]
    samples = done[-1].numbers["samples"]
    spent = sorted(simulating + updating for simulating, updating in times)
    facts = {
        "robots": training.env.num_envs,
        "samples": samples,
        "rate": samples / median(spent),
        "best": samples / spent[0],
        "simulating_ms": 1e3 * median(t[0] for t in times),
        "updating_ms": 1e3 * median(t[1] for t in times),
        "made": made,
        "first": done[0].numbers["simulating"] + done[0].numbers["updating"],
        "reward": done[-1].numbers["reward"],
        "gigabytes": allocated(device),
    }
    console.print(
        f"PPO, {facts['robots']:,} robots, {samples:,.0f} policy steps an iteration: {facts['rate']:,.0f} per s in the median "
        f"({facts['best']:,.0f} at best), simulating {facts['simulating_ms']:.1f} ms, updating {facts['updating_ms']:.1f} ms; "
        f"made in {made:.1f} s, first iteration {facts['first']:.1f} s; reward {facts['reward']:.3f} after {iterations}; "
        f"{facts['gigabytes']:.2f} GB of tensors"
    )
    return training, facts


def train(
    console: Any, device: str | None, every: int, iterations: int | None, seconds: float | None, path: str, **options: Any
) -> dict[str, Any]:
    """Judge the policy on the way, print when it reaches the bar, and keep it; the time of judging is not counted."""
    training = Training(load_task(*TASK), device=device, **options)
    last, reached, lines = training.iterations if iterations is None else iterations, dict[str, Any](), []
    for done in training.run(last, seconds):
        if done.number == 1:
            compiled = done.seconds
        if done.number % every and done.number != last and not (seconds is not None and done.seconds >= seconds):
            continue
        file = training.policy_file()
        found = judge(file, JUDGED, device=device)
        # the first iteration compiles
        line = {"iteration": done.number, "minutes": (done.seconds - compiled) / 60.0, "steps": done.steps, "rate": done.speed}
        line |= {name: found[name] for name in ("speed", "falls", "score", "heading_error", "slip")}
        line |= {"lift": None if found["lift"] is None else min(found["lift"]), "std": done.numbers["std"]}
        lines.append(line)
        if found["speed"] is not None and found["speed"] >= BAR and found["falls"] <= FALLS:
            reached.setdefault(f"{BAR} m/s, {FALLS:.0%} falls", line)
            for score in SCORES:
                if found["score"] >= score:
                    reached.setdefault(f"score {score:g}", line)
        console.print(", ".join(f"{name} {value:.4g}" for name, value in line.items() if value is not None))
        if path:
            file.save(path)
    for name, line in reached.items():
        console.print(f"{name}: after {line['minutes']:.2f} min, iteration {line['iteration']}, {line['steps']:,} policy steps")
    console.print(
        f"compiled in {compiled:.1f} s; reached {', '.join(reached) or 'nothing'}; weights {training.policy_file().hash[:16]}"
    )
    return {"lines": lines, "reached": reached, "compiled": compiled}


def digest(device: str | None, robots: int = 256, steps: int = 12) -> str:
    """A hash of everything that a rollout of PiDog's walk gives: the same on all devices."""
    env = load_task(*TASK).make(robots, seed=1, device=device)
    policy = initial_policy((env.observation_size, 64, 64, env.action_size), gain=0.5, std=0.25, seed=1)
    found, total = HostRollouts(env.rollout(policy, steps)), hashlib.sha256()
    for value in (found.observations, found.privileged, found.actions, found.rewards, found.terminated, on_host(env.state)):
        total.update(np.ascontiguousarray(value).tobytes())
    return total.hexdigest()[:16]


def run(console: Any, *, tiny: bool = False, device: str | None = None, **options: Any) -> dict[str, Any]:
    """Print the rates and return them; on the processor, tensors are computed by its kernels."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        console.print("PyTorch is not installed: nothing to measure")
        return {}
    if device is None:
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
    if tiny or device == "cpu":
        options = {"envs": 8} | options
    training, facts = ppo(console, device, 1 if tiny else ITERATIONS, **options)
    batches, steps, warm_up = ((8,), 2, 0) if tiny else (BATCHES if device != "cpu" else BATCHES[:1], STEPS, WARM_UP)
    return {"device": device, "ppo": facts, "rates": rates(console, training.learner.policy, device, batches, steps, warm_up)}


def main() -> None:
    """The command line, without packages that a GPU's computer may lack."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default=None, help="cuda, cuda:1, cpu for tensors on the processor, numpy")
    parser.add_argument("--train", action="store_true", help="train, and judge on the way")
    parser.add_argument("--digest", action="store_true", help="print a hash of a rollout")
    parser.add_argument("--envs", type=int, default=None)
    parser.add_argument("--iterations", type=int, default=None, help="of --train; by default those of the task")
    parser.add_argument("--seconds", type=float, default=None, help="of --train, compilation included")
    parser.add_argument("--every", type=int, default=50, help="iterations between two judgings")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a hyperparameter")
    parser.add_argument("-o", "--out", default="", help="file of the policy, .cdp")
    parser.add_argument("--json", default="", help="file of the numbers")
    given = parser.parse_args()
    console, device = SimpleNamespace(print=lambda text: print(text, flush=True)), given.device or "cuda"
    place = None if device == "numpy" else device
    numbers = {name: json.loads(value) for name, _, value in (text.partition("=") for text in given.set)}
    options = {"envs": given.envs, "hyperparameters": numbers}
    found: dict[str, Any]
    if given.digest:
        found = {"digest": digest(place)}
        console.print(f"{device}: {found['digest']}")
    elif given.train:
        found = train(console, place, given.every, given.iterations, given.seconds, given.out, seed=given.seed, **options)
    else:
        found = run(console, device=device, **options)
    if given.json:
        with open(given.json, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
