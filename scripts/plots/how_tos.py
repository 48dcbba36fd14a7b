"""Pictures of the pages whose program they draw: each runs it and shows what it computed."""

from __future__ import annotations

from typing import Any

import numpy as np
from plots.style import BLUE, FAINT, GREEN, ORANGE, RED, VIOLET, columns, labelled, levels, picture, program, show

from condyle.workbench.view.picture import picture as render

JOINTS = ("shoulder", "elbow")


@picture("Computed torque on a double pendulum: 3,000 ticks in one kernel", 10.0, 3.8, ncols=2)
def how_to_controller(left: Any, right: Any) -> None:
    p = program("how_to/own_controller")
    t = p["t"][:, 0]
    columns(left, t, p["path"]["target"], (None, "target"), (FAINT, FAINT), lw=3.0)
    columns(left, t, p["out"]["q"], JOINTS, lw=1.2)
    columns(right, t, p["out"]["u"], JOINTS, lw=1.2)
    labelled(left, "Joint angles on their targets", "time, s", "rad", "best")
    labelled(right, "Torques", "time, s", "N m")


@picture("A hopper described in Python, dropped from 12 cm", 10.0, 3.8, ncols=2)
def how_to_robot(left: Any, right: Any) -> None:
    p = program("how_to/own_robot")
    image = render(p["robot"], p["xs"][0, : p["robot"].nq], size=(560, 420), label=False)
    show(left, image, "body, sliding leg, foot")
    curves = np.stack([p["height"], p["leg"]], axis=1)
    columns(right, 0.002 * np.arange(len(curves)), curves, ("height of the body", "travel of the leg"))
    labelled(right, "It lands on its spring", "time, s", "m", "best")


@picture("A URDF on its feet", 10.0, 3.8, ncols=2)
def how_to_urdf(left: Any, right: Any) -> None:
    p = program("how_to/urdf_stands")
    world = p["world"]
    show(left, render(p["robot"], p["q"][-1], size=(560, 420), label=False), "after five seconds")
    limp = world.rollout(p["start"], np.zeros((500, world.nu)))[:, 2]
    right.plot(world.dt * np.arange(1, len(p["q"]) + 1), p["q"][:, 2], color=BLUE, lw=2.0, label="with servos")
    right.plot(world.dt * np.arange(501), limp, color=RED, label="without")
    labelled(right, "Height of the body", "time, s", "m", "best", ylim=(0.0, 0.3))


@picture("Forty balls on a ground written as a NumPy function", 10.0, 4.4, ncols=2, width_ratios=(1.15, 1))
def how_to_terrain(left: Any, right: Any) -> None:
    p = program("how_to/terrain")
    x, y = np.meshgrid(np.linspace(-1.4, 1.4, 200), np.linspace(-1.4, 1.4, 200))
    heights = left.contourf(x, y, p["bowl"](x, y), 24, cmap="YlGnBu_r")
    left.figure.colorbar(heights, ax=left, label="height of the ground, m", shrink=0.9)
    left.plot(p["xs"][:, :, 0].T, p["xs"][:, :, 1].T, color=RED, lw=0.9, alpha=0.8)
    left.set_aspect("equal")
    labelled(left, "From above", "x, m", "y, m")
    right.plot(0.004 * np.arange(501), p["xs"][:, :, 2].T, color=BLUE, lw=0.6, alpha=0.5)
    labelled(right, "Heights of the balls", "time, s", "m")


@picture("300 pendulums of different length and mass: one call of one kernel", 10.0, 3.8, ncols=2)
def how_to_parameters(left: Any, right: Any) -> None:
    p = program("how_to/parameters_per_robot")
    left.plot(0.002 * np.arange(2501), p["q"][::30].T, color=BLUE, lw=0.8, alpha=0.6)
    labelled(left, "Every thirtieth of them", "time, s", "rad")
    right.plot(p["length"], p["formula"], color=FAINT, lw=4.0, label="2 pi sqrt(l / g)")
    right.plot(p["length"], p["period"], color=ORANGE, lw=1.2, label="simulated")
    labelled(right, "Period", "length, m", "s", "best")


@picture("A pendulum held upright through a noisy encoder and a delay", 10.0, 3.8, ncols=2)
def how_to_noise(left: Any, right: Any) -> None:
    p, robots = program("how_to/noise_and_delay"), [0, 20, 44]
    delays = 1000.0 * p["delays"]
    angles, names = p["out"]["q"][robots, :, 0].T - np.pi, [f"{delays[k]:.0f} ms" for k in robots]
    columns(left, 0.002 * np.arange(1, 1501), angles, names, (BLUE, GREEN, RED), lw=1.2)
    labelled(left, "Angle from upright", "time, s", "rad", {"title": "delay"}, ylim=(-0.04, 0.08))
    right.semilogy(delays, p["swing"], color=VIOLET)
    labelled(right, "Largest angle after two seconds", "delay, ms", "rad")


@picture("The angle of a throw, by Newton's method through impact, slip and rolling", 10.0, 3.8, ncols=2)
def how_to_gradient(left: Any, right: Any) -> None:
    p = program("how_to/gradient_through_contact")
    for k, xs in enumerate(p["paths"]):
        left.plot(xs[:, 0], xs[:, 1], color=BLUE, lw=1.4, alpha=0.25 + 0.75 * k / (len(p["paths"]) - 1))
    left.axvline(p["target"], color=RED, lw=1.0, ls="--", label="target")
    labelled(left, "Paths of the ball's centre", "x, m", "z, m", "best")
    right.semilogy(p["misses"], "o-", color=ORANGE)
    labelled(right, "Distance from the target at the end", "Newton step", "m")


