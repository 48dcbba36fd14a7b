"""Solvers as functions: same bits, two phases, derivatives, failure, batches, blocks, and wrong input."""

import ctypes

import gmpy2
import numpy as np
import pytest
from markers import slow_except
from methods.mpc.problems import PARTS, UPRIGHT, bounded, cart_pole, swing_up
from tape.test_export_c import COMPILERS, build

import condyle as cd
from condyle.errors import ControlError, ShapeError
from condyle.tape.export.c import c_source
from condyle.tape.passes import lower

X = np.array([0.1, 0.3, 0.1, 0.0])
WITH = {"N": 3, "x": 2, "u": 1, "residual": lambda x, u: np.concatenate([x, u])}


def step(x, u):
    return np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0]])


@pytest.fixture(scope="module")
def solver():
    """A real-time iteration with bounds of all kinds."""
    return bounded().rti(qp_iterations=40, qp_tolerance=1e-11)


@pytest.fixture(scope="module")
def plan(solver):
    """The plan after two iterations."""
    plan = solver.start(X)
    for _ in range(2):
        plan = solver(X, plan).plan
    return plan


def test_same_bits_everywhere(solver, plan):
    """One lane, full vectors and the reference compute the same bits, for one state and for a batch of different ones."""
    states = np.stack([X, X + 0.01, X * np.nan, X - 0.05])
    plans = [np.stack([plan[name]] * 4) for name in solver.plan_shapes]
    wanted = solver.function.on("reference")(states, *plans)
    for lanes in (1, 8):
        for a, b in zip(solver.function.on("cpu", lanes=lanes)(states, *plans), wanted, strict=True):
            assert np.array_equal(a, b, equal_nan=True)
    assert np.array_equal(wanted.status, [0.0, 0.0, 2.0, 0.0])


@pytest.mark.slow
def test_exported_c(solver, plan, tmp_path):
    """One file without allocation, the same bits, and few lines: a stage is written once."""
    source = c_source(lower(solver.function.tape, "f64"), name="rti")
    assert "malloc" not in source and source.count("\n") < 3000
    if not COMPILERS:
        pytest.skip("there is no C compiler")
    data = [solver.problem.data[p.name].default for p in solver.function.tape.inputs if p.parameter is not None]
    inputs = [np.ascontiguousarray(a, dtype=float) for a in (X, *[plan[name] for name in solver.plan_shapes], *data)]
    wanted = solver.function(X, *[plan[name] for name in solver.plan_shapes])
    for compiler, optimize in [(name, flags) for name in COMPILERS for flags in (["-O1"], ["-O3", "-march=native"])]:
        folder = tmp_path / f"{compiler}{optimize[0]}"
        folder.mkdir()
        library = build(source, folder, ["-std=c99", *optimize, "-Wall", "-Wextra", "-Werror", "-pedantic"], compiler)
        outputs = [np.empty(np.shape(a) or 1) for a in wanted]
        library.rti(*[ctypes.c_void_p(a.ctypes.data) for a in (*inputs, *outputs, np.empty(200_000))])
        for a, b in zip(outputs, wanted, strict=True):
            assert np.array_equal(a.reshape(np.shape(b)), b), compiler


def test_two_phases_are_one_iteration(solver, plan):
    prepare, feedback = solver.phases
    arrays = [plan[name] for name in solver.plan_shapes]
    found = feedback(X, *prepare(*arrays), *arrays)
    whole = solver(X, plan)
    assert np.array_equal(found.u, whole.u) and np.array_equal(found.states, whole.plan["states"])


@pytest.mark.slow
def test_derivatives_of_the_first_control(solver, plan):
    """By state, weights, reference and parameters, against differences in 400 bits: forward and backward."""
    arrays = [X, *[plan[name] for name in solver.plan_shapes]]
    names = ("x0", "weights", "reference", "gain")
    jacobian = solver.function.jacobian("u", names)
    found = dict(zip(jacobian.outputs, jacobian(*arrays), strict=True))
    exact = solver.function.on("mpfr:400")
    gradient = solver.function.vjp(names)
    weights = {f"{name}_weight": np.zeros(shape) for name, shape in solver.function.outputs.items()}
    backward = gradient(*arrays, **(weights | {"u_weight": np.ones(1)}))
    back = dict(zip(gradient.outputs, backward, strict=True))

    def moved(name, k, h):
        value = X if name == "x0" else solver.problem.data[name].default
        entries = np.array([gmpy2.mpfr(v) for v in value.ravel()], dtype=object)
        entries[k] = entries[k] + h
        if name == "x0":
            return exact(entries, *arrays[1:]).u[0]
        return exact(*arrays, **{name: entries.reshape(value.shape)}).u[0]

    with gmpy2.context(gmpy2.get_context(), precision=400):
        h = gmpy2.mpfr(2) ** -80
        for name, k in (("x0", 1), ("x0", 3), ("weights", 0), ("weights", 4), ("reference", 5), ("gain", 0)):
            difference = float((moved(name, k, h) - moved(name, k, -h)) / (2 * h))
            assert abs(found[f"du_d{name}"].ravel()[k] - difference) <= 1e-9 * (1.0 + abs(difference)), (name, k)
            assert abs(back[f"{name}_gradient"].ravel()[k] - difference) <= 1e-9 * (1.0 + abs(difference)), (name, k)


