"""Every published number that is wrong is seen: facts of robots and controllers are changed, and a check must fail each time.

Only the model checks are made, which need no simulation and no compilation.
"""

from dataclasses import replace

import numpy as np
import pytest
from apps.demos import (
    arm_model,
    birotor_model,
    birotor_rigid_body,
    fourlimb_model,
    pidog_model,
    wheeled_pendulum_formulas,
    wheeled_pendulum_model,
)
from markers import slow_except

from condyle.apps.demos import arm, birotor_control, fourlimb
from condyle.apps.pidog import gaits, kinematics, plant, poses, servos
from condyle.multibody.robot import load
from condyle.robot.library import base, birotor, description, ur3, wheeled_pendulum
from condyle.robot.library import fourlimb as fourlimb_library
from condyle.robot.library import pidog as pidog_library
from condyle.robot.spatial import Inertia
from condyle.simulate.simulation import Simulation
from condyle.simulate.terrain import Plane

CHECKS = {
    "birotor": birotor_model.model_checks,
    "ur3": arm_model.model_checks,
    "pidog": pidog_model.model_checks,
    "fourlimb": fourlimb_model.model_checks,
    "wheeled_pendulum": wheeled_pendulum_model.model_checks,
}
BIT = 1e-3  # a tenth of a percent must be seen


def failed(robot, described=None):
    """The checks that fail for this robot, or for another description of it."""
    return [check.name for check in rows(robot, described) if check.ok is False]


def seen(robot, described=None):
    """Whether some check fails; those after it are not made."""
    return any(check.ok is False for check in rows(robot, described))


def rows(robot, described=None):
    """The checks of this robot, or of another description of it, one after the other."""
    return CHECKS[robot](None if described is None else load(described, base(robot)).model)


def with_link(robot, name, change):
    """The robot's description with the inertia of one link changed."""
    described = description(robot)
    links = tuple(replace(link, inertia=change(link.inertia)) if link.name == name else link for link in described.links)
    return replace(described, links=links)


def with_joint(robot, name, change):
    described = description(robot)
    return replace(described, joints=tuple(change(joint) if joint.name == name else joint for joint in described.joints))


def inertial_links():
    moving = {name: {joint.child for joint in description(name).joints} for name in CHECKS}
    fixed = {name: set() if base(name) == "fixed" else {description(name).links[0].name} for name in CHECKS}
    return [
        (robot, link.name) for robot in CHECKS for link in description(robot).links if link.name in moving[robot] | fixed[robot]
    ]


def joints():
    return [(robot, joint.name) for robot in CHECKS for joint in description(robot).joints]


# the sources are silent about these: they are ours, and may change
OURS = {("pidog", link) for link in ("neck_1", "neck_2", "neck_3", "tail")}
OURS |= {("fourlimb", f"{part}_{i}_{limb}") for part in ("hub", "segment") for i in (1, 2, 3) for limb in fourlimb_model.LIMBS}
# another limb stands for these
ALIKE = ("_fr", "_hl", "_hr", "rf_hip", "rf_knee", "lh_hip", "lh_knee", "rh_hip", "rh_knee")
OUR_PLACES = {("pidog", joint) for joint in ("head_yaw", "head_roll", "head_pitch", "tail_wag")}


@pytest.mark.parametrize("robot", CHECKS)
def test_as_they_are_all_rows_pass(robot):
    assert failed(robot) == [] and failed(robot, description(robot)) == []
    assert len(list(rows(robot))) >= 12


# ---- the robots


@pytest.mark.parametrize(("robot", "link"), inertial_links())
def test_a_mass_that_is_wrong_is_seen(robot, link):
    def heavier(inertia):
        return Inertia.about_com(inertia.mass * (1.0 + BIT), inertia.com, inertia.I_com)

    assert seen(robot, with_link(robot, link, heavier))


@pytest.mark.parametrize(("robot", "link"), [pair for pair in inertial_links() if pair not in OURS])
def test_moments_and_centres_that_are_wrong_are_seen(robot, link):
    for axis in range(3):
        shift = np.zeros(3)
        shift[axis] = 1e-5

        def scaled(inertia, axis=axis):
            I = inertia.I_com.copy()
            I[axis, axis] *= 1.0 + BIT
            return Inertia.about_com(inertia.mass, inertia.com, I)

        def moved(inertia, shift=shift):
            return Inertia.about_com(inertia.mass, inertia.com + shift, inertia.I_com)

        assert seen(robot, with_link(robot, link, scaled)), f"moment about {'xyz'[axis]}"
        assert seen(robot, with_link(robot, link, moved)), f"centre along {'xyz'[axis]}"


@pytest.mark.parametrize(("robot", "joint"), slow_except([pair for pair in joints() if not pair[1].endswith(ALIKE)], joints()))
def test_a_joint_that_is_wrong_is_seen(robot, joint):
    for axis in range(3):
        if (robot, joint) in OUR_PLACES:
            break

        def moved(spec, axis=axis):
            p = np.array(spec.pose.p, dtype=float)
            p[axis] += 1e-5
            return replace(spec, pose=replace(spec.pose, p=p))

        assert seen(robot, with_joint(robot, joint, moved)), f"moved along {'xyz'[axis]}"
    if robot == "wheeled_pendulum":
        return  # nothing is published about the limits of its motor
    for name in ("effort", "velocity", "upper", "lower"):
        if robot == "fourlimb" and name != "effort":
            continue

        def limited(spec, name=name):
            return replace(spec, limits=replace(spec.limits, **{name: 0.99 * getattr(spec.limits, name)}))

        assert seen(robot, with_joint(robot, joint, limited)), name
    if robot != "fourlimb":
        assert seen(robot, with_joint(robot, joint, lambda spec: replace(spec, damping=1.01 * spec.damping))), "damping"


