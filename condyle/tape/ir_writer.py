"""LLVM text being written: vectors of lanes, instructions with new names, counted loops, and functions for pieces of a kernel."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from condyle.tape.interpret import Ieee
from condyle.tape.ops import OPS
from condyle.tape.target import Target


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

    @property
    def integer(self) -> str:
        """LLVM's type of one word; it is as wide as a number, so that a slot can hold either."""
        return "i64" if self.precision == "f64" else "i32"

    @property
    def words(self) -> str:
        """LLVM's type of a vector of words."""
        return f"<{self.lanes} x {self.integer}>"

    @property
    def word_mask(self) -> str:
        """A constant with the bits that a word can have."""
        return self.splat(2**32 - 1)

    def splat(self, value: float | int | tuple[float, ...]) -> str:
        """A constant in every lane, or one for each; LLVM writes a word of 32 bits with its sign."""
        if isinstance(value, tuple):
            return f"<{', '.join(f'{self.element} {self.number(x)}' for x in value)}>"
        if isinstance(value, int):
            return f"splat ({self.integer} {value if self.integer == 'i64' or value < 2**31 else value - 2**32})"
        return f"splat ({self.element} {self.number(value)})"

    def number(self, value: float) -> str:
        """A constant of this precision; LLVM writes the bits of a double, also for float."""
        return f"0x{struct.pack('>d', Ieee(single=self.precision == 'f32').number(value)).hex().upper()}"

    def templates(self) -> dict[str, str]:
        """The LLVM text of every exact operation; {r} {a} {b} {c} stay open."""
        digits, bias = (52, 1023) if self.precision == "f64" else (23, 127)
        integer, doubles = self.integer, VectorType("f64", self.lanes)
        fpext, zext, trunc = ("bitcast",) * 3 if self.precision == "f64" else ("fpext", "zext", "trunc")
        fields = {
            "V": self.vector,
            "B": f"<{self.lanes} x i1>",
            "I": self.words,
            "D": doubles.words,
            "F": doubles.vector,
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
            **{"fpext": fpext, "zext": zext, "trunc": trunc, "word_mask": self.word_mask, "word_places": self.splat(31)},
            "to_int_low": doubles.splat(-(2.0**51)),
            "to_int_high": doubles.splat(2.0**51),
            "to_int_magic": doubles.splat(1.5 * 2.0**52),
            **{x: f"{{{x}}}" for x in "rabc"},
        }
        return {name: op.llvm.format(**fields) for name, op in OPS.items() if op.llvm is not None}

    def declarations(self) -> list[str]:
        """The intrinsics that the templates and loops call."""
        v, s = self.vector, self.suffix
        arity = {"fma": 3, "copysign": 2, "sqrt": 1, "fabs": 1, "rint": 1, "floor": 1}
        every = f"declare i1 @llvm.vector.reduce.and.v{self.lanes}i1(<{self.lanes} x i1>)"
        return [every, *[f"declare {v} @llvm.{name}.{s}({', '.join([v] * n)})" for name, n in arity.items()]]


