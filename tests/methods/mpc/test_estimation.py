"""Moving-horizon estimation: Kalman filter and smoother, unknown parameters, and tracking without offset."""

from __future__ import annotations

import numpy as np
import pytest
from markers import slow_except

import condyle as cd
from condyle.errors import ControlError, ShapeError
from condyle.robot.description import Description
from condyle.robot.parts import body, link

A = np.array([[1.0, 0.1, 0.0], [-0.2, 0.9, 0.1], [0.0, 0.0, 0.95]])
B = np.array([[0.0], [0.1], [0.02]])
C = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
Q, R, P = np.array([0.02, 0.05, 0.03]), np.array([0.1, 0.2]), np.array([1.0, 0.5, 2.0])
START = np.array([0.5, -0.3, 1.0])
NOISE = {"process": {"x": Q}, "measurement": R, "prior": P}


@pytest.fixture(scope="module")
def linear():
    return cd.mpc.mhe(lambda x, u: A @ x + B @ u, N=4, x=3, u=1, measure=lambda x: C @ x, **NOISE)


@pytest.fixture(scope="module")
def record():
    """Inputs and measurements of a simulated run; some entries are not measured."""
    rng = np.random.default_rng(0)
    x, us, ys = START + P * rng.normal(size=3), rng.normal(size=(15, 1)), []
    for u in us:
        ys.append(C @ x + R * rng.normal(size=2))
        x = A @ x + B @ u + Q * rng.normal(size=3)
    ys = np.array(ys)
    ys[3, 1] = ys[7] = ys[8, 0] = np.nan
    return us, ys


def kalman(us, ys):
    """Means and covariances of the filter, and those predicted before each measurement."""
    x, V = START, np.diag(P**2)
    filtered, predicted = [], []
    for k, y in enumerate(ys):
        if k:
            x, V = A @ x + B @ us[k - 1], A @ V @ A.T + np.diag(Q**2)
        predicted.append((x, V))
        seen = np.isfinite(y)
        H = C[seen]
        K = V @ H.T @ np.linalg.inv(H @ V @ H.T + np.diag(R[seen] ** 2))
        x, V = x + K @ (y[seen] - H @ x), V - K @ H @ V
        filtered.append((x, V))
    return filtered, predicted


def smoothed(us, ys):
    """The smoother of Rauch, Tung and Striebel."""
    filtered, predicted = kalman(us, ys)
    x, _ = filtered[-1]
    out = [x]
    for (m, V), (ahead, V_ahead) in zip(filtered[-2::-1], predicted[:0:-1], strict=True):
        x = m + V @ A.T @ np.linalg.solve(V_ahead, x - ahead)
        out.append(x)
    return np.array(out[::-1])


def test_a_linear_estimate_is_that_of_the_kalman_filter(linear, record):
    us, ys = record
    memory = linear.start(START)
    for k, (x, _) in enumerate(kalman(us, ys)[0]):
        found = linear(ys[k], memory, us[k - 1] if k else None)
        memory = found.memory
        assert found.ok and found.count == min(k + 1, 5)
        np.testing.assert_allclose(found.x, x, rtol=0.0, atol=1e-9)


def test_a_window_from_the_start_is_the_smoother(linear, record):
    us, ys = record
    memory = linear.start(START)
    for k in range(5):
        found = linear(ys[k], memory, us[k - 1] if k else None)
        memory = found.memory
    np.testing.assert_allclose(found.states, smoothed(us[:5], ys[:5]), rtol=0.0, atol=1e-9)


def test_a_batch_has_the_bits_of_one(linear, record):
    us, ys = record
    one, many = linear.start(START), linear.start(np.tile(START, (3, 1)))
    for k in range(7):
        a, b = linear(ys[k], one, us[k - 1]), linear(np.tile(ys[k], (3, 1)), many, np.tile(us[k - 1], (3, 1)))
        one, many = a.memory, b.memory
    assert a.x.tobytes() == b.x[2].tobytes()


# -- parameters


def swing(x, u, p):
    return np.array([x[1], -p["stiffness"] * np.sin(x[0]) - 0.1 * x[1] + u[0]])


