"""Policy steps per second of learning environments: PiDog's walk, all in the kernel, beside mujoco.rollout; and of PPO."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any
from unittest.mock import patch

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.measure import SECONDS, busy, in_new_process
from condyle.apps.pidog import training_robot as dog
from condyle.apps.pidog.gait_episodes import Trial, episodes
from condyle.apps.pidog.twin import Dogs
from condyle.errors import CondyleError
from condyle.methods.learn.env import VectorEnv
from condyle.methods.learn.policy_file import PolicyFile
from condyle.methods.learn.task import load_task
from condyle.methods.learn.training import Training
from condyle.multibody.robot import load
from condyle.tape.backends.cpu import host
from condyle.workbench.compare import mujoco_world

HOW = (
    "A policy step is 20 ms: ten ticks with servos, IMU, pushes and contact on rough ground, the reward, privileged\n"
    "observations, ends of episodes, resets with all randomisation, the policy of 64 x 64 neurons and its exploration\n"
    "noise; observations, actions and rewards are written. mujoco.rollout has the physics only, of the same dogs under\n"
    "drives that are held: no policy, no servo law, no IMU, no reward, no resets. Competitors take turns; the smallest\n"
    "time counts, on the wall and of the processor (all threads together). Steps that ended in a fall or failed, and\n"
    "robots that stayed where they were, are counted, so that nothing frozen is measured.\n"
)
ROBOTS, STEPS = 1024, 24
WARM_UP = 100  # policy steps before anything is measured, so that robots are at all phases of their gait
ITERATIONS = 150  # of PPO, for a policy that walks
TIME_STEPS = (0.0005, 0.001, 0.002)  # s, of MuJoCo; a tick of the servos is 2 ms
FRAME = dog.DT * dog.EVERY  # s
OTHERS = (("cartpole", "balance"), ("anymal_c", "walk"))


@dataclass(frozen=True)
class Spent:
    """The smallest times of a call, s, and the policy steps that it makes."""

    wall: float
    processor: float
    steps: int

    def row(self) -> tuple[str, str, str]:
        """Policy steps per second, and us of a policy step on the wall and of the processor."""
        return (
            f"{self.steps / self.wall:,.0f}",
            f"{1e6 * self.wall / self.steps:.2f}",
            f"{1e6 * self.processor / self.steps:.2f}",
        )


def race(calls: dict[str, tuple[Callable[[], object], int]], seconds: float) -> dict[str, Spent]:
    """The smallest times of each call, which makes so many policy steps; they take turns."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    end = perf_counter() + seconds * len(calls)
    while True:
        for name, (call, _) in calls.items():
            wall, spent = perf_counter(), process_time()
            call()
            times[name].append((perf_counter() - wall, process_time() - spent))
        if perf_counter() > end:
            return {name: Spent(min(t[0] for t in each), min(t[1] for t in each), calls[name][1]) for name, each in times.items()}


class Walking:
    """An environment under a policy with its noise, and what happened to its robots while it was measured."""

    def __init__(self, env: VectorEnv, policy: Any, steps: int, warm_up: int) -> None:
        self.env, self.policy, self.steps = env, policy, steps
        self.ended = self.failed = self.count = self.frozen = 0
        env.rollout(policy, steps)
        env.reset(seed=1)
        if warm_up:
            env.rollout(policy, warm_up)

    def __call__(self) -> None:
        before = self.env["q"].copy()
        found = self.env.rollout(self.policy, self.steps)
        self.ended += int(found.terminated.sum())
        self.failed += int(found.failed.sum())
        self.frozen += int(np.sum(np.all(self.env["q"] == before, axis=1)))
        self.count += found.rewards.size

    @property
    def call(self) -> tuple[Callable[[], object], int]:
        """What is timed, and its policy steps."""
        return self, self.env.num_envs * self.steps

    def facts(self) -> dict[str, float]:
        """Parts of all measured steps, and mean speeds."""
        facts = {"ended": self.ended / self.count, "failed": self.failed / self.count, "frozen robots": float(self.frozen)}
        if "velocity" in self.env.plan.layout and "command.speed" in self.env.plan.layout:
            facts |= {"speed": float(self.env["velocity"][:, 0].mean()), "command": float(self.env["command.speed"].mean())}
        return facts


