"""The mpfr backend: a tape at any precision, every operation correctly rounded, the elementary ones included."""

from __future__ import annotations

from typing import Any

from condyle.errors import BackendError, require
from condyle.tape.backends.interface import Backend, Kernel, Options
from condyle.tape.backends.reference import InterpretedKernel
from condyle.tape.interpret import CHOICES, WORD, Arithmetic
from condyle.tape.ops import ELEMENTARY
from condyle.tape.tape import Tape


class Mpfr(Arithmetic):
    """Binary floating point with `bits` digits and MPFR's whole exponent range, on numbers of gmpy2.

    Zeros, infinities and NaN are as in IEEE 754; there are no subnormal numbers. pow2 and logb are neither rounded nor clamped:
    logb(0) is -infinity. Functions belong to a context of this object: the caller's is neither read nor changed.
    """

    def __init__(self, bits: int) -> None:
        gmpy2 = require("gmpy2", "precision", "the mpfr backend")
        if not 2 <= bits <= 1_000_000:
            raise BackendError(f"MPFR numbers have from 2 to 1,000,000 bits here, not {bits}")
        self.bits = bits
        c = self.context = gmpy2.context(precision=bits, emin=gmpy2.get_emin_min(), emax=gmpy2.get_emax_max())
        self._mpfr, infinite = gmpy2.mpfr, gmpy2.is_infinite

        def logb(a: Any) -> Any:
            if a == 0:
                return self.number(float("-inf"))
            return self.number(c.frexp(a)[0] - 1) if gmpy2.is_finite(a) else c.abs(a)

        def copysign(a: Any, b: Any) -> Any:
            return a if gmpy2.is_signed(a) == gmpy2.is_signed(b) else c.minus(a)

        same = ("add", "sub", "mul", "div", "fma", "sqrt", "abs", *ELEMENTARY)
        self.functions = CHOICES | {name: getattr(c, name) for name in same}
        self.functions |= {
            "neg": c.minus,
            "copysign": copysign,
            "rint": lambda a: a if infinite(a) else c.rint(a),
            "floor": lambda a: a if infinite(a) else c.rint_floor(a),
            "pow2": c.exp2,
            "logb": logb,
            "pow": lambda a, p: c.pow(a, self.number(p)),
            "to_int": lambda a: int(c.rint(a)) & WORD if abs(a) < 2**51 else 0,
            "to_real": self.number,
        }

    def number(self, value: Any) -> Any:
        """A float, int or mpfr, rounded to this precision."""
        return self._mpfr(value, self.bits, self.context)


class MpfrBackend(Backend):
    """MPFR numbers of `bits` digits; arrays hold gmpy2.mpfr, and on the way in also floats and ints."""

    takes_objects = True

    def __init__(self, bits: int) -> None:
        self.digits = bits

    def compile(self, tape: Tape, precision: str, options: Options) -> Kernel:
        """The tape interpreted with MPFR numbers."""
        return InterpretedKernel(tape, Mpfr(self.digits))