def test_derivatives_of_a_converged_solution():
    """Those of sequential quadratic programming use the exact Hessian: they are those of the nonlinear problem."""
    solver = bounded().sqp(tolerance=1e-11)
    found = solver(X)
    plan = found.plan
    assert np.array_equal(found.u, solver(X, solver.start(X)).u)
    jacobian = solver.function.jacobian("u", ("x0",))
    found = jacobian(X, *[plan[name] for name in solver.plan_shapes])
    for k in range(4):
        d = 1e-4 * np.eye(4)[k]
        difference = (solver(X + d, plan).u - solver(X - d, plan).u) / 2e-4
        np.testing.assert_allclose(np.ravel(found)[k], difference[0], rtol=1e-5)


def test_a_state_that_is_not_finite_keeps_the_plan(solver, plan):
    found = solver(X * np.nan, plan)
    assert found.status == 2 and not found.ok and "last plan is kept" in found.message
    assert np.array_equal(found.u, plan["controls"][0])
    for name, value in found.plan.items():
        assert np.array_equal(value, plan[name])


def test_hard_bounds_that_cannot_be_met_are_reported():
    problem = cd.ocp(step, bounds={"x": 0.5}, **WITH)
    solver = problem.rti()
    found = solver(np.array([0.0, 100.0]), solver.start(np.array([0.0, 100.0])))
    assert found.status != 0 and "soft" in found.message


def test_quaternions_change_in_their_tangent_space():
    """A rigid body turns to a target attitude; states stay unit quaternions, and both orders give the same motion."""
    angles = []
    for order, w in (("wxyz", 0), ("xyzw", 3)):
        vector = [k for k in range(4) if k != w]

        def derivative(x, u, w=w, vector=vector):
            q, rate = x[:4], x[4:]
            scalar, v = q[w], q[vector]
            turned = 0.5 * (scalar * rate + np.cross(v, rate))
            parts = [-0.5 * (v @ rate), *turned] if w == 0 else [*turned, -0.5 * (v @ rate)]
            return np.concatenate([np.array(parts), u])

        problem = cd.ocp(
            derivative,
            N=10,
            dt=0.1,
            x={"attitude": cd.mpc.quaternion(order), "rate": 3},
            u={"torque": 3},
            residual=lambda x, u, vector=vector: np.concatenate([3.0 * x[:4][vector], x[4:], u]),
            terminal_residual=lambda x, vector=vector: np.concatenate([200.0 * x[:4][vector], 20.0 * x[4:]]),
            bounds={"torque": 5.0},
        )
        assert (problem.nx, problem.ndx) == (7, 6)
        solver = problem.sqp()
        start = np.zeros(7)
        start[w], start[vector[2]] = np.cos(0.6), np.sin(0.6)
        found = solver(start, solver.start(start))
        assert found.status == 0, found.message
        np.testing.assert_allclose(np.linalg.norm(found.states[:, :4], axis=1), 1.0, atol=1e-4)
        assert abs(found.states[-1, vector[2]]) < 0.02
        angles.append(found.controls)
    np.testing.assert_allclose(angles[0], angles[1], atol=1e-9)


def test_a_simulation_as_dynamics():
    """A pendulum of the simulation swings up: its step, its derivatives and its configuration space."""
    robot = cd.load("pendulum")
    world = cd.Simulation(robot, dt=0.02, ground=None)
    problem = cd.ocp(
        world,
        N=40,
        residual=lambda x, u: np.concatenate([0.1 * x[1:], 0.05 * u]),
        terminal_residual=lambda x: np.array([10.0 * (x[0] - np.pi), x[1]]),
    )
    solver = problem.sqp(iterations=100)
    x = world.state()
    found = solver(x, solver.start(x))
    assert found.status == 0, found.message
    np.testing.assert_allclose(world.rollout(x, found.controls), found.states, atol=1e-7)


