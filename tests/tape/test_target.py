"""The emitter serves any target: the same code writes kernels for a GPU when it is given another entry, memory and lane index."""

from __future__ import annotations

import re
from dataclasses import replace

import llvmlite.binding as llvm
import numpy as np
import pytest

import condyle as cd
from condyle.tape.backends import cpu
from condyle.tape.llvm import kernel_ir
from condyle.tape.passes import lower
from condyle.tape.tape import Tape
from condyle.tape.target import Target

TRIPLE = "nvptx64-nvidia-cuda"


def nvptx_entry(scratch: int) -> str:
    """`kernel(ports, last_row)`: one state per thread, its number from the registers, scratch memory on its own table."""
    return f"""
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
define ptx_kernel void @kernel(ptr addrspace(1) %ports, i64 %last_row) {{
  %scratch = alloca [{max(scratch, 1)} x i8], align 16
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %threads = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %before = mul i32 %block, %threads
  %index = add i32 %before, %thread
  %b = zext i32 %index to i64
  %inside = icmp sle i64 %b, %last_row
  br i1 %inside, label %run, label %end
run:
  call void @block(ptr addrspace(1) %ports, i64 %b, i64 %last_row, ptr %scratch)
  br label %end
end:
  ret void
}}"""


GPU = Target(TRIPLE, nvptx_entry, loops=False, columns=True, data="ptr addrspace(1)", ports="ptr addrspace(1)")


def looping(x: np.ndarray, us: np.ndarray) -> dict[str, object]:
    """Loops that carry, read, write and end early, elementary functions, comparisons, sums of products and plain products."""
    root = cd.loop(lambda i, y: 0.5 * (y + x[0] / y), 1.0 + x[0], 20, until=lambda y: abs(y * y - x[0]) < 1e-9)
    final, path = cd.scan(lambda i, s, u: (s + 0.1 * u * np.sin(s[0]), s[0] * u), x, us)
    return {"root": root, "final": cd.where(final > x, final, x * final), "path": path}


def ptx(tape: Tape, precision: str, target: Target = GPU) -> str:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    text, _ = kernel_ir(lower(tape, precision), precision, 1, target)
    assert not re.search(r"\b(fast|contract|reassoc|afn|arcp|nnan|ninf|nsz)\b", text)
    module = llvm.parse_assembly(text)
    module.verify()
    return str(llvm.Target.from_triple(TRIPLE).create_target_machine(cpu="sm_80", opt=2).emit_assembly(module))


@pytest.mark.parametrize(("precision", "real"), [("f64", "f64"), ("f32", "f32")])
@pytest.mark.parametrize("cuts", [{}, {"uncut": 8, "piece": 8}], ids=["uncut", "cut"])
def test_the_emitter_writes_gpu_kernels(precision: str, real: str, cuts: dict[str, int]) -> None:
    text = ptx(cd.trace(looping, x=2, us=(5, 2)), precision, replace(GPU, **cuts))
    assert ".visible .entry kernel" in text and "%tid.x" in text and "%ctaid.x" in text
    assert f"fma.rn.{real}" in text and f"div.rn.{real}" in text and "bra" in text
    # every operation is rounded by itself, to nearest, and subnormal numbers are kept
    assert not re.search(rf"\b(mul|add|sub)\.{real}", text), "ptxas may contract an operation without a rounding mode"
    assert ".approx" not in text and ".ftz" not in text and ".full" not in text
    assert "ld.global" in text and "st.global" in text


def test_products_and_sums_stay_apart_on_the_gpu() -> None:
    # the square is a result of its own, so the tape rounds it, and so must the code
    text = ptx(cd.trace(lambda x: {"s": x * x, "t": x * x + 1.0}, x=()), "f64")
    assert "mul.rn.f64" in text and "add.rn.f64" in text and "fma" not in text


def test_one_state_per_thread_is_one_lane() -> None:
    with pytest.raises(AssertionError, match="one lane"):
        kernel_ir(cd.trace(lambda x: x + 1.0, x=2), "f64", 4, GPU)


# ---- threads of the cpu


@pytest.mark.parametrize(
    ("blocks", "seconds", "threads", "wanted"),
    [
        (1, 1.0, 8, 1),  # one block is not shared
        (2, 58e-6, 2, 1),  # 16 balls in contact: two blocks of 58 us
        (2, 1e-3, 2, 2),
        (1000, 1e-8, 8, 1),  # 10 us in all
        (1000, 1e-6, 8, 8),
        (1000, 3.5e-7, 8, 3),  # 350 us: as many threads as get 100 us each
        (1000, 1e-3, 1, 1),
    ],
)
def test_threads_are_used_where_they_pay(blocks: int, seconds: float, threads: int, wanted: int) -> None:
    assert cpu.paying_threads(blocks, seconds, threads) == wanted


def test_a_loop_that_ends_early_is_not_counted_to_its_limit() -> None:
    def long(a: object) -> object:
        return cd.loop(lambda i, y: 0.5 * (y + a / y), a, 10**9, until=lambda y: abs(y * y - a) < 1e-9)

    f = cd.function(long, a=())
    assert f.operations > 10**9
    estimate = f.kernel().block_seconds
    assert estimate < 1e-6
    f(np.full(64, 2.0))
    assert f.kernel().block_seconds != estimate, "the kernel is timed from the first batch on"
