"""Pictures of the ground and of limits: two laws of contact, and what Condyle does worse or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from picture_style import BLUE, FAINT, GREEN, INK, ORANGE, VIOLET, labelled, save, sheet

import condyle as cd
from condyle.apps.compat.diffne import DiffNERobotModel
from condyle.robot.description import Description
from condyle.robot.parts import box, link, solid, sphere
from condyle.workbench.view.picture import picture

G = 9.81
FOOT = 0.05  # m, radius


def diffne(path: Path) -> None:
    """The reference robot, and what the ground exerts on it under both laws: force, and its exact derivative by the height."""
    figure = sheet(
        "The reference robot and the two laws of its ground, equally strong 1 mm deep (mode INVERSE_LF)", width=12.0, height=4.4
    )
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.15, 1.0, 1.0))
    robot = cd.load("fourlimb", base="planar")
    q = robot.neutral()
    q[1] = 0.737
    left.imshow(picture(robot, q, size=(700, 560), label=False))
    left.set_title("99.9 kg, 12 joints in the plane", loc="left", fontsize=11.5)
    left.axis("off")
    depth = np.concatenate([np.linspace(-2e-4, -1e-7, 20), np.linspace(1e-7, 1e-3, 120)])
    for law, color, name in (("round", BLUE, "round: depth³"), ("pyramid", ORANGE, "pyramid: depth²")):
        force, slope = lifted(law, depth)
        middle.plot(1e3 * depth, force, color=color, lw=2.0, label=name)
        right.plot(1e3 * depth, slope / 1e3, color=color, lw=2.0)
    for ax in (middle, right):
        ax.axvline(0.0, color=FAINT, lw=0.8, ls=":")
    labelled(middle, "Force of the ground", "depth of the feet, mm", "N")
    labelled(right, "Its derivative by the depth", "depth of the feet, mm", "N/mm")
    middle.legend(frameon=False, fontsize=10)
    save(figure, path)


def lifted(law: str, depth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(upward force of the ground, N; its derivative by the depth, N/m) on the robot at rest, by its inverse mode."""
    model = DiffNERobotModel("fourlimb", base="planar")
    model.eliminate_joints(["roll_"])
    simulator = model.create_simulator(mode="INVERSE_LF", law=law, coef=2.9e8)  # as strong as the round one where it is 1 mm deep
    simulator.set_floor([0, 0, 1, 0], model.end_effectors("foot_*"))
    x = np.zeros((len(depth), 3 * model.N))
    touching = FOOT - model.robot.frame_pose(np.zeros(model.N), "foot_fl")[1][2]
    x[:, 1] = touching - depth
    tau, by_state = simulator.simulate_batched(0.001, x, Dqdq=True)
    return model.robot.mass * G - tau[:, 1], by_state[:, 1, 1]


# -- parameters


def parameters(path: Path) -> None:
    """A thousand crates on a slope, each with its own friction and mass, in one call."""
    figure = sheet("1,000 frictions and masses in one call of one kernel: crates on a slope of 15 degrees, after 1 s", height=4.2)
    left, right = figure.subplots(1, 2)
    angle, dt, count = np.radians(15.0), 0.004, 1000
    crate = cd.load(
        Description("crate", (link("crate", solid(2.0, shape := box((0.2, 0.2, 0.1))), [], [shape]),), ()), base="free"
    )
    world = cd.Simulation(crate, dt, cd.Slope(15.0), ["crate"])
    x = world.state([-np.sin(angle) * 0.05, 0.0, np.cos(angle) * 0.05, 0.0, -np.sin(angle / 2.0), 0.0, np.cos(angle / 2.0)])
    friction, mass = np.linspace(0.0, 0.5, count), 10.0 ** np.random.default_rng(0).uniform(-1.0, 2.0, count)
    given = {
        "ground.friction": friction,
        "crate.mass": mass,
        "crate.inertia": world.parameters["crate.inertia"].default * mass[:, None, None] / 2.0,
    }
    speed = -world.rollout(x, np.zeros((round(1.0 / dt), 0)), parameters=given)[:, -1, 7]
    right.scatter(mass, speed, c=friction, s=6.0, cmap="viridis")
    right.set_xscale("log")
    left.plot(
        friction,
        np.maximum(G * (np.sin(angle) - friction * np.cos(angle)), 0.0),
        color=FAINT,
        lw=5.0,
        label="g (sin 15° - mu cos 15°) t",
    )
    left.plot(friction, speed, color=BLUE, lw=1.5, label="1,000 crates")
    labelled(left, "Friction decides", "friction of the ground", "speed, m/s")
    labelled(right, "Mass does not: contact scales follow it", "mass, kg", "speed, m/s")
    left.legend(frameon=False, fontsize=10)
    save(figure, path)


