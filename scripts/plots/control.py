"""Pictures of controllers of arms, of experiments with them, and of the notebooks about them."""

from __future__ import annotations

import base64
import os
import tempfile
from functools import partial
from io import BytesIO
from typing import Any

import numpy as np
from plots.style import BLUE, FAINT, GREEN, INK, ORANGE, RED, ROOT, VIOLET, columns, labelled, levels, picture, program
from rich.console import Console

import condyle as cd

# -- joints


@picture("Controllers of joints: one measured property of each", 13.0, 7.0, nrows=2, ncols=3)
def control_joint(*axes: Any) -> None:
    """One property of each controller: response, anti-windup, energies, learned torques, a motion kept."""
    for draw, ax in zip((sampling, anti_windup, stored_energy, energy_growth, learned_torques, tracking), axes, strict=True):
        draw(ax)


def sampling(ax: Any) -> None:
    """Distance from the closed forms against the length of a tick."""
    from benchmarks.joint_control import responses

    ticks = (8e-3, 4e-3, 2e-3, 1e-3, 1e-4, 1e-5, 1e-6)
    rows = responses(Console(quiet=True), cd.load("ur3"), ticks)
    rows = [[row.get(name, np.nan) for name in ("continuous", "runge_kutta", "sampled")] for row in rows]
    names = (
        "every tick, from the continuous response",
        "within Runge-Kutta stages, from it",
        "every tick, from the sampled system",
    )
    columns(ax, ticks, np.array(rows), names, (BLUE, ORANGE, GREEN), marker="o", lw=1.4, ms=4)
    levels(ax, 1e-6, lw=0.9, ls="--")
    scales = {"xscale": "log", "yscale": "log", "ylim": (1e-16, 1e6), "yticks": [1e-15, 1e-12, 1e-9, 1e-6, 1e-3]}
    labelled(ax, "Computed torque: off the closed form", "tick, s", "rad", {"loc": "upper left", "fontsize": 9}, **scales)


def anti_windup(ax: Any) -> None:
    """A step of a double pendulum at its torque limit."""
    from benchmarks.joint_control import hold
    from condyle.methods.control.joint_control import JointPID
    from condyle.methods.planning.profiles import Sample

    world, t = cd.Simulation(cd.load("double_pendulum"), dt=2e-3, threads=1), 2e-3 * np.arange(1, 2501)
    limits = {"torque_limit": 35.0, "integral_limit": 1e6, "tracking_time": 0.05}
    for rule, color in (("none", RED), ("clamping", BLUE), ("back_calculation", GREEN)):
        pid = JointPID(world, kp=400.0, ki=400.0, kd=120.0, anti_windup=rule, **limits)
        loop = cd.Loop(world, partial(hold, pid, Sample(np.array([1.5, 0.0]), 0.0, 0.0)))
        q = loop.rollout(loop.state(), steps=2500, record=["q"])["q"]
        ax.plot(t, q[:, 0], color=color, label=rule.replace("_", " "))
    levels(ax, 1.5, lw=0.9, ls="--")
    labelled(ax, "PID at its torque limit: anti-windup", "time, s", "shoulder, rad", "lower right")


def stored_energy(ax: Any) -> None:
    """Energy stored by a compliant arm, and the work of pushes on it."""
    from benchmarks.joint_control import READY
    from condyle.methods.control.joint_control import JointImpedance
    from condyle.methods.control.passivity import EnergyMeter
    from condyle.methods.planning.profiles import Sample

    robot, rest = cd.load("ur3"), Sample(READY, 0.0, 0.0)
    world = cd.Simulation(robot, dt=2.5e-4, threads=1)
    law, meter = JointImpedance(world, damping_ratio=0.3), EnergyMeter(6, name="meter")
    push = cd.blocks.WrenchPulse("tool", [18.0, -10.0, 14.0, 0.0, 0.6, 0.0], 0.1, 0.12, period=0.6, name="push")

    def control(x: Any) -> dict[str, Any]:
        wrench = push(x)
        force = robot.jacobian(x.q, "tool").T @ wrench["wrenches"]["tool"]
        return {"u": law(x, rest), **wrench, **meter(law.energy(x.q, x.v, rest), force, x.v)}

    loop = cd.Loop(world, control)
    out = loop.rollout(loop.state(READY), steps=6400, every=8, record=["stored", "supplied"])
    t = 2.5e-4 * 8 * np.arange(1, 801)
    ax.plot(t, out["supplied"], color=ORANGE, lw=1.6, label="work of the pushes")
    ax.fill_between(t, out["stored"], color=BLUE, alpha=0.25, lw=0.0)
    ax.plot(t, out["stored"], color=BLUE, lw=1.4, label="stored in arm and spring")
    limits = {"ylim": (0.0, 1.3 * out["supplied"].max())}
    labelled(ax, "Impedance: energy stays below work", "time, s", "J", "upper left", **limits)


