"""Drawings of ideas: the storeys of the package, and letters that cancel."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from plots.style import BLUE, FAINT, GREEN, INK, ORANGE, RED, VIOLET, WASH, picture

MONO = "DejaVu Sans Mono"

# storeys from the top, their rooms in the order of the data flow
STOREYS = """
the program | commands/: condyle sim, view, train, doctor, ...
apps/ | flight/: airframes with tilting rotors | pidog/: gaits, tasks, deployment | lab/: experiments with arms | \
compat/: doors of acados and DiffNE | demos/: five robots with checks
workbench/ | doctor/: problems of robot files | runs/: record, replay, plot, export | view/: browser, video, reports | \
compare/: the same world in MuJoCo | connect/: programs, ROS 2, PyTorch, JAX
methods/ | planning/: motions, paths and obstacles | control/: controllers as blocks | mpc/: optimal control | \
learn/: environments, training | identify/: parameters from logs
the core | robot/: URDF, xacro, MJCF: a Model | dynamics/: rnea, crba, aba, ...: f(model, q) | \
constraints/: couplings, closed loops, rolling | multibody/: Robot: a model and its coordinates | \
simulate/: Simulation: contact, step, derivatives | closed_loop/: Loop and Block in one kernel | \
blocks/: actuators, sensors, filters
"""
COMPILER = {
    "trace": "NumPy code runs once on traced values",
    "Tape": "exact operations, loops, derivatives",
    "passes": "fold, expand, contract to fma",
    "LLVM IR": "SIMD lanes, one block per loop",
    "Kernel": "machine code, cached on disk",
}


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


def words(ax: Any, x: float, y: float, text: str, **style: Any) -> None:
    """Text in the middle of a place, or beside it by `ha`."""
    ax.text(x, y, text, **{"ha": "center", "va": "center", **style})


@picture("The storeys of condyle/: imports point down, and to the left within a storey", 12.0, 7.2)
def architecture(figure: Any) -> None:
    """The storeys of the package on the compiler that all physics is traced into."""
    width, left, gap, heights = 122.0, 15.0, 1.3, (5.5, 9.6, 9.6, 9.6, 12.0, 14.0)
    y = sum(heights) + 1.4 * len(heights) + 0.2
    ax = canvas(figure, width, y)
    for line, height, color in zip(STOREYS.strip().splitlines(), heights, (FAINT, VIOLET, RED, BLUE, GREEN), strict=False):
        storey, *rooms = line.split(" | ")
        y -= height + 1.4
        words(ax, 0.4, y + height / 2, storey, ha="left", weight="bold", color=color, fontsize=11.5)
        each = (width - 0.5 - left + gap) / len(rooms)
        for k, (name, text) in enumerate(room.split(": ", 1) for room in rooms):
            x, middle = left + k * each, left + k * each + (each - gap) / 2
            box(ax, x, y, each - gap, height, color)
            if len(rooms) == 1:
                words(ax, middle, y + height / 2, f"{name}   {text}", fontsize=9.5)
                continue
            words(ax, middle, y + height - 2.1, name, weight="bold", fontsize=10)
            words(ax, middle, y + (height - 3.4) / 2, textwrap.fill(text, round(0.95 * each)), fontsize=8.8)
    # the compiler below the physics
    height, each = heights[-1], 21.6
    y -= height + 1.4
    box(ax, 0.3, y, width - 0.6, height, ORANGE)
    words(ax, 2.0, y + height - 2.3, "tape/", ha="left", weight="bold", color=ORANGE, fontsize=11.5)
    words(ax, 9.4, y + height - 2.3, "the compiler: knows no robots", ha="left", fontsize=9.5)
    for k, (name, text) in enumerate(COMPILER.items()):
        x = 2.0 + k * each
        box(ax, x, y + 0.9, 18.0, 8.6, ORANGE, "white")
        words(ax, x + 9.0, y + 7.4, name, weight="bold", fontsize=10.5)
        words(ax, x + 9.0, y + 3.6, textwrap.fill(text, 22), fontsize=9)
        if k:
            arrow(ax, (x - 3.7, y + 5.2), (x + 0.1, y + 5.2))
    words(ax, width - 1.6, y + 5.2, "backends/\ncpu, reference,\nmpfr, interval\nexport/ c, casadi", ha="right", fontsize=8.5)


@picture("Letters cancel: X_ac = X_ab @ X_bc, and a motion V given in c is seen from a", height=4.8)
def notation(figure: Any) -> None:
    """Frames a, b and c in a plane, the poses between them, and a motion given in c."""
    ax, origins = canvas(figure, 110.0, 47.0), {}
    for name, origin, degrees in (("a", (10.0, 10.0), 0.0), ("b", (42.0, 27.0), 32.0), ("c", (84.0, 20.0), -22.0)):
        c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
        for axis, color, label in ((np.array([c, s]), RED, "x"), (np.array([-s, c]), BLUE, "z")):
            arrow(ax, origin, origin + 12.0 * axis, color, width=2.4)
            words(ax, *(origin + 13.6 * axis), label, color=color, fontsize=11)
        ax.plot(*origin, "o", color=INK, ms=7)
        words(ax, origin[0] - 1.0, origin[1] - 4.4, name, weight="bold", fontsize=15)
        origins[name] = np.array(origin)
    poses = {"ab": (ORANGE, -0.18, (-6.0, 5.2)), "bc": (GREEN, -0.22, (1.0, 8.0)), "ac": (VIOLET, -0.06, (4.0, -1.5))}
    for (start, end), (color, bend, offset) in poses.items():
        a, b = origins[start], origins[end]
        way = (b - a) / np.linalg.norm(b - a)
        arrow(ax, a + 2.2 * way, b - 2.2 * way, color, bend, 2.0)
        words(ax, *((a + b) / 2.0 + offset), f"X_{start}{end}", color=color, family=MONO, fontsize=13, weight="bold")
    tip = np.array([103.0, 38.0])
    arrow(ax, origins["c"], tip, INK, width=2.4)
    words(ax, *(tip + 1.5), "V", weight="bold", fontsize=13, va="bottom")
    words(ax, 2.0, 44.0, "V_a = X_ab @ X_bc @ V_c = X_ac @ V_c", ha="left", family=MONO, fontsize=12)
    words(ax, 2.0, 39.2, "X_ba = X_ab.inv()", ha="left", family=MONO, fontsize=12)
    text = "X_ab: where b is, and how it is turned, seen from a.  Equal letters meet and vanish."
    words(ax, 2.0, 1.6, text, ha="left", fontsize=10.5)