# -- limits


def limits(path: Path) -> None:
    """Long chains, a ball that does not bounce, and energy under two integrators."""
    figure = sheet("Three limits: long chains, no bounce, first order", width=12.0, height=4.4)
    left, middle, right = figure.subplots(1, 3)
    chains(left)
    bounce(middle)
    order(right)
    save(figure, path)


def chains(ax: Any) -> None:
    """Operations over the number of joints."""
    joints = (2, 4, 8, 16, 24)
    for kernel, color, name in (
        ("forward_dynamics", BLUE, "forward dynamics"),
        ("mass_matrix", VIOLET, "mass matrix"),
        ("forward_dynamics_derivatives", ORANGE, "derivatives"),
    ):
        counts = [cd.load(f"chain:{n}").function(kernel).operations for n in joints]
        ax.loglog(joints, counts, "o-", color=color, lw=1.6, ms=5, label=f"{name}: {counts[-1]:,}")
    ax.set_xticks(joints, [str(n) for n in joints])
    ax.minorticks_off()
    labelled(ax, "Chains: the derivatives grow faster", "joints", "operations for one state")
    ax.legend(frameon=False, fontsize=9, title="with 24 joints", title_fontsize=9, loc="upper left")
    ax.set_ylim(top=3e6)


def bounce(ax: Any) -> None:
    """A ball let fall from half a metre, and one that gives back half of its speed."""
    shape = sphere(0.05, name="ball")
    ball = cd.load(Description("ball", (link("ball", solid(1.0, shape), [], [shape]),), ()), base="free")
    world = cd.Simulation(ball, 0.001, cd.Plane(friction=0.5))
    x = world.state()
    x[2] = 0.55
    xs = world.rollout(x, np.zeros((1000, world.nu)))
    t = 0.001 * np.arange(len(xs))
    ax.plot(t, real_ball(t, 0.5, 0.5), color=FAINT, lw=1.6, ls="--", label="a ball that bounces, e = 0.5")
    ax.plot(t, xs[:, 2] - 0.05, color=BLUE, lw=2.0, label="Condyle: no bounce")
    labelled(ax, "Impacts are inelastic", "time, s", "height of the lowest point, m")
    ax.set_ylim(-0.02, 0.68)
    ax.legend(frameon=False, fontsize=9, loc="upper right")


def real_ball(t: np.ndarray, height: float, back: float) -> np.ndarray:
    """Height of a ball whose speed is multiplied by `back` at each impact."""
    out, start, speed = np.zeros_like(t), -np.sqrt(2.0 * height / G), np.sqrt(2.0 * G * height)
    for _ in range(20):
        now = t - start
        flying = (now >= 0.0) & (now <= 2.0 * speed / G)
        out[flying] = (speed * now - G * now**2 / 2.0)[flying]
        start, speed = start + 2.0 * speed / G, back * speed
    return out


def order(ax: Any) -> None:
    """How far a double pendulum is from itself with steps of 1/8 ms by rk4, after a second, against the step."""
    robot = cd.load("double_pendulum")
    start = np.array([1.0, 0.5, 0.0, 0.0])

    def after(integrator: str, dt: float) -> np.ndarray:
        world = cd.Simulation(robot, dt, integrator=integrator)
        return world.rollout(start, np.zeros((round(1.0 / dt), world.nu)))[-1, :2]

    true = after("rk4", 0.001 / 8.0)
    steps = 0.001 * 2.0 ** np.arange(-2.0, 5.0)
    steps = 1.0 / np.rint(1.0 / steps)
    for integrator, color, words in (("semi_implicit_euler", ORANGE, "the default"), ("rk2", GREEN, "rk2"), ("rk4", BLUE, "rk4")):
        error = [float(np.abs(after(integrator, dt) - true).max()) for dt in steps]
        ax.loglog(1e3 * steps, error, "o-", color=color, lw=1.6, ms=5, label=words)
    ax.set_ylim(top=10.0)
    labelled(ax, "The default integrator is of first order", "step, ms", "error of the angles after 1 s, rad")
    ax.legend(frameon=False, fontsize=9, loc="upper left", ncols=3)
    ax.tick_params(labelcolor=INK)
