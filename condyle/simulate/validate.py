"""Checks of numbers and arrays that users pass: finite floats, arrays of one precision, or an error that says what was wanted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from condyle.errors import SimulationError
from condyle.tape.array import array
from condyle.tape.compose import any_traced
from condyle.tape.device import beside, joined, on_device, repeated
from condyle.tape.scalar import caller

WEAKEST = np.dtype(np.float32)  # of arrays that were not given: the others decide the precision


def finite(what: str, name: str, given: Any) -> float:
    """The finite number given as `name` of `what`."""
    try:
        number = math.nan if isinstance(given, (str, bytes)) else float(given)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise SimulationError(f"{what}: {name} must be a finite number, got {given!r:.60}")
    return number


def finites(what: str, name: str, given: Any, count: int) -> tuple[float, ...]:
    """The `count` finite numbers given as `name` of `what`."""
    try:
        entries = list(given)
    except TypeError:
        entries = []
    if len(entries) != count:
        raise SimulationError(f"{what}: {name} must be {count} finite numbers, got {given!r:.60}")
    return tuple(finite(what, f"{name}[{i}]", x) for i, x in enumerate(entries))


def not_negative(what: str, name: str, given: Any) -> float:
    """The finite number from zero up given as `name` of `what`."""
    number = finite(what, name, given)
    if number < 0.0:
        raise SimulationError(f"{what}: {name} must not be negative, got {number!r}")
    return number


def positive(what: str, name: str, given: Any) -> float:
    """The finite number above zero given as `name` of `what`."""
    number = finite(what, name, given)
    if number <= 0.0:
        raise SimulationError(f"{what}: {name} must be greater than zero, got {number!r}")
    return number


def integer(what: str, name: str, given: Any, minimum: int) -> int:
    """The whole number from `minimum` up given as `name` of `what`."""
    number = finite(what, name, given)
    if number != int(number) or number < minimum:
        raise SimulationError(f"{what}: {name} must be a whole number from {minimum} up, got {given!r:.60}")
    return int(number)


def assign(instance: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass while it is made."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)


def array_of(what: str, given: Any, size: int) -> np.ndarray:
    """The array given as `what`, of traced values, float32 or else float64, with `size` entries in its last axis."""
    if on_device((given,)):  # it stays where it is
        if given.ndim < 1 or given.shape[-1] != size:
            raise SimulationError(f"{what} must have {size} entries in its last axis, got shape {tuple(given.shape)}")
        return given  # type: ignore[no-any-return]
    try:
        single = getattr(given, "dtype", None) == np.float32
        out = array(given) if any_traced((given,)) else np.asarray(given, np.float32 if single else np.float64)
    except (TypeError, ValueError):
        raise SimulationError(f"{what} must be an array of numbers, got {given!r:.60}") from None
    if out.ndim < 1 or out.shape[-1] != size:
        raise SimulationError(f"{what} must have {size} entries in its last axis, got shape {out.shape}")
    return out


def batch_axes(what: str, **shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The batch axes of arrays that belong together."""
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        given = " and ".join(f"{name} has {shape}" for name, shape in shapes.items())
        raise SimulationError(f"{what}: the batch axes do not fit each other: {given}") from None


def wrench_arrays(what: str, frames: tuple[str, ...], wrenches: Any) -> tuple[Any, ...]:
    """() for a simulation without wrenches, else one array (..., frames, 6); frames that are not named have none."""
    if not frames:
        if wrenches is not None:
            raise SimulationError('this simulation takes no wrenches; name their frames when it is made: wrenches="frame"')
        return ()
    if wrenches is None:
        return (np.zeros((len(frames), 6), WEAKEST),)
    if isinstance(wrenches, Mapping):
        return (_named_wrenches(what, frames, wrenches),)
    given = array_of(f"{what}: wrenches", wrenches, 6)
    if given.shape[-2:] != (len(frames), 6):
        raise SimulationError(
            f"wrenches must have the shape (..., {len(frames)}, 6), force then torque per frame; got {given.shape}"
        )
    return (given,)


def _named_wrenches(what: str, frames: tuple[str, ...], wrenches: Mapping[str, Any]) -> np.ndarray:
    for name in wrenches:
        if name not in frames:
            raise SimulationError(f"this simulation takes wrenches at {', '.join(frames)}, not at {name!r:.60}")
    given = {name: array_of(f"{what}: the wrench at '{name}'", value, 6) for name, value in wrenches.items()}
    lead = batch_axes(what, **{name: tuple(value.shape[:-1]) for name, value in given.items()})
    if (there := next((value for value in given.values() if on_device((value,))), None)) is not None:
        rows = [repeated(beside(there, given.get(name, np.zeros(6))), (*lead, 6))[..., None, :] for name in frames]
        return joined(rows, -2)  # type: ignore[no-any-return]
    dtype = object if any_traced(given.values()) else np.result_type(WEAKEST, *given.values())
    out = np.zeros((*lead, len(frames), 6), dtype)
    for name, value in given.items():
        out[..., frames.index(name), :] = value
    return out


def in_one_precision(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arrays in float32 if all are, else in float64; as they are inside a trace."""
    if any_traced(arrays) or on_device(arrays):
        return arrays
    dtype = np.result_type(*arrays)
    return tuple([a.astype(dtype, copy=False) for a in arrays])


def default_options(on: tuple[str, int | None, int | None]) -> tuple[str, int | None, int | None]:
    """(backend, lanes, threads) of a call inside a trace, which must be the default ones."""
    if on != ("cpu", None, None):
        raise SimulationError(
            f"{caller()}: backend, lanes and threads have no meaning inside a trace; give them to the function that is traced"
        )
    return on
