"""Reference checks of the birotor: hovering, one rigid body, servos, the flight, energy and momentum."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
from apps.demos import birotor_rigid_body as body
from apps.demos.birotor_model import model_checks
from apps.demos.facts import GRAVITY
from apps.demos.facts import Birotor as F

from condyle.apps.demos import birotor_control as plan
from condyle.apps.demos.birotor import CONTROL_DT, DT, robot, tilt_and_heading, tracking_errors, world
from condyle.apps.demos.birotor_control import GIMBALS, ROTORS, servo
from condyle.apps.demos.checks import Check, energy_residual, largest, near, replays
from condyle.multibody.robot import Robot, load
from condyle.simulate.simulation import Simulation
from condyle.workbench.runs.run import Run

Array = np.ndarray

STEP = 0.4  # rad, a command that stays below the servo's fastest


def checks(done: Run, count: int = 100) -> Iterator[Check]:
    """All checks of a run; `count`: of random states."""
    yield from model_checks()
    yield from hovering()
    yield from one_body(count)
    yield from servos()
    yield from flight(done)
    yield from accounts(done)


# -- hovering


def centre() -> Array:
    """The centre of mass from the root, gimbals at zero, m."""
    return np.asarray(robot().center_of_mass(robot().neutral()))


def rotor_places() -> Array:
    """(2, 3): the rotors from the centre of mass, gimbals at zero, m."""
    found: Array = np.array([robot().frame_pose(robot().neutral(), name)[1] for name in ROTORS]) - centre()
    return found


def thrust_wrenches(thrusts: Array) -> dict[tuple[str, str] | str, Array]:
    """Force and drag at the rotors, in the axes of their frames."""
    unit = [np.array([0.0, 0.0, 1.0, 0.0, 0.0, -spin * F.DRAG]) for spin in F.SPINS]
    return {(name, "local"): thrusts[..., k, None] * unit[k] for k, name in enumerate(ROTORS)}


def hovering() -> Iterator[Check]:
    """Half the weight at each rotor hovers, 7.08 N does not; unequal thrusts turn it as their drag says."""
    group, still = "hovering", np.zeros(robot().nv)
    heavy, light = robot().mass * GRAVITY / 2.0, 7.08
    sinks = GRAVITY - 2.0 * light / F.MASS
    for thrust, bounds in ((heavy, (0.0, 1e-12)), (light, (sinks - 5e-6, sinks + 5e-6))):
        a = robot().forward_dynamics(robot().neutral(), still, still, thrust_wrenches(np.array([thrust, thrust])))
        yield Check(group, f"acceleration at rest, {thrust:.4f} N each", largest(a), "m/s^2", *bounds, ".2e")
    thrusts, angles = body.nearest_hover(robot(), np.eye(3), GRAVITY)
    off = max(largest(thrusts - heavy), largest(angles))
    yield Check(group, "pseudo-inverse of the allocation at level, less that", off, "N, rad", high=1e-12)
    # thrusts apart by 2 N turn it against the spin of the stronger one: torque = rate of the angular momentum
    unequal = np.array([8.0, 6.0])
    a = robot().forward_dynamics(robot().neutral(), still, still, thrust_wrenches(unequal))
    torque = float(robot().momentum(robot().neutral(), a)[5])
    wanted = -F.DRAG * (unequal[0] - unequal[1])
    yield Check(group, "torque of drag about z, 8 N and 6 N", torque, "N m", wanted - 1e-12, wanted + 1e-12, ".4f")


def one_body(count: int) -> Iterator[Check]:
    """The formulas of a single body against the robot with its gimbals held: what force would be missing, relative."""
    group, rng = f"one rigid body, {count} random states", np.random.default_rng(0)
    state = body.random_states(rng, count)
    thrusts = rng.uniform(*F.THRUST, (count, 2))
    com, mass = centre(), robot().mass
    q, v = body.to_robot(state, com)
    moving = robot().momentum(q, v)[:, :3] / mass
    yield Check(
        group, "velocity of the centre of mass, world to body and back", largest(moving - state[:, 3:6]), "m/s", high=1e-13
    )
    off = robot().center_of_mass(q) - state[:, :3]
    yield Check(group, "its place, by way of the root", largest(off), "m", high=1e-13)
    I = body.inertia(robot(), state[:, 13:15])
    constant = np.broadcast_to(body.inertia(robot(), np.zeros(2)), I.shape)
    for what, with_I, bounds in (
        ("accelerations, relative", I, (None, 1e-12)),
        ("with the inertia of gimbals at zero", constant, (0.02, 0.08)),  # a twentieth, more or less by the states drawn
    ):
        linear, angular = body.acceleration(state, thrusts, rotor_places(), mass, with_I, np.array([0.0, 0.0, -GRAVITY]))
        a = body.to_robot_acceleration(state, linear, angular, com)
        left = robot().inverse_dynamics(q, v, a, thrust_wrenches(thrusts))[:, :6]
        scale = robot().inverse_dynamics(q, v, a)[:, :6]
        yield Check(group, what, largest(left) / largest(scale), "", *bounds)


# -- servos


@cache
def bench() -> Robot:
    """The vehicle held fast: only the gimbals move."""
    return load("birotor", base="fixed")


def servo_step(
    command: float = STEP, seconds: float = 1.2, dt: float = DT, *, forgetful: bool = False
) -> tuple[Array, Array, Array]:
    """(times, angles, rates) of gimbal 1 after its command jumps; `forgetful`: its rate is lost at every step, a mistake."""
    here = Simulation(bench(), dt, integrator="rk4")
    x = np.zeros((round(seconds / dt) + 1, here.nx))
    for k in range(len(x) - 1):
        x[k + 1] = here.step(x[k], np.array([servo(command - x[k, 0], F.DAMPING, F.SPEED), 0.0]))
        if forgetful:
            x[k + 1, 2:] = 0.0
    return dt * np.arange(len(x)), x[:, 0], x[:, 2]


def spring_step(command: float = STEP, seconds: float = 4.0, dt: float = DT) -> tuple[Array, Array]:
    """(times, angles) with the torque (I/t) (command - a) and no damping: the mistake."""
    here = Simulation(bench(), dt, integrator="rk4", damping=False, springs={GIMBALS[0]: (F.SPRING[0] / F.SERVO_LAG, command)})
    x = here.rollout(here.state(), np.zeros((round(seconds / dt), 2)))
    return dt * np.arange(len(x)), x[:, 0]


def crossing(t: Array, y: Array, level: float) -> float:
    """When y first reaches the level, s."""
    k = int(np.argmax(y >= level))
    return float(t[k - 1] + (level - y[k - 1]) / (y[k] - y[k - 1]) * (t[k] - t[k - 1]))


def servos() -> Iterator[Check]:
    group = "servos of the gimbals"
    t, a, _ = servo_step()
    # (1 - 1/e) of the way
    constant = crossing(t, a, STEP * (1.0 - np.exp(-1.0)))
    # the gimbal's own inertia by its damping, 2.4 ms, bends the lag a little
    yield near(group, "time constant", constant, F.SERVO_LAG, 0.01 * F.SERVO_LAG, "s", ".5f")
    lag = STEP * (1.0 - np.exp(-t / F.SERVO_LAG))
    name = f"a step of {STEP:g} rad, less 1 - exp(-t/{F.SERVO_LAG:g})"
    yield Check(group, name, largest(a - lag) / STEP, "", high=0.016, form=".4f")  # 2.4 ms by 0.15858 s
    yield Check(group, "overshoot", 100.0 * max(0.0, a.max() / STEP - 1.0), "%", high=1e-6, form=".1f")
    yield Check(
        group, "fastest, at a step of 1.5 rad", largest(servo_step(1.5)[2]), "rad/s", 0.999 * F.SPEED, 1.001 * F.SPEED, ".3f"
    )
    group = "servos, usual errors"
    t, a = spring_step()
    yield Check(group, "torque (I/t)(cmd - a), a spring: overshoot", 100.0 * (a.max() / STEP - 1.0), "%", 99.9, 100.1, ".1f")
    # it swings about the command, and is there after a quarter
    yield near(group, "the same: period", 4.0 * crossing(t, a, STEP), F.SPRING[2], 0.005, "s", ".3f")
    t, a, _ = servo_step(seconds=1.5, forgetful=True)
    slow = crossing(t, a, STEP * (1.0 - np.exp(-1.0))) / F.SERVO_LAG
    # of each step it keeps what inertia by damping, 2.4 ms, lets happen in 1 ms
    yield near(group, "rates set to zero every step: time constant, times too long", slow, 5.5, 0.2, "", ".2f")


# -- the flight


def flight(done: Run) -> Iterator[Check]:
    group = "the flight"
    t, away, heading = tracking_errors(done)
    tilt = tilt_and_heading(done.q)[0]
    rest = int(np.searchsorted(t, plan.CIRCLE[0] - CONTROL_DT))
    begin, end = plan.CIRCLE[0] + plan.RAMP, plan.CIRCLE[0] + plan.CIRCLE[1]
    round_, in_circle = (t >= begin) & (t <= end), (done.t >= begin) & (done.t <= end)
    wanted = np.degrees(np.arctan2(plan.RADIUS * plan.RATE**2, GRAVITY))
    yield Check(group, "off its place, hovering at (0.3, 0.6, 1.0)", 1e3 * away[rest], "mm", high=2.0, form=".2f")
    yield Check(group, "off its place, in the circle", 1e3 * float(away[round_].max()), "mm", high=25.0, form=".1f")
    yield Check(
        group, "mean tilt in the circle", float(np.degrees(tilt[in_circle].mean())), "deg", wanted - 1.0, wanted + 1.0, ".2f"
    )
    yield Check(group, "off its place, in the end", 1e3 * away[-1], "mm", high=0.5, form=".2f")
    yield Check(group, "tilt in the end", 1e3 * tilt[-1], "mrad", high=0.2, form=".2f")
    yield Check(group, "off its heading, in the end", 1e3 * abs(heading[-1]), "mrad", high=0.02, form=".3f")
    thrusts = done.extras["law.thrusts"]
    # a circle at that tilt takes the weight by its cosine, half of it at each rotor; the rest is steering
    expected = F.MASS * GRAVITY / 2.0 / np.cos(np.radians(wanted))
    yield near(
        group, "mean thrust of a rotor in the circle", thrusts[in_circle[:-1]].mean(), expected, 0.02 * expected, "N", ".3f"
    )
    yield Check(group, "farthest from that, by it", largest(thrusts / expected - 1.0), "", high=0.25, form=".2f")
    limited = (thrusts <= F.THRUST[0]) | (thrusts >= F.THRUST[1])
    yield Check(group, "time at the least or largest thrust", float(done.dt * limited.sum()), "s", high=0.0, form=".3f")
    yield Check(group, "fastest gimbal", largest(done.v[:, 6:8]), "rad/s", high=0.8 * F.SPEED, form=".2f")
    slowed = np.abs(done.u) >= F.DAMPING * F.SPEED * (1.0 - 1e-12)
    yield Check(group, "time at the servos' full speed", float(done.dt * slowed.sum()), "s", high=0.0, form=".3f")
    yield from drag(done)


def drag(done: Run) -> Iterator[Check]:
    """What the rotors gave in flight: forces along their axes, and torques along them that are 0.0172 m times as large."""
    group, thrusts = "the flight, rotors", done.extras["law.thrusts"]
    for k, (name, spin) in enumerate(zip(ROTORS, F.SPINS, strict=True)):
        along = robot().frame_pose(done.q[:-1], name)[0][..., 2]
        off = done.wrenches[:, k, :3] - along * thrusts[:, k, None]
        yield Check(group, f"rotor {k + 1}: force, less its thrust along its axis", largest(off), "N", high=1e-12)
        by_thrust = np.sum(done.wrenches[:, k, 3:] * along, axis=-1) / thrusts[:, k] * -spin
        furthest = float(by_thrust[np.argmax(np.abs(by_thrust - F.DRAG))])
        yield near(group, f"rotor {k + 1}: torque by thrust, against its spin", furthest, F.DRAG, 1e-12, "m", ".4f")


def accounts(done: Run) -> Iterator[Check]:
    """Energy and momentum are what rotors, servos, damping and weight gave."""
    group, here = "the flight, accounts", world()
    kinetic = robot().kinetic_energy(done.q, done.v)
    left = energy_residual(here, world(DT / 2.0), done.x, done.u, done.wrenches)
    yield Check(group, "energy, less the work done, by the largest kinetic", largest(left) / float(kinetic.max()), "", high=5e-6)
    momentum = robot().momentum(done.q, done.v)[:, :3]
    given = done.wrenches[:, :, :3].sum(axis=1) + robot().mass * np.array([0.0, 0.0, -GRAVITY])
    left = momentum[1:] - momentum[0] - here.dt * np.cumsum(given, axis=0)
    yield Check(group, "momentum, less thrust and weight, by the largest", largest(left) / largest(momentum), "", high=1e-9)
    yield replays(group, done)
