"""What acados' scripts rely on beside the optimum: status, counts and statistics, the cost, and the iterate that is kept."""

import numpy as np
import pytest

from condyle.compat.acados import AcadosModel, AcadosOcp, AcadosOcpSolver, AcadosSim, AcadosSimSolver
from condyle.errors import ControlError


def description(N=20, tf=2.0, solver="SQP", **options):
    """A double integrator that goes to rest, |u| <= 1."""
    ocp = AcadosOcp()
    ocp.model.x, ocp.model.u, ocp.model.name = 2, 1, "integrator"
    ocp.model.f_expl_expr = lambda x, u: np.array([x[1], u[0]])
    ocp.cost.Vx, ocp.cost.Vu, ocp.cost.Vx_e = np.eye(3, 2), np.eye(3)[:, 2:], np.eye(2)
    ocp.cost.W, ocp.cost.W_e = np.diag([1.0, 1.0, 0.1]), np.diag([10.0, 10.0])
    ocp.cost.yref, ocp.cost.yref_e = np.zeros(3), np.zeros(2)
    ocp.constraints.idxbu, ocp.constraints.lbu, ocp.constraints.ubu = np.array([0]), -np.ones(1), np.ones(1)
    ocp.constraints.x0 = np.array([2.0, 1.0])
    ocp.solver_options.N_horizon, ocp.solver_options.tf, ocp.solver_options.nlp_solver_type = N, tf, solver
    for name, value in options.items():
        setattr(ocp.solver_options, name, value)
    return ocp


def bounded(ocp, distance):
    """The description with |x| <= distance on the way and at the end."""
    c = ocp.constraints
    c.idxbx, c.lbx, c.ubx = np.arange(2), np.full(2, -distance), np.full(2, distance)
    c.idxbx_e, c.lbx_e, c.ubx_e = c.idxbx, c.lbx, c.ubx
    return ocp


def iterate(solver):
    return np.concatenate([solver.get_flat("x"), solver.get_flat("u")])


def cost_of(solver, h):
    x = solver.get_flat("x").reshape(solver.N + 1, -1)
    u = solver.get_flat("u").reshape(solver.N, -1)
    return 0.5 * h * (np.sum(x[:-1] ** 2) + 0.1 * np.sum(u**2)) + 5.0 * np.sum(x[-1] ** 2)


@pytest.mark.parametrize(
    "options",
    [{}, {"globalization": "MERIT_BACKTRACKING"}, {"hessian_approx": "EXACT"}, {"levenberg_marquardt": 0.0}],
    ids=["full steps", "merit", "exact", "no term"],
)
def test_a_linear_quadratic_problem_takes_one_iteration(options, capsys):
    """As acados counts: the program is solved once, and the next residuals are small. Statistics say what led to an iterate."""
    solver = AcadosOcpSolver(description(**options))
    assert solver.solve() == 0 and solver.get_stats("sqp_iter") == solver.get_stats("nlp_iter") == 1
    table = solver.get_stats("statistics")
    assert table.shape == (8, 2) and table[1:5, 0].max() > 0.1 and table[1:5, 1].max() < 1e-6
    assert solver.get_stats("qp_iter")[0] == 0 and 3 <= solver.get_stats("qp_iter")[1] <= 12
    np.testing.assert_array_equal(solver.get_stats("alpha"), [0.0, 1.0])
    solver.print_statistics()
    assert capsys.readouterr().out.count("\n") == 5
    assert solver.get_cost() == pytest.approx(cost_of(solver, 0.1), rel=1e-12)
    # the limit of iterations: as many steps, and no look at the last iterate
    solver.reset()
    solver.options_set("max_iter", 1)
    assert solver.solve() == 2 and solver.get_stats("sqp_iter") == 1


def test_the_cost_does_not_contain_the_levenberg_marquardt_term():
    """Nor do the multipliers: the term is of the step from the iterate."""
    plain = AcadosOcpSolver(description())
    solver = AcadosOcpSolver(description(levenberg_marquardt=0.3))
    assert plain.solve() == solver.solve() == 0
    assert solver.get_cost() == pytest.approx(cost_of(solver, 0.1), rel=1e-12)
    assert solver.get_cost() == pytest.approx(plain.get_cost(), rel=1e-6)
    for k in (0, 7):
        np.testing.assert_allclose(solver.get(k, "pi"), plain.get(k, "pi"), atol=1e-4)


