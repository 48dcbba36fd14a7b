"""Pictures of learning, and of PiDog: gaits, actions, recovery, scores, imitation and the program on the dog."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from types import SimpleNamespace
from typing import Any

import numpy as np
from plots.style import BLUE, FAINT, GREEN, INK, ORANGE, RED, VIOLET, columns, entitle, labelled, picture, show

from condyle.methods.learn.task import load_task
from condyle.methods.learn.training import SMOOTHING as CONTACT_SMOOTHING
from condyle.methods.learn.training import TERM, Training
from condyle.workbench.view.picture import picture as render


@picture("condyle train cartpole --task balance", 12.0, 4.2, ncols=3)
def training(left: Any, middle: Any, right: Any) -> None:
    """The cart-pole learns to balance: reward, falls, and terms of the reward over the iterations."""
    iterations, robots, runs = 30, 512, [Training(load_task("cartpole", "balance"), seed=seed, envs=512) for seed in range(3)]
    for run in runs:
        for _ in run.run(iterations):
            pass
    x, seconds = np.arange(1, iterations + 1), np.mean([run.seconds for run in runs])
    words = f"{robots} robots, {iterations} iterations of 24 steps, {seconds:.0f} s"
    entitle(left.figure, f"condyle train cartpole --task balance: {words}")
    for run, color in zip(runs, (BLUE, GREEN, VIOLET), strict=True):
        left.plot(x, run.curve("reward"), color=color, lw=1.8, label=f"seed {run.seed}")
        middle.plot(x, run.curve("falls"), color=color, lw=1.8)
    labelled(left, "Reward of a policy step", "iteration", "", "best")
    labelled(middle, "Falls in 1,000 policy steps", "iteration")
    names = [name for name in runs[0].names if name.startswith(TERM)]
    for name, color in zip(names, (GREEN, RED, ORANGE, BLUE), strict=False):
        right.plot(x, runs[0].curve(name), color=color, lw=1.8, label=name.removeprefix(TERM))
    labelled(right, "Terms of the reward, seed 0", "iteration", "", "best")


@picture("Score of an episode: 100 times the product of six parts, 0 after a fall", 10.0, 4.8, nrows=2, ncols=3)
def judging(*axes: Any) -> None:
    """The six parts of the score of PiDog's walk, each over its number."""
    from condyle.apps.pidog.judge import score_parts

    parts = {
        "speed": ("speed_error", 0.3, 1.0, "error of the speed, m/s; command 0.22"),
        "lift": ("lift", 0.016, 1e3, "lowest lift of the feet, mm"),
        "slip": ("slip", 0.6, 100.0, "slip, % of the distance"),
        "heading": ("heading_error", 75.0, 1.0, "heading error after 10 s, degrees"),
        "energy": ("cost_of_transport", 5.0, 1.0, "cost of transport"),
        "smoothness": ("shake", 5.0, 1.0, "roll and pitch rates, rad/s"),
    }
    for ax, (part, (name, most, factor, unit)) in zip(axes, parts.items(), strict=True):
        x = np.linspace(0.0, most, 200)
        numbers = {each: np.zeros(len(x)) for each, *_ in parts.values()} | {"lift": np.full((len(x), 4), 0.02)}
        numbers[name] = np.repeat(x[:, None], 4, axis=1) if name == "lift" else x
        ax.plot(factor * x, score_parts(numbers, np.full(len(x), 0.22))[part], color=BLUE, lw=2.0)
        labelled(ax, part, unit, ylim=(-0.05, 1.1))


# -- gaits and actions


