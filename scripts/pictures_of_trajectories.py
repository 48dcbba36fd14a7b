"""Pictures of trajectory optimisation."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np
from picture_style import BLUE, FAINT, GREEN, ORANGE, VIOLET, labelled, save, sheet

EXAMPLE = Path(__file__).parents[1] / "examples" / "19_contact_implicit_jump.py"


def trajectories(path: Path) -> None:
    """The jump of the example: heights, torques, and the costs of its starts."""
    p = runpy.run_path(str(EXAMPLE))
    figure = sheet("A jump found through contact by iLQR, from random torques", 12.0, 3.8)
    left, middle, right = figure.subplots(1, 3)
    t = 0.01 * np.arange(len(p["states"]))
    left.plot(t, 100.0 * (p["states"][:, 1] - p["x0"][1]), color=BLUE, lw=1.5, label="body")
    left.plot(t, 100.0 * (p["reference"][:, 1] - p["x0"][1]), color=FAINT, lw=1.5, label="reference")
    left.plot(t, 100.0 * p["height"], color=ORANGE, lw=1.5, label="foot")
    left.legend(frameon=False, fontsize=10)
    labelled(left, "Height above the start", "time, s", "cm")
    controls = p["found"].controls[p["best"]]
    middle.step(t[:-1], controls[:, 0], color=GREEN, lw=1.2, label="hip")
    middle.step(t[:-1], controls[:, 1], color=VIOLET, lw=1.2, label="knee")
    middle.legend(frameon=False, fontsize=10)
    labelled(middle, "Torques", "time, s", "N m")
    right.semilogy(np.sort(p["found"].cost), "o", color=BLUE, ms=4)
    labelled(right, "Cost after 150 iterations", "random start, sorted", "")
    save(figure, path)


def anymal_plans(path: Path) -> None:
    """ANYmal of the benchmark stands up, steps and jumps: frames of the plans of the first seed, as collision shapes."""
    from condyle.workbench.view.camera import framed
    from condyle.workbench.view.picture import picture

    sys.path.insert(0, str(Path(__file__).parents[1]))
    from benchmarks import trajectory_optimization as benchmark

    tasks = {"stands up": benchmark.stand_up(), "steps forward": benchmark.step_forward(), "jumps": benchmark.jump()}
    shown = {0: (0, 15, 30, 45, 60, 100), 1: (0, 22, 38, 55, 72, 100), 2: (0, 20, 34, 50, 66, 100)}
    figure = sheet("ANYmal from random torques by iLQR through contact", 12.0, 5.4)
    axes = figure.subplots(3, 6)
    size = (320, 210)
    camera = framed(np.array([[-0.55, -0.4, 0.0], [0.7, 0.4, 0.85]]), size, azimuth=-75.0, elevation=6.0)
    for row, (name, task) in enumerate(tasks.items()):
        solver = benchmark.solver_of(task)
        x, plan = benchmark.first_plan(task, solver, 0)
        found = solver(x, plan, **task.data)
        robot = task.problem.dynamics.world.robot
        for k, ax in zip(shown[row], axes[row], strict=True):
            q = found.states[k, : robot.model.nq]
            ax.imshow(picture(robot, q, size=size, camera=camera, which="collision", ground=0.0, extent=1.0, label=False))
            ax.set_axis_off()
            ax.set_title(f"{name}, {k / 100:.2f} s" if k == 0 else f"{k / 100:.2f} s", loc="left", fontsize=10)
    save(figure, path)
