"""The birotor's model-predictive controller: time of a real-time iteration and of its phases, compile time, exported C, and the
same quadratic programs by PIQP, Clarabel and OSQP."""

from __future__ import annotations

import importlib.util
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks.measure import SECONDS, best, busy, gcc, in_new_process
from condyle.apps.flight.references import state_references
from condyle.methods.mpc.linearization import quadratic_program
from condyle.tape.table import table

TICKS, CONTROL_DT = 900, 0.01  # s
FIRST = (
    "import time; start = time.process_time(); from benchmarks import mpc; mpc.first_solve(); print(time.process_time() - start)"
)
AVX2 = "from benchmarks import mpc; print(mpc.flight_times())"


class Birotor:
    """The published controller of the birotor: its model, and the problem."""

    def __init__(self) -> None:
        self.body = cd.flight.single_body(cd.flight.airframe("birotor"), gravity=9.798)
        self.problem = cd.flight.nmpc.problem(self.body, thrust=(0.0, 18.0), angle=(-1.5708, 1.5708))
        times = CONTROL_DT * np.arange(TICKS)
        self.references = state_references(cd.flight.Allocation(self.body), cd.flight.standard_scenario().sample(times))


def first_solve() -> None:
    """One solve, whatever it takes to get there."""
    mpc = Birotor().problem.rti()
    x = np.eye(15)[6]
    mpc(x, mpc.start(x))


