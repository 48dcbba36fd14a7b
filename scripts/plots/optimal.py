"""Pictures of model-predictive control and of trajectory optimisation."""

from __future__ import annotations

import runpy
from typing import Any

import numpy as np
from plots.style import BLUE, FAINT, GREEN, ORANGE, ROOT, VIOLET, columns, labelled, levels, picture, show

import condyle as cd
from condyle.workbench.view.camera import framed
from condyle.workbench.view.picture import picture as render


@picture("Sampling methods, and an estimate of a disturbance", 12.0, 3.8, ncols=3)
def mpc(left: Any, middle: Any, right: Any) -> None:
    """Swing-ups by two sampling methods, and a position held under a disturbance."""
    problem = cd.ocp(
        lambda x, u: np.array([x[1], 9.81 * np.sin(x[0]) + u[0]]), N=30, x=2, u=1, dt=0.05, bounds={"u": 5.0},
        cost=lambda x, u: 2.0 * (1.0 - np.cos(x[0])) + 0.1 * x[1] ** 2 + 0.01 * u[0] ** 2,
        terminal_cost=lambda x: 20.0 * (1.0 - np.cos(x[0])) + x[1] ** 2,
    )  # fmt: skip
    options, t = {"samples": 128, "noise": 3.0, "knots": 8}, 0.05 * np.arange(120)
    mppi, predictive = problem.mppi(temperature=0.5, **options), problem.predictive_sampling(**options)
    for name, solver, color in (("MPPI", mppi, BLUE), ("predictive sampling", predictive, ORANGE)):
        xs, us = swing_up(problem, solver, len(t))
        left.plot(t, xs[:, 0], color=color, label=name)
        middle.step(t, us[:, 0], color=color, lw=1.0)
    levels(left, 2.0 * np.pi)
    labelled(left, "Angle, 128 samples; 2 pi is upright", "time, s", "rad", "best")
    labelled(middle, "Torque, at most 5", "time, s", "N m")
    for name, color in (("without the estimate", ORANGE), ("with the estimate", GREEN)):
        right.plot(0.1 * np.arange(100), cart_positions("without" not in name), color=color, label=name)
    levels(right, 1.0)
    labelled(right, "Position of a pushed cart, target 1", "time, s", "m", "best")


