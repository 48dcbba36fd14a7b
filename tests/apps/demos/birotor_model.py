"""The birotor and its controller against published numbers: what can be said without a simulation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from apps.demos import birotor_rigid_body
from apps.demos.comparison import composite_inertia, difference, symmetric
from apps.demos.facts import GRAVITY
from apps.demos.facts import Birotor as F

from condyle.apps.demos import birotor_control
from condyle.apps.demos.birotor import robot
from condyle.apps.demos.birotor_control import ROTORS
from condyle.apps.demos.checks import Check, near
from condyle.apps.flight.allocation import allocation_matrix
from condyle.dynamics.energy import center_of_mass, composite_inertias, total_mass
from condyle.dynamics.kinematics import frame_pose
from condyle.robot.library import birotor as library
from condyle.robot.model import Model

Array = np.ndarray

DIGIT = 1e-6  # what is published has six digits behind the point, and was rounded on the way


def model_checks(model: Model | None = None) -> Iterator[Check]:
    """Rows for this model, or for the library's."""
    model = robot().model if model is None else model
    yield from vehicle(model)
    yield from parts(model)
    yield from rotors(model)
    yield from servos(model)


def vehicle(model: Model) -> Iterator[Check]:
    group, q = "the vehicle, gimbals at zero", model.neutral()
    yield near(group, "mass", total_mass(model), F.MASS, 5e-7, "kg", ".6f")
    centre = np.asarray(center_of_mass(model, q), dtype=float)
    yield near(group, "centre of mass above the root", centre[2], F.CENTRE[2], DIGIT, "m", ".6f")
    yield difference(group, "centre of mass beside the root", centre[:2], F.CENTRE[:2], "m")
    I = composite_inertias(model, q)[0].I_com.astype(float)
    for axis, found, wanted in zip("xyz", np.diag(I), F.MOMENTS, strict=True):
        yield near(group, f"moment of inertia about {axis}", found, wanted, DIGIT, "kg m^2", ".6f")
    places = [np.asarray(frame_pose(model, q, name).p, dtype=float) - centre for name in ROTORS]
    yield difference(group, "rotors, from where they are published", places, F.ROTORS, "m", DIGIT)
    for gravity, published in F.HOVER:
        thrust = float(total_mass(model)) * gravity / 2.0
        yield near(group, f"thrust that hovers, gravity {gravity:g}", thrust, published, 1e-4, "N", ".4f")
    yield near(group, "gravity of the simulation", -model.gravity[2], GRAVITY, 0.0, "m/s^2", ".2f")
    yield near(group, "gravity of the controller's model", library.CONTROLLER_GRAVITY, F.CONTROLLER_GRAVITY, 0.0, "m/s^2", ".3f")


def parts(model: Model) -> Iterator[Check]:
    """Each moving link, with the virtual links that it carries."""
    group = "its parts"
    base, *gimbals = model.links
    spread = (F.VIRTUAL_MOMENT,) * 3
    virtual = [(F.VIRTUAL, at, spread) for at in ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), *F.ARMS)]
    wanted = composite_inertia([(F.BASE[0], F.BASE[1], symmetric(F.BASE[2], F.BASE_PRODUCTS)), *virtual])
    names, groups = ("base", "gimbal 1", "gimbal 2"), [wanted]
    at_rotor = [(F.VIRTUAL, F.GIMBAL[1], spread)] * 2
    groups += [composite_inertia([(F.GIMBAL[0], F.GIMBAL[1], symmetric(F.GIMBAL[2], F.GIMBAL_PRODUCTS)), *at_rotor])] * 2
    for name, link, (mass, centre, moments) in zip(names, (base, *gimbals), groups, strict=True):
        yield near(group, f"{name}: mass", link.inertia.mass, mass, 1e-12, "kg", ".6f")
        yield difference(group, f"{name}: centre of mass, off the published one", link.inertia.com, centre, "m")
        yield difference(group, f"{name}: moments, off the published ones", link.inertia.I_com, moments, "kg m^2", 1e-15)
    places = [link.placement.p for link in gimbals]
    axes = [link.placement.R @ link.axes[0].angular for link in gimbals]
    yield difference(group, "gimbals, from where they are published", places, F.ARMS, "m")
    yield difference(group, "axes of the gimbals, off +y and -y", axes, F.AXES)
    limits = [(link.limits.lower, link.limits.upper, link.limits.effort, link.limits.velocity, link.damping) for link in gimbals]
    wanted_limits = [(-F.REACH, F.REACH, F.EFFORT, F.SPEED, F.DAMPING)] * 2
    yield difference(group, "limits, effort, speed and damping, off the published ones", limits, wanted_limits)