def flight_times() -> list[float]:
    """Mean and 99th percentile of the processor time of a real-time iteration, us."""
    m = Birotor()
    spent = 1e6 * np.array(fly(m, m.problem.rti(), TICKS)["seconds"])
    return [float(spent.mean()), float(np.percentile(spent, 99))]


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the tables and return their numbers."""
    m = Birotor()
    mpc, ticks = m.problem.rti(), 20 if tiny else TICKS
    names = list(mpc.plan_shapes)
    flight = fly(m, mpc, ticks)
    spent = 1e6 * np.array(flight["seconds"])
    numbers: dict[str, Any] = {
        "busy": busy(),
        "real-time iteration, us, mean": spent.mean(),
        "99th percentile": np.percentile(spent, 99),
        "largest": spent.max(),
        "interior-point iterations, mean": np.mean(flight["iterations"]),
    }
    # the phases, at the states of the flight
    prepare, feedback = mpc.phases
    phases = np.array([timed_phases(prepare, feedback, names, *each) for each in flight["solves"][:: max(ticks // 100, 1)]])
    numbers |= {"prepare, us, mean": 1e6 * phases[:, 0].mean(), "feedback, us, mean": 1e6 * phases[:, 1].mean()}
    if not tiny:
        with tempfile.TemporaryDirectory() as folder:
            numbers["first solve with an empty cache, s"] = float(in_new_process(FIRST, CONDYLE_CACHE=folder))  # type: ignore[arg-type]
        mean, high = in_new_process(AVX2, CONDYLE_VECTOR_BYTES="32")
        numbers |= {"with vectors of 32 bytes (AVX2), us, mean": mean, "their 99th percentile": high}
    x, plan, r = flight["solves"][len(flight["solves"]) // 3]
    many = [np.broadcast_to(a, (64 if tiny else 256, *a.shape)).copy() for a in (x, *[plan[n] for n in names])]
    batch = mpc.function.on("cpu", threads=1)
    batch(*many, reference=r)
    numbers["batch of 256, us a solve"] = 1e6 * best(lambda: batch(*many, reference=r), 0.01 if tiny else SECONDS) / len(many[0])
    numbers |= exported(mpc.function, tiny)
    show = Table("birotor, N 20, nx 15, nu 4", "", title="real-time iterations of a flight of 9 s, 100 a second")
    for name, value in numbers.items():
        show.add_row(name, value if isinstance(value, str) else f"{value:.4g}")
    console.print(show)
    numbers["peers"] = beside_peers(console, m, flight["solves"][:: max(ticks // 10, 1)], tiny)
    return numbers


def fly(m: Any, mpc: Any, ticks: int) -> dict[str, list[Any]]:
    """Processor seconds, interior-point iterations and (state, plan, reference) of every solve of a flight."""
    x, plant = m.body.state(), m.body.simulate
    plan = mpc.start(x, m.body.trim())
    found: dict[str, list[Any]] = {"seconds": [], "iterations": [], "solves": []}
    kernel, names = mpc.function.on("cpu", lanes=1), list(mpc.plan_shapes)
    for tick in range(ticks):
        r = np.tile(m.references[tick], (21, 1))
        arrays = [plan[name] for name in names]
        if not tick:
            kernel(x, *arrays, reference=r)
        start = time.thread_time()
        out = kernel(x, *arrays, reference=r)
        found["seconds"].append(time.thread_time() - start)
        found["iterations"].append(float(out.iterations))
        found["solves"].append((x, plan, r))
        plan = {name: getattr(out, name) for name in names}
        x = plant(plant(x, out.u), out.u)
    return found


def timed_phases(prepare: Any, feedback: Any, names: list[str], x: Any, plan: Any, r: Any) -> tuple[float, float]:
    """Processor seconds of both phases, the least of three."""
    arrays = [plan[name] for name in names]
    given = [x, *prepare(*arrays, reference=r), *arrays]
    feedback(*given)
    found = []
    for _ in range(3):
        a = time.thread_time()
        prepare(*arrays, reference=r)
        b = time.thread_time()
        feedback(*given)
        found.append((b - a, time.thread_time() - b))
    first, second = np.min(found, axis=0)
    return float(first), float(second)


def exported(function: cd.Function, tiny: bool) -> dict[str, Any]:
    """Lines of C, operations at worst, and seconds of gcc."""
    source = function.source("c")
    found: dict[str, Any] = {"lines of C": source.count("\n"), "operations at worst": function.operations.worst}
    if gcc() is not None and not tiny:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "mpc.c").write_text(source)
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            options = ["-std=c99", "-O2", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-pedantic"]
            subprocess.run([gcc() or "gcc", *options, "-c", "mpc.c"], cwd=folder, check=True)
            found["gcc -O2, s"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    return found


# ---- the same quadratic programs by others


def program_function(m: Any) -> cd.Function:
    """The matrices of the quadratic program of a plan."""
    problem = m.problem

    def matrices(states: Any, controls: Any) -> dict[str, Any]:
        qp = quadratic_program(problem, problem.values(), table(states), table(controls))
        stage = {"AB": qp.system.AB, "c": qp.system.c, "H": qp.H, "g": qp.g, "C": qp.C, "d": qp.d}
        return stage | {"active": qp.active, "H_end": qp.H_end, "g_end": qp.g_end, "C_end": qp.C_end, "d_end": qp.d_end}

    return cd.function(matrices, cache=False, states=(problem.N + 1, problem.nx), controls=(problem.N, problem.nu))


def sparse_program(m: Any, q: Any, dx0: np.ndarray) -> tuple[Any, ...]:
    """(P, q, A, b, G, h, index of the first control) over (dx_0, du_0, slacks_0, dx_1, ..., dx_N, slacks_N)."""
    from scipy import sparse

    problem = m.problem
    N, n, s = problem.N, problem.ndx, problem.ndx + problem.nu
    rows: list[list[tuple[np.ndarray, float, float]]] = []  # of each stage: (coefficients, d, weight of the slack)
    for k in range(N):
        sides = enumerate(problem.constraints.sides)
        rows.append([(x.sign * q.C[k, x.row], q.d[k, b], x.l2) for b, x in sides if q.active[k, b] > 0.5])
    ends = enumerate(problem.terminal_constraints.sides)
    rows.append([(x.sign * q.C_end[x.row], q.d_end[b], x.l2) for b, x in ends])
    slacks = [sum(np.isfinite(weight) for *_, weight in each) for each in rows]
    first = np.cumsum([0, *[(s if k < N else n) + slacks[k] for k in range(N + 1)]])
    P, g = sparse.lil_matrix((first[-1], first[-1])), np.zeros(first[-1])
    A, b_eq = sparse.lil_matrix(((N + 1) * n, first[-1])), np.zeros((N + 1) * n)
    G, h = sparse.lil_matrix((sum(map(len, rows)), first[-1])), np.zeros(sum(map(len, rows)))
    A[:n, :n], b_eq[:n] = np.eye(n), dx0
    i = 0
    for k in range(N + 1):
        at, size = first[k], s if k < N else n
        P[at : at + size, at : at + size] = q.H[k] if k < N else q.H_end
        g[at : at + size] = q.g[k] if k < N else q.g_end
        if k < N:
            equation = slice((k + 1) * n, (k + 2) * n)
            A[equation, at : at + s], b_eq[equation] = -q.AB[k], q.c[k]
            A[equation, first[k + 1] : first[k + 1] + n] = np.eye(n)
        e = at + size
        for coefficients, d, weight in rows[k]:
            G[i, at : at + size], h[i] = coefficients, d
            if np.isfinite(weight):
                G[i, e], P[e, e] = -1.0, weight
                e += 1
            i += 1
    return P.tocsc(), g, A.tocsc(), b_eq, G.tocsc(), h, n


def beside_peers(console: Console, m: Any, solves: list[Any], tiny: bool) -> dict[str, Any]:
    """Mean processor time of the quadratic program alone, and how far each first control is from ours at a tight tolerance."""
    matrices = program_function(m)
    ours = m.problem.rti(qp_iterations=60, qp_tolerance=1e-11)
    usual = m.problem.rti()
    prepare, feedback = usual.phases
    names = list(usual.plan_shapes)
    found: dict[str, dict[str, list[float]]] = {}
    for x, plan, r in solves:
        q = matrices(plan["states"], plan["controls"], reference=r)
        tight = ours(x, plan, reference=r[0]).u
        dx0 = np.concatenate(
            [x[:6] - plan["states"][0, :6], gibbs(plan["states"][0, 6:10], x[6:10]), x[10:] - plan["states"][0, 10:]]
        )
        program = sparse_program(m, q, dx0)
        first, second = timed_phases(prepare, feedback, names, x, plan, r)
        away = float(np.abs(usual(x, plan, reference=r[0]).u - tight).max())
        # the first factorisation is part of the preparation, which also linearises
        for name, seconds in {"condyle (feedback phase)": second, "condyle (both phases)": first + second}.items():
            each = found.setdefault(name, {"us": [], "u0": []})
            each["us"].append(1e6 * seconds)
            each["u0"].append(away)
        for name, solve in PEERS.items():
            if importlib.util.find_spec(name.split(" ")[0].lower()) is None:
                continue
            seconds, z = min((solve(*program[:6]) for _ in range(3)), key=lambda timed: timed[0])  # as ours
            u = plan["controls"][0] + z[program[6] : program[6] + 4]
            each = found.setdefault(name, {"us": [], "u0": []})
            each["us"].append(1e6 * seconds)
            each["u0"].append(float(np.abs(u - tight).max()))
    show = Table("solver", "us, mean", "|u0 - u0 at 1e-11|, largest", title=f"{len(solves)} quadratic programs of the flight")
    for name, values in found.items():
        show.add_row(name, f"{np.mean(values['us']):.0f}", f"{max(values['u0']):.1e}")
    console.print(show)
    return {name: {"us": float(np.mean(v["us"])), "u0": max(v["u0"])} for name, v in found.items()}


def gibbs(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The change of a quaternion (w, x, y, z) from p to q, as the solver has it."""
    w, x, y, z = p
    vector = np.array([w * q[1] - x * q[0] - y * q[3] + z * q[2], w * q[2] + x * q[3] - y * q[0] - z * q[1],
                       w * q[3] - x * q[2] + y * q[1] - z * q[0]])  # fmt: skip
    found: np.ndarray = 2.0 * vector / (w * q[0] + x * q[1] + y * q[2] + z * q[3])
    return found


