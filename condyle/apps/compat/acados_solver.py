"""AcadosOcpSolver: acados' solver object over the compiled iterations of condyle.methods.mpc."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from condyle.apps.compat.acados_description import AcadosOcp
from condyle.apps.compat.acados_kernels import Kernels, Structure, split, structure_and_data, tolerances
from condyle.apps.compat.acados_problem import Formulation, _array
from condyle.atomic_write import write_bytes
from condyle.errors import ControlError, FileError
from condyle.methods.mpc.barrier import Sides
from condyle.methods.mpc.solver import FAILED, STOPPED
from condyle.methods.mpc.sqp import RealTimeIteration
from condyle.tape.function import Function

SUCCESS, NAN_DETECTED, MAX_ITER, QP_FAILURE, READY = 0, 1, 2, 4, 5
STATUS = {
    0: "converged",
    1: "a number is not finite",
    2: "stopped at nlp_solver_max_iter",
    4: "the QP solver failed",
    5: "prepared",
}
RESIDUALS = ("stationarity", "dynamics", "inequality", "complementarity")
TIMES = (
    "time_tot", "time_lin", "time_sim", "time_sim_ad", "time_sim_la", "time_qp", "time_qp_solver_call", "time_qp_xcond",
    "time_glob", "time_reg", "time_preparation", "time_feedback",
)  # fmt: skip


class AcadosOcpSolver:
    """A solver of an AcadosOcp. It is compiled with the first solve, and again if bounds come into being or vanish."""

    def __init__(self, acados_ocp: AcadosOcp, json_file: str = "", generate: bool = True, build: bool = True, **_: Any) -> None:
        if not isinstance(acados_ocp, AcadosOcp):
            raise ControlError(f"AcadosOcpSolver takes an AcadosOcp, got {type(acados_ocp).__name__}")
        self.acados_ocp, self.name = acados_ocp, acados_ocp.model.name
        self._formulation = f = Formulation(acados_ocp)
        self.N, self._numbers = f.N, f.numbers
        self._options = acados_ocp.solver_options
        self._rti_phase, self._max_iter = int(self._options.rti_phase), int(self._options.nlp_solver_max_iter)
        self._tolerances = tolerances(self._options)
        self._kernels: dict[Structure, Kernels] = {}
        self._ready: tuple[Kernels, dict[str, np.ndarray]] | None = None  # for the present numbers
        self._prepared: Any = None  # what phase 1 left, while all but the first state is as it was then
        self._first_state()
        self._set_dims()
        self.reset()

    def _first_state(self) -> None:
        given, nx = self.acados_ocp.constraints, self._formulation.nx
        index = np.ravel(given.idxbx_0 if given.idxbx_0 is not None else [])
        if sorted(index) != list(range(nx)):
            raise ControlError(
                "constraints.x0 is needed: problems with a free or partly free first state are not supported; "
                "for estimation see condyle.methods.mpc"
            )
        order = np.argsort(index)
        for name in ("lbx", "ubx"):
            self._numbers.bounds[0][name] = _array(f"constraints.{name}_0", getattr(given, f"{name}_0"), (nx,))[order]

    def _set_dims(self) -> None:
        dims, f, b = self.acados_ocp.dims, self._formulation, self._numbers.bounds
        sizes = {"N": f.N, "nx": f.nx, "nu": f.nu, "np": f.np, "nbx_0": f.nx, "ny": len(self._numbers.yref[min(1, f.N - 1)])}
        sizes |= {"ny_0": len(self._numbers.yref[0]), "ny_e": len(self._numbers.yref[f.N])}
        sizes |= {name: len(b[min(1, f.N - 1)].get(f"l{name[1:]}", ())) for name in ("nbx", "nbu", "ng", "nh")}
        sizes |= {f"{name}_e": len(b[f.N].get(f"l{name[1:]}", ())) for name in ("nbx", "ng", "nh")}
        sizes |= {
            "ns": len(self._numbers.slack_weights[min(1, f.N - 1)]["zl"]),
            "ns_e": len(self._numbers.slack_weights[f.N]["zl"]),
        }
        for name, value in sizes.items():
            setattr(dims, name, value)

    # ---- numbers

    def reset(self, reset_qp_solver_mem: int = 1) -> int:
        """The first iterate again: all states at x0 and no controls. Parameters, references and bounds stay."""
        f = self._formulation
        self._plan: dict[str, np.ndarray] = {
            "states": np.tile(self._numbers.bounds[0]["lbx"], (f.N + 1, 1)), "controls": np.zeros((f.N, f.nu)),
        }  # fmt: skip
        self.status, self._found = SUCCESS, {"residuals": np.zeros(4)}
        self._rows: list[list[float]] = []
        self._times: dict[str, float] = {}
        self._prepared = None
        return 0

    def set(self, stage_: int, field_: str, value_: Any) -> None:
        """Set the iterate x, u; parameters p; references yref; or bounds lbx, ubx, lbu, ubu, of a stage."""
        k = self._stage(stage_)
        if field_ in ("x", "u", "p"):
            self._prepared = None
        if field_ in ("x", "u"):
            if field_ == "u" and k == self.N:
                if np.size(value_):
                    raise ControlError(f"set: there is no u in the last stage, {self.N}")
                return
            rows = self._plan["states" if field_ == "x" else "controls"]
            rows[k] = _array(f"set({k}, '{field_}')", value_, rows[k].shape)
        elif field_ == "p":
            self._numbers.p[k] = _array(f"set({k}, 'p')", value_, self._numbers.p[k].shape)
        elif field_ in ("yref", "y_ref"):
            self.cost_set(k, "yref", value_)
        elif field_[:2] in ("lb", "ub", "lh", "uh", "lg", "ug"):
            self.constraints_set(k, field_, value_)
        elif field_ not in ("z", "pi", "lam", "t", "sl", "su", "xdot_guess", "z_guess"):
            raise ControlError(f"set: there is no '{field_}'; there are x, u, p, yref, lbx, ubx, lbu, ubu, lh, uh, lg, ug")

    def set_flat(self, field_: str, value_: Any) -> None:
        """Set x, u or p of all stages, one after the other."""
        values = np.asarray(value_, dtype=float).reshape(self.N if field_ == "u" else self.N + 1, -1)
        for k, value in enumerate(values):
            self.set(k, field_, value)

    def get_flat(self, field_: str) -> np.ndarray:
        """x, u or p of all stages, one after the other."""
        return np.concatenate([self.get(k, field_) for k in range(self.N if field_ in ("u", "pi") else self.N + 1)])

    def set_params_sparse(self, stage_: int, idx_values_: Any, param_values_: Any) -> None:
        """Set some of the parameters of a stage."""
        self._prepared = None
        self._numbers.p[self._stage(stage_)][np.asarray(idx_values_, dtype=int)] = np.asarray(param_values_, dtype=float)

    def cost_set(self, stage_: int, field_: str, value_: Any, api: str = "new") -> None:
        """Set yref, W, zl, zu, Zl, Zu or scaling of a stage."""
        k, numbers = self._stage(stage_), self._numbers
        self._prepared = None
        if field_ in ("yref", "y_ref"):
            numbers.yref[k] = _array(f"cost_set({k}, 'yref')", value_, numbers.yref[k].shape)
            for i, term in enumerate(self._formulation.terms):
                if self._ready is not None and term.ny and term.first <= k <= term.last:
                    self._ready[1][f"yref{i}"][k] = numbers.yref[k]
            return
        self._ready = None
        if field_ == "W":
            numbers.W[k] = _array(f"cost_set({k}, 'W')", value_, numbers.W[k].shape)
        elif field_ in ("zl", "zu", "Zl", "Zu"):
            old = numbers.slack_weights[k]
            numbers.slack_weights[k] = old | {field_: _array(f"cost_set({k}, '{field_}')", value_, old[field_].shape)}
        elif field_ == "scaling":
            numbers.scaling[k] = float(np.asarray(value_, dtype=float).ravel()[0])
        else:
            raise ControlError(f"cost_set: '{field_}' is not supported; there are yref, W, zl, zu, Zl, Zu, scaling")

    def constraints_set(self, stage_: int, field_: str, value_: Any, api: str = "new") -> None:
        """Set lbx, ubx, lbu, ubu, lg, ug, lh or uh of a stage; those of x in the first stage are its initial state."""
        k = self._stage(stage_)
        bounds = self._numbers.bounds[k]
        if field_ not in bounds:
            known = ", ".join(bounds) or "none"
            raise ControlError(f"constraints_set: stage {k} has no bounds '{field_}'; it has {known}")
        value = np.atleast_1d(np.asarray(value_, dtype=float)).ravel()
        if value.shape != bounds[field_].shape:
            raise ControlError(f"constraints_set({k}, '{field_}') takes {len(bounds[field_])} numbers, got {len(value)}")
        bounds[field_] = value
        if k > 0 or field_ not in ("lbx", "ubx"):
            self._ready = self._prepared = None  # the first state is not part of the problem's data

    def options_set(self, field_: str, value_: Any) -> None:
        """Set rti_phase (0, 1 or 2), max_iter, or the tolerances tol_stat, tol_eq, tol_ineq, tol_comp."""
        tolerance = field_.removeprefix("nlp_solver_").removeprefix("tol_")
        if field_ == "rti_phase":
            if value_ not in (0, 1, 2):
                raise ControlError(f"options_set: rti_phase is 0 (all), 1 (preparation) or 2 (feedback), got {value_!r:.40}")
            self._rti_phase = int(value_)
        elif field_ in ("max_iter", "nlp_solver_max_iter"):
            self._max_iter = int(value_)
        elif tolerance in ("stat", "eq", "ineq", "comp"):
            self._tolerances[("stat", "eq", "ineq", "comp").index(tolerance)] = float(value_)
        elif field_ not in ("print_level", "warm_start_first_qp", "qp_warm_start", "globalization_use_SOC", "full_step_dual"):
            raise ControlError(f"options_set: '{field_}' cannot be changed after the solver was made; set it in solver_options")

    # ---- solving

    def solve(self) -> int:
        """Solve from the present iterate: 0 converged, 1 not finite, 2 limit of iterations, 4 QP failed, 5 prepared."""
        rti = self._options.nlp_solver_type == "SQP_RTI"
        kernels, data = self._current()
        self._rows = []
        phase = self._rti_phase if rti else 0
        self._compile(kernels, phase)
        start = time.perf_counter()
        if phase == 1:
            self._prepare(kernels, data)
            self.status = READY
        else:
            self.status = self._iterate(kernels, data, 1 if rti else self._max_iter, rti)
        elapsed = time.perf_counter() - start
        kept = {"time_preparation": self._times.get("time_preparation", 0.0)} if phase == 2 else {}
        self._times = kept | {"time_tot": elapsed, "time_preparation" if phase == 1 else "time_feedback": elapsed}
        return self.status

    def solve_for_x0(self, x0_bar: Any, fail_on_nonzero_status: bool = True, print_stats_on_failure: bool = True) -> np.ndarray:
        """The first control from the state x0_bar; raises if the solver fails, and not at the limit of iterations."""
        for name in ("lbx", "ubx"):
            self.constraints_set(0, name, x0_bar)
        status = self.solve()
        if status not in (SUCCESS, MAX_ITER) and fail_on_nonzero_status:
            raise ControlError(f"AcadosOcpSolver.solve_for_x0: status {status}, {STATUS[status]}; the last plan is kept")
        return self.get(0, "u")

    def _current(self) -> tuple[Kernels, dict[str, np.ndarray]]:
        """The kernels for the present numbers, and the numbers; the plan has their slacks and multipliers."""
        if self._ready is None:
            structure, data = structure_and_data(self._formulation)
            if structure not in self._kernels:
                self._kernels[structure] = Kernels(self._formulation, structure, data)
            self._ready = self._kernels[structure], data
        kernels, data = self._ready
        shapes = kernels.solver.plan_shapes
        if any(name not in self._plan or self._plan[name].shape != shape for name, shape in shapes.items()):
            fresh = kernels.solver.start(self._plan["states"][0])
            self._plan = fresh | {name: self._plan[name] for name in ("states", "controls")}
        return kernels, data

    def _compile(self, kernels: Kernels, phase: int) -> None:
        """Compile what the solve will call, so that its time is that of a solve."""
        if phase and isinstance(kernels.solver, RealTimeIteration) and (phase == 1 or self._prepared is not None):
            for each in kernels.solver.phases:
                each.kernel()
        else:
            kernels.solver.compile()

    def _iterate(self, kernels: Kernels, data: dict[str, np.ndarray], most: int, rti: bool) -> int:
        lower, upper = self._numbers.bounds[0]["lbx"], self._numbers.bounds[0]["ubx"]
        if not np.array_equal(lower, upper) and not np.isnan(lower).any():
            raise ControlError("lbx and ubx of stage 0 must be the same: the measured state; a free first state is not supported")
        if "search" in self._plan:
            self._plan["search"] = kernels.solver.start(self._plan["states"][0])["search"]
        kept, unsolved = self._plan, False
        program = (0.0, 0.0, 0.0)  # status, iterations and step length of the program that led to an iterate
        for k in range(most):
            found = self._step(kernels, data) if self._prepared is None else self._feedback(kernels)
            self._prepared = None
            self._found = {"residuals": _residuals(found)}
            self._rows.append([k, *self._found["residuals"], *program])
            if int(found.status) == FAILED:
                self._plan = self._without_multipliers(kernels, kept)
                return QP_FAILURE if unsolved else NAN_DETECTED
            self._plan = {name: np.array(getattr(found, name)) for name in kernels.solver.plan_shapes}
            if not rti and (self._found["residuals"] <= self._tolerances).all():
                return SUCCESS
            program = _program(found)
            unsolved = program[0] > 0.0
            if unsolved:
                # the next program starts without these multipliers, which may be anything
                self._plan = self._without_multipliers(kernels, self._plan)
            else:
                kept = self._plan
        self._rows.append([most, *np.full(4, np.nan), *program])
        if unsolved:
            self._plan = self._without_multipliers(kernels, kept)
            return QP_FAILURE
        return SUCCESS if rti else MAX_ITER

    def _without_multipliers(self, kernels: Kernels, plan: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The states and controls of a plan, with the slacks and multipliers of a first solve."""
        return kernels.solver.start(plan["states"][0]) | {name: plan[name] for name in ("states", "controls")}

    def _step(self, kernels: Kernels, data: dict[str, np.ndarray]) -> Any:
        x = self._numbers.bounds[0]["lbx"]
        return kernels.solver.outputs(x, self._plan, **self._taken(kernels.solver.function, data))

    def _prepare(self, kernels: Kernels, data: dict[str, np.ndarray]) -> None:
        """Phase 1: all that the first state is not needed for. Steps with a line search or exact Hessians have one phase only."""
        if isinstance(kernels.solver, RealTimeIteration):
            prepare, _ = kernels.solver.phases
            self._prepared = prepare(*self._plan_arrays(kernels), **self._taken(prepare, data))

    def _feedback(self, kernels: Kernels) -> Any:
        """Phase 2, with what phase 1 left; stationarity and gaps of the dynamics are not computed."""
        assert isinstance(kernels.solver, RealTimeIteration)
        return kernels.solver.phases[1](self._numbers.bounds[0]["lbx"], *self._prepared, *self._plan_arrays(kernels))

    def _plan_arrays(self, kernels: Kernels) -> list[np.ndarray]:
        return [self._plan[name] for name in kernels.solver.plan_shapes]

    def _taken(self, call: Function, data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The data that a function has inputs for, with the iterate about which a Levenberg-Marquardt term is."""
        if self._formulation.lm:
            u = np.concatenate([self._plan["controls"], np.zeros((1, self._formulation.nu))])
            data = data | {"center": np.concatenate([self._plan["states"], u], axis=1)}
        known = {port.name for port in call.tape.inputs}
        return {name: value for name, value in data.items() if name in known}

    # ---- results

    def get(self, stage_: int, field_: str) -> np.ndarray:
        """x, u, p; sl, su; lam; or pi of a stage."""
        k = self._stage(stage_)
        if field_ == "x":
            return np.copy(self._plan["states"][k])
        if field_ == "u":
            return np.copy(self._plan["controls"][k]) if k < self.N else np.zeros(0)
        if field_ == "p":
            return np.copy(self._numbers.p[k])
        if field_ == "z":
            return np.zeros(0)
        if field_ == "pi":
            if k == self.N:
                raise ControlError(f"get: there is no 'pi' in the last stage, {self.N}")
            return np.copy(self._costates().pi[k])
        if field_ in ("sl", "su", "lam"):
            return self._of_sides(k, field_)
        raise ControlError(f"get: '{field_}' is not supported; there are x, u, p, pi, lam, sl, su")

    def _costates(self) -> Any:
        kernels, data = self._current()
        plan = {name: value for name, value in self._plan.items() if name != "search"}
        return kernels.costates(**plan, **self._taken(kernels.costates, data))

    def _of_sides(self, k: int, field: str) -> np.ndarray:
        """Slacks in the order of zl; or multipliers: lower bounds, upper bounds (u, x, g, h), then zeros for the slacks.

        Those of x in the first stage are the multipliers of x0.
        """
        kernels, _ = self._current()
        end = k == self.N
        rows = kernels.structure.rows_end if end else kernels.structure.rows
        problem = kernels.problem
        sides = Sides((problem.terminal_constraints if end else problem.constraints).sides)
        groups = split(self._formulation.groups, self.N)[int(end)]
        here = [g for g in groups if g.first <= k <= g.last]
        lam = {(g.field, side): np.zeros(len(g.entries)) for g in here for side in "lu"}
        slack = {side: np.zeros(len(self._numbers.slack_weights[k]["zl"])) for side in "lu"}
        dual = self._plan.get("duals_end") if end else self._plan.get("duals", np.zeros((self.N, 0)))[k]
        for side, (_, l, e, _) in zip(sides.sides, sides.split(dual) if sides.count else [], strict=True):
            row = rows[side.row]
            group, letter = groups[row.group], "u" if side.sign > 0.0 else "l"
            if group not in here:
                continue
            letter = "l" if side.equality and l < 0.0 else letter
            lam[group.field, letter][row.entry] = abs(l)
            place = next((later if k else first for i, first, later in group.slacks if i == row.entry), None)
            if place is not None:
                slack[letter][place] = l / side.l2 if e is None else e
        if field != "lam":
            return slack[field[1]]
        if k == 0:
            first = self._costates().first
            lam |= {("bx", "l"): np.maximum(first, 0.0), ("bx", "u"): np.maximum(-first, 0.0)}
        order = sorted({name for name, _ in lam}, key=("bu", "bx", "g", "h").index)
        return np.concatenate([np.zeros(0), *[lam[name, side] for side in "lu" for name in order], np.zeros(2 * len(slack["l"]))])

    def get_cost(self) -> float:
        """The cost of the present iterate, scaled as in the problem, with that of slacks."""
        kernels, data = self._current()
        plan = {name: self._plan[name] for name in ("states", "controls")}
        return float(kernels.cost(**plan, **self._taken(kernels.cost, data)))

    def get_residuals(self, recompute: bool = False) -> np.ndarray:
        """Stationarity, dynamics, inequalities, complementarity: the largest violation of each, at the last iterate."""
        if recompute or self._options.nlp_solver_type == "SQP_RTI":
            return _residuals(self._step(*self._current()))
        return np.copy(self._found["residuals"])

    def get_stats(self, field_: str) -> Any:
        """Of the last solve: time_tot, sqp_iter, qp_iter, residuals, statistics, ...

        One column per iterate: its residuals, then status, iterations and step length of the program that led to it.
        """
        table = np.array(self._rows).reshape(-1, 8).T
        steps = max(table.shape[1] - 1, 0)
        counts = {"sqp_iter": steps, "nlp_iter": steps, "stat_m": table.shape[1], "stat_n": 7}
        columns = {
            "qp_stat": 5,
            "qp_iter": 6,
            "alpha": 7,
            "res_stat_all": 1,
            "res_eq_all": 2,
            "res_ineq_all": 3,
            "res_comp_all": 4,
        }
        if field_ in counts:
            return counts[field_]
        if field_ in columns:
            return table[columns[field_]]
        if field_ in TIMES:
            return self._times.get(field_, 0.0)
        if field_ == "statistics":
            return table
        if field_ == "residuals":
            return self.get_residuals()
        known = ", ".join([*counts, *columns, *TIMES, "statistics", "residuals"])
        raise ControlError(f"get_stats: there is no '{field_}'; there are {known}")

    def get_status(self) -> int:
        """The status of the last solve."""
        return self.status

    def print_statistics(self) -> None:
        """Print the residuals of each iteration of the last solve."""
        print("\niter\tres_stat\tres_eq\t\tres_ineq\tres_comp\tqp_stat\tqp_iter\talpha")
        for row in self._rows:
            print(f"{row[0]:.0f}\t" + "\t".join(f"{value:e}" for value in row[1:5]) + f"\t{row[5]:.0f}\t{row[6]:.0f}\t{row[7]:e}")
        print()

    def store_iterate(self, filename: str = "", overwrite: bool = False, verbose: bool = True) -> None:
        """Write states and controls, stage by stage, to a JSON file."""
        path = Path(filename or f"{self.name}_iterate.json")
        if path.exists() and not overwrite:
            path = path.with_name(f"{path.stem}{time.strftime('%Y-%m-%d-%H-%M-%S')}.json")
        digits = len(str(self.N + 1))
        found = {f"x_{k:0{digits}d}": list(x) for k, x in enumerate(self._plan["states"])}
        found |= {f"u_{k:0{digits}d}": list(u) for k, u in enumerate(self._plan["controls"])}
        write_bytes(path, json.dumps(found, indent=1).encode())
        if verbose:
            print(f"stored current iterate in {path}")

    def load_iterate(self, filename: str, verbose: bool = True) -> None:
        """Read states and controls from a JSON file of store_iterate, or of acados."""
        try:
            found = json.loads(Path(filename).read_text())
            entries = [(key.rpartition("_"), value) for key, value in found.items()]
            for (field, _, stage), value in entries:
                if field in ("x", "u"):
                    self.set(int(stage), field, np.array(value, dtype=float))
        except (OSError, ValueError, AttributeError) as error:
            raise FileError(f"load_iterate: {filename} is not a file of an iterate: {error}") from None

    def _stage(self, stage: Any) -> int:
        if isinstance(stage, bool) or not isinstance(stage, (int, np.integer)) or not 0 <= stage <= self.N:
            raise ControlError(f"a stage is a whole number from 0 to N = {self.N}, got {stage!r:.40}")
        return int(stage)

    @classmethod
    def generate(cls, *_: Any, **__: Any) -> None:
        """Nothing: the first solve compiles."""

    build = generate


def _residuals(found: Any) -> np.ndarray:
    """Residuals among the outputs of an iteration; NaN for those that are not there."""
    return np.array([float(getattr(found, name, np.nan)) for name in RESIDUALS])


def _program(found: Any) -> tuple[float, float, float]:
    """(1 if the quadratic program of an iteration was not solved, else 0; its iterations; the step length)."""
    if hasattr(found, "qp_solved"):
        return 1.0 - float(found.qp_solved), float(found.qp_iterations), float(found.step_length)
    return float(found.status == STOPPED), float(found.iterations), 1.0
