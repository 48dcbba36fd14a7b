"""LLVM text of functions on vectors of samples: values, loops, sums in pairs, exp."""

from __future__ import annotations

from itertools import count

import numpy as np

BLOCK, LANES = 32, 16  # samples of a block, parts of a sum
VECTOR = f"<{LANES} x float>"
# exp: n = rint(x / ln 2), a polynomial of the rest (Cephes), times 2^n
LOG2E, LN2_HIGH, LN2_LOW, LOWEST = 1.44269504088896341, 0.693359375, -2.12194440e-4, -87.0
EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


class Body:
    """Lines of one function, with names for its values."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names = count()

    def __call__(self, text: str) -> str:
        """The name of the value that an instruction gives."""
        name = f"%v{next(self.names)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """An instruction without a value, or a label."""
        self.lines.append(text if text.endswith(":") else f"  {text}")

    def loop(self, name: str, start: str, end: str, step: int, values: dict[str, tuple[str, str]]) -> LoopCode:
        """The start of a loop; `values`: {name: (type, initial value)}."""
        return LoopCode(self, name, start, end, step, values)

    def address(self, base: str, index: str) -> str:
        """Of entry `index` of floats at `base`."""
        return self(f"getelementptr float, ptr {base}, i64 {index}")

    def times(self, a: str, *factors: object) -> str:
        """The product of whole numbers."""
        for b in factors:
            a = self(f"mul i64 {a}, {b}")
        return a

    def plus(self, a: str, *others: object) -> str:
        """The sum of whole numbers."""
        for b in others:
            a = self(f"add i64 {a}, {b}")
        return a

    def vector(self, base: str, index: object) -> str:
        """The vector at entry `index` of floats at `base`."""
        return self(f"load {VECTOR}, ptr {self.address(base, str(index))}, align 4")

    def number(self, base: str, index: object) -> str:
        """Entry `index` of floats at `base`."""
        return self(f"load float, ptr {self.address(base, str(index))}")

    def splat(self, scalar: str) -> str:
        """A vector of equal entries."""
        one = self(f"insertelement {VECTOR} poison, float {scalar}, i64 0")
        return self(f"shufflevector {VECTOR} {one}, {VECTOR} poison, <{LANES} x i32> zeroinitializer")

    def fma(self, a: str, b: str, c: str) -> str:
        """a b + c."""
        return self(f"call {VECTOR} @llvm.fma.v{LANES}f32({VECTOR} {a}, {VECTOR} {b}, {VECTOR} {c})")

    def op(self, name: str, a: str, b: str) -> str:
        """An arithmetic instruction on two vectors."""
        return self(f"{name} {VECTOR} {a}, {b}")

    def least(self, a: str, b: str) -> str:
        """The smaller entries."""
        return self(f"call {VECTOR} @llvm.minnum.v{LANES}f32({VECTOR} {a}, {VECTOR} {b})")

    def most(self, a: str, b: str) -> str:
        """The larger entries."""
        return self(f"call {VECTOR} @llvm.maxnum.v{LANES}f32({VECTOR} {a}, {VECTOR} {b})")

    def interleaved(self, a: str, b: str, half: int) -> str:
        """a0, b0, a1, b1, ... of the first or second halves of two vectors."""
        first = half * LANES // 2
        mask = ", ".join(f"i32 {first + k}, i32 {first + k + LANES}" for k in range(LANES // 2))
        return self(f"shufflevector {VECTOR} {a}, {VECTOR} {b}, <{LANES} x i32> <{mask}>")

    def total(self, v: str) -> str:
        """The sum of a vector's entries, added in pairs."""
        width = LANES
        while width > 1:
            half = width // 2
            low, high = (", ".join(f"i32 {start + k}" for k in range(half)) for start in (0, half))
            kind = f"<{width} x float>"
            a = self(f"shufflevector {kind} {v}, {kind} poison, <{half} x i32> <{low}>")
            b = self(f"shufflevector {kind} {v}, {kind} poison, <{half} x i32> <{high}>")
            v = self(f"fadd <{half} x float> {a}, {b}")
            width = half
        return self(f"extractelement <1 x float> {v}, i64 0")

    def totals(self, vectors: list[str]) -> list[str]:
        """The sums of several vectors, with the bits of `total`: two vectors become one of their half sums at each stage."""
        if len(vectors) != LANES:
            return [self.total(v) for v in vectors]
        while len(vectors) > 1:
            pairs = [(vectors[k], vectors[k + len(vectors) // 2]) for k in range(len(vectors) // 2)]
            vectors = [self.op("fadd", self.interleaved(a, b, 0), self.interleaved(a, b, 1)) for a, b in pairs]
        return [self(f"extractelement {VECTOR} {vectors[0]}, i64 {k}") for k in range(LANES)]

    def exp(self, x: str) -> str:
        """exp of -87 <= x <= 88; below, exp(-87)."""
        x = self(f"call {VECTOR} @llvm.maxnum.v{LANES}f32({VECTOR} {x}, {VECTOR} {constant(LOWEST)})")
        n = self(f"call {VECTOR} @llvm.rint.v{LANES}f32({VECTOR} {self.op('fmul', x, constant(LOG2E))})")
        r = self.fma(n, constant(-LN2_LOW), self.fma(n, constant(-LN2_HIGH), x))
        p = constant(EXP[0])
        for coefficient in EXP[1:]:
            p = self.fma(p, r, constant(coefficient))
        y = self.op("fadd", self.fma(self.op("fmul", p, r), r, r), constant(1.0))
        k = self(f"fptosi {VECTOR} {n} to <{LANES} x i32>")
        k = self(f"add <{LANES} x i32> {k}, {integers(127)}")
        k = self(f"shl <{LANES} x i32> {k}, {integers(23)}")
        return self.op("fmul", y, self(f"bitcast <{LANES} x i32> {k} to {VECTOR}"))


class LoopCode:
    """A counted loop with values that it carries; `close` ends it."""

    def __init__(self, body: Body, name: str, start: str, end: str, step: int, values: dict[str, tuple[str, str]]) -> None:
        self.body, self.name, self.end, self.step = body, name, end, step
        self.values, self.phis = values, dict[str, str]()
        before = f"{name}_before"
        body.do(f"br label %{before}")
        body.do(f"{before}:")
        body.do(f"br label %{name}")
        body.do(f"{name}:")
        self.index = f"%{name}_i"
        self.place = len(body.lines)
        body.do(f"{self.index} = phi i64 [ {start}, %{before} ], [ %{name}_n, %{name}_end ]")
        for key, (kind, initial) in values.items():
            self.phis[key] = f"%{name}_{key}"
            body.do(f"{self.phis[key]} = phi {kind} [ {initial}, %{before} ], [ @{name}_{key}@, %{name}_end ]")

    def close(self, new: dict[str, str] | None = None) -> None:
        """None; the values after one turn are `new`. After the loop they are `self.last`."""
        body = self.body
        for key, value in (new or {}).items():
            for k in range(self.place, len(body.lines)):
                body.lines[k] = body.lines[k].replace(f"@{self.name}_{key}@", value)
        body.do(f"br label %{self.name}_end")
        body.do(f"{self.name}_end:")
        body.do(f"%{self.name}_n = add i64 {self.index}, {self.step}")
        body.do(f"%{self.name}_c = icmp slt i64 %{self.name}_n, {self.end}")
        body.do(f"br i1 %{self.name}_c, label %{self.name}, label %{self.name}_after")
        body.do(f"{self.name}_after:")
        self.last = new or {}


def constant(value: float) -> str:
    """A vector constant."""
    bits = np.float64(np.float32(value)).view(np.uint64)
    return f"<{', '.join([f'float 0x{int(bits):016X}'] * LANES)}>"


def integers(value: int) -> str:
    """A vector of equal whole numbers."""
    return f"<{', '.join([f'i32 {value}'] * LANES)}>"


def function(name: str, pointers: tuple[str, ...], sizes: tuple[str, ...], m: Body) -> str:
    """The text of a function of arrays that do not overlap, and sizes."""
    arguments = ", ".join([f"ptr noalias %{p}" for p in pointers] + [f"i64 %{s}" for s in sizes])
    return f"define void @{name}({arguments}) {{\nentry:\n" + "\n".join(m.lines) + "\n  ret void\n}\n"
