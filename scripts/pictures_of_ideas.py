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


ROOMS: dict[str, dict[str, str]] = {  # storeys from the top, their rooms in the order of the data flow
    "the program": {"commands/": "condyle sim, view, train, doctor, ..."},
    "apps/": {
        "flight/": "airframes with\ntilting rotors",
        "pidog/": "gaits, tasks,\ndeployment",
        "lab/": "experiments\nwith arms",
        "compat/": "doors of acados\nand DiffNE",
        "demos/": "five robots\nwith checks",
    },
    "workbench/": {
        "doctor/": "problems of\nrobot files",
        "runs/": "record, replay,\nplot, export",
        "view/": "browser, video,\nreports",
        "compare/": "the same world\nin MuJoCo",
        "connect/": "programs, ROS 2,\nPyTorch, JAX",
    },
    "methods/": {
        "planning/": "motions, paths\nand obstacles",
        "control/": "controllers\nas blocks",
        "mpc/": "optimal\ncontrol",
        "learn/": "environments,\ntraining",
        "identify/": "parameters\nfrom logs",
    },
    "the core": {
        "robot/": "URDF,\nxacro, MJCF:\na Model",
        "dynamics/": "rnea, crba,\naba, ...:\nf(model, q)",
        "constraints/": "couplings,\nclosed loops,\nrolling",
        "multibody/": "Robot: a model\nand its\ncoordinates",
        "simulate/": "Simulation:\ncontact, step,\nderivatives",
        "closed_loop/": "Loop and\nBlock in one\nkernel",
        "blocks/": "actuators,\nsensors,\nfilters",
    },
}
COMPILER = {
    "trace": "NumPy code runs\nonce on traced values",
    "Tape": "exact operations,\nloops, derivatives",
    "passes": "fold, expand,\ncontract to fma",
    "LLVM IR": "SIMD lanes,\none block per loop",
    "Kernel": "machine code,\ncached on disk",
}


def architecture(path: Path) -> None:
    """The storeys of the package on the compiler that all physics is traced into."""
    width, left, gap = 122.0, 15.0, 1.3
    heights = [5.5, 9.6, 9.6, 9.6, 12.0, 14.0]
    figure = sheet("The storeys of condyle/: imports point down, and to the left within a storey", width=12.0, height=7.2)
    ax = canvas(figure, width, sum(heights) + 1.4 * len(heights) + 0.2)
    y = sum(heights) + 1.4 * len(heights) + 0.2
    colors = (FAINT, VIOLET, RED, BLUE, GREEN)
    for (storey, rooms), height, color in zip(ROOMS.items(), heights[:-1], colors, strict=True):
        y -= height + 1.4
        ax.text(0.4, y + height / 2, storey, va="center", weight="bold", color=color, fontsize=11.5)
        each = (width - 0.5 - left + gap) / len(rooms)
        for k, (name, words) in enumerate(rooms.items()):
            x = left + k * each
            box(ax, x, y, each - gap, height, color)
            middle = x + (each - gap) / 2
            if len(rooms) == 1:
                ax.text(middle, y + height / 2, f"{name}   {words}", ha="center", va="center", fontsize=9.5)
                continue
            ax.text(middle, y + height - 2.1, name, ha="center", va="center", weight="bold", fontsize=10)
            ax.text(middle, y + (height - 3.4) / 2, words, ha="center", va="center", fontsize=8.8)
    # the compiler below the physics
    height = heights[-1]
    y -= height + 1.4
    box(ax, 0.3, y, width - 0.6, height, ORANGE)
    ax.text(2.0, y + height - 2.3, "tape/", va="center", weight="bold", color=ORANGE, fontsize=11.5)
    ax.text(9.4, y + height - 2.3, "the compiler: knows no robots", va="center", fontsize=9.5)
    each, between = 18.0, 3.6
    for k, (name, words) in enumerate(COMPILER.items()):
        x = 2.0 + k * (each + between)
        box(ax, x, y + 0.9, each, 8.6, ORANGE, "white")
        ax.text(x + each / 2, y + 7.4, name, ha="center", va="center", weight="bold", fontsize=10.5)
        ax.text(x + each / 2, y + 3.6, words, ha="center", va="center", fontsize=9)
        if k:
            arrow(ax, (x - between - 0.1, y + 5.2), (x + 0.1, y + 5.2))
    texts = "backends/\ncpu, reference,\nmpfr, interval\nexport/ c, casadi"
    ax.text(width - 1.6, y + 5.2, texts, ha="right", va="center", fontsize=8.5)
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
