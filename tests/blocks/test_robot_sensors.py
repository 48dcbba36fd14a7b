"""Sensors of a robot against closed forms and Pinocchio: IMU, encoders, frames, contact, force and torque, on small robots."""

from typing import Any
from zlib import crc32

import numpy as np
import pytest
from dynamics.random_robots import TOOL, pinocchio_model, random_model, random_state
from simulate.bodies import BOX, HALF, G, a_box, a_pendulum, lower_corners, simulation, upright

import condyle as cd
from condyle.blocks import IMU, ContactSensor, Encoders, ForceTorque, FramePose, FrameVelocity, StateSensor, common_deviations
from condyle.closed_loop.plant import Plant
from condyle.closed_loop.tick import Tick
from condyle.dynamics.rotations import quaternion_exp, quaternion_product
from condyle.robot.joints import rotation_of
from condyle.tape.array import array

EXACT = 1e-12  # the same formula in float64, relative to the largest entry
DT, SEED = 0.002, 3


def reading(sensor: Any, world: cd.Simulation, q: Any, v: Any, a: Any = None, forces: Any = None, **named: Any) -> dict[str, Any]:
    """What a sensor without state gives at a state of the robot, by the reference backend."""
    inner = world.world

    def sensed(q: Any, v: Any, a: Any, forces: Any) -> Any:
        states = {"acceleration": a, "contact_forces": forces}
        with Tick(DT, q[0] * 0.0, states=states).running() as tick:
            output, _ = sensor.step({}, Plant(tick, inner, q, v), **named)
        return {name: array(value) for name, value in output.items() if name != "valid"}

    given = [q, v, np.zeros(inner.nv) if a is None else a, np.zeros((1, 3)) if forces is None else forces]
    arrays = [np.asarray(each, dtype=float) for each in given]
    tape = cd.trace(sensed, **{name: x.shape for name, x in zip(("q", "v", "a", "forces"), arrays, strict=True)})
    found = cd.Function(tape, "reference")(*arrays)
    return dict(zip([port.name for port in tape.outputs], found, strict=True))


def close(a: Any, b: Any, tolerance: float = EXACT) -> bool:
    return bool(np.abs(a - b).max() <= tolerance * max(1.0, np.abs(b).max()))


# ---- the IMU


def test_the_imu_is_pinocchios_classical_acceleration() -> None:
    pin = pytest.importorskip("pinocchio")
    r, turn = np.array([0.3, -0.2, 0.1]), np.array([0.2, -0.4, 0.3])
    for seed in range(4):
        model = random_model(seed)
        q, v, a = random_state(model, np.random.default_rng(seed))
        twin = pinocchio_model(model)
        data = twin.createData()
        pin.forwardKinematics(twin, data, q, v, a)
        pin.updateFramePlacements(twin, data)
        f = twin.getFrameId(TOOL)
        classical = pin.getFrameClassicalAcceleration(twin, data, f, pin.ReferenceFrame.LOCAL)
        w = pin.getFrameVelocity(twin, data, f, pin.ReferenceFrame.LOCAL).angular
        expected = classical.linear - data.oMf[f].rotation.T @ np.array(model.gravity)
        world = cd.Simulation(cd.Robot(model), DT)
        found = reading(IMU(TOOL), world, q, v, a)
        assert close(found["acceleration"], expected) and close(found["rate"], w)
        # with a lever arm and a misalignment
        R = np.asarray(rotation_of(quaternion_exp(turn)), dtype=float)
        expected = R.T @ (expected + np.cross(classical.angular, r) + np.cross(w, np.cross(w, r)))
        found = reading(IMU(TOOL, position=r, misalignment=turn), world, q, v, a)
        assert close(found["acceleration"], expected) and close(found["rate"], R.T @ w)


def test_the_imu_of_a_pendulum() -> None:
    """At the end of the rod the specific force is g cos across, and w^2 l - g sin inwards."""
    angle, w, a = 0.4, 2.0, -0.7
    found = reading(IMU("rod", position=(1.0, 0.0, 0.0)), simulation(a_pendulum(), DT), [angle], [w], np.array([a]))
    # x of the rod points outwards, and down for positive angles
    assert close(found["acceleration"], np.array([-w * w - G * np.sin(angle), 0.0, -a + G * np.cos(angle)]))
    assert close(found["rate"], np.array([0.0, w, 0.0]))


