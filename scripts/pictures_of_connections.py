"""The picture of the page about external programs: who waits for whom, and how late periods begin in real time."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from picture_style import BLUE, FAINT, GREEN, INK, ORANGE, RED, labelled, save, sheet

import condyle as cd
from condyle.workbench.connect.external import ExternalControl
from condyle.workbench.connect.shared_memory import SharedMemory

READY = np.array([0.0, -np.pi / 2, np.pi / 2, -np.pi / 2, 0.0, 0.0])
SECONDS, PRIORITY = 5.0, 50
PROGRAM = """
import sys
from condyle.workbench.connect.client import connect
with connect(sys.argv[1]) as link:
    for state in link:
        link.send(effort=state["gravity"] - 0.5 * state["v"])
"""


def software_in_the_loop(path: Path) -> None:
    """Timelines of lock-step and real time, and the histogram of a run at 1 kHz."""
    figure = sheet("An external program in the loop: lock-step, real time, and how punctual real time is", 12.0, 4.6)
    left, right = figure.subplots(1, 2, width_ratios=[1.55, 1.0])
    timelines(left)
    histogram(right)
    save(figure, path)


def timelines(ax: Any) -> None:
    """Bars of the simulation and of the program over time, in both modes."""
    # (begin of a period, when the program has its command); the simulation takes 0.12 of a period
    step, rows = 0.12, {"lock-step": (4.4, 3.3), "real time": (1.4, 0.3)}
    durations = [0.25, 0.6, 0.3, 1.15, 0.3, 0.3]
    t, (top, low) = 0.0, rows["lock-step"]
    for tick, needed in enumerate(durations):
        program(ax, t, needed, low, tick, ORANGE)
        ax.barh(top, step, left=t + needed, height=0.7, color=BLUE)
        exchange(ax, t, t + needed, top, low)
        t += needed + step
    top, low = rows["real time"]
    busy = 0.0
    for tick, needed in enumerate(durations[:5]):
        # a program that was late takes up the newest state
        begin = max(float(tick), busy)
        busy = begin + needed
        answered = busy <= tick + 0.8
        program(ax, begin, needed, low, tick, ORANGE if answered else RED)
        at = busy if answered else tick + 0.8
        ax.barh(top, step, left=at, height=0.7, color=BLUE if answered else RED)
        if answered:
            exchange(ax, begin, at, top, low)
        ax.plot([tick, tick], [low - 0.5, top + 0.5], color=FAINT, lw=0.9, ls=":")
        ax.plot([tick + 0.8] * 2, [top - 0.45, top + 0.45], color=RED, lw=0.9)
    ax.text(3.86, 2.02, "late: the last command is held", color=RED, fontsize=9.5, ha="center")
    for mode, (top, low) in rows.items():
        ax.text(0.0, top + 0.62, mode, weight="bold", fontsize=11, color=INK)
        for y, who in ((top, "simulation"), (low, "program")):
            ax.text(-0.08, y, who, ha="right", va="center", fontsize=10, color=BLUE if who == "simulation" else ORANGE)
    labelled(ax, "Who waits for whom", "time, control periods", "")
    ax.set_xlim(-0.95, 5.0)
    ax.set_ylim(-0.3, 5.5)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.grid(False)


def program(ax: Any, begin: float, needed: float, y: float, tick: int, color: str) -> None:
    """The bar of the program's work on a tick."""
    ax.barh(y, needed, left=begin, height=0.7, color=color, alpha=0.85)
    if needed > 0.2:
        ax.text(begin + needed / 2, y, f"{tick}", ha="center", va="center", color="white", fontsize=9)


def exchange(ax: Any, sent: float, answered: float, top: float, low: float) -> None:
    """Arrows of a state and its command."""
    style = {"arrowstyle": "-|>", "lw": 0.8, "color": FAINT, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 7}
    ax.annotate("", (sent, low + 0.36), (sent, top - 0.36), arrowprops=style)
    ax.annotate("", (answered, top - 0.36), (answered, low + 0.36), arrowprops=style)


def histogram(ax: Any) -> None:
    """How late the periods of a run of the UR3 at 1 kHz begin, with a program in Python."""
    name = f"picture-{os.getpid()}"
    world = cd.Simulation(cd.load("ur3"), dt=0.00025)
    external = ExternalControl(world, SharedMemory(name), mode="realtime", signals=["gravity"], priority=allowed(PRIORITY))
    environment = {**os.environ, "PYTHONPATH": str(Path(cd.__file__).resolve().parent.parent)}
    started = subprocess.Popen([sys.executable, "-c", PROGRAM, name], env=environment)
    if external.priority:
        os.sched_setscheduler(started.pid, os.SCHED_FIFO, os.sched_param(PRIORITY))
    external.run(external.loop.state(READY), round(SECONDS / world.dt))
    started.wait(20.0)
    late, pacing = 1e6 * external.pacing.late, external.pacing
    edges = np.geomspace(5.0, 5000.0, 40)
    ax.hist(np.clip(late, edges[0], edges[-1]), edges, color=GREEN, alpha=0.85)
    ax.axvline(800.0, color=RED, lw=1.0)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.text(760.0, ax.get_ylim()[1] * 0.6, "deadline of the command", color=RED, fontsize=9.5, ha="right", va="top")
    words = f"median {np.median(late):.0f} us, 99 % below {np.quantile(late, 0.99):.0f} us\n"
    words += f"{pacing.overruns} of {len(late) + 1:,} commands late"
    back = {"facecolor": "white", "edgecolor": "none", "pad": 2.0}
    ax.text(0.98, 0.72, words, transform=ax.transAxes, fontsize=10, ha="right", va="top", bbox=back)
    labelled(ax, "UR3, 1 kHz, a program in Python", "begin of a period after its due time, us", "periods")


def allowed(priority: int) -> int:
    """The priority, or 0 where the system does not allow it."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
        os.sched_setscheduler(0, *before)
        return priority
    return 0
