"""The quickest way to one state: machine code that reads NumPy's arrays itself, as a function of Python's own kind.

It looks at a tuple of arrays, and if they are float64, whole, and of the right shapes, hands their addresses to the kernel and
copies the one result. Anything else gives None, and the caller goes the long way. Where this Python or NumPy lays out its objects
in another way than expected (checked once), there is no such function.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from condyle.tape.backends.cpu import Kernel
    from condyle.tape.tape import Tape

DIMENSIONS = 3  # at most, of an argument
# bytes from the start of an object: of any, of a tuple, and of an array
TYPE, COUNT, ITEMS = 8, 16, 24
DATA, NDIM, SHAPE, DTYPE, FLAGS = 16, 24, 32, 56, 64
WHOLE = 0x101  # C-contiguous and aligned
ONE_ARGUMENT = 8  # METH_O

# words of the record: where everything is that the code needs
N, TUPLE, ARRAY, DOUBLE, RUN, COPY, NONE, CHECK, CALL, KEEP, PORTS, ARGUMENTS = range(12)

CODE = f"""
define ptr @call(ptr %self, ptr %tuple) {{
entry:
  %record.place = getelementptr i8, ptr %self, i64 {DATA}
  %record = load ptr, ptr %record.place
  %kind.place = getelementptr i8, ptr %tuple, i64 {TYPE}
  %kind = load i64, ptr %kind.place
  %tuple.kind.place = getelementptr i64, ptr %record, i64 {TUPLE}
  %tuple.kind = load i64, ptr %tuple.kind.place
  %is.tuple = icmp eq i64 %kind, %tuple.kind
  br i1 %is.tuple, label %counted, label %other
counted:
  %count.place = getelementptr i8, ptr %tuple, i64 {COUNT}
  %count = load i64, ptr %count.place
  %n = load i64, ptr %record
  %fits = icmp eq i64 %count, %n
  %array.place = getelementptr i64, ptr %record, i64 {ARRAY}
  %array = load i64, ptr %array.place
  %double.place = getelementptr i64, ptr %record, i64 {DOUBLE}
  %double = load i64, ptr %double.place
  %ports.place = getelementptr i64, ptr %record, i64 {PORTS}
  %ports = load ptr, ptr %ports.place
  br i1 %fits, label %head, label %other
head:
  %k = phi i64 [0, %counted], [%k.next, %stored]
  %more = icmp ult i64 %k, %n
  br i1 %more, label %look, label %run
look:
  %item.at = add i64 %k, {ITEMS // 8}
  %item.place = getelementptr i64, ptr %tuple, i64 %item.at
  %item = load ptr, ptr %item.place
  %item.kind.place = getelementptr i8, ptr %item, i64 {TYPE}
  %item.kind = load i64, ptr %item.kind.place
  %is.array = icmp eq i64 %item.kind, %array
  br i1 %is.array, label %inside, label %other
inside:
  %dtype.place = getelementptr i8, ptr %item, i64 {DTYPE}
  %dtype = load i64, ptr %dtype.place
  %is.double = icmp eq i64 %dtype, %double
  %flags.place = getelementptr i8, ptr %item, i64 {FLAGS}
  %flags = load i32, ptr %flags.place
  %bits = and i32 %flags, {WHOLE}
  %is.whole = icmp eq i32 %bits, {WHOLE}
  %wanted.at = mul i64 %k, {DIMENSIONS + 1}
  %wanted.word = add i64 %wanted.at, {ARGUMENTS}
  %wanted = getelementptr i64, ptr %record, i64 %wanted.word
  %ndim.wanted = load i64, ptr %wanted
  %ndim.place = getelementptr i8, ptr %item, i64 {NDIM}
  %ndim.short = load i32, ptr %ndim.place
  %ndim = sext i32 %ndim.short to i64
  %same.ndim = icmp eq i64 %ndim, %ndim.wanted
  %good.0 = and i1 %is.double, %is.whole
  %good = and i1 %good.0, %same.ndim
  br i1 %good, label %sizes, label %other
sizes:
  %shape.place = getelementptr i8, ptr %item, i64 {SHAPE}
  %shape = load ptr, ptr %shape.place
  br label %size
size:
  %d = phi i64 [0, %sizes], [%d.next, %next.size]
  %d.more = icmp ult i64 %d, %ndim
  br i1 %d.more, label %compare, label %stored
compare:
  %own.place = getelementptr i64, ptr %shape, i64 %d
  %own = load i64, ptr %own.place
  %d.next = add i64 %d, 1
  %size.place = getelementptr i64, ptr %wanted, i64 %d.next
  %size.wanted = load i64, ptr %size.place
  %same = icmp eq i64 %own, %size.wanted
  br i1 %same, label %next.size, label %other
next.size:
  br label %size
stored:
  %data.place = getelementptr i8, ptr %item, i64 {DATA}
  %data = load i64, ptr %data.place
  %k.twice = shl i64 %k, 1
  %port = add i64 %k.twice, 1
  %port.place = getelementptr i64, ptr %ports, i64 %port
  store i64 %data, ptr %port.place
  %k.next = add i64 %k, 1
  br label %head
run:
  %run.place = getelementptr i64, ptr %record, i64 {RUN}
  %kernel = load ptr, ptr %run.place
  call void %kernel(ptr %ports)
  %check.place = getelementptr i64, ptr %record, i64 {CHECK}
  %check = load ptr, ptr %check.place
  %unchecked = icmp eq ptr %check, null
  br i1 %unchecked, label %done, label %checked
checked:
  %value = load double, ptr %check
  %fine = fcmp oeq double %value, 0.0
  br i1 %fine, label %done, label %other
done:
  %call.place = getelementptr i64, ptr %record, i64 {CALL}
  %call = load ptr, ptr %call.place
  %copy.place = getelementptr i64, ptr %record, i64 {COPY}
  %copy = load ptr, ptr %copy.place
  %result = tail call ptr %call(ptr %copy)
  ret ptr %result
other:
  %none.place = getelementptr i64, ptr %record, i64 {NONE}
  %none = load ptr, ptr %none.place
  %keep.place = getelementptr i64, ptr %record, i64 {KEEP}
  %keep = load ptr, ptr %keep.place
  call void %keep(ptr %none)
  ret ptr %none
}}
"""


class _Record(np.ndarray):
    """The words of a function, and what must live as long as it does."""

    alive: tuple[Any, ...]


class _Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (("name", ctypes.c_char_p), ("code", ctypes.c_void_p), ("flags", ctypes.c_int), ("text", ctypes.c_char_p))


@cache
def _loaded() -> Any:
    """The engine that holds the code."""
    from condyle.tape.backends.cpu import loaded_text

    return loaded_text(CODE)


@cache
def _as_expected() -> bool:
    """Whether objects are laid out as the code has it."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED") or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    array, pair = np.zeros((3, 5)), (1.5, "x")

    def word(thing: object, at: int, kind: Any = ctypes.c_int64) -> int:
        return int(kind.from_address(id(thing) + at).value)

    shape = word(array, SHAPE)
    return (
        word(array, TYPE) == id(np.ndarray)
        and word(array, DATA) == array.ctypes.data
        and word(array, NDIM, ctypes.c_int32) == 2
        and [ctypes.c_int64.from_address(shape + 8 * k).value for k in range(2)] == [3, 5]
        and word(array, DTYPE) == id(np.dtype(np.float64))
        and word(array, FLAGS, ctypes.c_int32) == array.flags.num
        and array.flags.num & WHOLE == WHOLE
        and word(pair, TYPE) == id(tuple)
        and [word(pair, COUNT), word(pair, ITEMS), word(pair, ITEMS + 8)] == [2, id(pair[0]), id(pair[1])]
    )