@pytest.fixture(scope="module")
def pendulum():
    """Angles of a pendulum whose stiffness is not known, and lies below 8."""
    return cd.mpc.mhe(
        swing, N=8, x={"angle": 1, "rate": 1}, u=1, dt=0.05, measure=lambda x: x[:1], estimate={"stiffness": 4.0},
        process={"angle": 1e-4, "rate": 1e-3}, measurement=1e-3, prior={"angle": 0.5, "rate": 0.5, "stiffness": 3.0},
        bounds={"stiffness": (1.0, 8.0)}, qp_tolerance=1e-8, qp_iterations=25,
    )  # fmt: skip


def estimates(estimator, stiffness, steps=60):
    plant = cd.ocp(swing, N=1, x=2, u=1, dt=0.05, cost=lambda x, u: u[0] ** 2, parameters={"stiffness": stiffness})
    step = cd.function(lambda x, u, s: plant.dynamics.step(x, u, {"stiffness": s}, 0.05), x=2, u=1, s=())
    x, memory, u = np.array([1.0, 0.0]), estimator.start([0.8, 0.2]), None
    for k in range(steps):
        found = estimator(x[:1], memory, u)
        assert found.ok
        memory, u = found.memory, np.array([np.sin(0.3 * k)])
        error = np.abs(found.x - x).max()
        x = step(x, u, stiffness)
    return found.parameters["stiffness"], error


def test_an_unknown_parameter_is_found(pendulum):
    stiffness, error = estimates(pendulum, 6.0)
    assert stiffness == pytest.approx(6.0, abs=1e-4) and error < 1e-5


def test_an_estimate_keeps_its_bounds(pendulum):
    stiffness, _ = estimates(pendulum, 9.0, steps=25)
    assert 7.9 < stiffness <= 8.0 + 1e-6


# -- offset-free tracking


def test_a_disturbance_estimate_removes_the_offset():
    def dynamics(x, u, p):
        return np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * (u[0] + p["d"])])

    def residual(x, u, r, p):
        # the control that holds the target balances the disturbance
        return np.array([x[0] - r[0], x[1], u[0] + p["d"]])

    controller = cd.ocp(
        dynamics, N=15, x=2, u=1, residual=residual, weights=[10.0, 1.0, 1.0], reference=[1.0], parameters={"d": 0.0},
        terminal_residual=lambda x, r: np.array([x[0] - r[0], x[1]]), terminal_weights=50.0, bounds={"u": 3.0},
    ).rti(qp_tolerance=1e-9, qp_iterations=25)  # fmt: skip
    estimator = cd.mpc.mhe(
        dynamics, N=5, x={"x": 2}, u=1, measure=lambda x: x[:1], estimate={"d": 0.0},
        process={"x": 1e-3, "d": 0.05}, measurement=1e-2, prior=1.0,
    )  # fmt: skip
    ends = {}
    for name in ("plain", "offset-free"):
        x, u, d = np.zeros(2), None, 0.0
        memory, plan = estimator.start(x), controller.start(x)
        for _ in range(150):
            found = estimator(x[:1], memory, u)
            memory = found.memory
            d = found.parameters["d"] if name == "offset-free" else 0.0
            solved = controller(x, plan, d=d)
            plan, u = solved.plan, solved.u
            x = np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * (u[0] + 0.7)])
        ends[name] = x[0]
    assert abs(ends["plain"] - 1.0) > 0.05
    assert abs(ends["offset-free"] - 1.0) < 1e-6


# -- attitude


def test_an_attitude_and_the_bias_of_its_gyroscope():
    def attitude(x, u, p):
        # body rates for 0.05 s, less the bias
        w = 0.05 * (u - p["bias"])
        return turned(x, w)

    def turned(q, d):
        a, b, c, s = (0.5 * d[0], 0.5 * d[1], 0.5 * d[2], 1.0)
        x, y, z, w = q
        vector = [w * a + x * s + y * c - z * b, w * b - x * c + y * s + z * a, w * c + x * b - y * a + z * s]
        new = np.array([*vector, w * s - x * a - y * b - z * c])
        return new / np.sqrt(new @ new)

    def axes(q):
        x, y, z, w = q
        up = np.array([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)])
        north = np.array([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)])
        return np.concatenate([up, north])

    estimator = cd.mpc.mhe(
        attitude, N=6, x={"q": cd.mpc.quaternion()}, u=3, measure=axes, estimate={"bias": np.zeros(3)},
        process={"q": 1e-3, "bias": 0.02}, measurement=1e-2, prior={"q": 1.0, "bias": 0.5}, steps=2,
    )  # fmt: skip
    q, bias = np.array([0.0, 0.0, np.sin(0.4), np.cos(0.4)]), np.array([0.1, -0.2, 0.3])
    memory, u = estimator.start([0.0, 0.0, 0.0, 1.0]), None
    for k in range(40):
        found = estimator(axes(q), memory, u)
        memory = found.memory
        rate = np.array([np.sin(0.2 * k), 0.5, np.cos(0.3 * k)])
        error = np.abs(found.x - q).max()
        u, q = rate + bias, turned(q, 0.05 * rate)
    np.testing.assert_allclose(found.parameters["bias"], bias, rtol=0.0, atol=1e-4)
    assert error < 1e-5 and abs(found.x @ found.x - 1.0) < 1e-12