# ---- a policy


def trained(iterations: int, envs: int | None = None) -> tuple[PolicyFile, dict[str, float]]:
    """A policy of PiDog's walk after some iterations of PPO, and the speed of its training."""
    training = Training(load_task("pidog", "walk"), seed=0, envs=envs)
    times: list[tuple[float, float, float]] = []
    samples = 0.0
    start = process_time()
    for done in training.run(iterations=iterations):
        # the first one compiles
        times.append((done.numbers["simulating"], done.numbers["updating"], process_time() - start))
        samples, start = done.numbers["samples"], process_time()
    simulating, updating, processor = np.array(times[1:] or times).T
    best = int(np.argmin(simulating + updating))
    return training.policy_file(), {
        "policy steps per s": float(samples / (simulating + updating)[best]),
        "policy steps per s, median": float(samples / np.median(simulating + updating)),
        "part simulating": float(np.median(simulating / (simulating + updating))),
        "processor us": float(1e6 * processor.min() / samples),
        "samples": samples,
    }


# ---- MuJoCo


def dogs_in_mujoco(file: PolicyFile, count: int, time_step: float, frames: int) -> Dogs:
    """Dogs that have walked some frames under the policy, in steps of at most `time_step`."""
    trial = Trial(count, seconds=2.0, seed=1)
    q, phase = trial.starts(file.controller)
    with patch.object(mujoco_world, "LONGEST_STEP", time_step):
        dogs = Dogs(file, dog.dog_loop(numbers=file.controller), q, phase, trial.parameters(), seed=1)
    for _ in range(frames * dog.EVERY):
        dogs.step()
    return dogs


def physics_of_a_frame(dogs: Dogs) -> Callable[[], object]:
    """The physics of 20 ms of all dogs in one call of mujoco.rollout, from where they are, with drives that are held."""
    world = dogs.world
    with patch.object(world.pool, "rollout", wraps=world.pool.rollout) as spy:
        dogs.step()
    models, data, state, control = spy.call_args.args

    def rollout() -> object:
        return world.pool.rollout(models, data, state, control, control_spec=world.inputs, nstep=world.steps * dog.EVERY)

    return rollout


def stability(file: PolicyFile, count: int, seconds: float, time_step: float) -> dict[str, float]:
    """Falls, finite dogs and their speed in MuJoCo, in closed loop with all servos and sensors."""
    with patch.object(mujoco_world, "LONGEST_STEP", time_step):
        recording = next(episodes(file, Trial(count, seconds=seconds), "mujoco"))
    finite = np.all(np.isfinite(recording.q), axis=(1, 2))
    moved = np.linalg.norm(recording.q[:, -1, :2] - recording.q[:, 0, :2], axis=1) / seconds
    return {"fell": float(recording.fell.mean()), "finite": float(finite.mean()), "speed": float(np.median(moved[finite]))}


# ---- narrower vectors

NARROW = """
import json
from benchmarks.environments import walks
print(json.dumps(walks({path!r}, {robots}, {steps}, {warm_up}, {seconds})))
"""


