"""The built-in robots have the published numbers: masses, lengths and composites, computed here from the descriptions alone."""

from math import acos, atan2, cos, pi, radians, sin, sqrt

import numpy as np
import pytest

from condyle.errors import RobotError
from condyle.multibody.robot import load
from condyle.robot import library
from condyle.robot.build import build
from condyle.robot.check import check
from condyle.robot.description import Description
from condyle.robot.library import birotor, crazyflie, fourlimb, pidog, tilting_rotors, two_wheeled, ur3, wheeled_pendulum
from condyle.robot.parts import pose, rod, solid, sphere
from condyle.simulate.simulation import Simulation

ROBOTS = [name.replace(":n", ":12") for name in library.names()]


# -- a reference in plain NumPy: 4 x 4 matrices, one joint after the other


def about(axis: np.ndarray, angle: float) -> np.ndarray:
    """exp([n] angle), by Rodrigues."""
    x, y, z = axis
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.asarray(np.eye(3) + sin(angle) * K + (1 - cos(angle)) * K @ K)


def homogeneous(R: np.ndarray, p: np.ndarray) -> np.ndarray:
    return np.block([[R, np.reshape(p, (3, 1))], [np.zeros((1, 3)), np.ones((1, 1))]])


def placed(robot: Description, q: dict[str, float] | None = None) -> dict[str, np.ndarray]:
    """The 4 x 4 pose of every link and frame, the root at the origin."""
    (root,) = {link.name for link in robot.links} - {joint.child for joint in robot.joints}
    T = {root: np.eye(4)}
    for joint in robot.joints:  # parents come first in our own descriptions
        x = (q or {}).get(joint.name, 0.0)
        slides = joint.kind == "prismatic"
        move = homogeneous(np.eye(3), joint.axis * x) if slides else homogeneous(about(joint.axis, x), np.zeros(3))
        T[joint.child] = T[joint.parent] @ homogeneous(joint.pose.R, joint.pose.p) @ move
    for frame in robot.frames:
        T[frame.name] = T[frame.link] @ homogeneous(frame.pose.R, frame.pose.p)
    return T


