"""LLVM code of the products that training needs: layers forward and backward, gradients of weights, over blocks of samples.

A block is 32 samples, stored as (features, 32). Every number is computed by the same operations in the same order on any
processor: sums over samples are kept in 16 parts, which are added in pairs at the end. A list of products is a table of whole
numbers, one row for each: the address of its function, five of its arrays, and six sizes, the first of them the number of blocks.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from condyle.methods.learn.tile_body import BLOCK, LANES, VECTOR, Body, constant, function
from condyle.methods.learn.tile_loss import loss
from condyle.tape.backends.cpu import host, load_object, object_code
from condyle.tape.cache import shared_cache

OUTPUTS = 8  # neurons are a multiple of this
FORWARD = ("identity", "elu", "tanh", "relu")
BACKWARD = ("d_identity", "d_elu", "d_tanh", "d_relu")


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