def walks(path: str, robots: int, steps: int, warm_up: int, seconds: float) -> dict[str, Any]:
    """Times of PiDog's walk on this processor, on all cores and on one."""
    file = PolicyFile.load(path)
    make = load_task("pidog", "walk").make
    both = {
        word: Walking(make(robots, threads=threads), file.policy, steps, warm_up)
        for word, threads in (("all cores", None), ("one core", 1))
    }
    times = race({word: each.call for word, each in both.items()}, seconds)
    return {
        "bytes": host().vector_bytes,
        **{word: vars(each) for word, each in times.items()},
        "facts": both["all cores"].facts(),
    }


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the tables and return their numbers."""
    robots, steps, warm_up, seconds = (16, 2, 0, 0.01) if tiny else (ROBOTS, STEPS, WARM_UP, 3.0 * SECONDS)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    file, training = trained(1, 16) if tiny else trained(ITERATIONS)
    found: dict[str, Any] = {"busy": busy(), "cores": cores, "training": training}
    calls: dict[str, tuple[Callable[[], object], int]] = {}

    make = load_task("pidog", "walk").make
    wide = f"{8 * host().vector_bytes} bits"
    walking = {f"PiDog walk, {wide}, {cores} cores": Walking(make(robots), file.policy, steps, warm_up)}
    if not tiny:
        walking[f"PiDog walk, {wide}, one core"] = Walking(make(robots, threads=1), file.policy, steps, warm_up)
    calls |= {name: each.call for name, each in walking.items()}
    twins = find_spec("mujoco") is not None
    chosen = TIME_STEPS[-1:] if tiny else TIME_STEPS
    for time_step in chosen if twins else ():
        dogs = dogs_in_mujoco(file, 2 if tiny else 256, time_step, 0 if tiny else 50)
        calls[f"mujoco.rollout, {1e3 * time_step:g} ms, physics only"] = physics_of_a_frame(dogs), dogs.count
    others = {}
    for robot, name in () if tiny else OTHERS:
        try:
            task = load_task(robot, name)
            load(robot)
        except CondyleError:
            continue  # of the extra `robots`
        policy = Training(task, seed=0, envs=robots).learner.policy
        others[f"{robot} {name}, untrained policy"] = Walking(task.make(robots), policy, steps, warm_up)
    calls |= {name: each.call for name, each in others.items()}

    for call, _ in calls.values():
        call()
    times = race(calls, seconds)
    found["times"] = {name: vars(spent) for name, spent in times.items()}
    table = Table("float32", "policy steps/s", "us", "processor us", title=f"{cores} cores ({busy()})")
    for name, spent in times.items():
        table.add_row(name, *spent.row())
    if host().vector_bytes == 64 and not tiny:
        with TemporaryDirectory() as folder:
            path = Path(folder) / "walk.cdp"
            file.save(path)
            code = NARROW.format(path=str(path), robots=robots, steps=steps, warm_up=warm_up, seconds=seconds)
            found["narrow"] = in_new_process(code, 300, CONDYLE_VECTOR_BYTES="32")
        for word, name in (("all cores", f"{cores} cores"), ("one core", "one core")):
            table.add_row(f"PiDog walk, 256 bits (AVX2), {name}", *Spent(**found["narrow"][word]).row())
    console.print(table)
    found["robots"] = {name: each.facts() for name, each in (walking | others).items()}
    for name, facts in found["robots"].items():
        console.print(f"{name}: " + ", ".join(f"{what} {value:.3g}" for what, value in facts.items()))
    if twins:
        length = (2, 2.0) if tiny else (32, 4.0)
        found["stability"] = {time_step: stability(file, *length, time_step) for time_step in chosen}
        table = Table(
            "MuJoCo, closed loop", "fell", "finite", "m/s", title=f"{length[0]} dogs, {length[1]:g} s, command 0.22 m/s"
        )
        for time_step, each in found["stability"].items():
            table.add_row(f"{1e3 * time_step:g} ms", f"{each['fell']:.0%}", f"{each['finite']:.0%}", f"{each['speed']:.3f}")
        console.print(table)
    console.print(f"PPO, {training['samples']:,.0f} policy steps an iteration: " + ", ".join(
        f"{what} {value:,.3g}" if value < 100 else f"{what} {value:,.0f}" for what, value in training.items() if what != "samples"
    ))  # fmt: skip
    console.print(HOW, highlight=False)
    return found
