"""The arguments of a loop's calls, checked: states, references, whole numbers, keys of random numbers."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from threading import get_ident
from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.robot.names import nearest
from condyle.tape.device import joined, library_of, on_device, precision_of

References = Mapping[str, Any] | Any
Inputs = dict[str, tuple[int, ...]]
TAKEN = ("x", "q", "v", "t", "tick", "count", "clock", "seed", "robot", "residual")  # names that no reference can have


def state_array(x: Any, layout: Mapping[str, tuple[slice, tuple[int, ...]]]) -> np.ndarray:
    """States as an array of float32, or else of float64."""
    count = max(where.stop for where, _ in layout.values())
    device = on_device((x,))
    try:
        given = x if device else np.asarray(x)
        given = given if device or given.dtype == np.float32 else given.astype(float, copy=False)
    except (TypeError, ValueError):
        raise ControlError(f"x must be an array of numbers, got {x!r:.60}") from None
    if given.ndim < 1 or given.shape[-1] != count:
        raise ControlError(
            f"x must have {count} entries in its last axis ({', '.join(layout)}), got shape {tuple(given.shape)}; make it with "
            "loop.state(q, v)"
        )
    return given


def references_of(inputs: Inputs, references: References) -> dict[str, np.ndarray]:
    """{name: array} of the references of a call, which may be the array alone if there is one."""
    if not inputs:
        if references is not None and not (isinstance(references, Mapping) and not references):
            raise ControlError("the loop's function has no references; give None")
        return {}
    if not isinstance(references, Mapping):
        if references is None or len(inputs) > 1:
            raise ControlError(f"give the references as a dict with {', '.join(inputs)}")
        references = {next(iter(inputs)): references}
    for name in references:
        if name not in inputs:
            raise ControlError(f"the loop has no reference '{name!s:.60}'{nearest(name, list(inputs))}")
    missing = [name for name in inputs if name not in references]
    if missing:
        raise ControlError(f"the reference '{missing[0]}' is missing; the loop has {', '.join(inputs)}")
    found = {}
    for name, (size,) in inputs.items():
        try:
            value = references[name]
            value = value if on_device((value,)) else np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            raise ControlError(f"reference '{name}' must be an array of numbers, got {references[name]!r:.60}") from None
        if value.ndim < 1 or value.shape[-1] != size:
            raise ControlError(f"reference '{name}' has {size} entries in its last axis, got shape {tuple(value.shape)}")
        found[name] = value
    return found


def reference_shape(name: str, size: Any) -> tuple[int, ...]:
    """The shape of a reference."""
    if name in TAKEN:
        raise ControlError(f"a reference cannot be called '{name}', which is part of the state or of a call; {name}_ref is free")
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
        raise ControlError(f"reference '{name}' needs its number of entries, as in command=3; got {size!r:.60}")
    return (int(size),)


def check_arguments(function: Callable[..., Any], names: list[str]) -> None:
    """Raise a ControlError if the function does not take x and these references."""
    try:
        inspect.signature(function).bind(None, **dict.fromkeys(names))
    except TypeError as error:
        raise ControlError(f"the loop's function must take (x{''.join(f', {name}' for name in names)}): {error}") from None
    except ValueError:
        return


def whole_number(name: str, value: Any, minimum: int) -> int:
    """The whole number given as `name`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < minimum:
        raise ControlError(f"{name} must be a whole number from {minimum} up, got {value!r:.60}")
    return int(value)


def rows_of(given: dict[str, np.ndarray], steps: int | None, every: int) -> tuple[int, dict[str, np.ndarray], int]:
    """(number of ticks, references with one and the same number of rows, ticks that each row is held)."""
    lengths = {name: value.shape[-2] if value.ndim > 1 else 1 for name, value in given.items()}
    longest = max(lengths.values(), default=1)
    count = whole_number("steps", longest if steps is None else steps, 1)
    # what is constant changes with the records
    rows = longest if longest > 1 else count // every if count % every == 0 else count
    if any(n not in (1, longest) for n in lengths.values()) or count % rows:
        raise ControlError(
            f"references of {', '.join(map(str, sorted(set(lengths.values()))))} rows do not fit {count} ticks: rows must be "
            "equally many, or one, and steps a multiple of them"
        )
    found = {}
    for name, value in given.items():
        value = value if value.ndim > 1 else value[None, :]
        shape = (*value.shape[:-2], rows, value.shape[-1])
        found[name] = library_of(value).repeated(value, shape) if on_device((value,)) else np.broadcast_to(value, shape)
    return count, found, count // rows


def as_precise_as(x: np.ndarray, arrays: dict[str, Any]) -> dict[str, Any]:
    """The arrays in the precision of the states, which decide in what precision a call computes."""
    if on_device(arrays.values()):
        return arrays  # those of the processor are moved and rounded on the way
    return {name: value.astype(x.dtype, copy=False) for name, value in arrays.items()}


def halves(name: str, value: Any) -> np.ndarray:
    """Words as their upper and lower halves, which are exact in every precision."""
    if on_device((value,)):  # nothing waits for the numbers
        return joined([(value >> 16)[..., None], (value & 0xFFFF)[..., None]], -1)  # type: ignore[no-any-return]
    given = np.asarray(value)
    if given.dtype.kind not in "iu" or np.any(given < 0) or np.any(given >= 2**32):
        raise ControlError(f"{name} must be whole numbers from 0 to 2^32 - 1, got {value!r:.60}")
    words = given.astype(np.uint64)
    return np.stack([words >> np.uint64(16), words & np.uint64(0xFFFF)], axis=-1).astype(float)


class DeviceKeys:
    """The keys of noise on a GPU; those of the last call of a thread on a stream are kept, so that the next one moves none."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Any, Any]] = {}

    def __call__(self, x: Any, lead: tuple[int, ...], keys: Mapping[str, Any]) -> dict[str, Any]:
        """{name: upper and lower halves} beside the states x; robots that are not given have their positions in the batch."""
        library, precision = library_of(x), precision_of(x)
        found = {}
        for name, value in keys.items():
            if on_device((value,)):
                found[name] = library.cast(halves(name, value), precision)
                continue
            numbers = None if value is None else np.asarray(value)
            shape, data = (None, None) if numbers is None else (numbers.shape, numbers.tobytes())
            same = (library, library.stream, get_ident(), precision, lead, shape, data)
            kept = self._kept.get(name)
            if kept is None or kept[0] != same:
                numbers = np.arange(math.prod(lead)).reshape(lead) if numbers is None else numbers
                kept = self._kept[name] = (same, library.own(library.moved(halves(name, numbers), precision)))
            found[name] = kept[1]
        return found
