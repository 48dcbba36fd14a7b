"""Condyle compiles robots: traced physics becomes machine code with the same bits everywhere."""

from condyle.dynamics.robot import Robot, load
from condyle.errors import CondyleError, MachineError, MissingExtraError, RobotError, ShapeError, TraceError
from condyle.tape.array import array, fma, where
from condyle.tape.function import Function, function
from condyle.tape.loop import loop, scan
from condyle.tape.tape import Tape
from condyle.tape.trace import trace

__version__ = "0.1.0"

__all__ = [
    "CondyleError",
    "Function",
    "MachineError",
    "MissingExtraError",
    "Robot",
    "RobotError",
    "ShapeError",
    "Tape",
    "TraceError",
    "array",
    "fma",
    "function",
    "load",
    "loop",
    "scan",
    "trace",
    "where",
]
