"""Divisions and square roots without branches against those that round by definition, on an NVIDIA GPU.

    python -m benchmarks.gpu_roots

Reciprocals and roots in float32 for all 2^32 numbers, in float64 for as many at random, of all exponents, and so many random
quotients. Counted are the numbers within the bounds of
condyle/tape/lean.py, and those of them with another bit, of which there must be none.
"""

from __future__ import annotations

import struct

import numpy as np

from condyle.errors import BackendError
from condyle.tape.cuda_driver import Buffer, Code, Device, device
from condyle.tape.lean import BOUNDS
from condyle.tape.ptx import ENTRY, VERSION
from condyle.tape.ptx_writer import REGISTERS, PtxWriter

BLOCKS, THREADS, NUMBERS = 1 << 20, 256, 16  # numbers of each thread
# splitmix64 (Steele, Lea and Flood 2014)
MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, None))


def kernel_text(name: str, precision: str, sm: int) -> str:
    """PTX of a kernel that adds to two counters: how many numbers are within the bounds, and how many of them differ."""
    w = PtxWriter(precision, 1)
    counters = w.put("ld.param.u64 {r}, [ports];", "b64")
    ids = [w.put(f"mov.u32 {{r}}, {each};", "b32") for each in ("%ctaid.x", "%ntid.x", "%tid.x")]
    thread = w.put(f"mad.lo.u32 {{r}}, {ids[0]}, {ids[1]}, {ids[2]};", "b32")
    wide = w.put(f"cvt.u64.u32 {{r}}, {thread};", "b64")
    first = w.put(f"mul.lo.u64 {{r}}, {wide}, {NUMBERS};", "b64")
    word = f"b{8 * w.bytes}"

    def random_number(index: str, stream: int) -> str:
        bits = w.put(f"mad.lo.u64 {{r}}, {index}, {0x9E3779B97F4A7C15}, {stream};", "b64")
        for shift, factor in MIX:
            bits = w.put(f"xor.b64 {{r}}, {bits}, {w.put(f'shr.u64 {{r}}, {bits}, {shift};', 'b64')};", "b64")
            bits = bits if factor is None else w.put(f"mul.lo.u64 {{r}}, {bits}, {factor};", "b64")
        bits = bits if precision == "f64" else w.put(f"cvt.u32.u64 {{r}}, {bits};", "b32")
        return w.put(f"mov.{word} {{r}}, {bits};", precision)

    def compared(k: str) -> None:
        index = w.put(f"add.u64 {{r}}, {first}, {k};", "b64")
        if precision == "f32" and name != "x / y":
            x = w.put(f"mov.b32 {{r}}, {w.put(f'cvt.u32.u64 {{r}}, {index};', 'b32')};", "f32")
        else:
            x = random_number(index, 1)
        operands = {"1 / x": [w.number(1.0), x], "x / y": [x, random_number(index, 2)], "sqrt(x)": [x]}[name]
        op = "sqrt" if name == "sqrt(x)" else "div"
        fast, exact = w.operation(op, operands, fast=True), w.operation(op, operands)
        within = within_bounds(w, name, operands, fast)
        both = [w.put(f"mov.{word} {{r}}, {y};", word) for y in (fast, exact)]
        other = w.put(f"setp.ne.u{8 * w.bytes} {{r}}, {both[0]}, {both[1]};", "pred")
        w.do(f"@{within} red.global.add.u64 [{counters}], 1;")
        w.do(f"@{w.operation('and', [within, other])} red.global.add.u64 [{counters}+8], 1;")

    w.counted(NUMBERS, compared)
    registers = [f".reg .{kind} {REGISTERS[kind]}<{n + 1}>;" for kind, n in w.counts.items()]
    head = [f".version {VERSION}", f".target sm_{sm}", ".address_size 64"]
    entry = f".visible .entry {ENTRY}(.param .align 8 .b8 ports[24], .param .u64 states, .param .u64 rows)"
    return "\n".join([*head, entry, "{", *registers, *w.lines, "ret;", "}"]) + "\n"


def within_bounds(w: PtxWriter, name: str, operands: list[str], found: str) -> str:
    """Whether a number is within the bounds, as condyle/tape/lean.py compares it."""
    bounds = BOUNDS[w.type]

    def least(bound: float, x: str, *equal: str) -> str:
        large = w.operation("le", [w.number(bound), w.operation("abs", [x])])
        return w.operation("or", [large, w.operation("eq", list(equal))]) if equal else large

    if name == "1 / x":
        return least(bounds.reciprocal, found)
    if name == "sqrt(x)":
        positive = w.operation("le", [w.number(0.0), found])
        return w.operation("and", [positive, least(bounds.root, found, operands[0], w.number(0.0))])
    a, b = operands
    checks = [least(bounds.numerator, a, a, w.number(0.0)), least(bounds.quotient, found, found, a)]
    small = w.operation("le", [w.operation("abs", [b]), w.number(bounds.denominator)])
    return w.operation("and", [small, w.operation("and", checks)])


def counted(name: str, precision: str, on: Device) -> tuple[int, int]:
    """(numbers within the bounds, those of them whose bits differ)."""
    code = Code(on, on.compiled(kernel_text(name, precision, on.capability), 3), ENTRY)
    counters, found = Buffer(on, 16), np.zeros(2, np.uint64)
    counters.fill(found)
    code.launch(BLOCKS, THREADS, struct.pack("<3q", counters.address, 0, 0), (0, 0))
    counters.read(found)
    return int(found[0]), int(found[1])


def main() -> None:
    """Print a line for each operation and precision."""
    on = device(0)
    for precision in ("f32", "f64"):
        for name in ("1 / x", "x / y", "sqrt(x)"):
            within, other = counted(name, precision, on)
            print(
                f"{name:8} {precision}: {within:,} of {BLOCKS * THREADS * NUMBERS:,} within the bounds, {other:,} differ",
                flush=True,
            )


if __name__ == "__main__":
    try:
        main()
    except BackendError as error:
        raise SystemExit(str(error)) from None
