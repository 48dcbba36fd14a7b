"""The picture of the page about controllers of joints."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from picture_style import BLUE, FAINT, GREEN, ORANGE, RED, VIOLET, labelled, save, sheet

import condyle as cd
from condyle.methods.control.adaptive import AdaptiveControl, PassivityControl
from condyle.methods.control.joint_control import ComputedTorque, JointImpedance, JointPID
from condyle.methods.control.lqr_control import TimeVaryingLQR
from condyle.methods.control.passivity import EnergyMeter
from condyle.methods.planning.profiles import Sample

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
READY = np.array([0.0, -np.pi / 2, np.pi / 2, -np.pi / 2, 0.0, 0.0])
REST = Sample(READY, 0.0, 0.0)


def control_joint(path: Path) -> None:
    """One property of each controller: response, anti-windup, energies, learned torques, a motion kept."""
    figure = sheet("Controllers of joints: one measured property of each", 13.0, 7.0)
    axes = figure.subplots(2, 3)
    computed_torque(axes[0, 0])
    anti_windup(axes[0, 1])
    stored_energy(axes[0, 2])
    energy_growth(axes[1, 0])
    learned_torques(axes[1, 1])
    kept_motion(axes[1, 2])
    save(figure, path)


def computed_torque(ax: Any) -> None:
    """Distance from the closed forms against the length of a tick."""
    from benchmarks.joint_control import GOAL, OMEGA, SECONDS, ZETA, as_force, continuous, hold, largest, sampled

    robot, ticks = cd.load("ur3"), np.array([8e-3, 4e-3, 2e-3, 1e-3, 1e-4, 1e-5, 1e-6])
    rows = []
    for h in ticks:
        world = cd.Simulation(robot, dt=float(h), damping=False, threads=1)
        law = ComputedTorque(world, frequency=OMEGA, damping_ratio=ZETA)
        loop = cd.Loop(world, partial(hold, law, GOAL))
        steps = int(SECONDS / h)
        every = max(steps // 500, 1)
        steps -= steps % every
        q = loop.rollout(loop.state(READY), steps=steps, record=["q"], every=every)["q"]
        k = np.arange(every, steps + 1, every)
        stages = np.nan
        if h >= 1e-3:
            exact = cd.Simulation(robot, dt=float(h), integrator="rk4", force=partial(as_force, law), damping=False, threads=1)
            xs = exact.rollout(exact.state(READY), np.zeros((steps, 6)))
            stages = largest(xs[1:, :6], continuous(h * np.arange(1, steps + 1)))
        rows.append((largest(q, continuous(h * k)), stages, largest(q, sampled(k, float(h)))))
    names = (
        "every tick, from the continuous response",
        "within Runge-Kutta stages, from it",
        "every tick, from the sampled system",
    )
    for name, values, color in zip(names, np.array(rows).T, (BLUE, ORANGE, GREEN), strict=True):
        ax.loglog(ticks, values, "o-", color=color, lw=1.4, ms=4, label=name)
    ax.axhline(1e-6, color=FAINT, lw=0.9, ls="--")
    ax.set_ylim(1e-16, 1e6)
    ax.set_yticks([1e-15, 1e-12, 1e-9, 1e-6, 1e-3])
    ax.legend(frameon=False, fontsize=9, loc="upper left")
    labelled(ax, "Computed torque: off the closed form", "tick, s", "rad")


def anti_windup(ax: Any) -> None:
    """A step of a double pendulum at its torque limit."""
    from benchmarks.joint_control import hold

    world = cd.Simulation(cd.load("double_pendulum"), dt=2e-3, threads=1)
    goal = Sample(np.array([1.5, 0.0]), 0.0, 0.0)
    t = 2e-3 * np.arange(1, 2501)
    for rule, color in (("none", RED), ("clamping", BLUE), ("back_calculation", GREEN)):
        limits = {"torque_limit": 35.0, "integral_limit": 1e6}
        pid = JointPID(world, kp=400.0, ki=400.0, kd=120.0, anti_windup=rule, tracking_time=0.05, **limits)
        loop = cd.Loop(world, partial(hold, pid, goal))
        q = loop.rollout(loop.state(), steps=2500, record=["q"])["q"]
        ax.plot(t, q[:, 0], color=color, lw=1.5, label=rule.replace("_", " "))
    ax.axhline(1.5, color=FAINT, lw=0.9, ls="--")
    ax.legend(frameon=False, fontsize=10, loc="lower right")
    labelled(ax, "PID at its torque limit: anti-windup", "time, s", "shoulder, rad")


def stored_energy(ax: Any) -> None:
    """Energy stored by a compliant arm, and the work of pushes on it."""
    robot = cd.load("ur3")
    world = cd.Simulation(robot, dt=2.5e-4, threads=1)
    law, meter = JointImpedance(world, damping_ratio=0.3), EnergyMeter(6, name="meter")
    push = cd.blocks.WrenchPulse("tool", [18.0, -10.0, 14.0, 0.0, 0.6, 0.0], 0.1, 0.12, period=0.6, name="push")

    def control(x: Any) -> dict[str, Any]:
        wrench = push(x)
        force = robot.jacobian(x.q, "tool").T @ wrench["wrenches"]["tool"]
        return {"u": law(x, REST), **wrench, **meter(law.energy(x.q, x.v, REST), force, x.v)}

    loop = cd.Loop(world, control)
    out = loop.rollout(loop.state(READY), steps=6400, every=8, record=["stored", "supplied"])
    t = 2.5e-4 * 8 * np.arange(1, 801)
    ax.plot(t, out["supplied"], color=ORANGE, lw=1.6, label="work of the pushes")
    ax.fill_between(t, out["stored"], color=BLUE, alpha=0.25, lw=0.0)
    ax.plot(t, out["stored"], color=BLUE, lw=1.4, label="stored in arm and spring")
    ax.set_ylim(0.0, 1.3 * out["supplied"].max())
    ax.legend(frameon=False, fontsize=10, loc="upper left")
    labelled(ax, "Impedance: energy stays below work", "time, s", "J")


def energy_growth(ax: Any) -> None:
    """Growth of energy beyond the work of 1,000 pushes against the length of a tick."""
    from benchmarks.joint_control import pushed

    robot, ticks = cd.load("ur3"), (4e-3, 2e-3, 1e-3, 5e-4, 2.5e-4)
    kinds = {"passivity-based, 1/2 s$^T$M s": (PassivityControl, RED), "impedance": (JointImpedance, BLUE)}
    for name, (kind, color) in kinds.items():
        values = []
        for h in ticks:
            world = cd.Simulation(robot, dt=h, damping=False, threads=1)
            values.append(pushed(world, kind(world), 1000)["relative"])
        ax.loglog(ticks, values, "o-", color=color, lw=1.4, ms=4, label=name)
    ax.legend(frameon=False, fontsize=10, loc="upper left")
    ax.set_xticks(ticks, ["4", "2", "1", "0.5", "0.25"])
    ax.set_xticks([], minor=True)
    labelled(ax, "1,000 pushes: largest growth beyond work", "tick, ms", "of the work put in")


def learned_torques(ax: Any) -> None:
    """Error of predicted torques on another motion while the arm learns a load of 1 kg."""
    from benchmarks.joint_control import Sines, with_load

    robot = cd.load("ur3")
    true = with_load(robot, "wrist_3", 1.0, (0.0, 0.12, 0.0), 1e-3)
    world, motion, other = cd.Simulation(true, dt=1e-3, threads=1), Sines(READY, 1, 0.35), Sines(READY, 7, 0.35)
    law, start = AdaptiveControl(world, model=robot), motion.at(0.0)
    loop = cd.Loop(world, lambda x: law(x, motion.at(x.t)))
    gains = np.array([0.0, 1.0, 10.0]) * float(law.adaptation.default)
    x0 = np.tile(loop.state(start.position, start.velocity), (3, 1))
    record = ["adaptive_control.estimate"]
    out = loop.rollout(x0, steps=30_000, every=200, parameters={"adaptive_control.gain": gains}, record=record)
    q, v, a = other.rows(np.linspace(0.0, 10.0, 200))
    tau = true.inverse_dynamics(q, v, a) + 0.01 * v
    t = 0.2 * np.arange(1, 151)
    for k, (name, color) in enumerate((("no adaptation", FAINT), ("default gain", VIOLET), ("ten times that", GREEN))):
        errors = [np.linalg.norm(law.predicted(q, v, a, p) - tau) / np.linalg.norm(tau) for p in out[record[0]][k][::3]]
        ax.semilogy(t[::3], errors, color=color, lw=1.5, label=name)
    ax.set_ylim(2e-3, 5.0)
    ax.legend(frameon=False, fontsize=10, loc="upper right")
    labelled(ax, "Adaptive: error of predicted torques", "time with an unknown load, s", "relative")


def kept_motion(ax: Any) -> None:
    """An unstable motion of a double pendulum with one motor, without feedback and with time-varying LQR."""
    world = cd.Simulation(cd.load("double_pendulum"), dt=2e-3, actuated=["elbow"], threads=1)
    U = 12.0 * np.sin(2.5 * world.dt * np.arange(2000))[:, None]
    X = world.rollout(world.state(np.array([2.5, 0.3])), U)
    law = TimeVaryingLQR(world, (X, U), terminal_cost=1.0)
    loop = cd.Loop(world, lambda x: law(x))
    x0 = X[0] + 0.01 * np.random.default_rng(3).normal(size=(12, 4))
    kept = loop.rollout(loop.state(x0[:, :2], x0[:, 2:]), steps=2000, record=["q"])["q"] - X[1:, :2]
    lost = world.rollout(x0, U)[:, 1:, :2] - X[1:, :2]
    t = 2e-3 * np.arange(1, 2001)
    for values, color, name in ((lost, FAINT, "no feedback"), (kept, BLUE, "time-varying LQR")):
        for k, row in enumerate(np.abs(values).max(axis=2)[:, ::10]):
            ax.semilogy(t[::10], np.maximum(row, 1e-7), color=color, lw=0.9, label=name if k == 0 else None)
    ax.set_ylim(1e-6, 1e4)
    ax.legend(frameon=False, fontsize=10, loc="upper left")
    labelled(ax, "One motor in the elbow: off the motion", "time, s", "rad")
