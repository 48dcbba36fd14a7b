"""Derivatives of a tape as tapes: Jacobians, products with them from either side, and second derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from condyle.errors import TraceError
from condyle.tape.array import assemble
from condyle.tape.dead_code import dead_code
from condyle.tape.forward import TableTangent, Tangent, forward
from condyle.tape.graph import Graph
from condyle.tape.inline import inline
from condyle.tape.limbs import unrolled
from condyle.tape.loop import columns as columns_of
from condyle.tape.loop import repeat
from condyle.tape.reverse import TableAdjoint, reverse
from condyle.tape.scalar import Scalar, constant
from condyle.tape.sparsity import backward_masks, forward_masks, union
from condyle.tape.table import Table, current, is_recording, make_table, recording
from condyle.tape.tape import RUN_TIME, Block, Port, Tape, by_port
from condyle.tape.trace import Shape, outputs_of, port_params, port_value, trace

Names = str | Sequence[str] | None


def jacobian(tape: Tape, of: Names = None, wrt: Names = None, *, mode: str = "auto") -> Tape:
    """The tape of d<of>_d<wrt>, each of shape (*of, *wrt), by "forward" or "reverse" mode or the one with less to do."""
    outputs, inputs = _chosen(tape.outputs, of, "output"), _chosen(tape.inputs, wrt, "input")
    if endless := [p.name for p in inputs if p.run_time]:
        raise TraceError(f"'{endless[0]}' has a number of rows that is known at run time: use jvp(), or choose others by `wrt`")
    rows = _rows_by(tape, outputs, inputs, mode)

    def build(graph: Graph, params: list[Any]) -> dict[str, Any]:
        per_output = rows(params)
        result: dict[str, Any] = {}
        for port in outputs:
            entries = per_output[port.name]
            for source in inputs:
                columns = _places(tape.inputs, source)
                name, shape = f"d{port.name}_d{source.name}", (*port.shape, *source.shape)
                if isinstance(entries, TableTangent):
                    result[name] = _dense_table(entries, port, columns, shape)
                else:
                    result[name] = assemble([entry.get(c, 0.0) for entry in entries for c in columns], shape)
        return result

    return _build(tape, f"{tape.name}_jacobian", (), build)


def sparse_jacobian(tape: Tape, of: str, wrt: str, *, mode: str = "auto") -> tuple[Tape, np.ndarray, np.ndarray]:
    """(tape of the entries that are not structurally zero, their rows, their columns), rows in order."""
    (port,), (source,) = _chosen(tape.outputs, of, "output"), _chosen(tape.inputs, wrt, "input")
    if port.table:
        raise TraceError(f"the sparse Jacobian of '{of}', which a scan wrote, is not available; use jacobian()")
    columns = _places(tape.inputs, source)
    found: list[tuple[int, int]] = []

    def build(graph: Graph, params: list[Any]) -> dict[str, Any]:
        entries = _rows_by(tape, [port], [source], mode)(params)[port.name]
        found[:] = [
            (r, k) for r, entry in enumerate(entries) for k, c in enumerate(columns) if constant(entry.get(c, 0.0)) != 0.0
        ]
        return {f"d{of}_d{wrt}": np.array([entries[r][columns[k]] for r, k in found], dtype=object)}

    result = _build(tape, f"{tape.name}_sparse_jacobian", (), build)
    rows, cols = np.array(found, dtype=int).reshape(-1, 2).T
    return result, rows, cols


def jvp(tape: Tape, wrt: Names = None) -> Tape:
    """The tape of <output>_tangent = sum over inputs of J <input>_tangent."""
    inputs = _chosen(tape.inputs, wrt, "input")
    extra = tuple(Port(f"{p.name}_tangent", p.shape, p.table) for p in inputs)

    def build(graph: Graph, params: list[Any]) -> dict[str, Any]:
        tangents: list[Any] = [{} for _ in range(tape.block.params)]
        moving = [place for p in inputs for place in _params(tape.inputs, p)]
        for c, x in zip(moving, params[tape.block.params :], strict=True):
            tangents[c] = TableTangent(x, {(k, 0): k for k in range(x.columns)}) if isinstance(x, Table) else {0: x}
        _, moves = forward(tape.block, params[: tape.block.params], tangents)
        result: dict[str, Any] = {}
        for port, mine in by_port(tape.outputs, moves):
            if port.table:
                result[f"{port.name}_tangent"] = _dense_table(mine[0], port, [0], port.shape)
            else:
                result[f"{port.name}_tangent"] = assemble([t.get(0, 0.0) for t in mine], port.shape)
        return result

    return _build(tape, f"{tape.name}_jvp", extra, build)


def vjp(tape: Tape, wrt: Names = None) -> Tape:
    """The tape of <input>_gradient = sum over outputs of J^T <output>_weight."""
    inputs = _chosen(tape.inputs, wrt, "input")
    extra = tuple(Port(f"{p.name}_weight", p.shape, p.table) for p in tape.outputs)
    if any(p.run_time for p in tape.inputs):
        raise TraceError(
            f"{tape.name}: going backward through rows whose number is known at run time needs memory without a bound; use "
            "forward_and_backward(), trace it with the number of rows, Rows(100, ...), or use forward mode"
        )

    def build(graph: Graph, params: list[Any]) -> dict[str, Any]:
        adjoints: list[Any] = []
        for w in params[tape.block.params :]:
            adjoints.append(TableAdjoint([(w, {(c, 0): c for c in range(w.columns)})]) if isinstance(w, Table) else {0: w})
        _, into = reverse(tape.block, params[: tape.block.params], adjoints)
        return {f"{p.name}_gradient": _gradient(p, [into[c] for c in _params(tape.inputs, p)]) for p in inputs}

    return _build(tape, f"{tape.name}_vjp", extra, build)


def hessian(tape: Tape, of: str | None = None, wrt: Names = None) -> Tape:
    """The tape of d2<of>_d<a>_d<b> for all pairs of inputs: forward derivatives of the gradient, each entry computed once.

    If the output is not a single number, a new input <of>_weight is added and the weighted sum of the output is differentiated.
    """
    (port,) = _chosen(tape.outputs, of, "output") if of or len(tape.outputs) > 1 else tape.outputs
    inputs = _chosen(tape.inputs, wrt, "input")
    gradient = vjp(_only(tape, port), [p.name for p in inputs])
    weighted = port.size > 1
    moving = [c for p in inputs for c in _places(tape.inputs, p)]

    def build(graph: Graph, params: list[Any]) -> dict[str, Any]:
        one = Scalar(graph, graph.const(1.0))
        given = params if weighted else [*params, one]
        _, moves = forward(gradient.block, given, [*_seeded(tape.inputs, moving, one), *[{} for _ in given[tape.block.params :]]])
        flat = _flat(gradient.outputs, moves)
        order = {c: k for k, c in enumerate(moving)}

        def entry(a: int, b: int) -> Any:
            # symmetric: only the lower half is computed
            low, high = sorted((order[a], order[b]))
            return flat[high].get(moving[low], 0.0)

        result = {}
        for a in inputs:
            for b in inputs:
                entries = [entry(i, j) for i in _places(tape.inputs, a) for j in _places(tape.inputs, b)]
                result[f"d2{port.name}_d{a.name}_d{b.name}"] = assemble(entries, (*a.shape, *b.shape))
        return result

    extra = (Port(f"{port.name}_weight", port.shape, port.table),) if weighted else ()
    return _build(tape, f"{tape.name}_hessian", extra, build)


# ---- in the middle of a trace


def trace_inside(function: Callable[..., Any], /, *, one_limb: bool = False, **shapes: Shape) -> tuple[Tape, list[Scalar]]:
    """(the tape of a function, values of the traces around it that it uses); those are the tape's last input, if there are any.

    Shapes as for `trace`. `inline(tape, [*arguments, *values])` records it where the caller records. `one_limb`: the function is
    the same for every limb and uses no other one, so that the tape is that of one limb, whose arguments and values may be numbers
    of each limb.
    """
    if not is_recording():
        return trace(function, **shapes), []
    around, ports = current(), tuple(Port(name, (n,) if isinstance(n, int) else n) for name, n in shapes.items())  # type: ignore[arg-type]
    graph = Graph(parent=around)
    graph.one_limb = one_limb
    arguments = {p.name: port_value(p, port_params(graph, p)) for p in ports}
    with recording(graph):
        outputs, results = outputs_of(graph, function(**arguments))
    inputs = (*ports, *([Port("around", (len(graph.captured),))] if graph.captured else []))
    block = dead_code(unrolled(graph.block(results)))
    return Tape("inner", block, inputs, tuple(outputs)), [Scalar(around, k) for k in graph.captured]


def jacobian_at_zero(function: Callable[[Any], dict[str, Any]], n: int, *, one_limb: bool = False) -> dict[str, np.ndarray]:
    """{name: d(result)/dd, of shape (*result, n)} of function(d) at d = 0, recorded where the caller records.

    `function` takes n traced numbers and gives named arrays. Values of the traces around it are constants to it. `one_limb`: as
    for `trace_inside`.
    """
    tape, around = trace_inside(function, one_limb=one_limb, d=n)
    found = inline(jacobian(tape, None, "d", mode="forward"), [*[0.0] * n, *around])
    return {port.name: found[f"d{port.name}_dd"].reshape(*port.shape, n) for port in tape.outputs}


def derivative_at_zero(function: Callable[[Any], dict[str, Any]]) -> dict[str, np.ndarray]:
    """{name: d(result)/dt} of function(t) at t = 0, likewise."""
    return {name: derivative[..., 0] for name, derivative in jacobian_at_zero(lambda d: function(d[0]), 1).items()}


# ---- inside


def _build(tape: Tape, name: str, extra: tuple[Port, ...], build: Callable[[Graph, list[Any]], dict[str, Any]]) -> Tape:
    """A tape with the inputs of `tape` and some more, and the outputs that `build` records."""
    graph = Graph()
    inputs = (*tape.inputs, *extra)
    params = [param for p in inputs for param in port_params(graph, p)]
    with recording(graph):
        ports, results = outputs_of(graph, build(graph, params))
    return Tape(name, dead_code(unrolled(graph.block(results))), inputs, tuple(ports))


def _rows_by(tape: Tape, outputs: Sequence[Port], inputs: Sequence[Port], mode: str) -> Callable[[list[Any]], dict[str, Any]]:
    """params -> output name -> one {column: entry} per row of the Jacobian, or the TableTangent of a scan's output."""
    if mode not in ("auto", "forward", "reverse"):
        raise TraceError(f"mode must be 'auto', 'forward' or 'reverse', got {mode!r}")
    tables = any(p.table for p in outputs)
    if tables and mode == "reverse":
        raise TraceError("the Jacobian of what a scan wrote is available in forward mode only; vjp() works backward through it")
    moving = [c for p in inputs for c in _places(tape.inputs, p)]
    if mode == "auto":
        mode = "forward" if tables or _forward_is_less(tape, outputs, moving) else "reverse"

    def by_forward(params: list[Any]) -> dict[str, Any]:
        one = Scalar(current(), current().const(1.0))
        _, moves = forward(tape.block, list(params), _seeded(tape.inputs, moving, one))
        return {p.name: mine[0] if p.table else mine for p, mine in by_port(tape.outputs, moves)}

    def by_reverse(params: list[Any]) -> dict[str, Any]:
        one = Scalar(current(), current().const(1.0))
        adjoints: list[Any] = []
        for port in tape.outputs:
            rows = _places(tape.outputs, port)
            adjoints += [TableAdjoint()] if port.table else [{r: one} if port in outputs else {} for r in rows]
        _, each = reverse(tape.block, list(params), adjoints)
        into = _entries(tape.inputs, each)
        return {p.name: [{c: into[c][r] for c in moving if r in into[c]} for r in _places(tape.outputs, p)] for p in outputs}

    return by_forward if mode == "forward" else by_reverse


