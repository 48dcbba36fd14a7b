"""Pictures of the benchmark page: rates over the batch and over the degrees of freedom, ours beside others."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measured import Measured, Rate, chosen

sys.path.append(str(Path(__file__).parents[1] / "scripts"))

from plots.style import BLUE, GREEN, INK, ORANGE, RED, VIOLET, labelled, save, sheet

# subplots, if they were measured; of each kind the first robot that was
SUBPLOTS = (
    ("forward dynamics", ("anymal", "pidog", "ur3")),
    ("derivatives", ("anymal", "ur3")),
    ("step, treading", ("anymal",)),
    ("step, standing", ("anymal", "pidog")),
)
COLORS = {"Condyle": BLUE, "Pinocchio": ORANGE, "MuJoCo": GREEN, "MJX": GREEN, "frax": VIOLET, "MuJoCo Warp": RED}


def draw(found: Sequence[Measured], folder: Path) -> list[Path]:
    """Draw both pictures into a folder."""
    paths = [folder / "benchmarks_batch.png", folder / "benchmarks_dof.png"]
    over_batch(found, paths[0])
    over_dof(found, paths[1])
    return paths


def shown_tasks(rates: Sequence[Rate]) -> list[tuple[str, str]]:
    """Three tasks with their robots."""
    out = []
    for task, robots in SUBPLOTS:
        known = [robot for robot in robots if chosen(rates, task=task, robot=robot, backend="cuda")]
        out += [(task, robot) for robot in known[:1]]
    return out[:3]


def over_batch(found: Sequence[Measured], path: Path) -> None:
    """Evaluations per second over the batch on a GPU and on the processor beside it, with other libraries where measured."""
    ours = next((each for each in found if each.name == "gpu"), None)
    if ours is None:
        return
    others = [rate for each in found if each.name == "gpu_peers" for rate in each.rates if rate.library != "Condyle"]
    shown = shown_tasks(ours.rates)
    figure = sheet(
        f"States per second by batch: {ours.computer['gpu']} and the {ours.computer['cores']} cores beside it", 11.0, 4.3
    )
    for ax, (task, robot) in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        for precision, color in (("f32", ORANGE), ("f64", BLUE)):
            for backend, line in (("cuda", "o-"), ("cpu", "o:")):
                rates = chosen(ours.rates, task=task, robot=robot, precision=precision, backend=backend)
                curve(ax, rates, line, color, f"{precision}, {'GPU' if backend == 'cuda' else 'processor'}")
        for library in dict.fromkeys(rate.library for rate in others):
            curve(ax, chosen(others, task=task, robot=robot, library=library), "s--", COLORS[library], f"f32, {library}")
        ax.legend(frameon=False, fontsize=8.5)
        labelled(ax, f"{task}, {robot}", "states in a batch", "states per second")
    save(figure, path)


def curve(ax: Any, rates: Sequence[Rate], line: str, color: str, name: str) -> None:
    """One curve, if there is anything to draw."""
    if rates:
        ax.loglog(
            [rate.batch for rate in rates], [rate.per_second for rate in rates], line, color=color, ms=4, lw=1.3, label=name
        )


def over_dof(found: Sequence[Measured], path: Path) -> None:
    """Forward dynamics over the degrees of freedom: time on one core, and states per second on a GPU."""
    cpu = [
        rate for each in found if each.name in ("robots", "jax_peers") for rate in each.rates if rate.task == "forward dynamics"
    ]
    gpu = [rate for each in found if each.name == "gpu" for rate in chosen(each.rates, task="forward dynamics", backend="cuda")]
    figure = sheet("Forward dynamics over the degrees of freedom", 10.0, 4.3)
    left, right = figure.subplots(1, 2)
    for library in dict.fromkeys(rate.library for rate in cpu):
        # ours is measured beside each of the others; the fastest counts
        best: dict[int, float] = {}
        for rate in cpu:
            if rate.library == library and rate.batch > 1:
                best[rate.nv] = max(best.get(rate.nv, 0.0), rate.per_second)
        nv = sorted(best)
        name = "MuJoCo, mj_step" if library == "MuJoCo" else library
        left.semilogy(nv, [1e9 / best[n] for n in nv], "o-", color=COLORS[library], ms=5, lw=1.5, label=name)
    left.legend(frameon=False, fontsize=9, loc="lower right")
    left.set_ylim(20.0, None)
    labelled(left, "one core, float64, large batches", "degrees of freedom", "ns per state")
    for precision, color in (("f32", ORANGE), ("f64", BLUE)):
        best = {}
        for rate in chosen(gpu, precision=precision):
            best[rate.nv] = max(best.get(rate.nv, 0.0), rate.per_second)
        nv = sorted(best)
        right.semilogy(nv, [best[n] for n in nv], "o-", color=color, ms=5, lw=1.5, label=precision)
    right.legend(frameon=False, fontsize=9)
    labelled(
        right,
        f"GPU{', ' + next(e.computer['gpu'] for e in found if e.name == 'gpu') if gpu else ''}",
        "degrees of freedom",
        "states per second",
    )
    right.tick_params(colors=INK)
    save(figure, path)
