"""The pictures of the page about model-predictive control."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from picture_style import BLUE, FAINT, GREEN, ORANGE, VIOLET, labelled, save, sheet

import condyle as cd


def mpc(path: Path) -> None:
    """Swing-ups by two sampling methods, and a position held under a disturbance."""
    figure = sheet("Sampling methods, and an estimate of a disturbance", 12.0, 3.8)
    left, middle, right = figure.subplots(1, 3)
    problem = pendulum()
    solvers = {
        "MPPI": (problem.mppi(samples=128, noise=3.0, temperature=0.5, knots=8), BLUE),
        "predictive sampling": (problem.predictive_sampling(samples=128, noise=3.0, knots=8), ORANGE),
    }
    for name, (solver, color) in solvers.items():
        xs, us = swing_up(problem, solver)
        t = 0.05 * np.arange(len(us))
        left.plot(t, xs[:-1, 0], color=color, lw=1.5, label=name)
        middle.step(t, us[:, 0], color=color, lw=1.0)
    left.axhline(2.0 * np.pi, color=FAINT, lw=0.8)
    left.legend(frameon=False, fontsize=10)
    labelled(left, "Angle, 128 samples; 2 pi is upright", "time, s", "rad")
    labelled(middle, "Torque, at most 5", "time, s", "N m")
    for name, color in (("without the estimate", ORANGE), ("with the estimate", GREEN)):
        right.plot(0.1 * np.arange(100), pushed(name.startswith("with the")), color=color, lw=1.5, label=name)
    right.axhline(1.0, color=FAINT, lw=0.8)
    right.legend(frameon=False, fontsize=10)
    labelled(right, "Position of a pushed cart, target 1", "time, s", "m")
    save(figure, path)


def pendulum() -> Any:
    """The swing-up of the page."""
    return cd.ocp(
        lambda x, u: np.array([x[1], 9.81 * np.sin(x[0]) + u[0]]), N=30, x=2, u=1, dt=0.05, bounds={"u": 5.0},
        cost=lambda x, u: 2.0 * (1.0 - np.cos(x[0])) + 0.1 * x[1] ** 2 + 0.01 * u[0] ** 2,
        terminal_cost=lambda x: 20.0 * (1.0 - np.cos(x[0])) + x[1] ** 2,
    )  # fmt: skip


def swing_up(problem: Any, solver: Any) -> tuple[np.ndarray, np.ndarray]:
    """States and torques of six seconds."""
    plant = cd.function(lambda x, u: problem.dynamics.step(x, u, {}, 0.05), x=2, u=1)
    xs, us = [np.array([np.pi, 0.0])], []
    plan = solver.start(xs[0])
    for _ in range(120):
        found = solver(xs[-1], plan)
        us.append(found.u)
        xs.append(plant(xs[-1], found.u))
        plan = solver.shifted(found.plan)
    return np.array(xs), np.array(us)


def pushed(estimated: bool) -> np.ndarray:
    """Positions of a cart under a push of 0.7 that its controller's model lacks."""

    def cart(x: Any, u: Any, p: Any) -> Any:
        return np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * (u[0] + p["push"])])

    controller = cd.ocp(
        cart, N=15, x=2, u=1, bounds={"u": 3.0}, parameters={"push": 0.0}, weights=[10.0, 1.0, 1.0],
        residual=lambda x, u, p: np.array([x[0] - 1.0, x[1], u[0] + p["push"]]),
    ).rti()  # fmt: skip
    estimator = cd.mpc.mhe(
        cart, N=5, x={"x": 2}, u=1, measure=lambda x: x[:1], estimate={"push": 0.0},
        process={"x": 1e-3, "push": 0.05}, measurement=0.01, prior=1.0,
    )  # fmt: skip
    x, u, positions = np.zeros(2), None, []
    plan, memory = controller.start(x), estimator.start(x)
    for _ in range(100):
        positions.append(x[0])
        seen = estimator(x[:1], memory, u)
        memory = seen.memory
        found = controller(x, plan, push=seen.parameters["push"] if estimated else 0.0)
        plan, u = found.plan, found.u
        x = np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * (u[0] + 0.7)])
    return np.array(positions)