def _forward_is_less(tape: Tape, outputs: Sequence[Port], moving: list[int]) -> bool:
    flat = [1 << c if c in moving else 0 for c in range(sum(p.size for p in tape.inputs))]
    params: list[Any] = []
    for p in tape.inputs:
        mine = [flat[c] for c in _places(tape.inputs, p)]
        params += [[union(mine[c :: p.columns]) for c in range(p.columns)]] if p.table else mine
    seeds: list[Any] = []
    for port in tape.outputs:
        rows = _places(tape.outputs, port)
        seeds += [[0] * port.columns] if port.table else [1 << r if port in outputs else 0 for r in rows]
    forward_cost = sum(m.bit_count() for m in forward_masks(tape.block, params) if isinstance(m, int))
    reverse_cost = sum(m.bit_count() for m in backward_masks(tape.block, seeds)[1] if isinstance(m, int))
    loops = any(node.op == "loop" for node in tape.block.nodes)
    # going backward through a loop recomputes it and keeps every iteration in memory
    return forward_cost <= reverse_cost * (3 if loops else 1)


def _dense_table(tangent: TableTangent, port: Port, columns: Sequence[int], shape: tuple[int, ...]) -> Any:
    """The tangents of a scan's output as a table with every (column, seed), zeros included."""
    rows, width = port.shape[0], port.columns
    keys = [(c, s) for c in range(width) for s in columns]

    def body(i: Scalar, carry: list[Scalar], row: list[Scalar]) -> tuple[list[Any], list[Any]]:
        return [], [row[tangent.place[key]] if key in tangent.place else 0.0 for key in keys]

    if rows == RUN_TIME:
        first = tangent.place.get(keys[0], -1)
        if tangent.table is None or any(tangent.place.get(key) != first + k for k, key in enumerate(keys)):
            raise TraceError(f"the derivative of '{port.name}', whose number of rows is known at run time, is not available")
        return columns_of(tangent.table, first, first + len(keys), shape[1:])
    _, table = repeat(rows, [], [tangent.table] if tangent.table is not None else [], body)
    return table.shaped(shape)


