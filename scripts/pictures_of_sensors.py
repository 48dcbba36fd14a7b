"""The picture of sensors: errors of an encoder, noise of a gyroscope, range over terrain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from picture_style import BLUE, FAINT, GREEN, INK, ORANGE, labelled, save, sheet

import condyle as cd

DT, TICKS, ROBOTS = 0.01, 4096, 64


def sensors(path: Path) -> None:
    """What an encoder gives, the Allan deviation of a gyroscope, and a flight over terrain with the range below it."""
    figure = sheet("Errors of sensors, in the kernel: delay, steps, dropouts, noise, bias walk; range over terrain", 12.0, 4.2)
    left, middle, right = figure.subplots(1, 3)
    _encoder(left)
    _gyroscope(middle)
    _terrain(right)
    save(figure, path)


def _encoder(axes: Any) -> None:
    t = np.arange(120) * DT
    angle = np.sin(2.0 * np.pi * t)
    encoder = cd.blocks.Measurement(1, "rad", delay=0.04, noise=0.01, resolution=0.1, dropout=0.15, name="encoder")
    loop = cd.Loop(None, lambda x, angle: {"valid": encoder(angle)["valid"]}, dt=DT, angle=1)
    out = loop.rollout(loop.state(), angle[:, None], record=["encoder.value", "valid"], seed=2)
    lost = out["valid"] < 0.5
    axes.plot(t, angle, color=FAINT, lw=1.2, label="true")
    axes.step(t, out["encoder.value"][:, 0], where="post", color=BLUE, lw=1.4, label="measured")
    axes.plot(t[lost], out["encoder.value"][lost, 0], "x", color=ORANGE, ms=5, label="sample lost")
    axes.legend(frameon=False, fontsize=10)
    labelled(axes, "40 ms late, steps of 0.1 rad", "time, s", "rad")


def _gyroscope(axes: Any) -> None:
    gyroscope = cd.blocks.Measurement((), "rad/s", noise=0.02, walk=0.01, name="gyroscope")
    loop = cd.Loop(None, lambda x: {"rate": gyroscope(0.0)["value"]}, dt=DT)
    rate = loop.rollout(np.tile(loop.state(), (ROBOTS, 1)), None, TICKS, record=["rate"])["rate"]
    sizes = 2 ** np.arange(10)
    means = [rate.reshape(ROBOTS, -1, n).mean(axis=2) for n in sizes]
    deviation = [np.sqrt(0.5 * np.mean(np.diff(each, axis=1) ** 2)) for each in means]
    tau = sizes * DT
    axes.loglog(tau, 0.02 * np.sqrt(DT / tau), color=FAINT, lw=1.0, ls="--", label="noise: slope -1/2")
    axes.loglog(tau, 0.01 * np.sqrt(tau / 3.0), color=FAINT, lw=1.0, ls=":", label="bias walk: slope 1/2")
    axes.loglog(tau, deviation, "o-", color=GREEN, lw=1.4, ms=4, label="64 gyroscopes")
    axes.legend(frameon=False, fontsize=10)
    labelled(axes, "Allan deviation", "averaging time, s", "rad/s")


def _terrain(axes: Any) -> None:
    ground = cd.Terrain(lambda x, y: 0.2 * np.sin(3.0 * x) + 0.1 * np.sin(7.0 * x))
    world = cd.Simulation(cd.load("birotor", gravity=(0.0, 0.0, 0.0)), 0.02, ground, {"base": 0.01})
    down = cd.blocks.RangeFinder("base", limit=3.0, direction=(0.5, 0.0, -1.0), noise=0.02, every=5)
    loop = cd.Loop(world, lambda x: {"range": down(x)["range"]})
    q = np.concatenate([[0.0, 0.0, 1.0], world.robot.neutral()[3:]])
    x = loop.state(q, np.concatenate([[1.0], np.zeros(world.robot.nv - 1)]))
    out = loop.rollout(x, None, 150, record=["range", "q"])
    p, s = np.vstack([q[:3], out["q"][:-1, :3]])[::5], out["range"][::5]
    hits = p + s[:, None] * np.array([0.5, 0.0, -1.0]) / np.sqrt(1.25)
    along = np.linspace(0.0, 4.0, 400)
    axes.fill_between(along, -0.5, [ground.surface(a, 0.0)[0] for a in along], color=FAINT, alpha=0.35, lw=0)
    axes.plot(p[:, 0], p[:, 2], color=INK, lw=1.2)
    for start, end in zip(p, hits, strict=True):
        axes.plot([start[0], end[0]], [start[2], end[2]], color=BLUE, lw=0.6, alpha=0.6)
    axes.plot(hits[:, 0], hits[:, 2], "o", color=ORANGE, ms=3.5)
    labelled(axes, "Range with 2 cm of noise, 10 Hz", "x, m", "z, m")
