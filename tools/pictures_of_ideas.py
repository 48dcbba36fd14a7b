"""Drawings of ideas: the way from a file to arrays, and letters that cancel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from picture_style import BLUE, FAINT, GREEN, INK, ORANGE, RED, VIOLET, WASH, save, sheet

import condyle as cd

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


# -- from a file to arrays


def pipeline(path: Path) -> None:
    """What becomes of a robot, and in which folder."""
    step = cd.function(lambda x, h: np.array([x[0] + h * x[1], x[1] - h * (4.0 * x[0])]), x=2, h=())
    tape = [line.strip() for line in step.source("tape").splitlines() if "fma" in line or "neg" in line or "mul" in line][:4]
    columns = (
        ("files", "", ["URDF", "xacro", "MJCF", "Python"], FAINT),
        ("Model", "condyle/robot", ["joints, links,", "inertias, frames,", "checked as a", "whole"], BLUE),
        (
            "physics",
            "condyle/dynamics\ncondyle/simulate",
            ["rnea, crba, aba,", "contact, loops:", "NumPy, as in", "the book"],
            GREEN,
        ),
        ("tape", "condyle/tape", tape, ORANGE),
        ("machines", "condyle/tape", ["cpu, 1 to 16 lanes", "reference, mpfr,", "interval,", "C, CasADi"], VIOLET),
        ("arrays", "", ["one state", "or a million,", "exact derivatives,", "the same bits"], INK),
    )
    verbs = ("load,\ncheck", "given\nto", "trace\nonce", "compile\nonce", "call")
    figure = sheet("From a robot's file to arrays of numbers", width=12.0, height=4.5)
    ax = canvas(figure, 122.0, 39.5)
    width, gap, low, high = 15.6, 5.6, 15.0, 18.5
    for k, (name, folder, lines, color) in enumerate(columns):
        x = 0.3 + k * (width + gap)
        box(ax, x, low, width, high, color)
        ax.text(x + width / 2, low + high - 2.6, name, ha="center", va="center", weight="bold", color=color, fontsize=12.5)
        for row, line in enumerate(lines):
            font = {"family": MONO, "fontsize": 8} if name == "tape" else {"fontsize": 10}
            ax.text(x + width / 2, low + high - 6.4 - 3.1 * row, line, ha="center", va="center", **font)
        ax.text(x + width / 2, low + high + 2.3, folder, ha="center", va="center", family=MONO, fontsize=8.5, color=FAINT)
        if k:
            arrow(ax, (x - gap - 0.2, low + high / 2), (x + 0.2, low + high / 2))
            ax.text(x - gap / 2, low + high / 2 + 1.2, verbs[k - 1], ha="center", va="bottom", fontsize=8.5)
    # what stands on it
    names = ("doctor", "runs", "control", "view", "compat", "demos", "commands")
    words = (
        "files\ncured",
        "kept and\nrepeated",
        "LQR, PD,\nmotors",
        "pictures,\nwindow",
        "an older\ninterface",
        "five,\nverified",
        "bits,\nchecked",
        "all of it\nin a minute",
        "condyle\n...",
    )
    each = 122.8 / len(names)
    for k, (name, word) in enumerate(zip(names, words, strict=True)):
        x = 0.3 + k * each
        box(ax, x, 0.5, each - 1.4, 10.2, FAINT, "white")
        ax.text(x + (each - 1.4) / 2, 8.4, f"condyle/{name}", ha="center", va="center", family=MONO, fontsize=7.8)
        ax.text(x + (each - 1.4) / 2, 3.7, word, ha="center", va="center", fontsize=9.5)
    ax.text(0.3, 12.9, "built on it, in the order of their imports:", fontsize=10, color=INK, va="center")
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
