"""Condyle compiles robots: traced physics becomes machine code with the same bits everywhere."""

from condyle.dynamics.robot import Robot, load
from condyle.errors import (
    CondyleError,
    FileError,
    MachineError,
    MissingExtraError,
    RobotError,
    ShapeError,
    SimulationError,
    TraceError,
)
from condyle.simulate.simulation import Simulation
from condyle.simulate.terrain import HeightField, Plane, Slope, Stairs, Terrain
from condyle.tape.array import array, fma, held, where
from condyle.tape.function import Function, function
from condyle.tape.loop import loop, scan
from condyle.tape.tape import Tape
from condyle.tape.trace import trace

__version__ = "0.1.0"

__all__ = [
    "CondyleError",
    "FileError",
    "Function",
    "HeightField",
    "MachineError",
    "MissingExtraError",
    "Plane",
    "Robot",
    "RobotError",
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
    "held",
    "load",
    "loop",
    "scan",
    "trace",
    "where",
]