# -- bad input


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"N": 0}, "a window has N intervals"),
        ({"steps": 0}, "steps must be a whole number"),
        ({"process": {"y": 1.0}}, "process: there is no part 'y'; the parts are x"),
        ({"process": -1.0}, "finite and not negative"),
        ({"prior": {}}, "prior: 'x' needs a standard deviation above zero"),
        ({"prior": [1.0, 2.0]}, "'x' takes one number or 3"),
        ({"measurement": 0.0}, "finite and above zero"),
        ({"measurement": [1.0, 1.0, 1.0]}, "one for each of the 2 outputs"),
        ({"estimate": {"x": 0.0}}, "'x' is a part of the state already"),
        ({"estimate": {"first": 0.0}}, "the name 'first' of a parameter is taken"),
        ({"estimate": {"d": np.zeros((2, 2))}}, "must be a number or a vector"),
        ({"dt": [0.1, 0.1]}, "all intervals of a window have one length"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(ControlError, match=words):
        cd.mpc.mhe(lambda x, u: A @ x + B @ u, **{"N": 4, "x": 3, "u": 1, "measure": lambda x: C @ x, **NOISE, **options})


def test_wrong_shapes_are_refused(linear):
    with pytest.raises(ShapeError, match=r"x has shape \(2,\), expected \(..., 3\)"):
        linear.start(np.zeros(2))
    with pytest.raises(ShapeError, match=r"y has shape \(3,\), expected \(..., 2\)"):
        linear(np.zeros(3), linear.start(START))


@pytest.mark.parametrize(
    "given", slow_except(["simulation", "loop"], ["simulation", "loop", "loop without references", "free body"])
)
def test_simulations_and_loops_are_dynamics(given):
    """Their inputs are torques and references, or there are none; quaternions are estimated."""
    world = cd.Simulation(cd.load("pendulum"), dt=0.02, ground=None)
    options = {"measure": lambda x: x[:1], "process": {"v": 1e-3}}
    if given == "simulation":
        dynamics, step, inputs = world, world.step, 1
    elif given == "loop":
        dynamics = cd.Loop(world, lambda x, target: 20.0 * (target - x.q) - 2.0 * x.v, target=1)
        step, inputs = lambda x, u: dynamics.step(x, {"target": u}), 1
    elif given == "loop without references":
        dynamics = cd.Loop(world, lambda x: -20.0 * x.q - 2.0 * x.v)
        step, inputs = lambda x, u: dynamics.step(x, {}), 0
    else:
        stick = Description("stick", (link("stick", body(1.0, com=(0.0, 0.0, 0.0), moments=(0.02, 0.03, 0.01))),), ())
        dynamics, inputs = cd.Simulation(cd.load(stick, base="free"), dt=0.02, ground=None), 0
        step, options["measure"] = lambda x, u: dynamics.step(x), lambda x: x[:7]
    estimator = cd.mpc.mhe(dynamics, N=6, measurement=1e-3, prior=1.0, steps=4, **options)
    x, first = dynamics.state(), dynamics.state()
    x[-6 if given == "free body" else 0 :] += 0.4 * np.arange(1, 7) if given == "free body" else 0.0
    x[0] += 0.3
    memory, u = estimator.start(first), None
    for k in range(60):
        found = estimator(options["measure"](x), memory, u)
        memory, u = found.memory, np.array([np.sin(0.1 * k)])[:inputs]
        error, x = np.abs(found.x - x).max(), step(x, u)
    assert found.ok and error < 1e-5
