"""The older simulator's interface: ten modes with their shapes and derivatives, precision, batches, elimination, PD, floor."""

from functools import cache

import numpy as np
import pytest
from markers import slow_except

import condyle as cd
from condyle.compat.diffne import DiffNERobotModel, DiffNESimulator, EndEffectorBounds, Mode
from condyle.robot.description import Description
from condyle.robot.parts import Y, box, joint, link, pose, rod, solid, sphere

DT = 0.004
CENTRAL = 1e-6  # relative to the largest entry, of central differences in float64
FINE = 1e-9  # the same, with results that are exact to 64 bits before they are rounded
SAME = 1e-9  # relative, of 64 and 128 bits
FORWARD = [mode for mode in Mode if not mode.gives_torque]


@cache
def description() -> Description:
    """A torso on a leg of two links with a round foot, and an arm that stands in the way."""
    torso, foot = box((0.3, 0.2, 0.1)), sphere(0.05, (0.0, 0.0, -0.3), name="foot")
    limb = rod((0.0, 0.0, 0.0), (0.0, 0.0, -0.3), 0.03)
    links = (
        link("torso", solid(4.0, torso)),
        link("thigh", solid(1.0, limb)),
        link("shin", solid(0.5, limb), [], [foot]),
        link("arm", solid(0.3, limb)),
    )
    joints = (
        joint("leg_hip", "revolute", "torso", "thigh", axis=Y, limits=2.0),
        joint("leg_knee", "revolute", "thigh", "shin", pose((0.0, 0.0, -0.3)), axis=Y, limits=2.0),
        joint("arm_shoulder", "revolute", "torso", "arm", pose((0.1, 0.0, 0.0)), axis=Y, limits=2.0),
    )
    return Description("hopper", links, joints)


def hopper() -> DiffNERobotModel:
    model = DiffNERobotModel(description(), base="planar")
    model.set_joint_angle("arm", 0.4)
    model.eliminate_joints(["arm"])
    return model


@cache
def simulator(mode: Mode, accuracy: int = 64, law: str = "round") -> DiffNESimulator:
    model = hopper()
    made = model.create_simulator(accuracy, mode, law=law, coef=1e5)
    made.set_PD_controller(100.0, 1.0)
    made.set_floor([0.0, 0.0, 1.0, 0.0], model.end_effectors("foot"))
    return made


def state(mode: Mode) -> np.ndarray:
    """A state with the foot a little less than 1 mm deep, sliding."""
    q, v = np.array([0.1, 0.649, 0.02, 0.03, -0.05]), np.array([0.2, -0.05, 0.1, -0.3, 0.2])
    if mode.gives_torque:
        return np.concatenate([q, v, [1.0, -2.0, 0.5, 3.0, -1.0]])
    before = v + np.array([0.01, 0.02, -0.01, 0.0, 0.03])
    return np.concatenate([q, v, before] if mode is Mode.BACKWARD_RK1F else [q, v])


TAU = np.array([0.0, 10.0, 0.3, -0.2, 0.4])


# the law of contact does not know the mode: one of each kind for the other law
OTHER_LAW = (Mode.FORWARD_RK1F, Mode.FORWARD_RK2I, Mode.BACKWARD_RK1F, Mode.INVERSE_I)


@pytest.mark.parametrize(
    ("mode", "law"),
    slow_except(
        [(mode, "round") for mode in Mode], [(mode, "round") for mode in Mode] + [(mode, "pyramid") for mode in OTHER_LAW]
    ),
)
def test_shapes_and_derivatives(mode: Mode, law: str) -> None:
    s, x = simulator(mode, law=law), state(mode)
    n, N = len(x), s.N
    assert n == len(mode.parts) * N
    out, by_x = s.simulate(DT, x, Dqdq=True)
    assert out.shape == (mode.size * N,) and by_x.shape == (mode.size * N, n)
    assert out.tobytes() == s.simulate(DT, x).tobytes()
    found = [(s.simulate(DT, x + d) - s.simulate(DT, x - d)) / 2e-7 for d in np.eye(n) * 1e-7]
    assert np.max(np.abs(np.array(found).T - by_x)) < CENTRAL * np.max(np.abs(by_x))
    if not mode.gives_torque:
        _, by_tau = s.simulate(DT, x, TAU, Dtau=True)
        assert by_tau.shape == (mode.size * N, N)
        found = [(s.simulate(DT, x, TAU + d) - s.simulate(DT, x, TAU - d)) / 2e-4 for d in np.eye(N) * 1e-4]
        assert np.max(np.abs(np.array(found).T - by_tau)) < 10.0 * CENTRAL * np.max(np.abs(by_tau))


