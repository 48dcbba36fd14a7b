"""Derivatives of steps and rollouts, first and second, against differences of the same tape in 512 bits."""

import numpy as np
import pytest
from markers import slow_except

import condyle as cd
from condyle.multibody.robot import Robot
from condyle.robot.description import Description, JointSpec, Limits
from condyle.robot.joints import rotation_of
from condyle.robot.parts import Y, body, box, joint, link, pose, solid, sphere
from condyle.simulate.gradcheck import check
from condyle.simulate.kernels import compiled
from condyle.simulate.points import contact_points

pytest.importorskip("gmpy2")

CLOSE = 1e-7  # asked of every derivative, relative to the largest entry of its block; most are at 1e-12
CLOSE_SECOND = 1e-6

H = 0.002
LANDING = 0.004  # s, the steps of landings: each one is taken hundreds of times in 512 bits
RADIUS, MASS = 0.1, 1.0


def ball() -> Robot:
    """A uniform sphere on a free base; its controls are a force and a torque in its own axes."""
    shape = sphere(RADIUS, name="ball")
    return cd.load(Description("ball", (link("ball", solid(MASS, shape), [], [shape]),), ()), base="free")


def limb() -> Robot:
    """Two links on a fixed base, the second with limits, dry friction, damping and a motor of small effort; a foot at its end."""
    foot = sphere(0.03, (0.0, 0.0, -0.4), name="foot")
    upper, lower = body(2.0, (0.0, 0.0, -0.2), (0.03, 0.03, 0.002)), body(1.0, (0.01, 0.0, -0.2), (0.02, 0.02, 0.001))
    knee = JointSpec(
        "knee", "revolute", "upper", "lower", pose((0.0, 0.0, -0.4)), np.array(Y), Limits(-2.0, -0.2, None, 6.0), 0.3, 0.5, 0.01
    )  # fmt: skip
    links = (link("stand"), link("upper", upper), link("lower", lower, [], [foot]))
    return cd.load(Description("limb", links, (joint("hip", "continuous", "stand", "upper", axis=Y), knee)))


def ball_in(ground, dt=H, **options):
    robot = ball()
    return cd.Simulation(robot, dt, ground, actuated=robot.joint_names[:1], **options)


def rotated(height, x=0.0, y=0.0):
    """q of a free body, turned by a general rotation."""
    quaternion = np.array([0.2, -0.3, 0.4, 0.8])
    return np.array([x, y, height, *quaternion / np.linalg.norm(quaternion)])


SPIN = np.array([0.3, 0.1, -0.2, 1.0, 2.0, 3.0])
PULL = np.array([0.5, -0.2, 0.3, 0.02, 0.01, -0.03])


def assert_right(rows):
    for row in rows:
        assert row.error < (CLOSE_SECOND if row.what.startswith("d2") else CLOSE), row


# ---- through touchdown and lift-off


def landing(simulation, height, velocity, lift):
    """(x, us, normal forces) of a free body in general pose that lands with a velocity, in world axes, and is pulled up again."""
    x = simulation.state(rotated(height), SPIN)
    x[7:10] = rotation(x).T @ velocity
    us = np.zeros((50, 6))
    # the pull is upward in world axes where the body is by then
    us[30:, :3] = lift * (rotation(simulation.rollout(x, us)[35]).T @ [0.0, 0.0, 1.0])
    xs = simulation.rollout(x, us)
    return x, us, simulation.contact_forces(xs[:-1], us)[..., 2]


def rotation(x):
    return np.asarray(rotation_of(x[3:7]), dtype=float)


@pytest.mark.slow
@pytest.mark.parametrize("friction", [0.1, 0.8])
def test_a_ball_lands_slides_and_is_lifted(friction):
    simulation = ball_in(cd.Plane(friction=friction), LANDING)
    x, us, force = landing(simulation, RADIUS + 1e-3, [0.5, 0.1, -0.15], 25.0)
    assert force[0, 0] == 0.0 and force[-1, 0] == 0.0, "contact is made and broken within the run"
    assert 0.5 * MASS * 9.81 < force[20, 0] < force.max()
    assert_right(check(simulation, x, us[0], us=us))


