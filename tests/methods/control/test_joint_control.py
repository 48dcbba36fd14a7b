"""PID, computed torque and impedance of joints against closed forms, and what all controllers of joints share."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from markers import slow_except

import condyle as cd
from condyle.errors import ControlError
from condyle.methods.control.adaptive import AdaptiveControl, PassivityControl
from condyle.methods.control.joint_control import ComputedTorque, JointImpedance, JointPID
from condyle.methods.control.joint_gains import joint_inertia
from condyle.methods.control.lqr_control import LQRControl, TimeVaryingLQR
from condyle.methods.control.passivity import EnergyMeter
from condyle.methods.planning.profiles import Sample, quintic

READY = np.array([0.0, -np.pi / 2, np.pi / 2, -np.pi / 2, 0.0, 0.0])
AWAY = np.array([0.8, 0.5, -0.6, 0.4, 0.5, 0.7])  # rad
KP, KD = (1.98, 2.97, 1.49, 0.726, 1.86, 1.17), (2.36, 3.54, 0.788, 0.15, 0.0375, 0.0125)  # published for this arm
OMEGA, ZETA = 10.0, 0.7
GOAL = Sample(READY + AWAY, 0.0, 0.0)


@pytest.fixture(scope="module")
def arm() -> cd.Robot:
    return cd.load("ur3")


@pytest.fixture(scope="module")
def world(arm: cd.Robot) -> cd.Simulation:
    return cd.Simulation(arm, dt=1e-3, threads=1)


def rolled(
    world: cd.Simulation, control: Any, q0: np.ndarray, steps: int, record: tuple[str, ...] = ("q",), **options: Any
) -> Any:
    loop = cd.Loop(world, control)
    return loop.rollout(loop.state(q0), steps=steps, record=record, **options)


def following(law: Any, reference: Any) -> Any:
    """The function of a loop: along a motion, or to a sample."""
    return lambda x: law(x, reference.at(x.t) if hasattr(reference, "at") else reference)


# ---- computed torque: e'' + 2 zeta omega e' + omega^2 e = 0


def continuous(t: np.ndarray) -> np.ndarray:
    """e(t) / e(0) from rest."""
    damped = OMEGA * np.sqrt(1.0 - ZETA**2)
    return np.exp(-ZETA * OMEGA * t) * (np.cos(damped * t) + ZETA * OMEGA / damped * np.sin(damped * t))


def sampled(steps: int, h: float) -> np.ndarray:
    """e_k / e_0 from rest of  v1 = v + h (omega^2 e - 2 zeta omega v), e1 = e - h v1:  the k-th power by its eigenvalues."""
    kp, kd = OMEGA**2, 2.0 * ZETA * OMEGA
    powers, vectors = np.linalg.eig(np.array([[1.0 - h * h * kp, -h * (1.0 - h * kd)], [h * kp, 1.0 - h * kd]]))
    weights = vectors[0] * np.linalg.solve(vectors, [1.0, 0.0])
    return (weights * powers ** np.arange(1, steps + 1)[:, None]).sum(axis=1).real


def test_computed_torque_at_every_tick_is_the_sampled_linear_system(arm: cd.Robot) -> None:
    """What remains of the nonlinear arm is rounding: both are the same recursion."""
    h, steps = 1e-3, 500
    world = cd.Simulation(arm, dt=h, damping=False, threads=1)
    law = ComputedTorque(world, frequency=OMEGA, damping_ratio=ZETA)
    out = rolled(world, lambda x: law(x, GOAL), READY, steps)
    e = GOAL.position - out["q"]
    assert np.abs(e - sampled(steps, h)[:, None] * AWAY).max() < 1e-12
    # it is first order in h from the continuous response, whose half step of delay the integrator has
    t = h * np.arange(1, steps + 1)
    assert 1e-3 < np.abs(e - continuous(t)[:, None] * AWAY).max() < 4e-3


def acting(law: ComputedTorque, model: Any, q: Any, v: Any) -> Any:
    """The law as the force of a simulation."""
    return law.torque(q, v, GOAL)


def test_computed_torque_in_continuous_time_is_the_second_order_response(arm: cd.Robot) -> None:
    """The law within every stage of a Runge-Kutta step: of fourth order, and far below 1e-6 rad."""
    errors = []
    for h in (4e-3, 2e-3):
        law = ComputedTorque(cd.Simulation(arm, dt=h), frequency=OMEGA, damping_ratio=ZETA)
        world = cd.Simulation(arm, dt=h, integrator="rk4", force=partial(acting, law))
        steps = round(0.5 / h)
        xs = world.rollout(world.state(READY), np.zeros((steps, 6)))
        errors.append(np.abs(GOAL.position - xs[1:, :6] - continuous(h * np.arange(1, steps + 1))[:, None] * AWAY).max())
    assert errors[1] < 1e-8 and 14.0 < errors[0] / errors[1] < 18.0


def test_gains_of_computed_torque_are_the_same_either_way(world: cd.Simulation) -> None:
    by_frequency = ComputedTorque(world, frequency=8.0, damping_ratio=0.5)
    assert np.allclose(by_frequency.gains(), ComputedTorque(world, kp=64.0, kd=8.0).gains())
    assert np.allclose(ComputedTorque(world, kp=64.0).gains(), (64.0, 16.0))
    with pytest.raises(ControlError, match="and not both"):
        ComputedTorque(world, kp=4.0, frequency=2.0)
    with pytest.raises(ControlError, match="kd needs kp"):
        ComputedTorque(world, kd=4.0)


# ---- PID


def test_published_gains_work_on_the_arm(world: cd.Simulation) -> None:
    limits = dict.fromkeys(("integral_limit", "derivative_limit", "torque_limit"), 100.0)
    pid = JointPID(world, kp=KP, kd=KD, **limits)
    move = quintic(READY, READY + AWAY, 2.0)
    out = rolled(world, lambda x: pid(x, move.at(x.t)), READY, 6000)
    e = np.abs(out["q"] - move.at(1e-3 * np.arange(1, 6001)).position)
    assert e.max() < 0.07 and e[-1].max() < 2e-3
    own = JointPID(world)
    out = rolled(world, lambda x: own(x, move.at(x.t)), READY, 2500)
    e = np.abs(out["q"] - move.at(1e-3 * np.arange(1, 2501)).position)
    assert e.max() < 2e-3 and e[-1].max() < 1e-6


def test_pid_is_its_formula_with_all_clamps() -> None:
    """Against the same law in NumPy, with a filtered derivative, on a pendulum of two links."""
    robot = cd.load("double_pendulum")
    world = cd.Simulation(robot, dt=2e-3, threads=1)
    kp, ki, kd, lag, h = 60.0, 80.0, 12.0, 0.01, 2e-3
    pid = JointPID(
        world, kp=kp, ki=ki, kd=kd, derivative_lag=lag, integral_limit=4.0, derivative_limit=15.0, torque_limit=[40.0, 12.0]
    )
    goal = np.array([0.9, -0.4])
    out = rolled(world, lambda x: pid(x, Sample(goal, 0.0, 0.0)), np.zeros(2), 400, ("q", "v", "u", "joint_pid.integral"))
    q, v, integral, lagged = np.zeros(2), np.zeros(2), np.zeros(2), goal.copy()
    for k in range(400):
        e = goal - q
        change = (e - lagged) * (1.0 - np.exp(-h / lag))
        lagged = lagged + change
        d = np.clip(kd * change / h, -15.0, 15.0)
        wanted = kp * e + integral + d + robot.bias_forces(q, v)
        u = np.clip(wanted, [-40.0, -12.0], [40.0, 12.0])
        integral = np.clip(np.where(ki * e * (u - wanted) < 0.0, integral, integral + ki * e * h), -4.0, 4.0)
        np.testing.assert_allclose(out["u"][k], u, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(out["joint_pid.integral"][k], integral, rtol=1e-9, atol=1e-9)
        q, v = out["q"][k], out["v"][k]
    assert np.abs(out["u"]).max() == 40.0 and np.abs(out["joint_pid.integral"]).max() == 4.0


def test_anti_windup_takes_the_overshoot_away() -> None:
    """A long move at the torque limit: an integral that goes on growing there overshoots."""
    world = cd.Simulation(cd.load("double_pendulum"), dt=2e-3, threads=1)
    overshoot = {}
    for rule in ("clamping", "back_calculation", "none"):
        pid = JointPID(
            world, kp=400.0, ki=400.0, kd=120.0, torque_limit=35.0, integral_limit=1e6, anti_windup=rule, tracking_time=0.05
        )
        out = rolled(world, following(pid, Sample(np.array([1.5, 0.0]), 0.0, 0.0)), np.zeros(2), 3000)
        overshoot[rule] = float(out["q"][:, 0].max() - 1.5)
    assert max(overshoot["clamping"], overshoot["back_calculation"]) < 0.5 * overshoot["none"]


# ---- impedance


def test_a_push_deflects_joints_by_force_over_stiffness(arm: cd.Robot, world: cd.Simulation) -> None:
    stiffness = np.array([40.0, 60.0, 30.0, 10.0, 8.0, 5.0])
    law, force = JointImpedance(world, stiffness=stiffness), np.array([3.0, -2.0, 4.0, 0.1, 0.0, 0.2])
    out = rolled(world, lambda x: {"u": law(x, Sample(READY, 0.0, 0.0)), "wrenches": {"tool": force}}, READY, 8000, every=8000)
    q = out["q"][-1]
    torque = arm.jacobian(q, "tool").T @ force
    np.testing.assert_allclose(stiffness * (q - READY), torque, rtol=1e-6, atol=1e-9 * np.abs(torque).max())


@pytest.mark.parametrize("ratio", [0.3, 0.7])
def test_the_factorised_design_damps_every_mode_alike(arm: cd.Robot, world: cd.Simulation, ratio: float) -> None:
    law = JointImpedance(world, damping_ratio=ratio, design="factorised")
    q = READY + AWAY
    M, K = arm.mass_matrix(q), np.diag(law.stiffness.default)
    D = np.array([law.damping_force(q, e) for e in np.eye(6)]).T
    assert np.allclose(D, D.T, rtol=1e-10) and np.linalg.eigvalsh(D).min() > 0.0
    A = np.block([[np.zeros((6, 6)), np.eye(6)], [-np.linalg.solve(M, K), -np.linalg.solve(M, D)]])
    modes = np.linalg.eigvals(A)
    np.testing.assert_allclose(-modes.real / np.abs(modes), ratio, rtol=1e-8)
    diagonal = JointImpedance(world, damping_ratio=ratio)
    expected = 2.0 * ratio * np.sqrt(law.stiffness.default * np.diag(M))
    np.testing.assert_allclose(diagonal.damping_force(q, np.ones(6)), expected, rtol=1e-12)


# ---- passive controllers store no more than pushes put in


@pytest.mark.parametrize("kind", slow_except(["passivity"], ["impedance", "passivity"]))
def test_energy_stays_below_what_a_thousand_pushes_put_in(arm: cd.Robot, kind: str) -> None:
    h, count, rng = 2.5e-4, 1000, np.random.default_rng(1)
    world = cd.Simulation(arm, dt=h, damping=False, threads=1)
    push, meter = cd.blocks.WrenchPulse("tool", np.zeros(6), name="push"), EnergyMeter(6, name="meter")
    law: Any = JointImpedance(world) if kind == "impedance" else PassivityControl(world)

    def control(x: Any) -> dict[str, Any]:
        reference, pushed = Sample(READY, 0.0, 0.0), push(x)
        force = arm.jacobian(x.q, "tool").T @ pushed["wrenches"]["tool"]
        found, V = law(x, reference), law.energy(x.q, x.v, reference)
        if kind == "impedance":
            meter(V, force, x.v)
            return {"u": found, **pushed}
        meter(V, -force, found["s"])
        return {"u": found["u"], **pushed}

    loop = cd.Loop(world, control)
    pushes = {
        "push.wrench": rng.normal(size=(count, 6)) * [20.0, 20.0, 20.0, 2.0, 2.0, 2.0],
        "push.start": rng.uniform(0.0, 0.05, count),
        "push.duration": rng.uniform(0.02, 0.1, count),
    }
    x0 = np.repeat(loop.state(READY)[None], count, axis=0)
    out = loop.rollout(x0, steps=1200, every=1200, parameters=pushes, record=["meter.gain", "meter.input", "meter.stored"])
    gain, put_in = out["meter.gain"][:, -1], out["meter.input"][:, -1]
    assert put_in.min() > 1e-3 and np.median(put_in) > 0.5
    # of third order in h: 6e-5 at 1 kHz
    assert np.max(gain / put_in) < 1e-5
    assert np.all(out["meter.stored"][:, -1] < put_in)


# ---- all of them


def controllers(world: cd.Simulation) -> dict[str, Any]:
    move = quintic(np.array([0.1, -0.2]), np.array([1.2, 0.7]), 0.4)
    kinds: dict[str, Any] = {
        "pid": JointPID(world, ki=3.0),
        "lagged": JointPID(world, ki=3.0, derivative_lag=0.01, anti_windup="back_calculation"),
        "computed": ComputedTorque(world),
        "impedance": JointImpedance(world),
        "factorised": JointImpedance(world, design="factorised"),
        "passivity": PassivityControl(world),
        "adaptive": AdaptiveControl(world, estimate_friction=True, leakage=0.1),
        "lqr": LQRControl(world, [0.0, 0.0]),
        "varying": TimeVaryingLQR(world, move),
        "slow": TimeVaryingLQR(world, move, every=4),
    }
    return {name: cd.Loop(world, following(law, move)) for name, law in kinds.items()}


@pytest.fixture(scope="module")
def loops() -> dict[str, cd.Loop]:
    return controllers(cd.Simulation(cd.load("double_pendulum"), dt=2e-3, threads=1))


def states(loop: cd.Loop, count: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    return loop.state(rng.normal(size=(count, 2)), rng.normal(size=(count, 2)))


@pytest.mark.slow
def test_all_controllers_have_the_same_bits_alone_in_a_batch_and_in_vectors(loops: dict[str, cd.Loop]) -> None:
    for name, loop in loops.items():
        x = states(loop, 9)
        whole = loop.rollout(x, steps=24, record=["u"]).x
        assert np.all(np.isfinite(whole)) and not np.array_equal(whole[:, :4], x[:, :4]), name
        for lanes in (1, 4, 8):
            assert np.array_equal(loop.rollout(x, steps=24, record=["u"], lanes=lanes).x, whole), (name, lanes)
        assert np.array_equal(loop.rollout(x[5], steps=24, record=["u"]).x, whole[5]), name
        one = x[5]
        for _ in range(24):
            one = loop.step(one)
        assert np.array_equal(one, whole[5]), name


@pytest.mark.slow
def test_all_controllers_have_derivatives(loops: dict[str, cd.Loop]) -> None:
    """A of the closed loop against central differences."""
    for name, loop in loops.items():
        x, eps = states(loop, 1)[0], 1e-6
        if name == "lagged":
            x = loop.step(x)  # its filter has started
        A = np.asarray(loop.step(x, derivatives=True)[1])
        tick = loop.layout["tick"][0].start
        columns = [k for k in range(loop.nx) if k != tick]
        change = np.eye(loop.nx)[columns] * eps
        differences = (loop.step(x + change) - loop.step(x - change)).T / (2.0 * eps)
        np.testing.assert_allclose(A[:, columns], differences, rtol=1e-5, atol=1e-6 * np.abs(A).max(), err_msg=name)


def test_gains_are_parameters_of_the_loop(loops: dict[str, cd.Loop]) -> None:
    loop = loops["computed"]
    x = states(loop, 3)
    swept = loop.rollout(x, steps=10, parameters={"computed_torque.frequency": np.array([5.0, 10.0, 15.0])}).x
    for k, omega in enumerate((5.0, 10.0, 15.0)):
        alone = loop.rollout(x[k], steps=10, parameters={"computed_torque.frequency": omega}).x
        assert np.array_equal(alone, swept[k])
    assert not np.array_equal(swept[0, :2], loop.rollout(x[0], steps=10).x[:2])


def test_default_gains_follow_inertia_and_rate(world: cd.Simulation) -> None:
    fast, slow = JointPID(world), JointPID(world, every=10)
    assert np.all(fast.kp.default > 0.0) and np.all(slow.kp.default < fast.kp.default)
    inertia = joint_inertia(fast)
    np.testing.assert_allclose(fast.kd.default, 2.0 * np.sqrt(fast.kp.default * inertia), rtol=2e-2)


@pytest.mark.slow
def test_default_gains_move_a_panda_against_dry_friction() -> None:
    """1 N m in every joint, which would stop the wrists if nothing made up for it."""
    try:
        loaded = cd.load("panda").lock(["panda_finger"])
    except cd.CondyleError as error:
        pytest.skip(str(error))
    links = tuple(replace(link, friction=1.0) for link in loaded.model.links)
    robot = cd.Robot(replace(loaded.model, links=links))
    world = cd.Simulation(robot, dt=1e-3, threads=1)
    q0 = 0.5 * (robot.lower + robot.upper)
    move = quintic(q0, q0 + 0.3, 0.6)
    errors = {}
    for friction in (True, False):
        out = rolled(world, following(ComputedTorque(world, friction=friction), move), q0, 900)
        errors[friction] = np.abs(out["q"] - move.at(1e-3 * np.arange(1, 901)).position)
    assert errors[True].max() < 0.02 and errors[False].max() > 10.0 * errors[True].max()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda w: JointPID(w, kp=[1.0, 2.0], kd=1.0), "6 for the joints"),
        (lambda w: JointPID(w, anti_windup="magic"), "anti_windup must be one of clamping"),
        (lambda w: JointPID(w, kp=-1.0, kd=1.0), "at least 0"),
        (lambda w: JointImpedance(w, design="full"), "design must be diagonal or factorised"),
        (lambda w: JointImpedance(w, damping=1.0, damping_ratio=1.0), "not both"),
        (lambda w: JointImpedance(w, design="factorised", damping_ratio=np.ones(6)), "one damping_ratio"),
        (lambda w: cd.Loop(w, lambda x: ComputedTorque(w)(x, READY)), "follows a Sample"),
        (lambda w: cd.Loop(w, lambda x: ComputedTorque(w)(x, Sample(READY[:4], 0.0, 0.0))), "follows a Sample"),
    ],
)
def test_mistakes_are_named(world: cd.Simulation, make: Any, words: str) -> None:
    with pytest.raises(ControlError, match=words):
        make(world)
