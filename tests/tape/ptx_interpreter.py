"""A GPU in Python: it runs the PTX of condyle/tape/ptx.py, one thread after the other, on memory of this process.

Threads that exchange numbers run in warps, instruction by instruction; all of a warp must take the same branches, and all warps
of a block must meet at the same barriers. Threads that
meet at barriers of their warp run from one to the next, each on its own, and share the shared memory of their block.

Only the instructions that are written there are known, and each means what the PTX manual says: an independent check of the
emitter on computers without a GPU. `Code` and `Device` take the places of those of condyle/tape/cuda_driver.py.
"""

from __future__ import annotations

import ctypes
import math
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from condyle.tape.interpret import Ieee

WORD, LONG = 2**32, 2**64
SIGNED = {"s64": 64, "s32": 32}
TYPES: dict[str, Any] = {"f64": ctypes.c_double, "f32": ctypes.c_float, "u64": ctypes.c_uint64}
TYPES |= {"b32": ctypes.c_uint32, "b64": ctypes.c_uint64}
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "ltu": lambda a, b: not a >= b,
    "gtu": lambda a, b: not a <= b,
    "geu": lambda a, b: not a < b,
    "nan": lambda a, b: a != a or b != b,
    "num": lambda a, b: a == a and b == b,
}


class Program:
    """A parsed module: its kernel as a list of instructions, labels, sizes of local areas, and constant arrays in memory."""

    def __init__(self, text: str) -> None:
        self.constants = {
            name: (TYPES[kind] * len(values.split(",")))(*[_number(x.strip()) for x in values.split(",")])
            for kind, name, values in re.findall(r"\.(?:global|const) \.align 8 \.(f64|f32) (\w+)\[\d+\] = \{([^}]*)\};", text)
        }
        body = text[text.index("\n{") + 2 : text.rindex("}")]
        self.areas = {name: int(size) for name, size in re.findall(r"\.local \.align 8 \.b8 (\w+)\[(\d+)\];", body)}
        self.code: list[tuple[str | None, str, list[str]]] = []
        self.labels: dict[str, int] = {}
        for line in body.splitlines():
            line = line.strip()
            if not line or line.startswith("."):
                continue
            if line.endswith(":"):
                self.labels[line[:-1]] = len(self.code)
                continue
            guard, rest = re.fullmatch(r"(?:@(%p\d+) )?(.*);", line).groups()  # type: ignore[union-attr]
            name, _, operands = rest.partition(" ")
            self.code.append((guard, name, [x.strip() for x in re.split(r",(?![^\[{]*[\]}])", operands)] if operands else []))


def _number(text: str) -> Any:
    if text.startswith("0d"):
        return struct.unpack(">d", bytes.fromhex(text[2:]))[0]
    if text.startswith("0f"):
        return struct.unpack(">f", bytes.fromhex(text[2:]))[0]
    return int(text)


