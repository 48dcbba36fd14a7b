"""The pictures of the page about model-predictive control."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from picture_style import BLUE, FAINT, GREEN, ORANGE, labelled, save, sheet

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
    from condyle.view.camera import framed
    from condyle.view.picture import save_picture
    from condyle.view.scene import force_arrows, robot_mesh
    from condyle.view.trajectory import sample_run

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
