"""Timing on a shared computer: the smallest of many times, competitors in turn, with the load average."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import which
from typing import Any

from condyle.commands.version import processor

SECONDS = 1.0  # spent on each competitor of a race

FLAGS = ("-O3", "-march=native", "-ffp-contract=off")


def race(competitors: dict[str, Callable[[], object]], seconds: float = SECONDS) -> dict[str, float]:
    """The smallest time of each call in seconds; they take turns, so that a busy moment hurts all of them alike."""
    times: dict[str, list[float]] = {name: [] for name in competitors}
    end = time.perf_counter() + seconds * len(competitors)
    while True:
        for name, call in competitors.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
        if time.perf_counter() > end:
            return {name: min(spent) for name, spent in times.items()}


def best(call: Callable[[], object], seconds: float = SECONDS) -> float:
    """The smallest time of a call in seconds."""
    return race({"": call}, seconds)[""]


def once(call: Callable[[], object]) -> float:
    """The time of one call in seconds."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def per_call(call: Callable[[], object], seconds: float = SECONDS, batch: int = 1000) -> float:
    """The time of a call too short for the clock: the smallest mean over `batch` calls, in seconds."""

    def many() -> None:
        for _ in range(batch):
            call()

    return best(many, seconds) / batch


def line_fit(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """(slope, intercept) of the straight line through the points."""
    fit = statistics.linear_regression(x, y)
    return fit.slope, fit.intercept


# ---- C beside ours


def gcc() -> str | None:
    """The installed C compiler, if there is one."""
    return which("gcc")


def c_library(source: str, flags: Sequence[str] = FLAGS) -> tuple[ctypes.CDLL, str]:
    """(loaded library, its assembly) of a C text, compiled by gcc for this processor."""
    with tempfile.TemporaryDirectory(prefix="condyle-bench-") as folder:
        text, assembly, library = (Path(folder) / f"kernel.{end}" for end in ("c", "s", "so"))
        text.write_text(source)
        subprocess.run(["gcc", *flags, "-fPIC", "-S", str(text), "-o", str(assembly)], check=True)
        subprocess.run(["gcc", "-shared", str(assembly), "-o", str(library), "-lm"], check=True)
        return ctypes.CDLL(str(library)), assembly.read_text()


# ---- the computer


def about() -> dict[str, str]:
    """The computer and the compilers, for the head of a report."""
    import llvmlite
    import numpy

    versions = {"python": platform.python_version(), "numpy": numpy.__version__, "llvmlite": llvmlite.__version__}
    if gcc():
        versions["gcc"] = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    return {"processor": processor(), "cores": str(os.cpu_count()), "load": f"{load():.1f}", **versions}


def load() -> float:
    """The load average of the last minute."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def busy() -> str:
    """Load average over the cores."""
    return f"load {load():.1f} on {os.cpu_count()} cores"


def in_new_process(code: str, seconds: float = 120, **environment: str) -> dict[str, Any]:
    """What Python code printed as JSON in a new process."""
    path = os.pathsep.join(p for p in (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")) if p)
    settings = {**os.environ, "PYTHONPATH": path, **environment}
    done = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True, timeout=seconds)
    if done.returncode:
        raise RuntimeError(f"another Python process failed: {done.stderr.strip()[-300:]}")
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed
