"""LLVM code for blocks of samples: layers forward and backward, gradients of weights, and the loss of PPO.

A block is 32 samples, stored as (features, 32). Every number is computed by the same operations in the same order on any
processor: sums over samples are kept in 16 parts, which are added in pairs at the end. A list of products is a table of whole
numbers, one row for each: the address of its function, five of its arrays, and six sizes, the first of them the number of blocks.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any

import numpy as np

from condyle.tape.backends.cpu import host, load_object, object_code
from condyle.tape.cache import shared_cache

BLOCK, LANES = 32, 16  # samples of a block, parts of a sum
VECTOR = f"<{LANES} x float>"
# exp: n = rint(x / ln 2), a polynomial of the rest (Cephes), times 2^n
LOG2E, LN2_HIGH, LN2_LOW, LOWEST = 1.44269504088896341, 0.693359375, -2.12194440e-4, -87.0
EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
OUTPUTS = 8  # neurons are a multiple of this
FORWARD = ("identity", "elu", "tanh", "relu")
BACKWARD = ("d_identity", "d_elu", "d_tanh", "d_relu")
LARGEST_LOG_RATIO = 20.0
# numbers that are the same for all samples, in this order, followed by exp(-log_std) of each action
NUMBERS = ("log_std_sum", "clip_low", "clip_high", "scale", "bound", "bound_scale", "value_scale", "value_clip", "clips_values")
SUMS = ("surrogate", "value_loss", "distance", "clipped")  # followed by the gradient of log_std, in LANES parts each


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


# ---- products


def affine(name: str, vectors: int) -> str:
    """y = f(x W + b) of every block; of a derivative, y = (x W + b) f'(g), from the values g of f.

    (y, x, w, b, g, blocks, inputs, outputs, columns of w, features of a block of x, of y); outputs is a multiple of OUTPUTS.
    """
    outs = OUTPUTS if vectors == 2 else OUTPUTS // 2
    m = Body()
    blocks = m.loop("block", "0", "%blocks", 1, {})
    x0 = m.address("%x", m.times(blocks.index, "%xf", BLOCK))
    at = m.times(blocks.index, "%yf", BLOCK)
    y0, g0 = m.address("%y", at), m.address("%g", at)
    rows = m.loop("out", "0", "%nout", outs, {})
    w0, b0 = m.address("%w", rows.index), m.address("%b", rows.index)
    chunks = m.loop("chunk", "0", str(BLOCK), vectors * LANES, {})
    first = [m.splat(m.number(b0, j)) for j in range(outs)]
    values = {f"a{j}_{v}": (VECTOR, first[j]) for j in range(outs) for v in range(vectors)}
    k = m.loop("k", "0", "%nin", 1, values)
    xk = m.address(m.address(x0, m.times(k.index, BLOCK)), chunks.index)
    xs = [m.vector(xk, LANES * v) for v in range(vectors)]
    wk = m.address(w0, m.times(k.index, "%ws"))
    new = {}
    for j in range(outs):
        weight = m.splat(m.number(wk, j))
        for v in range(vectors):
            new[f"a{j}_{v}"] = m.fma(weight, xs[v], k.phis[f"a{j}_{v}"])
    k.close(new)
    for j in range(outs):
        offset = m.plus(m.times(m.plus(rows.index, j), BLOCK), chunks.index)
        for v in range(vectors):
            place = m.plus(offset, LANES * v)
            value = k.last[f"a{j}_{v}"]
            backward = name.startswith("d_")
            value = _derivative(m, name, value, m.vector(g0, place)) if backward else _activation(m, name, value)
            m.do(f"store {VECTOR} {value}, ptr {m.address(y0, place)}, align 4")
    chunks.close()
    rows.close()
    blocks.close()
    return function(f"affine_{name}", ("y", "x", "w", "b", "g"), ("blocks", "nin", "nout", "ws", "xf", "yf"), m)


def _activation(m: Body, name: str, x: str) -> str:
    zero, one = constant(0.0), constant(1.0)
    if name == "relu":
        return m(f"call {VECTOR} @llvm.maxnum.v{LANES}f32({VECTOR} {x}, {VECTOR} {zero})")
    if name == "elu":
        below = m.op("fsub", m.exp(m.least(x, zero)), one)
        above = m(f"fcmp ogt {VECTOR} {x}, {zero}")
        return m(f"select <{LANES} x i1> {above}, {VECTOR} {x}, {VECTOR} {below}")
    if name == "tanh":  # (1 - e) / (1 + e), e = exp(-2 |x|), with the sign of x
        size = m(f"call {VECTOR} @llvm.fabs.v{LANES}f32({VECTOR} {x})")
        e = m.exp(m.op("fmul", size, constant(-2.0)))
        ratio = m.op("fdiv", m.op("fsub", one, e), m.op("fadd", one, e))
        return m(f"call {VECTOR} @llvm.copysign.v{LANES}f32({VECTOR} {ratio}, {VECTOR} {x})")
    return x


def _derivative(m: Body, name: str, value: str, g: str) -> str:
    one = constant(1.0)
    if name == "d_relu":
        above = m(f"fcmp ogt {VECTOR} {g}, {constant(0.0)}")
        return m(f"select <{LANES} x i1> {above}, {VECTOR} {value}, {VECTOR} {constant(0.0)}")
    if name == "d_elu":
        return m.op("fmul", value, m.op("fadd", m.least(g, constant(0.0)), one))
    if name == "d_tanh":
        return m.op("fmul", value, m.op("fsub", one, m.op("fmul", g, g)))
    return value


def outer(wide: int, high: int) -> str:
    """dw[k, o] = sum over samples of x[k] d[o]: (dw, d, x, -, -, blocks, inputs, outputs, columns of dw, features of d, of x)."""
    m = Body()
    outs = m.loop("out", "0", "%nout", wide, {})
    d0 = m.address("%d", m.times(outs.index, BLOCK))
    ins = m.loop("in", "0", "%nin", high, {})
    x0 = m.address("%x", m.times(ins.index, BLOCK))
    values = {f"a{i}_{j}": (VECTOR, "zeroinitializer") for i in range(high) for j in range(wide)}
    blocks = m.loop("block", "0", "%blocks", 1, values)
    db = m.address(d0, m.times(blocks.index, "%df", BLOCK))
    xb = m.address(x0, m.times(blocks.index, "%xf", BLOCK))
    new = dict(blocks.phis)
    for v in range(BLOCK // LANES):
        ds = [m.vector(db, BLOCK * j + LANES * v) for j in range(wide)]
        for i in range(high):
            x = m.vector(xb, BLOCK * i + LANES * v)
            for j in range(wide):
                new[f"a{i}_{j}"] = m.fma(x, ds[j], new[f"a{i}_{j}"])
    blocks.close(new)
    cells = [(i, j) for i in range(high) for j in range(wide)]
    for (i, j), value in zip(cells, m.totals([blocks.last[f"a{i}_{j}"] for i, j in cells]), strict=True):
        place = m.plus(m.times(m.plus(ins.index, i), "%ws"), outs.index, j)
        m.do(f"store float {value}, ptr {m.address('%dw', place)}")
    ins.close()
    outs.close()
    return function("outer", ("dw", "d", "x", "_a", "_b"), ("blocks", "nin", "nout", "ws", "df", "xf"), m)


def sums() -> str:
    """s[o] = sum over samples of d[o]: (s, d, -, -, -, blocks, outputs, features of d, -, -, -)."""
    m = Body()
    outs = m.loop("out", "0", "%nout", 1, {})
    d0 = m.address("%d", m.times(outs.index, BLOCK))
    blocks = m.loop("block", "0", "%blocks", 1, {"a": (VECTOR, "zeroinitializer")})
    at = m.address(d0, m.times(blocks.index, "%df", BLOCK))
    value = blocks.phis["a"]
    for v in range(BLOCK // LANES):
        value = m.op("fadd", value, m.vector(at, LANES * v))
    blocks.close({"a": value})
    m.do(f"store float {m.total(blocks.last['a'])}, ptr {m.address('%s', outs.index)}")
    outs.close()
    return function("sums", ("s", "d", "_a", "_b", "_c"), ("blocks", "nout", "df", "_d", "_e", "_f"), m)


def gather() -> str:
    """Rows with the given numbers as blocks: (blocks, rows, numbers, samples, columns); columns and samples in sixteens."""
    m = Body()
    samples = m.loop("sample", "0", "%samples", LANES, {})
    starts = []
    for k in range(LANES):
        place = m(f"getelementptr i64, ptr %numbers, i64 {m.plus(samples.index, k)}")
        starts.append(m.address("%rows", m.times(m(f"load i64, ptr {place}"), "%columns")))
    block, lane = m(f"udiv i64 {samples.index}, {BLOCK}"), m(f"urem i64 {samples.index}, {BLOCK}")
    to = m.address("%blocks", m.plus(m.times(block, "%columns", BLOCK), lane))
    columns = m.loop("column", "0", "%columns", LANES, {})
    square = [m.vector(start, columns.index) for start in starts]
    for _ in range(4):  # four perfect shuffles of sixteen vectors transpose them
        pairs = [(square[k], square[k + LANES // 2]) for k in range(LANES // 2)]
        square = [m.interleaved(a, b, half) for a, b in pairs for half in (0, 1)]
    for k in range(LANES):
        place = m.times(m.plus(columns.index, k), BLOCK)
        m.do(f"store {VECTOR} {square[k]}, ptr {m.address(to, place)}, align 4")
    columns.close()
    samples.close()
    return function("gather", ("blocks", "rows", "numbers"), ("samples", "columns"), m)


# ---- the loss


def loss() -> str:
    """(rows, means, values, numbers, blocks, actions, features of rows, of means, of values, first action, samples, originals).

    Means and values are replaced by the gradients of the loss by them; behind the numbers of NUMBERS and the deviations, the sums
    of SUMS and the gradients of log_std are added in LANES parts each. Samples from number `samples` on count nothing; the KL
    divergence is that of the first `originals`.
    """
    m = Body()
    given = {name: m.splat(m.number("%numbers", k)) for k, name in enumerate(NUMBERS)}
    deviations = m.address("%numbers", str(len(NUMBERS)))
    totals = m.address(deviations, "%actions")
    gradient = m.address(totals, str(len(SUMS) * LANES))
    advantage_at = m.plus(m.times("%actions", 2), "%first")
    clips = m(f"fcmp ogt {VECTOR} {given['clips_values']}, {constant(0.0)}")
    lanes = "<" + ", ".join(f"i64 {k}" for k in range(LANES)) + ">"

    blocks = m.loop("block", "0", "%blocks", 1, {})
    chunks = m.loop("chunk", "0", str(BLOCK), LANES, {})
    rows, means, values = (
        m.address(base, m.plus(m.times(blocks.index, stride, BLOCK), chunks.index))
        for base, stride in (("%rows", "%width"), ("%means", "%mf"), ("%values", "%vf"))
    )
    number = m.plus(m.times(blocks.index, BLOCK), chunks.index)
    spread = m(f"insertelement <{LANES} x i64> poison, i64 {number}, i64 0")
    spread = m(f"shufflevector <{LANES} x i64> {spread}, <{LANES} x i64> poison, <{LANES} x i32> zeroinitializer")
    sample = m(f"add <{LANES} x i64> {spread}, {lanes}")
    counts, original = _below(m, sample, "%samples"), _below(m, sample, "%originals")
    action = m.address(rows, m.times("%first", BLOCK))
    old_mean = m.address(action, m.times("%actions", BLOCK))
    advantage, target, old_value, old_log = (m.vector(rows, m.times(m.plus(advantage_at, k), BLOCK)) for k in range(4))

    # sums over the actions: z^2, and the squared distance of the means
    zero = (VECTOR, "zeroinitializer")
    first = m.loop("first_pass", "0", "%actions", 1, {"z": zero, "d": zero})
    z, mean, deviation, _ = _z(m, first.index, action, means, deviations)
    apart = m.op("fmul", m.op("fsub", mean, m.vector(old_mean, m.times(first.index, BLOCK))), deviation)
    first.close({"z": m.fma(z, z, first.phis["z"]), "d": m.fma(apart, apart, first.phis["d"])})
    squares, distance = first.last["z"], first.last["d"]

    # surrogate: min(ratio A, clip(ratio) A), and its derivative by the logarithm of the probability
    log_ratio = m.op("fsub", m.op("fsub", m.op("fmul", squares, constant(-0.5)), old_log), given["log_std_sum"])
    log_ratio = m.least(m.most(log_ratio, constant(-LARGEST_LOG_RATIO)), constant(LARGEST_LOG_RATIO))
    ratio = m.exp(log_ratio)
    bounded = m.op("fmul", m.least(m.most(ratio, given["clip_low"]), given["clip_high"]), advantage)
    weight = m.op("fmul", ratio, advantage)
    active = m(f"fcmp ole {VECTOR} {weight}, {bounded}")
    surrogate = m.least(weight, bounded)
    weight = m.op("fmul", _masked(m, active, weight), given["scale"])  # scale: -1 / samples of the minibatch
    weight = _masked(m, counts, weight)
    clipped = _masked(m, counts, _masked(m, active, constant(0.0), constant(1.0)))

    # gradients by the means and by log_std: weight z / std, weight (z^2 - 1), and the penalty on means beyond the bound
    second = m.loop("second_pass", "0", "%actions", 1, {})
    z, mean, deviation, place = _z(m, second.index, action, means, deviations)
    beyond = m.op("fsub", mean, m.least(m.most(mean, m(f"fneg {VECTOR} {given['bound']}")), given["bound"]))
    penalty = _masked(m, counts, m.op("fmul", beyond, given["bound_scale"]))
    slope = m.fma(m.op("fmul", weight, z), deviation, penalty)
    m.do(f"store {VECTOR} {slope}, ptr {m.address(means, place)}, align 4")
    excess = m.op("fsub", m.op("fmul", z, z), constant(1.0))
    _add(m, gradient, m.times(second.index, LANES), m.op("fmul", weight, excess))
    second.close()

    # critic: squared error against the target, or that of a value near the old one if it is larger
    value = m.vector(values, 0)
    error = m.op("fsub", value, target)
    squared = m.op("fmul", error, error)
    change = m.op("fsub", value, old_value)
    change = m.least(m.most(change, m(f"fneg {VECTOR} {given['value_clip']}")), given["value_clip"])
    near = m.op("fsub", m.op("fadd", old_value, change), target)
    near = _masked(m, clips, m.op("fmul", near, near))
    counted = m(f"fcmp oge {VECTOR} {squared}, {near}")
    error = _masked(m, counts, _masked(m, counted, error))
    m.do(f"store {VECTOR} {m.op('fmul', error, given['value_scale'])}, ptr {values}, align 4")
    sums = (_masked(m, counts, surrogate), _masked(m, counts, m.most(squared, near)), _masked(m, original, distance), clipped)
    for k, vector in enumerate(sums):
        _add(m, totals, str(LANES * k), vector)
    chunks.close()
    blocks.close()
    sizes = ("blocks", "actions", "width", "mf", "vf", "first", "samples", "originals")
    return function("loss", ("rows", "means", "values", "numbers"), sizes, m)


def _z(m: Body, index: str, action: str, means: str, deviations: str) -> tuple[str, str, str, str]:
    """((action - mean) / std, mean, 1 / std, place) of an action."""
    place = m.times(index, BLOCK)
    mean, deviation = m.vector(means, place), m.splat(m.number(deviations, index))
    return m.op("fmul", m.op("fsub", m.vector(action, place), mean), deviation), mean, deviation, place


def _below(m: Body, sample: str, end: str) -> str:
    """Which samples have a number below `end`."""
    spread = m(f"insertelement <{LANES} x i64> poison, i64 {end}, i64 0")
    spread = m(f"shufflevector <{LANES} x i64> {spread}, <{LANES} x i64> poison, <{LANES} x i32> zeroinitializer")
    return m(f"icmp slt <{LANES} x i64> {sample}, {spread}")


def _masked(m: Body, mask: str, value: str, other: str | None = None) -> str:
    """The value where the mask is true, else the other one, or zero."""
    return m(f"select <{LANES} x i1> {mask}, {VECTOR} {value}, {VECTOR} {other or constant(0.0)}")


def _add(m: Body, base: str, index: str, value: str) -> None:
    """None; a vector in memory is increased."""
    place = m.address(base, index)
    old = m(f"load {VECTOR}, ptr {place}, align 4")
    m.do(f"store {VECTOR} {m.op('fadd', old, value)}, ptr {place}, align 4")


# ---- the module


def module_text(vector_bytes: int) -> str:
    """LLVM text of all functions, with as many values at once as the registers hold."""
    vectors, wide, high = (2, 4, 4) if vector_bytes == 64 else (1, 2, 2)
    unary = ("rint", "fabs")
    binary = ("minnum", "maxnum", "copysign")
    declared = [f"declare {VECTOR} @llvm.fma.v{LANES}f32({VECTOR}, {VECTOR}, {VECTOR})"]
    declared += [f"declare {VECTOR} @llvm.{f}.v{LANES}f32({VECTOR})" for f in unary]
    declared += [f"declare {VECTOR} @llvm.{f}.v{LANES}f32({VECTOR}, {VECTOR})" for f in binary]
    parts = [affine(each, vectors) for each in (*FORWARD, *BACKWARD)]
    return "\n".join([*declared, *parts, outer(wide, high), sums(), gather(), loss(), run()])


def run() -> str:
    """All products of a table: (table, rows)."""
    m = Body()
    rows = m.loop("row", "0", "%rows", 1, {})
    start = m(f"getelementptr [12 x i64], ptr %table, i64 {rows.index}")
    entries = []
    for k in range(12):
        place = m(f"getelementptr i64, ptr {start}, i64 {k}")
        entries.append(m(f"load {'ptr' if k < 6 else 'i64'}, ptr {place}"))
    arguments = ", ".join([f"ptr {e}" for e in entries[1:6]] + [f"i64 {e}" for e in entries[6:]])
    m.do(f"call void {entries[0]}({arguments})")
    rows.close()
    return function("run", ("table",), ("rows",), m)


@cache
def functions() -> Functions:
    """The compiled functions."""
    return Functions()


class Functions:
    """Compiled functions: addresses of the products, and what is called from Python, without the interpreter's lock."""

    def __init__(self) -> None:
        import llvmlite

        text = f'target triple = "{host().triple}"\n' + module_text(host().vector_bytes)
        key = f"{llvmlite.__version__} {host()}\n{text}"
        self._engine = load_object(shared_cache().found(key, lambda: object_code(text)))
        products = [*(f"affine_{each}" for each in (*FORWARD, *BACKWARD)), "outer", "sums"]
        self.products = {name: self._engine.get_function_address(name) for name in products}
        self.run, self.gather, self.loss = (
            self._callable("run", 1, 1),
            self._callable("gather", 3, 2),
            self._callable("loss", 4, 8),
        )

    def _callable(self, name: str, pointers: int, sizes: int) -> Callable[..., Any]:
        types = [ctypes.c_void_p] * pointers + [ctypes.c_int64] * sizes
        return ctypes.CFUNCTYPE(None, *types)(self._engine.get_function_address(name))
