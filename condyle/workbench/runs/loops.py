"""What a run keeps of a closed loop, and how loops that Condyle makes are built again from their names and options.

A file never holds code: it names one of the functions below, which are given the simulation, the first state and plain options.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any

import numpy as np

from condyle.closed_loop.loop import Loop
from condyle.errors import FileError, SimulationError
from condyle.registered import LOOPS, registered
from condyle.simulate.simulation import Simulation
from condyle.workbench.runs.json_codec import DecodeError, build, encode, printable
from condyle.workbench.runs.signals import extra_names

OPEN = "parameters."  # begins the names of signals that are parameters of the world for one tick
CLOCK = "clock."  # begins the names of signals that come from the clock of the computer, which no replay computes again
_builders: dict[str, Callable[..., Loop]] = {}


@dataclass(frozen=True)
class LoopData:
    """The data of a loop in a run: names and shapes of its further states, names of references, keys of noise, parameters."""

    states: tuple[tuple[str, tuple[int, ...]], ...]
    references: tuple[str, ...]
    robot: int
    parameters: dict[str, Any]
    episodes: bool
    built_in: str | None
    options: dict[str, Any]


def data_of(loop: Loop, robot: int, parameters: dict[str, Any]) -> Any:
    """The data of a loop as JSON."""
    states = tuple((name, shape) for name, (_, shape) in loop.layout.items() if name not in ("q", "v"))
    name, options = (None, {}) if loop.built_in is None else loop.built_in
    data = LoopData(states, tuple(loop.inputs), robot, parameters, loop.episode is not None, name, options)
    return encode(data, "loop")


def state_columns(loop: Loop) -> list[list[str]]:
    """[name, unit] of each entry of the states of blocks."""
    found = [(name, shape) for name, (_, shape) in loop.layout.items() if name not in ("q", "v")]
    return [[each, ""] for name, shape in found for each in extra_names(name, shape)]


def plant(loop: Loop) -> Simulation:
    """The simulation of a loop's robot alone, which takes the wrenches that the loop gives."""
    world = loop.world
    if world is None:
        raise SimulationError("a run needs a robot, and this loop has none; use loop.rollout(..., record=[...])")
    frames = loop.plan.wrenches
    if world.config.wrenches == frames:
        return world
    return Simulation.from_config(world.robot, replace(world.config, wrenches=frames), world.threads)


def built_in(name: str) -> Callable[[Callable[..., Loop]], Callable[..., Loop]]:
    """A decorator for functions (simulation, x0, **options) -> Loop: runs of the loop name it, with its options.

    The module is an entry point of "condyle.loops" with this name, so that a run finds it.
    """

    def decorated(make: Callable[..., Loop]) -> Callable[..., Loop]:
        @wraps(make)
        def made(simulation: Simulation, x0: Any, **options: Any) -> Loop:
            loop = make(simulation, x0, **options)
            loop.built_in = name, options
            return loop

        _builders[name] = made
        return made

    return decorated


def loop_of(data: LoopData, simulation: Simulation, x0: np.ndarray, where: str) -> Loop:
    """The loop that a run names; a FileError if Condyle has none of that name, or not with these options."""
    name = str(data.built_in)
    if name not in registered(LOOPS):
        raise FileError(f"{where} names the loop '{printable(name)[:60]}', which this Condyle does not have: pass the loop.")
    registered(LOOPS)[name].load()
    try:
        return build("the loop", lambda: _builders[name](simulation, x0, **data.options))
    except DecodeError as error:
        raise FileError(f"{where}: its loop cannot be built, {printable(str(error))}; pass the loop.") from error


def open_loop(simulation: Simulation, parameters: dict[str, tuple[int, ...]]) -> Loop:
    """The robot under given controls, wrenches and parameters of each tick; each parameter is a reference."""
    frames = simulation.config.wrenches
    sizes = {f"p{k}": max(math.prod(shape), 1) for k, shape in enumerate(parameters.values())}

    def control(x: Any, u: Any, wrenches: Any = None, **given: Any) -> dict[str, Any]:
        values = {
            name: given[f"p{k}"].reshape(shape) if shape else given[f"p{k}"][0]
            for k, (name, shape) in enumerate(parameters.items())
        }
        pushed: dict[str, Any] = {}
        for k, (frame, axes) in enumerate(frames):
            pushed.setdefault(frame, []).append((wrenches[6 * k : 6 * k + 6], axes))
        return {"u": u[: simulation.nu], "wrenches": pushed, "parameters": values}

    inputs: dict[str, Any] = {"u": max(simulation.nu, 1), **({"wrenches": 6 * len(frames)} if frames else {}), **sizes}
    return Loop(simulation, control, **inputs)