def composite(robot: Description) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre of mass and inertia about it, of the whole robot at zero."""
    T, parts = placed(robot), []
    for link in robot.links:
        if link.inertia is not None:
            R, p = T[link.name][:3, :3], T[link.name][:3, 3]
            parts.append((link.inertia.mass, R @ link.inertia.com + p, R @ link.inertia.I_com @ R.T))
    mass = sum(m for m, _, _ in parts)
    com = sum(m * c for m, c, _ in parts) / mass
    I = sum(J + m * ((c - com) @ (c - com) * np.eye(3) - np.outer(c - com, c - com)) for m, c, J in parts)
    return mass, com, I


# -- all of them


@pytest.mark.parametrize("name", ROBOTS)
def test_every_robot_is_sound_and_can_be_built(name: str) -> None:
    robot = library.description(name)
    findings = check(robot)
    assert findings.problems == []
    # the birotor's published gimbals are the one known flaw
    assert len(findings.notes) == (2 if name == "birotor" else 0)
    model = build(robot, library.base(name))
    assert model.nv > 0 and len(model.frames) >= len(robot.links)
    named = [x.name for x in robot.links] + [x.name for x in robot.joints] + [x.name for x in robot.frames]
    assert len(named) == len(set(named))
    assert all(link.visuals for link in robot.links)


def test_names() -> None:
    assert library.description("arm").name == "ur3"
    with pytest.raises(RobotError, match=r"no built-in robot 'birotr' \(did you mean 'birotor'\?\)"):
        library.description("birotr")
    with pytest.raises(RobotError, match=r"there are pendulum, .* and 3 more"):
        library.description("xyzzy")


@pytest.mark.parametrize("name", ["chain:0", "chain:", "chain:-1", "chain:1.5", "chain:999999999999", "chain:x", "chain:²"])
def test_a_chain_has_a_whole_number_of_links(name: str) -> None:
    with pytest.raises(RobotError, match=r"as in chain:12"):
        library.description(name)


@pytest.mark.parametrize("count", [1, 2, 12, 40])
def test_a_chain_of_n_links(count: int) -> None:
    robot = library.description(f"chain:{count}")
    mass, com, _ = composite(robot)
    assert len(robot.joints) == count and mass == pytest.approx(0.2 * count)
    np.testing.assert_allclose(placed(robot)["tip"][:3, 3], [0, 0, -0.2 * count], atol=1e-12)
    np.testing.assert_allclose(com, [0, 0, -0.1 * count], atol=1e-12)


def test_pendulums() -> None:
    mass, com, I = composite(library.description("pendulum"))
    assert mass == 1.0
    np.testing.assert_array_equal(com, [0, 0, -1])
    np.testing.assert_array_equal(I, np.zeros((3, 3)))
    mass, com, _ = composite(library.description("double_pendulum"))
    assert mass == 2.0 and com[2] == -1.5


def test_cartpole() -> None:
    robot = library.description("cartpole")
    T = placed(robot, {"slide": 0.5, "hinge": pi / 2})
    np.testing.assert_allclose(T["tip"][:3, 3], [1.5, 0, 0], atol=1e-12)
    assert composite(robot)[0] == pytest.approx(1.1)


# -- the birotor


def test_birotor_composite() -> None:
    robot = library.description("birotor")
    mass, com, I = composite(robot)
    assert mass == pytest.approx(1.444422, abs=1e-9)
    np.testing.assert_allclose(com, [0, 0, -0.069980], atol=5e-7)
    np.testing.assert_allclose(np.diag(I), [0.055430, 0.017874, 0.067852], atol=5e-7)
    T = placed(robot)
    for name, side in (("thrust_1", +1), ("thrust_2", -1)):
        np.testing.assert_allclose(T[name][:3, 3] - com, [0, side * 0.2375, 0.12098], atol=5e-6)
        np.testing.assert_allclose(T[name][:3, 2], [0, 0, 1], atol=1e-12)
    assert len(robot.links) == 3 and build(robot, "free").nv == 8


def test_birotor_hover() -> None:
    mass = composite(library.description("birotor"))[0]
    assert mass * birotor.CONTROLLER_GRAVITY / 2 == pytest.approx(7.0762, abs=5e-5)
    # published for the vehicle without its virtual root of 1e-5 kg
    assert (mass - 1e-5) * 9.81 / 2 == pytest.approx(7.0848, abs=5e-5)
    assert birotor.THRUST[0] < 7.08 < birotor.THRUST[1]


def test_birotor_tilts_about_plus_and_minus_y() -> None:
    """Thrust directions in the body are Rz(atan2(p)) Rx(a) z."""
    robot, a = library.description("birotor"), 0.3
    T = placed(robot, {"tilt_1": a, "tilt_2": a})
    np.testing.assert_allclose(T["thrust_1"][:3, 2], [sin(a), 0, cos(a)], atol=1e-12)
    np.testing.assert_allclose(T["thrust_2"][:3, 2], [-sin(a), 0, cos(a)], atol=1e-12)
    for joint in robot.joints:
        limits = joint.limits
        assert (limits.lower, limits.upper, limits.effort, limits.velocity, joint.damping) == (-1.57, 1.57, 6.6, 3.0, 0.8)


# -- the arm


def test_ur3_reach() -> None:
    robot = library.description("ur3")
    np.testing.assert_allclose(placed(robot)["tool"][:3, 3], [0.4569, 0.19425, 0.06655], atol=1e-12)
    assert composite(robot)[0] == pytest.approx(10.63)
    # the ready pose: upper arm up, forearm forward, the last wrist link further forward, the tool's z axis to the left
    ready = dict(zip([joint.name for joint in robot.joints], ur3.READY, strict=True))
    T = placed(robot, ready)
    shoulder, elbow, wrist = (T[name][:3, 3] for name in ("lift", "elbow", "wrist_1"))
    np.testing.assert_allclose(elbow - shoulder, [0, -0.0925, 0.24365], atol=1e-12)
    np.testing.assert_allclose(wrist - elbow, [0.21325, 0, 0], atol=1e-12)
    tool = T["tool"]
    np.testing.assert_allclose(tool[:3, 3], [0.21325 + 0.08535, 0.19425, 0.1519 + 0.24365], atol=1e-12)
    np.testing.assert_allclose(tool[:3, 2], [0, 1, 0], atol=1e-12)


def test_ur3_moments_are_those_of_cylinders() -> None:
    lengths = {"pan": 0.178, "lift": 0.24365, "elbow": 0.21325, "wrist_1": 0.12, "wrist_2": 0.12, "wrist_3": 0.12, "base": 0.038}
    for link in library.description("ur3").links:
        assert link.inertia is not None
        across = link.inertia.mass * (3 * 0.075**2 + lengths[link.name] ** 2) / 12
        along = link.inertia.mass * 0.075**2 / 2
        np.testing.assert_allclose(np.diag(link.inertia.I_com), [across, across, along], rtol=1e-4)


def test_ur3_limits() -> None:
    joints = library.description("ur3").joints
    assert [joint.limits.effort for joint in joints] == [330, 330, 150, 54, 54, 54]
    assert [joint.limits.velocity for joint in joints] == [2.16, 2.16, 3.15, 3.2, 3.2, 3.2]
    assert [joint.limits.upper for joint in joints] == [2 * pi, 2 * pi, pi, 2 * pi, 2 * pi, 2 * pi]
    assert all(joint.damping == 0.01 for joint in joints)


# -- the wheeled pendulum


def test_wheeled_pendulum() -> None:
    robot = library.description("wheeled_pendulum")
    body, wheel = (link.inertia for link in robot.links)
    assert body is not None and wheel is not None
    np.testing.assert_allclose(body.com, [0, 0, -0.1])
    np.testing.assert_allclose(body.I_com, np.diag([0.01, 0.01, 0.001]), atol=1e-15)
    np.testing.assert_allclose(wheel.I_com, 0.5 * 0.04**2 * np.diag([0.25, 0.5, 0.25]), atol=1e-18)
    np.testing.assert_array_equal(placed(robot)["wheel"][:3, 3], [0, 0, -0.2])
    assert library.base("wheeled_pendulum") == "planar" and build(robot, "planar").nv == 4


def test_wheeled_pendulum_pole() -> None:
    """M y'' = -g of the reduced model, linearised at the upright, has the published unstable pole."""
    body, wheel = (link.inertia for link in library.description("wheeled_pendulum").links)
    assert body is not None and wheel is not None
    L, r, g = wheeled_pendulum.LENGTH, wheeled_pendulum.RADIUS, 9.81
    m_b, I_b = body.mass, body.I_com[1, 1]
    mu = wheel.mass + wheel.I_com[1, 1] / r**2
    M = np.array([[m_b + mu, -(m_b * L / 2 + mu * L)], [-(m_b * L / 2 + mu * L), I_b + m_b * L**2 / 4 + mu * L**2]])
    stiffness = np.array([[0, 0], [0, m_b * g * L / 2]])
    poles = np.sqrt(np.linalg.eigvals(np.linalg.solve(M, stiffness)).astype(complex))
    assert max(poles.real) == pytest.approx(8.2867, abs=5e-5)


# -- the robot on two wheels


def test_two_wheeled() -> None:
    robot = library.description("two_wheeled")
    assert [link.name for link in robot.links] == ["body", "left_disc", "right_disc"]
    assert [joint.name for joint in robot.joints] == ["left_wheel", "right_wheel"]
    assert all(tuple(joint.axis) == (0, 1, 0) and joint.kind == "continuous" for joint in robot.joints)
    for link in robot.links[1:]:
        assert link.inertia is not None and link.inertia.mass == 0.25
        np.testing.assert_allclose(link.inertia.I_com, 0.25 * 0.04**2 * np.diag([0.25, 0.5, 0.25]), atol=1e-18)
    T = placed(robot)
    for side, left in two_wheeled.SIDES.items():
        np.testing.assert_array_equal(T[f"{side}_center"][:3, 3], [0, left * 0.1, -0.2])
    np.testing.assert_array_equal(T["axle"][:3, 3], [0, 0, -0.2])
    # a wheel's tread is a disc of its radius about the axle
    for link in robot.links[1:]:
        (tread,) = link.collisions
        assert tread.size == (0.04, 0.02)
        np.testing.assert_array_equal(np.abs(tread.pose.R[:, 2]), [0, 1, 0])


def test_two_wheeled_has_the_pendulums_numbers() -> None:
    """Mass, centre of mass and the moment about the pitch axis; the other two are the wheels' distance richer."""
    two, one = composite(library.description("two_wheeled")), composite(library.description("wheeled_pendulum"))
    assert two[0] == pytest.approx(one[0], rel=1e-15) and two[0] == 1.5
    np.testing.assert_allclose(two[1], one[1], atol=1e-16)
    np.testing.assert_allclose(two[2] - one[2], 0.5 * 0.1**2 * np.diag([1, 0, 1]), atol=1e-16)


