"""The fixed parts of exported C: names, literals, the frame of a file, and helpers that C's library lacks."""

from __future__ import annotations

import math
import re

from condyle.tape.interpret import Ieee

# names that a port or a function must not take: words of C99, functions of its library, macros of common systems, ours
_WORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm bool true false
complex imaginary linux unix main i size_t ptrdiff_t wchar_t uint32_t uint64_t int64_t errno assert signgam environ cd_clamp
"""
_LIBRARY = """
abort abs atexit atof atoi atol bsearch calloc clock div exit fclose fopen fprintf fputc fputs fread free fscanf fwrite
gamma getc getchar getenv gets index isfinite isinf isnan isnormal j0 j1 jn labs ldiv longjmp malloc memchr memcmp
memcpy memmove memset perror printf putc putchar puts qsort raise rand realloc remove rename rewind rindex scanf
setjmp signal signbit sprintf srand sscanf strcat strchr strcmp strcpy strlen strtod strtol system time tmpfile ungetc
y0 y1 yn
"""
_FOR_EACH_TYPE = """
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim floor fma fmax fmin
fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter
nexttoward pow remainder remquo rint round scalbln scalbn sin sinh sqrt tan tanh tgamma trunc
cd_min cd_max cd_pow2 cd_logb cd_to_int cd_row
"""
RESERVED = frozenset(_WORDS.split() + _LIBRARY.split() + [n + f for n in _FOR_EACH_TYPE.split() for f in ("", "f", "l")])
_OURS = re.compile(r"[xktwci]\d")  # how values, constants, tables, carried values and counters are called


def identifier(name: str, taken: set[str]) -> str:
    """A name for C close to the given one, unlike any that is taken; it is taken from now on."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII)
    if not re.match(r"[A-Za-z]", word):
        word = f"p{word}"
    if word.isupper() and len(word) > 1:
        word = f"{word}_"  # macros are in capitals
    if _OURS.match(word):
        word = f"p_{word}"
    found, k = word, 1
    while found in taken or found in RESERVED:
        k += 1
        found = f"{word}_" if k == 2 else f"{word}_{k}"
    taken.add(found)
    return found


def literal(value: float | int, single: bool) -> str:
    """A constant in hexadecimal, which has one meaning; a number is rounded to float first if `single`."""
    if isinstance(value, int):
        return f"{value:#x}u"
    value = Ieee(single=single).number(value)
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    digits, _, exponent = abs(value).hex().partition("p")
    if "." in digits:
        digits = digits.rstrip("0").rstrip(".")
    text = f"{digits}p{exponent}{'f' if single else ''}"
    return text if math.copysign(1.0, value) > 0 else f"(-{text})"


def frame(helpers: set[str], words: bool) -> list[str]:
    """Includes, and what keeps a compiler from changing the bits."""
    copies = bool(helpers & {"pow2", "logb"})
    bits = ["#include <stdint.h>"] * (words or copies) + ["#include <string.h>"] * copies
    return ["#include <float.h>", "#include <math.h>", "#include <stddef.h>", *bits, *_FRAME]


_FRAME = """
#if defined(__FAST_MATH__)
#error "this code needs IEEE 754 arithmetic: compile without -ffast-math"
#endif
#if FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16
#error "this code needs every operation rounded to its own type: on 32-bit x86, compile with -msse2 -mfpmath=sse"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC push_options
#pragma GCC optimize ("fp-contract=off")
#if defined(__AVX512F__)
/* gcc 12 gives wrong results for conditional fma in vectors of AVX-512 */
#pragma GCC optimize ("no-tree-vectorize")
#endif
#elif defined(_MSC_VER)
#pragma fp_contract (off)
#endif
""".splitlines()

FRAME_END = """
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif""".splitlines()


def helper(op: str, single: bool) -> list[str]:
    """A function that an operation of the table calls; several kernels in one file share it."""
    real, f, integer, digits, bias = ("float", "f", "uint32_t", 23, 127) if single else ("double", "", "uint64_t", 52, 1023)
    guard = f"CD_{op.upper()}{f.upper()}"
    fields = {"real": real, "f": f, "integer": integer, "digits": digits, "bias": bias, "low": bias - 1}
    less, other = ("<", ">=") if op == "min" else (">", "<=")
    fields |= {"mask": f"{2 * bias + 1:#x}u", "op": op, "less": less, "other": other}
    text = _HELPERS[op].strip()
    for key, value in fields.items():
        text = text.replace(f"<{key}>", str(value))
    return [f"#ifndef {guard}", f"#define {guard}", *text.splitlines(), "#endif", ""]


_EXTREME = """
/* a if a <less> b, else b; NaN if either is */
static inline <real> cd_<op><f>(<real> a, <real> b)
{
    return b != b ? b : (a <other> b ? b : a);
}"""
_HELPERS = {
    "min": _EXTREME,
    "max": _EXTREME,
    "row": """
/* row + the whole number nearest to a, within the rows that there are */
static inline size_t cd_row<f>(<real> a, size_t row, size_t rows)
{
    a = rint<f>(a);
    a = (a == a ? a : 0.0<f>) + (<real>)row;
    a = a > 0.0<f> ? a : 0.0<f>;
    return a < (<real>)(rows - 1) ? (size_t)a : rows - 1;
}""",
    "clamp": """
/* a row within those that there are */
static inline size_t cd_clamp(ptrdiff_t row, ptrdiff_t rows)
{
    return (size_t)(row < 0 ? 0 : row < rows ? row : rows - 1);
}""",
    "pow2": """
/* 2^a for the whole number nearest to a, clamped to the normal exponents: its last bits become the exponent field */
static inline <real> cd_pow2<f>(<real> a)
{
    <integer> bits;
    a = a > -<low>.0<f> ? a : -<low>.0<f>;
    a = a < <bias>.0<f> ? a : <bias>.0<f>;
    a += 0x1.8p<digits><f>;
    memcpy(&bits, &a, sizeof bits);
    bits = (bits + <bias>u) << <digits>;
    memcpy(&a, &bits, sizeof a);
    return a;
}""",
    "to_int": """
/* the whole number nearest to a, modulo 2^32; 0 for NaN and from 2^51 on */
static inline uint32_t cd_to_int<f>(<real> a)
{
    return fabs<f>(a) < 0x1p51<f> ? (uint32_t)(int64_t)rint<f>(a) : 0u;
}""",
    "logb": """
/* the exponent field of a, less its bias */
static inline <real> cd_logb<f>(<real> a)
{
    <integer> bits;
    memcpy(&bits, &a, sizeof bits);
    return (<real>)(int)((bits >> <digits>) & <mask>) - <bias>.0<f>;
}""",
}
