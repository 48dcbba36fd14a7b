"""Pictures of the how-to pages: each runs the program of its page, and draws what the program computed."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from picture_style import BLUE, FAINT, GREEN, ORANGE, RED, VIOLET, labelled, save, sheet

import condyle as cd
from condyle.workbench.view.picture import picture

PAGES = Path(__file__).resolve().parent.parent / "docs" / "how_to"
BLOCK = re.compile(r"(?ms)^(<!-- not run.*?\n)?```python\n(.*?)^```")


def program(page: str) -> dict[str, Any]:
    """The variables after the program of a page, run in an empty folder."""
    names: dict[str, Any] = {"__name__": "__main__"}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        os.chdir(folder)
        try:
            for skipped, code in BLOCK.findall((PAGES / f"{page}.md").read_text()):
                if not skipped:
                    exec(compile(code, f"{page}.md", "exec"), names)
        finally:
            os.chdir(before)
    return names


def robot_panel(ax: Any, robot: cd.Robot, q: Any, title: str, size: tuple[int, int] = (560, 420)) -> None:
    """A picture of a robot in place of axes."""
    ax.imshow(picture(robot, q, size=size, label=False))
    ax.set_axis_off()
    ax.set_title(title, loc="left", fontsize=11.5)


def how_to_controller(path: Path) -> None:
    """Angles over their targets, and torques."""
    p = program("own_controller")
    figure = sheet("Computed torque on a double pendulum: 3,000 ticks in one kernel", 10.0, 3.8)
    left, right = figure.subplots(1, 2)
    for k, (name, color) in enumerate((("shoulder", BLUE), ("elbow", ORANGE))):
        left.plot(p["t"][:, 0], p["path"]["target"][:, k], color=FAINT, lw=3.0, label="target" if k else None)
        left.plot(p["t"][:, 0], p["out"]["q"][:, k], color=color, lw=1.2, label=name)
        right.plot(p["t"][:, 0], p["out"]["u"][:, k], color=color, lw=1.2, label=name)
    left.legend(frameon=False, fontsize=10)
    labelled(left, "Joint angles on their targets", "time, s", "rad")
    labelled(right, "Torques", "time, s", "N m")
    save(figure, path)


def how_to_robot(path: Path) -> None:
    """The hopper, and its landing."""
    p = program("own_robot")
    figure = sheet("A hopper described in Python, dropped from 12 cm", 10.0, 3.8)
    left, right = figure.subplots(1, 2)
    robot_panel(left, p["robot"], p["xs"][0, : p["robot"].nq], "body, sliding leg, foot")
    t = 0.002 * np.arange(len(p["height"]))
    right.plot(t, p["height"], color=BLUE, lw=1.5, label="height of the body")
    right.plot(t, p["leg"], color=ORANGE, lw=1.5, label="travel of the leg")
    right.legend(frameon=False, fontsize=10)
    labelled(right, "It lands on its spring", "time, s", "m")
    save(figure, path)


def how_to_urdf(path: Path) -> None:
    """The small quadruped standing, and the height of its body."""
    p = program("urdf_stands")
    figure = sheet("A URDF on its feet", 10.0, 3.8)
    left, right = figure.subplots(1, 2)
    robot_panel(left, p["robot"], p["q"][-1], "after five seconds")
    world = p["world"]
    limp = world.rollout(p["start"], np.zeros((500, world.nu)))[:, 2]
    right.plot(world.dt * np.arange(1, len(p["q"]) + 1), p["q"][:, 2], color=BLUE, lw=2.0, label="with servos")
    right.plot(world.dt * np.arange(501), limp, color=RED, lw=1.5, label="without")
    right.set_ylim(0.0, 0.3)
    right.legend(frameon=False, fontsize=10)
    labelled(right, "Height of the body", "time, s", "m")
    save(figure, path)


def how_to_terrain(path: Path) -> None:
    """Paths of the balls over the heights of the ground."""
    p = program("terrain")
    figure = sheet("Forty balls on a ground written as a NumPy function", 10.0, 4.4)
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    x, y = np.meshgrid(np.linspace(-1.4, 1.4, 200), np.linspace(-1.4, 1.4, 200))
    filled = left.contourf(x, y, p["bowl"](x, y), 24, cmap="YlGnBu_r")
    figure.colorbar(filled, ax=left, label="height of the ground, m", shrink=0.9)
    left.plot(p["xs"][:, :, 0].T, p["xs"][:, :, 1].T, color=RED, lw=0.9, alpha=0.8)
    left.set_aspect("equal")
    labelled(left, "From above", "x, m", "y, m")
    right.plot(0.004 * np.arange(501), p["xs"][:, :, 2].T, color=BLUE, lw=0.6, alpha=0.5)
    labelled(right, "Heights of the balls", "time, s", "m")
    save(figure, path)


def how_to_parameters(path: Path) -> None:
    """Swings and periods of three hundred pendulums."""
    p = program("parameters_per_robot")
    figure = sheet("300 pendulums of different length and mass: one call of one kernel", 10.0, 3.8)
    left, right = figure.subplots(1, 2)
    left.plot(0.002 * np.arange(2501), p["q"][::30].T, color=BLUE, lw=0.8, alpha=0.6)
    labelled(left, "Every thirtieth of them", "time, s", "rad")
    right.plot(p["length"], p["formula"], color=FAINT, lw=4.0, label="2 pi sqrt(l / g)")
    right.plot(p["length"], p["period"], color=ORANGE, lw=1.2, label="simulated")
    right.legend(frameon=False, fontsize=10)
    labelled(right, "Period", "length, m", "s")
    save(figure, path)


def how_to_noise(path: Path) -> None:
    """Three delays, and the largest angle over the delay."""
    p = program("noise_and_delay")
    figure = sheet("A pendulum held upright through a noisy encoder and a delay", 10.0, 3.8)
    left, right = figure.subplots(1, 2)
    t, angle = 0.002 * np.arange(1, 1501), p["out"]["q"][:, :, 0] - np.pi
    for robot, color in ((0, BLUE), (20, GREEN), (44, RED)):
        left.plot(t, angle[robot], color=color, lw=1.2, label=f"{1000 * p['delays'][robot]:.0f} ms")
    left.set_ylim(-0.04, 0.08)
    left.legend(frameon=False, fontsize=10, title="delay")
    labelled(left, "Angle from upright", "time, s", "rad")
    right.semilogy(1000.0 * p["delays"], p["swing"], color=VIOLET, lw=1.5)
    labelled(right, "Largest angle after two seconds", "delay, ms", "rad")
    save(figure, path)


def how_to_gradient(path: Path) -> None:
    """Paths of the ball by Newton step, and the miss."""
    p = program("gradient_through_contact")
    figure = sheet("The angle of a throw, by Newton's method through impact, slip and rolling", 10.0, 3.8)
    left, right = figure.subplots(1, 2)
    for k, xs in enumerate(p["paths"]):
        left.plot(xs[:, 0], xs[:, 1], color=BLUE, lw=1.4, alpha=0.25 + 0.75 * k / (len(p["paths"]) - 1))
    left.axvline(p["target"], color=RED, lw=1.0, ls="--", label="target")
    left.legend(frameon=False, fontsize=10)
    labelled(left, "Paths of the ball's centre", "x, m", "z, m")
    right.semilogy(p["misses"], "o-", color=ORANGE)
    labelled(right, "Distance from the target at the end", "Newton step", "m")
    save(figure, path)


def how_to_mpc(path: Path) -> None:
    """The swing-up and its cost."""
    p = program("mpc")
    figure = sheet("A swing-up by iLQR with the derivatives of the simulator's steps", 12.0, 3.8)
    left, middle, right = figure.subplots(1, 3)
    t = 0.02 * np.arange(len(p["xs"]))
    left.plot(t, p["xs"][:, 1], color=BLUE, lw=1.5, label="pole, rad")
    left.plot(t, p["xs"][:, 0], color=ORANGE, lw=1.5, label="cart, m")
    left.legend(frameon=False, fontsize=10)
    labelled(left, "State", "time, s", "")
    middle.step(t[:-1], p["us"][:, 0], color=GREEN, lw=1.2)
    labelled(middle, "Force on the cart", "time, s", "N")
    right.semilogy(p["costs"], color=VIOLET, lw=1.5)
    labelled(right, "Cost", "iteration", "")
    save(figure, path)


def from_acados(path: Path) -> None:
    """The closed loop of the page about acados, and the residuals of its first solve."""
    p = program("../from_acados")
    figure = sheet("A script in acados' words: a swing-up in closed loop", 12.0, 3.8)
    left, middle, right = figure.subplots(1, 3)
    xs, t = np.array(p["xs"]), 0.04 * np.arange(len(p["xs"]))
    left.plot(t, xs[:, 1], color=BLUE, lw=1.5, label="pole, rad")
    left.plot(t, xs[:, 0], color=ORANGE, lw=1.5, label="cart, m")
    left.legend(frameon=False, fontsize=10)
    labelled(left, "State", "time, s", "")
    middle.step(t, np.array(p["us"])[:, 0], color=GREEN, lw=1.2, where="post")
    for bound in (-80.0, 80.0):
        middle.axhline(bound, color=FAINT, lw=1.0)
    labelled(middle, "Force on the cart", "time, s", "N")
    for row, color, name in ((1, VIOLET, "stationarity"), (2, RED, "dynamics")):
        right.semilogy(np.maximum(p["first"][row], 1e-16), "o-", ms=3, color=color, label=name)
    right.legend(frameon=False, fontsize=10)
    labelled(right, "Residuals of the first solve", "iteration", "")
    save(figure, path)


def how_to_rl(path: Path) -> None:
    """Falls over the training, and three robots after it."""
    p = program("reinforcement_learning")
    figure = sheet("256 cartpoles per update, each with weights of its own", 10.0, 3.8)
    left, right = figure.subplots(1, 2)
    left.plot(p["falls"], "o-", color=BLUE, ms=3)
    labelled(left, "Falls in six seconds", "update", "mean of 64 robots")
    for w, color, name in ((np.zeros(4), FAINT, "before"), (p["w"], GREEN, "after")):
        x = p["env"].state(np.tile([0.0, 0.05], (6, 1)))
        out = p["env"].rollout(x, steps=300, seed=5, parameters={"policy.w": np.tile(w, (6, 1))}, record=["q"])
        lines = right.plot(0.02 * np.arange(300), out["q"][:, :, 1].T, color=color, lw=1.0)
        lines[0].set_label(name)
    right.legend(frameon=False, fontsize=10, loc="upper right")
    labelled(right, "Angle of the pole; at 0.4 rad it starts again", "time, s", "rad")
    save(figure, path)


def how_to_ros2(path: Path) -> None:
    """Topics of the bag, and joint positions and efforts read back from it."""
    p = program("ros2")
    log, topics = p["log"], p["topics"]
    figure = sheet("A run as a bag of ROS 2, read back by ROS tools", 11.0, 3.6)
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.0, 1.2, 1.2])
    names = list(topics)[::-1]
    left.barh(names, [topics[name] for name in names], color=BLUE, height=0.55)
    for k, name in enumerate(names):
        left.text(topics[name] + 4, k, str(topics[name]), va="center", fontsize=10)
    left.set_xlim(0, 245)
    labelled(left, "Messages by topic", "number", "")
    for ax, key, unit in ((middle, "position", "rad"), (right, "effort", "N m")):
        for k, (name, color) in enumerate(zip(log.names, (BLUE, ORANGE), strict=True)):
            ax.plot(log.t, getattr(log, key)[:, k], color=color, lw=1.5, label=name)
        ax.legend(frameon=False, fontsize=10)
        labelled(ax, f"/joint_states, {key}", "time, s", unit)
    save(figure, path)


def how_to_record(path: Path) -> None:
    """Angles and torques of the recorded run."""
    p = program("record_and_replay")
    run = p["run"]
    figure = sheet("A recorded run of a closed loop, which repeats bit for bit", 10.0, 3.6)
    left, right = figure.subplots(1, 2)
    for k, (name, color) in enumerate((("shoulder", BLUE), ("elbow", ORANGE))):
        left.plot(run.t[:-1], run.extras["target"][:, k], color=FAINT, lw=2.5)
        left.plot(run.t, run.q[:, k], color=color, lw=1.4, label=name)
        right.plot(run.t[:-1], run.u[:, k], color=color, lw=0.8)
    left.legend(frameon=False, fontsize=10)
    labelled(left, "Joint angles and their targets", "time, s", "rad")
    labelled(right, "Torques, with the noise of the encoders", "time, s", "N m")
    save(figure, path)


def how_to_threads(path: Path) -> None:
    """Swings of four threads, and when rollouts ended over their limit."""
    p = program("threads")
    figure = sheet("One simulation in four threads, and rollouts with a time limit", 10.0, 3.8)
    left, right = figure.subplots(1, 2)
    for k, (q, color) in enumerate(zip(p["swings"], (BLUE, GREEN, ORANGE, RED), strict=True)):
        left.plot(0.002 * np.arange(len(q)), q, color=color, lw=1.2, label=f"thread {k + 1}")
    left.set_ylim(-2.4, 3.6)  # the legend is above the curves
    left.legend(frameon=False, fontsize=10, ncols=2, loc="upper center")
    labelled(left, "Angle, each with its own damping", "time, s", "rad")
    limits, ends = 1000.0 * np.array(p["limits"]), 1000.0 * np.array(p["ends"])
    right.plot(limits, limits, color=FAINT, lw=3.0, label="limit")
    right.plot(limits, ends, "o", color=VIOLET, label="end of the call")
    right.legend(frameon=False, fontsize=10)
    labelled(right, "Calls interrupted by a signal", "limit, ms", "ms")
    save(figure, path)
