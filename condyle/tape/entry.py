"""The functions a compiled object exports. They set rounding to nearest and subnormal numbers on, and restore what they found."""

from __future__ import annotations


def entries(triple: str) -> list[str]:
    """`kernel`, which computes lane blocks, and `single`, which computes one state, around the internal function `blocks`."""
    parameters = "ptr %ports, i64 %first, i64 %last, i64 %last_row, ptr %scratch"
    call = "  call void @blocks(ptr %ports, i64 %first, i64 %last, i64 %last_row, ptr %scratch)"
    if triple.startswith("x86_64"):
        declare = "declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)"
        enter = (
            "  %was = alloca i32\n  %ours = alloca i32\n  call void @llvm.x86.sse.stmxcsr(ptr %was)\n"
            "  store i32 8064, ptr %ours\n  call void @llvm.x86.sse.ldmxcsr(ptr %ours)"
        )
        leave = "  call void @llvm.x86.sse.ldmxcsr(ptr %was)"
    else:
        declare = "declare i64 @llvm.aarch64.get.fpcr()\ndeclare void @llvm.aarch64.set.fpcr(i64)"
        enter = "  %was = call i64 @llvm.aarch64.get.fpcr()\n  call void @llvm.aarch64.set.fpcr(i64 0)"
        leave = "  call void @llvm.aarch64.set.fpcr(i64 %was)"
    return [
        f'target triple = "{triple}"',
        'attributes #0 = { nounwind noinline "stackrealign" "prefer-vector-width"="512" "min-legal-vector-width"="512" }',
        "declare i64 @llvm.smin.i64(i64, i64)",
        declare,
        f"define void @kernel({parameters}) #0 {{\n{enter}\n{call}\n{leave}\n  ret void\n}}",
        # one state, quick to call: a single pointer to (scratch, ports ...)
        "define void @single(ptr %frame) #0 {\n  %scratch = load ptr, ptr %frame\n"
        "  %ports = getelementptr i64, ptr %frame, i64 1\n"
        "  call void @kernel(ptr %ports, i64 0, i64 1, i64 0, ptr %scratch)\n  ret void\n}",
    ]