def energy_growth(ax: Any) -> None:
    """Growth of energy beyond the work of 1,000 pushes against the length of a tick."""
    from benchmarks.joint_control import pushed
    from condyle.methods.control.adaptive import PassivityControl
    from condyle.methods.control.joint_control import JointImpedance

    robot, ticks = cd.load("ur3"), (4e-3, 2e-3, 1e-3, 5e-4, 2.5e-4)
    for name, kind, color in (("passivity-based, 1/2 s$^T$M s", PassivityControl, RED), ("impedance", JointImpedance, BLUE)):
        worlds = [cd.Simulation(robot, dt=h, damping=False, threads=1) for h in ticks]
        growth = [pushed(world, kind(world), 1000)["relative"] for world in worlds]
        ax.loglog(ticks, growth, "o-", color=color, lw=1.4, ms=4, label=name)
    labelled(ax, "1,000 pushes: largest growth beyond work", "tick, ms", "of the work put in", "upper left")
    ax.set_xticks(ticks, ["4", "2", "1", "0.5", "0.25"])
    ax.set_xticks([], minor=True)


def learned_torques(ax: Any) -> None:
    """Error of predicted torques on another motion while the arm learns a load of 1 kg."""
    from benchmarks.joint_control import READY, Sines, with_load
    from condyle.methods.control.adaptive import AdaptiveControl

    robot = cd.load("ur3")
    true = with_load(robot, "wrist_3", 1.0, (0.0, 0.12, 0.0), 1e-3)
    world, motion, other = cd.Simulation(true, dt=1e-3, threads=1), Sines(READY, 1, 0.35), Sines(READY, 7, 0.35)
    law, start = AdaptiveControl(world, model=robot), motion.at(0.0)
    loop = cd.Loop(world, lambda x: law(x, motion.at(x.t)))
    gains = {"adaptive_control.gain": np.array([0.0, 1.0, 10.0]) * float(law.adaptation.default)}
    x0, record = np.tile(loop.state(start.position, start.velocity), (3, 1)), ["adaptive_control.estimate"]
    out = loop.rollout(x0, steps=30_000, every=200, parameters=gains, record=record)
    q, v, a = other.rows(np.linspace(0.0, 10.0, 200))
    tau, t = true.inverse_dynamics(q, v, a) + 0.01 * v, 0.2 * np.arange(1, 151)
    for k, (name, color) in enumerate((("no adaptation", FAINT), ("default gain", VIOLET), ("ten times that", GREEN))):
        errors = [np.linalg.norm(law.predicted(q, v, a, p) - tau) / np.linalg.norm(tau) for p in out[record[0]][k][::3]]
        ax.semilogy(t[::3], errors, color=color, label=name)
    title = "Adaptive: error of predicted torques"
    labelled(ax, title, "time with an unknown load, s", "relative", "upper right", ylim=(2e-3, 5.0))


