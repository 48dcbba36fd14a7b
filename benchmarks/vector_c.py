"""A lowered tape as vector C: the arithmetic of the kernel, operation by operation, as one would write it for gcc by hand.

It reads and writes structures of arrays (all states of one entry side by side), which spares C the transposes.
"""

from __future__ import annotations

import math

from condyle.tape.ops import BOOL, OPS
from condyle.tape.tape import Tape

# vector bytes -> (what a comparison gives, how it is written)
_COMMON = {
    "add": "{a} + {b}",
    "sub": "{a} - {b}",
    "mul": "{a} * {b}",
    "div": "{a} / {b}",
    "neg": "-{a}",
    "fma": "{P}_fmadd_{S}({a}, {b}, {c})",
    "sqrt": "{P}_sqrt_{S}({a})",
    "abs": "{P}_andnot_{S}({sign}, {a})",
    "copysign": "{P}_or_{S}({P}_andnot_{S}({sign}, {a}), {P}_and_{S}({sign}, {b}))",
}
_BY_WIDTH = {
    64: {
        "rint": "{P}_roundscale_{S}({a}, 8)",
        "floor": "{P}_roundscale_{S}({a}, 9)",
        "lt": "{P}_cmp_{S}_mask({a}, {b}, _CMP_LT_OQ)",
        "le": "{P}_cmp_{S}_mask({a}, {b}, _CMP_LE_OQ)",
        "eq": "{P}_cmp_{S}_mask({a}, {b}, _CMP_EQ_OQ)",
        "and": "{a} & {b}",
        "or": "{a} | {b}",
        "not": "~{a}",
        "select": "{P}_mask_blend_{S}({a}, {c}, {b})",
    },
    32: {
        "rint": "{P}_round_{S}({a}, 8)",
        "floor": "{P}_round_{S}({a}, 9)",
        "lt": "{P}_cmp_{S}({a}, {b}, _CMP_LT_OQ)",
        "le": "{P}_cmp_{S}({a}, {b}, _CMP_LE_OQ)",
        "eq": "{P}_cmp_{S}({a}, {b}, _CMP_EQ_OQ)",
        "and": "{P}_and_{S}({a}, {b})",
        "or": "{P}_or_{S}({a}, {b})",
        "not": "{P}_cmp_{S}({a}, {zero}, _CMP_EQ_OQ)",
        "select": "{P}_blendv_{S}({c}, {b}, {a})",
    },
}


def vector_c(tape: Tape, precision: str, vector_bytes: int) -> str | None:
    """C of `void kernel(const T *in, T *out, long blocks, long stride)`, or None for a processor it knows no vectors of.

    Entry k of state s of all inputs lies at in[k * stride + s]; the outputs likewise; a block is one vector of states.
    """
    if vector_bytes not in _BY_WIDTH:
        return None
    double = precision == "f64"
    bits, suffix, element = 8 * vector_bytes, "pd" if double else "ps", "double" if double else "float"
    lanes = vector_bytes // (8 if double else 4)
    vector = f"__m{bits}" + ("d" if double else "")
    mask = f"__mmask{lanes}" if vector_bytes == 64 else vector
    fields = {"P": f"_mm{bits}", "S": suffix, "sign": f"_mm{bits}_set1_{suffix}(-0.0)", "zero": f"_mm{bits}_setzero_{suffix}()"}
    templates = _COMMON | _BY_WIDTH[vector_bytes]
    lines = []
    for i, (op, args, data) in enumerate(tape.block.nodes):
        if op == "param":
            text = f"_mm{bits}_loadu_{suffix}(in + {data} * stride)"
        elif op == "const":
            text = f"_mm{bits}_set1_{suffix}({_number(data, double)})"
        else:
            text = templates[op].format(**fields, **dict(zip("abc", [f"t{a}" for a in args], strict=False)))
        kind = mask if op in OPS and OPS[op].gives == BOOL else vector
        lines.append(f"{kind} t{i} = {text};")
    lines += [f"_mm{bits}_storeu_{suffix}(out + {k} * stride, t{r});" for k, r in enumerate(tape.block.results)]
    body = "\n    ".join([*lines, f"in += {lanes}, out += {lanes};"])
    return (
        "#include <immintrin.h>\n\n"
        f"void kernel(const {element} *restrict in, {element} *restrict out, long blocks, long stride)\n{{\n"
        f"  for (long b = 0; b < blocks; b++) {{\n    {body}\n  }}\n}}\n"
    )


def _number(value: float, double: bool) -> str:
    if math.isnan(value):
        return '__builtin_nan("")'
    if math.isinf(value):
        return "-__builtin_inf()" if value < 0 else "__builtin_inf()"
    return value.hex() if double else f"(float){value.hex()}"


def peaks(precision: str, vector_bytes: int) -> str | None:
    """C of loops that keep one unit of the processor busy: `peak_fma(long rounds)` does `count_fma` independent ones a round."""
    if vector_bytes not in _BY_WIDTH:
        return None
    double = precision == "f64"
    bits, s = 8 * vector_bytes, "pd" if double else "ps"
    vector = f"__m{bits}" + ("d" if double else "")
    one = f"_mm{bits}_set1_{s}(1.5)"
    parts = ["#include <immintrin.h>\n"]
    for name, count, text in (
        ("fma", 16, f"_mm{bits}_fmadd_{s}(v{{k}}, m, m)"),
        ("div", 16, "m / v{k}"),
        ("sqrt", 16, f"_mm{bits}_sqrt_{s}(v{{k}})"),
    ):
        start = " ".join(f"{vector} v{k} = {one};" for k in range(count))
        step = " ".join(f'v{k} = {text.format(k=k)}; asm volatile("" : "+v"(v{k}));' for k in range(count))
        parts.append(
            f"long count_{name} = {count};\nvoid peak_{name}(long n) {{\n  {vector} m = {one}; {start}\n"
            f'  asm volatile("" : "+v"(m));\n  for (long i = 0; i < n; i++) {{ {step} }}\n}}\n'
        )
    # each addition waits for the one before it, which takes one cycle
    adds = "add %1, %0\\n" * 64
    parts.append(
        "long count_cycle = 64;\nvoid peak_cycle(long n) {\n  long a = 0, b = 1;\n"
        f'  for (long i = 0; i < n; i++) asm volatile("{adds}" : "+r"(a) : "r"(b));\n}}\n'
    )
    return "\n".join(parts)
