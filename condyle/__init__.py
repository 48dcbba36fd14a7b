"""Condyle compiles robots: traced physics becomes machine code with the same bits everywhere."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from condyle.moved import install

if TYPE_CHECKING:
    from condyle import blocks as blocks
    from condyle.apps import flight as flight
    from condyle.closed_loop.block import Block as Block
    from condyle.closed_loop.episode import Episode as Episode
    from condyle.closed_loop.loop import Loop as Loop
    from condyle.errors import BackendError as BackendError
    from condyle.errors import CondyleError as CondyleError
    from condyle.errors import CondyleWarning as CondyleWarning
    from condyle.errors import ControlError as ControlError
    from condyle.errors import FileError as FileError
    from condyle.errors import MissingExtraError as MissingExtraError
    from condyle.errors import RobotError as RobotError
    from condyle.errors import ShapeError as ShapeError
    from condyle.errors import SimulationError as SimulationError
    from condyle.errors import TraceError as TraceError
    from condyle.methods import mpc as mpc
    from condyle.methods.control.lqr import dlqr as dlqr
    from condyle.methods.control.lqr import lqr as lqr
    from condyle.methods.control.stance import Stance as Stance
    from condyle.methods.control.stance import stance as stance
    from condyle.methods.learn.env import VectorEnv as VectorEnv
    from condyle.methods.mpc.problem import ocp as ocp
    from condyle.methods.planning import obstacles as obstacles
    from condyle.multibody.robot import Robot as Robot
    from condyle.multibody.robot import load as load
    from condyle.robot.description import Description as Description
    from condyle.simulate.simulation import Simulation as Simulation
    from condyle.simulate.terrain import HeightField as HeightField
    from condyle.simulate.terrain import Plane as Plane
    from condyle.simulate.terrain import Slope as Slope
    from condyle.simulate.terrain import Stairs as Stairs
    from condyle.simulate.terrain import Terrain as Terrain
    from condyle.simulate.uneven import Uneven as Uneven
    from condyle.tape import linalg as linalg
    from condyle.tape import random as random
    from condyle.tape.array import array as array
    from condyle.tape.array import fma as fma
    from condyle.tape.array import isfinite as isfinite
    from condyle.tape.array import stop_gradient as stop_gradient
    from condyle.tape.array import where as where
    from condyle.tape.bundle import load_bundle as load_bundle
    from condyle.tape.bundle import save_bundle as save_bundle
    from condyle.tape.custom import custom_jvp as custom_jvp
    from condyle.tape.function import Function as Function
    from condyle.tape.function import function as function
    from condyle.tape.implicit import fixed_point as fixed_point
    from condyle.tape.implicit import implicit as implicit
    from condyle.tape.linearize import linearize as linearize
    from condyle.tape.loop import loop as loop
    from condyle.tape.loop import map_rows as map_rows
    from condyle.tape.loop import scan as scan
    from condyle.tape.parameter import Parameter as Parameter
    from condyle.tape.parameter import parameter as parameter
    from condyle.tape.table import Table as Table
    from condyle.tape.table import table as table
    from condyle.tape.table import zeros_table as zeros_table
    from condyle.tape.tape import Tape as Tape
    from condyle.tape.trace import Rows as Rows
    from condyle.tape.trace import Uniform as Uniform
    from condyle.tape.trace import trace as trace
    from condyle.workbench.connect import jax as jax
    from condyle.workbench.connect import torch as torch
    from condyle.workbench.doctor.diagnose import diagnose as diagnose
    from condyle.workbench.runs.convert import export_run as export_run
    from condyle.workbench.runs.convert import import_run as import_run
    from condyle.workbench.runs.recorder import Recorder as Recorder
    from condyle.workbench.runs.run import Run as Run
    from condyle.workbench.runs.run import read_run as read_run
    from condyle.workbench.view.notebook import show as show
    from condyle.workbench.view.picture import save_picture as save_picture
    from condyle.workbench.view.video import save_video as save_video
    from condyle.workbench.view.window import open_window as open_window

__version__ = "0.1.0"

install()
del install

# public names by module, in the order of the data flow; each module is imported when one of its names is first used
_NAMES = {
    "tape.function": ("function", "Function"),
    "tape.trace": ("trace", "Rows", "Uniform"),
    "tape.tape": ("Tape",),
    "tape.array": ("array", "where", "fma", "isfinite", "stop_gradient"),
    "tape.table": ("table", "zeros_table", "Table"),
    "tape.loop": ("loop", "scan", "map_rows"),
    "tape.custom": ("custom_jvp",),
    "tape": ("linalg", "random"),
    "tape.linearize": ("linearize",),
    "tape.implicit": ("implicit", "fixed_point"),
    "tape.parameter": ("parameter", "Parameter"),
    "tape.bundle": ("save_bundle", "load_bundle"),
    "robot.description": ("Description",),
    "workbench.doctor.diagnose": ("diagnose",),
    "multibody.robot": ("load", "Robot"),
    "simulate.simulation": ("Simulation",),
    "simulate.terrain": ("Plane", "Slope", "Stairs", "HeightField", "Terrain"),
    "simulate.uneven": ("Uneven",),
    "closed_loop.block": ("Block",),
    "closed_loop.episode": ("Episode",),
    "closed_loop.loop": ("Loop",),
    "workbench.runs.recorder": ("Recorder",),
    "workbench.runs.run": ("Run", "read_run"),
    "workbench.runs.convert": ("export_run", "import_run"),
    "methods.control.lqr": ("lqr", "dlqr"),
    "methods.control.stance": ("stance", "Stance"),
    "methods.mpc.problem": ("ocp",),
    "methods.learn.env": ("VectorEnv",),
    "": ("blocks",),
    "methods": ("mpc",),
    "methods.planning": ("obstacles",),
    "apps": ("flight",),
    "workbench.connect": ("torch", "jax"),
    "workbench.view.window": ("open_window",),
    "workbench.view.notebook": ("show",),
    "workbench.view.picture": ("save_picture",),
    "workbench.view.video": ("save_video",),
    "errors": (
        "CondyleError",
        "CondyleWarning",
        "TraceError",
        "ShapeError",
        "BackendError",
        "RobotError",
        "SimulationError",
        "ControlError",
        "FileError",
        "MissingExtraError",
    ),
}
_MODULES = {name: f"condyle.{module}".rstrip(".") for module, names in _NAMES.items() for name in names}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    """The public object of this name, from its module."""
    if name not in _MODULES:
        raise AttributeError(f"module 'condyle' has no attribute '{name}'")
    module = import_module(_MODULES[name])
    known = None if module.__name__ == __name__ else getattr(module, name, None)
    value = globals()[name] = known or import_module(f"{module.__name__}.{name}")
    return value


def __dir__() -> list[str]:
    """The public names."""
    return sorted([*__all__, "__version__"])
