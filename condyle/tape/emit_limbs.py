"""Limbs in the lanes of a vector: a kernel of one state, whose lane k has the numbers of limb k.

Numbers of the whole robot are the same in all lanes. Lanes beyond the last limb repeat its numbers. What moves between limbs
moves between lanes: a `spread` takes each lane from another vector, a `pick` copies one lane to all, sums and maxima over the
limbs are made of pairs, then of pairs of pairs, and so on, as in code without limbs (limbs.py). So the bits are the same.
"""

from __future__ import annotations

from dataclasses import replace

from condyle.tape.emit_table import TableEmitter
from condyle.tape.ops import OPS
from condyle.tape.tape import EXPECTED_ITERATIONS, Block, Loop, Node, Tape, limb_counts


def in_lanes(tape: Tape, lanes: int) -> Tape:
    """The tape as the emitter writes it: numbers of limbs that come from outside are params like all others."""
    return replace(tape, block=_block(tape.block, lanes))


def _block(block: Block, lanes: int) -> Block:
    counts = limb_counts(block)
    nodes: list[Node] = []
    for op, args, data in block.nodes:
        if op == "limb":
            node = Node("param", (), data[0])
        elif op == "spread" and all(nodes[a].op == "const" for a in args):
            numbers = [nodes[a].data for a in args]
            node = Node("const", (), (*numbers, *numbers[-1:] * (lanes - len(numbers))))
        elif op in ("limb_sum", "limb_max"):
            node = Node(op, args, counts[args[0]])
        elif isinstance(data, Loop):
            node = Node(op, args, replace(data, body=_block(data.body, lanes)))
        else:
            node = Node(op, args, data)
        nodes.append(node)
    return Block(tuple(nodes), block.params, block.results)


def gains(block: Block, lanes: int, registers: int) -> tuple[float, float]:
    """How many times fewer operations one state takes with limbs in lanes: as expected, and with loop bodies counted once.

    `registers`: those that one vector fills.
    """
    ratios = []
    for until in (EXPECTED_ITERATIONS, None):
        side_by_side, written_out = _operations(block, lanes, until)
        ratios.append(written_out / max(side_by_side * registers, 1))
    return ratios[0], ratios[1]


def _operations(block: Block, lanes: int, until: int | None) -> tuple[int, int]:
    """(vector operations with limbs in lanes, operations with limbs written out).

    A loop that exits takes at most `until` iterations; if that is None, every loop takes one.
    """
    counts, levels = limb_counts(block), (lanes - 1).bit_length()
    side_by_side = written_out = 0
    for i, (op, args, data) in enumerate(block.nodes):
        if op == "loop":
            times = 1 if until is None else max(min(data.count, until) if data.exits else data.count, 1)
            few, many = _operations(data.body, lanes, until)
            side_by_side, written_out = side_by_side + times * few, written_out + times * many
        elif op in OPS:
            side_by_side, written_out = side_by_side + 1, written_out + max(counts.get(i, 0), 1)
        elif op == "spread":
            side_by_side += len(set(args)) - 1
        elif op == "pick":
            side_by_side += 1
        elif op in ("limb_sum", "limb_max"):
            # two shuffles for a maximum, one for a sum
            side_by_side, written_out = side_by_side + (2 + (op == "limb_max")) * levels, written_out + counts[args[0]] - 1
    return side_by_side, written_out


class LimbEmitter(TableEmitter):
    """Writes the operations on numbers of limbs."""

    def limb_operation(self, node: Node, operands: list[str]) -> str:
        """The vector of such an operation."""
        if node.op == "spread":
            return self.spread(operands)
        if node.op == "pick":
            return self.shuffled(operands[0], "poison", [node.data] * self.type.lanes)
        return self.over_limbs(node.op, operands[0], node.data)

    def shuffled(self, a: str, b: str, lanes: list[int]) -> str:
        """The vector of some lanes of a, and of b, whose lanes are counted on from those of a."""
        v, chosen = self.type.vector, ", ".join(f"i32 {k}" for k in lanes)
        return self.put(f"shufflevector {v} {a}, {v} {b}, <{len(lanes)} x i32> <{chosen}>")

    def spread(self, vectors: list[str]) -> str:
        """Lane k of vector k, where all lanes of a vector are the same."""
        lanes = range(self.type.lanes)
        numbers = [self.scalars.get(x) for x in vectors]
        if all(numbers):
            # what was loaded by itself is put into its lane
            found = "poison"
            for lane in lanes:
                number = numbers[min(lane, len(numbers) - 1)]
                found = self.put(f"insertelement {self.type.vector} {found}, {self.type.element} {number}, i64 {lane}")
            return found
        vectors = vectors + vectors[-1:] * (len(lanes) - len(vectors))
        bit = 1
        while len(vectors) > 1:
            mask = [lane + len(lanes) * bool(lane & bit) for lane in lanes]
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [a if a == b else self.shuffled(a, b, mask) for a, b in pairs]
            bit *= 2
        return vectors[0]

    def over_limbs(self, op: str, x: str, limbs: int) -> str:
        """Sum or maximum over the limbs, in all lanes."""
        lanes = range(self.type.lanes)
        if op == "limb_sum" and limbs < len(lanes):
            # x + -0.0 is x, also for zeros of both signs
            x = self.shuffled(x, self.type.splat(-0.0), [k if k < limbs else k + len(lanes) for k in lanes])
        bit = 1
        while bit < len(lanes):
            if op == "limb_sum":
                x = self.operation("add", x, self.shuffled(x, "poison", [k ^ bit for k in lanes]))
            else:
                # the earlier limb first: of equal numbers the later one is taken, and zeros have signs
                pair = [self.shuffled(x, "poison", chosen) for chosen in ([k & ~bit for k in lanes], [k | bit for k in lanes])]
                x = self.operation("max", *pair)
            bit *= 2
        return x
