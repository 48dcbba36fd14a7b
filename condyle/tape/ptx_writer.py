"""PTX instructions being written: registers, arithmetic, memory and tables, exchanges between the threads of a state.

What is computed is said in ptx.py; here is how it is written.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace

from condyle.tape.interpret import Ieee
from condyle.tape.ops import BOOL, INT, OPS
from condyle.tape.tape import RUN_TIME

ALL = "0xffffffff"  # threads of a warp
# Newton's method from the approximation of the hardware, as the compiler writes rcp.rn, div.rn and sqrt.rn where they do not
# branch: the last step rounds as IEEE 754 wants it. In f64 the approximation has the upper 32 bits; the lower ones are those that
# the compiler takes. The root of zero is zero times that of a small number; a zero divided is itself times the reciprocal.
FAST_RECIPROCAL = {
    "f32": "rcp.approx.ftz.f32 {v0}, {a};\nneg.f32 {v1}, {a};\nfma.rn.f32 {v2}, {v1}, {v0}, 0f3F800000;\n"
    "fma.rn.f32 {r}, {v0}, {v2}, {v0};",
    "f64": "mov.b64 {{w0}, {w1}}, {a};\nadd.s32 {w2}, {w1}, 3146754;\nrcp.approx.ftz.f64 {d0}, {a};\n"
    "mov.b64 {{w3}, {w4}}, {d0};\nmov.b64 {d1}, {{w2}, {w4}};\nneg.f64 {d2}, {a};\n"
    "fma.rn.f64 {d3}, {d2}, {d1}, 0d3FF0000000000000;\nfma.rn.f64 {d4}, {d3}, {d3}, {d3};\nfma.rn.f64 {d5}, {d1}, {d4}, {d1};\n"
    "fma.rn.f64 {d6}, {d2}, {d5}, 0d3FF0000000000000;\nfma.rn.f64 {r}, {d5}, {d6}, {d5};",
}
FAST_DIVISION = {
    "f32": "rcp.approx.ftz.f32 {v0}, {b};\nneg.f32 {v1}, {b};\nfma.rn.f32 {v2}, {v1}, {v0}, 0f3F800000;\n"
    "fma.rn.f32 {v3}, {v0}, {v2}, {v0};\nmul.rn.f32 {v4}, {a}, {v3};\nfma.rn.f32 {v5}, {v1}, {v4}, {a};\n"
    "fma.rn.f32 {v6}, {v3}, {v5}, {v4};\nsetp.eq.f32 {p0}, {a}, 0f00000000;\nselp.f32 {r}, {v4}, {v6}, {p0};",
    "f64": "rcp.approx.ftz.f64 {d0}, {b};\nmov.b64 {{w0}, {w1}}, {d0};\nmov.u32 {w2}, 1;\nmov.b64 {d1}, {{w2}, {w1}};\n"
    "neg.f64 {d2}, {b};\nfma.rn.f64 {d3}, {d2}, {d1}, 0d3FF0000000000000;\nfma.rn.f64 {d4}, {d3}, {d3}, {d3};\n"
    "fma.rn.f64 {d5}, {d1}, {d4}, {d1};\nfma.rn.f64 {d6}, {d2}, {d5}, 0d3FF0000000000000;\n"
    "fma.rn.f64 {d7}, {d5}, {d6}, {d5};\nmul.rn.f64 {d8}, {a}, {d7};\nfma.rn.f64 {d9}, {d2}, {d8}, {a};\n"
    "fma.rn.f64 {d10}, {d7}, {d9}, {d8};\nsetp.eq.f64 {p0}, {a}, 0d0000000000000000;\nselp.f64 {r}, {d8}, {d10}, {p0};",
}
FAST_ROOT = {
    "f32": "max.f32 {v0}, {a}, 0f0D800000;\nrsqrt.approx.ftz.f32 {v1}, {v0};\nmul.rn.f32 {v2}, {a}, {v1};\n"
    "mul.rn.f32 {v3}, {v1}, 0f3F000000;\nneg.f32 {v4}, {v2};\nfma.rn.f32 {v5}, {v4}, {v2}, {a};\n"
    "fma.rn.f32 {r}, {v5}, {v3}, {v2};",
    "f64": "mov.b64 {{w0}, {w1}}, {a};\nmax.s32 {w2}, {w1}, 55574528;\nmov.b64 {d0}, {{w0}, {w2}};\n"
    "rsqrt.approx.ftz.f64 {d1}, {d0};\nmov.b64 {{w3}, {w4}}, {d1};\nadd.s32 {w5}, {w1}, -55574528;\n"
    "mov.b64 {d2}, {{w5}, {w4}};\nmul.rn.f64 {d3}, {d2}, {d2};\nneg.f64 {d4}, {d3};\n"
    "fma.rn.f64 {d5}, {a}, {d4}, 0d3FF0000000000000;\nfma.rn.f64 {d6}, {d5}, 0d3FD8000000000000, 0d3FE0000000000000;\n"
    "mul.rn.f64 {d7}, {d2}, {d5};\nfma.rn.f64 {d8}, {d6}, {d7}, {d2};\nmul.rn.f64 {d9}, {a}, {d8};\n"
    "mov.b64 {{w6}, {w7}}, {d8};\nadd.s32 {w8}, {w7}, -1048576;\nmov.b64 {d10}, {{w6}, {w8}};\nneg.f64 {d11}, {d9};\n"
    "fma.rn.f64 {d12}, {d9}, {d11}, {a};\nfma.rn.f64 {r}, {d12}, {d10}, {d9};",
}
REGISTERS = {"pred": "%p", "f64": "%d", "f32": "%f", "b32": "%r", "b64": "%l"}


@dataclass(frozen=True)
class Column:
    """Where a column of a table lies: entry r at  base + (stride * r + offset) * (bytes of an entry)."""

    base: str  # register with an address
    space: str  # "local", "shared", "global.nc", or "global" for outputs
    stride: int
    offset: int
    entry_bytes: str | None = None  # register with the bytes from entry to entry, if a constant does not do


@dataclass(frozen=True)
class PtxTable:
    """A table: its columns, its number of rows, and whether it may be written to."""

    columns: list[Column]
    rows: int
    mutable: bool = True

    @property
    def bases(self) -> set[str]:
        """The areas of memory in which it lies."""
        return {column.base for column in self.columns}

    @property
    def contiguous(self) -> bool:
        """Whether it is one stretch of memory, row after row."""
        first, width = self.columns[0], len(self.columns)
        return self.columns == [replace(first, stride=width, offset=first.offset + c) for c in range(width)]


class PtxWriter:
    """Text being written. `lanes`: threads of a state."""

    def __init__(self, precision: str, lanes: int) -> None:
        self.type, self.bytes, self.lanes = precision, 8 if precision == "f64" else 4, lanes
        self.lines: list[str] = []
        self.globals: list[str] = []
        self.areas: list[str] = []  # declarations of local memory
        self.local = 0  # bytes of it
        self.counts = dict.fromkeys(REGISTERS, 0)
        self.labels = 0
        self.templates = self._templates()
        self.rows = ""  # register with the number of rows that is known at run time
        self.lane, self.wide_lane, self.lane_bits = "", "", list[str]()  # the thread's number among those of its state
        self.constants: dict[str, int] = {}  # in constant memory
        self.lane_bit, self.within = "", ""  # 1 << that number, and whether the state is one of the batch
        self.storing: dict[tuple[int, ...], str] = {}  # threads of a state -> whether this one is among them, and writes outputs
        # (address of an output, step) -> address of entry step * the thread's number
        self.lane_bases: dict[tuple[str, int], str] = {}
        self.limb_constants: dict[tuple[str, ...], int] = {}
        self.limb_base = ""  # register with the address of the thread's limb in the table of constants

    # ---- instructions

    def register(self, kind: str) -> str:
        """A new register."""
        self.counts[kind] += 1
        return f"{REGISTERS[kind]}{self.counts[kind]}"

    def put(self, text: str, kind: str) -> str:
        """Write an instruction with a new register as its result: `text` has {r} for it."""
        r = self.register(kind)
        self.lines.append(text.format(r=r))
        return r

    def do(self, text: str) -> None:
        """Write an instruction."""
        self.lines.append(text)

    def label(self) -> str:
        """A new label."""
        self.labels += 1
        return f"L{self.labels}"

    def number(self, value: float | int) -> str:
        """A constant: its bits in hexadecimal, or a word."""
        if isinstance(value, int):
            return str(value)
        exact = Ieee(single=self.type == "f32").number(value)
        if self.type == "f32":
            return f"0f{struct.pack('>f', exact).hex().upper()}"
        return f"0d{struct.pack('>d', exact).hex().upper()}"

    def _templates(self) -> dict[str, str]:
        """PTX text of every exact operation, without what depends on its operands."""
        digits, bias = (52, 1023) if self.type == "f64" else (23, 127)
        fields = {
            **{"T": self.type, "X": f"b{8 * self.bytes}", "I": f"s{8 * self.bytes}", "U": f"u{8 * self.bytes}"},
            **{"bias": str(bias), "digits": str(digits), "exponent_mask": str(2 * bias + 1)},
            "pow2_low": self.number(1.0 - bias),
            "pow2_high": self.number(float(bias)),
            "pow2_magic": self.number(float(2**digits + 2 ** (digits - 1))),
            "logb_or": str((bias + digits) << digits),
            "logb_minus": self.number(float(2**digits + bias)),
            "widen": "mov.f64" if self.type == "f64" else "cvt.f64.f32",
        }
        return {
            name: re.sub(r"\{(\w+)\}", lambda m: fields.get(m[1], m[0]), op.ptx) for name, op in OPS.items() if op.ptx is not None
        }

    def operation(self, op: str, operands: list[str], *, fast: bool = False) -> str:
        """Write an arithmetic operation; returns its register. `fast`: without branches, right within bounds (lean.py)."""
        template = self.templates[op]
        operands = [self.loaded(x) for x in operands]
        if op == "div" and operands[0] == self.number(1.0):
            # rounded to nearest as a division is, with fewer instructions
            operands, template = operands[1:], FAST_RECIPROCAL[self.type] if fast else f"rcp.rn.{self.type} {{r}}, {{a}};"
        elif fast:
            template = (FAST_DIVISION if op == "div" else FAST_ROOT)[self.type]
        kinds = {"p": "pred", "v": self.type, "x": f"b{8 * self.bytes}", "d": "f64", "l": "b64", "w": "b32"}
        result = self.register({BOOL: "pred", INT: "b32"}.get(OPS[op].gives, self.type))
        names = {"r": result, **dict(zip("abc", operands, strict=False))}

        def name(match: re.Match[str]) -> str:
            if match[1] not in names:
                names[match[1]] = self.register(kinds[match[1][0]])
            return names[match[1]]

        self.lines += re.sub(r"\{(\w+)\}", name, template).split("\n")
        return result

    def loaded(self, x: str) -> str:
        """An operand of arithmetic: a constant of f64 that an instruction has no room for comes from constant memory."""
        if not x.startswith("0d") or x.endswith("00000000"):
            return x
        k = self.constants.setdefault(x, len(self.constants))
        return self.put(f"ld.const.f64 {{r}}, [numbers+{8 * k}];", "f64")

    # ---- memory

    def place(self, column: Column, row: int | str) -> str:
        """The address of an entry, as an operand of a load or store: a row is a number, or a register with one."""
        if column.entry_bytes is not None:
            index = self.entry_index(column, row)
            address = self.put(f"mad.lo.s64 {{r}}, {column.entry_bytes}, {index}, {column.base};", "b64")
            return f"[{address}]"
        if isinstance(row, int):
            return f"[{column.base}+{(column.stride * row + column.offset) * self.bytes}]"
        address = self.put(f"mad.lo.s64 {{r}}, {row}, {column.stride * self.bytes}, {column.base};", "b64")
        return f"[{address}+{column.offset * self.bytes}]"

    def entry_index(self, column: Column, row: int | str) -> str:
        """stride * row + offset, a number or a register."""
        if isinstance(row, int):
            return str(column.stride * row + column.offset)
        if column.stride == 1 and column.offset == 0:
            return row
        return self.put(f"mad.lo.s64 {{r}}, {row}, {column.stride}, {column.offset};", "b64")

    def load(self, column: Column, row: int | str) -> str:
        """The entry of a row."""
        return self.put(f"ld.{column.space}.{self.type} {{r}}, {self.place(column, row)};", self.type)

    def store(self, column: Column, row: int | str, value: str, threads: tuple[int, ...] = (0,)) -> None:
        """Write the entry of a row; of an output by some threads of a state."""
        guard = f"@{self.stores(threads)} " if self.lanes > 1 and column.space == "global" else ""
        self.do(f"{guard}st.{column.space}.{self.type} {self.place(column, row)}, {value};")

    def stores(self, threads: tuple[int, ...]) -> str:
        """Whether the thread is one of those of a state, and writes outputs; known from the beginning of the kernel."""
        if self.lanes > 1 and threads not in self.storing:
            masked = self.put(f"and.b32 {{r}}, {self.lane_bit}, {sum([1 << k for k in threads])};", "b32")
            own = self.put(f"setp.gt.u32 {{r}}, {masked}, 0;", "pred")
            self.storing[threads] = self.put(f"and.pred {{r}}, {own}, {self.within};", "pred")
        return self.storing.get(threads, "")

    def lane_base(self, column: Column, step: int) -> str:
        """Register with the address of entry  step * the thread's number  of an output."""
        key = (column.base, step)
        if key not in self.lane_bases:
            far = self.wide_lane
            if column.entry_bytes is not None:
                far = self.put(f"mul.lo.s64 {{r}}, {far}, {column.entry_bytes};", "b64")
            size = step if column.entry_bytes is not None else step * self.bytes
            self.lane_bases[key] = self.put(f"mad.lo.s64 {{r}}, {far}, {size}, {column.base};", "b64")
        return self.lane_bases[key]

    def area(self, entries: int) -> str:
        """Local memory for some entries: the register with its address."""
        name = f"area{len(self.areas)}"
        self.areas.append(f".local .align 8 .b8 {name}[{entries * self.bytes}];")
        self.local += entries * self.bytes
        return self.put(f"mov.u64 {{r}}, {name};", "b64")

    def new_table(self, rows: int, columns: int) -> PtxTable:
        """A table in memory of its own."""
        base = self.area(rows * columns)
        return PtxTable([Column(base, "local", columns, c) for c in range(columns)], rows)

    def counted(self, count: int | str, write: Callable[[str], None]) -> None:
        """A loop with a counter; `write` is given its register."""
        i, label = self.put("mov.u64 {r}, 0;", "b64"), self.label()
        self.do(f"{label}:")
        write(i)
        self.do(f"add.s64 {i}, {i}, 1;")
        again = self.put(f"setp.lt.s64 {{r}}, {i}, {count};", "pred")
        self.do(f"@{again} bra {label};")

    def copy(self, source: PtxTable, target: list[Column]) -> None:
        """Copy a table, row after row."""

        def row(i: str) -> None:
            for each, column in zip(target, source.columns, strict=True):
                self.store(each, i, self.load(column, i))

        self.counted(self.count(source.rows), row)

    def count(self, rows: int) -> int | str:
        """A number of rows, which may be known when the kernel runs."""
        return self.rows if rows == RUN_TIME else rows

    # ---- tables

    def table(self, entries: list[str], columns: int) -> PtxTable:
        """A table of values: constants in global memory, anything else in local memory."""
        rows = len(entries) // columns
        if entries and all(x.startswith(("0d", "0f")) for x in entries):
            name = f"constants{len(self.globals)}"
            self.globals.append(f".global .align 8 .{self.type} {name}[{len(entries)}] = {{{', '.join(entries)}}};")
            base = self.put(f"mov.u64 {{r}}, {name};", "b64")
            return PtxTable([Column(base, "global.nc", columns, c) for c in range(columns)], rows, mutable=False)
        made = self.new_table(rows, columns)
        for k, entry in enumerate(entries):
            self.store(made.columns[k % columns], k // columns, entry)
        return made

    def filled(self, value: float, rows: int, columns: int) -> PtxTable:
        """A table with one number in every entry."""
        made, number = self.new_table(rows, columns), self.number(value)
        entries = replace(made.columns[0], stride=1, offset=0)
        self.counted(rows * columns, lambda i: self.store(entries, i, number))
        return made

    def reshaped(self, table: PtxTable, size: tuple[int, int]) -> PtxTable:
        """The same entries in rows of another length, copied if they do not lie side by side."""
        if not table.contiguous:
            source, table = table, self.new_table(table.rows, len(table.columns))
            self.copy(source, table.columns)
        first = table.columns[0]
        columns = [replace(first, stride=size[1], offset=first.offset + c) for c in range(size[1])]
        return replace(table, columns=columns, rows=size[0])

    # ---- numbers of limbs

    def spread(self, numbers: list[str]) -> str:
        """The number of the thread's limb; threads without a limb have that of the last one."""
        numbers = numbers + numbers[-1:] * (self.lanes - len(numbers))
        if all(x.startswith(("0d", "0f")) for x in numbers):
            row = self.limb_constants.setdefault(tuple(numbers), len(self.limb_constants))
            return self.load(Column(self.limb_base, "global.nc", self.lanes, 0), row)
        for bit in self.lane_bits:
            pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
            numbers = [a if a == b else self.put(f"selp.{self.type} {{r}}, {b}, {a}, {bit};", self.type) for a, b in pairs]
        return numbers[0]

    def picked(self, x: str, limb: int) -> str:
        """The number of one limb, for all threads of the state."""
        return self.exchanged("idx", x, limb, (32 - self.lanes) << 8 | 31)

    def exchanged(self, mode: str, x: str, lane: int, bounds: int) -> str:
        """A number of another thread of the warp."""
        words = ["b32"] if self.type == "f32" else ["b32", "b32"]
        halves = [self.register(kind) for kind in words]
        group = halves[0] if self.type == "f32" else f"{{{', '.join(halves)}}}"
        self.do(f"mov.b{8 * self.bytes} {group}, {x};")
        moved = [self.put(f"shfl.sync.{mode}.b32 {{r}}, {half}, {lane}, {bounds}, {ALL};", "b32") for half in halves]
        group = moved[0] if self.type == "f32" else f"{{{{{', '.join(moved)}}}}}"
        return self.put(f"mov.b{8 * self.bytes} {{r}}, {group};", self.type)