def native_call(kernel: Kernel, tape: Tape, *, guarded: bool) -> Callable[[tuple[Any, ...]], Any] | None:
    """A function of a tuple of arrays that gives the tape's first output, or None for arrays it does not take.

    `guarded`: the last output is a check, and unless it is zero the answer is None too. None where there can be no such function.
    """
    if not _as_expected() or not all(0 < len(port.shape) <= DIMENSIONS for port in tape.inputs):
        return None
    from condyle.tape.single import frame

    _, outputs, ports, alive = frame(kernel, tape)
    none, copy, python = None, outputs[0].copy, ctypes.pythonapi
    words = [len(tape.inputs), id(tuple), id(np.ndarray), id(np.dtype(np.float64)), _address(kernel.single), id(copy), id(none)]
    words += [outputs[-1].ctypes.data if guarded else 0, _address(python.PyObject_CallNoArgs), _address(python.Py_IncRef), ports]
    for port in tape.inputs:
        words += [len(port.shape), *port.shape, *[0] * (DIMENSIONS - len(port.shape))]
    record = np.array(words, dtype=np.int64).view(_Record)
    method = _Method(b"condyle_kernel", _loaded().get_function_address("call"), ONE_ARGUMENT, None)
    make = python.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    # the function holds the record, and the record all that the code uses
    record.alive = (method, outputs, copy, alive, kernel, _loaded())
    function: Callable[[tuple[Any, ...]], Any] = make(ctypes.addressof(method), record, None)
    return function


def _address(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)
