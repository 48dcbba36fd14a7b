"""Pictures of judged policies: how the numbers of their episodes are spread."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from condyle.apps.pidog.judge import FULL
from condyle.atomic_write import write_bytes
from condyle.errors import FileError, require
from condyle.robot.library.pidog import LEGS as LEG_PLACES

Array = np.ndarray


LEGS = tuple(LEG_PLACES)
FORMATS = ("png", "svg", "pdf")
BLUE, COLORS = "#2b6cb0", ("#2b6cb0", "#c05621", "#2f855a", "#805ad5")
# number, its factor and title; the part of the score whose full value is marked
WALKING = (
    ("score", 1.0, "score of an episode", None),
    ("speed", 1.0, "speed, m/s", None),
    ("heading_error", 1.0, "heading error after 10 s, degrees", "heading"),
    ("lift", 1e3, "lift of each foot, mm", "lift"),
    ("slip", 100.0, "slip, % of the distance", "slip"),
    ("cost_of_transport", 1.0, "cost of transport", "energy"),
)
OTHERS = (("return", 1.0, "return", None), ("seconds", 1.0, "length of an episode, s", None))


def check_picture(path: str | PathLike[str]) -> None:
    """A FileError unless a picture can have this name; the missing extra, where pictures need it."""
    if Path(path).suffix.lstrip(".").lower() not in FORMATS:
        raise FileError(f"a picture is .png, .svg or .pdf, got {Path(path).name}: try {Path(path).with_suffix('.png').name}")
    require("matplotlib.figure", "plot", "pictures")


def save_picture(every: Mapping[str, Array], path: str | PathLike[str], title: str) -> None:
    """Write histograms of the episodes that did not fall; `every` as `measured` or `judge_task` give it."""
    matplotlib: Any = require("matplotlib.figure", "plot", "pictures")
    panels = WALKING if "score" in every else OTHERS
    rows = len(panels) // 3 or 1
    figure = matplotlib.Figure(figsize=(9.0, 2.7 * rows), layout="constrained")
    figure.suptitle(title, fontsize=10, x=0.01, ha="left")
    kept = ~every["fell"] if (~every["fell"]).any() and "score" in every else np.ones(len(every["fell"]), bool)
    for axes, (name, factor, label, part) in zip(figure.subplots(rows, len(panels) // rows).flat, panels, strict=True):
        value = factor * np.asarray(every[name], dtype=float)[slice(None) if name == "score" else kept]
        lines = value.T if value.ndim == 2 else [value]
        finite = value[np.isfinite(value)]
        low, high = np.quantile(finite, [0.0, 0.995]) if len(finite) else (0.0, 1.0)
        bins = np.linspace(low, high, 31) if high - low > 1e-9 else np.linspace(low - 0.5, low + 0.5, 31)
        for k, line in enumerate(lines):
            style: dict[str, Any] = {"color": BLUE} if len(lines) == 1 else {"color": COLORS[k], "histtype": "step", "lw": 1.5}
            axes.hist(line[np.isfinite(line)], bins, label=LEGS[k] if len(lines) == len(LEGS) else None, **style)
        if part is not None:
            axes.axvline(factor * FULL[part][0] if name != "heading_error" else FULL[part][0], color="0.3", lw=1.0, ls=":")
        if len(lines) == len(LEGS):
            axes.legend(frameon=False, fontsize=8)
        axes.set_title(label, fontsize=9, loc="left")
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    out = BytesIO()
    figure.savefig(out, format=Path(path).suffix.lstrip(".").lower(), dpi=110)
    write_bytes(path, out.getvalue())
