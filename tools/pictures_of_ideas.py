"""Drawings of ideas: the folders of the package, and letters that cancel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from picture_style import BLUE, FAINT, GREEN, INK, ORANGE, RED, VIOLET, WASH, save, sheet

MONO = "DejaVu Sans Mono"


def canvas(figure: Any, width: float, height: float) -> Any:
    """Axes without axes, `width` by `height` units, one unit as long both ways."""
    ax = figure.subplots()
    ax.set(xlim=(0.0, width), ylim=(0.0, height), aspect="equal")
    ax.axis("off")
    return ax


def box(ax: Any, x: float, y: float, w: float, h: float, color: str, fill: str = WASH) -> None:
    ax.add_patch(FancyBboxPatch((x, y), w, h, boxstyle="round,pad=0,rounding_size=0.9", fc=fill, ec=color, lw=1.4))


def arrow(ax: Any, start: Any, end: Any, color: str = INK, bend: float = 0.0, width: float = 1.6) -> None:
    style = f"arc3,rad={bend}"
    ax.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=13, color=color, lw=width, connectionstyle=style))


# -- the folders of the package


def architecture(path: Path) -> None:
    """The folders in the order of the data flow, on the compiler that all physics is traced into."""
    folders = (
        ("robot/", BLUE, ["URDF, xacro, MJCF", "Description", "Model: links, joints,", "inertias, frames"]),
        ("dynamics/", GREEN, ["rnea, crba, aba,", "kinematics, energy,", "derivatives:", "f(model, q, v, ...)"]),
        ("constraints/", GREEN, ["coordinate maps:", "couplings, loops,", "rolling wheels", ""]),
        ("multibody/", GREEN, ["Robot: a model and", "its coordinate map;", "one table of", "functions"]),
        ("simulate/", GREEN, ["Simulation: contact,", "solver, integrators,", "step, rollout,", "derivatives"]),
    )
    users = (
        ("runs/", "record, replay,\nplot, export"),
        ("control/", "LQR, PD,\nsensors"),
        ("view/", "browser, video,\nnotebook"),
        ("compat/", "DiffNE\ninterface"),
        ("demos/", "five robots\nwith checks"),
        ("doctor/", "problems of\nrobot files"),
        ("commands/", "the program\ncondyle"),
    )
    compiler = (
        ("trace", "NumPy code runs\nonce on traced values"),
        ("Tape", "exact operations,\nloops, derivatives"),
        ("passes", "fold, expand,\ncontract to fma"),
        ("LLVM IR", "SIMD lanes,\none block per loop"),
        ("Kernel", "machine code,\ncached on disk"),
    )
    figure = sheet("The folders of condyle/: data flows down and to the right, imports point back", width=12.0, height=6.6)
    ax = canvas(figure, 122.0, 60.0)
    width, gap = 20.4, 4.8

    def titled(x: float, y: float, w: float, h: float, color: str, title: str, lines: list[str], fill: str = WASH) -> None:
        box(ax, x, y, w, h, color, fill)
        ax.text(x + w / 2, y + h - 2.6, title, ha="center", va="center", weight="bold", color=color, fontsize=11.5)
        for row, line in enumerate(lines):
            ax.text(x + w / 2, y + h - 6.0 - 2.9 * row, line, ha="center", va="center", fontsize=9.5)

    for k, (name, color, lines) in enumerate(folders):
        x = 0.3 + k * (width + gap)
        titled(x, 40.5, width, 17.5, color, name, lines)
        if k:
            arrow(ax, (x - gap - 0.2, 49.0), (x + 0.2, 49.0))
    # the compiler below the physics
    box(ax, 0.3, 17.6, 122.0 - 0.6, 18.6, ORANGE)
    ax.text(2.2, 33.4, "tape/", va="center", weight="bold", color=ORANGE, fontsize=11.5)
    ax.text(10.0, 33.4, "the compiler: knows no robots", va="center", fontsize=9.5)
    for k in range(1, len(folders)):
        x = 0.3 + k * (width + gap) + width / 2
        arrow(ax, (x, 40.6), (x, 36.0), ORANGE)
    ax.text(0.3 + 1.5 * (width + gap) + width / 2, 38.3, "traced", ha="center", va="center", fontsize=8.5, color=ORANGE)
    for k, (name, words) in enumerate(compiler):
        x = 2.2 + k * (width * 0.86 + gap)
        box(ax, x, 19.4, width * 0.86, 11.4, ORANGE, "white")
        ax.text(x + width * 0.43, 28.4, name, ha="center", va="center", weight="bold", fontsize=10.5)
        ax.text(x + width * 0.43, 23.4, words, ha="center", va="center", fontsize=9)
        if k:
            arrow(ax, (x - gap - 0.1, 25.0), (x + 0.1, 25.0))
    ax.text(
        120.6, 25.0, "backends/\ncpu, reference,\nmpfr, interval\n\nexport/\nc, casadi", ha="right", va="center", fontsize=8.5
    )
    # what uses it
    ax.text(0.3, 14.6, "built on it:", va="center", fontsize=10)
    each = 122.0 / len(users)
    for k, (name, words) in enumerate(users):
        x = 0.3 + k * each
        box(ax, x, 0.6, each - 1.4, 12.0, FAINT, "white")
        ax.text(x + (each - 1.4) / 2, 10.2, name, ha="center", va="center", weight="bold", color=INK, fontsize=10)
        ax.text(x + (each - 1.4) / 2, 4.9, words, ha="center", va="center", fontsize=9)
    save(figure, path)


# -- letters cancel


def notation(path: Path) -> None:
    """Frames a, b and c in a plane, the poses between them, and a motion given in c."""
    poses = {"a": ((10.0, 10.0), 0.0), "b": ((42.0, 27.0), 32.0), "c": ((84.0, 20.0), -22.0)}
    figure = sheet("Letters cancel: X_ac = X_ab @ X_bc, and a motion V given in c is seen from a", width=10.0, height=4.8)
    ax = canvas(figure, 110.0, 47.0)
    for name, (origin, degrees) in poses.items():
        turn = np.radians(degrees)
        R = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        for axis, color, label in ((R[:, 0], RED, "x"), (R[:, 1], BLUE, "z")):
            arrow(ax, origin, origin + 12.0 * axis, color, width=2.4)
            ax.text(*(origin + 13.6 * axis), label, color=color, ha="center", va="center", fontsize=11)
        ax.plot(*origin, "o", color=INK, ms=7)
        ax.text(origin[0] - 1.0, origin[1] - 4.4, name, weight="bold", fontsize=15, ha="center", va="center")
    a, b, c = (np.array(poses[name][0]) for name in "abc")
    connect(ax, a, b, "X_ab", ORANGE, -0.18, (-6.0, 5.2))
    connect(ax, b, c, "X_bc", GREEN, -0.22, (1.0, 8.0))
    connect(ax, a, c, "X_ac", VIOLET, -0.06, (4.0, -1.5))
    tip = np.array([103.0, 38.0])
    arrow(ax, c, tip, INK, width=2.4)
    ax.text(tip[0] + 1.5, tip[1] + 1.5, "V", weight="bold", fontsize=13, ha="center", va="bottom")
    ax.text(2.0, 44.0, "V_a = X_ab @ X_bc @ V_c = X_ac @ V_c", family=MONO, fontsize=12, va="center")
    ax.text(2.0, 39.2, "X_ba = X_ab.inv()", family=MONO, fontsize=12, va="center")
    ax.text(
        2.0,
        1.6,
        "X_ab: where b is, and how it is turned, seen from a.  Equal letters meet and vanish.",
        fontsize=10.5,
        va="center",
    )
    save(figure, path)


def connect(ax: Any, start: Any, end: Any, name: str, color: str, bend: float, label: tuple[float, float]) -> None:
    """An arrow from one origin to another with the pose's name beside its middle."""
    way = (end - start) / np.linalg.norm(end - start)
    arrow(ax, start + 2.2 * way, end - 2.2 * way, color, bend, 2.0)
    ax.text(
        *((start + end) / 2.0 + np.array(label)),
        name,
        color=color,
        family=MONO,
        fontsize=13,
        ha="center",
        va="center",
        weight="bold",
    )