def tracking(ax: Any) -> None:
    """An unstable motion of a double pendulum with one motor, without feedback and with time-varying LQR."""
    from condyle.methods.control.lqr_control import TimeVaryingLQR

    world = cd.Simulation(cd.load("double_pendulum"), dt=2e-3, actuated=["elbow"], threads=1)
    U, t = 12.0 * np.sin(2.5 * world.dt * np.arange(2000))[:, None], 2e-3 * np.arange(1, 2001)
    X = world.rollout(world.state(np.array([2.5, 0.3])), U)
    law = TimeVaryingLQR(world, (X, U), terminal_cost=1.0)
    loop = cd.Loop(world, lambda x: law(x))
    x0 = X[0] + 0.01 * np.random.default_rng(3).normal(size=(12, 4))
    q = loop.rollout(loop.state(x0[:, :2], x0[:, 2:]), steps=2000, record=["q"])["q"]
    for values, color, name in ((world.rollout(x0, U)[:, 1:, :2], FAINT, "no feedback"), (q, BLUE, "time-varying LQR")):
        off = np.abs(values - X[1:, :2]).max(axis=2)[:, ::10]
        for k, row in enumerate(off):
            ax.semilogy(t[::10], np.maximum(row, 1e-7), color=color, lw=0.9, label=None if k else name)
    labelled(ax, "One motor in the elbow: off the motion", "time, s", "rad", "upper left", ylim=(1e-6, 1e4))


# -- tools

TOOL_READY = np.array([0.3, -1.2, 1.6, -2.0, -1.57, 0.2])


@picture("A UR3 that is pushed, and one that presses on a table while it draws a circle", 12.0, 6.4, nrows=2, ncols=2)
def control_task(pushed: Any, energy: Any, force: Any, drawn: Any) -> None:
    """A tool that is pushed under impedance and admittance, the energy of many pushes, and a force held on a plane."""
    push_displacement(pushed)
    energy_of_pushes(energy)
    circle_under_force(force, drawn)


def push_displacement(ax: Any) -> None:
    from condyle.methods.control.arm_controller import ToolSample
    from condyle.methods.control.force_control import Admittance
    from condyle.methods.control.task_control import CartesianImpedance

    robot, newtons = cd.load("ur3"), 20.0  # along x, for a second
    world = cd.Simulation(robot, dt=0.001, ground=None)
    R, p = robot.frame_pose(TOOL_READY, "tool")
    held, soft = CartesianImpedance(world, "tool", stiffness=[800.0] * 3 + [20.0] * 3), Admittance(world, "tool")

    def impedance(x: Any, push: Any) -> dict[str, Any]:
        return {**held(x, ToolSample(R, p)), "wrenches": {"tool": push}}

    def admittance(x: Any, push: Any) -> dict[str, Any]:
        return {**soft(x, ToolSample(R, p), wrench=push), "wrenches": {"tool": push}}

    pushes, t = np.zeros((2000, 6)), 0.001 * np.arange(1, 2001)
    pushes[200:1200, 0] = newtons
    mass, K = np.array([8.0] * 3 + [0.2] * 3), np.array([400.0] * 3 + [20.0] * 3)
    of_admittance = {"admittance.stiffness": K, "admittance.mass": mass, "admittance.damping": 2.0 * np.sqrt(K * mass)}
    curves = (
        ("impedance, 800 N/m, damping ratio 1", impedance, {}, BLUE),
        ("damping ratio 0.2", impedance, {"cartesian_impedance.damping_ratio": 0.2}, ORANGE),
        ("admittance, 400 N/m, 8 kg", admittance, of_admittance, GREEN),
    )
    for name, function, parameters, color in curves:
        loop = cd.Loop(world, function, push=6)
        q = loop.rollout(loop.state(TOOL_READY), pushes, record=["q"], parameters=parameters)["q"]
        ax.plot(t, 1e3 * (robot.frame_pose(q, "tool")[1] - p)[:, 0], color=color, label=name)
    for stiffness in (800.0, 400.0):
        levels(ax, 1e3 * newtons / stiffness, ls="--", zorder=0)
        ax.text(1.98, 1e3 * newtons / stiffness + 0.8, "F / K", ha="right", color=FAINT)
    title = "Displacement of the tool, pushed by 20 N for 1 s"
    labelled(ax, title, "time, s", "mm", {"fontsize": 9.5, "loc": "upper left"}, ylim=(-16.0, 92.0))