class IRWriter:
    """Finished functions, and the lines of the current one."""

    def __init__(self, vector: VectorType, target: Target) -> None:
        self.type, self.target = vector, target
        self.functions: list[str] = []
        self.globals: list[str] = []
        self.prologue: dict[str, str] = {}  # what the current function loads first: text -> name
        self.function = 0  # number of the current function
        self.lines: list[str] = []
        self.label = "entry"
        self.names = 0

    def put(self, text: str) -> str:
        """Write `%new = text` and return %new."""
        self.names += 1
        self.lines.append(f"%t{self.names} = {text}")
        return f"%t{self.names}"

    def once(self, text: str) -> str:
        """The name of `text`, which is computed at the start of the current function."""
        if text not in self.prologue:
            self.names += 1
            self.prologue[text] = f"%t{self.names}"
        return self.prologue[text]

    def do(self, text: str) -> None:
        """Write an instruction that gives nothing."""
        self.lines.append(text)

    def finish(self, name: str, parameters: str) -> None:
        """End the current function."""
        first = [f"{name} = {text}" for text, name in self.prologue.items()]
        body = "\n  ".join([*first, *self.lines, "ret void"])
        self.functions.append(f"define internal void @{name}({parameters}) #0 {{\nentry:\n  {body}\n}}")

    @contextmanager
    def piece(self) -> Iterator[None]:
        """What is written inside becomes a function of its own, called here: LLVM is quicker with many short functions."""
        outer_lines, outer_label = self.lines, self.label
        self.lines, self.label = [], "entry"
        self.names += 1
        around = self.function, self.prologue
        self.function, self.prologue = self.names, {}
        yield
        name = f"piece{len(self.functions)}"
        ports, scratch = self.target.ports, self.target.scratch
        self.finish(name, f"{ports} noalias %ports, i64 %b, i64 %last_row, {scratch} noalias %scratch")
        self.lines, self.label = outer_lines, outer_label
        self.function, self.prologue = around
        self.do(f"call void @{name}({ports} %ports, i64 %b, i64 %last_row, {scratch} %scratch)")

    def counted(self, count: int | str, *, reverse: bool = False, carry: list[str] | None = None) -> tuple[str, OpenLoop]:
        """Open a loop: (its counter, what closes it). `carry`: start values; the closing call is given the next ones."""
        last = count - 1 if isinstance(count, int) else self.put(f"sub i64 {count}, 1") if reverse else count
        self.names += 1
        label, before = f"loop{self.names}", self.label
        first, end, step = (last, -1, -1) if reverse else (0, count, 1)
        self.lines += [f"br label %{label}", f"{label}:"]
        self.lines.append(f"%{label}.i = phi i64 [ {first}, %{before} ], [ %{label}.next, %{label}.latch ]")
        phis = []
        for j, vector in enumerate(carry or []):
            phis.append((len(self.lines), f"%{label}.c{j}", f"[ {vector}, %{before} ]"))
            self.lines.append("")
        self.label = label
        return f"%{label}.i", OpenLoop(self, label, end, step, phis)


class OpenLoop:
    """What ends a loop that was opened; `carry` are its values inside."""

    def __init__(self, writer: IRWriter, label: str, end: int | str, step: int, phis: list[tuple[int, str, str]]) -> None:
        self.writer, self.label, self.end, self.step, self.phis = writer, label, end, step, phis
        self.carry = [name for _, name, _ in phis]
        self.left: str | None = None  # the label from which the loop is left early

    def leave(self, done: str) -> None:
        """End the loop here if `done` holds in every lane; its values are then the carried ones."""
        label, truths = self.label, f"<{self.writer.type.lanes} x i1>"
        self.left = self.writer.label
        all_done = f"call i1 @llvm.vector.reduce.and.v{self.writer.type.lanes}i1({truths} {done})"
        if self.writer.target.limbs:  # one state: the same in all lanes
            all_done = f"extractelement {truths} {done}, i64 0"
        self.writer.lines += [
            f"%{label}.done = {all_done}",
            f"br i1 %{label}.done, label %{label}.exit, label %{label}.rest",
            f"{label}.rest:",
        ]
        self.writer.label = f"{label}.rest"

    def __call__(self, following: list[str] | None = None) -> list[str]:
        """End the iteration, given the next values; returns them as they are after the loop."""
        lines, label, vector = self.writer.lines, self.label, self.writer.type.vector
        following = following or []
        # the phis were left open until the next values were known
        for (at, name, begin), value in zip(self.phis, following, strict=True):
            lines[at] = f"{name} = phi {vector} {begin}, [ {value}, %{label}.latch ]"
        lines += [
            f"br label %{label}.latch",
            f"{label}.latch:",
            f"%{label}.next = add i64 %{label}.i, {self.step}",
            f"%{label}.stop = icmp eq i64 %{label}.next, {self.end}",
            f"br i1 %{label}.stop, label %{label}.exit, label %{label}",
            f"{label}.exit:",
        ]
        self.writer.label = f"{label}.exit"
        if self.left is None:
            return following
        for j, (old, new) in enumerate(zip(self.carry, following, strict=True)):
            lines.append(f"%{label}.f{j} = phi {vector} [ {old}, %{self.left} ], [ {new}, %{label}.latch ]")
        return [f"%{label}.f{j}" for j in range(len(following))]
