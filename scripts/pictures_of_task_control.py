"""The picture of the page about controllers of the tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from picture_style import BLUE, FAINT, GREEN, ORANGE, RED, VIOLET, labelled, save, sheet

import condyle as cd
from condyle.blocks.force_sensors import ForceTorque
from condyle.methods.control.arm_controller import ToolSample
from condyle.methods.control.external_wrench import ExternalWrench
from condyle.methods.control.force_control import Admittance, HybridForcePosition
from condyle.methods.control.passivity import EnergyBalance
from condyle.methods.control.task_control import CartesianImpedance

READY = np.array([0.3, -1.2, 1.6, -2.0, -1.57, 0.2])
PUSH = np.array([20.0, 0.0, 0.0, 0.0, 0.0, 0.0])  # N along x, for a second


def control_task(path: Path) -> None:
    """A tool that is pushed under impedance and admittance, the energy of a hundred pushes, and a force held on a plane."""
    figure = sheet("A UR3 that is pushed, and one that presses on a table while it draws a circle", 12.0, 6.4)
    (pushed, energy), (force, drawn) = figure.subplots(2, 2)
    _pushed(pushed)
    _energy(energy)
    _pressed(force, drawn)
    save(figure, path)


def _pushed(ax: Any) -> None:
    robot = cd.load("ur3")
    world = cd.Simulation(robot, dt=0.001, ground=None)
    R, p = robot.frame_pose(READY, "tool")
    held, soft = CartesianImpedance(world, "tool", stiffness=[800.0] * 3 + [20.0] * 3), Admittance(world, "tool")
    stiffness = {"impedance, 800 N/m, damping ratio 1": 800.0, "damping ratio 0.2": 800.0, "admittance, 400 N/m, 8 kg": 400.0}

    def impedance(x: Any, push: Any) -> dict[str, Any]:
        return {**held(x, ToolSample(R, p)), "wrenches": {"tool": push}}

    def admittance(x: Any, push: Any) -> dict[str, Any]:
        return {**soft(x, ToolSample(R, p), wrench=push), "wrenches": {"tool": push}}

    pushes = np.zeros((2000, 6))
    pushes[200:1200] = PUSH
    mass, K = np.array([8.0] * 3 + [0.2] * 3), np.array([400.0] * 3 + [20.0] * 3)
    given: list[tuple[Any, dict[str, Any], str]] = [
        (impedance, {}, BLUE),
        (impedance, {"cartesian_impedance.damping_ratio": 0.2}, ORANGE),
        (admittance, {"admittance.stiffness": K, "admittance.mass": mass, "admittance.damping": 2.0 * np.sqrt(K * mass)}, GREEN),
    ]
    t = 0.001 * np.arange(1, 2001)
    for (name, k), (function, parameters, color) in zip(stiffness.items(), given, strict=True):
        loop = cd.Loop(world, function, push=6)
        q = loop.rollout(loop.state(READY), pushes, record=["q"], parameters=parameters)["q"]
        ax.plot(t, 1e3 * (robot.frame_pose(q, "tool")[1] - p)[:, 0], color=color, lw=1.5, label=name)
        ax.axhline(1e3 * PUSH[0] / k, color=FAINT, lw=0.8, ls="--", zorder=0)
    ax.text(1.98, 1e3 * PUSH[0] / 800.0 + 0.8, "F / K", ha="right", color=FAINT)
    ax.text(1.98, 1e3 * PUSH[0] / 400.0 + 0.8, "F / K", ha="right", color=FAINT)
    ax.set_ylim(-16.0, 92.0)
    ax.legend(frameon=False, fontsize=9.5, loc="upper left")
    labelled(ax, "Displacement of the tool, pushed by 20 N for 1 s", "time, s", "mm")


def _energy(ax: Any) -> None:
    robot, rng, count = cd.load("ur3"), np.random.default_rng(0), 60
    world = cd.Simulation(robot, dt=0.001, ground=None)
    control, balance = CartesianImpedance(world, "tool", passive=True), EnergyBalance("tool")

    def closed(x: Any, R: Any, p: Any, push: Any) -> dict[str, Any]:
        out = control(x, ToolSample(R.reshape(3, 3), p))
        stored = robot.kinetic_energy(x.q, x.v) + out["stored"]
        balance(x, stored, push)
        return {"u": out["u"], "energy": stored, "wrenches": {"tool": push}}

    loop = cd.Loop(world, closed, R=9, p=3, push=6)
    q = READY + rng.uniform(-0.8, 0.8, (count, 6))
    R, p = robot.frame_pose(q, "tool")
    pushes = rng.normal(size=(count, 4, 6)) * np.array([10.0] * 3 + [1.0] * 3)
    pushes[:, [0, 3]] = 0.0
    rows = {"R": R.reshape(count, 1, 9), "p": p[:, None], "push": pushes}
    out = loop.rollout(loop.state(q), rows, 1200, record=["energy", "balance.work"], every=5)
    t = 0.005 * np.arange(1, 241)
    for k in range(count):
        ax.plot(t, out["energy"][k] - out["balance.work"][k], color=BLUE, lw=0.6, alpha=0.5)
    ax.axhline(0.0, color=RED, lw=1.0)
    ax.axvspan(0.3, 0.9, color=FAINT, alpha=0.12, lw=0.0)
    ax.text(0.6, 0.13, "two random pushes", ha="center", color=FAINT)
    ax.set_ylim(-2.6, 0.4)
    labelled(ax, "Energy less work of the pushes, 60 arms under impedance", "time, s", "J")


def _pressed(force: Any, drawn: Any) -> None:
    robot = cd.load("ur3")
    R, p = robot.frame_pose(READY, "tool")
    world = cd.Simulation(robot, dt=0.001, ground=cd.Plane(friction=0.3, offset=p[2] - 0.04), contacts={"tool": 0.02})
    control, sensor, external = (
        HybridForcePosition(world, "tool", friction=True),
        ForceTorque("tool"),
        ExternalWrench(world, "tool"),
    )
    radius, rate = 0.05, 1.5

    def closed(x: Any) -> dict[str, Any]:
        s, c, zero = np.sin(rate * x.t), np.cos(rate * x.t), 0.0 * x.t
        goal = ToolSample(
            R,
            p + radius * cd.array([s, 1.0 - c, zero]),
            radius * rate * cd.array([c, s, *[zero] * 4]),
            radius * rate**2 * cd.array([-s, c, *[zero] * 4]),
            np.array([0.0, 0.0, -20.0, 0.0, 0.0, 0.0]),
        )
        measured = external(x, sensor(x))
        return {**control(x, goal, wrench=measured), "measured": measured, "goal": goal.p}

    loop = cd.Loop(world, closed)
    t = 0.005 * np.arange(1, 901)
    parts = {0.0: (ORANGE, "measured friction not cancelled"), 0.9: (BLUE, "nine tenths"), 1.0: (GREEN, "all of it")}
    for part, (color, name) in parts.items():
        given = {"hybrid_force_position.compensation": part}
        out = loop.rollout(loop.state(READY), steps=4500, record=["q", "measured", "goal"], every=5, parameters=given)
        tool = 1e3 * (robot.frame_pose(out["q"], "tool")[1] - p)
        if part == 0.9:
            force.plot(t, out["measured"][:, 2], color=BLUE, lw=1.4, label="normal force, 20 N wanted")
            force.plot(t, np.linalg.norm(out["measured"][:, :2], axis=1), color=VIOLET, lw=1.2, label="friction, at most 6 N")
        drawn.plot(tool[60:, 0], tool[60:, 1], color=color, lw=1.4, label=name)
    goal = 1e3 * (out["goal"] - p)
    drawn.plot(goal[:, 0], goal[:, 1], color=FAINT, lw=0.9, ls="--", label="wanted", zorder=0)
    force.axhline(20.0, color=FAINT, lw=0.8, ls="--", zorder=0)
    force.set_ylim(0.0, 38.0)
    force.text(0.2, 33.0, "impact, one tick", color=FAINT)
    force.legend(frameon=False, fontsize=9.5, loc="upper right")
    labelled(force, "Hybrid control: forces of the table on the tool", "time, s", "N")
    drawn.set_aspect("equal")
    drawn.set_xlim(-70.0, 230.0)
    drawn.legend(frameon=False, fontsize=9.5, loc="center right")
    labelled(drawn, "The circle that it draws, 75 mm/s", "x, mm", "y, mm")