@pytest.mark.parametrize("mode", [Mode.FORWARD_RK1F, Mode.INVERSE_I, Mode.FORWARD_LF, Mode.BACKWARD_RK1F, Mode.FORWARD_RK2I])
def test_64_and_128_bits_agree(mode: Mode) -> None:
    x = state(mode)
    for simple, fine in zip(*(simulator(mode, bits).simulate(DT, x, Dqdq=True) for bits in (64, 128)), strict=True):
        assert fine.dtype == np.float64
        assert np.max(np.abs(simple - fine)) < SAME * np.max(np.abs(fine))


def test_differences_are_better_at_128_bits() -> None:
    s, x = simulator(Mode.FORWARD_RK1F, 128), state(Mode.FORWARD_RK1F)
    _, by_x = s.simulate(DT, x, Dqdq=True)
    for k in (1, 6):
        # results are rounded to float64, so a larger step and Richardson's extrapolation
        d = np.eye(len(x))[k] * 2.0**-23
        once, twice = ((s.simulate(DT, x + m * d) - s.simulate(DT, x - m * d)) / (2.0 * m * 2.0**-23) for m in (1.0, 2.0))
        assert np.max(np.abs((4.0 * once - twice) / 3.0 - by_x[:, k])) < FINE * np.max(np.abs(by_x))


@pytest.mark.parametrize("mode", [Mode.INVERSE_I, Mode.INVERSE_LF])
def test_inverse_and_forward_undo_each_other(mode: Mode) -> None:
    x = state(mode)
    N = len(x) // 3
    tau = simulator(mode).simulate(DT, x)
    forward = Mode.FORWARD_I if mode is Mode.INVERSE_I else Mode.FORWARD_LF
    out = simulator(forward).simulate(DT, x[: 2 * N], tau)
    assert out[N:] == pytest.approx(x[2 * N :], abs=1e-7)
    assert out[:N] == pytest.approx(x[N : 2 * N] + (DT * x[2 * N :] if mode is Mode.INVERSE_I else 0.0), abs=1e-9)


def test_backward_residual_is_zero_at_the_inverse_torque() -> None:
    x = state(Mode.BACKWARD_RK1F)
    q1, v1, v = x.reshape(3, -1)
    tau = simulator(Mode.INVERSE_BACKWARD_RK1F).simulate(DT, np.concatenate([q1, v1, (v1 - v) / DT]))
    assert np.max(np.abs(simulator(Mode.BACKWARD_RK1F).simulate(DT, x, tau))) < 1e-8 * np.max(np.abs(tau))


def test_rates_make_the_step() -> None:
    x = state(Mode.FORWARD_I)
    rate = simulator(Mode.FORWARD_I).simulate(DT, x, TAU)
    assert simulator(Mode.FORWARD_RK1F).simulate(DT, x, TAU) == pytest.approx(x + DT * rate, rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("mode", [Mode.FORWARD_RK1F, Mode.INVERSE_LF])
def test_a_batch_has_the_bits_of_single_calls(mode: Mode) -> None:
    s = simulator(mode)
    s.set_threads(2)
    rng = np.random.default_rng(1)
    states = [state(mode) + rng.normal(0.0, 1e-3, len(state(mode))) for _ in range(37)]
    results, jacobians = s.simulate_batched(DT, states, Dqdq=True)
    for x, result, jacobian in zip(states, results, jacobians, strict=True):
        one, by_x = s.simulate(DT, x, Dqdq=True)
        assert result.tobytes() == one.tobytes() and jacobian.tobytes() == by_x.tobytes()


def test_elimination_keeps_the_map_to_the_full_robot() -> None:
    model = hopper()
    assert model.N == 5 and "arm_shoulder" not in model.joint_names and model.full_robot.nv == 6
    full = model.full(np.arange(10.0))
    assert full.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 0.4, 5.0, 6.0, 7.0, 8.0, 9.0, 0.0]
    model.set_joint_angle("arm", -0.1)
    assert model.full(np.zeros(10))[5] == -0.1
    # the same motion: the full robot with the arm held there needs the same torques in the remaining joints
    x = state(Mode.INVERSE_I)
    q, v, a = x.reshape(3, 5)
    tau = model.create_simulator(mode="INVERSE_LF").simulate(DT, x)
    combined = model.full_robot.inverse_dynamics(model.robot.full(q), model.robot.full_velocity(v), model.robot.full_velocity(a))
    assert tau == pytest.approx(combined[:5], rel=1e-12, abs=1e-12)
    model.eliminate_joints("leg", q=np.array([0.0, 0.0, 0.0, 0.1, 0.2, 0.9]))
    assert model.N == 3 and model.full(np.zeros(6)).tolist()[:6] == [0.0, 0.0, 0.0, 0.1, 0.2, -0.1]