@pytest.mark.slow
def test_a_box_lands_on_its_corners_and_is_lifted():
    shape = box((0.2, 0.15, 0.1), name="box")
    robot = cd.load(Description("box", (link("box", solid(MASS, shape), [], [shape]),), ()), base="free")
    lower = [f"box_corner{k}" for k in (0, 2, 4, 6)]
    points = [point for point in contact_points(robot.model) if point.name in lower]
    simulation = cd.Simulation(robot, LANDING, cd.Plane(friction=0.5), points, actuated=robot.joint_names[:1])
    x = simulation.state([0.0, 0.0, 0.0595, 0.03, -0.02, 0.0, np.sqrt(1.0 - 0.0013)], [0.5, 0.1, -0.2, 0.1, -0.2, 0.3])
    us = np.zeros((50, 6))
    us[37:, 2] = 30.0
    force = simulation.contact_forces(simulation.rollout(x, us)[:-1], us)[..., 2]
    touching = force > 1e-3
    assert not touching[0].any() and not touching[-1].any() and touching.any(axis=0).sum() >= 4, "corners make and break contact"
    assert len(np.unique(touching.sum(axis=1))) >= 4, "one after the other"
    assert_right(check(simulation, x, us[0], us=us))


# ---- one step of everything

GROUNDS = {
    "slope": cd.Slope(20.0, azimuth=30.0, friction=0.2),
    "height field": cd.HeightField(0.02 * np.random.default_rng(3).normal(size=(6, 6)), 0.25),
    "stairs": cd.Stairs(0.05, 0.3, 3, rounding=0.1),
    "terrain": cd.Terrain(lambda x, y: 0.03 * np.sin(4.0 * x) * np.cos(3.0 * y)),
}


def resting(simulation, depth, x=0.1, y=0.05):
    """q of the ball so deep in the ground."""
    q = rotated(RADIUS, x, y)
    for _ in range(20):
        q[2] -= float(simulation._world.ground.distance(q[:3])[0]) - RADIUS + depth
    return q


@pytest.mark.parametrize(
    "name, second",
    [
        pytest.param("slope", False, marks=pytest.mark.slow),
        pytest.param("height field", True, marks=pytest.mark.slow),
        ("stairs", False),
        pytest.param("terrain", False, marks=pytest.mark.slow),
    ],
)
def test_grounds(name, second):
    simulation = ball_in(GROUNDS[name])
    x = simulation.state(resting(simulation, 1e-3), SPIN)
    x[7:10] = rotation(x).T @ [0.3, 0.1, -0.2]
    assert np.linalg.norm(simulation.contact_forces(x, PULL)) > 1.0
    assert_right(check(simulation, x, PULL, second=second))