def energy_of_pushes(ax: Any) -> None:
    from condyle.methods.control.arm_controller import ToolSample
    from condyle.methods.control.passivity import EnergyBalance
    from condyle.methods.control.task_control import CartesianImpedance

    robot, rng, count = cd.load("ur3"), np.random.default_rng(0), 60
    world = cd.Simulation(robot, dt=0.001, ground=None)
    control, balance = CartesianImpedance(world, "tool", passive=True), EnergyBalance("tool")

    def closed(x: Any, R: Any, p: Any, push: Any) -> dict[str, Any]:
        out = control(x, ToolSample(R.reshape(3, 3), p))
        stored = robot.kinetic_energy(x.q, x.v) + out["stored"]
        balance(x, stored, push)
        return {"u": out["u"], "energy": stored, "wrenches": {"tool": push}}

    loop = cd.Loop(world, closed, R=9, p=3, push=6)
    q = TOOL_READY + rng.uniform(-0.8, 0.8, (count, 6))
    R, p = robot.frame_pose(q, "tool")
    pushes = rng.normal(size=(count, 4, 6)) * np.array([10.0] * 3 + [1.0] * 3)
    pushes[:, [0, 3]] = 0.0
    rows = {"R": R.reshape(count, 1, 9), "p": p[:, None], "push": pushes}
    out = loop.rollout(loop.state(q), rows, 1200, record=["energy", "balance.work"], every=5)
    ax.plot(0.005 * np.arange(1, 241), (out["energy"] - out["balance.work"]).T, color=BLUE, lw=0.6, alpha=0.5)
    levels(ax, 0.0, color=RED, lw=1.0)
    ax.axvspan(0.3, 0.9, color=FAINT, alpha=0.12, lw=0.0)
    ax.text(0.6, 0.13, "two random pushes", ha="center", color=FAINT)
    labelled(ax, "Energy less work of the pushes, 60 arms under impedance", "time, s", "J", ylim=(-2.6, 0.4))


def circle_under_force(force: Any, drawn: Any) -> None:
    from condyle.blocks.force_sensors import ForceTorque
    from condyle.methods.control.arm_controller import ToolSample
    from condyle.methods.control.external_wrench import ExternalWrench
    from condyle.methods.control.force_control import HybridForcePosition

    robot = cd.load("ur3")
    R, p = robot.frame_pose(TOOL_READY, "tool")
    world = cd.Simulation(robot, dt=0.001, ground=cd.Plane(friction=0.3, offset=p[2] - 0.04), contacts={"tool": 0.02})
    control, sensor, external = (
        HybridForcePosition(world, "tool", friction=True),
        ForceTorque("tool"),
        ExternalWrench(world, "tool"),
    )
    r, rate, press = 0.05, 1.5, np.array([0.0, 0.0, -20.0, 0.0, 0.0, 0.0])

    def closed(x: Any) -> dict[str, Any]:
        s, c, zero = np.sin(rate * x.t), np.cos(rate * x.t), 0.0 * x.t
        v, a = r * rate * cd.array([c, s, *[zero] * 4]), r * rate**2 * cd.array([-s, c, *[zero] * 4])
        goal = ToolSample(R, p + r * cd.array([s, 1.0 - c, zero]), v, a, press)
        measured = external(x, sensor(x))
        return {**control(x, goal, wrench=measured), "measured": measured, "goal": goal.p}

    loop, t = cd.Loop(world, closed), 0.005 * np.arange(1, 901)
    curves = {0.0: (ORANGE, "measured friction not cancelled"), 0.9: (BLUE, "nine tenths"), 1.0: (GREEN, "all of it")}
    for part, (color, name) in curves.items():
        parameters = {"hybrid_force_position.compensation": part}
        out = loop.rollout(loop.state(TOOL_READY), steps=4500, record=["q", "measured", "goal"], every=5, parameters=parameters)
        tool = 1e3 * (robot.frame_pose(out["q"], "tool")[1] - p)
        if part == 0.9:
            force.plot(t, out["measured"][:, 2], color=BLUE, lw=1.4, label="normal force, 20 N wanted")
            force.plot(t, np.linalg.norm(out["measured"][:, :2], axis=1), color=VIOLET, lw=1.2, label="friction, at most 6 N")
        drawn.plot(tool[60:, 0], tool[60:, 1], color=color, lw=1.4, label=name)
    drawn.plot(*(1e3 * (out["goal"] - p)[:, :2]).T, color=FAINT, lw=0.9, ls="--", label="wanted", zorder=0)
    levels(force, 20.0, ls="--", zorder=0)
    force.text(0.2, 33.0, "impact, one tick", color=FAINT)
    title = "Hybrid control: forces of the table on the tool"
    labelled(force, title, "time, s", "N", {"fontsize": 9.5, "loc": "upper right"}, ylim=(0.0, 38.0))
    drawn.set_aspect("equal")
    legend = {"fontsize": 9.5, "loc": "center right"}
    labelled(drawn, "The circle that it draws, 75 mm/s", "x, mm", "y, mm", legend, xlim=(-70.0, 230.0))