def _chosen(ports: tuple[Port, ...], names: Names, what: str) -> list[Port]:
    if names is None:
        # parameters are inputs that are named when they are meant
        return [p for p in ports if p.parameter is None] or list(ports)
    wanted = [names] if isinstance(names, str) else list(names)
    known = {p.name: p for p in ports}
    for name in wanted:
        if name not in known:
            raise TraceError(f"there is no {what} '{name}'; there are {', '.join(known)}")
    return [known[name] for name in wanted]


def _gradient(port: Port, adjoints: list[Any]) -> Any:
    """The gradient by one input: an array, or a table."""
    if not port.table:
        return assemble([a.get(0, 0.0) for a in adjoints], port.shape)
    layout = {(c, 0): c for c in range(port.columns)}
    return (adjoints[0] or TableAdjoint()).as_table((port.shape[0], port.columns), layout).shaped(port.shape)


def _seeded(ports: tuple[Port, ...], moving: list[int], one: Scalar) -> list[Any]:
    """The tangents of all params, one seed per entry that moves."""
    tangents: list[Any] = []
    for port in ports:
        places = _places(ports, port)
        if not port.table:
            tangents += [{c: one} if c in moving else {} for c in places]
        elif port.run_time or places.start not in moving:
            tangents.append({})
        else:
            # the entry of row r and column c has a seed of its own, and so a column of its own
            rows, width = port.shape[0], port.columns
            entries = [float(k // width == r) for r in range(rows) for k in range(port.size)]
            layout = {(k % width, places[k]): k for k in range(port.size)}
            tangents.append(TableTangent(make_table(current(), entries, rows, port.size), layout))
    return tangents


def _entries(ports: tuple[Port, ...], adjoints: list[Any]) -> list[Any]:
    """The adjoints of all entries of all inputs."""
    flat: list[Any] = []
    for port in ports:
        mine = [adjoints[c] for c in _params(ports, port)]
        if port.table:
            size = (port.shape[0], port.columns)
            mine = [(mine[0] or TableAdjoint()).entry(size, r, c) for r in range(size[0]) for c in range(size[1])]
        flat += mine
    return flat


def _params(ports: tuple[Port, ...], port: Port) -> range:
    """The params of a block that one input is."""
    start = sum(p.params for p in ports[: ports.index(port)])
    return range(start, start + port.params)


def _places(ports: tuple[Port, ...], port: Port) -> range:
    """The flat entries of one port."""
    start = sum(p.size for p in ports[: ports.index(port)])
    return range(start, start + port.size)


def _flat(ports: tuple[Port, ...], moves: list[Any]) -> list[Tangent]:
    """The tangents of all entries of all ports, row after row where a port is a table."""
    flat: list[Tangent] = []
    for port, mine in by_port(ports, moves):
        if port.table:
            width = port.columns
            flat += [mine[0].entry(r, c) for r in range(port.shape[0]) for c in range(width)]
        else:
            flat += mine
    return flat


def _only(tape: Tape, port: Port) -> Tape:
    """The tape with one output."""
    results = dict(by_port(tape.outputs, tape.block.results))[port]
    block = dead_code(Block(tape.block.nodes, tape.block.params, tuple(results)))
    return Tape(tape.name, block, tape.inputs, (port,))
