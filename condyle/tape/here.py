"""What computes here: versions, the processor, its lanes and threads, and where compiled objects are kept."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np

from condyle.errors import MachineError


def versions() -> dict[str, Any]:
    """The facts that a result can depend on, as plain data; where no kernel can run, `cpu` says why."""
    import llvmlite
    import llvmlite.binding as llvm

    from condyle import __version__  # here, because the package may still be loading when this file is
    from condyle.tape.cache import default_cache
    from condyle.tape.cpu import available_threads, default_lanes, host

    found: dict[str, Any] = {
        "condyle": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "llvmlite": llvmlite.__version__,
        "llvm": ".".join(map(str, llvm.llvm_version_info)),
    }
    try:
        found |= {"cpu": host().cpu, "lanes": {"float64": default_lanes("f64"), "float32": default_lanes("f32")}}
    except MachineError as error:
        found |= {"cpu": str(error), "lanes": {}}
    directory = default_cache().directory
    return found | {"threads": available_threads(), "cache": "off" if directory is None else str(directory)}
