"""Passes: a block in, an equivalent block out. `lower` is their sum: the tape as a backend of one precision computes it.

A subroutine is lowered alone, and then its operations take its place: what is folded and contracted in it depends on nothing
else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from condyle.errors import BackendError
from condyle.tape.dead_code import dead_code
from condyle.tape.fold import picked_from
from condyle.tape.graph import Graph, collection_paused
from condyle.tape.inline import Recorder, record_again
from condyle.tape.interpret import Ieee, evaluate
from condyle.tape.limbs import has_limbs, unrolled
from condyle.tape.ops import BOOL, ELEMENTARY, LIMBS, OPS
from condyle.tape.scalar import Scalar
from condyle.tape.tape import Block, Call, Node, Port, Subroutine, Tape, by_port, limb_counts, subroutines, whole_table

SIGN_MATTERS = frozenset({"lt", "le", "eq", "min", "max", "abs", "copysign", "sqrt"})
Visit = Callable[[Graph, Node, tuple[int, ...]], int]
Keep = Callable[[Subroutine, str], bool]  # of a subroutine and a precision


def lower(tape: Tape, precision: str, *, limbs: bool = False, keep: Keep | None = None) -> Tape:
    """The tape in operations that IEEE 754 fixes, for "f64" or "f32": elementary functions expanded, fma decided (kept).

    `limbs`: numbers of limbs stay, for backends that compute limbs side by side; otherwise they are written out. `keep`: which
    subroutines stay calls, for backends that link them; otherwise none.
    """
    if precision not in ("f64", "f32"):
        raise BackendError(f"a tape can be lowered to 'f64' or 'f32', not to {precision!r}")
    known: dict[Any, Tape] = tape.__dict__.setdefault("_lowered", {})
    form = precision, limbs, keep
    if form in known:
        return known[form]
    if not limbs:
        low = lower(tape, precision, limbs=True, keep=keep)
        known[form] = replace(low, block=unrolled(low.block)) if has_limbs(low.block) else low
        return known[form]
    with collection_paused():
        block = inline_subroutines(lowered_alone(tape.block, precision), precision, keep)
        outputs, results = written_by_rows(block, tape.outputs)
        block = dead_code(Block(block.nodes, block.params, results))
    known[form] = Tape(tape.name, block, tape.inputs, outputs)
    return known[form]


def lowered_alone(block: Block, precision: str) -> Block:
    """The block in exact operations, fma decided, subroutines as they were (kept)."""
    known: dict[str, Block] = block.__dict__.setdefault("_lowered_alone", {})
    if precision not in known:
        exact = expand(release(block), precision)
        known[precision] = contract(fold_constants(exact, single=precision == "f32"))
    return known[precision]


def inline_subroutines(block: Block, precision: str, keep: Keep | None = None) -> Block:
    """The block with the operations of subroutines in their places, each lowered alone, but for those to `keep`.

    From here on nothing may be folded or contracted: only what leaves every bit as it is, such as finding equal operations.
    """
    if not subroutines(block):
        return block
    graph = Graph()
    graph.params = block.params
    return graph.block(_inline(graph, block, None, precision, keep))


def _inline(graph: Graph, block: Block, args: Sequence[int] | None, precision: str, keep: Keep | None) -> list[int]:
    """Positions of the results of a block in a graph; `args`: positions of its params, None for those of the graph itself."""
    place: list[int] = []
    results: dict[int, list[int]] = {}  # call -> its results
    for i, node in enumerate(block.nodes):
        op, _, data = node
        if args is not None and op in ("param", "input", "limb"):
            place.append(args[data if op == "param" else data[0]])
            continue
        moved = tuple([place[a] for a in node.args])
        if op == "const":
            place.append(graph.const(data))
        elif op == "loop":
            place.append(graph.record("loop", moved, replace(data, body=inline_subroutines(data.body, precision, keep))))
        elif op == "call" and not (keep is not None and keep(data, precision)):
            results[i] = _inline(graph, lowered_alone(data.body, precision), moved, precision, keep)
            place.append(-1)
        elif op in ("get", "after") and node.args[0] in results:
            place.append(results[node.args[0]][data if op == "get" else data[0]])
        elif op == "spread" and (whole := picked_from(graph, moved)) is not None:
            place.append(whole)  # no operation: a number of each limb goes in or out in parts
        else:
            place.append(graph.copy(node, moved))
    return [place[r] for r in block.results]


def written_by_rows(block: Block, outputs: tuple[Port, ...]) -> tuple[tuple[Port, ...], tuple[int, ...]]:
    """(ports, results): an output that has all entries of a table, in order, is that table, whose rows are copied in a loop."""
    ports: list[Port] = []
    results: list[int] = []
    for port, mine in by_port(outputs, block.results):
        whole = None
        if port.size and port.shape and not port.table:
            whole = whole_table(block.nodes, mine, port.shape[0], port.size // port.shape[0])
        ports.append(port if whole is None else replace(port, table=True))
        results += mine if whole is None else [whole]
    return tuple(ports), tuple(results)


def rewrite(block: Block, chosen: list[bool], visit: Visit, body: Callable[[Block], Block]) -> Block:
    """The block recorded again, the chosen nodes as `visit` writes them, the others as they are; loop bodies as `body` does."""
    graph = Graph()
    graph.params = block.params
    copy = graph.copy
    place: list[int] = []
    for node, changes in zip(block.nodes, chosen, strict=True):
        args = tuple([place[i] for i in node.args])
        if changes:
            place.append(visit(graph, node, args))
        elif node.op == "const":
            place.append(graph.const(node.data))
        elif node.op == "loop":
            place.append(graph.record("loop", args, replace(node.data, body=body(node.data.body))))
        else:
            place.append(copy(node, args))
    return graph.block([place[i] for i in block.results])


class _Released(Recorder):
    """Recorder without what only derivatives look at: `stop_gradient` is gone, and calls with a rule are their bodies."""

    def __init__(self) -> None:
        super().__init__()
        self.functions["stop_gradient"] = lambda a: a

    def call(self, call: Call | Subroutine, args: list[Any]) -> tuple[list[Any], Any]:
        return super().call(call, args) if isinstance(call, Subroutine) else (evaluate(call.body, args, self), None)


def release(block: Block) -> Block:
    """The block recorded again without `stop_gradient` and rules: derivatives have been taken by now."""
    return dead_code(record_again(block, _Released())) if _for_derivatives(block) else block


def _for_derivatives(block: Block) -> bool:
    """Whether a block, or a loop in it, has operations that only derivatives look at."""
    return any(
        node.op == "stop_gradient" or isinstance(node.data, Call) or (node.op == "loop" and _for_derivatives(node.data.body))
        for node in block.nodes
    )


def operations_used(block: Block) -> set[str]:
    """The names of the operations of a block and its loops."""
    bodies = [node.data.body for node in block.nodes if node.op in ("loop", "call")]
    return {node.op for node in block.nodes}.union(*[operations_used(body) for body in bodies])


def expand(block: Block, precision: str) -> Block:
    """Elementary functions replaced by exact operations. sin and cos of one angle share their work: equal operations are one."""
    from condyle.tape.elementary import LOWER, PRECISIONS

    constants = PRECISIONS[precision]

    def visit(graph: Graph, node: Node, args: tuple[int, ...]) -> int:
        operands = [Scalar(graph, i) for i in args]
        extra = () if node.data is None else (node.data,)
        result: Scalar = LOWER[node.op](*operands, *extra, constants)
        return result.index

    return rewrite(block, [node.op in ELEMENTARY for node in block.nodes], visit, lambda body: expand(body, precision))


def fold_constants(block: Block, *, single: bool) -> Block:
    """Operations on constants alone, and choices by them, done now: in the precision of the backend, with its bits."""
    ieee = Ieee(single=single)

    def numbers(graph: Graph, i: int) -> list[Any]:
        """The constant, or those of all limbs."""
        op, args, data = graph.nodes[i]
        if op == "spread":
            return [number for a in args for number in numbers(graph, a)]
        return [data if isinstance(data, int) else ieee.number(data)]

    def visit(graph: Graph, node: Node, args: tuple[int, ...]) -> int:
        if node.op == "select":
            compare = graph.nodes[args[0]]
            return args[1] if ieee.functions[compare.op](*[numbers(graph, i)[0] for i in compare.args]) else args[2]
        given = [numbers(graph, i) for i in args]
        if node.op == "pick":
            return graph.const(given[0][node.data if len(given[0]) > 1 else 0])
        if node.op in ("limb_sum", "limb_max"):
            return graph.const(_in_pairs(ieee.functions["add" if node.op == "limb_sum" else "max"], given[0]))
        limbs = max(map(len, given))
        found = [ieee.functions[node.op](*[x[k if len(x) > 1 else 0] for x in given]) for k in range(limbs)]
        return graph.const(found[0]) if limbs == 1 else graph.record("spread", tuple([graph.const(x) for x in found]), None)

    known = [node.op == "const" for node in block.nodes]
    for i, (op, args, _) in enumerate(block.nodes):
        if args and known[args[0]] and (op in LIMBS or (op in OPS and OPS[op].gives != BOOL)):
            known[i] = all([known[a] for a in args])
    folded = [is_known and node.op not in ("const", "spread") for is_known, node in zip(known, block.nodes, strict=True)]
    for i, (op, args, _) in enumerate(block.nodes):
        if op == "select":
            compare = block.nodes[args[0]]
            numbers_alone = all([known[a] and a not in limb_counts(block) for a in compare.args])
            folded[i] = compare.op in ("lt", "le", "eq") and numbers_alone
    return rewrite(block, folded, visit, lambda body: fold_constants(body, single=single))


def _in_pairs(function: Callable[[Any, Any], Any], values: list[Any]) -> Any:
    """Sum or maximum of pairs, then of pairs of pairs, and so on."""
    while len(values) > 1:
        pairs = [values[k : k + 2] for k in range(0, len(values), 2)]
        values = [function(*pair) if len(pair) > 1 else pair[0] for pair in pairs]
    return values[0]


def contract(block: Block) -> Block:
    """Sums of products as fma: every product whose uses are all sums is rounded together with them, never alone.

    Identities that hold all the same, because these sums are left as they are:

        x - x            is 0 for a finite x and NaN for any other, and x + x is 2 x, also where x is a product
        a * b - c * d    is 0 where the products are equal and never has the wrong sign, for rounding is monotonic,
                         where a comparison, min, max, abs, copysign or sqrt reads it

    Any other difference of two products may be the rounding error of one of them where they are equal.
    """
    fused, judged = _products_only_summed(block), _compared_differences(block)

    def visit(graph: Graph, node: Node, args: tuple[int, ...]) -> int:
        if args[0] != args[1] and node not in judged:
            for which in (1, 0):
                if node.args[which] not in fused:
                    continue
                product, other = graph.nodes[args[which]], args[1 - which]
                if product.op != "mul":
                    continue
                x, y = product.args
                if node.op == "sub" and which == 1:
                    x = graph.emit("neg", (x,))
                elif node.op == "sub":
                    other = graph.emit("neg", (other,))
                return graph.record("fma", (x, y, other), None)
        return graph.record(node.op, args, node.data)

    sums = [node.op in ("add", "sub") and not fused.isdisjoint(node.args) for node in block.nodes]
    return rewrite(block, sums, visit, contract)


def _products_only_summed(block: Block) -> set[int]:
    others = set(block.results)
    for node in block.nodes:
        if node.op not in ("add", "sub"):
            others.update(node.args)
    return {i for i, node in enumerate(block.nodes) if node.op == "mul" and i not in others}


def _compared_differences(block: Block) -> set[Node]:
    """Differences of two products whose sign decides something."""
    nodes = block.nodes
    found = {nodes[i] for node in nodes if node.op in SIGN_MATTERS for i in node.args if nodes[i].op == "sub"}
    return {node for node in found if all([nodes[i].op == "mul" for i in node.args])}
