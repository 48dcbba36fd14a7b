"""A tape: one traced function as data. It prints as a listing and hashes the same in every process."""

from __future__ import annotations

import hashlib
import math
import struct
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, NamedTuple

from condyle.tape.ops import OPS

EXPECTED_ITERATIONS = 8  # of a loop that ends when its lanes are done


class Node(NamedTuple):
    """One operation: its name, the positions of its arguments in the block, and what else it needs to know."""

    op: str
    args: tuple[int, ...]
    data: Any = None


@dataclass(frozen=True, eq=False)
class Block:
    """Operations in order; `params` values go in, the values at `results` come out."""

    nodes: tuple[Node, ...]
    params: int
    results: tuple[int, ...]

    def __reduce__(self) -> tuple[Any, ...]:
        return Block, (self.nodes, self.params, self.results)


@dataclass(frozen=True, eq=False)
class Loop:
    """A body repeated `count` times, or RUN_TIME: once for each row of the ports whose rows are known at run time.

    The body's params are (iteration number, carried values, one row of each table, captured values); its results are
    (next carried values, the row to write). Carried and captured values are numbers or tables. A reversed loop counts down: rows
    are read and written from the last.

    A loop that `exits` writes no rows, and its body has one more result, a comparison: where it holds, this iteration and all
    later ones leave the carried values as they are. A backend may stop when it holds for all states it computes together.
    """

    count: int
    body: Block
    carries: int  # values carried from one iteration to the next
    reads: int  # entries of a row read, over all tables
    writes: int  # entries of a row written
    tables: int = 0
    reverse: bool = False
    exits: bool = False

    @property
    def done(self) -> int | None:
        """The node of the body that says whether the carried values are final; None for a loop that runs to its end."""
        return self.body.results[-1] if self.exits else None

    def split(self, args: tuple[Any, ...] | list[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """(start values, tables, captured values) of a loop node's arguments."""
        k, t = self.carries, self.carries + self.tables
        return list(args[:k]), list(args[k:t]), list(args[t:])


def table_size(nodes: Sequence[Node], i: int) -> tuple[int, int]:
    """(rows, columns) of the table that a node gives."""
    op, args, data = nodes[i]
    if op == "slice":
        return nodes[args[0]].data.count, data[1] - data[0]
    return data[-2], data[-1]


def limbs_of(node: Node, nodes: Sequence[Node], known: Mapping[int, int]) -> int:
    """The number of limbs that a node has a number of, given that of the nodes before it; 0 for a number of the whole robot."""
    op, args, data = node
    if op == "spread":
        return len(args)
    if op == "limb":
        return int(data[1])
    if op == "get":
        owner = nodes[args[0]].data
        return limb_counts(owner.body).get(owner.body.results[data], 0) if isinstance(owner, Loop) else 0
    if op in OPS or op == "index":
        return max([known.get(a, 0) for a in args], default=0)
    return 0


def limb_counts(block: Block) -> dict[int, int]:
    """node -> number of limbs, for the nodes of a block that have a number of each limb (kept)."""
    known: dict[int, int] | None = block.__dict__.get("_limb_counts")
    if known is None:
        known = {}
        for i, node in enumerate(block.nodes):
            if limbs := limbs_of(node, block.nodes, known):
                known[i] = limbs
        block.__dict__["_limb_counts"] = known
    return known


def whole_table(nodes: Sequence[Node], entries: Sequence[int], rows: int, columns: int) -> int | None:
    """The table of this size that has these nodes as its entries, row after row; None if there is none."""
    op, args, _ = nodes[entries[0]] if entries else ("", (), None)
    if op != "index" or len(args) > 1 or table_size(nodes, args[0]) != (rows, columns):
        return None
    same = all(nodes[e] == ("index", args, (k // columns, k % columns)) for k, e in enumerate(entries))
    return args[0] if same else None


def last_uses(block: Block) -> dict[int, int]:
    """node -> the last node that uses it; beyond the last node for results."""
    known: dict[int, int] | None = block.__dict__.get("_last_uses")
    if known is None:
        known = {a: i for i, node in enumerate(block.nodes) for a in node.args}
        known |= dict.fromkeys(block.results, len(block.nodes))
        block.__dict__["_last_uses"] = known
    return known


@dataclass(frozen=True, eq=False)
class Call:
    """A body whose derivatives are given by a rule rather than by its operations.

    The rule's params are (arguments, results of the body, one tangent per argument); its results, linear in the tangents, are
    the tangents of the body's results. The rule is differentiated in its turn for derivatives of higher order.
    """

    body: Block
    rule: Block


class ValueCall(Call):
    """A call in a trace of values alone: its rule is no part of the tape, and is traced if a derivative is taken after all."""

    def __init__(self, body: Block, make_rule: Callable[[], Block]) -> None:
        self.__dict__.update(body=body, make_rule=make_rule)

    @cached_property
    def rule(self) -> Block:
        """The rule, traced now."""
        made: Block = self.__dict__["make_rule"]()
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return ValueCall, (self.body, Constant(self.rule))


@dataclass(frozen=True)
class Constant:
    """A function of nothing that gives a value: in pickles, in place of one that traces it."""

    value: Any

    def __call__(self) -> Any:
        """The value."""
        return self.value


@dataclass(frozen=True, eq=False)
class Subroutine:
    """A call of a tape that is lowered alone, so that the bits of its results depend on its arguments and on nothing else.

    Its arguments are the params of the tape's block, numbers and tables. See subroutine.py.
    """

    tape: Tape

    @property
    def body(self) -> Block:
        """The operations."""
        return self.tape.block

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Subroutine) and other.tape.hash == self.tape.hash

    def __hash__(self) -> int:
        return hash(self.tape.hash)


RUN_TIME = 0  # number of rows of a port, and of iterations of a loop over it, that is known when the kernel is called


@dataclass(frozen=True)
class Port:
    """A named array that goes in or comes out.

    `table`: it is one table of the block rather than single values. A table's first axis may be RUN_TIME: as many rows as the
    caller gives, the same number for all such ports. `uniform`: a table that all states of a batch share.
    """

    name: str
    shape: tuple[int, ...]
    table: bool = False
    uniform: bool = False
    parameter: Any = field(default=None, compare=False)  # what gives the default of an input that need not be given

    @property
    def size(self) -> int:
        """Number of entries; zero if the number of rows is known at run time."""
        return math.prod(self.shape)

    @property
    def columns(self) -> int:
        """Entries of one row of a table."""
        return math.prod(self.shape[1:])

    @property
    def run_time(self) -> bool:
        """Whether the number of rows is known at run time."""
        return self.table and self.shape[0] == RUN_TIME

    @property
    def params(self) -> int:
        """Number of values of a block that the port is."""
        return 1 if self.table else self.size


def run_time_rows(ports: Sequence[Port], arrays: Sequence[Any]) -> int:
    """The number of rows that is known at run time, from arrays (states, entries); 0 if no port has such rows."""
    return next((a.shape[1] // p.columns for p, a in zip(ports, arrays, strict=True) if p.run_time), 0)


def by_port(ports: Iterable[Port], values: Iterable[Any]) -> list[tuple[Port, list[Any]]]:
    """(port, its part of what a block gives) in order: one value for a table, otherwise one per entry."""
    rest = iter(values)
    return [(port, list(islice(rest, port.params))) for port in ports]


class Operations(int):
    """A number of operations at worst, with every loop run to its end, and the number `expected`.

    A loop that exits (`until=`) is expected to take EXPECTED_ITERATIONS, or fewer if it has no more.
    """

    expected: int

    def __new__(cls, worst: int, expected: int) -> Operations:
        made = super().__new__(cls, worst)
        made.expected = expected
        return made

    def __getnewargs__(self) -> tuple[int, int]:  # type: ignore[override]
        return int(self), self.expected

    @property
    def worst(self) -> int:
        """The number as it is: no state takes more."""
        return int(self)

    def __str__(self) -> str:
        return f"{int(self)}" if self.expected == self else f"{self.expected} expected, {int(self)} at worst"

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class Tape:
    """A block with named inputs (its params, in order) and named outputs (its results, in order)."""

    name: str
    block: Block
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    @cached_property
    def hash(self) -> str:
        """Sha256 of everything that determines what the tape computes."""
        digest = hashlib.sha256()
        for port in (*self.inputs, *self.outputs):
            digest.update(f"{port.name}{port.shape}{port.table}{port.uniform}\n".encode())
        digest.update(f"{len(self.inputs)}\n".encode())
        _update(digest, self.block)
        return digest.hexdigest()

    def trace_data(self) -> str:
        """All that a trace which uses the tape depends on."""
        return self.hash

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles hold the operations, also of a tape that would be loaded or traced later."""
        return Tape, (self.name, self.block, self.inputs, self.outputs)

    def __copy__(self) -> Tape:
        return self

    def __deepcopy__(self, memo: Any) -> Tape:
        return self

    @property
    def operations(self) -> Operations:
        """Number of arithmetic operations, at worst and expected."""
        return Operations(operations(self.block), operations(self.block, until=EXPECTED_ITERATIONS))

    def __str__(self) -> str:
        ports = ", ".join(f"{p.name}{list(p.shape)}" for p in self.inputs)
        lines = [f"{self.name}({ports})", *listing(self.block, "  ")]
        for port, results in by_port(self.outputs, self.block.results):
            lines.append(f"  {port.name}{list(port.shape)} = " + " ".join(f"%{i}" for i in results))
        return "\n".join(lines)


def _update(digest: hashlib._Hash, block: Block) -> None:
    nodes = block.nodes
    digest.update("\n".join([node.op for node in nodes]).encode())
    digest.update(array("I", [len(node.args) for node in nodes]).tobytes())
    digest.update(array("q", chain.from_iterable([node.args for node in nodes])).tobytes())
    for node in nodes:
        data = node.data
        if data is None:
            continue
        if isinstance(data, float):
            digest.update(struct.pack("<d", data if data == data else math.nan))
        elif isinstance(data, Loop):
            shape = (data.count, data.carries, data.reads, data.writes, data.tables, data.reverse, data.exits)
            digest.update(f"{shape}\n".encode())
            _update(digest, data.body)
        elif isinstance(data, Subroutine):
            digest.update(f"subroutine {data.tape.hash}\n".encode())
        elif isinstance(data, Call):
            _update(digest, data.body)
            if not isinstance(data, ValueCall):
                _update(digest, data.rule)
        else:
            digest.update(f"{data}\n".encode() if node.op != "const" else f"word {data}\n".encode())
    digest.update(f"{block.params} {block.results}\n".encode())


def operations(block: Block, *, until: int | None = None, called: Mapping[Any, int] = MappingProxyType({})) -> int:
    """Number of arithmetic operations of a block; a loop counts its body `count` times, one that exits at most `until` times.

    `called`: operations of subroutines that are known.
    """
    counts = Counter(node.op for node in block.nodes)
    total = sum(n for op, n in counts.items() if op in OPS)
    for loop in [node.data for node in block.nodes if node.op == "loop"]:
        times = max(loop.count if until is None or not loop.exits else min(loop.count, until), 1)
        total += times * operations(loop.body, until=until, called=called)
    calls = [node.data for node in block.nodes if node.op == "call"]
    return total + sum([called[c] if c in called else operations(c.body, until=until, called=called) for c in calls])


def subroutines(block: Block) -> list[Subroutine]:
    """The subroutines that a block and its loops call, each once."""
    loops = [s for node in block.nodes if node.op == "loop" for s in subroutines(node.data.body)]
    return list(dict.fromkeys([*[node.data for node in block.nodes if isinstance(node.data, Subroutine)], *loops]))


def listing(block: Block, indent: str) -> list[str]:
    """The lines of a readable listing, loop bodies indented."""
    lines = []
    for i, node in enumerate(block.nodes):
        lines.append(f"{indent}%{i} = {_phrase(node)}")
        if node.op == "call":
            lines += listing(node.data.body, indent + "  ")
            lines.append(f"{indent}  give " + " ".join(f"%{r}" for r in node.data.body.results))
        if node.op == "loop":
            body, done = node.data.body, node.data.done
            lines += listing(body, indent + "  ")
            lines.append(f"{indent}  next " + " ".join(f"%{r}" for r in (body.results if done is None else body.results[:-1])))
            lines += [] if done is None else [f"{indent}  until %{done}"]
    return lines


def _phrase(node: Node) -> str:
    args = " ".join(f"%{a}" for a in node.args)
    if node.op == "const":
        return repr(node.data)
    if node.op == "loop":
        loop: Loop = node.data
        order = " reversed" if loop.reverse else ""
        return f"loop {loop.count} times{order}, carry {loop.carries}, read {loop.reads}, write {loop.writes}: {args}"
    if node.op == "call":
        name = f" {node.data.tape.name}" if isinstance(node.data, Subroutine) else ""
        return f"call{name}: {args}"
    return " ".join(part for part in (node.op, args, "" if node.data is None else str(node.data)) if part)
