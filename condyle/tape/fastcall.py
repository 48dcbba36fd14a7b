"""The fast path for one state: machine code that reads NumPy's arrays itself, as a built-in function of Python.

A general call spends its time on checks in Python. This one is written in LLVM: if the arguments are float64, contiguous and of
the right shapes (up to three axes), it hands their addresses to the kernel and makes new results; anything else gives None, and
the caller goes the general way.

The code reads objects of CPython and NumPy at fixed offsets; where `layout_is_known` finds others (another interpreter, free
threading) there is no fast path.

Results are made first, and the kernel writes into them. Making them may collect garbage, whose finalizers may call this function.
From then on Python's lock is held and no Python code runs until the kernel has ended; so one frame, which holds addresses and
scratch memory, serves all calls of a function.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from condyle.tape.backends.cpu import CpuKernel
    from condyle.tape.backends.interface import FastCall
    from condyle.tape.tape import Port

AXES = 3  # at most, of an argument
# bytes from the start of an object: of any object, of a tuple, of a float, of an array
TYPE, COUNT, ITEMS, VALUE = 8, 16, 24, 16
DATA, NDIM, SHAPE, DTYPE, FLAGS = 16, 24, 32, 56, 64
CONTIGUOUS = 0x101  # C-contiguous and aligned
ONE_ARGUMENT = 8  # METH_O

# the words of a record, which holds all that the code needs to know of one function; inputs and outputs follow
NUMBERS = ("inputs", "outputs", "tuple", "array", "double", "float", "number")
POINTERS = ("frame", "single", "check", "none", "tuple.type", "alloc", "new_like", "incref", "decref")
HEAD = NUMBERS + POINTERS
INPUT = 1 + AXES  # words of an input: number of axes, sizes; that of an output: an array like the result, or null for a number
NEW_LIKE = 277  # place of PyArray_NewLikeArray in the table of NumPy's C interface, which is the same in all versions


def _code() -> str:
    """LLVM text of `object call(record, tuple)`."""

    def field(name: str, kind: str, of: str, offset: int) -> str:
        return f"  %{name}.place = getelementptr i8, ptr %{of}, i64 {offset}\n  %{name} = load {kind}, ptr %{name}.place"

    loads = "\n".join(field(name, "i64" if name in NUMBERS else "ptr", "record", 8 * k) for k, name in enumerate(HEAD))
    return f"""
