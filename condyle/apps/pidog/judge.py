"""How well a walking policy walks: gait metrics of randomised episodes, and a score of which no part makes up for another.

    found = judge(PolicyFile.load("policy.cdp"), Trial(1000))
    found["score"], found["falls"], found["speed"]

The score of an episode is 100 times the product of six parts from 0 to 1, and 0 after a fall:

| part | 1 | 0 |
|---|---|---|
| speed | the commanded forward speed | an error as large as the command |
| lift | every foot 10 mm or more | a foot that is dragged |
| slip | feet slide at most 10 % of the distance | 50 % |
| heading | within 10 degrees of the command after 10 s | 60 degrees |
| energy | cost of transport up to 0.8 | 4 |
| smoothness | roll and pitch rates up to 1 rad/s | 4 rad/s |

A shuffle, small fast steps without lift, has the speed, and next to nothing of lift and slip.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from condyle.apps.pidog.gait_episodes import Recording, Trial, episodes, gait
from condyle.apps.pidog.metrics import GaitMetrics
from condyle.apps.pidog.plant import attitude
from condyle.atomic_write import write_bytes
from condyle.errors import FileError, require
from condyle.methods.learn.judge_task import Progress
from condyle.methods.learn.policy_file import PolicyFile
from condyle.robot.library.pidog import LEGS

Array = np.ndarray

# part: value for the full part, and value for none
FULL = {"lift": (0.010, 0.0), "slip": (0.10, 0.50), "heading": (10.0, 60.0), "energy": (0.8, 4.0), "smoothness": (1.0, 4.0)}
HEADING_AFTER = 10.0  # s
SCORED_WALKS = 128  # episodes of the score right after a training
FORMATS = ("png", "svg", "pdf")
BLUE, COLORS = "#2b6cb0", ("#2b6cb0", "#c05621", "#2f855a", "#805ad5")
# pictures: numbers of an episode, each with its factor and title, and the part of the score whose full value is marked
WALKING = (
    ("score", 1.0, "score of an episode", None),
    ("speed", 1.0, "speed, m/s", None),
    ("heading_error", 1.0, "heading error after 10 s, degrees", "heading"),
    ("lift", 1e3, "lift of each foot, mm", "lift"),
    ("slip", 100.0, "slip, % of the distance", "slip"),
    ("cost_of_transport", 1.0, "cost of transport", "energy"),
)
OTHERS = (("return", 1.0, "return", None), ("seconds", 1.0, "length of an episode, s", None))


def judge(
    file: PolicyFile, trial: Trial, engine: str = "condyle", progress: Progress | None = None, device: str | None = None
) -> dict[str, Any]:
    """Means over all episodes that did not fall, the fraction that fell, and the score with its parts and worst decile."""
    return summary(measured(file, trial, engine, progress, device))


def short_score(file: PolicyFile, seconds: float, progress: Progress | None = None, device: str | None = None) -> dict[str, Any]:
    """Means over `SCORED_WALKS` episodes, with lift and duty of the worst foot."""
    means = judge(file, Trial(SCORED_WALKS, seconds), progress=progress, device=device)
    worst = {name: None if means[name] is None else float(pick(means[name])) for name, pick in (("lift", min), ("duty", max))}
    return {**means, **worst}


def measured(
    file: PolicyFile, trial: Trial, engine: str = "condyle", progress: Progress | None = None, device: str | None = None
) -> dict[str, Array]:
    """What `numbers` gives of every episode; `progress(episodes that are done)` is called on the way.

    `device`: "cuda" simulates on a GPU.
    """
    found: list[dict[str, Array]] = []
    for recording in episodes(file, trial, engine, device=device):
        found.append(numbers(recording, gait(recording, device)))
        if progress is not None:
            progress(sum(len(each["fell"]) for each in found))
    return {name: np.concatenate([each[name] for each in found]) for name in found[0]}


def summary(every: Mapping[str, Array]) -> dict[str, Any]:
    """Means of what `measured` gives."""
    walked = ~every["fell"]
    found: dict[str, Any] = {"episodes": len(walked), "falls": float(every["fell"].mean())}
    found["score"] = float(every["score"].mean())
    found["worst_decile"] = float(np.quantile(every["score"], 0.1))
    for name, value in every.items():
        if name not in ("fell", "score"):
            found[name] = value[walked].mean(axis=0).tolist() if walked.any() else None
    return found


def numbers(recording: Recording, m: GaitMetrics) -> dict[str, Array]:
    """What is reported of each episode, (episodes,) or (episodes, 4), SI units and degrees, with its score."""
    begin, late = round(1.0 / recording.dt), round(HEADING_AFTER / recording.dt)
    forward = np.asarray(recording.v, dtype=float)[:, begin:, 0].mean(axis=1)
    yaw = np.unwrap(attitude(recording.q)[..., 2], axis=-1)
    row = min(late, yaw.shape[1] - 1)
    error = np.degrees(np.abs(yaw[:, row] - yaw[:, 0] - recording.commands[:, 1] * row * recording.dt))
    found = {
        "speed": forward,
        "speed_error": np.abs(forward - recording.commands[:, 0]),
        "heading_error": error,
        "lift": np.asarray(m.lift),
        "slip": np.asarray(m.slip_ratio),
        "duty": np.asarray(m.duty_factor),
        "cost_of_transport": np.asarray(m.cost_of_transport),
        "shake": np.asarray(m.shake),
        "action_change": np.sqrt(np.mean(np.diff(np.asarray(recording.actions, dtype=float), axis=1) ** 2, axis=(1, 2))),
        "fell": recording.fell,
    }
    parts = score_parts(found, recording.commands[:, 0])
    score = 100.0 * np.prod(list(parts.values()), axis=0)
    return {**found, **{f"part_{name}": value for name, value in parts.items()}, "score": np.where(recording.fell, 0.0, score)}


def score_parts(found: dict[str, Array], speed: Array) -> dict[str, Array]:
    """The six parts of the score, each (episodes,) from 0 to 1."""
    wanted = np.maximum(np.abs(speed), 0.05)
    given = {"lift": found["lift"].min(axis=-1), "slip": found["slip"], "heading": found["heading_error"]}
    given |= {"energy": found["cost_of_transport"], "smoothness": found["shake"]}
    # a robot that does not move has no slip ratio
    parts = {name: np.clip((given[name] - none) / (full - none), 0.0, 1.0) for name, (full, none) in FULL.items()}
    parts = {name: np.nan_to_num(part, nan=0.0) for name, part in parts.items()}
    return {"speed": np.clip(1.0 - found["speed_error"] / wanted, 0.0, 1.0), **parts}


# ---- pictures


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
            axes.hist(line[np.isfinite(line)], bins, label=list(LEGS)[k] if len(lines) == len(LEGS) else None, **style)
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