class Thread:
    """One thread of a launch."""

    def __init__(
        self, program: Program, ports: bytes, numbers: Sequence[int], state: int, threads: int, shared: Any = None
    ) -> None:
        self.program, self.r, self.shared = program, {}, shared
        self.r |= {"%ctaid.x": state // threads, "%ntid.x": threads, "%tid.x": state % threads}
        self.parameters = {"ports": ports, "states": struct.pack("<Q", numbers[0]), "rows": struct.pack("<Q", numbers[1])}
        self.local = {name: ctypes.create_string_buffer(size) for name, size in program.areas.items()}

    def run(self) -> Iterator[int]:
        """All instructions until the end; stops at every barrier of the warp, and gives its place."""
        at, code = 0, self.program.code
        while at < len(code):
            guard, name, operands = code[at]
            at += 1
            if guard is not None and not self.r[guard]:
                continue
            if name == "ret":
                return
            if name == "bra":
                at = self.program.labels[operands[0]]
            elif name == "bar.warp.sync":
                assert guard is None and operands == ["0xffffffff"]
                yield at
            else:
                self.step(name, operands)

    def value(self, text: str) -> Any:
        """A register, a constant, or the address of a variable."""
        if text.startswith("%"):
            return self.r[text]
        if text in self.local:
            return ctypes.addressof(self.local[text])
        if text in ("stage", "captured"):
            return 0  # addresses in shared memory are their own
        if text in self.program.constants:
            return ctypes.addressof(self.program.constants[text])
        return _number(text)

    def address(self, text: str, space: str, size: int) -> int:
        """[register + number], where `size` bytes may begin."""
        base, _, offset = text[1:-1].partition("+")
        found = int(self.value(base)) + int(offset or 0)
        assert found % size == 0, f"{text} is not a multiple of {size}"
        if space != "shared":
            return found
        assert 0 <= found <= len(self.shared) - size, f"{text} lies beyond the {len(self.shared)} bytes of shared memory"
        return ctypes.addressof(self.shared) + found

    def move(self, op: str, rest: list[str], operands: list[str]) -> None:
        """A load or a store, of one number or of a vector."""
        kind = TYPES[rest[-1]]
        register, place = operands if op == "ld" else operands[::-1]
        names = register[1:-1].split(", ") if register.startswith("{") else [register]
        assert len(names) == 1 or rest[-2] == f"v{len(names)}"
        start = self.address(place, rest[0], len(names) * ctypes.sizeof(kind))
        for k, name in enumerate(names):
            entry = kind.from_address(start + k * ctypes.sizeof(kind))
            if op == "ld":
                self.r[name] = entry.value
            else:
                entry.value = self.value(name)

    def step(self, name: str, operands: list[str]) -> None:
        """One instruction."""
        op, *rest = name.split(".")
        kind = rest[-1] if rest else ""
        if op == "ld" and rest[0] == "param":
            base, _, offset = operands[1][1:-1].partition("+")
            self.r[operands[0]] = struct.unpack_from("<Q", self.parameters[base], int(offset or 0))[0]
        elif op in ("ld", "st"):
            self.move(op, rest, operands)
        elif op == "mov" and operands[0].startswith("{"):
            bits = _moved("b64", "", self.value(operands[1]))
            self.r |= dict(zip(operands[0][1:-1].split(", "), (bits % WORD, bits // WORD), strict=True))
        elif op == "mov" and operands[1].startswith("{"):
            low, high = (self.r[name] for name in operands[1][1:-1].split(", "))
            self.r[operands[0]] = _moved(kind, operands[0], low + high * WORD)
        else:
            self.r[operands[0]] = self.computed(op, rest, kind, [self.value(x) for x in operands[1:]], operands)

    def computed(self, op: str, rest: list[str], kind: str, v: list[Any], operands: list[str]) -> Any:
        """What an instruction without memory gives."""
        if kind in ("f64", "f32") and op not in ("cvt", "setp", "selp", "mov"):
            return _float(op, rest, Ieee(single=kind == "f32"), v)
        if op == "mov":
            return _moved(kind, operands[0], v[0])
        if op == "setp":
            return COMPARE[rest[0]](*[x if kind[0] == "f" else _integer(kind, x) for x in v])
        if op == "selp":
            return v[0] if v[2] else v[1]
        if kind == "pred":
            return {"and": lambda: v[0] and v[1], "or": lambda: v[0] or v[1], "not": lambda: not v[0]}[op]()
        if op == "cvta":
            return v[0]
        if op == "cvt":
            return _converted(rest, v[0])
        return _integers(op, rest, kind, v)


def _float(op: str, rest: list[str], ieee: Ieee, v: list[Any]) -> float:
    if rest[:2] == ["approx", "ftz"]:
        return _approximate(op, rest[-1], v[0])
    if op == "max":
        return float(np.fmax(v[0], v[1]))
    assert op in ("neg", "abs", "copysign") or rest[0] == "rn", f"{op} must be rounded to nearest"
    if op == "copysign":
        return math.copysign(v[1], v[0])  # the sign of the first operand
    found: float = ieee.functions["div" if op == "rcp" else op](*([1.0, *v] if op == "rcp" else v))
    return found


def _approximate(op: str, kind: str, a: float) -> float:
    """rcp.approx and rsqrt.approx: as inaccurate as the PTX manual allows, without subnormal numbers.

    In f64 the upper half of a number is all that they look at and give.
    """
    least = 2.0**-126 if kind == "f32" else 2.0**-1022
    if kind == "f64":
        a = struct.unpack("<d", struct.pack("<Q", struct.unpack("<Q", struct.pack("<d", a))[0] // WORD * WORD))[0]
    a = math.copysign(0.0, a) if abs(a) < least else a
    with np.errstate(all="ignore"):
        exact = float(1.0 / np.float64(a)) if op == "rcp" else float(1.0 / np.sqrt(np.float64(a)))
    if not math.isfinite(exact) or exact == 0.0:
        return exact
    # 1 ulp of f32, or 2^-20, too large or too small
    off = (2.0**-23 if kind == "f32" else 2.0**-21) * (1.0 if int(math.frexp(a)[0] * 2**20) % 2 else -1.0)
    found = exact * (1.0 + off)
    found = float(np.float32(found)) if kind == "f32" else found
    if kind == "f64":
        found = struct.unpack("<d", struct.pack("<Q", struct.unpack("<Q", struct.pack("<d", found))[0] // WORD * WORD))[0]
    return math.copysign(0.0, found) if abs(found) < least else found


def _moved(kind: str, target: str, value: Any) -> Any:
    """mov between registers of one type, or the bits of a number."""
    if kind in ("b64", "b32") and isinstance(value, float):
        return struct.unpack("<Q" if kind == "b64" else "<I", struct.pack("<d" if kind == "b64" else "<f", value))[0]
    if target.startswith("%d") and isinstance(value, int):
        return struct.unpack("<d", struct.pack("<Q", value))[0]
    if target.startswith("%f") and isinstance(value, int):
        return struct.unpack("<f", struct.pack("<I", value))[0]
    return value


def _converted(rest: list[str], a: Any) -> Any:
    to, of = rest[-2:]
    if rest[0] == "rni":
        return a if not math.isfinite(a) else math.copysign(float(round(a)), a)
    if rest[0] == "rmi":
        return a if not math.isfinite(a) or a == 0.0 else float(math.floor(a))
    if rest[0] == "rzi":
        return int(a)
    if to in ("f64", "f32"):
        number = float(a if of[0] == "f" else _integer(of, a))
        return number if to == "f64" else float(np.float32(a if of[0] == "f" else _integer(of, a)))
    return a % (WORD if to == "u32" else LONG)


def _integer(kind: str, a: int) -> int:
    bits = int(kind[1:])
    a %= 2**bits
    return a - 2**bits if kind in SIGNED and a >= 2 ** (bits - 1) else a


def _integers(op: str, rest: list[str], kind: str, v: list[int]) -> int:
    size = 2 ** int(kind[1:])
    if op == "mad":
        return (v[0] * v[1] + v[2]) % size
    if op == "div":
        return v[0] // v[1]
    if op == "mul" and rest[0] == "wide":
        return v[0] * v[1]
    if op == "mul":
        product = (v[0] % size) * (v[1] % size)
        return product // size if rest[0] == "hi" else product % size
    if op in ("min", "max"):
        chosen = (min if op == "min" else max)(_integer(kind, v[0]), _integer(kind, v[1]))
        return chosen % size
    table: dict[str, Callable[[], int]] = {
        "add": lambda: v[0] + v[1],
        "sub": lambda: v[0] - v[1],
        "and": lambda: v[0] & v[1],
        "or": lambda: v[0] | v[1],
        "xor": lambda: v[0] ^ v[1],
        "shl": lambda: v[0] << v[1],
        "shr": lambda: (v[0] % size) >> v[1],
    }
    return table[op]() % size


class Warp:
    """32 threads that take the same branches."""

    def __init__(self, threads: list[Thread]) -> None:
        self.threads, self.program, self.barriers = threads, threads[0].program, list[int]()

    def run(self) -> None:
        """All instructions until the end."""
        at, code = 0, self.program.code
        while at < len(code):
            guard, name, operands = code[at]
            at += 1
            active = [t for t in self.threads if guard is None or t.r[guard]]
            if name in ("bra", "ret"):
                assert len(active) in (0, len(self.threads)), "a warp with exchanges must stay together"
                if active and name == "ret":
                    return
                at = self.program.labels[operands[0]] if active else at
            elif name.startswith(("shfl.", "vote.")):
                self.exchange(name, operands)
            elif name == "bar.sync":
                assert len(active) == len(self.threads)
                self.barriers.append(at)
            else:
                for thread in active:
                    thread.step(name, operands)

    def exchange(self, name: str, operands: list[str]) -> None:
        """An instruction that reads the registers of other threads; all take part."""
        assert operands[-1] == "0xffffffff"
        given = [t.value(operands[1]) for t in self.threads]
        if name == "vote.sync.all.pred":
            found: list[Any] = [all(given)] * len(given)
        else:
            lane, bounds = int(operands[2]), int(operands[3])
            assert bounds & 31 == 31
            width = 32 - (bounds >> 8)
            source = {"bfly": lambda t: t ^ lane, "idx": lambda t: t // width * width + lane}[name.split(".")[2]]
            assert all(source(t) // width == t // width for t in range(32))
            found = [given[source(t)] for t in range(len(given))]
        for thread, value in zip(self.threads, found, strict=True):
            thread.r[operands[0]] = value


class Code:
    """A kernel, in the place of one loaded by the driver."""

    def __init__(self, on: Any, cubin: bytes, entry: str) -> None:
        self.text, self.most = cubin.decode(), 48 * 1024
        self.program = Program(self.text)

    def number(self, name: str) -> int:
        """A number of the module; 0 if it has none of that name."""
        found = re.search(rf"^\.visible \.global \.align 4 \.u32 {name} = (\d+);$", self.text, re.MULTILINE)
        return int(found[1]) if found else 0

    def allow_shared(self, size: int) -> None:
        """Let blocks have so many bytes of shared memory."""
        assert size <= 227 * 1024
        self.most = size

    def launch(self, blocks: int, threads: int, ports: bytes, numbers: Sequence[int], stream: int = 0, shared: int = 0) -> None:
        """Run every thread of every block; `shared`: bytes of shared memory of a block."""
        assert shared <= self.most
        memory = [ctypes.create_string_buffer(b"\xa5" * shared, shared) for _ in range(blocks)]
        every = [Thread(self.program, ports, numbers, t, threads, memory[t // threads]) for t in range(blocks * threads)]
        if any(name.startswith(("shfl.", "vote.")) for _, name, _ in self.program.code):
            assert threads % 32 == 0
            for block in range(0, len(every), threads):
                warps = [Warp(every[first : first + 32]) for first in range(block, block + threads, 32)]
                for warp in warps:
                    warp.run()
                    assert warp.barriers == warps[0].barriers, "warps of a block wait at different barriers"
            return
        for first in range(0, len(every), 32):
            running = [thread.run() for thread in every[first : first + 32]]
            while running:
                places = [next(thread, None) for thread in running]
                assert len(set(places) - {None}) <= 1, "threads of a warp wait at different barriers"
                running = [thread for thread, place in zip(running, places, strict=True) if place is not None]


class Device:
    """A GPU, in the place of a real one."""

    name, capability = "interpreter", 90

    def compiled(self, ptx: str, level: int) -> bytes:
        """The text as it is."""
        return ptx.encode()


class Buffer:
    """Memory of this process."""

    def __init__(self, on: Any, size: int) -> None:
        self.size, self.memory = size, np.full(max(size, 1), 0xA5, np.uint8)
        self.address = self.memory.ctypes.data

    def fill(self, source: np.ndarray) -> None:
        """Copy an array to it."""
        self.memory[: source.nbytes] = np.ascontiguousarray(source).reshape(-1).view(np.uint8)

    def read(self, target: np.ndarray) -> None:
        """Copy it to an array."""
        target.reshape(-1).view(np.uint8)[...] = self.memory[: target.nbytes]
