"""A tape as the kernels of a GPU: with limbs side by side or written out, as one kernel or with its solver apart.

A loop that is most of the work, such as the solver of a step, before much other work, such as the derivatives of that step: then
the loop is a kernel of its own, with as many threads for each state as suit it. It writes what the rest needs to memory.

The tape is cut after fma is decided, so the bits are those of one kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from condyle.tape.dead_code import dead_code
from condyle.tape.lean import is_condition, lean
from condyle.tape.limbs import carried_together, has_limbs, lanes_of, unrolled
from condyle.tape.ops import OPS
from condyle.tape.passes import lower
from condyle.tape.tape import Block, Node, Port, Tape, limb_counts

WORTH = 2.0  # operations of all threads of a state, relative to those of one: less memory for each is worth more of them
ITERATIONS, FEW_ITERATIONS = 8, 10  # of a loop that exits: as many are usual, or one if it has so few at most
MOST = 0.25  # of all operations: a loop with more is a kernel of its own
LARGE = 10_000  # operations beside such a loop, from which on it is
SHORT, FEW_RESULTS = 10_000, 64  # operations and results of a short kernel, such as forward dynamics
PASSED = "passed"  # the port between the two kernels


@dataclass(frozen=True)
class KernelTape:
    """The tape of one kernel."""

    tape: Tape  # in the form of a GPU
    ports: tuple[int, ...]  # its inputs and outputs: numbers of the ports of the whole tape; one more is what parts pass on

    def described(self) -> dict[str, Any]:
        """What a launch needs to know of it."""
        passed = sum([port.size for port in self.tape.outputs if port.name == PASSED])
        lanes = lanes_of(self.tape.block)
        return {"hash": self.tape.hash, "ports": self.ports, "lanes": lanes, "passed": passed, "rows": self.rows()}

    def rows(self) -> list[tuple[int, int]]:
        """(port, entries) of the ports of a short kernel whose rows may pass through shared memory, those that gain most first.

        In a longer kernel reading and writing take little of the time, and shared memory is taken from spilled registers.
        """
        tape = self.tape
        few = len(tape.block.results) <= FEW_RESULTS and tape.operations.expected <= SHORT
        if lanes_of(tape.block) > 1 or not few:
            return []
        found = [(p, port) for p, port in enumerate((*tape.inputs, *tape.outputs)) if port.size > 1]
        rows = [(p, port.size) for p, port in found if not port.table and not port.uniform]
        return sorted(rows, key=lambda row: row[0] < len(tape.inputs))


def partition(tape: Tape, precision: str) -> list[KernelTape]:
    """The kernels of a tape, in the order in which they run."""
    low = lower(tape, precision, limbs=True)
    ports = tuple(range(len(low.inputs) + len(low.outputs)))
    cut = solver_first(low)
    if cut is None:
        return [KernelTape(device_form(tape, precision), ports)]
    inputs, passed, outputs = ports[: len(low.inputs)], (len(ports),), ports[len(low.inputs) :]
    first, rest = [_form(each, _written_out(each), precision) for each in cut]
    return [KernelTape(first, (*inputs, *passed)), KernelTape(rest, (*inputs, *passed, *outputs))]


# ---- limbs


def device_form(tape: Tape, precision: str) -> Tape:
    """The lowered tape with lean loops, and with limbs side by side where that is less work, otherwise written out (kept)."""
    known: dict[str, Tape] = tape.__dict__.setdefault("_device_form", {})
    if precision not in known:
        known[precision] = _form(lower(tape, precision, limbs=True), lower(tape, precision), precision)
    return known[precision]


def _form(low: Tape, plain: Tape, precision: str) -> Tape:
    if low is not plain and lanes_of(low.block) * usual_operations(low.block) > WORTH * usual_operations(plain.block):
        low = plain
    block = carried_together(low.block) if low is not plain else low.block
    return replace(low, block=lean(block, precision))


def _written_out(low: Tape) -> Tape:
    return replace(low, block=unrolled(low.block)) if has_limbs(low.block) else low


def usual_operations(block: Block) -> int:
    """Operations of a state that solves without rare conditions, retries and refinements; each row of a run counts once."""
    total = sum(node.op in OPS for node in block.nodes)
    for loop in [node.data for node in block.nodes if node.op == "loop" and not is_condition(node.data)]:
        times = max(loop.count, 1) if not loop.exits else 1 if loop.count <= FEW_ITERATIONS else min(loop.count, ITERATIONS)
        total += times * usual_operations(loop.body)
    return total


# ---- the solver apart


def solver_first(tape: Tape) -> tuple[Tape, Tape] | None:
    """(the loop that is much of the work, what remains of a lowered tape); None if there is no such loop, or little beside it.

    The first one has one output, which is the last input of the second one.
    """
    nodes, params = tape.block.nodes, tape.block.params
    costs = {i: _usual_cost(node) for i, node in enumerate(nodes) if node.op == "loop"}
    loop = max(costs, key=lambda i: costs[i], default=None)
    total = usual_operations(tape.block)
    if loop is None or costs[loop] < MOST * total or total - costs[loop] < LARGE:
        return None
    written = {i for i, node in enumerate(nodes) if node.op in ("slice", "after") and node.args[0] == loop}
    taken = [i for i, node in enumerate(nodes) if _is_number_of(node, loop, written)]
    number = {i: Node("param", (), params + k) for k, i in enumerate(taken)}
    rest = dead_code(Block(tuple([number.get(i, node) for i, node in enumerate(nodes)]), params + len(taken), tape.block.results))
    # its tables are needed as a whole, or numbers of limbs
    if _loops(rest) == _loops(tape.block) or not limb_counts(tape.block).keys().isdisjoint(taken):
        return None
    first = dead_code(Block(nodes, params, tuple(taken)))
    passed = Port(PASSED, (len(taken),))
    return Tape(tape.name, first, tape.inputs, (passed,)), Tape(tape.name, rest, (*tape.inputs, passed), tape.outputs)


def _loops(block: Block) -> int:
    """Number of loops that are not inside of others."""
    return sum([node.op == "loop" for node in block.nodes])


def _usual_cost(node: Node) -> int:
    """Operations of a loop."""
    return usual_operations(Block((node,), 0, ()))


def _is_number_of(node: Node, loop: int, written: set[int]) -> bool:
    """Whether a node is a number that a loop gives: carried, or an entry at a known place of a table."""
    if node.op == "get":
        return node.args[0] == loop
    return node.op == "index" and len(node.args) == 1 and node.args[0] in written
