"""Condyle compiles robots: traced physics becomes machine code with the same bits everywhere."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from condyle.errors import (
    BackendError,
    CondyleError,
    FileError,
    MissingExtraError,
    RobotError,
    ShapeError,
    SimulationError,
    TraceError,
)
from condyle.multibody.robot import Robot, load
from condyle.tape.array import array, fma, stop_gradient, where
from condyle.tape.function import Function, function
from condyle.tape.loop import loop, scan
from condyle.tape.tape import Tape
from condyle.tape.trace import trace

if TYPE_CHECKING:
    from condyle.runs.recorder import Recorder
    from condyle.runs.run import Run, read_run
    from condyle.simulate.simulation import Simulation
    from condyle.simulate.terrain import HeightField, Plane, Slope, Stairs, Terrain

__version__ = "0.1.0"

__all__ = [
    "CondyleError",
    "FileError",
    "Function",
    "HeightField",
    "BackendError",
    "MissingExtraError",
    "Plane",
    "Recorder",
    "Robot",
    "RobotError",
    "Run",
    "ShapeError",
    "Simulation",
    "SimulationError",
    "Slope",
    "Stairs",
    "Tape",
    "Terrain",
    "TraceError",
    "array",
    "fma",
    "function",
    "stop_gradient",
    "load",
    "loop",
    "read_run",
    "scan",
    "trace",
    "where",
]

# loaded when first asked for, so that importing the package stays quick
_LATER = {
    "Simulation": "condyle.simulate.simulation",
    "Recorder": "condyle.runs.recorder",
    **dict.fromkeys(("Run", "read_run"), "condyle.runs.run"),
    **dict.fromkeys(("HeightField", "Plane", "Slope", "Stairs", "Terrain"), "condyle.simulate.terrain"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'condyle' has no attribute '{name}'")
    value = globals()[name] = getattr(import_module(_LATER[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