def test_a_closed_loop_as_dynamics():
    """A servo with a lag is part of what is optimised: its target is the control, its state a state."""

    class Servo(cd.Block):
        def __init__(self):
            super().__init__(name="servo")
            self.state("angle", np.zeros(1))

        def step(self, state, *inputs):
            angle = state["angle"] + (inputs[0] - state["angle"]) * self.dt / 0.1
            return angle, {"angle": angle}

    servo, world = Servo(), cd.Simulation(cd.load("pendulum"), dt=0.02, ground=None)
    loop = cd.Loop(world, lambda x, target: 20.0 * (servo(target) - x.q) - 2.0 * x.v, target=1)
    problem = cd.ocp(
        loop,
        N=30,
        residual=lambda x, u: 0.1 * u,
        terminal_residual=lambda x: np.array([30.0 * (x[0] - 0.5), 3.0 * x[1]]),
        bounds={"target": 2.0, "servo_angle": 1.5},
    )
    solver = problem.sqp()
    x = loop.state()
    found = solver(x, solver.start(x))
    assert found.status == 0, found.message
    np.testing.assert_allclose(loop.rollout(x, {"target": found.controls}).x, found.states[-1], atol=1e-7)
    assert abs(found.states[-1, 0] - 0.5) < 0.02


def test_a_solver_is_a_block_of_a_loop():
    """The plan is part of the loop's state; the loop follows its target, solving every 5th tick."""
    robot = cd.load("pendulum")
    world = cd.Simulation(robot, dt=0.01, ground=None)
    model = cd.Simulation(robot, dt=0.05, ground=None)
    problem = cd.ocp(
        model,
        N=10,
        residual=lambda x, u, r: np.concatenate([x[:1] - r, 0.1 * x[1:], 0.01 * u]),
        reference=1,
    )
    mpc = cd.mpc.SolverBlock(problem.rti(), world.state(), every=5)
    loop = cd.Loop(world, lambda x, target: mpc(np.concatenate([x.q, x.v]), reference=target), target=1)
    found = loop.rollout(loop.state(), {"target": np.full((300, 1), 0.4)})
    assert abs(found.x[0] - 0.4) < 0.15
    assert "mpc.controls" in loop.layout


@pytest.mark.parametrize(
    "change, words",
    [
        ({"N": 0}, "N intervals"),
        ({"N": 2.5}, "N intervals"),
        ({"x": 0}, "whole number from 1"),
        ({"x": {"a b": 2}}, "names like"),
        ({"bounds": {"u": (1.0, -1.0)}}, "above its upper bound"),
        ({"bounds": {"u": np.nan}}, "NaN"),
        ({"bounds": {"v": 1.0}}, "no part 'v'"),
        ({"bounds": {"u": "wide"}}, "takes a number"),
        ({"soft": {"u": 3.0}}, "no bounds on 'u'"),
        ({"bounds": {"u": 1.0}, "soft": {"u": -3.0}}, "positive and finite"),
        ({"weights": [1.0, 2.0]}, "one number per entry"),
        ({"weights": [1.0, np.inf, 1.0]}, "finite"),
        ({"residual": None, "weights": None}, "needs a cost"),
        ({"residual": lambda x: x}, "2 to 3 arguments"),
        ({"dt": -0.1}, "above zero"),
        ({"integrator": "rk4"}, "needs dt"),
        ({"dt": 0.1, "integrator": "rk9"}, "one of euler"),
        ({"substeps": 0}, "substeps"),
        ({"move_blocking": [1, 1]}, "N=3 in all"),
        ({"constraints": lambda x, u: {"far": x[0]}}, "no bounds"),
        ({"reference": "west"}, "size of r"),
        ({"u": {"q": cd.mpc.quaternion()}}, "plain numbers"),
    ],
)
def test_wrong_problems_are_explained(change, words):
    with pytest.raises((ControlError, ShapeError), match=words):
        cd.ocp(step, **{**WITH, **change})


def test_wrong_calls_are_explained(solver, plan):
    with pytest.raises(ShapeError, match=r"reference has shape \(3,\)"):
        solver(X, plan, reference=np.zeros(3))
    with pytest.raises(ControlError, match="no data 'mass'"):
        solver(X, plan, mass=3.0)
    with pytest.raises(ControlError, match="NaN"):
        solver(X, plan, weights=np.full(5, np.nan))
    with pytest.raises(ControlError, match="the plan has no 'states'"):
        solver(X, {})
    with pytest.raises(ShapeError, match="x0"):
        solver(np.zeros(3), plan)
    with pytest.raises(ShapeError, match="expected"):
        solver.start(np.zeros(3))
    with pytest.raises(ControlError, match="hessian"):
        swing_up().sqp(hessian="bfgs")
    with pytest.raises(ControlError, match="iterations"):
        swing_up().sqp(iterations=0)
    with pytest.raises(ControlError, match="must return the derivative"):
        problem = cd.ocp(lambda x, u: x[:2], dt=0.1, N=3, x=PARTS, u=1, residual=lambda x, u: x)
        problem.rti()(np.zeros(4), problem.rti().start(np.zeros(4)))
    assert cart_pole(UPRIGHT, np.zeros(1)).shape == (4,)


