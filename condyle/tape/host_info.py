"""What computes here: versions, the processor, its lanes and threads, and where compiled objects are kept."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np

from condyle.errors import BackendError, typed


def available_threads() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))[:200]
    except (OSError, StopIteration):
        return platform.processor() or "unknown"


def versions() -> dict[str, Any]:
    """The facts that a result can depend on, as plain data; where no kernel can run, `cpu` says why."""
    import llvmlite
    import llvmlite.binding as llvm

    from condyle import __version__  # here, because the package may still be loading when this file is
    from condyle.tape.backends.cpu import default_lanes, host
    from condyle.tape.cache import default_cache

    found: dict[str, Any] = {
        "condyle": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "llvmlite": llvmlite.__version__,
        "llvm": ".".join(map(str, llvm.llvm_version_info)),
    }
    try:
        found |= {"cpu": host().cpu, "lanes": {"float64": default_lanes("f64"), "float32": default_lanes("f32")}}
    except BackendError as error:
        found |= {"cpu": str(error), "lanes": {}}
    directory = default_cache().directory
    return found | {"threads": available_threads(), "cache": "off" if directory is None else str(directory)}


def program() -> str:
    """What a person types here for the command `condyle`, such as .venv/bin/condyle where that is in no PATH."""
    folder = Path(sys.executable or "python").parent
    beside = [Path(sys.argv[0]), folder / "condyle", folder / "condyle.exe"]
    script = next((path for path in beside if path.stem == "condyle" and path.is_file()), None)
    return f"{typed(sys.executable)} -m condyle" if script is None else typed(str(script))
