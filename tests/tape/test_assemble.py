"""Straight blocks in assembly: the bits of the reference for every width of register, whatever is alive at once."""

from __future__ import annotations

import hashlib
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markers import slow_except
from processors import elsewhere
from tape.evaluation import computed, reference
from tape.random_tapes import inputs_from, same_bits

import condyle as cd
from condyle.tape.array import where
from condyle.tape.assemble import SUPPORTED, Registers, supported
from condyle.tape.backends import cpu
from condyle.tape.ir_writer import VectorType
from condyle.tape.llvm import kernel_ir
from condyle.tape.ops import BOOL, OPS
from condyle.tape.passes import lower
from condyle.tape.scalar import compare, emit
from condyle.tape.tape import Tape

WIDTHS = [("f64", 1), ("f64", 2), ("f64", 4), ("f64", 8), ("f32", 1), ("f32", 4), ("f32", 8), ("f32", 16)]
DTYPE = {"f64": "float64", "f32": "float32"}
ALL = {"straight": 0, "straight_one_lane": 0, "straight_per_result": 0}


def assembled(lowered: Tape, precision: str, lanes: int) -> cpu.CpuKernel:
    """The kernel in assembly, which it must be."""
    target = replace(cpu.target(), **ALL)
    if not target.assembled or Registers.of(VectorType(precision, lanes), target.assembled) is None:
        pytest.skip("no assembly for this processor")
    text, scratch = kernel_ir(lowered, precision, lanes, target)
    assert "module asm" in text
    return cpu.CpuKernel(lowered, cpu.object_code(text), scratch, lanes, lowered.operations)


def check(tape: Tape, precision: str, lanes: int, inputs: list[np.ndarray]) -> None:
    lowered = lower(tape, precision)
    got = computed(assembled(lowered, precision, lanes), tape, inputs, inputs[0].dtype)
    for port, a, b in zip(tape.outputs, reference(lowered, inputs), got, strict=True):
        assert same_bits(a, b), f"{port.name}: {a} and {b}\n{lowered}"


def straight_tape(seed: int, count: int) -> Tape:
    """Operations on values of any age; many stay alive, and some results are params, constants or twice there."""
    rng = random.Random(seed)

    def made(x: Any) -> dict[str, Any]:
        reals, truths = [*x, 1.5, -0.0, 0.25], [x[0] < x[1]]
        for _ in range(count):
            op = OPS[rng.choice(sorted(SUPPORTED) + 6 * ["fma", "mul", "sub", "neg"])]
            args = [rng.choice(truths if kind == BOOL else reals[-90:] if rng.random() < 0.8 else reals) for kind in op.takes]
            if all(isinstance(a, float) for a in args):
                continue
            if op.name == "copysign":
                # the sign of a NaN is not defined
                args[1] = where(args[1] == args[1], args[1], 1.0)
            (truths if op.gives == BOOL else reals).append((compare if op.gives == BOOL else emit)(op.name, *args))
        chosen = np.array([*rng.sample(reals, 30), x[2], 0.5, x[2]], dtype=object)
        return {"y": chosen, "last": reals[-1], "z": np.array(reals[-7:], dtype=object)}

    return cd.trace(made, x=5)


@pytest.mark.parametrize(("precision", "lanes"), WIDTHS)
@pytest.mark.parametrize("seed", slow_except(range(2), range(4)))
def test_random_straight_tapes_give_the_reference_bits(precision: str, lanes: int, seed: int) -> None:
    tape = straight_tape(seed, 500)
    assert supported(lower(tape, precision).block)
    inputs = inputs_from(random.Random(seed).randrange, tape, dtype=DTYPE[precision], most=19)
    check(tape, precision, lanes, inputs)


@pytest.mark.parametrize(("precision", "lanes"), [("f64", 4), ("f64", 8), ("f32", 8)])
def test_a_matrix_product_lives_partly_in_memory(precision: str, lanes: int) -> None:
    tape = cd.trace(lambda a, b: a @ b - b @ a, a=(9, 9), b=(9, 9))
    rng = np.random.default_rng(3)
    check(tape, precision, lanes, [rng.normal(size=(lanes + 3, 81)).astype(DTYPE[precision]) for _ in range(2)])


@pytest.mark.parametrize(("precision", "lanes"), [("f64", 4), ("f64", 8), ("f32", 16)])
def test_memory_and_constants_that_no_pointer_is_near_to(precision: str, lanes: int) -> None:
    numbers = np.arange(1, 1501) % 400 + 0.5
    tape = cd.trace(lambda x: (x * numbers)[::-1] - x, x=1500)
    check(tape, precision, lanes, [np.random.default_rng(4).normal(size=(lanes + 1, 1500)).astype(DTYPE[precision])])


@pytest.mark.parametrize(("name", "lanes"), [("forward_dynamics", 8), ("forward_dynamics_derivatives", 8), ("mass_matrix", 1)])
def test_robots_have_the_same_bits(name: str, lanes: int) -> None:
    robot = cd.load("ur3")
    tape = robot.function(name).tape
    rng = np.random.default_rng(1)
    check(tape, "f64", lanes, [rng.normal(size=(11, p.size)) for p in tape.inputs])