# ---- force and torque


def test_force_and_torque_are_pinocchios_joint_forces() -> None:
    pin = pytest.importorskip("pinocchio")
    for seed in range(4):
        model = random_model(seed)
        q, v, a = random_state(model, np.random.default_rng(seed))
        twin = pinocchio_model(model)
        data = twin.createData()
        pin.rnea(twin, data, q, v, a)
        frame = twin.frames[twin.getFrameId(TOOL)]
        expected = -frame.placement.actInv(data.f[frame.parentJoint])
        if model.links[model.frame(TOOL).link].kind.nv == 6:
            continue
        found = reading(ForceTorque(TOOL), cd.Simulation(cd.Robot(model), DT), q, v, a)
        assert close(found["force"], expected.linear) and close(found["torque"], expected.angular)


def test_a_load_at_rest_reads_its_weight() -> None:
    found = reading(ForceTorque("rod"), simulation(a_pendulum(), DT), [0.0], [0.0])
    assert close(found["force"], np.array([0.0, 0.0, -G])) and close(found["torque"], np.array([0.0, G, 0.0]))
    # a wrench on the load is added to it, in world axes or in those of the frame
    push = {"rod": np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])}
    found = reading(ForceTorque("rod"), simulation(a_pendulum(), DT), [0.0], [0.0], wrenches=push)
    assert close(found["force"], np.array([1.0, 2.0, 3.0 - G])) and close(found["torque"], np.array([4.0, 5.0 + G, 6.0]))


def test_a_foot_reads_what_the_ground_exerts() -> None:
    robot = a_box(base="planar")
    world = simulation(robot, DT, cd.Plane(), lower_corners_of(robot))
    forces = np.array([[1.0, 0.0, 2.0], [0.0, 0.5, 3.0], [0.0, 0.0, 4.0], [0.0, 0.0, 5.0]])
    found = reading(ForceTorque("box"), world, [0.0, 1.0, 0.0], np.zeros(3), forces=forces)
    places = np.array([point.position for point in world.contact_points])
    assert close(found["force"], forces.sum(axis=0) - [0.0, 0.0, G])
    assert close(found["torque"], np.cross(places, forces).sum(axis=0))


def lower_corners_of(robot: cd.Robot) -> Any:
    from condyle.simulate.points import point_on

    a, b, c = (s / 2.0 for s in BOX)
    return tuple(
        point_on(robot.model, "box", (x, y, -c), name=f"corner{k}")
        for k, (x, y) in enumerate([(a, b), (a, -b), (-a, b), (-a, -b)])
    )


# ---- encoders


def test_encoders_count() -> None:
    world = simulation(a_pendulum(), DT)
    encoders = Encoders(["hinge"], counts=512, differences=True, every=2)
    true = Encoders(["hinge"], velocity_bias=0.5, name="true")
    loop = cd.Loop(world, lambda x: {"sink": encoders(x)["position"] + true(x)["velocity"]})
    steps = 64
    out = loop.rollout(
        loop.state(q=[0.3], v=[1.0]), None, steps, record=["encoders.position", "encoders.velocity", "true.velocity", "v", "q"]
    )
    q = np.concatenate([[0.3], out["q"][:-1, 0]])
    v = np.concatenate([[1.0], out["v"][:-1, 0]])
    counted = np.rint(q[::2] * 512 / (2 * np.pi)) * (2 * np.pi / 512)
    assert np.allclose(out["encoders.position"][::2, 0], counted, rtol=0.0, atol=1e-14)
    assert np.allclose(out["encoders.velocity"][::2, 0], np.diff(counted, prepend=counted[0]) / (2 * DT), rtol=0.0, atol=1e-9)
    assert np.array_equal(out["true.velocity"][:, 0], v + 0.5)


# ---- in a loop: a box in flight, and a box on the ground


