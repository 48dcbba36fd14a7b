"""Result files of benchmarks: rows of rates with the computer, its load, versions and the date, kept in benchmarks/results.

It needs NumPy and the standard library alone, so that a computer with a GPU and little else can write such files.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from condyle.errors import BackendError
from condyle.tape.host_info import processor

RESULTS = Path(__file__).parent / "results"
PACKAGES = (
    "numpy",
    "llvmlite",
    "pin",
    "mujoco",
    "mujoco-mjx",
    "mujoco-warp",
    "warp-lang",
    "jax",
    "frax",
    "torch",
    "cupy-cuda13x",
    "piqp",
)


@dataclass(frozen=True)
class Rate:
    """One measured rate: `task` of `robot` by `library`, in evaluations or steps per second."""

    task: str
    robot: str
    nv: int
    library: str
    backend: str  # cpu or cuda
    precision: str  # f64 or f32
    batch: int
    per_second: float
    threads: int = 1  # of the processor
    note: str = ""


@dataclass(frozen=True)
class Measured:
    """One result file."""

    name: str
    command: str
    date: str
    computer: dict[str, Any]
    rates: list[Rate]
    facts: dict[str, Any]  # what is no rate: seconds to compile, whether bits agree

    @property
    def place(self) -> str:
        """The computer in words: GPU, processor, cores, load."""
        of = self.computer
        gpu = f"{of['gpu']} beside " if of.get("gpu") else ""
        return f"{gpu}{of['processor']}, {of['cores']} cores, load {of['load']:.1f}, {self.date}"


def computer(gpu: str = "", load: float | None = None) -> dict[str, Any]:
    """The computer as a result file names it; `load`: the load average before the measurement, by default now."""
    found: dict[str, Any] = {"processor": processor(), "cores": os.cpu_count(), "load": load_average() if load is None else load}
    if gpu:
        found["gpu"] = gpu
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            # packages that were copied without their metadata
            module = sys.modules.get({"mujoco-warp": "mujoco_warp", "warp-lang": "warp"}.get(name, name))
            if getattr(module, "__version__", None):
                versions[name] = str(module.__version__)  # type: ignore[union-attr]
    return found | {"versions": versions}


def load_average() -> float:
    """The load average of the last minute."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def gpu_name() -> str:
    """The first GPU; "" where there is none."""
    from condyle.tape.cuda_driver import device

    try:
        return device(0).name
    except BackendError:
        return ""


def write(
    path: Path,
    name: str,
    command: str,
    rows: Iterable[Rate],
    facts: dict[str, Any] | None = None,
    about: dict[str, Any] | None = None,
) -> None:
    """Write a result file of today."""
    found = {
        "benchmark": name,
        "command": command,
        "date": date.today().isoformat(),
        "computer": about or computer(gpu_name()),
        "rows": [{k: v for k, v in asdict(row).items() if v != ""} for row in rows],
        "facts": facts or {},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n")


def read(path: Path) -> Measured:
    """A result file."""
    found = json.loads(path.read_text())
    known = {field.name for field in fields(Rate)}
    rows = [Rate(**{k: v for k, v in row.items() if k in known}) for row in found["rows"]]
    return Measured(found["benchmark"], found["command"], found["date"], found["computer"], rows, found.get("facts", {}))


def read_all(folder: Path = RESULTS) -> list[Measured]:
    """All result files of a folder, by name."""
    return [read(path) for path in sorted(folder.glob("*.json"))]


def chosen(rows: Sequence[Rate], **wanted: Any) -> list[Rate]:
    """The rows with these values."""
    return [row for row in rows if all(getattr(row, name) == value for name, value in wanted.items())]