@pytest.mark.parametrize("robot", CHECKS)
def test_wrong_gravity_is_seen(robot):
    model = load(description(robot), base(robot), gravity=(0.0, 0.0, -9.8)).model
    assert any(check.ok is False for check in CHECKS[robot](model))


def test_the_known_mutations_are_seen(monkeypatch):
    """Changes that earlier checks did not see."""
    assert not any(failed(robot) for robot in CHECKS)  # the demos' robots are cached before anything is changed
    changed = tuple(check._replace(Ixx=2.0 * check.Ixx, com=0.9 * check.com) for check in ur3.ROWS)
    monkeypatch.setattr(ur3, "ROWS", changed)
    off = failed("ur3", description("ur3"))
    assert {"centres of mass, off the published ones", "moments of inertia, off the published ones"} <= set(off)
    monkeypatch.setattr(pidog_library, "LOWER", 0.075)
    assert "lower leg, here as in the library" in failed("pidog", description("pidog"))
    monkeypatch.setattr(fourlimb_library, "HIP", (0.29326 + 0.01, 0.2094, -0.0365))
    assert "hips, off the published places" in failed("fourlimb", description("fourlimb"))
    monkeypatch.setattr(wheeled_pendulum, "RADIUS", 0.041)
    assert "radius that it rolls on" in failed("wheeled_pendulum", description("wheeled_pendulum"))


# ---- the controllers

CONTROLLERS = [
    ("birotor", birotor_control, "DRAG", 0.05),
    ("birotor", birotor_rigid_body, "DRAG", 0.05),
    ("birotor", birotor_control, "SPIN", (-1.0, 1.0)),
    ("birotor", birotor_rigid_body, "SPIN", (-1.0, 1.0)),
    ("birotor", birotor_control, "SERVO_LAG", 0.14),
    ("birotor", birotor_control, "THRUST", (0.0, 18.0)),
    ("birotor", birotor_control, "GIMBAL_REACH", 1.5),
    ("birotor", birotor, "CONTROLLER_GRAVITY", 9.81),
    ("ur3", arm, "KP", arm.KP * 1.01),
    ("ur3", arm, "KD", arm.KD * 1.01),
    ("ur3", arm, "FRICTION", 0.011),
    ("ur3", arm, "MAX_TORQUE", 99.0),
    ("ur3", ur3, "READY", (0.0,) * 6),
    ("pidog", kinematics, "UPPER", 47.0),
    ("pidog", kinematics, "LOWER", 75.0),
    ("pidog", servos, "COUNTS", 4096),
    ("pidog", servos, "PERIOD", 0.0201),
    ("pidog", servos, "SHORTEST", 510.0),
    ("pidog", servos, "LONGEST", 2400.0),
    ("pidog", gaits, "WALK_WIDTH", 81.0),
    ("pidog", gaits, "WALK_CENTER", -16.0),
    ("pidog", gaits, "WALK_OFFSETS", (-10.0, -10.0, 20.0, 21.0)),
    ("pidog", gaits, "WALK_STARTS", (0, 3, 2, 1)),
    ("pidog", gaits, "WALK_LIFTED", ((0,), (), (2,), (), (1,), (), (3,), ())),
    ("pidog", gaits, "LIFT", 19.0),
    ("pidog", gaits, "TROT_WIDTH", 99.0),
    ("pidog", gaits, "TROT_CENTER", -16.0),
    ("pidog", gaits, "TICK", 0.011),
    ("pidog", gaits, "FASTEST", {"legs": 430.0, "head": 300.0, "tail": 500.0}),
    ("pidog", poses, "POSES", {**poses.POSES, "lie": poses.POSES["sit"]}),
    ("fourlimb", fourlimb, "P", 900.0),
    ("fourlimb", fourlimb, "CROUCH", (0.5, -1.0, 0.7)),
    ("wheeled_pendulum", wheeled_pendulum_formulas, "WEIGHT", 0.99),
]


@pytest.mark.parametrize(("robot", "module", "name", "value"), CONTROLLERS, ids=lambda value: getattr(value, "__name__", None))
def test_a_controller_s_number_that_is_wrong_is_seen(robot, module, name, value, monkeypatch):
    monkeypatch.setattr(module, name, value)
    assert seen(robot), f"{module.__name__}.{name} = {value}"


@pytest.mark.parametrize(("friction", "radius"), [(0.9, 0.008), (0.5, 0.01)])
def test_other_feet_are_seen(friction, radius, monkeypatch):
    feet = {f"{leg}_foot": radius for leg in pidog_library.LEGS}
    other = Simulation(plant.robot(), plant.DT, Plane(friction), feet)
    monkeypatch.setattr(plant, "world", lambda: other)
    assert len(failed("pidog")) == 1


def test_all_limbs_bent_alike_are_seen(monkeypatch):
    def alike(robot):
        q = robot.neutral()
        for limb in fourlimb_library.LIMBS:
            for i, angle in enumerate(fourlimb.CROUCH, start=1):
                q[robot.q_slice(f"pitch_{i}_{limb}")] = angle
        return q

    monkeypatch.setattr(fourlimb, "crouched", alike)
    assert failed("fourlimb") == ["centre of mass, off the middle of the feet"]