@picture("Footfalls: bars are feet that carry weight", 10.0, 6.8, nrows=4, ncols=2)
def pidog(*axes: Any) -> None:
    """Footfall diagrams of eight gaits."""
    from condyle.apps.pidog.footfall import COLORS, loaded_feet, stance_intervals
    from condyle.apps.pidog.kinematics import LEGS
    from condyle.apps.pidog.player import play

    gaits = {
        "walk": 2,
        "trot": 6,
        "backward": 2,
        "trot-left": 6,
        "turn-left": 2,
        "trot-backward": 6,
        "turn-right": 2,
        "table-trot": 3,
    }
    for ax, (name, cycles) in zip(axes, gaits.items(), strict=True):
        played = play(name, cycles=cycles)
        for row, (stance, color) in enumerate(zip(stance_intervals(loaded_feet(played), played.run.dt), COLORS, strict=True)):
            ax.broken_barh(stance, (3 - row - 0.38, 0.76), color=color)
        fall = played.first_fall
        advance, turn = 1e3 * float(np.mean(played.advances[1:])), float(np.degrees(np.mean(played.turns[1:])))
        result = f"falls at {fall:.2f} s" if fall is not None else f"{advance:.0f} mm and {turn:+.1f}° a cycle"
        end = min(played.cycle_times[-1], fall or np.inf)
        labelled(ax, f"{name}: {result}", "time, s" if ax in axes[-2:] else "", xlim=(played.cycle_times[0], end))
        ax.set_yticks(range(4), LEGS[::-1])
        if fall is not None:
            ax.axvline(fall, color="black")


@picture("Moments of twelve actions", 10.0, 3.8, nrows=2, ncols=6)
def pidog_actions(*axes: Any) -> None:
    """Moments of twelve actions."""
    from condyle.apps.pidog.player import play

    # the time in s at which an action is shown, or the joint whose highest angle is
    moments = {
        "stand": 0.3, "sit": 2.0, "lie": 2.0, "lie-hands-out": 2.0, "stretch": 2.0, "push-up": 2.0, "doze-off": 3.0,
        "scratch": "rf_hip", "handshake": "rf_hip", "high-five": "rf_hip", "body-twist": 1.5, "shake-head": 0.9,
    }  # fmt: skip
    for ax, (name, time) in zip(axes, moments.items(), strict=True):
        run = play(name).run
        k = run.q[:, run.robot.q_slice(time).start].argmax() if isinstance(time, str) else round(time / run.dt)
        show(ax, at_origin(run.robot, run.q[min(k, run.steps)], (240, 220)), name, 10)


