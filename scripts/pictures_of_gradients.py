"""Pictures of gradients through contact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from picture_style import BLUE, FAINT, GREEN, INK, ORANGE, labelled, save, sheet

import condyle as cd
from condyle.robot.description import Description
from condyle.robot.parts import link, solid, sphere

TICKS, ROUNDS, MARK = 150, 24, 1.2


def torch_and_jax(path: Path) -> None:
    """A ball thrown by gradient descent through contact, with PyTorch, so that it is at a mark after 0.6 s."""
    shape = sphere(0.1, name="ball")
    ball = cd.load(Description("ball", (link("ball", solid(1.0, shape), [], [shape]),), ()), base="free")
    loop = cd.Loop(cd.Simulation(ball, dt=0.004, ground=cd.Plane()), lambda x: {"wrenches": {}})
    rollout = cd.torch.rollout(loop, steps=TICKS, record=["q"])
    start = torch.from_numpy(loop.state(np.array([0.0, 0.0, 0.6, 0.0, 0.0, 0.0, 1.0])))
    throw = torch.tensor([0.5, 0.0, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([throw], lr=0.4)
    paths, missing = [], []
    for _ in range(ROUNDS):
        optimizer.zero_grad()
        x = torch.cat([start[:7], throw, start[13:]])
        _, q = rollout(x)
        distance = q[-1, 0] - MARK
        (distance * distance).backward()
        optimizer.step()
        paths.append(q.detach().numpy())
        missing.append(abs(float(distance.detach())))
    figure = sheet("A throw found by gradient descent through contact", height=4.4)
    left, right = figure.subplots(1, 2, width_ratios=(2.2, 1.0))
    for k in range(0, ROUNDS, 2):
        left.plot(paths[k][:, 0], paths[k][:, 2], color=ORANGE if k == 0 else FAINT, lw=1.6 if k == 0 else 0.8)
    left.plot(paths[-1][:, 0], paths[-1][:, 2], color=BLUE, lw=2.2)
    left.axhline(0.0, color=INK, lw=1.0)
    left.plot([MARK], [0.1], "o", color=GREEN, ms=9)
    left.annotate("first", paths[0][-1, [0, 2]], color=ORANGE, xytext=(0, 8), textcoords="offset points", ha="center")
    left.annotate("mark", (MARK, 0.1), color=GREEN, xytext=(0, 10), textcoords="offset points", ha="center")
    labelled(left, "paths of the centre, 150 ticks of 4 ms", "x (m)", "z (m)")
    right.semilogy(missing, color=BLUE, lw=1.8)
    labelled(right, "distance from the mark", "round", "m")
    save(figure, path)