def piqp_solve(P: Any, g: Any, A: Any, b: Any, G: Any, h: Any, *, multistage: bool) -> tuple[float, np.ndarray]:
    """By PIQP."""
    import piqp

    solver = piqp.SparseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-10
    if multistage:
        solver.settings.kkt_solver = piqp.KKTSolver.sparse_multistage
    solver.setup(P, g, A, b, G, np.full(len(h), -np.inf), h)
    start = time.thread_time()
    solver.solve()
    return time.thread_time() - start, np.array(solver.result.x)


def clarabel_solve(P: Any, g: Any, A: Any, b: Any, G: Any, h: Any) -> tuple[float, np.ndarray]:
    """By Clarabel."""
    import clarabel
    from scipy import sparse

    settings = clarabel.DefaultSettings()
    settings.verbose, settings.tol_gap_abs, settings.tol_gap_rel, settings.tol_feas = False, 1e-10, 1e-10, 1e-10
    cones = [clarabel.ZeroConeT(len(b)), clarabel.NonnegativeConeT(len(h))]
    both = sparse.vstack([A, G]).tocsc()
    solver = clarabel.DefaultSolver(sparse.triu(P).tocsc(), g, both, np.concatenate([b, h]), cones, settings)
    start = time.thread_time()
    solution = solver.solve()
    return time.thread_time() - start, np.array(solution.x)


def osqp_solve(P: Any, g: Any, A: Any, b: Any, G: Any, h: Any) -> tuple[float, np.ndarray]:
    """By OSQP."""
    import osqp
    from scipy import sparse

    solver = osqp.OSQP()
    both, low = sparse.vstack([A, G]).tocsc(), np.concatenate([b, np.full(len(h), -np.inf)])
    solver.setup(sparse.triu(P).tocsc(), g, both, low, np.concatenate([b, h]), verbose=False, eps_abs=1e-9, eps_rel=1e-9,
                 max_iter=100_000, polishing=True)  # fmt: skip
    start = time.thread_time()
    result = solver.solve()
    return time.thread_time() - start, np.array(result.x)


PEERS: dict[str, Callable[..., tuple[float, np.ndarray]]] = {
    "PIQP multistage": lambda *program: piqp_solve(*program, multistage=True),
    "PIQP": lambda *program: piqp_solve(*program, multistage=False),
    "Clarabel": clarabel_solve,
    "OSQP": osqp_solve,
}
