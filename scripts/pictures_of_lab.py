"""Pictures of the arm lab: one experiment with three controllers, and a sweep beside three searches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from picture_style import BLUE, FAINT, GREEN, INK, ORANGE, RED, VIOLET, labelled, save, sheet

from condyle.apps.lab.experiment import Experiment
from condyle.apps.lab.run import run_experiment, run_signals
from condyle.apps.lab.sweep import sweep
from condyle.apps.lab.tune import METHODS, tune

START = [0.0, -1.2, 1.2, -1.5, -1.5, 0.3]
JOINT = 1  # the lift, which carries the arm


def experiment(**tables: object) -> Experiment:
    """A UR3 that moves there and back with a payload that its controller does not know, pushed on the way."""
    data = {
        "duration": 3.0,
        "seed": 1,
        "robot": {"name": "ur3", "q": START, "payload": {"mass": 0.5}},
        "reference": {"kind": "point_to_point", "waypoints": [[0.5, -0.8, 1.0, -1.4, -1.3, 0.5], START], "acceleration": 2.0},
        "friction": {"coulomb": [0.2, 0.2, 0.1, 0.02, 0.02, 0.01], "viscous": 0.01},
        "sensors": {"position_noise": 1e-4, "delay": 0.001, "dropout": 0.02},
        "wrenches": [{"name": "push", "wrench": [0.0, 0.0, -20.0, 0.0, 0.0, 0.0], "start": 2.3, "duration": 0.1}],
    }
    return Experiment.from_data(data | tables)


CONTROLLERS = {
    "PID": ({"name": "pid", "kp": 60.0, "kd": [3.0, 3.0, 2.0, 0.6, 0.6, 0.2]}, BLUE),
    "computed torque": ({"name": "computed_torque", "kp": 400.0, "kd": 40.0}, ORANGE),
    "adaptive": ({"name": "adaptive", "bandwidth": 15.0, "gain": 100.0}, GREEN),
}


def lab(path: Path) -> None:
    """One joint of three runs, the error of all joints, and metrics."""
    figure = sheet("One experiment, three controllers: an unknown payload of 0.5 kg, and a push at 2.3 s", 11.0, 4.6)
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.25, 1.25, 1.0])
    names, bars = list(CONTROLLERS), {}
    for k, (name, (table, color)) in enumerate(CONTROLLERS.items()):
        done = run_experiment(experiment(controller=table))
        s = run_signals(done.run)
        if not k:
            left.plot(s.t, s.reference[:, JOINT], color=INK, lw=1.2, ls=(0, (4, 2)), label="reference")
        left.plot(s.t, s.response[:, JOINT], color=color, lw=1.4, label=name)
        middle.plot(s.t, 1e3 * np.linalg.norm(s.reference - s.response, axis=1), color=color, lw=1.3, label=name)
        bars[name] = done.metrics
    for ax in (left, middle):
        ax.axvspan(2.3, 2.4, color=VIOLET, alpha=0.18, lw=0)
    labelled(left, "the lift joint", "time, s", "rad")
    labelled(middle, "norm of the error of all joints", "time, s", "mrad")
    left.legend(*[each[:1] for each in left.get_legend_handles_labels()], frameon=False, fontsize=9.5, loc="upper right")
    middle.legend(frameon=False, fontsize=9.5, loc="upper left")
    middle.set_ylim(bottom=0.0)
    shown = {
        "rms_error": "RMS error",
        "max_error": "largest error",
        "effort": "effort",
        "torque_rate": "torque rate",
        "energy": "energy",
    }
    places = np.arange(len(shown))
    for k, name in enumerate(names):
        values = [bars[name][metric] / max(bars[other][metric] for other in names) for metric in shown]
        right.barh(places + 0.26 * (1 - k), values, 0.24, color=CONTROLLERS[name][1], label=name)
    right.set_yticks(places, list(shown.values()))
    right.invert_yaxis()
    labelled(right, "metrics, over the largest", "", "")
    save(figure, path)


def pid() -> Experiment:
    """The PID of the published gains and a step of every joint."""
    return experiment(
        robot={"name": "ur3", "q": [0.0, -1.5708, 1.5708, -1.5708, 0.0, 0.0]},
        rates={"physics": 1000, "control": 500},
        controller={
            "name": "pid",
            "kp": [1.98, 2.97, 1.49, 0.726, 1.86, 1.17],
            "kd": [2.36, 3.54, 0.788, 0.15, 0.0375, 0.0125],
        },
        reference={"kind": "step", "target": [0.3, -1.3, 1.3, -1.4, 0.2, 0.2]},
        friction={"viscous": 0.01},
        sensors=None,
        wrenches=[],
        warm_up=0.6,
    )


def sweeps(path: Path) -> None:
    """The score over two gains, and the best score of three searches after each run."""
    figure = sheet("The score of a UR3's PID: a sweep of 900 runs, and three searches of 30 runs", 11.0, 4.6)
    left, right = figure.subplots(1, 2, width_ratios=[1.1, 1.0])
    of = pid().with_values({"controller.kp": 10.0, "controller.kd": 1.0})
    values = np.geomspace(1.0, 100.0, 30), np.geomspace(0.05, 20.0, 30)
    found = sweep(of, grid={"controller.kp": values[0], "controller.kd": values[1]}, workers=1)
    z = np.full((30, 30), np.nan)
    for k in range(len(found.ids)):
        i = np.searchsorted(values[0], found.values["controller.kp"][k] * (1 - 1e-9))
        j = np.searchsorted(values[1], found.values["controller.kd"][k] * (1 - 1e-9))
        z[j, i] = found["score"][k] if found.ok[k] else np.nan
    mesh = left.pcolormesh(*values, np.log10(z), cmap="viridis_r", shading="nearest", rasterized=True)
    best = found.best("score")
    left.plot(found.values["controller.kp"][best], found.values["controller.kd"][best], "o", color=RED, ms=7, mfc="none", mew=2)
    left.set_xscale("log")
    left.set_yscale("log")
    labelled(left, "one kp and one kd for all joints; the circle is the best", "kp, N m/rad", "kd, N m s/rad")
    figure.colorbar(mesh, ax=left, label="log10 of the score")
    for (each, style), parameters in {
        ("one factor of each gain", "-"): ["controller.kp", "controller.kd"],
        ("one factor for each joint", (0, (4, 2))): ["controller.kp[*]", "controller.kd[*]"],
    }.items():
        for method, color in zip(METHODS, (FAINT, BLUE, ORANGE), strict=True):
            if method == "grid" and "joint" in each:
                continue
            history = tune(pid(), parameters, method=method, trials=30, seconds=3.0, warm_up=0.6).history()
            right.step(np.arange(len(history)), history, where="post", color=color, ls=style, lw=1.6, label=f"{method}, {each}")
    right.set_yscale("log")
    right.set_ylim(0.15, 80.0)
    labelled(right, "the best score so far", "runs", "score")
    right.legend(frameon=False, fontsize=9.5)
    save(figure, path)
