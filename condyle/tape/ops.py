"""The operation table: every arithmetic operation a tape can hold, one row each.

A row says what the operation means, its partial derivatives, and how LLVM, C and PTX write it. An operation without an `llvm`
text is elementary (sin, exp, ...): `elementary.py` lowers it to the exact ones, except on backends that know the true function.

Besides these rows a tape has structural operations, which every interpreter handles itself:

    param    data = position            a number that comes from outside the block
    const    data = float or int        a float64 number, or a word: a whole number of 32 bits
    loop     args = start values, tables read row by row, captured values; data = Loop
    get      args = (loop,)             data = position: a carried number after the last iteration
    call     args = values              data = Call: a body with a derivative rule of its own, or Subroutine: a tape that is
                                        lowered alone; `get` and `after` give the results
    index    args = (table[, offset])   data = (row, column): one entry of a table

A table is a matrix of numbers in memory. What gives one ends with its size, (rows, columns), but for `slice`:

    input    data = (position, rows, columns)           a table that comes from outside the block
    table    args = entries, row after row; data = (rows, columns)
    fill     data = (number, rows, columns)             the number in every entry
    slice    args = (loop,)             data = (first, last): columns that a loop wrote, one row per iteration
    after    args = (loop,)             data = (position, rows, columns): a carried table after the last iteration
    update   args = (table, number[, offset]); data = (row, column, rows, columns): the table with one other entry
    reshape  args = (table,)            data = (rows, columns): the same entries, row after row

Limbs are parts of a robot that are computed alike: a number of each limb is one value of a tape, on which all arithmetic works limb
by limb, together with numbers of the whole robot. Backends compute the limbs side by side, or write them out (limbs.py):

    limb     data = (position, limbs)   a number of each limb that comes from outside the block
    spread   args = a number for each limb              the number of each limb
    pick     args = (number of each limb,); data = which limb       the number of one limb
    limb_sum, limb_max    args = (number of each limb,)  over all limbs: of pairs, then of pairs of pairs, and so on

An offset is a number that is added to the row: rounded to a whole one, and the sum clamped to the rows that there are (NaN counts
as zero). Tables are values like numbers: an update gives a new one, which a backend makes in place where the old one is not
used any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

REAL, BOOL, INT = "real", "bool", "int"  # INT: unsigned whole numbers of 32 bits, "words", modulo 2^32
TABLES = frozenset({"input", "table", "fill", "slice", "after", "update", "reshape"})  # operations that give a table
LIMBS = frozenset({"limb", "spread", "pick", "limb_sum", "limb_max"})  # operations on numbers of limbs
STRUCTURE = frozenset({"param", "const", "loop", "get", "index", "call"}) | TABLES | LIMBS


@dataclass(frozen=True)
class Op:
    """One row: name, kinds of arguments and result, meaning, partial derivatives, and how backends write it."""

    name: str
    takes: tuple[str, ...]
    gives: str
    meaning: str
    partials: Callable[..., tuple[Any, ...]] | None  # (result, *args, *data) -> one factor per argument, None for zero
    llvm: str | None = None
    c: str | None = None
    ptx: str | None = None

    @property
    def exact(self) -> bool:
        """Whether IEEE 754 fixes every bit of the result."""
        return self.llvm is not None


OPS: dict[str, Op] = {}


def _row(name: str, signature: str, meaning: str, partials: Any, llvm: str | None = None, c: str | None = None) -> None:
    kinds = {"r": REAL, "b": BOOL, "i": INT}
    takes, gives = signature.split(">")
    OPS[name] = Op(name, tuple(kinds[k] for k in takes), kinds[gives], meaning, partials, llvm, c, _PTX.get(name))


def _intrinsic(name: str, arity: int) -> str:
    return f"{{r}} = call {{V}} @llvm.{name}.{{S}}(" + ", ".join(f"{{V}} {{{x}}}" for x in "abc"[:arity]) + ")"


def _extreme(less: str) -> str:
    # the first argument where it compares so, else the second; NaN in either one gives NaN
    return (
        f"{{r}}.l = fcmp {less} {{V}} {{a}}, {{b}}\n"
        "{r}.m = select {B} {r}.l, {V} {a}, {V} {b}\n"
        "{r}.n = fcmp uno {V} {b}, {b}\n"
        "{r} = select {B} {r}.n, {V} {b}, {V} {r}.m"
    )


# 2^k by writing the exponent field: clamp, add a number whose last mantissa bits then hold k, add the bias, shift up
_POW2_LLVM = (
    "{r}.1 = fcmp ogt {V} {a}, {pow2_low}\n"
    "{r}.2 = select {B} {r}.1, {V} {a}, {V} {pow2_low}\n"
    "{r}.3 = fcmp olt {V} {r}.2, {pow2_high}\n"
    "{r}.4 = select {B} {r}.3, {V} {r}.2, {V} {pow2_high}\n"
    "{r}.5 = fadd {V} {r}.4, {pow2_magic}\n"
    "{r}.6 = bitcast {V} {r}.5 to {I}\n"
    "{r}.7 = add {I} {r}.6, {exponent_bias}\n"
    "{r}.8 = shl {I} {r}.7, {mantissa_bits}\n"
    "{r} = bitcast {I} {r}.8 to {V}"
)
# the exponent field as a number: place it in the mantissa of a power of two, subtract that power and the bias
_LOGB_LLVM = (
    "{r}.1 = bitcast {V} {a} to {I}\n"
    "{r}.2 = lshr {I} {r}.1, {mantissa_bits}\n"
    "{r}.3 = and {I} {r}.2, {exponent_mask}\n"
    "{r}.4 = or {I} {r}.3, {logb_or}\n"
    "{r}.5 = bitcast {I} {r}.4 to {V}\n"
    "{r} = fsub {V} {r}.5, {logb_minus}"
)


def _word(instruction: str) -> str:
    # in float64 kernels a lane of a word has 64 bits, of which the upper half is zero
    return f"{{r}}.1 = {instruction}\n{{r}} = and {{I}} {{r}}.1, {{word_mask}}"


_HIGH_PRODUCT_LLVM = (
    "{r}.1 = {zext} {I} {a} to {D}\n"
    "{r}.2 = {zext} {I} {b} to {D}\n"
    "{r}.3 = mul {D} {r}.1, {r}.2\n"
    "{r}.4 = lshr {D} {r}.3, splat (i64 32)\n"
    "{r} = {trunc} {D} {r}.4 to {I}"
)
# the last bits of the mantissa of a + 1.5 * 2^52 are rint(a) modulo 2^32; a conversion would be undefined for large numbers
_TO_INT_LLVM = (
    "{r}.1 = {fpext} {V} {a} to {F}\n"
    "{r}.2 = fcmp olt {F} {r}.1, {to_int_high}\n"
    "{r}.3 = fcmp ogt {F} {r}.1, {to_int_low}\n"
    "{r}.4 = and {B} {r}.2, {r}.3\n"
    "{r}.5 = fadd {F} {r}.1, {to_int_magic}\n"
    "{r}.6 = bitcast {F} {r}.5 to {D}\n"
    "{r}.7 = and {D} {r}.6, splat (i64 4294967295)\n"
    "{r}.8 = select {B} {r}.4, {D} {r}.7, {D} zeroinitializer\n"
    "{r} = {trunc} {D} {r}.8 to {I}"
)

# PTX instructions: {r} the result, {a} {b} {c} operands, {T} the type of numbers, {X} their bits, {F} the type f64. Registers for
# intermediate results are {p0} predicates, {v0} numbers, {x0} bits of numbers, {d0} doubles, {l0} 64 bits. No instruction here is
# approximate, contracted or flushes subnormal numbers.
_PTX = {
    **{op: f"{op}.rn.{{T}} {{r}}, {{a}}, {{b}};" for op in ("add", "sub", "mul", "div")},
    "neg": "neg.{T} {r}, {a};",
    "fma": "fma.rn.{T} {r}, {a}, {b}, {c};",
    "sqrt": "sqrt.rn.{T} {r}, {a};",
    "abs": "abs.{T} {r}, {a};",
    "copysign": "copysign.{T} {r}, {b}, {a};",
    "rint": "cvt.rni.{T}.{T} {r}, {a};",
    "floor": "cvt.rmi.{T}.{T} {r}, {a};",
    **{
        op: f"setp.{less}.{{T}} {{p0}}, {{a}}, {{b}};\nselp.{{T}} {{v0}}, {{a}}, {{b}}, {{p0}};\n"
        "setp.nan.{T} {p1}, {b}, {b};\nselp.{T} {r}, {b}, {v0}, {p1};"
        for op, less in (("min", "ltu"), ("max", "gtu"))
    },
    "pow2": "setp.gt.{T} {p0}, {a}, {pow2_low};\nselp.{T} {v0}, {a}, {pow2_low}, {p0};\n"
    "setp.lt.{T} {p1}, {v0}, {pow2_high};\nselp.{T} {v1}, {v0}, {pow2_high}, {p1};\n"
    "add.rn.{T} {v2}, {v1}, {pow2_magic};\nmov.{X} {x0}, {v2};\nadd.{I} {x1}, {x0}, {bias};\n"
    "shl.{X} {x2}, {x1}, {digits};\nmov.{X} {r}, {x2};",
    "logb": "mov.{X} {x0}, {a};\nshr.{U} {x1}, {x0}, {digits};\nand.{X} {x2}, {x1}, {exponent_mask};\n"
    "or.{X} {x3}, {x2}, {logb_or};\nmov.{X} {v0}, {x3};\nsub.rn.{T} {r}, {v0}, {logb_minus};",
    "stop_gradient": "mov.{T} {r}, {a};",
    "eq": "setp.eq.{T} {r}, {a}, {b};",
    # the compiler of the driver takes an ordered comparison of an absolute value, such as 0 <= |x|, to be true of NaN as well
    **{op: f"setp.{other}.{{T}} {{p0}}, {{a}}, {{b}};\nnot.pred {{r}}, {{p0}};" for op, other in (("lt", "geu"), ("le", "gtu"))},
    **{op: f"{op}.pred {{r}}, {{a}}, {{b}};" for op in ("and", "or")},
    "not": "not.pred {r}, {a};",
    "select": "selp.{T} {r}, {b}, {c}, {a};",
    **{f"i{op}": f"{op}.u32 {{r}}, {{a}}, {{b}};" for op in ("add", "sub")},
    "imul": "mul.lo.u32 {r}, {a}, {b};",
    "imulhi": "mul.hi.u32 {r}, {a}, {b};",
    **{f"i{op}": f"{op}.b32 {{r}}, {{a}}, {{b}};" for op in ("and", "or", "xor")},
    "ishl": "and.b32 {w0}, {b}, 31;\nshl.b32 {r}, {a}, {w0};",
    "ishr": "and.b32 {w0}, {b}, 31;\nshr.u32 {r}, {a}, {w0};",
    "ilt": "setp.lt.u32 {r}, {a}, {b};",
    "ieq": "setp.eq.u32 {r}, {a}, {b};",
    "iselect": "selp.b32 {r}, {b}, {c}, {a};",
    "to_int": "{widen} {d0}, {a};\nabs.f64 {d1}, {d0};\nsetp.lt.f64 {p0}, {d1}, 0d4320000000000000;\n"
    "add.rn.f64 {d2}, {d0}, 0d4338000000000000;\nmov.b64 {l0}, {d2};\ncvt.u32.u64 {w0}, {l0};\nselp.b32 {r}, {w0}, 0, {p0};",
    "to_real": "cvt.rn.{T}.u32 {r}, {a};",
}

# fmt: off
_row("add",      "rr>r",  "a + b",                        lambda y, a, b: (1.0, 1.0),           "{r} = fadd {V} {a}, {b}", "{a} + {b}")
_row("sub",      "rr>r",  "a - b",                        lambda y, a, b: (1.0, -1.0),          "{r} = fsub {V} {a}, {b}", "{a} - {b}")
_row("mul",      "rr>r",  "a * b",                        lambda y, a, b: (b, a),               "{r} = fmul {V} {a}, {b}", "{a} * {b}")
_row("div",      "rr>r",  "a / b",                        lambda y, a, b: (1.0 / b, -y / b),    "{r} = fdiv {V} {a}, {b}", "{a} / {b}")
_row("neg",      "r>r",   "-a",                           lambda y, a: (-1.0,),                 "{r} = fneg {V} {a}",      "-{a}")
_row("fma",      "rrr>r", "a * b + c, rounded once",      lambda y, a, b, c: (b, a, 1.0),       _intrinsic("fma", 3),      "fma{f}({a}, {b}, {c})")
_row("sqrt",     "r>r",   "square root",                  lambda y, a: (0.5 / y,),              _intrinsic("sqrt", 1),     "sqrt{f}({a})")
_row("abs",      "r>r",   "|a|",                          lambda y, a: ((a < 0.0).where(-1.0, 1.0),), _intrinsic("fabs", 1), "fabs{f}({a})")
_row("copysign", "rr>r",  "|a| with the sign of b",       lambda y, a, b: ((y * a < 0.0).where(-1.0, 1.0), None), _intrinsic("copysign", 2), "copysign{f}({a}, {b})")
_row("rint",     "r>r",   "nearest whole number, ties to even", lambda y, a: (None,),           _intrinsic("rint", 1),     "rint{f}({a})")
_row("floor",    "r>r",   "largest whole number <= a",    lambda y, a: (None,),                 _intrinsic("floor", 1),    "floor{f}({a})")
_row("min",      "rr>r",  "a if a < b else b; NaN if either is", None,                          _extreme("ult"),           "cd_min({a}, {b})")
_row("max",      "rr>r",  "a if a > b else b; NaN if either is", None,                          _extreme("ugt"),           "cd_max({a}, {b})")
_row("pow2",     "r>r",   "2^rint(a), a clamped to the normal exponents; NaN counts as the lowest", lambda y, a: (None,), _POW2_LLVM, "cd_pow2({a})")
_row("logb",     "r>r",   "exponent field of a, less its bias", lambda y, a: (None,),           _LOGB_LLVM,                "cd_logb({a})")
_row("stop_gradient",     "r>r",   "a, as a value with the derivative zero", lambda y, a: (None,),       "{r} = bitcast {V} {a} to {V}", "{a}")
_row("lt",       "rr>b",  "a < b",                        None,                                 "{r} = fcmp olt {V} {a}, {b}", "{a} < {b}")
_row("le",       "rr>b",  "a <= b",                       None,                                 "{r} = fcmp ole {V} {a}, {b}", "{a} <= {b}")
_row("eq",       "rr>b",  "a == b",                       None,                                 "{r} = fcmp oeq {V} {a}, {b}", "{a} == {b}")
_row("and",      "bb>b",  "a and b",                      None,                                 "{r} = and {B} {a}, {b}",  "{a} && {b}")
_row("or",       "bb>b",  "a or b",                       None,                                 "{r} = or {B} {a}, {b}",   "{a} || {b}")
_row("not",      "b>b",   "not a",                        None,                                 "{r} = xor {B} {a}, {ones}", "!{a}")
_row("select",   "brr>r", "b if a else c",                None,                                 "{r} = select {B} {a}, {V} {b}, {V} {c}", "{a} ? {b} : {c}")

# words: unsigned whole numbers of 32 bits, exact in every precision
_row("iadd",     "ii>i",  "a + b modulo 2^32",            None,                                 _word("add {I} {a}, {b}"), "{a} + {b}")
_row("isub",     "ii>i",  "a - b modulo 2^32",            None,                                 _word("sub {I} {a}, {b}"), "{a} - {b}")
_row("imul",     "ii>i",  "lower 32 bits of a * b",       None,                                 _word("mul {I} {a}, {b}"), "{a} * {b}")
_row("imulhi",   "ii>i",  "upper 32 bits of a * b",       None,                                 _HIGH_PRODUCT_LLVM,        "(uint32_t)((uint64_t){a} * {b} >> 32)")
_row("iand",     "ii>i",  "a & b, bit by bit",            None,                                 "{r} = and {I} {a}, {b}",  "{a} & {b}")
_row("ior",      "ii>i",  "a | b, bit by bit",            None,                                 "{r} = or {I} {a}, {b}",   "{a} | {b}")
_row("ixor",     "ii>i",  "a ^ b, bit by bit",            None,                                 "{r} = xor {I} {a}, {b}",  "{a} ^ {b}")
_row("ishl",     "ii>i",  "a shifted up by b modulo 32 places", None,                           "{r}.0 = and {I} {b}, {word_places}\n" + _word("shl {I} {a}, {r}.0"), "{a} << ({b} & 31u)")
_row("ishr",     "ii>i",  "a shifted down by b modulo 32 places", None,                         "{r}.0 = and {I} {b}, {word_places}\n{r} = lshr {I} {a}, {r}.0", "{a} >> ({b} & 31u)")
_row("ilt",      "ii>b",  "a < b",                        None,                                 "{r} = icmp ult {I} {a}, {b}", "{a} < {b}")
_row("ieq",      "ii>b",  "a == b",                       None,                                 "{r} = icmp eq {I} {a}, {b}", "{a} == {b}")
_row("iselect",  "bii>i", "b if a else c",                None,                                 "{r} = select {B} {a}, {I} {b}, {I} {c}", "{a} ? {b} : {c}")
_row("to_int",   "r>i",   "rint(a) modulo 2^32; 0 for NaN and from |a| = 2^51 on", None,        _TO_INT_LLVM,              "cd_to_int({a})")
_row("to_real",  "i>r",   "a as a real number, rounded once", lambda y, a: (None,),             "{r} = uitofp {I} {a} to {V}", "({real}){a}")

# elementary functions: lowered by us, or the true function at any precision
_row("sin",      "r>r",   "sine",                         lambda y, a: (a.cos(),))
_row("cos",      "r>r",   "cosine",                       lambda y, a: (-a.sin(),))
_row("tan",      "r>r",   "tangent",                      lambda y, a: (1.0 + y * y,))
_row("asin",     "r>r",   "arc sine",                     lambda y, a: (1.0 / ((1.0 - a) * (1.0 + a)).sqrt(),))
_row("acos",     "r>r",   "arc cosine",                   lambda y, a: (-1.0 / ((1.0 - a) * (1.0 + a)).sqrt(),))
_row("atan2",    "rr>r",  "angle of the point (b, a)",    lambda y, a, b: (b / (a * a + b * b), -a / (a * a + b * b)))
_row("exp",      "r>r",   "e^a",                          lambda y, a: (y,))
_row("log",      "r>r",   "natural logarithm",            lambda y, a: (1.0 / a,))
_row("tanh",     "r>r",   "hyperbolic tangent",           lambda y, a: ((1.0 - y) * (1.0 + y),))
_row("pow",      "r>r",   "a^p for the number p = data",  lambda y, a, p: (p * a ** (p - 1.0),))
# fmt: on

ELEMENTARY = tuple([name for name, op in OPS.items() if not op.exact])