@pytest.fixture(scope="module")
def falling() -> Any:
    """A box that spins in free fall, with an IMU in its centre and one outside."""
    centre, outside = IMU("box"), IMU("box", position=(0.1, 0.02, 0.03), name="outside")

    def sensing(x: Any) -> Any:
        return {"sink": centre(x)["rate"] + outside(x)["rate"]}

    loop = cd.Loop(simulation(a_box(), DT), sensing)
    x = loop.state(v=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    return loop.rollout(x, None, 100, record=["imu.acceleration", "imu.rate", "outside.acceleration", "v"])


def test_the_imu_reads_nothing_in_free_fall(falling: Any) -> None:
    assert np.abs(falling["imu.acceleration"][1:]).max() < 1e-9
    assert np.array_equal(falling["imu.rate"][1:], falling["v"][:-1, 3:])


def test_the_lever_arm_of_a_spinning_box(falling: Any) -> None:
    w, r = falling["v"][:, 3:], np.array([0.1, 0.02, 0.03])
    rate = np.diff(w, axis=0) / DT
    expected = np.cross(rate, r) + np.cross(w[1:], np.cross(w[1:], r))
    assert np.abs(falling["outside.acceleration"][2:] - expected[:-1]).max() < 1e-9


@pytest.fixture(scope="module")
def standing() -> Any:
    """A box at rest on the ground: the loop, its records, and the draws of the state's noise."""
    world = simulation(a_box(), DT, cd.Plane(0.8), lower_corners(BOX), recovery_time=None)
    sensors = [
        IMU("box"),
        ContactSensor(world.contact_names, threshold=0.5),
        FramePose("box", rotation_noise=0.1, position_bias=(0.1, 0.2, 0.3)),
        FrameVelocity("box", linear_resolution=0.5),
        StateSensor(world, **common_deviations(world), name="estimate"),
    ]

    def sensing(x: Any) -> Any:
        for sensor in sensors:
            sensor(x)
        return {}

    loop = cd.Loop(world, sensing)
    x = loop.state(q=upright(HALF - 1e-3))
    settled = loop.rollout(x, None, 500, seed=SEED, record=[]).x
    record = ["imu.acceleration", "contacts.force", "contacts.contact", "frame_pose.position", "frame_pose.rotation"]
    record += ["frame_velocity.linear", "estimate.q", "estimate.v", "q", "v"]
    return loop, loop.rollout(settled, None, 8, seed=SEED, record=record)


def test_the_imu_reads_gravity_at_rest(standing: Any) -> None:
    assert np.abs(standing[1]["imu.acceleration"] - [0.0, 0.0, G]).max() < 1e-9


def test_the_ground_carries_the_weight(standing: Any) -> None:
    force = standing[1]["contacts.force"]
    assert force.shape == (8, 4, 3) and np.abs(force.sum(axis=1) - [0.0, 0.0, G]).max() < 1e-9
    assert np.all(standing[1]["contacts.contact"] == 1.0)
    loop = standing[0]
    out = loop.rollout(loop.state(q=upright(1.0)), None, 2, record=["contacts.force", "contacts.contact"])
    assert not out["contacts.force"].any() and not out["contacts.contact"].any()


def test_pose_and_velocity_of_a_frame(standing: Any) -> None:
    out = standing[1]
    q = out["q"][:-1]
    assert np.abs(out["frame_pose.position"][1:] - q[:, :3] - [0.1, 0.2, 0.3]).max() < 1e-14
    ticks = np.arange(500, 508)
    e = cd.random.normal(SEED, 0, ticks, crc32(b"frame_pose"), shape=6)[:, 3:] * 0.1
    for k in range(7):
        expected = quaternion_product(q[k, 3:], quaternion_exp(e[k + 1]))
        assert np.abs(out["frame_pose.rotation"][k + 1] - expected).max() < 1e-12
    assert not out["frame_velocity.linear"].any()


def test_the_state_has_noise_on_its_manifold(standing: Any) -> None:
    loop, out = standing
    robot, q, v = loop.world.robot, out["q"][:-1], out["v"][:-1]
    draws = cd.random.normal(SEED, 0, np.arange(501, 508), crc32(b"estimate"), shape=12)
    deviations = np.concatenate(list(common_deviations(loop.world).values()))
    e = draws * deviations
    assert np.abs(robot.difference(q, out["estimate.q"][1:]) - e[:, :6]).max() < 1e-12
    assert np.abs(out["estimate.v"][1:] - v - e[:, 6:]).max() < 1e-14
    assert np.abs(np.linalg.norm(out["estimate.q"][:, 3:], axis=1) - 1.0).max() < 1e-15


# ---- sentences


@pytest.mark.parametrize(
    ("sensor", "sentence"),
    [
        (IMU("rot"), "has no frame 'rot' (did you mean 'rod'?)"),
        (Encoders(["hing"]), "has no joint 'hing' (did you mean 'hinge'?)"),
        (ContactSensor(["foot"]), "there is no contact point 'foot'; there are none"),
        (ForceTorque("stand"), "no joint carries frame 'stand'"),
    ],
)
def test_wrong_names_are_sentences(sensor: Any, sentence: str) -> None:
    with pytest.raises(cd.CondyleError) as error:
        cd.Loop(simulation(a_pendulum(), DT), lambda x: {"out": sensor(x)["valid"]})
    assert sentence in str(error.value) and "\n" not in str(error.value)


def test_a_wrong_reference_is_a_sentence() -> None:
    with pytest.raises(cd.ControlError, match=r"no reference 'locl' .did you mean 'local'"):
        FrameVelocity("rod", "locl")


# ---- robots with constraints, parameters and derivatives


def test_sensors_of_a_rolling_robot() -> None:
    """Frames and joints of a robot in reduced coordinates: the IMU differentiates what FrameVelocity gives."""
    dt = 1e-3
    robot = cd.load("wheeled_pendulum").roll("axle", 0.04)
    world = cd.Simulation(robot, dt, integrator="rk4", actuated=["axle"])
    sensors = [
        IMU("top"),
        FramePose("top"),
        FrameVelocity("top"),
        Encoders(["axle"]),
        StateSensor(world, **common_deviations(world), name="estimate"),
    ]

    def sensing(x: Any) -> Any:
        for sensor in sensors:
            sensor(x)
        return {}

    loop = cd.Loop(world, sensing)
    record = ["imu.acceleration", "frame_pose.rotation", "frame_velocity.linear", "encoders.position", "q", "v", "estimate.q"]
    out = loop.rollout(loop.state(q=[0.02, 0.25], v=[0.1, 0.5]), None, 40, record=record)
    q, _ = robot.lift(out["q"], out["v"])
    assert np.abs(out["encoders.position"][1:, 0] - q[:-1, robot.model.links[-1].q.start]).max() < 1e-12
    R = np.array([np.asarray(rotation_of(each), dtype=float) for each in out["frame_pose.rotation"]])
    change = np.diff(out["frame_velocity.linear"], axis=0) / dt + [0.0, 0.0, G]
    middle = 0.5 * (change[1:] + change[:-1])
    specific = np.einsum("kij,kj->ki", R, out["imu.acceleration"])
    # the mean acceleration of the joints, at the velocity at the end of the tick: right to first order in dt
    assert np.abs(specific[2:-1] - middle[1:]).max() < 30.0 * dt
    assert out["estimate.q"].shape == (40, 2) and np.abs(out["estimate.q"][1:] - out["q"][:-1]).max() < 0.1


@pytest.fixture(scope="module")
def feedback() -> Any:
    """A pendulum under feedback of a delayed encoder and an IMU."""
    encoders = Encoders(["hinge"], position_noise=0.01, delay=0.003, max_delay=0.008, dropout=0.0)
    imu = IMU("rod", acceleration_noise=0.01, position=(1.0, 0.0, 0.0))

    def control(x: Any, target: Any) -> Any:
        measured = encoders(x)
        return 5.0 * (target - measured["position"]) - 0.5 * measured["velocity"] + 0.1 * imu(x)["acceleration"][2:]

    return cd.Loop(simulation(a_pendulum(), DT), control, target=1)


def test_derivatives_of_a_tick_go_through_sensors(feedback: Any) -> None:
    x = feedback.rollout(feedback.state(q=[0.3], v=[0.2]), [0.5], 5, record=[]).x
    _, A, B = feedback.step(x, [0.5], derivatives=True)
    h = 1e-6
    columns = [(feedback.step(x + e, [0.5]) - feedback.step(x - e, [0.5])) / (2.0 * h) for e in np.eye(feedback.nx) * h]
    # flags and counts jump
    jumps = [k for name in ("tick", "encoders.started") for k in range(feedback.nx)[feedback.layout[name][0]]]
    smooth = np.setdiff1d(np.arange(feedback.nx), jumps)
    assert np.abs(A - np.array(columns).T)[np.ix_(smooth, smooth)].max() < 1e-7
    assert B.shape == (feedback.nx, 1) and B.any()


def test_gradients_of_a_rollout_go_through_sensors(feedback: Any) -> None:
    """By delay, bias, noise and mounting, against central differences."""
    x, steps = feedback.state(q=[0.3], v=[0.2]), 30
    given = {"encoders.delay": 0.0035, "encoders.position_noise": 0.02, "imu.misalignment": [0.1, 0.2, 0.3]}
    at = {name: np.array(value) for name, value in given.items()}

    def cost(**moved: np.ndarray) -> float:
        out = feedback.rollout(x, [0.5], steps, parameters=at | moved, record=["q"], seed=SEED)
        return float(out["q"].sum())

    out, pullback = feedback.vjp(x, [0.5], steps, wrt=list(at), parameters=at, record=["q"], seed=SEED)
    gradients = pullback(q=np.ones_like(out["q"]))
    h = 1e-6
    for name, value in at.items():
        directions = h * np.eye(value.size).reshape(-1, *value.shape)
        differences = [(cost(**{name: value + e}) - cost(**{name: value - e})) / (2.0 * h) for e in directions]
        assert np.allclose(np.ravel(gradients[name]), differences, rtol=1e-6, atol=1e-8), name


def test_other_parameters_do_not_compile_again(feedback: Any) -> None:
    x = np.tile(feedback.state(q=[0.3]), (4, 1))
    noise = np.array([0.0, 0.01, 0.02, 0.03])
    options: dict[str, Any] = {"record": ["q"], "seed": SEED}
    parameters = {"encoders.position_noise": noise, "encoders.delay": 0.001 * np.arange(4) * 0.9, "imu.acceleration_scale": 1.1}
    out = feedback.rollout(x, [0.5], 50, parameters=parameters, **options)
    count = len(feedback._functions)
    for k in range(4):
        one = {name: np.broadcast_to(value, 4)[k] for name, value in parameters.items()}
        alone = feedback.rollout(x[k], [0.5], 50, parameters=one, robots=k, **options)
        assert np.array_equal(alone["q"], out["q"][k])
    assert len(feedback._functions) == count


def test_lanes_steps_and_backends_have_the_same_bits(feedback: Any) -> None:
    """With noise, a delay between two samples, and dropouts."""
    x = feedback.state(q=np.linspace(-1.0, 1.0, 9)[:, None])
    options: dict[str, Any] = {"parameters": {"encoders.dropout": 0.2, "encoders.delay": 0.0025}, "seed": SEED}
    record = ["q", "encoders.position", "encoders.valid", "imu.acceleration", "u"]
    whole = feedback.rollout(x, [0.5], 6, record=record, **options)
    assert not whole["encoders.valid"].all() and whole["encoders.valid"].any()
    for other in ({"lanes": 1}, {"lanes": 2}, {"lanes": 8}, {"backend": "reference"}):
        found = feedback.rollout(x, [0.5], 6, record=record, **options, **other)
        assert all(np.array_equal(found[name], whole[name]) for name in record), other
    robot = x[4]
    for k in range(6):
        robot, found = feedback.step(robot, [0.5], robots=4, record=record, **options)
        assert all(np.array_equal(found[name], whole[name][4, k]) for name in record)


def test_single_precision_is_close(feedback: Any) -> None:
    x = feedback.state(q=[0.3], v=[0.2])
    exact, single = (feedback.rollout(start, [0.5], 100, seed=SEED, record=["q"])["q"] for start in (x, x.astype(np.float32)))
    assert single.dtype == np.float32 and np.abs(single - exact).max() < 1e-4


def test_a_reset_starts_sensors_anew() -> None:
    """After the reset of an episode a delay line has the new value only, and a random walk is back at zero."""
    late = Encoders(["hinge"], delay=3 * DT, name="late")
    walking = Encoders(["hinge"], position_walk=0.5, name="walking")
    episode = cd.Episode(time_limit=8 * DT, reset=lambda draw: {"q": draw.uniform(1.0, 2.0, 1)})

    def sensing(x: Any) -> Any:
        return {"late": late(x)["position"], "walking": walking(x)["position"]}

    loop = cd.Loop(simulation(a_pendulum(), DT), sensing, episode=episode)
    out = loop.rollout(loop.state(q=[0.3]), None, 12, record=["late", "walking", "q"])
    assert out["q"][7, 0] > 1.0 and out["late"][7, 0] < 0.31
    # the state after tick 7 is the new one, which tick 8 measures
    assert out["late"][8, 0] == out["late"][9, 0] == out["walking"][8, 0] == out["q"][7, 0]
