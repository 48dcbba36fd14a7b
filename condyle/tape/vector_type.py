"""LLVM text for vectors of lanes: types, constants, and the operation table with the types filled in."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from condyle.tape.ops import OPS


@dataclass(frozen=True)
class VectorType:
    """A precision, "f64" or "f32", at a number of lanes."""

    precision: str
    lanes: int

    @property
    def bytes(self) -> int:
        """Size of one number."""
        return 8 if self.precision == "f64" else 4

    @property
    def element(self) -> str:
        """LLVM's type of one number."""
        return "double" if self.precision == "f64" else "float"

    @property
    def vector(self) -> str:
        """LLVM's type of a vector of lanes."""
        return f"<{self.lanes} x {self.element}>"

    @property
    def suffix(self) -> str:
        """How intrinsics name the vector type."""
        return f"v{self.lanes}{self.precision}"

    def splat(self, value: float) -> str:
        """A constant in every lane; LLVM writes the bits of a double, also for float."""
        if self.precision == "f32":
            value = _nearest_single(value)
        return f"splat ({self.element} 0x{struct.pack('>d', value).hex().upper()})"

    def templates(self) -> dict[str, str]:
        """The LLVM text of every exact operation; {r} {a} {b} {c} stay open."""
        digits, bias, integer = (52, 1023, "i64") if self.precision == "f64" else (23, 127, "i32")
        fields = {
            "V": self.vector,
            "B": f"<{self.lanes} x i1>",
            "I": f"<{self.lanes} x {integer}>",
            "S": self.suffix,
            "ones": "splat (i1 true)",
            "pow2_low": self.splat(1.0 - bias),
            "pow2_high": self.splat(float(bias)),
            "pow2_magic": self.splat(float(2**digits + 2 ** (digits - 1))),
            "exponent_bias": f"splat ({integer} {bias})",
            "mantissa_bits": f"splat ({integer} {digits})",
            "exponent_mask": f"splat ({integer} {2 * bias + 1})",
            "logb_or": f"splat ({integer} {(bias + digits) << digits})",
            "logb_minus": self.splat(float(2**digits + bias)),
            **{x: f"{{{x}}}" for x in "rabc"},
        }
        return {name: op.llvm.format(**fields) for name, op in OPS.items() if op.llvm is not None}

    def declarations(self) -> list[str]:
        """The intrinsics that the templates and loops call."""
        v, s = self.vector, self.suffix
        arity = {"fma": 3, "copysign": 2, "sqrt": 1, "fabs": 1, "rint": 1, "floor": 1}
        every = f"declare i1 @llvm.vector.reduce.and.v{self.lanes}i1(<{self.lanes} x i1>)"
        return [every, *[f"declare {v} @llvm.{name}.{s}({', '.join([v] * n)})" for name, n in arity.items()]]


def _nearest_single(value: float) -> float:
    try:
        single: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        single = float("inf") if value > 0 else float("-inf")
    return single