def test_two_wheeled_base() -> None:
    model = build(library.description("two_wheeled"), library.base("two_wheeled"))
    turns = [f"root_{name}" for name in ("x", "y", "z", "yaw", "pitch", "roll")]
    assert [link.joint for link in model.links] == [*turns, "left_wheel", "right_wheel"]
    assert library.base("two_wheeled") == "euler" and model.nq == model.nv == 8


# -- PiDog


def leg_angles(y: float, z: float) -> tuple[float, float]:
    """(leg, foot) servo angles of a left leg for a foot y mm backward and z mm down of the hip, by the published formulas."""
    u = sqrt(y * y + z * z)
    beta = acos((76**2 + 42**2 - u**2) / (2 * 76 * 42))
    alpha = acos((42**2 + u**2 - 76**2) / (2 * 42 * u)) + atan2(y, z)
    return alpha, beta - pi / 2


def test_pidog_mass_and_mounts() -> None:
    robot = library.description("pidog")
    mass, com, _ = composite(robot)
    parts = 0.300 + 8 * 0.010 + 12 * 0.0135 + 4 * 0.003 + 0.005 + 3 * 0.005 + 0.025 + 0.030
    assert mass == pytest.approx(parts, rel=1e-12)
    assert mass == pytest.approx(0.637, abs=0.01)
    assert com[1] == pytest.approx(0, abs=1e-15)
    T = placed(robot)
    for name, (front, left) in pidog.LEGS.items():
        np.testing.assert_allclose(T[f"{name}_upper"][:3, 3], [front * 0.0585, left * 0.049, 0], atol=1e-15)
        assert np.linalg.norm(T[f"{name}_lower"][:3, 3] - T[f"{name}_upper"][:3, 3]) == pytest.approx(0.042)
        assert np.linalg.norm(T[f"{name}_foot"][:3, 3] - T[f"{name}_lower"][:3, 3]) == pytest.approx(0.076)