define ptr @call(ptr %self, ptr %arguments) {{
entry:
  %whole = alloca ptr
  store ptr null, ptr %whole
{field("record", "ptr", "self", DATA)}
{loads}
  %described = getelementptr i64, ptr %record, i64 {len(HEAD)}
  %templates.at = mul i64 %inputs, {INPUT}
  %templates = getelementptr i64, ptr %described, i64 %templates.at
{field("kind", "i64", "arguments", TYPE)}
  %is.tuple = icmp eq i64 %kind, %tuple
  br i1 %is.tuple, label %counted, label %other
counted:
{field("count", "i64", "arguments", COUNT)}
  %fits = icmp eq i64 %count, %inputs
  br i1 %fits, label %results, label %other

; the results: one, or a tuple of several
results:
  %alone = icmp eq ptr %tuple.type, null
  br i1 %alone, label %make, label %several
several:
  %items.whole = call ptr %alloc(ptr %tuple.type, i64 %outputs)
  store ptr %items.whole, ptr %whole
  %items = getelementptr i8, ptr %items.whole, i64 {ITEMS}
  %no.tuple = icmp eq ptr %items.whole, null
  br i1 %no.tuple, label %error, label %make
make:
  %slots = phi ptr [%whole, %results], [%items, %several]
  br label %making
making:
  %m = phi i64 [0, %make], [%m.next, %made]
  %m.more = icmp ult i64 %m, %outputs
  br i1 %m.more, label %new, label %head
new:
  %template.place = getelementptr ptr, ptr %templates, i64 %m
  %template = load ptr, ptr %template.place
  %new.is.number = icmp eq ptr %template, null
  br i1 %new.is.number, label %new.number, label %new.array
new.number:
  %number.type = inttoptr i64 %number to ptr
  %made.number = call ptr %alloc(ptr %number.type, i64 0)
  br label %made
new.array:
  %made.array = call ptr %new_like(ptr %template, i32 0, ptr null, i32 0)
  br label %made
made:
  %value = phi ptr [%made.number, %new.number], [%made.array, %new.array]
  %slot = getelementptr ptr, ptr %slots, i64 %m
  store ptr %value, ptr %slot
  %m.next = add i64 %m, 1
  %no.value = icmp eq ptr %value, null
  br i1 %no.value, label %error, label %making

; every argument: an array of the right shape, or a number
head:
  %k = phi i64 [0, %making], [%k.next, %stored]
  %more = icmp ult i64 %k, %inputs
  br i1 %more, label %look, label %outputs.begin
look:
  %item.at = add i64 %k, {ITEMS // 8}
  %item.place = getelementptr i64, ptr %arguments, i64 %item.at
  %item = load ptr, ptr %item.place
{field("item.kind", "i64", "item", TYPE)}
  %wanted.at = mul i64 %k, {INPUT}
  %wanted = getelementptr i64, ptr %described, i64 %wanted.at
  %ndim.wanted = load i64, ptr %wanted
  %is.array = icmp eq i64 %item.kind, %array
  br i1 %is.array, label %inside, label %scalar
scalar:
  %is.float = icmp eq i64 %item.kind, %float
  %is.number = icmp eq i64 %item.kind, %number
  %is.real = or i1 %is.float, %is.number
  %no.axes = icmp eq i64 %ndim.wanted, 0
  %is.scalar = and i1 %is.real, %no.axes
  %value.place = getelementptr i8, ptr %item, i64 {VALUE}
  br i1 %is.scalar, label %stored, label %other
inside:
{field("dtype", "i64", "item", DTYPE)}
  %is.double = icmp eq i64 %dtype, %double
{field("flags", "i32", "item", FLAGS)}
  %bits = and i32 %flags, {CONTIGUOUS}
  %is.contiguous = icmp eq i32 %bits, {CONTIGUOUS}
{field("ndim.short", "i32", "item", NDIM)}
  %ndim = sext i32 %ndim.short to i64
  %same.ndim = icmp eq i64 %ndim, %ndim.wanted
  %good.0 = and i1 %is.double, %is.contiguous
  %good = and i1 %good.0, %same.ndim
{field("shape", "ptr", "item", SHAPE)}
{field("data", "ptr", "item", DATA)}
  br i1 %good, label %size, label %other
size:
  %d = phi i64 [0, %inside], [%d.next, %compare]
  %d.next = add i64 %d, 1
  %d.more = icmp ult i64 %d, %ndim
  br i1 %d.more, label %compare, label %stored
compare:
  %own.place = getelementptr i64, ptr %shape, i64 %d
  %own = load i64, ptr %own.place
  %size.place = getelementptr i64, ptr %wanted, i64 %d.next
  %size.wanted = load i64, ptr %size.place
  %same = icmp eq i64 %own, %size.wanted
  br i1 %same, label %size, label %other
stored:
  %address = phi ptr [%value.place, %scalar], [%data, %size]
  %k.twice = shl i64 %k, 1
  %port = add i64 %k.twice, 1
  %port.place = getelementptr i64, ptr %frame, i64 %port
  store ptr %address, ptr %port.place
  %k.next = add i64 %k, 1
  br label %head

; every result: where its numbers lie
outputs.begin:
  %inputs.twice = shl i64 %inputs, 1
  %first.port = add i64 %inputs.twice, 1
  br label %output
output:
  %j = phi i64 [0, %outputs.begin], [%j.next, %result]
  %j.more = icmp ult i64 %j, %outputs
  br i1 %j.more, label %result, label %run
result:
  %result.place = getelementptr ptr, ptr %slots, i64 %j
  %to = load ptr, ptr %result.place
{field("to.kind", "i64", "to", TYPE)}
  %to.value = getelementptr i8, ptr %to, i64 {VALUE}
{field("to.data", "ptr", "to", DATA)}
  %to.number = icmp eq i64 %to.kind, %number
  %to.address = select i1 %to.number, ptr %to.value, ptr %to.data
  %j.twice = shl i64 %j, 1
  %to.port = add i64 %j.twice, %first.port
  %to.place = getelementptr i64, ptr %frame, i64 %to.port
  store ptr %to.address, ptr %to.place
  %j.next = add i64 %j, 1
  br label %output
run:
  call void %single(ptr %frame)
  %unchecked = icmp eq ptr %check, null
  br i1 %unchecked, label %done, label %verify
verify:
  %residue = load double, ptr %check
  %fine = fcmp oeq double %residue, 0.0
  br i1 %fine, label %done, label %other
done:
  %given = load ptr, ptr %whole
  ret ptr %given
other:
  %refused = load ptr, ptr %whole
  call void %decref(ptr %refused)
  call void %incref(ptr %none)
  ret ptr %none
error:
  %partial = load ptr, ptr %whole
  call void %decref(ptr %partial)
  ret ptr null
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
    from condyle.tape.backends.cpu import host, load_object, object_code

    return load_object(object_code(f'target triple = "{host().triple}"\n{_code()}'))


@cache
def layout_is_known() -> bool:
    """Whether objects are laid out as the code has it."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED") or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    array, pair, numbers = np.zeros((3, 5)), (1.5, "x"), (2.5, np.float64(2.5))

    def word(thing: object, at: int, kind: Any = ctypes.c_int64) -> Any:
        return kind.from_address(id(thing) + at).value

    shape = word(array, SHAPE)
    return (
        word(array, TYPE) == id(np.ndarray)
        and word(array, DATA) == array.ctypes.data
        and word(array, NDIM, ctypes.c_int32) == 2
        and [ctypes.c_int64.from_address(shape + 8 * k).value for k in range(2)] == [3, 5]
        and word(array, DTYPE) == id(np.dtype(np.float64))
        and word(array, FLAGS, ctypes.c_int32) == array.flags.num
        and array.flags.num & CONTIGUOUS == CONTIGUOUS
        and word(pair, TYPE) == id(tuple)
        and [word(pair, COUNT), word(pair, ITEMS), word(pair, ITEMS + 8)] == [2, id(pair[0]), id(pair[1])]
        and [word(x, VALUE, ctypes.c_double) for x in numbers] == [2.5, 2.5]
        and [word(x, TYPE) for x in numbers] == [id(float), id(np.float64)]
    )


@cache
def _new_like() -> int:
    """The address of PyArray_NewLikeArray(prototype, order, type, subclass), which makes a new array without numbers."""
    table = import_module("numpy._core._multiarray_umath")._ARRAY_API
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address: int = ctypes.c_int64.from_address(pointer(table, None) + 8 * NEW_LIKE).value
    return address


def frame(kernel: CpuKernel) -> tuple[np.ndarray, list[np.ndarray], np.ndarray]:
    """(scratch, (address, 0) of every port ... as the kernel's `single` reads them; arrays like the outputs; scratch memory).

    Of what has any number of rows, one row is taken.
    """
    from condyle.tape.backends.cpu import aligned_memory

    outputs = [np.zeros(_one_row(port)) for port in kernel.tape.outputs]
    scratch = aligned_memory(kernel.scratch)
    places = [0] * len(kernel.tape.inputs) + [a.ctypes.data for a in outputs]
    return np.array([scratch.ctypes.data, *[n for p in places for n in (p, 0)], 1], dtype=np.int64), outputs, scratch


def _one_row(port: Port) -> tuple[int, ...]:
    return (1, *port.shape[1:]) if port.run_time else port.shape


def fast_call(kernel: CpuKernel, result: type | None, *, guarded: bool) -> FastCall | None:
    """A function of a tuple of arguments that gives what `Kernel.fast_call` says; None where there can be no such function."""
    inputs: Sequence[Port] = kernel.tape.inputs
    if not layout_is_known() or any(len(port.shape) > AXES for port in inputs):
        return None
    words, buffers, scratch = frame(kernel)
    results = buffers[: len(buffers) - guarded]
    if result is None and len(results) > 1:
        result = tuple
    python = ctypes.pythonapi
    head = {
        "inputs": len(inputs),
        "outputs": len(results),
        "tuple": id(tuple),
        "array": id(np.ndarray),
        "double": id(np.dtype(np.float64)),
        "float": id(float),
        "number": id(np.float64),
        "frame": words.ctypes.data,
        "single": _address(kernel.single),
        "check": buffers[-1].ctypes.data if guarded else 0,
        "none": id(None),
        "tuple.type": 0 if result is None else id(result),
        "alloc": _address(python.PyType_GenericAlloc),
        "new_like": _new_like(),
        "incref": _address(python.Py_IncRef),
        "decref": _address(python.Py_DecRef),
    }
    axes = [n for port in inputs for n in (len(port.shape), *_one_row(port), *[0] * (AXES - len(port.shape)))]
    templates = [id(a) if a.ndim else 0 for a in results]
    record = np.array([*[head[name] for name in HEAD], *axes, *templates], dtype=np.int64).view(_Record)
    method = _Method(b"condyle_kernel", _loaded().get_function_address("call"), ONE_ARGUMENT, None)
    make = python.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    # the function holds the record, and the record all that the code uses
    record.alive = (method, words, buffers, scratch, result, kernel, _loaded())
    function: FastCall = make(ctypes.addressof(method), record, None)
    return function


def _address(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)