def test_the_controller_gives_the_torque_of_the_state_passed_in() -> None:
    s, x = simulator(Mode.FORWARD_RK1F), state(Mode.FORWARD_RK1F)
    q, v = x[:5], x[5:]
    tau = np.where(np.arange(5) < 3, 0.0, -100.0 * q - 1.0 * v)
    assert s.simulate(DT, x) == pytest.approx(s.simulate(DT, x, tau), rel=1e-13, abs=1e-13)
    _, with_controller = s.simulate(DT, x, Dqdq=True)
    _, without, by_tau = s.simulate(DT, x, tau, Dqdq=True, Dtau=True)
    gains = np.diag([0.0, 0.0, 0.0, 1.0, 1.0])
    assert with_controller == pytest.approx(without - by_tau @ np.hstack([100.0 * gains, gains]), rel=1e-9, abs=1e-9)


def test_the_floor_holds() -> None:
    model = hopper()
    s = model.create_simulator()
    s.set_PD_controller(50.0, 0.3)
    falling = np.array([0.0, 0.7, 0.0, 0.0, 0.0, *np.zeros(5)])
    assert s.simulate(DT, falling)[6] == pytest.approx(-9.81 * DT, rel=1e-9)
    s.set_floor([0.0, 0.0, 2.0, -0.1], [EndEffectorBounds("shin", (0.0, 0.0, -0.3), 0.05)])  # z = 0.05
    x = falling
    for _ in range(25):
        x = s.simulate(DT, x)
    assert 0.69 < x[1] < 0.7
    s.set_terrain(cd.Slope(10.0), model.end_effectors("foot"))
    assert np.all(np.isfinite(s.simulate(DT, x)))


def test_what_is_refused() -> None:
    model = hopper()
    with pytest.raises(cd.SimulationError, match=r"quaternion.*euler"):
        DiffNERobotModel("fourlimb", base="free")
    with pytest.raises(cd.SimulationError, match=r"no mode 'FORWARD_RK3I'.*did you mean.*the modes are INVERSE_I, "):
        model.create_simulator(mode="FORWARD_RK3I")
    with pytest.raises(cd.RobotError, match=r"no joint 'leq_hip'.*did you mean 'leg_hip'"):
        model.eliminate_joints(["leq_hip"])
    s = model.create_simulator()
    with pytest.raises(cd.ShapeError, match=r"qdq, \(q, v\), must have the shape \(10,\), got \(9,\)"):
        s.simulate(DT, np.zeros(9))
    with pytest.raises(cd.ShapeError, match=r"tau must have the shape \(5,\)"):
        s.simulate(DT, np.zeros(10), np.zeros(4))
    with pytest.raises(cd.ShapeError, match="must be finite"):
        s.simulate(DT, np.full(10, np.nan))
    with pytest.raises(cd.SimulationError, match="dt must be greater than zero"):
        s.simulate(0.0, np.zeros(10))
    with pytest.raises(cd.SimulationError, match="gives the torque"):
        model.create_simulator(mode="INVERSE_I").simulate(DT, np.zeros(15), np.zeros(5))
    with pytest.raises(cd.SimulationError, match=r"no frame 'foott'"):
        s.set_floor([0, 0, 1, 0], [EndEffectorBounds("foott")])