def test_negations_are_part_of_the_multiply_add() -> None:
    tape = cd.trace(lambda x: {"y": x[0] - x[1] * x[2], "z": x[0] * x[1] - x[2]}, x=3)
    if not cpu.target().assembled:
        pytest.skip("no assembly for this processor")
    text, _ = kernel_ir(lower(tape, "f64"), "f64", 4, replace(cpu.target(), **ALL))
    assert {"vfnmadd", "vfmsub"} <= set(re.findall(r"vfn?m(?:add|sub)", text))
    assert "vxor" not in text


def test_loops_and_tables_are_left_to_llvm() -> None:
    tape = cd.trace(lambda x: cd.loop(lambda i, y: y * x + 1.0, x, 5), x=3)
    assert not supported(lower(tape, "f64").block)
    text, _ = kernel_ir(lower(tape, "f64"), "f64", 4, replace(cpu.target(), **ALL))
    assert "module asm" not in text


NARROW = """
import hashlib, numpy as np, condyle as cd
from condyle.tape.backends import cpu
f = cd.load("ur3").function("forward_dynamics_derivatives")
arrays = [np.random.default_rng(2).normal(size=(9, p.size)) for p in f.tape.inputs]
print(cpu.default_lanes("f64"), hashlib.sha256(b"".join(a.tobytes() for a in f(*arrays))).hexdigest())
"""


def test_a_processor_without_avx512_computes_the_same_bits(tmp_path: Path) -> None:
    narrow = elsewhere(NARROW, tmp_path, {"CONDYLE_VECTOR_BYTES": "32"}).split()
    if not cpu.host().triple.startswith("x86_64"):
        pytest.skip("no such processor")
    assert narrow[0] == "4"
    f = cd.load("ur3").function("forward_dynamics_derivatives")
    arrays = [np.random.default_rng(2).normal(size=(9, p.size)) for p in f.tape.inputs]
    assert narrow[1] == hashlib.sha256(b"".join([a.tobytes() for a in f(*arrays)])).hexdigest()


# ---- straight parts of the bodies of loops


def looped_tape(seed: int) -> Tape:
    """Loops inside of a loop that may end early; values, comparisons among them, are alive from one straight part to the next."""
    rng = random.Random(seed)

    def mixed(values: list[Any], count: int) -> list[Any]:
        reals, truths = list(values), [values[0] < values[1]]
        for _ in range(count):
            op = OPS[rng.choice(sorted(SUPPORTED - {"copysign"}) + 4 * ["fma", "mul", "sub"])]
            args = [rng.choice(truths if kind == BOOL else reals) for kind in op.takes]
            (truths if op.gives == BOOL else reals).append((compare if op.gives == BOOL else emit)(op.name, *args))
        return [where(rng.choice(truths), a, b) for a, b in zip(reals[-4:], rng.sample(reals, 4), strict=True)]

    def made(x: Any) -> dict[str, Any]:
        def inner(_: Any, state: Any) -> Any:
            return np.array(mixed([*state, *x], 30), dtype=object)

        def outer(_: Any, state: Any) -> Any:
            first = mixed([*state, *x], 40)
            second = cd.loop(inner, np.array(first, dtype=object), 3)
            return np.array(mixed([*first, *second, *x], 40), dtype=object)

        before = mixed([*x], 40)
        y = cd.loop(outer, np.array(before, dtype=object), 4, until=lambda state: state[0] > 1.0)
        after = mixed([*x, *before, *y], 40)
        # inputs, constants and results of the loop leave as they are, some of them twice
        return {"y": y, "z": np.array([*after, x[1], 2.5, y[0], after[0], *before, 2.5, x[1]], dtype=object)}

    return cd.trace(made, x=5)


@pytest.mark.parametrize("around", [False, True])
@pytest.mark.parametrize(("precision", "lanes"), WIDTHS)
def test_straight_parts_of_and_around_loops_give_the_reference_bits(precision: str, lanes: int, around: bool) -> None:
    target = replace(cpu.target(), straight_in_loops=0, assembled_run=1)
    if around:
        target = replace(target, uncut=0, straight_per_result=0)
    if not target.assembled or Registers.of(VectorType(precision, lanes), target.assembled) is None:
        pytest.skip("no assembly for this processor")
    tape = looped_tape(lanes)
    lowered = lower(tape, precision)
    text, scratch = kernel_ir(lowered, precision, lanes, target)
    assert text.count("module asm") >= (5 if around else 3)
    kernel = cpu.CpuKernel(lowered, cpu.object_code(text), scratch, lanes, lowered.operations)
    inputs = inputs_from(random.Random(lanes).randrange, tape, dtype=DTYPE[precision], most=19)
    got = computed(kernel, tape, inputs, inputs[0].dtype)
    for port, a, b in zip(tape.outputs, reference(lowered, inputs), got, strict=True):
        assert same_bits(a, b), f"{port.name}: {a} and {b}"
