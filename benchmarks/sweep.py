"""A sweep of 10,000 runs, killed twice and resumed: the same table as uninterrupted, on two processes and on a Ray cluster."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.measure import busy
from condyle.apps.lab.sweep_table import read_rows

EXPERIMENT = """
duration = 0.5
seed = 1
[robot]
name = "ur3"
q = [0.0, -1.2, 1.2, -1.5, -1.5, 0.3]
[rates]
physics = 2000
control = 1000
[controller]
name = "computed_torque"
kp = 400.0
kd = 40.0
[reference]
kind = "step"
target = [0.2, -1.0, 1.3, -1.4, -1.4, 0.4]
[sensors]
position_noise = 1e-4
dropout = 0.02
[friction]
coulomb = 0.02
viscous = 0.01
"""
WORKERS, BATCH, TIMEOUT = 2, 100, 600.0


def command(folder: Path, name: str, runs: int, engine: str, workers: int = WORKERS, batch: int = BATCH) -> list[str]:
    """The command line of the sweep: a grid of gains, at each point random masses, frictions and seeds."""
    side = max(round((runs / 100) ** 0.5), 2)
    draws = ("plant.wrist_3.mass=uniform:0.25:0.5", "friction.coulomb=log_uniform:0.001:0.05", "seed=uniform:0:100000")
    words = [sys.executable, "-m", "condyle", "lab", "sweep", str(folder / "lab.toml")]
    words += ["--grid", f"controller.kp=100:900:{side}", "--grid", f"controller.kd=20:60:{side}"]
    words += [word for draw in draws for word in ("--random", draw)]
    words += ["--samples", str(runs // side**2), "-o", str(folder / f"{name}.cds")]
    return [*words, "--engine", engine, "--workers", str(workers), "--batch", str(batch)]


def done(path: Path) -> int:
    """How many runs are in the file of a sweep."""
    try:
        return len(read_rows(path)[1])
    except OSError:
        return 0


def interrupted(words: list[str], path: Path, until: int) -> int:
    """The runs that are in the file after kill -9 of the sweep and its workers, once so many are done."""
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    end = time.monotonic() + TIMEOUT
    while child.poll() is None and done(path) < until and time.monotonic() < end:
        time.sleep(0.02)
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    return done(path)


def finished(words: list[str], path: Path) -> tuple[str, float]:
    """(sha256 of the final table, seconds) of a sweep that runs to its end."""
    begin = time.perf_counter()
    ended = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT)
    if ended.returncode:
        raise RuntimeError(ended.stderr[-500:])
    return hashlib.sha256(path.with_suffix(".csv").read_bytes()).hexdigest(), time.perf_counter() - begin


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the hashes of the tables; they must be equal."""
    runs, batch = (80, 10) if tiny else (10_000, BATCH)
    found: dict[str, Any] = {"busy": busy()}
    table = Table(f"{runs:,} runs of a UR3, 0.5 s each", "killed after", "seconds of the last start", "sha256 of the table")
    with TemporaryDirectory(prefix="condyle-bench-") as place:
        folder = Path(place)
        (folder / "lab.toml").write_text(EXPERIMENT)
        ways = [
            ("one process, uninterrupted", "local", 1, 512, False),
            ("processes, killed twice", "local", 1 if tiny else WORKERS, batch, True),
        ]
        if not tiny:
            ways += [
                ("two workers of Ray, killed twice", "ray", WORKERS, batch, True),
                ("Dask, two workers", "dask", WORKERS, batch, False),
            ]
        for k, (name, engine, workers, size, kills) in enumerate(ways):
            path = folder / f"sweep{k}.cds"
            words = command(folder, path.stem, runs, engine, workers, size)
            kept = [interrupted(words, path, runs * part // 10) for part in ((), (5,), (3, 6))[kills * (1 if tiny else 2)]]
            sha, seconds = finished(words, path)
            found[name] = {"sha256": sha, "seconds": seconds, "kept": kept}
            table.add_row(name, ", ".join(f"{x:,}" for x in kept) or "-", f"{seconds:.1f}", sha[:16])
    console.print(table)
    shas = {way["sha256"] for name, way in found.items() if name != "busy"}
    console.print("all tables are equal" if len(shas) == 1 else "THE TABLES DIFFER")
    found["equal"] = len(shas) == 1
    return found