def swing_up(problem: Any, solver: Any, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """States and torques, from hanging."""
    plant = cd.function(lambda x, u: problem.dynamics.step(x, u, {}, 0.05), x=2, u=1)
    xs, us = [np.array([np.pi, 0.0])], []
    plan = solver.start(xs[0])
    for _ in range(steps):
        solution = solver(xs[-1], plan)
        us.append(solution.u)
        xs.append(plant(xs[-1], solution.u))
        plan = solver.shifted(solution.plan)
    return np.array(xs[:-1]), np.array(us)


def cart_positions(estimated: bool) -> np.ndarray:
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
        estimate = estimator(x[:1], memory, u)
        memory = estimate.memory
        solution = controller(x, plan, push=estimate.parameters["push"] if estimated else 0.0)
        plan, u = solution.plan, solution.u
        x = cart(x, u, {"push": 0.7})
    return np.array(positions)


@picture()
def predicted_horizon() -> Any:
    """The birotor on its way to its target, with the plan of that tick."""
    from importlib import import_module

    from PIL import Image

    from condyle.workbench.view.scene import force_arrows, robot_mesh
    from condyle.workbench.view.trajectory import sample_run

    seen, size = sample_run(import_module("16_birotor_mpc").fly(None, 0.8), fps=50.0), (1000, 620)
    k = int(np.searchsorted(seen.t, 0.6))
    body, plan, trail = robot_mesh(seen.robot).at(seen.R[k], seen.p[k]).vertices, seen.polylines[0][k], seen.center[: k + 1]
    camera = framed(np.concatenate([body, plan, trail, [[0.0, 0.0, 0.0]]]), size, azimuth=-62.0, elevation=14.0)
    arrows = force_arrows(seen, k, 0.8 * float(np.linalg.norm(np.ptp(body, axis=0))))
    style = {"size": size, "camera": camera, "ground": seen.center[0, 2] - 0.28, "trail": trail}
    return Image.fromarray(render(seen.robot, seen.q[k], arrows=arrows, polylines=[plan], **style))


@picture("The four-limbed robot walks at 0.4 m/s: planned through contact over 181 knots of 0.05 s", 12.0, 5.4)
def four_limbed_walk(figure: Any) -> None:
    """One stride of the planned walk in the plane, heights of the feet, and forces of the ground."""
    from benchmarks.four_limbed_walk import DT, FEET, feet, measure, task, walk
    from condyle.apps.demos.fourlimb import FOOT_RADIUS

    done = walk(task("planar"), 0.0)
    robot, states = done.task.robot, done.found.states
    forces = done.task.world.contact_forces(states[:-1], done.found.controls)[..., 2]
    heights = feet(robot, states[:, : robot.nq])[..., 2] - FOOT_RADIUS
    grid = figure.add_gridspec(2, 2, height_ratios=[0.65, 1.0])
    top, left, right = figure.add_subplot(grid[0, :]), figure.add_subplot(grid[1, 0]), figure.add_subplot(grid[1, 1])
    show(
        top,
        np.concatenate([side_view(robot, states[k, : robot.nq]) for k in range(96, 113, 2)], axis=1),
        "One stride, every 0.1 s",
    )
    t, colors = DT * np.arange(len(states)), (BLUE, ORANGE, GREEN, VIOLET)
    columns(left, t[60:125], 1e3 * heights[60:125], (foot[5:] for foot in FEET), colors, lw=1.4)
    columns(right, t[60:124], forces[60:124], (None,) * 4, colors, lw=1.2, drawstyle="steps-post")
    title, legend = (
        f"Heights of the feet; slip {1e3 * measure(done)['slip']:.0f} mm per metre walked",
        {"ncols": 4, "loc": "upper left"},
    )
    labelled(left, title, "time, s", "mm", legend, ylim=(0.0, 100.0))
    labelled(right, "Forces of the ground, normal to it", "time, s", "N")


def side_view(robot: Any, q: np.ndarray) -> np.ndarray:
    """The robot from its right side, with the camera beside it."""
    size, corners = (320, 320), np.array([[q[0] - 0.6, 0.0, -0.05], [q[0] + 0.6, 0.0, 0.8]])
    camera = framed(corners, size, azimuth=-90.0, elevation=4.0)
    return render(robot, q, size=size, camera=camera, ground=0.0, label=False)


@picture("A jump found through contact by iLQR, from random torques", 12.0, 3.8, ncols=3)
def trajectories(left: Any, middle: Any, right: Any) -> None:
    """The jump of the example: heights, torques, and the costs of its starts."""
    p = runpy.run_path(str(ROOT / "examples" / "19_contact_implicit_jump.py"))
    t, up = 0.01 * np.arange(len(p["states"])), p["x0"][1]
    heights = np.stack([p["states"][:, 1] - up, p["reference"][:, 1] - up, p["height"]], axis=1)
    columns(left, t, 100.0 * heights, ("body", "reference", "foot"), (BLUE, FAINT, ORANGE))
    labelled(left, "Height above the start", "time, s", "cm", "best")
    columns(middle, t[:-1], p["found"].controls[p["best"]], ("hip", "knee"), (GREEN, VIOLET), lw=1.2, drawstyle="steps-pre")
    labelled(middle, "Torques", "time, s", "N m", "best")
    right.semilogy(np.sort(p["found"].cost), "o", color=BLUE, ms=4)
    labelled(right, "Cost after 150 iterations", "random start, sorted")


@picture("ANYmal from random torques by iLQR through contact", 12.0, 5.4, nrows=3, ncols=6)
def anymal_plans(*axes: Any) -> None:
    """ANYmal of the benchmark stands up, steps and jumps: frames of the plans of the first seed, as collision shapes."""
    from benchmarks import trajectory_optimization as benchmark

    rows = (
        ("stands up", benchmark.stand_up(), (0, 15, 30, 45, 60, 100)),
        ("steps forward", benchmark.step_forward(), (0, 22, 38, 55, 72, 100)),
        ("jumps", benchmark.jump(), (0, 20, 34, 50, 66, 100)),
    )
    size, corners = (320, 210), np.array([[-0.55, -0.4, 0.0], [0.7, 0.4, 0.85]])
    camera = framed(corners, size, azimuth=-75.0, elevation=6.0)
    for row, (name, task, steps) in enumerate(rows):
        solver = benchmark.solver_of(task)
        x, plan = benchmark.first_plan(task, solver, 0)
        states, robot = solver(x, plan, **task.data).states, task.problem.dynamics.world.robot
        for ax, k in zip(axes[6 * row :], steps, strict=False):
            q = states[k, : robot.model.nq]
            image = render(robot, q, size=size, camera=camera, which="collision", ground=0.0, extent=1.0, label=False)
            show(ax, image, f"{name}, {k / 100:.2f} s" if k == 0 else f"{k / 100:.2f} s", 10)