# -- experiments of the lab


@picture("One experiment, three controllers: an unknown payload of 0.5 kg, and a push at 2.3 s", 11.0, 4.6,
         ncols=3, width_ratios=[1.25, 1.25, 1.0])  # fmt: skip
def lab(left: Any, middle: Any, right: Any) -> None:
    """The lift joint of three runs of an arm that moves there and back, the error of all joints, and metrics."""
    from condyle.apps.lab.experiment import Experiment
    from condyle.apps.lab.run import run_experiment, run_signals

    lift, metrics, start = 1, {}, [0.0, -1.2, 1.2, -1.5, -1.5, 0.3]
    experiment = {
        "duration": 3.0,
        "seed": 1,
        "robot": {"name": "ur3", "q": start, "payload": {"mass": 0.5}},
        "reference": {"kind": "point_to_point", "waypoints": [[0.5, -0.8, 1.0, -1.4, -1.3, 0.5], start], "acceleration": 2.0},
        "friction": {"coulomb": [0.2, 0.2, 0.1, 0.02, 0.02, 0.01], "viscous": 0.01},
        "sensors": {"position_noise": 1e-4, "delay": 0.001, "dropout": 0.02},
        "wrenches": [{"name": "push", "wrench": [0.0, 0.0, -20.0, 0.0, 0.0, 0.0], "start": 2.3, "duration": 0.1}],
    }
    controllers = {
        "PID": ({"name": "pid", "kp": 60.0, "kd": [3.0, 3.0, 2.0, 0.6, 0.6, 0.2]}, BLUE),
        "computed torque": ({"name": "computed_torque", "kp": 400.0, "kd": 40.0}, ORANGE),
        "adaptive": ({"name": "adaptive", "bandwidth": 15.0, "gain": 100.0}, GREEN),
    }
    for name, (table, color) in controllers.items():
        done = run_experiment(Experiment.from_data(experiment | {"controller": table}))
        s = run_signals(done.run)
        if name == "PID":
            left.plot(s.t, s.reference[:, lift], color=INK, lw=1.2, ls=(0, (4, 2)), label="reference")
        left.plot(s.t, s.response[:, lift], color=color, lw=1.4, label=name)
        middle.plot(s.t, 1e3 * np.linalg.norm(s.reference - s.response, axis=1), color=color, lw=1.3, label=name)
        metrics[name] = done.metrics
    for ax in (left, middle):
        ax.axvspan(2.3, 2.4, color=VIOLET, alpha=0.18, lw=0)
    labelled(left, "the lift joint", "time, s", "rad")
    left.legend(*[each[:1] for each in left.get_legend_handles_labels()], fontsize=9.5, loc="upper right")
    legend = {"fontsize": 9.5, "loc": "upper left"}
    labelled(middle, "norm of the error of all joints", "time, s", "mrad", legend, ylim=(0.0, None))
    shown = {
        "rms_error": "RMS error",
        "max_error": "largest error",
        "effort": "effort",
        "torque_rate": "torque rate",
        "energy": "energy",
    }
    for k, (name, (_, color)) in enumerate(controllers.items()):
        values = [metrics[name][metric] / max(each[metric] for each in metrics.values()) for metric in shown]
        right.barh(np.arange(len(shown)) + 0.26 * (1 - k), values, 0.24, color=color, label=name)
    right.set_yticks(range(len(shown)), list(shown.values()))
    right.invert_yaxis()
    labelled(right, "metrics, over the largest")