def rotors(model: Model) -> Iterator[Check]:
    """Thrust and drag as flight, allocation and formulas have them."""
    group, thrust = "rotors", 7.0
    _, wrenches = birotor_control.actuated(model, model.neutral(), np.full(2, thrust), np.zeros(2)).values()
    for i, spin in enumerate(F.SPINS):
        force, torque = np.asarray(wrenches[i][:3], dtype=float), np.asarray(wrenches[i][3:], dtype=float)
        found = -spin * np.sum(force * torque) / thrust**2
        yield near(group, f"rotor {i + 1}: drag by thrust, against its spin", found, F.DRAG, 1e-12, "m", ".4f")
    wanted = np.array([_unit_wrench(i, a) for i in range(2) for a in (np.pi / 2.0, 0.0)]).T
    yield difference(
        group, "allocation, off p x f - spin drag f", allocation_matrix(birotor_control.body(model)), wanted, "m", DIGIT
    )
    rng = np.random.default_rng(3)
    thrusts, tilts = rng.uniform(*F.THRUST, 2), rng.uniform(-1.0, 1.0, 2)
    found_wrench = np.concatenate(birotor_rigid_body.rotor_wrench(np.array(F.ROTORS), thrusts, tilts))
    by_hand = sum(thrusts[i] * _unit_wrench(i, tilts[i]) for i in range(2))
    yield difference(group, "wrench of one body, off the same", found_wrench, by_hand, "N, N m")
    # turning fast about x, the law asks for more torque than it can have
    v, stay = np.zeros(model.nv), np.zeros(18)
    v[3] = -100.0
    most = np.asarray(birotor_control.law(model, model.neutral(), v, stay)["thrusts"], dtype=float)
    yield difference(group, "thrusts where all is asked for, off 18 and 1", most, F.THRUST[::-1], "N", 0.0)


def _unit_wrench(rotor: int, tilt: float) -> Array:
    """(6,) by hand: what 1 N does about the centre of mass, the rotor turned by `tilt` about the line to it."""
    at, side = np.array(F.ROTORS[rotor]), F.AXES[rotor][1]
    f = np.array([side * np.sin(tilt), 0.0, np.cos(tilt)])
    return np.concatenate([f, np.cross(at, f) - F.SPINS[rotor] * F.DRAG * f])


def servos(model: Model) -> Iterator[Check]:
    """A servo's torque for what is missing: P of P / D = 1 / lag, and no more than its speed needs."""
    group = "law of the servos"
    joint = birotor_control.gimbal(model, "tilt_1")
    speed = float(joint.limits.velocity or np.inf)
    lag = joint.damping * 1e-3 / float(birotor_control.servo(1e-3, joint.damping, speed))
    yield near(group, "damping by gain: the lag that it should have", lag, F.SERVO_LAG, 1e-12, "s", ".5f")
    fastest = float(birotor_control.servo(1e3, joint.damping, speed)) / joint.damping
    yield near(group, "torque by damping, far from the command: the speed", fastest, F.SPEED, 1e-12, "rad/s", ".1f")
    yield near(group, "largest command", birotor_control.GIMBAL_REACH, F.REACH, 0.0, "rad", ".2f")