@pytest.mark.parametrize(
    "options, second",
    [
        ({"cone": 4}, True),
        pytest.param({"cone": 7, "smoothing": 1e-2}, False, marks=pytest.mark.slow),
        pytest.param({"rest_depth_mm": 0.1, "smoothing": 1e-4}, True, marks=pytest.mark.slow),
        pytest.param({"integrator": "explicit_euler"}, False, marks=pytest.mark.slow),
        pytest.param({"integrator": "rk2"}, False, marks=pytest.mark.slow),
        pytest.param({"integrator": "rk4"}, False, marks=pytest.mark.slow),
        ({"wrenches": ["ball"]}, False),
        pytest.param({"wrenches": ["ball"]}, True, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_options(options, second):
    simulation = ball_in(cd.Plane(friction=0.4), **options)
    x = simulation.state(rotated(RADIUS - simulation._world.depth), SPIN)
    wrenches = [[0.3, 0.2, -0.5, 0.1, 0.2, 0.3]] if options.get("wrenches") else None
    assert_right(check(simulation, x, PULL, wrenches=wrenches, second=second))


def pushed(model, q, v, t):
    """A force of a user's own, of everything it may depend on."""
    return np.array([2.0 * np.sin(3.0 * t + q[1]) - 0.3 * v[0] * v[1], 0.5 * np.cos(q[0]) * t])


LIMB = {
    "at the limit": ([0.4, -0.198], [0.5, 0.6], {}),
    "beyond the limit": ([0.4, -0.19], [0.5, -0.01], {}),
    "friction at rest": ([0.4, -1.0], [0.0, 0.0], {}),
    "friction in motion": ([0.4, -1.0], [1.0, -2.0], {}),
    "springs": ([0.4, -1.0], [1.0, -2.0], {"springs": {"hip": (40.0, 0.1), "knee": (900.0, -1.2)}}),
    "no friction, no damping": ([0.4, -1.0], [1.0, -2.0], {"joint_friction": False, "damping": False, "limits": False}),
    "force of time": ([0.4, -1.0], [1.0, -2.0], {"force": pushed}),
    "foot on the ground": ([0.3, -0.8], [-0.2, 0.6], {"ground": cd.Plane(friction=0.6, offset=-0.762), "contacts": ["foot"]}),
    "rk4": ([0.4, -0.199], [1.0, 0.5], {"force": pushed, "integrator": "rk4"}),
}

SLOW = ("rk4", "foot on the ground", "beyond the limit", "no friction, no damping")


@pytest.mark.parametrize("case", slow_except([case for case in LIMB if case not in SLOW], LIMB))
def test_joints(case):
    q, v, options = LIMB[case]
    simulation = cd.Simulation(limb(), H, **options)
    x = simulation.state(q, v)
    if simulation._world.timed:
        x[-1] = 123.0  # steps that were made already
    if "foot" in case:
        assert simulation.contact_forces(x)[0, 2] > 1.0
    assert_right(check(simulation, x, [0.7, -1.3], second=True))
    assert_right(check(simulation, x, [0.7, 50.0]))  # the second motor's effort is 6


def test_without_motors():
    robot = ball()
    simulation = cd.Simulation(robot, H, cd.Plane(friction=0.4))
    rows = check(simulation, simulation.state(rotated(RADIUS - 1e-3), SPIN), us=np.zeros((2, 0)))
    assert [row.what for row in rows] == ["dq1/dq", "dv1/dq", "dq1/dv", "dv1/dv", "dq2/dq0", "dv2/dq0", "dq2/dv0", "dv2/dv0"]
    assert_right(rows)


def test_substeps():
    simulation = ball_in(cd.Plane(friction=0.4), substeps=4)
    x = simulation.state(rotated(RADIUS + 1e-4), [0.0, 0.0, -0.5, 1.0, 2.0, 3.0])
    assert_right(check(simulation, x, PULL, us=np.tile(PULL, (3, 1))))


@pytest.mark.slow
def test_a_planar_fourlimb_on_its_feet():
    robot = cd.load("fourlimb", base="planar").lock("roll_")
    simulation = cd.Simulation(robot, H, cd.Plane(), ["foot_*"])
    q = robot.neutral()
    q[1], q[2] = 0.68753 + 0.05 - 0.0008, 0.001
    rng = np.random.default_rng(0)
    x = simulation.state(q, 0.1 * rng.normal(size=robot.nv))
    assert (simulation.contact_forces(x)[:, 2] > 1.0).sum() >= 2
    assert_right(check(simulation, x, rng.normal(size=simulation.nu)))


# ---- the second derivative at touchdown


def falling(power):
    """The ball in a world whose contact strength grows with this power of the depth."""
    return ball_in(cd.Plane(friction=0.4), depth_exponent=power, smoothing=1e-3)


def curvature(simulation, depth):
    """d2(next vertical velocity)/d(height)2 of the ball so far below the height at which contact begins."""
    q = np.array([0.0, 0.0, RADIUS + simulation.rest_depth - depth, 0.0, 0.0, 0.0, 1.0])
    weight = np.zeros(12)
    weight[8] = 1.0
    return simulation.step_hessian(simulation.state(q, [0.1, 0.0, -0.1, 0.0, 0.0, 0.0]), np.zeros(6), weight)[2, 2]


@pytest.mark.slow
def test_the_second_derivative_goes_through_touchdown_without_a_jump():
    smooth, sharp = falling(3), falling(2)
    h, g, d0 = H, 9.81, smooth.rest_depth
    for simulation in (smooth, sharp):
        assert curvature(simulation, -1e-9) == 0.0, "in the air"
    # near touchdown the impulse is two thirds of h k depth^p, k = 3/2 m g / d0^p
    for depth in (1e-9, 1e-8, 1e-7, 1e-6):
        assert curvature(smooth, depth) == pytest.approx(6.0 * h * g * depth / d0**3, rel=1e-2)
        assert curvature(sharp, depth) == pytest.approx(2.0 * h * g / d0**2, rel=1e-2)
    # the numbers: 0.1 against 39,240 at a nanometre
    assert curvature(smooth, 1e-9) < 0.12 and curvature(sharp, 1e-9) > 39_000.0


# ---- backward through the check of a step


def test_the_gradient_of_a_step_takes_no_finite_state_for_a_frozen_one():
    # a state that is not finite stays as it is; in the gradient the quaternion, a product, is used for this check alone
    robot = ball()
    stepper = cd.Simulation(robot, H, actuated=robot.joint_names[:1])._stepper
    step = compiled(stepper, "step", x=stepper.nx, u=6)
    rng = np.random.default_rng(3)
    x = np.hstack([robot.random_configuration(rng, 64), rng.normal(size=(64, 6))])
    u, weight = rng.normal(size=(64, 6)), rng.normal(size=(64, stepper.nx))
    gradient = step.vjp("x")(x, u, weight, 0.0)
    assert not np.any(np.all(gradient == weight, axis=1)), "the gradient of a state that stays as it is"
    J = step.jacobian("x1", "x", mode="forward")(x, u)
    np.testing.assert_allclose(gradient, np.einsum("nij,ni->nj", J, weight), rtol=1e-12, atol=1e-12)
    # and one that is not finite is taken for one
    x[5, 9] = np.inf
    assert np.array_equal(step(x, u).x1[5], x[5])