def at_origin(robot: Any, q: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    return render(robot, np.concatenate([[0.0, 0.0], q[2:]]), size=size)


@picture("PiDog gets up", 10.0, 4.0, nrows=2, ncols=6)
def pidog_recovery(*axes: Any) -> None:
    """One dog gets up from its side, one from its back."""
    from condyle.apps.pidog import get_up, get_up_task
    from condyle.apps.pidog.training_robot import robot

    for row, pose in ((axes[:6], "side"), (axes[6:], "back")):
        env = get_up_task.make(16, 0, False, np.float64, pose=pose)
        steps = env.max_episode_steps or 1
        out = env.rollout(np.zeros((16, steps, env.action_size)), record=["q", "succeeded"])
        done = out["succeeded"].reshape(16, steps)
        best = int(np.argmax(done.max(axis=1) > 0.0))
        first, last = round(get_up.WAIT * get_up.RATE), int(np.argmax(done[best] > 0.0)) - 40
        for ax, k in zip(row, np.linspace(first, last, 6).round().astype(int), strict=True):
            title = f"from its {pose}: {(k - first) / get_up.RATE:.1f} s"
            show(ax, at_origin(robot(), out["q"][best, k], (240, 240)), title, 9)


# -- imitation, and gradients through the simulation


@picture(
    "Imitation of PiDog's walk, and what gradients through the simulation give", 13.0, 4.2, ncols=3, width_ratios=(1.3, 1.0, 1.0)
)
def imitation(left: Any, middle: Any, right: Any) -> None:
    """Targets of a hip, growth of gradients with the window, rewards over processor time."""
    clones(left)
    gradient_norms(middle)
    # reward of a step over processor time
    for algorithm, color, envs, iterations in (("ppo", ORANGE, 512, 80), ("shac", BLUE, 128, 100)):
        training = Training(load_task("cartpole", "balance"), algorithm=algorithm, envs=envs)
        training.step()  # compiles
        begin, times, rewards = process_time(), [], []
        for done in training.run(iterations):
            times.append(process_time() - begin)
            rewards.append(done.numbers["reward"])
        right.plot(times, rewards, color=color, lw=1.8, label=algorithm.upper())
    labelled(right, "Cart-pole, balance: reward of a step", "processor time, s", "", "lower right")


def clones(ax: Any) -> None:
    """The left front hip of a dog with each clone, and what its teacher would have done there."""
    from condyle.apps.pidog.collect import collect
    from condyle.apps.pidog.gait_teacher import servo_targets
    from condyle.apps.pidog.imitation_tasks import IMITATION, labels
    from condyle.methods.learn.imitation import clone

    data = collect("walk", episodes=128)
    for network, color in (("mlp", ORANGE), ("lstm", BLUE)):
        env = IMITATION["walk"].make(1, randomize=False)
        out = env.rollout(clone(data, network).policy, round(8.0 / env.dt), deterministic=True)
        t = env.dt * np.arange(out.actions.shape[1])
        actions = out.actions, labels("walk", out.observations)
        ours, theirs = (np.degrees(servo_targets(data.controller, a[0])[t >= 4.0, 0]) for a in actions)
        ax.plot(t[t >= 4.0], ours, color=color, lw=1.6, label=network)
        if network == "lstm":
            ax.plot(t[t >= 4.0], theirs, color=INK, lw=1.0, ls="--", label="teacher")
    labelled(ax, "Target of the left front hip, degrees", "time, s", "", "best")


def gradient_norms(ax: Any) -> None:
    """Norms of the gradient of each robot's mean reward by the weights, over the length of the window."""
    from condyle.apps.pidog.training_robot import SMOOTHING
    from condyle.methods.learn.gradients import rollout_vjp
    from condyle.methods.learn.policy import initial_policy

    task, robots, std, soft, windows = load_task("pidog", "walk"), 64, 0.1, 0.3, (2, 4, 8, 16, 32, 64)
    env = task.make(robots, **task.training)
    env = env.with_parameters({**env.smooth_parameters, CONTACT_SMOOTHING: soft})
    policy = initial_policy((env.observation_size, *task.hidden, env.action_size))
    env.rollout(policy, 100, std=std)
    start = env.state
    for smoothing, color in ((SMOOTHING, RED), (soft, GREEN)):
        norms = []
        for steps in windows:
            env.restore(start)
            env.set(CONTACT_SMOOTHING, smoothing)
            _, pullback = rollout_vjp(env, policy, steps, std)
            gradient = pullback(reward=np.full((robots, steps), 1.0 / steps))
            flat = np.concatenate([part.reshape(robots, -1) for part in gradient.values()], axis=1)
            norms.append(np.quantile(np.linalg.norm(flat.astype(float), axis=1), (0.1, 0.5, 0.9)))
        low, median, high = np.array(norms).T
        ax.fill_between(windows, low, high, color=color, alpha=0.15, lw=0.0)
        ax.plot(windows, median, color=color, lw=1.8, label=f"contact smoothing {smoothing:g}")
    ax.axvline(16, color=FAINT, lw=0.8, ls=":")
    ax.set(xscale="log", yscale="log", xticks=windows, xticklabels=windows)
    ax.minorticks_off()
    labelled(ax, "Gradient of a dog's reward: median, 80 %", "policy steps of the window", "", "best")


# -- the program on the dog


@picture("The program on the dog", 10.0, 6.6, nrows=3, ncols=1, sharex=True)
def deploy(top: Any, middle: Any, low: Any) -> None:
    """A run of dog.py on the simulated dog, and a dry run with a fault; the network is zero, so the gait is the controller's."""
    from condyle.apps.pidog import controller
    from condyle.apps.pidog.deploy.deployment import deployment
    from condyle.apps.pidog.deploy.drivers import SimulatedDog
    from condyle.apps.pidog.deploy.program import Keyboard, SimulatedClock, control
    from condyle.apps.pidog.deploy.python_file import python_file
    from condyle.apps.pidog.deploy.safety import Safety
    from condyle.apps.pidog.deploy.simulation import dog_program, simulate
    from condyle.apps.pidog.deploy.step import numpy_network
    from condyle.methods.learn.policy import initial_policy
    from condyle.methods.learn.policy_file import PolicyFile

    command = (0.2, 0.0)  # m/s, rad/s
    sizes = (sum(int(n) for _, n in controller.OBSERVATION), 8, len(controller.ACTION))
    fields = {"robot": "pidog", "task": "walk", "rate": 50.0, "observation": controller.OBSERVATION, "action": controller.ACTION}
    commands = {"speed": [0.0, 0.25], "turn": [-0.5, 0.5]}
    network = initial_policy(sizes, gain=0.0, seed=0)
    made = deployment(PolicyFile(network, controller=controller.NUMBERS, commands=commands, **fields))
    with TemporaryDirectory() as folder:
        program = Path(folder, "dog.py")
        program.write_text(python_file(made))
        out = simulate(dog_program(program), 4.0, command)
    times = out.times - out.times[0]
    servo_angles(top, times, out.modes, out.degrees, "dog.py on the simulated dog: rise, walk for 4 s, lie down")
    shade_modes(middle, times, out.modes)
    curves = np.stack([1e3 * out.q[:, 2], 1e2 * out.q[:, 0]], axis=1)
    columns(middle, times, curves, ("height of the body, mm", "distance forward, cm"), (GREEN, RED))
    labelled(middle, "and what the simulated dog does", legend="center left", ylim=(-5.0, 160.0))
    lines: list[tuple[float, str, np.ndarray]] = []
    log = SimpleNamespace(line=lambda now, out, command: lines.append((now, out.mode, np.array(out.degrees))))
    clock = SimulatedClock()
    safety = Safety(
        made.data, made.controller, numpy_network(made.data, {name: a.astype(float) for name, a in made.arrays.items()})
    )
    driver, keyboard = SimulatedDog(clock, sleep=clock.sleep, fault="silent", at=5.0), Keyboard(made.data, command, watched=False)
    control(made.data, safety, driver, keyboard, log, clock=clock, sleep=clock.sleep, seconds=10.0)
    now, modes, degrees = zip(*lines, strict=True)
    servo_angles(low, np.array(now), list(modes), np.array(degrees), "a dry run: the IMU falls silent at 5 s")
    top.legend(loc="lower center")
    low.set_xlabel("time, s")


def servo_angles(ax: Any, times: np.ndarray, modes: list[str], degrees: np.ndarray, title: str) -> None:
    """Servo angles of the left front leg, with the modes behind."""
    from condyle.apps.pidog.kinematics import JOINTS

    shade_modes(ax, times, modes)
    columns(ax, times, degrees, JOINTS[:2])
    labelled(ax, title, "", "servo, degrees", ylim=(-100.0, 125.0))


def shade_modes(ax: Any, times: np.ndarray, modes: list[str]) -> None:
    """The modes as shades with names."""
    shades = {"rest": "#f2f2f2", "rise": "#dfe9f5", "walk": "#ffffff", "hold": "#fbe3c8", "lie": "#f7d0b0"}
    for mode, shade in shades.items():
        within = [now for now, each in zip(times, modes, strict=True) if each == mode]
        if within:
            ax.axvspan(within[0], within[-1] + 0.02, color=shade)
            place = within[0] + (0.12 if mode == "lie" else 0.03), 0.88
            ax.text(*place, mode, fontsize=7, color="#555555", transform=ax.get_xaxis_transform())