@pytest.mark.parametrize("kind", ["SQP", "SQP_RTI"])
def test_bounds_far_away_are_as_good_as_none(kind):
    """1e9 and the like are the habit for no bound: no more iterations, and the same solution."""
    solver = AcadosOcpSolver(bounded(description(solver=kind), 10.0))
    free = AcadosOcpSolver(description(solver=kind))
    assert solver.solve() == free.solve() == 0
    counts = [solver.get_stats("qp_iter")[1]]
    for distance in (1e2, 1e4, 1e6, 1e9):
        solver.reset()
        for k in range(1, 21):
            solver.set(k, "lbx", np.full(2, -distance))
            solver.set(k, "ubx", np.full(2, distance))
        assert solver.solve() == 0
        counts.append(solver.get_stats("qp_iter")[1])
        np.testing.assert_allclose(iterate(solver), iterate(free), atol=1e-5)
    assert max(counts) <= 10 and np.ptp(counts) <= 1


@pytest.mark.parametrize("kind", ["SQP", "SQP_RTI"])
@pytest.mark.parametrize("globalization", ["FIXED_STEP", "MERIT_BACKTRACKING"])
def test_the_iterate_is_kept_where_a_program_has_no_solution(kind, globalization):
    """Status 4, and states and controls as they were; then the solver works again."""
    ocp = bounded(description(solver=kind, globalization=globalization, nlp_solver_max_iter=5), 50.0)
    solver = AcadosOcpSolver(ocp)
    assert solver.solve() == 0
    before = iterate(solver)
    for side, value in (("lbx", 30.0), ("ubx", 31.0)):
        solver.constraints_set(20, side, np.full(2, value))  # out of reach
    with pytest.raises(ControlError, match="status 4, the QP solver failed; the last plan is kept"):
        solver.solve_for_x0(np.array([1.9, 1.0]))
    assert solver.get_status() == 4
    np.testing.assert_array_equal(iterate(solver), before)
    for side, value in (("lbx", -50.0), ("ubx", 50.0)):
        solver.constraints_set(20, side, np.full(2, value))
    solver.solve_for_x0(np.array([1.9, 1.0]))
    assert solver.get_status() == 0


def test_a_line_search_takes_no_step_to_an_infinite_cost():
    """A logarithm that is infinite beyond x = 1: the steps stay before it, and the optimum is that of acados' own check."""
    ocp = description(N=20, tf=1.0, globalization="MERIT_BACKTRACKING", globalization_alpha_min=1e-4, tol=1e-4)

    def cost(x, u):
        return 0.5 * (2e3 * (x[0] - 2.0) ** 2 + 2e-2 * x[1] ** 2 + 2e-2 * u[0] ** 2) - np.log(np.maximum(1.0 - x[0], 0.0))

    ocp.model.cost_expr_ext_cost, ocp.model.cost_expr_ext_cost_e = cost, lambda x: 0.5 * x[1] ** 2
    ocp.cost.cost_type = ocp.cost.cost_type_e = "EXTERNAL"
    ocp.constraints.lbu, ocp.constraints.ubu, ocp.constraints.x0 = -80.0 * np.ones(1), 80.0 * np.ones(1), np.zeros(2)
    solver = AcadosOcpSolver(ocp)
    assert solver.solve() == 0
    x = solver.get_flat("x").reshape(21, 2)
    assert 0.99 < x[:20, 0].max() < 1.0 and np.isfinite(solver.get_cost())
    lengths = solver.get_stats("alpha")[1:]
    assert (lengths > 0.0).all() and lengths.min() < 1.0 == lengths.max() and (np.log2(lengths) % 1.0 == 0.0).all()
    assert len(set(solver.get_stats("qp_iter")[1:])) > 2


def stiff(steps=1, T=1.0):
    """xdot = -100 atan(50 x), whose implicit step Newton's method does not solve from far away."""
    sim = AcadosSim()
    sim.model = AcadosModel()
    sim.model.x, sim.model.u, sim.model.name = 1, 0, "stiff"
    sim.model.f_expl_expr = lambda x, u: -100.0 * np.arctan(50.0 * x)
    sim.solver_options.T, sim.solver_options.integrator_type, sim.solver_options.collocation_type = T, "IRK", "GAUSS_RADAU_IIA"
    sim.solver_options.num_stages, sim.solver_options.num_steps = 1, steps
    return AcadosSimSolver(sim)


def test_an_implicit_step_whose_equations_are_not_solved_is_reported():
    solver = stiff()
    solver.set("x", np.array([0.5]))
    assert solver.solve() == 1
    with pytest.raises(ControlError, match="not solved by Newton's method"):
        solver.simulate(x=np.array([0.5]))
    # close to the solution it is solved: x+ = x - 100 atan(50 x+) T
    following = solver.simulate(x=np.array([1e-3]))
    assert abs(following + 100.0 * np.arctan(50.0 * following) - 1e-3).max() < 1e-12