def test_pidog_stands_by_the_published_angles() -> None:
    front, hind = leg_angles(-15, 95), leg_angles(5, 90)
    np.testing.assert_allclose(np.degrees([*front, *hind]), [40.61, 15.54, 60.28, 5.26], atol=5e-3)
    robot = library.description("pidog")
    q: dict[str, float] = {}
    for name, (_, left) in pidog.LEGS.items():
        leg, foot = front if name.endswith("f") else hind
        q |= {f"{name}_hip": left * leg, f"{name}_knee": left * foot}
    T = placed(robot, q)
    for name in pidog.LEGS:
        back, down = (-15, 95) if name.endswith("f") else (5, 90)
        foot_from_hip = T[f"{name}_foot"][:3, 3] - T[f"{name}_upper"][:3, 3]
        np.testing.assert_allclose(foot_from_hip, [-back / 1000, 0, -down / 1000], atol=1e-12)


def test_pidog_joints() -> None:
    joints = library.description("pidog").joints
    assert [joint.name for joint in joints[:8]] == [
        f"{leg}_{part}" for leg in ("lf", "rf", "lh", "rh") for part in ("hip", "knee")
    ]
    limits = {joint.name: (joint.limits.lower, joint.limits.upper) for joint in joints}
    ranges = {"head_yaw": (-90, 90), "head_roll": (-70, 70), "head_pitch": (-45, 30), "tail_wag": (-30, 30), "lf_hip": (-90, 90)}
    for name, (lower, upper) in ranges.items():
        assert limits[name] == pytest.approx((radians(lower), radians(upper)))
    assert len(joints) == 12 and all(0.176 <= (joint.limits.effort or 0) <= 0.216 for joint in joints), "an MG90S"
    assert all(joint.damping == joint.limits.effort / joint.limits.velocity for joint in joints), (
        "no torque is left at full speed"
    )
    feet = [shape for link in library.description("pidog").links for shape in link.collisions if shape.name.endswith("foot")]
    assert len(feet) == 4 and all(shape.size == (0.008,) for shape in feet)


# -- the four-limbed robot


def test_fourlimb() -> None:
    robot = library.description("fourlimb")
    mass, com, _ = composite(robot)
    assert mass == pytest.approx(99.9, abs=1e-12)
    np.testing.assert_allclose(com[:2], [0, 0], atol=1e-12)
    torso = robot.links[0].inertia
    assert torso is not None and torso.mass == 40.0
    np.testing.assert_array_equal(np.diag(torso.I_com), [0.24897, 0.70323, 0.77256])
    assert all(0.4 <= m <= 4.0 for m in (*fourlimb.HOUSINGS, *fourlimb.SEGMENTS, fourlimb.FOOT))
    T = placed(robot)
    for name, (front, left) in fourlimb.LIMBS.items():
        hip = np.array([front * 0.29326, left * 0.2094, -0.0365])
        np.testing.assert_allclose(T[f"hub_1_{name}"][:3, 3], hip, atol=1e-15)
        np.testing.assert_allclose(T[f"foot_{name}"][:3, 3], [hip[0], hip[1], -0.68753], atol=1e-12)
    # without the rolls, on a planar base: 15 coordinates, 30 states, 12 controls
    pitches = [joint for joint in robot.joints if not joint.name.startswith("roll")]
    assert len(pitches) == 12 and all(tuple(joint.axis) == (0, 1, 0) for joint in pitches)
    assert all(joint.limits.effort == 300 for joint in robot.joints)