@pytest.mark.slow
def test_the_cost_is_that_of_the_plan():
    """Costs of stages and slacks at the new plan, with its derivatives; status and iterations are whole numbers."""
    problem = bounded()
    data = {"reference": np.tile([0.2, 0.0, 0.0, 0.0], (6, 1))}
    fine = problem.sqp(tolerance=1e-10)
    for solver in (problem.rti(qp_iterations=3), problem.sqp(iterations=2, line_search=1), fine):
        found = solver(X, **data)
        e = np.concatenate([found.states[:-1] - data["reference"][:-1], found.controls], axis=1)
        stages = 0.5 * np.sum(e**2 * problem.data["weights"].default)
        end = 0.5 * np.sum((found.states[-1] - data["reference"][-1]) ** 2 * problem.data["terminal_weights"].default)
        over = [np.maximum(np.abs(found.states[1:, k]) - b, 0.0) for k, b in ((2, 0.3), (3, 2.0))]
        slacks = np.sum(25.0 * over[0] ** 2) + np.sum(over[1] + 10.0 * over[1] ** 2)
        assert found.cost == pytest.approx(stages + end + slacks, rel=1e-12)
        assert type(found.status) is int and type(found.iterations) is int
        batch = solver(np.stack([X, X]), **data)
        assert batch.status.dtype == batch.iterations.dtype == int
    gradient = fine.function.jacobian("cost", "x0")
    at = [X, *[found.plan[name] for name in solver.plan_shapes]]
    d = 1e-4 * np.eye(4)[1]
    np.testing.assert_allclose(
        np.ravel(gradient(*at, **{"reference": data["reference"]}))[1],
        (fine(X + d, **data).cost - fine(X - d, **data).cost) / 2e-4,
        rtol=1e-5,
    )


@pytest.mark.parametrize("make", ["rti", "sqp", "ilqr", "mppi"])
def test_a_plan_starts_with_the_controls_of_all_stages(make):
    """One control for all stages, or all of them; of one problem or a batch, and never a batch by accident."""
    solver, U = getattr(cd.ocp(step, **WITH), make)(), np.array([[1.0], [2.0], [3.0]])
    assert np.array_equal(solver.start(np.zeros(2), u=U)["controls"], U)
    assert np.array_equal(solver.start(np.zeros(2), u=[2.0])["controls"], np.full((3, 1), 2.0))
    assert np.array_equal(solver.start(np.zeros((4, 2)), u=np.ones((4, 1)))["controls"], np.ones((4, 3, 1)))
    assert np.array_equal(solver.start(np.zeros((4, 2)), u=np.tile(U, (4, 1, 1)))["controls"], np.tile(U, (4, 1, 1)))
    for wrong in (np.zeros((5, 1)), np.zeros(2), np.zeros((4, 3, 1))):
        with pytest.raises(ShapeError, match="those of all stages"):
            solver.start(np.zeros(2), u=wrong)


@pytest.mark.parametrize("make", slow_except([{}], [{}, {"hessian": "exact"}, None]))
@pytest.mark.parametrize("bounds", [{}, {"u": 1.0}])
@pytest.mark.parametrize("where", ["cost", "dynamics"])
def test_numbers_that_are_not_finite_are_reported(make, bounds, where):
    """Where a cost has no gradient, or a step no value, the plan stays, and the status says so."""
    root = {"cost": None, "dynamics": None} | {where: lambda x: np.sqrt(x[0])}
    problem = cd.ocp(
        lambda x, u: step(x, u) + (root["dynamics"](x) if root["dynamics"] else 0.0), N=3, x=2, u=1, bounds=bounds,
        cost=lambda x, u: (root["cost"](x) if root["cost"] else 0.0) + x @ x + u @ u,
    )  # fmt: skip
    solver = problem.rti() if make is None else problem.sqp(**make)
    plan = solver.start(np.array([-1.0, 0.0]))
    found = solver(np.array([-1.0, 0.0]), plan)
    assert found.status == 2 and np.array_equal(found.controls, plan["controls"])
    found = solver(np.array([[1.0, 0.0], [-1.0, 0.0]]))
    assert found.status[0] < 2 == found.status[1]