@picture("A swing-up by iLQR with the derivatives of the simulator's steps", 12.0, 3.8, ncols=3)
def how_to_mpc(left: Any, middle: Any, right: Any) -> None:
    p = program("how_to/mpc")
    cart_and_pole(left, middle, 0.02, p["xs"], p["us"], "pre")
    right.semilogy(p["costs"], color=VIOLET)
    labelled(right, "Cost", "iteration")


@picture("A script in acados' words: a swing-up in closed loop", 12.0, 3.8, ncols=3)
def from_acados(left: Any, middle: Any, right: Any) -> None:
    p = program("from_acados")
    cart_and_pole(left, middle, 0.04, np.array(p["xs"]), np.array(p["us"]), "post")
    levels(middle, -80.0, 80.0, lw=1.0)
    for row, color, name in ((1, VIOLET, "stationarity"), (2, RED, "dynamics")):
        right.semilogy(np.maximum(p["first"][row], 1e-16), "o-", ms=3, color=color, label=name)
    labelled(right, "Residuals of the first solve", "iteration", "", "best")


def cart_and_pole(left: Any, middle: Any, dt: float, xs: np.ndarray, us: np.ndarray, where: str) -> None:
    """A swing-up: angle and place over time, and the force."""
    t = dt * np.arange(len(xs))
    columns(left, t, xs[:, [1, 0]], ("pole, rad", "cart, m"))
    labelled(left, "State", "time, s", "", "best")
    middle.step(t[: len(us)], us[:, 0], color=GREEN, lw=1.2, where=where)
    labelled(middle, "Force on the cart", "time, s", "N")


@picture("256 cartpoles per update, each with weights of its own", 10.0, 3.8, ncols=2)
def how_to_rl(left: Any, right: Any) -> None:
    p = program("how_to/reinforcement_learning")
    left.plot(p["falls"], "o-", color=BLUE, ms=3)
    labelled(left, "Falls in six seconds", "update", "mean of 64 robots")
    x = p["env"].state(np.tile([0.0, 0.05], (6, 1)))
    for w, color, name in ((np.zeros(4), FAINT, "before"), (p["w"], GREEN, "after")):
        out = p["env"].rollout(x, steps=300, seed=5, parameters={"policy.w": np.tile(w, (6, 1))}, record=["q"])
        columns(right, 0.02 * np.arange(300), out["q"][:, :, 1].T, (name, *[None] * 5), [color] * 6, lw=1.0)
    labelled(right, "Angle of the pole; at 0.4 rad it starts again", "time, s", "rad", "upper right")


@picture("A run as a bag of ROS 2, read back by ROS tools", 11.0, 3.6, ncols=3, width_ratios=[1.0, 1.2, 1.2])
def how_to_ros2(left: Any, middle: Any, right: Any) -> None:
    p = program("how_to/ros2")
    log, topics = p["log"], dict(reversed(p["topics"].items()))
    left.barh(list(topics), list(topics.values()), color=BLUE, height=0.55)
    for k, count in enumerate(topics.values()):
        left.text(count + 4, k, str(count), va="center", fontsize=10)
    labelled(left, "Messages by topic", "number", xlim=(0, 245))
    for ax, key, unit in ((middle, "position", "rad"), (right, "effort", "N m")):
        columns(ax, log.t, getattr(log, key), log.names)
        labelled(ax, f"/joint_states, {key}", "time, s", unit, "best")


@picture("A recorded run of a closed loop, which repeats bit for bit", 10.0, 3.6, ncols=2)
def how_to_record(left: Any, right: Any) -> None:
    run = program("how_to/record_and_replay")["run"]
    left.plot(run.t[:-1], run.extras["target"][:, :2], color=FAINT, lw=2.5)
    columns(left, run.t, run.q, JOINTS, lw=1.4)
    columns(right, run.t[:-1], run.u, JOINTS, lw=0.8)
    labelled(left, "Joint angles and their targets", "time, s", "rad", "best")
    labelled(right, "Torques, with the noise of the encoders", "time, s", "N m")


@picture("One simulation in four threads, and rollouts with a time limit", 10.0, 3.8, ncols=2)
def how_to_threads(left: Any, right: Any) -> None:
    p = program("how_to/threads")
    for k, (q, color) in enumerate(zip(p["swings"], (BLUE, GREEN, ORANGE, RED), strict=True)):
        left.plot(0.002 * np.arange(len(q)), q, color=color, lw=1.2, label=f"thread {k + 1}")
    legend = {"ncols": 2, "loc": "upper center"}  # above the curves
    labelled(left, "Angle, each with its own damping", "time, s", "rad", legend, ylim=(-2.4, 3.6))
    limits, ends = 1000.0 * np.array(p["limits"]), 1000.0 * np.array(p["ends"])
    right.plot(limits, limits, color=FAINT, lw=3.0, label="limit")
    right.plot(limits, ends, "o", color=VIOLET, label="end of the call")
    labelled(right, "Calls interrupted by a signal", "limit, ms", "ms", "best")
