"""Arguments of a call: named or positional arrays, checked, broadcast over the batch, and laid out as rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from condyle.errors import ShapeError
from condyle.tape.tape import Port, Tape

Dtype = np.dtype[Any]
_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


class Arguments:
    """The calling convention of a tape."""

    def __init__(self, tape: Tape) -> None:
        self.name = tape.name
        self.ports, self.results = tape.inputs, tape.outputs

    def bind(
        self, args: tuple[Any, ...], named: dict[str, Any], *, objects: bool
    ) -> tuple[list[np.ndarray], tuple[int, ...], Dtype]:
        """(one array of rows per input, batch axes, dtype)."""
        values = self._match(args, named) if named or len(args) != len(self.ports) else list(args)
        if not objects and (quick := self._contiguous(values)) is not None:
            return quick
        single = bool(values) and all(isinstance(v, (np.ndarray, np.float32)) and v.dtype == np.float32 for v in values)
        dtype = np.dtype(object) if objects else _FLOATS[1] if single else _FLOATS[0]
        arrays = [self._array(port, value, dtype) for port, value in zip(self.ports, values, strict=True)]
        leads = [a.shape[: a.ndim - len(p.shape)] for a, p in zip(arrays, self.ports, strict=True)]
        try:
            lead = np.broadcast_shapes(*leads)
        except ValueError:
            given = ", ".join(f"{p.name} {lead}" for p, lead in zip(self.ports, leads, strict=True))
            raise ShapeError(f"{self.name}: the batch axes of the inputs do not fit each other: {given}") from None
        return [_rows(a, own, lead, p) for a, own, p in zip(arrays, leads, self.ports, strict=True)], lead, dtype

    def _contiguous(self, values: list[Any]) -> tuple[list[np.ndarray], tuple[int, ...], Dtype] | None:
        """What `bind` gives when every value is a contiguous array of one float type, with the same single batch axis or none."""
        dtype, count, rows = None, None, []
        for value, port in zip(values, self.ports, strict=True):
            if type(value) is not np.ndarray or not value.flags.c_contiguous or (dtype or value.dtype) is not value.dtype:
                return None
            dtype = value.dtype
            if value.shape[1:] == port.shape and value.ndim == 1 + len(port.shape) and count in (None, len(value)):
                count = len(value)
                rows.append(value.reshape(count, port.size))
            else:
                return None
        return (rows, (count,), dtype) if count is not None and dtype in _FLOATS else None

    def outputs(self, lead: tuple[int, ...], dtype: Dtype, out: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
        """One array of rows per output: new ones, or views of what the caller passed."""
        rows = math.prod(lead)
        if out is None:
            return [np.empty((rows, p.size), dtype) for p in self.results]
        given = [out] if isinstance(out, np.ndarray) else list(out)
        if len(given) != len(self.results):
            raise ShapeError(f"{self.name}: `out` needs {len(self.results)} arrays, one per output, got {len(given)}")
        views = []
        for port, array in zip(self.results, given, strict=True):
            wanted = (*lead, *port.shape)
            if not isinstance(array, np.ndarray) or array.shape != wanted or array.dtype != dtype:
                what = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
                raise ShapeError(f"{self.name}: out array for '{port.name}' must be {dtype} of shape {wanted}, got {what}")
            if not array.flags.c_contiguous or not array.flags.writeable:
                raise ShapeError(f"{self.name}: out array for '{port.name}' must be writeable and C-contiguous")
            if any(np.may_share_memory(array, x) for x in inputs):
                raise ShapeError(f"{self.name}: out array for '{port.name}' shares memory with an input; pass a separate array")
            views.append(array.reshape(rows, port.size))
        return views

    def shaped(self, outputs: list[np.ndarray], lead: tuple[int, ...], out: Any) -> list[Any]:
        """The outputs as the caller sees them: batch axes, then the shape of the port."""
        if out is not None:
            return [out] if isinstance(out, np.ndarray) else list(out)
        shaped = [a.reshape((*lead, *p.shape)) for a, p in zip(outputs, self.results, strict=True)]
        return [a[()] if a.ndim == 0 else a for a in shaped]

    def _match(self, args: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        names = [p.name for p in self.ports]
        if len(args) > len(names):
            raise ShapeError(f"{self.name} takes {len(names)} arrays ({', '.join(names)}), got {len(args)}")
        values = dict(zip(names, args, strict=False))
        for name, value in named.items():
            if name not in names:
                raise ShapeError(f"{self.name} has no input '{name}'; its inputs are {', '.join(names)}")
            if name in values:
                raise ShapeError(f"{self.name}: input '{name}' was given twice")
            values[name] = value
        missing = [name for name in names if name not in values]
        if missing:
            raise ShapeError(f"{self.name} needs the input '{missing[0]}'; its inputs are {', '.join(names)}")
        return [values[name] for name in names]

    def _array(self, port: Port, value: Any, dtype: Dtype) -> np.ndarray:
        try:
            array = np.asarray(value)
            if array.dtype.kind not in "fiuO" or (array.dtype.kind == "O" and any(x is None for x in array.flat)):
                raise TypeError
            array = array.astype(dtype, copy=False)
        except (TypeError, ValueError):
            raise ShapeError(f"{self.name}: input '{port.name}' must be an array of real numbers, got {value!r:.60}") from None
        core = array.shape[array.ndim - len(port.shape) :] if array.ndim >= len(port.shape) else None
        if core != port.shape:
            batch = f"(..., {', '.join(map(str, port.shape))})" if port.shape else "of any shape"
            raise ShapeError(
                f"{self.name}: input '{port.name}' has shape {array.shape}, expected {port.shape} or a batch {batch}"
            )
        return array


def _rows(array: np.ndarray, own: tuple[int, ...], lead: tuple[int, ...], port: Port) -> np.ndarray:
    """The array as (rows, size), entries of a row side by side; one row with stride 0 when the input is not batched."""
    rows = math.prod(lead)
    if math.prod(own) == 1 and array.size:
        row = np.ascontiguousarray(array).reshape(1, port.size)
        return row if rows == 1 else np.broadcast_to(row, (rows, port.size))
    if own != lead:
        array = np.broadcast_to(array, (*lead, *port.shape))
    flat = array.reshape(rows, port.size)
    packed = flat.strides[1] == flat.itemsize or port.size == 1
    return flat if packed and flat.strides[0] >= 0 else np.ascontiguousarray(flat)