def predicted_horizon(path: Path) -> None:
    """The birotor on its way to its target, with the plan of that tick."""
    from condyle.workbench.view.camera import framed
    from condyle.workbench.view.picture import save_picture
    from condyle.workbench.view.scene import force_arrows, robot_mesh
    from condyle.workbench.view.trajectory import sample_run

    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
    seen = sample_run(import_module("16_birotor_mpc").fly(None, 0.8), fps=50.0)
    k = int(np.searchsorted(seen.t, 0.6))
    body, plan = robot_mesh(seen.robot).at(seen.R[k], seen.p[k]).vertices, seen.polylines[0][k]
    size = float(np.linalg.norm(np.ptp(body, axis=0)))
    camera = framed(
        np.concatenate([body, plan, seen.center[: k + 1], [[0.0, 0.0, 0.0]]]), (1000, 620), azimuth=-62.0, elevation=14.0
    )
    style = {"size": (1000, 620), "camera": camera, "ground": seen.center[0, 2] - 0.28, "trail": seen.center[: k + 1]}
    save_picture(path, seen.robot, seen.q[k], arrows=force_arrows(seen, k, 0.8 * size), polylines=[plan], **style)


def four_limbed_walk(path: Path) -> None:
    """One stride of the planned walk in the plane, heights of the feet, and forces of the ground."""
    sys.path.append(str(Path(__file__).parents[1]))  # the folder of benchmarks
    from benchmarks.four_limbed_walk import DT, FEET, feet, measure, task, walk
    from condyle.apps.demos.fourlimb import FOOT_RADIUS

    done = walk(task("planar"), 0.0)
    robot, states = done.task.robot, done.found.states
    forces = done.task.world.contact_forces(states[:-1], done.found.controls)[..., 2]
    heights = feet(robot, states[:, : robot.nq])[..., 2] - FOOT_RADIUS
    figure = sheet("The four-limbed robot walks at 0.4 m/s: planned through contact over 181 knots of 0.05 s", 12.0, 5.4)
    grid = figure.add_gridspec(2, 2, height_ratios=[0.65, 1.0])
    top, left, right = figure.add_subplot(grid[0, :]), figure.add_subplot(grid[1, 0]), figure.add_subplot(grid[1, 1])
    top.imshow(np.concatenate([frame(robot, states[k, : robot.nq]) for k in range(96, 113, 2)], axis=1))
    top.set_title("One stride, every 0.1 s", loc="left", fontsize=11.5)
    top.axis("off")
    t = DT * np.arange(len(states))
    for k, (foot, color) in enumerate(zip(FEET, (BLUE, ORANGE, GREEN, VIOLET), strict=True)):
        left.plot(t[60:125], 1e3 * heights[60:125, k], color=color, lw=1.4, label=foot[5:])
        right.step(t[60:124], forces[60:124, k], color=color, lw=1.2, where="post")
    left.set_ylim(0.0, 100.0)
    left.legend(frameon=False, fontsize=10, ncols=4, loc="upper left")
    found = measure(done)
    labelled(left, f"Heights of the feet; slip {1e3 * found['slip']:.0f} mm per metre walked", "time, s", "mm")
    labelled(right, "Forces of the ground, normal to it", "time, s", "N")
    save(figure, path)


def frame(robot: Any, q: np.ndarray, size: tuple[int, int] = (320, 320)) -> np.ndarray:
    """The robot from its right side, with the camera beside it."""
    from condyle.workbench.view.camera import framed
    from condyle.workbench.view.picture import picture

    x = float(q[0])
    box = np.array([[x - 0.6, 0.0, -0.05], [x + 0.6, 0.0, 0.8]])
    return picture(robot, q, size=size, camera=framed(box, size, azimuth=-90.0, elevation=4.0), ground=0.0, label=False)
