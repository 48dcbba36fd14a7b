"""Everything that is checked about the wheeled pendulum, one row each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from condyle.demos import wheel_formulas, wheel_on_ground
from condyle.demos.facts import GRAVITY
from condyle.demos.facts import Pendulum as F
from condyle.demos.row import Row, Say, near, silent, worst
from condyle.demos.wheel_model import model_rows
from condyle.demos.wheeled_pendulum import (
    DT,
    FRICTION,
    LEAN,
    PUSHED_AT,
    TORQUE,
    Run,
    balance,
    full_torque,
    gain,
    leaning,
    rolling,
    whole,
    world,
)

Array = np.ndarray

MILLION, CHUNK = 1_000_000, 20_000
PASSIVE = 10.0  # s
RADIUS = F.RADIUS


def checks(run: Run | None = None, *, quick: bool = False, say: Say = silent) -> Iterator[Row]:
    """The rows, in order. `quick` leaves out the million steps."""
    say("balancing", 0, 1)
    done = balance() if run is None else run
    yield from model_rows()
    yield from contact_rows("while it balances", done.q, done.v)
    yield from million(quick, say)
    say("closed form, energy and forces", 0, 1)
    yield from formulas()
    yield from energies(done)
    yield from forces()
    say("rolling by contact", 0, 1)
    yield from by_contact()
    yield from controlled(done)


# -- the constraint


def contact_motion(q: Array, v: Array) -> tuple[Array, Array, Array, Array]:
    """(height of the wheel's centre, its vertical velocity, velocity of the wheel's matter at the ground, way not rolled).

    All from the whole robot: the point of the wheel that touches is r below the centre, and moves at  v + omega x (0, 0, -r).
    """
    robot = whole()
    center = robot.frame_pose(q, "center")[1]
    J = robot.jacobian(q, "center")
    moving = (J @ v[..., None])[..., 0]
    touching = moving[..., :3] + np.cross(moving[..., 3:], (0.0, 0.0, -RADIUS))
    way = center[..., 0] - RADIUS * (q[..., 2] + q[..., 3])
    return center[..., 2], moving[..., 2], touching[..., [0, 2]], way


def contact_rows(group: str, q: Array, v: Array) -> Iterator[Row]:
    height, rising, slip, way = contact_motion(q, v)
    yield Row(group, "height of the wheel's centre, less its radius", worst(height - RADIUS), "m", high=1e-15)
    yield Row(group, "vertical velocity of the wheel's centre", worst(rising), "m/s", high=1e-14)
    yield Row(group, "velocity of the wheel where it touches", worst(slip), "m/s", high=1e-14)
    yield Row(group, "way of the centre, less the way rolled", worst(way), "m", high=1e-14)


def million(quick: bool, say: Say) -> Iterator[Row]:
    """The same after and during a million passive steps; nothing is stabilised, and nothing drifts."""
    group = "a million steps"
    names = ("height, less radius", "vertical velocity", "velocity where it touches", "way, less the way rolled")
    units, bounds = ("m", "m/s", "m/s", "m"), (1e-15, 1e-14, 1e-14, 1e-14)
    found: Array | None = None
    if not quick:
        here, found = world(), np.zeros(4)
        x = here.state(leaning())
        for done in range(0, MILLION, CHUNK):
            say("a million steps", done, MILLION)
            xs = here.rollout(x, np.zeros((CHUNK, 1)))
            height, *rest = contact_motion(*rolling().lift(*here.split(xs)))
            found = np.maximum(found, [worst(height - RADIUS), *(worst(part) for part in rest)])
            x = xs[-1]
    for k, name in enumerate(names):
        yield Row(group, name, None if found is None else float(found[k]), units[k], high=bounds[k])


# -- the equations


def formulas(count: int = 1000) -> Iterator[Row]:
    """Against formulas derived by hand, on random states with random torques."""
    group, robot = "closed form", rolling()
    rng = np.random.default_rng(0)
    y, w = rng.uniform(-1.0, 1.0, (2, count, 2)) * np.array([[[1.0, np.pi]], [[2.0, 10.0]]])
    motor = rng.uniform(-TORQUE, TORQUE, count)
    ours = robot.forward_dynamics(y, w, robot.reduce_forces(y, full_torque(motor)))
    theirs = wheel_formulas.forward_dynamics(y, w, motor)
    yield Row(group, f"accelerations of {count} states, relative", worst(ours - theirs) / worst(theirs), high=1e-12)
    ours, theirs = robot.kinetic_energy(y, w) + robot.potential_energy(y), wheel_formulas.energy(y, w)
    yield Row(group, "their energies, relative", worst(ours - theirs) / worst(theirs), high=1e-12)
    by_y = robot.forward_dynamics_derivatives(np.zeros(2), np.zeros(2), np.zeros(2))[0]
    pole = float(np.sqrt(np.linalg.eigvals(by_y).astype(complex)).real.max())
    yield near(group, "unstable pole", pole, F.POLE, 5e-5, "rad/s", ".6f")
    yield Row(group, "the same, less that by hand", abs(pole - wheel_formulas.unstable_pole()), "rad/s", high=1e-12)


def energies(done: Run) -> Iterator[Row]:
    """Nothing is lost or gained: rolling without slipping does no work."""
    here = world()
    x = here.rollout(here.state(leaning()), np.zeros((round(PASSIVE / DT), 1)))
    energy, kinetic = here.energy(x), rolling().kinetic_energy(*here.split(x))
    yield Row("energy", f"passive, {PASSIVE:g} s of RK4 at 1 ms, by the largest kinetic", drift(energy, kinetic), high=1e-9)
    energy = done.world.energy(done.x)
    work = done.torque * np.diff(done.q[:, 3]) + done.pushed * np.diff(done.q[:, 0])
    off = worst(np.diff(energy).cumsum() - work.cumsum())
    yield Row("energy", "balancing, less the work of motor and push", off, "J", high=1e-9)


def drift(energy: Array, kinetic: Array) -> float:
    return worst(energy - energy[0]) / float(np.max(kinetic))


def forces(torque: float = 0.2, seconds: float = 0.4) -> Iterator[Row]:
    """The ground's force is what the whole robot's momentum and weight ask for."""
    here = world(DT / 4.0)
    x = here.rollout(here.state(leaning()), np.full((round(seconds / here.dt), 1), torque))
    y, w = here.split(x)
    momentum = whole().momentum(*rolling().lift(y, w))
    # differences of fourth order
    rate = (momentum[:-4] - 8.0 * momentum[1:-3] + 8.0 * momentum[3:-1] - momentum[4:])[:, [0, 2]] / (12.0 * here.dt)
    found = rolling().reactions(y, w, full_torque(np.full(len(x), torque)))
    weight = whole().mass * GRAVITY
    yield Row(
        "force of the ground",
        "normal, less weight and rate of momentum, by the weight",
        worst(found["axle.normal"][2:-2] - weight - rate[:, 1]) / weight,
        high=1e-8,
    )
    yield Row(
        "force of the ground",
        "friction, less rate of momentum, by the weight",
        worst(found["axle.forward"][2:-2] - rate[:, 0]) / weight,
        high=1e-8,
    )


def by_contact() -> Iterator[Row]:
    """The same robot held by nothing but contact and friction comes as near as its steps are short."""
    group = "rolling by contact instead"
    coarse, fine = (wheel_on_ground.apart(dt) for dt in (wheel_on_ground.COARSE, wheel_on_ground.FINE))
    yield Row(group, "x apart in 1 s, steps of 1 ms", 1e3 * coarse[0], "mm", high=0.05, form=".4f")
    yield Row(group, "x apart in 1 s, steps of 1/8 ms", 1e3 * fine[0], "mm", high=0.00625, form=".4f")
    yield Row(group, "angle apart, steps of 1 ms", 1e3 * coarse[1], "mrad", high=2.0, form=".3f")
    yield Row(group, "angle apart, steps of 1/8 ms", 1e3 * fine[1], "mrad", high=0.25, form=".3f")
    yield Row(group, "how many times nearer, x", coarse[0] / fine[0], "", 7.5, 8.5, ".2f")
    yield Row(group, "how many times nearer, angle", coarse[1] / fine[1], "", 7.5, 8.5, ".2f")


# -- the controller


def controlled(done: Run) -> Iterator[Row]:
    group = f"LQR from {LEAN:g} rad, pushed"
    before = round(PUSHED_AT / done.world.dt)
    # it leans by 0.25 at first, and never as much again
    yield near(group, "largest angle", worst(done.x[:, 1]), LEAN, 0.0, "rad", ".3f")
    yield Row(group, "largest angle after the push", worst(done.x[before:, 1]), "rad", 0.2, 0.215, ".3f")
    yield Row(group, "torque that its law asks for, at most", worst(asked(done)), "N m", TORQUE, 1.2 * TORQUE, ".3f")
    limited = float(1e3 * done.world.dt * np.sum(np.abs(done.torque) >= TORQUE))
    yield Row(group, "time at the motor's limit of 0.5 N m", limited, "ms", high=10.0, form=".0f")
    # the weight, 14.7 N, but for what raising and lowering the body takes
    weight = (F.BODY + F.WHEEL) * GRAVITY
    yield Row(group, "least normal force, by the weight", float(done.normal.min()) / weight, "", 0.9, 1.0, ".3f")
    yield near(group, "its mean, by the weight", float(done.normal.mean()) / weight, 1.0, 1e-5, "", ".6f")
    yield Row(group, "friction coefficient below which it would slip", worst(done.needed), "", high=FRICTION, form=".3f")
    for what, k in (("4 s after the start", before), ("4 s after the push", -1)):
        yield Row(group, f"off its place, {what}", 1e3 * abs(done.x[k, 0]), "mm", high=0.3, form=".3f")
        yield Row(group, f"off upright, {what}", 1e3 * abs(done.x[k, 1]), "mrad", high=0.6, form=".3f")


def asked(done: Run) -> Array:
    """The torque -K x that the feedback asks for at each step, before the motor limits it."""
    return np.asarray(np.sum(-gain() * done.x[:-1], axis=-1))