# -- the words they are written in


def test_solid_bodies() -> None:
    ball = solid(2.0, sphere(0.5, (1.0, 0.0, 0.0)))
    np.testing.assert_allclose(ball.I_com, 0.4 * 2.0 * 0.25 * np.eye(3), atol=1e-15)
    np.testing.assert_allclose(ball.com, [1, 0, 0])
    stick = solid(3.0, rod((1.0, 0.0, 0.0), (1.0, 2.0, 0.0), 0.1, kind="cylinder"))
    np.testing.assert_allclose(stick.com, [1, 1, 0], atol=1e-15)
    across, along = 3.0 / 12 * (3 * 0.01 + 4.0), 0.5 * 3.0 * 0.01
    np.testing.assert_allclose(stick.I_com, np.diag([across, along, across]), atol=1e-14)


def test_poses_turn_by_yaw_after_pitch_after_roll() -> None:
    roll, pitch, yaw = 0.3, -0.4, 0.5
    x, y, z = np.eye(3)
    np.testing.assert_allclose(pose(rpy=(roll, pitch, yaw)).R, about(z, yaw) @ about(y, pitch) @ about(x, roll), atol=1e-15)
    np.testing.assert_array_equal(pose(rpy=(0, pi / 2, 0)).R, [[0, 0, 1], [0, 1, 0], [-1, 0, 0]])


# -- drones with tilting rotors


@pytest.mark.parametrize("layout", [tilting_rotors.TRIROTOR, tilting_rotors.QUADROTOR, tilting_rotors.HEXAROTOR])
def test_tilting_rotors_have_the_published_totals(layout: tilting_rotors.Layout) -> None:
    robot, a = library.description(layout.name), 0.3
    mass, com, I = composite(robot)
    assert mass == pytest.approx(layout.mass, rel=1e-14)
    np.testing.assert_allclose(com, np.zeros(3), atol=1e-15)
    np.testing.assert_allclose(I, np.diag(layout.moments), atol=1e-15)
    flat, tilted = placed(robot), placed(robot, {joint.name: a for joint in robot.joints})
    for i, p in enumerate(layout.rotors, start=1):
        yaw = atan2(p[1], p[0])
        np.testing.assert_allclose(flat[f"thrust_{i}"][:3, 3], p, atol=1e-12)
        np.testing.assert_allclose(flat[f"thrust_{i}"][:3, 2], [0, 0, 1], atol=1e-12)
        direction = [sin(yaw) * sin(a), -cos(yaw) * sin(a), cos(a)]
        np.testing.assert_allclose(tilted[f"thrust_{i}"][:3, 2], direction, atol=1e-12)


# -- the crazyflie


def test_crazyflie_hovers_at_its_trim() -> None:
    robot = load("crazyflie")
    thrust = crazyflie.MASS * 9.81 / 4
    assert thrust == pytest.approx(0.0687, abs=5e-5)
    assert 1.25 * thrust < crazyflie.THRUST_COEFFICIENT * crazyflie.MAX_SPEED**2
    rotors = [f"rotor_{k}" for k in range(1, 5)]
    world = Simulation(robot, dt=0.002, wrenches=rotors)
    wrenches = np.array([[0, 0, thrust, 0, 0, -spin * crazyflie.DRAG * thrust] for spin in crazyflie.SPIN])
    x = world.step(world.state(), np.zeros(0), wrenches=wrenches)
    np.testing.assert_allclose(x, world.state(), atol=1e-12)  # neither falls, tilts nor turns
    # more thrust at the front pitches up: a negative rate about y; more at the rotors that turn left yaws right
    for more, entry in (([1, -1, -1, 1], 10), ([1, -1, 1, -1], 11)):
        changed = wrenches * (1 + 0.1 * np.array(more))[:, None]
        rate = world.split(world.step(world.state(), np.zeros(0), wrenches=changed))[1]
        assert rate[entry - 6] < -1e-4 and np.abs(np.delete(rate[3:], entry - 9)).max() < 0.2 * abs(rate[entry - 6])