@picture(
    "The score of a UR3's PID: a sweep of 900 runs, and three searches of 30 runs", 11.0, 4.6, ncols=2, width_ratios=[1.1, 1.0]
)
def sweeps(left: Any, right: Any) -> None:
    """The score over two gains, and the best score of three searches after each run."""
    from condyle.apps.lab.experiment import Experiment
    from condyle.apps.lab.sweep import sweep
    from condyle.apps.lab.tune import METHODS, tune

    pid = Experiment.from_data(
        program("sweeps")["pid"].data() | {"duration": 3.0, "warm_up": 0.6, "friction": {"viscous": 0.01}, "seed": 1}
    )
    kp, kd = "controller.kp", "controller.kd"
    grid = {kp: np.geomspace(1.0, 100.0, 30), kd: np.geomspace(0.05, 20.0, 30)}
    table = sweep(pid.with_values({kp: 10.0, kd: 1.0}), grid=grid, workers=1)
    z = np.full((30, 30), np.nan)
    for k in np.flatnonzero(table.ok):
        i, j = (np.searchsorted(grid[name], table.values[name][k] * (1 - 1e-9)) for name in (kp, kd))
        z[j, i] = table["score"][k]
    mesh = left.pcolormesh(*grid.values(), np.log10(z), cmap="viridis_r", shading="nearest", rasterized=True)
    left.figure.colorbar(mesh, ax=left, label="log10 of the score")
    best = table.best("score")
    left.plot(table.values[kp][best], table.values[kd][best], "o", color=RED, ms=7, mfc="none", mew=2)
    title = "one kp and one kd for all joints; the circle is the best"
    labelled(left, title, "kp, N m/rad", "kd, N m s/rad", xscale="log", yscale="log")
    for words, style, names in (
        ("one factor of each gain", "-", [kp, kd]),
        ("one factor for each joint", (0, (4, 2)), [f"{kp}[*]", f"{kd}[*]"]),
    ):
        for method, color in zip(METHODS, (FAINT, BLUE, ORANGE), strict=True):
            if not (method == "grid" and "joint" in words):
                history = tune(pid, names, method=method, trials=30, seconds=3.0, warm_up=0.6).history()
                label = f"{method}, {words}"
                right.step(np.arange(len(history)), history, where="post", color=color, ls=style, lw=1.6, label=label)
    labelled(right, "the best score so far", "runs", "score", {"fontsize": 9.5}, yscale="log", ylim=(0.15, 80.0))


# -- notebooks


@picture(colors=64)
def lab_sheets() -> Any:
    """Ellipsoids of inertia, velocity and force, the balance of energy, and regions of stable gains, by the notebooks."""
    from PIL import Image

    sheets = (("1_mass_matrix", 1), ("3_jacobians_and_forces", 0), ("4_passivity_and_energy", 0), ("5_sampling_and_delay", 0))
    a, b, *rest = (notebook_figure(*each) for each in sheets)
    width, y = 1200, 0
    height = round(width / (a.width / a.height + b.width / b.height))
    top = [image.resize((round(image.width * height / image.height), height), Image.Resampling.LANCZOS) for image in (a, b)]
    rows = [image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS) for image in rest]
    page = Image.new("RGB", (width, height + sum(row.height for row in rows)), "white")
    page.paste(top[1], (top[0].width, 0))
    for row in (top[0], *rows):
        page.paste(row, (0, y))
        y += row.height
    return page


def notebook_figure(name: str, number: int) -> Any:
    """A figure of a notebook, by its number."""
    import nbformat
    from nbclient import NotebookClient
    from PIL import Image

    book = nbformat.read(ROOT / "examples" / "lab_sheets" / f"{name}.ipynb", as_version=4)
    os.environ["PYTHONPATH"] = str(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    images = [output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    return Image.open(BytesIO(base64.b64decode(images[number]))).convert("RGB")
