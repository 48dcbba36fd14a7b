"""The description of a problem in acados' words: AcadosModel, AcadosOcp with its parts, AcadosSim.

Attributes have acados' names and meaning. Those that choose between algorithms which give the same answer (condensing, code
generation) are kept and have no effect; those that would change the answer and are not supported raise when they are set.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from condyle.apps.compat.casadi_functions import is_expression, size_of
from condyle.errors import ControlError
from condyle.robot.names import nearest

NO_BOUND = 1e10  # a bound of this size or more is none
SUFFIXES = ("", "_0", "_e")


def _each(*names: str, suffixes: tuple[str, ...] = SUFFIXES) -> dict[str, Any]:
    return {name + suffix: None for name in names for suffix in suffixes}


class Fields:
    """Attributes with known names. `unsupported`: {name: what to do instead}; `ignored`: kept, without effect."""

    title: ClassVar[str] = ""
    defaults: ClassVar[dict[str, Any]] = {}
    ignored: ClassVar[frozenset[str]] = frozenset()
    unsupported: ClassVar[dict[str, str]] = {}

    def __init__(self) -> None:
        for name, value in self.defaults.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(getattr(type(self), name, None), property):
            object.__setattr__(self, name, value)
            return
        if name in self.unsupported and not is_empty(value):
            raise ControlError(f"{self.title}.{name} is not supported; {self.unsupported[name]}")
        if name not in self.defaults and name not in self.ignored and name not in self.unsupported:
            raise ControlError(f"{self.title} has no '{name}'{nearest(name, [*self.defaults, *self.ignored])}")
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name in self.ignored or name in self.unsupported:
            return None
        raise AttributeError(f"{self.title} has no '{name}'")


def is_empty(value: Any) -> bool:
    """Whether a value is None, a false flag, or has no entries."""
    if value is None or value is False:
        return True
    if is_expression(value):
        return size_of(value) == 0
    return isinstance(value, (list, tuple, np.ndarray, str, dict)) and len(value) == 0


def count(value: Any) -> int:
    """The size of x, u or p: of CasADi's symbols, or a number, or as many as there are names."""
    if is_empty(value):
        return 0
    if is_expression(value):
        return size_of(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= 0:
        return int(value)
    if isinstance(value, (list, tuple)):
        return len(value)
    raise ControlError(f"model.x, u and p are CasADi symbols, or their sizes, or lists of names; got {value!r:.60}")


class AcadosModel(Fields):
    """Dynamics, costs and constraints as CasADi expressions, or as Python functions of NumPy arrays (x, u) or (x, u, p).

    Without CasADi, `x`, `u` and `p` are sizes, or lists of names.
    """

    title = "model"
    defaults: ClassVar[dict[str, Any]] = {
        "name": "model", "x": None, "xdot": None, "u": None, "p": None,
        "f_expl_expr": None, "f_impl_expr": None, "disc_dyn_expr": None,
        **_each("cost_y_expr", "cost_expr_ext_cost", "con_h_expr"),
    }  # fmt: skip
    ignored = frozenset({"x_labels", "u_labels", "t", "t_label", "p_labels", "cost_r_in_psi_expr", "dyn_ext_fun_type"})
    unsupported: ClassVar[dict[str, str]] = {
        "z": "eliminate algebraic variables, or compute them inside of f_expl_expr",
        "p_global": "use p, and set it in every stage",
        "con_phi_expr": "write the constraint as con_h_expr", "con_phi_expr_e": "write the constraint as con_h_expr_e",
        "con_r_expr": "write the constraint as con_h_expr", "con_r_expr_e": "write the constraint as con_h_expr_e",
        "cost_psi_expr": "write the cost as cost_expr_ext_cost", "cost_psi_expr_e": "write the cost as cost_expr_ext_cost_e",
        "cost_r_expr": "write the cost as cost_y_expr or cost_expr_ext_cost",
        "cost_expr_ext_cost_custom_hess": "leave it out: the exact Hessian of an external cost is used",
        "dyn_generic_source": "give disc_dyn_expr as a Python function",
    }  # fmt: skip

    def get_casadi_symbol(self) -> Any:
        """SX.sym or MX.sym, whichever the model uses."""
        return type(self.x).sym

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(nx, nu, np)."""
        return count(self.x), count(self.u), count(self.p)


class AcadosOcpDims(Fields):
    """Sizes; they are found from the description, so setting them is not needed."""

    title = "dims"
    defaults: ClassVar[dict[str, Any]] = {"N": None} | dict.fromkeys(
        ("nx", "nu", "np", "nz", "ny", "ny_0", "ny_e", "nbx", "nbx_0", "nbx_e", "nbu", "ng", "ng_e", "nh", "nh_0", "nh_e", "ns",
         "ns_0", "ns_e", "nsbx", "nsbx_e", "nsbu", "nsg", "nsg_e", "nsh", "nsh_0", "nsh_e", "nbxe_0", "np_global",
         "nphi", "nphi_e", "nr", "nr_e", "nsphi", "nsphi_e"), 0
    )  # fmt: skip


class AcadosOcpCost(Fields):
    """Weights and references; the cost of a stage is multiplied by its time step."""

    title = "cost"
    defaults: ClassVar[dict[str, Any]] = (
        _each("W", "Vx", "yref", "Zl", "Zu", "zl", "zu")
        | _each("Vu", suffixes=("", "_0"))
        | {"cost_type": "LINEAR_LS", "cost_type_0": None, "cost_type_e": "LINEAR_LS"}
    )
    ignored = frozenset(f"cost_ext_fun_type{suffix}" for suffix in SUFFIXES)
    unsupported: ClassVar[dict[str, str]] = {
        name: "eliminate algebraic variables" for name in ("Vz", "Vz_0", "Vz_e")
    } | dict.fromkeys((f"cost_function_ext_cost{s}" for s in SUFFIXES), "give model.cost_expr_ext_cost")


class AcadosOcpConstraints(Fields):
    """Bounds of a stage: on x (from the second node on, not at the last), on u, on C x + D u, and on con_h_expr."""

    title = "constraints"
    defaults: ClassVar[dict[str, Any]] = (
        _each("lbx", "ubx", "idxbx", "lh", "uh", "idxsh", "lsh", "ush")
        | _each("C", "lg", "ug", "idxsg", "lsg", "usg", "idxsbx", "lsbx", "usbx", suffixes=("", "_e"))
        | dict.fromkeys(("lbu", "ubu", "idxbu", "idxsbu", "lsbu", "usbu", "D", "idxbxe_0"))
        | {"has_x0": False, "constr_type": "BGH", "constr_type_0": "BGH", "constr_type_e": "BGH"}
    )
    unsupported: ClassVar[dict[str, str]] = dict.fromkeys(
        ("lphi", "uphi", "lphi_e", "uphi_e", "lphi_0", "uphi_0", "idxsphi", "idxsphi_e"), "use con_h_expr with lh and uh"
    )

    @property
    def x0(self) -> Any:
        """The initial state: all of lbx_0 = ubx_0."""
        return self.lbx_0 if self.has_x0 else None

    @x0.setter
    def x0(self, value: Any) -> None:
        value = np.asarray(value, dtype=float).ravel()
        index = np.arange(len(value))
        for name, each in {"lbx_0": value, "ubx_0": value, "idxbx_0": index, "idxbxe_0": index, "has_x0": True}.items():
            object.__setattr__(self, name, each)

    def remove_x0_elimination(self) -> None:
        """Nothing: the first state is given, and never a variable."""


def _selector(name: str, index: str) -> property:
    """J... as a matrix with one entry per row, which is the same as idx...; those of slacks (Js) have one per column."""
    slack = name.startswith("Js")

    def read(self: AcadosOcpConstraints) -> Any:
        return getattr(self, index)

    def write(self: AcadosOcpConstraints, value: Any) -> None:
        J = np.atleast_2d(np.asarray(value, dtype=float))
        J = J.T if slack else J
        if not (np.isin(J, (0.0, 1.0)).all() and (J.sum(axis=1) == 1.0).all()):
            raise ControlError(f"constraints.{name} has one entry 1 for each bound, and else zeros; give {index} instead")
        object.__setattr__(self, index, np.argmax(J, axis=1))

    return property(read, write, doc=f"{index} as a matrix.")


for _name in ("bx", "bx_0", "bx_e", "bu", "sbx", "sbx_e", "sbu", "sh", "sh_0", "sh_e", "sg", "sg_e"):
    setattr(AcadosOcpConstraints, f"J{_name}", _selector(f"J{_name}", f"idx{_name}"))


class AcadosOcpOptions(Fields):
    """Options of the solver and of the integrator."""

    title = "solver_options"
    defaults: ClassVar[dict[str, Any]] = {
        "N_horizon": None, "tf": None, "time_steps": None, "shooting_nodes": None, "cost_scaling": None, "Tsim": None,
        "nlp_solver_type": "SQP", "hessian_approx": "GAUSS_NEWTON", "integrator_type": "ERK",
        "sim_method_num_stages": 4, "sim_method_num_steps": 1, "sim_method_newton_iter": 3,
        "collocation_type": "GAUSS_LEGENDRE",
        "nlp_solver_max_iter": 100, "nlp_solver_tol_stat": 1e-6, "nlp_solver_tol_eq": 1e-6, "nlp_solver_tol_ineq": 1e-6,
        "nlp_solver_tol_comp": 1e-6, "tol": None, "qp_tol": None, "qp_solver_iter_max": 50, "levenberg_marquardt": 0.0,
        "globalization": "FIXED_STEP", "rti_phase": 0, "print_level": 0, "cost_discretization": "EULER",
        "qp_solver": "PARTIAL_CONDENSING_HPIPM", "regularize_method": None, "nlp_solver_step_length": 1.0,
    }  # fmt: skip
    ignored = frozenset((
        "qp_solver_cond_N", "qp_solver_cond_block_size", "qp_solver_warm_start", "qp_solver_tol_stat",
        "qp_solver_tol_eq", "qp_solver_tol_ineq", "qp_solver_tol_comp", "qp_solver_ric_alg", "qp_solver_cond_ric_alg",
        "qp_solver_mu0", "qp_solver_t0_init", "qp_print_level", "hpipm_mode", "nlp_solver_ext_qp_res",
        "rti_log_residuals", "num_threads_in_batch_solve", "rti_log_only_available_residuals", "sim_method_jac_reuse",
        "sim_method_newton_tol", "sim_method_detect_gnsf", "ext_fun_compile_flags",
        "ext_fun_expand_cost", "ext_fun_expand_dyn", "ext_fun_expand_constr", "ext_fun_expand_precompute",
        "model_external_shared_lib_dir", "model_external_shared_lib_name", "custom_update_filename",
        "custom_templates", "reg_epsilon", "line_search_use_sufficient_descent", "alpha_min", "alpha_reduction",
        "eps_sufficient_descent", "globalization_alpha_min", "globalization_alpha_reduction", "globalization_use_SOC",
        "globalization_full_step_dual", "full_step_dual", "log_primal_step_norm", "store_iterates", "timeout_max_time",
        "nlp_solver_warm_start_first_qp", "nlp_qp_tol_strategy", "compile_interface", "with_batch_functionality",
        "exact_hess_cost", "exact_hess_dyn", "exact_hess_constr", "fixed_hess",
    ))  # fmt: skip
    unsupported: ClassVar[dict[str, str]] = {
        "with_solution_sens_wrt_params": "differentiate the solver of condyle.ocp instead",
        "with_adaptive_levenberg_marquardt": "use levenberg_marquardt",
        "custom_update_copy": "write the update in Python",
    }  # fmt: skip
    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        "nlp_solver_type": ("SQP", "SQP_RTI"),
        "hessian_approx": ("GAUSS_NEWTON", "EXACT"),
        "integrator_type": ("ERK", "IRK", "DISCRETE"),
        "collocation_type": ("GAUSS_LEGENDRE", "GAUSS_RADAU_IIA"),
        "globalization": ("FIXED_STEP", "MERIT_BACKTRACKING"),
        "cost_discretization": ("EULER",),
        "qp_solver": (
            "PARTIAL_CONDENSING_HPIPM", "FULL_CONDENSING_HPIPM", "FULL_CONDENSING_QPOASES", "FULL_CONDENSING_DAQP",
            "PARTIAL_CONDENSING_OSQP", "PARTIAL_CONDENSING_QPDUNES", "PARTIAL_CONDENSING_CLARABEL", "PARTIAL_CONDENSING_HPMPC",
        ),
    }  # fmt: skip

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.choices and value not in self.choices[name]:
            raise ControlError(f"solver_options.{name} is one of {', '.join(self.choices[name])}; {value!r:.60} is not supported")
        super().__setattr__(name, value)


class AcadosOcp:
    """An optimal control problem: `model`, `cost`, `constraints`, `solver_options`, `dims`, `parameter_values`."""

    def __init__(self, acados_path: str = "", **_: Any) -> None:
        self.dims, self.model, self.cost = AcadosOcpDims(), AcadosModel(), AcadosOcpCost()
        self.constraints, self.solver_options = AcadosOcpConstraints(), AcadosOcpOptions()
        self.parameter_values: Any = np.zeros(0)
        self.name = ""
        self.code_export_directory = self.json_file = ""


class AcadosSimDims(Fields):
    """Sizes of a simulation."""

    title = "dims"
    defaults: ClassVar[dict[str, Any]] = {"nx": 0, "nu": 0, "np": 0, "nz": 0}


class AcadosSimOptions(Fields):
    """Options of an integrator."""

    title = "solver_options"
    defaults: ClassVar[dict[str, Any]] = {
        "T": None, "integrator_type": "ERK", "num_stages": 4, "num_steps": 1, "newton_iter": 3, "sens_forw": True,
        "sens_adj": False, "sens_algebraic": False, "sens_hess": False, "output_z": True, "collocation_type": "GAUSS_LEGENDRE",
    }  # fmt: skip
    ignored = frozenset({"newton_tol", "sim_method_jac_reuse", "ext_fun_compile_flags", "num_threads_in_batch_solve"})

    def __setattr__(self, name: str, value: Any) -> None:
        known = AcadosOcpOptions.choices.get(name, ()) if name in ("integrator_type", "collocation_type") else (value,)
        if value not in known:
            raise ControlError(f"solver_options.{name} is one of {', '.join(known)}; {value!r:.60} is not supported")
        super().__setattr__(name, value)


class AcadosSim:
    """A simulation over one interval T: `model`, `solver_options`, `dims`, `parameter_values`."""

    def __init__(self, acados_path: str = "", **_: Any) -> None:
        self.dims, self.model, self.solver_options = AcadosSimDims(), AcadosModel(), AcadosSimOptions()
        self.parameter_values: Any = np.zeros(0)
        self.code_export_directory = self.json_file = ""
