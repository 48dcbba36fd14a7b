"""Imitation of PiDog's gaits: teacher, clones and clones fine-tuned by PPO in closed loop; and SHAC against PPO.

Clones are a perceptron (mlp) and an LSTM, trained on demonstrations with noise. All of them walk with randomised dogs: error of
the joint targets against the teacher's, falls, speed, slip and lift. SHAC and PPO train the same task for the same processor
time, and the score is that of `condyle judge`.
"""

from __future__ import annotations

from time import process_time
from typing import Any

from rich.console import Console
from rich.table import Table

from condyle.apps.pidog.collect import collect
from condyle.apps.pidog.gait_episodes import Trial
from condyle.apps.pidog.imitation_tasks import IMITATION, SPEEDS, cloned_file, walked
from condyle.apps.pidog.judge import judge
from condyle.methods.learn.imitation import NETWORKS, clone
from condyle.methods.learn.judge_task import judge_task
from condyle.methods.learn.task import load_task
from condyle.methods.learn.training import Training

EPOCHS = 20
SHOWN = {"error": 1.0, "falls": 100.0, "speed": 1.0, "slip": 100.0, "lift": 1000.0}  # factors of the table


def run(console: Console, *, tiny: bool) -> dict[str, Any]:
    """The numbers of both tables."""
    gaits = ("trot",) if tiny else ("walk", "trot", "controller")
    found: dict[str, Any] = {"gaits": {gait: imitated(gait, tiny) for gait in gaits}}
    _show_gaits(console, found["gaits"])
    found["algorithms"] = algorithms(0.1, 2, ("shac",), 16) if tiny else algorithms(60.0, 500)
    _show_algorithms(console, found["algorithms"])
    found["swing_up"] = swing_up(0.1, 4, ("shac",), 8) if tiny else swing_up(43.0, 1000)
    _show_swing_up(console, found["swing_up"])
    return found


# ---- imitation


def imitated(gait: str, tiny: bool = False) -> dict[str, dict[str, float]]:
    """{who walks: numbers} of a gait."""
    robots, seconds, iterations, envs = (8, 2.0, 1, 16) if tiny else (200, 10.0, 100, 512)
    data = collect(gait, episodes=8 if tiny else 256, seconds=2.0 if tiny else 10.0)
    env = IMITATION[gait].make(robots, seed=1)
    found = {"teacher": walked(gait, None, seconds=seconds, env=env)}
    for network in NETWORKS[-1:] if tiny else NETWORKS:
        begin = process_time()
        made = clone(data, network, epochs=1 if tiny else EPOCHS)
        trained = process_time() - begin
        file = cloned_file(data, made, EPOCHS, 0, trained)
        found[f"{network}, cloned"] = walked(gait, file.policy, seconds=seconds, env=env) | {"processor_seconds": trained}
        begin = process_time()
        training = Training(IMITATION[gait], init=file, envs=envs)
        for _ in training.run(iterations):
            pass
        trained = process_time() - begin
        policy = training.learner.policy
        found[f"{network}, fine-tuned"] = walked(gait, policy, seconds=seconds, env=env) | {"processor_seconds": trained}
    return found


def _show_gaits(console: Console, gaits: dict[str, dict[str, dict[str, float]]]) -> None:
    title = "Randomised dogs, 10 s, at the gait's speed; all but error and falls are of the dogs that did not fall"
    table = Table(title=title, title_justify="left")
    for name in ("gait", "who"):
        table.add_column(name)
    for name in ("error, degrees", "falls, %", "speed, m/s", "slip, %", "lift, mm", "training, s"):
        table.add_column(name, justify="right")
    for gait, rows in gaits.items():
        for who, n in rows.items():
            digits = (1, 0, 3, 0, 1)
            numbers = [f"{factor * n[name]:.{d}f}" for (name, factor), d in zip(SHOWN.items(), digits, strict=True)]
            cost = f"{n['processor_seconds']:.0f}" if "processor_seconds" in n else ""
            table.add_row(f"{gait}, {SPEEDS[gait]:.2g} m/s" if who == "teacher" else "", who, *numbers, cost)
        table.add_section()
    console.print(table)


# ---- gradients against samples


def algorithms(
    seconds: float, dogs: int, names: tuple[str, ...] = ("ppo", "shac"), envs: int | None = None, seed: int = 0
) -> dict[str, dict[str, Any]]:
    """{algorithm: score of PiDog's walk} after so much processor time of training, compiling not counted."""
    task, found = load_task("pidog", "walk"), dict[str, dict[str, Any]]()
    for algorithm in names:
        training = Training(task, algorithm=algorithm, envs=envs, seed=seed)
        training.step()  # compiles, and is not counted
        if not found and len(names) > 1:
            found["before training"] = _judged(training, dogs) | {"processor_seconds": 0.0, "iterations": 1, "steps": 0}
        found[algorithm] = _trained(training, seconds) | _judged(training, dogs)
    return found


def swing_up(
    seconds: float, episodes: int, names: tuple[str, ...] = ("ppo", "shac"), envs: int | None = None
) -> dict[str, dict[str, Any]]:
    """{algorithm: what `condyle judge` says of the cart-pole's swing-up} after so much processor time of training."""
    task, found = load_task("cartpole", "swing-up"), {}
    for algorithm in names:
        training = Training(task, algorithm=algorithm, envs=envs)
        training.step()
        spent = _trained(training, seconds)
        found[algorithm] = spent | judge_task(task, training.policy_file(), episodes)[1]
    return found


def _trained(training: Training, seconds: float) -> dict[str, Any]:
    begin = process_time()
    while process_time() - begin < seconds:
        training.step()
    return {"processor_seconds": process_time() - begin, "iterations": training.iteration, "steps": training.steps}


def _judged(training: Training, dogs: int) -> dict[str, Any]:
    return judge(training.policy_file(), Trial(dogs, 2.0 if dogs < 10 else 20.0))


def _show_algorithms(console: Console, rows: dict[str, dict[str, Any]]) -> None:
    title = "PiDog's walk at 0.22 m/s; SHAC trains without dead band, steps, backlash, on soft ground, and is judged with all"
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for name in ("processor time, s", "policy steps", "score", "falls, %", "speed, m/s", "lift, mm", "slip, %"):
        table.add_column(name, justify="right")
    for name, n in rows.items():
        walked_on = n["speed"] is not None
        gait = [f"{n['speed']:.3f}", f"{1e3 * min(n['lift']):.1f}", f"{100.0 * n['slip']:.0f}"] if walked_on else ["-"] * 3
        table.add_row(
            name, f"{n['processor_seconds']:.0f}", f"{n['steps']:,}", f"{n['score']:.1f}", f"{100.0 * n['falls']:.1f}", *gait
        )
    console.print(table)


def _show_swing_up(console: Console, rows: dict[str, dict[str, Any]]) -> None:
    table = Table(title="Cart-pole, swing-up; the largest return is below 500", title_justify="left")
    table.add_column("")
    for name in ("processor time, s", "policy steps", "return", "worst tenth, at most", "left the rail, %"):
        table.add_column(name, justify="right")
    for name, n in rows.items():
        numbers = [f"{n['return']:.0f}", f"{n['return_worst_decile']:.0f}", f"{100.0 * n['falls']:.1f}"]
        table.add_row(name, f"{n['processor_seconds']:.0f}", f"{n['steps']:,}", *numbers)
    console.print(table)
