"""Scripts in acados' words reach the optimum that IPOPT finds, with CasADi's models and with NumPy's."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from condyle.compat.acados import AcadosModel, AcadosOcp, AcadosOcpSolver, AcadosSim, AcadosSimSolver
from condyle.compat.acados_integrators import collocation
from condyle.compat.casadi_functions import expression_function
from condyle.errors import ControlError, ShapeError
from condyle.tape.function import function

casadi = pytest.importorskip("casadi")

CART, BALL, GRAVITY, ROD = 1.0, 0.1, 9.81, 0.8
X0 = np.array([0.0, np.pi, 0.0, 0.0])
Q, R = np.diag([2e3, 2e3, 2e-2, 2e-2]), np.diag([2e-2])


def pendulum(x, u, sin=np.sin, cos=np.cos):
    """The derivative of cart position, angle, and their rates; the force acts on the cart."""
    s, c, rate = sin(x[1]), cos(x[1]), x[3]
    mass = CART + BALL - BALL * c * c
    cart = (-BALL * ROD * s * rate * rate + BALL * GRAVITY * c * s + u[0]) / mass
    angle = (-BALL * ROD * c * s * rate * rate + u[0] * c + (CART + BALL) * GRAVITY * s) / (ROD * mass)
    return [x[2], rate, cart, angle]


def numpy_model():
    model = AcadosModel()
    model.name, model.x, model.u = "pendulum", 4, 1
    model.f_expl_expr = lambda x, u: np.array(pendulum(x, u))
    return model


def casadi_model():
    model = AcadosModel()
    model.name, model.x, model.u = "pendulum", casadi.SX.sym("x", 4), casadi.SX.sym("F")
    model.xdot = casadi.SX.sym("xdot", 4)
    model.f_expl_expr = casadi.vertcat(*pendulum(model.x, model.u, casadi.sin, casadi.cos))
    model.f_impl_expr = model.xdot - model.f_expl_expr
    return model


def swing_up(model, kind="LINEAR_LS", N=20, tf=0.8, solver="SQP"):
    ocp = AcadosOcp()
    ocp.model = model
    ocp.solver_options.N_horizon, ocp.solver_options.tf = N, tf
    ocp.cost.cost_type = ocp.cost.cost_type_e = kind
    ocp.cost.W, ocp.cost.W_e = np.block([[Q, np.zeros((4, 1))], [np.zeros((1, 4)), R]]), Q
    if kind == "LINEAR_LS":
        ocp.cost.Vx, ocp.cost.Vu, ocp.cost.Vx_e = np.eye(5, 4), np.eye(5)[:, 4:], np.eye(4)
    else:
        ocp.model.cost_y_expr = casadi.vertcat(model.x, model.u)
        ocp.model.cost_y_expr_e = model.x
    ocp.cost.yref, ocp.cost.yref_e = np.zeros(5), np.zeros(4)
    ocp.constraints.idxbu = np.array([0])
    ocp.constraints.lbu, ocp.constraints.ubu = np.array([-80.0]), np.array([80.0])
    ocp.constraints.x0 = X0
    ocp.solver_options.qp_solver = "PARTIAL_CONDENSING_HPIPM"
    ocp.solver_options.hessian_approx, ocp.solver_options.integrator_type = "GAUSS_NEWTON", "ERK"
    ocp.solver_options.nlp_solver_type = solver
    return ocp


def rk4(f, x, u, h):
    k1 = f(x, u)
    k2 = f(x + h / 2 * k1, u)
    k3 = f(x + h / 2 * k2, u)
    k4 = f(x + h * k3, u)
    return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def ipopt(cost, w, constraints, guess):
    """The minimiser of a cost of w with (expression, low, high) constraints."""
    options = {"ipopt.print_level": 0, "print_time": False, "ipopt.tol": 1e-10, "ipopt.sb": "yes"}
    g = casadi.vertcat(*[each for each, _, _ in constraints])
    solver = casadi.nlpsol("s", "ipopt", {"x": w, "f": cost, "g": g}, options)
    low, high = ([b for each, *bounds in constraints for b in [bounds[side]] * each.shape[0]] for side in (0, 1))
    found = solver(x0=guess, lbg=low, ubg=high)
    return np.array(found["x"]).ravel(), float(found["f"])


@pytest.fixture(scope="module")
def solver():
    """A solver of the swing-up with a NumPy model, solved once."""
    made = AcadosOcpSolver(swing_up(numpy_model()), json_file="acados_ocp.json")
    assert made.solve() == 0
    return made


@pytest.fixture(scope="module")
def optimum():
    """(states, controls, cost) of the swing-up by IPOPT, from expressions of our own with the scaling by the time step."""
    N, h = 20, 0.04
    x, u = casadi.SX.sym("x", 4, N + 1), casadi.SX.sym("u", 1, N)

    def f(x, u):
        return casadi.vertcat(*pendulum(x, u, casadi.sin, casadi.cos))

    cost = 0.5 * casadi.bilin(Q, x[:, N])
    constraints = [(x[:, 0] - X0, 0, 0)]
    for k in range(N):
        cost += h * 0.5 * (casadi.bilin(Q, x[:, k]) + casadi.bilin(R, u[:, k]))
        constraints += [(x[:, k + 1] - rk4(f, x[:, k], u[:, k], h), 0, 0), (u[:, k], -80, 80)]
    guess = np.concatenate([np.tile(X0, N + 1), np.zeros(N)])
    w, value = ipopt(cost, casadi.vertcat(casadi.vec(x), casadi.vec(u)), constraints, guess)
    return SimpleNamespace(x=w[: 4 * N + 4].reshape(N + 1, 4), u=w[4 * N + 4 :].reshape(N, 1), cost=value)


def trajectory(solver):
    x = np.array([solver.get(k, "x") for k in range(solver.N + 1)])
    return x, np.array([solver.get(k, "u") for k in range(solver.N)])


# -- optimal control problems


def test_the_swing_up_is_the_one_of_ipopt(solver, optimum, capsys):
    x, u = trajectory(solver)
    assert np.abs(u - optimum.u).max() < 1e-4 and np.abs(x - optimum.x).max() < 1e-5
    assert solver.get_cost() == pytest.approx(optimum.cost, rel=1e-8)
    assert (solver.get_residuals() <= 1e-6).all()
    assert solver.acados_ocp.dims.nx == 4 and solver.get_stats("sqp_iter") < 20
    solver.print_statistics()
    assert capsys.readouterr().out.count("\n") == solver.get_stats("statistics").shape[1] + 3


def test_multipliers_satisfy_stationarity(solver):
    h = 0.04
    pi = np.array([solver.get(k, "pi") for k in (0, 7, 19)])
    x, u = trajectory(solver)
    np.testing.assert_allclose(pi[-1], Q @ x[-1], rtol=1e-6, atol=1e-6)
    integrator = AcadosSimSolver(solver.acados_ocp)
    for k, costate in zip((0, 7, 19), pi, strict=True):
        integrator.simulate(x=x[k], u=u[k])
        # of u, and in the first stage of x0, as in acados
        lower, upper = np.split(solver.get(k, "lam"), 2)
        assert (lower >= 0.0).all() and (upper >= 0.0).all() and len(lower) == (5 if k == 0 else 1)
        gradient = h * R @ u[k] + integrator.get("Su").T @ costate + upper[:1] - lower[:1]
        assert np.abs(gradient).max() < 1e-5
        if k == 0:
            gradient = h * Q @ x[k] + integrator.get("Sx").T @ costate + upper[1:] - lower[1:]
            assert np.abs(gradient).max() < 1e-9 * np.abs(costate).max()


def test_casadi_and_numpy_models_give_the_same_answer(solver):
    other = AcadosOcpSolver(swing_up(casadi_model(), "NONLINEAR_LS"))
    assert other.solve() == 0
    for a, b in zip(trajectory(solver), trajectory(other), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-7)


def test_exact_hessians_with_a_line_search_lead_to_the_same_optimum(solver):
    ocp = swing_up(numpy_model())
    ocp.solver_options.hessian_approx, ocp.solver_options.globalization = "EXACT", "MERIT_BACKTRACKING"
    other = AcadosOcpSolver(ocp)
    assert other.solve() == 0
    for a, b in zip(trajectory(solver), trajectory(other), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


def test_contradicting_bounds_are_reported_and_forgotten():
    ocp = swing_up(numpy_model(), solver="SQP_RTI")
    ocp.constraints.idxbx_e, ocp.constraints.lbx_e, ocp.constraints.ubx_e = np.array([0]), np.array([100.0]), np.array([101.0])
    solver = AcadosOcpSolver(ocp)
    assert solver.solve() == 4
    solver.reset()
    solver.constraints_set(20, "lbx", -5.0)
    solver.constraints_set(20, "ubx", 5.0)
    assert solver.solve() == 0


def test_real_time_iterations_in_closed_loop():
    ocp = swing_up(numpy_model(), solver="SQP_RTI")
    solver, integrator = AcadosOcpSolver(ocp), AcadosSimSolver(ocp)
    x = np.array([0.0, 0.6, 0.0, 0.0])
    for _ in range(10):
        solver.solve_for_x0(x)
    whole = AcadosOcpSolver(ocp)
    whole._kernels, whole._plan = solver._kernels, solver._plan
    for k in range(150):
        solver.options_set("rti_phase", 1)
        assert solver.solve() == 5
        spent = solver.get_stats("time_preparation")
        assert solver.get_stats("time_tot") == spent > 0.0
        solver.set(0, "lbx", x)
        solver.set(0, "ubx", x)
        if k == 1:  # set too late for phase 1, and used all the same
            solver.set(3, "yref", np.full(5, 0.1))
            whole.set(3, "yref", np.full(5, 0.1))
        solver.options_set("rti_phase", 2)
        assert solver.solve() == 0
        assert solver.get_stats("time_preparation") == spent and solver.get_stats("time_feedback") > 0.0
        if k < 3:  # both phases together are one iteration, with the same bits
            assert np.array_equal(whole.solve_for_x0(x), solver.get(0, "u"))
            assert np.array_equal(whole.get_flat("x"), solver.get_flat("x"))
        for each in (solver, whole):
            each.set(3, "yref", np.zeros(5))
        x = integrator.simulate(x=x, u=solver.get(0, "u"))
    assert np.abs(x[:2]).max() < 0.02 and (solver.get_residuals()[1:] < 1e-3).all()
    # a measurement that is not finite leaves the plan as it was, and is reported
    before = trajectory(solver)
    solver.constraints_set(0, "lbx", np.full(4, np.nan))
    assert solver.solve() == 1
    assert all((a == b).all() for a, b in zip(before, trajectory(solver), strict=True))


def test_references_and_weights_change_between_solves(solver):
    before = trajectory(solver)[0]
    for goal in (0.4, 0.0):
        for k in range(20):
            solver.cost_set(k, "yref", np.array([goal, 0.0, 0.0, 0.0, 0.0]))
        solver.set(20, "yref", np.array([goal, 0.0, 0.0, 0.0]))
        assert solver.solve() == 0
        after = trajectory(solver)[0]
        if goal:
            assert after[-1, 0] > before[-1, 0] + 0.1
    np.testing.assert_allclose(after, before, atol=1e-5)
    solver.cost_set(20, "W", 2.0 * Q)
    assert solver.solve() == 0
    assert np.abs(trajectory(solver)[0] - before).max() > 1e-4
    solver.cost_set(20, "W", Q)
    assert solver.solve() == 0


def test_iterates_are_stored_and_loaded(solver, tmp_path):
    path = tmp_path / "iterate.json"
    x, u = trajectory(solver)
    solver.store_iterate(str(path), verbose=False)
    assert len(json.loads(path.read_text())) == 41
    solver.reset()
    assert (solver.get(20, "x") == X0).all()
    solver.load_iterate(str(path), verbose=False)
    assert (trajectory(solver)[0] == x).all() and (trajectory(solver)[1] == u).all()
    assert solver.solve() == 0 and solver.get_stats("sqp_iter") <= 3


def test_a_moving_obstacle_with_soft_bounds_is_avoided_as_ipopt_does():
    N, h, near, weight = 12, 0.25, 0.6, np.array([1.0, 3.0])
    goal = np.array([3.0, 0.0, 0.0, 0.0])
    obstacles = np.array([[1.5 + 0.03 * k, 0.05] for k in range(N + 1)])

    def step(x, u):
        return [x[0] + h * x[2], x[1] + h * x[3], x[2] + h * u[0], x[3] + h * u[1]]

    def effort(x, u):
        return 0.5 * ((x[0] - 3.0) ** 2 + x[1] ** 2) + 0.05 * (u[0] ** 2 + u[1] ** 2) + 0.01 * u[0] ** 4

    def distance(x, p):
        return (x[0] - p[0]) ** 2 + (x[1] - p[1]) ** 2

    ocp = AcadosOcp()
    ocp.model.x, ocp.model.u, ocp.model.p, ocp.model.name = 4, 2, 2, "mover"
    ocp.model.disc_dyn_expr = lambda x, u: np.array(step(x, u))
    ocp.model.cost_expr_ext_cost = effort
    ocp.model.con_h_expr = lambda x, u, p: np.array([distance(x, p)])
    ocp.cost.cost_type, ocp.cost.cost_type_e = "EXTERNAL", "LINEAR_LS"
    ocp.cost.zl, ocp.cost.Zl, ocp.cost.zu, ocp.cost.Zu = weight[:1], weight[1:], np.zeros(1), np.ones(1)
    ocp.constraints.lh, ocp.constraints.uh, ocp.constraints.idxsh = np.array([near**2]), np.array([1e10]), np.array([0])
    ocp.constraints.idxbu, ocp.constraints.lbu, ocp.constraints.ubu = np.arange(2), -2.0 * np.ones(2), 2.0 * np.ones(2)
    ocp.constraints.C, ocp.constraints.D = np.array([[0.0, 0.0, 1.0, 1.0]]), np.zeros((1, 2))
    ocp.constraints.lg, ocp.constraints.ug = np.array([-1.6]), np.array([1.6])
    ocp.constraints.idxbx_e, ocp.constraints.lbx_e, ocp.constraints.ubx_e = np.arange(4), goal, goal
    ocp.constraints.x0, ocp.parameter_values = np.zeros(4), np.zeros(2)
    ocp.solver_options.N_horizon, ocp.solver_options.tf, ocp.solver_options.integrator_type = N, N * h, "DISCRETE"
    solver = AcadosOcpSolver(ocp)
    for k in range(N + 1):
        solver.set(k, "p", obstacles[k])
        solver.set(k, "x", np.array([3.0 * k / N, -0.5, 0.0, 0.0]))
    assert solver.solve() == 0
    found, controls = trajectory(solver)
    np.testing.assert_allclose(found[-1], goal, atol=1e-6)

    x, u, s = casadi.SX.sym("x", 4, N + 1), casadi.SX.sym("u", 2, N), casadi.SX.sym("s", N)
    cost, constraints = 0, [(x[:, 0], 0, 0), (x[:, N] - goal, 0, 0), (s, 0, np.inf), (casadi.vec(u), -2, 2)]
    for k in range(N):
        cost += h * effort(x[:, k], u[:, k])
        constraints += [(x[:, k + 1] - casadi.vertcat(*step(x[:, k], u[:, k])), 0, 0), (x[2, k] + x[3, k], -1.6, 1.6)]
        if k:
            cost += h * (weight[0] * s[k] + 0.5 * weight[1] * s[k] ** 2)
            constraints.append((distance(x[:, k], obstacles[k]) + s[k], near**2, np.inf))
    guess = np.concatenate([found.ravel(), controls.ravel(), np.zeros(N)])
    w, _ = ipopt(cost, casadi.vertcat(casadi.vec(x), casadi.vec(u), s), constraints, guess)
    np.testing.assert_allclose(found.ravel(), w[: found.size], atol=1e-4)
    slacks = np.array([solver.get(k, "sl")[0] for k in range(1, N)])
    np.testing.assert_allclose(slacks, w[-N + 1 :], atol=1e-4)
    assert slacks.max() > 1e-3, "the penalty is chosen such that a slack is used"


# -- integrators


def simulation(model, kind, stages, T=0.1):
    sim = AcadosSim()
    sim.model, sim.solver_options.T = model, T
    sim.solver_options.integrator_type, sim.solver_options.num_stages = kind, stages
    return AcadosSimSolver(sim)


def test_sensitivities_of_an_explicit_integrator_are_those_of_the_complex_step():
    x, u, h, d = np.array([0.1, 3.0, 0.2, -0.4]), np.array([3.0]), 0.1, 1e-30
    solver, other = simulation(numpy_model(), "ERK", 4), simulation(casadi_model(), "ERK", 4)
    following = solver.simulate(x=x, u=u)

    def f(x, u):
        return np.array(pendulum(x, u))

    np.testing.assert_allclose(following, rk4(f, x, u, h), rtol=1e-13)
    columns = [rk4(f, x + 1j * d * e, u + 0j, h).imag / d for e in np.eye(4)] + [rk4(f, x + 0j, u + 1j * d, h).imag / d]
    np.testing.assert_allclose(solver.get("S_forw"), np.array(columns).T, rtol=1e-12, atol=1e-13)
    assert solver.acados_sim.dims.nx == 4 and solver.get("Sx").shape == (4, 4) and solver.get("Su").shape == (4, 1)
    np.testing.assert_allclose(other.simulate(x=x, u=u), following, rtol=1e-13)
    np.testing.assert_allclose(other.get("S_forw"), solver.get("S_forw"), rtol=1e-12, atol=1e-14)


def test_an_implicit_integrator_is_of_order_twice_its_stages_where_the_system_is_stiff():
    model = AcadosModel()
    model.x, model.u, model.p = casadi.SX.sym("x", 2), casadi.SX.sym("u"), casadi.SX.sym("rate")
    model.xdot = casadi.SX.sym("xdot", 2)
    # the first state follows the second at once; the second decays with the time 1
    model.f_impl_expr = casadi.vertcat(model.xdot[0] / model.p - model.x[1] + model.x[0], model.xdot[1] + model.x[1] - model.u)
    sim = AcadosSim()
    sim.model, sim.parameter_values = model, np.array([1e4])
    sim.solver_options.T, sim.solver_options.integrator_type, sim.solver_options.num_stages = 0.5, "IRK", 2
    solver = AcadosSimSolver(sim)
    found = solver.simulate(x=np.ones(2), u=np.zeros(1))
    assert abs(found[1] - np.exp(-0.5)) < 1e-4  # order 4, one step of 0.5
    assert np.abs(found).max() < 2.0
    np.testing.assert_allclose(solver.get("Sx") @ np.ones(2), found, rtol=1e-9)  # linear


def test_nodes_of_implicit_integrators():
    """Known tables, and the conditions of order: the Radau IIA methods end at their last node."""
    A, b = collocation("GAUSS_RADAU_IIA", 2)
    np.testing.assert_allclose(A, [[5 / 12, -1 / 12], [3 / 4, 1 / 4]], atol=1e-14)
    A, _ = collocation("GAUSS_LEGENDRE", 2)
    np.testing.assert_allclose(A, [[1 / 4, 1 / 4 - 3**0.5 / 6], [1 / 4 + 3**0.5 / 6, 1 / 4]], atol=1e-14)
    for kind, order in (("GAUSS_LEGENDRE", 0), ("GAUSS_RADAU_IIA", 1)):
        for stages in range(1, 10):
            A, b = collocation(kind, stages)
            c = A.sum(axis=1)
            for k in range(1, 2 * stages - order + 1):
                assert abs(b @ c ** (k - 1) - 1 / k) < 1e-12, (kind, stages, k)
            assert order == 0 or np.allclose(A[-1], b, atol=1e-12)


def test_an_implicit_integrator_of_loops_is_the_same_one(monkeypatch):
    """With its equations solved by loops over tables: the same state and derivatives, and second ones."""
    found = []
    for limit in (32, 1):
        monkeypatch.setattr("condyle.compat.acados_integrators.STRAIGHT", limit)
        model = AcadosModel()
        model.x, model.u, model.p = 2, 1, 1
        model.f_expl_expr = lambda x, u, p: np.array([x[1], p[0] * np.sin(x[0]) + u[0] * np.cos(x[1])])
        sim = AcadosSim()
        sim.model, sim.parameter_values = model, np.array([-3.0])
        sim.solver_options.T, sim.solver_options.integrator_type, sim.solver_options.num_stages = 0.3, "IRK", 3
        solver = AcadosSimSolver(sim)
        arrays = {"x": np.array([0.7, -0.4]), "u": np.array([0.5]), "p": np.array([-3.0]), "T": 0.3}
        second = solver.function.jacobian("Su", ("x", "u", "p", "T")) if limit == 1 else None
        found.append(solver.function(**arrays))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    for name, by in zip(("x", "u", "p", "T"), second(**arrays), strict=True):
        d = 1e-6 * np.eye(1, max(np.size(arrays[name]), 1)).reshape(np.shape(arrays[name]))  # of the first entry
        up, down = (solver.function(**arrays | {name: arrays[name] + sign * d}).Su for sign in (1.0, -1.0))
        np.testing.assert_allclose(by.reshape(2, -1)[:, 0], (up - down)[:, 0] / 2e-6, rtol=1e-5, atol=1e-8)


# -- CasADi's expressions


def test_expressions_are_replayed():
    x, u = casadi.SX.sym("x", 3), casadi.SX.sym("u", 2)
    e = casadi.vertcat(
        casadi.sin(x[0]) * casadi.cos(x[1]), casadi.if_else(x[0] > u[0], x[1] ** 3, casadi.exp(-x[2])), casadi.fmod(x[0], 0.3),
        casadi.atan2(x[0], u[1]), casadi.sinh(x[1]) + casadi.asinh(x[2]), x[0] ** 2.5 + casadi.fabs(x[1]) ** u[0],
        casadi.norm_2(x), casadi.log1p(x[0]), casadi.sign(x[2]) * casadi.fmax(x[0], x[1]), casadi.logic_and(x[0] > 0, x[1] < 0),
    )  # fmt: skip
    replay = expression_function("model.f_expl_expr", [x, u], e)
    ours = function(lambda x, u: replay(x, u)[0], x=3, u=2).on("reference")
    rng = np.random.default_rng(0)
    values = np.abs(rng.normal(size=(20, 3))) * [1, 1, -1], rng.normal(size=(20, 2))
    theirs = casadi.Function("f", [x, u], [e])
    expected = [np.array(theirs(a, b)).ravel() for a, b in zip(*values, strict=True)]
    np.testing.assert_allclose(ours(*values), expected, rtol=1e-13, atol=1e-14)


# -- what is refused


def described(change):
    ocp = swing_up(numpy_model())
    change(ocp)
    return AcadosOcpSolver(ocp)


def assign(path, value):
    def change(ocp):
        *parts, name = path.split(".")
        target = ocp
        for part in parts:
            target = getattr(target, part)
        setattr(target, name, value)

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (assign("solver_options.nlp_solver_type", "DDP"), "solver_options.nlp_solver_type is one of SQP, SQP_RTI"),
        (assign("solver_options.N_horizn", 5), "did you mean 'N_horizon'"),
        (assign("solver_options.N_horizon", 0), "the number of intervals, 1 or more"),
        (assign("solver_options.tf", None), "solver_options.tf is needed"),
        (assign("solver_options.integrator_type", "DISCRETE"), "model.disc_dyn_expr is needed"),
        (assign("model.z", [1]), "model.z is not supported; eliminate algebraic variables"),
        (assign("cost.cost_type", "CONVEX_OVER_NONLINEAR"), "cost.cost_type is one of LINEAR_LS, NONLINEAR_LS, EXTERNAL"),
        (assign("cost.W", np.eye(3)), r"cost.W has shape \(3, 3\), expected \(5, 5\)"),
        (assign("constraints.idxbu", np.array([3])), "constraints.idxbu counts entries of u from 0"),
        (assign("constraints.idxbx_0", np.array([0])), "constraints.x0 is needed"),
        (assign("parameter_values", np.zeros(2)), "parameter_values has 2 entries, and model.p has 0"),
        (assign("model.f_expl_expr", 3.0), "model.f_expl_expr is a CasADi expression or a Python function"),
    ],
)
def test_descriptions_outside_of_the_subset_raise_with_a_sentence(change, words):
    with pytest.raises((ControlError, ShapeError), match=words) as raised:
        described(change)
    assert "\n" not in str(raised.value)


def test_calls_outside_of_the_subset_raise_with_a_sentence(solver):
    for call, words in (
        (lambda: solver.get(99, "x"), "from 0 to N = 20"),
        (lambda: solver.get(0, "sens_x"), "there are x, u, p"),
        (lambda: solver.set(0, "q", 1.0), "there is no 'q'"),
        (lambda: solver.cost_set(0, "Vx", np.eye(4)), "'Vx' is not supported"),
        (lambda: solver.constraints_set(3, "lbx", np.zeros(4)), "stage 3 has no bounds 'lbx'; it has lbu, ubu"),
        (lambda: solver.get_stats("speed"), "there is no 'speed'"),
        (lambda: solver.options_set("qp_solver", "X"), "cannot be changed"),
        (lambda: expression_function("model.f_expl_expr", [casadi.SX.sym("x")], casadi.SX.sym("q")), "contains q"),
    ):
        with pytest.raises(ControlError, match=words):
            call()
