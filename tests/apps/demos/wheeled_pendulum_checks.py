"""Reference checks of the wheeled pendulum: constraints, formulas derived by hand, energy, forces, and rolling by contact."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from apps.demos import wheeled_pendulum_contact, wheeled_pendulum_formulas
from apps.demos.facts import GRAVITY
from apps.demos.facts import Pendulum as F
from apps.demos.wheeled_pendulum_model import model_checks

from condyle.apps.demos.checks import Check, largest, near
from condyle.apps.demos.wheeled_pendulum import (
    DT,
    FRICTION,
    GAIN,
    LEAN,
    PUSHED_AT,
    TORQUE,
    all_coordinates,
    contact_motion,
    friction_needed,
    ground_forces,
    joint_torques,
    leaning,
    rolling,
    unconstrained,
    world,
)
from condyle.workbench.runs.run import Run

Array = np.ndarray

MILLION, CHUNK = 1_000_000, 20_000
PASSIVE = 10.0  # s
RADIUS = F.RADIUS


def checks(run: Run) -> Iterator[Check]:
    """All checks of a run."""
    yield from model_checks()
    yield from contact_checks("balancing", *all_coordinates(run))
    yield from million()
    yield from formulas()
    yield from energies(run)
    yield from forces()
    yield from by_contact()
    yield from controlled(run)


# -- the constraint


def contact_checks(group: str, q: Array, v: Array) -> Iterator[Check]:
    height, rising, slip, distance = contact_motion(q, v)
    yield Check(group, "height of the wheel's centre, less its radius", largest(height - RADIUS), "m", high=1e-15)
    yield Check(group, "vertical velocity of the wheel's centre", largest(rising), "m/s", high=1e-14)
    yield Check(group, "velocity of the wheel where it touches", largest(slip), "m/s", high=1e-14)
    yield Check(group, "distance of the centre - distance rolled", largest(distance), "m", high=1e-14)


def million() -> Iterator[Check]:
    """The same during a million passive steps: nothing is stabilised, and nothing drifts."""
    here, found = world(), np.zeros(4)
    x = here.state(leaning())
    for _ in range(0, MILLION, CHUNK):
        xs = here.rollout(x, np.zeros((CHUNK, 1)))
        height, *rest = contact_motion(*rolling().lift(*here.split(xs)))
        found = np.maximum(found, [largest(height - RADIUS), *(largest(part) for part in rest)])
        x = xs[-1]
    names = ("height - radius", "vertical velocity", "velocity at the contact point", "distance - distance rolled")
    for name, value, unit, bound in zip(names, found, ("m", "m/s", "m/s", "m"), (1e-15, 1e-14, 1e-14, 1e-14), strict=True):
        yield Check("a million steps", name, float(value), unit, high=bound)


# -- the equations


def formulas(count: int = 1000) -> Iterator[Check]:
    """Against formulas derived by hand, on random states with random torques."""
    group, robot = "closed form", rolling()
    rng = np.random.default_rng(0)
    y, w = rng.uniform(-1.0, 1.0, (2, count, 2)) * np.array([[[1.0, np.pi]], [[2.0, 10.0]]])
    motor = rng.uniform(-TORQUE, TORQUE, count)
    ours = robot.forward_dynamics(y, w, robot.reduce_forces(y, joint_torques(motor)))
    theirs = wheeled_pendulum_formulas.forward_dynamics(y, w, motor)
    yield Check(group, f"accelerations of {count} states, relative", largest(ours - theirs) / largest(theirs), high=1e-12)
    ours, theirs = robot.kinetic_energy(y, w) + robot.potential_energy(y), wheeled_pendulum_formulas.energy(y, w)
    yield Check(group, "their energies, relative", largest(ours - theirs) / largest(theirs), high=1e-12)
    by_y = robot.forward_dynamics_derivatives(np.zeros(2), np.zeros(2), np.zeros(2))[0]
    pole = float(np.sqrt(np.linalg.eigvals(by_y).astype(complex)).real.max())
    yield near(group, "unstable pole", pole, F.POLE, 5e-5, "rad/s", ".6f")
    yield Check(group, "the same, less that by hand", abs(pole - wheeled_pendulum_formulas.unstable_pole()), "rad/s", high=1e-12)


def energies(run: Run) -> Iterator[Check]:
    """Nothing is lost or gained: rolling without slipping does no work."""
    here = world()
    x = here.rollout(here.state(leaning()), np.zeros((round(PASSIVE / DT), 1)))
    energy, kinetic = here.energy(x), rolling().kinetic_energy(*here.split(x))
    yield Check("energy", f"passive, {PASSIVE:g} s of RK4 at 1 ms, by the largest kinetic", drift(energy, kinetic), high=1e-9)
    energy, q = run.simulation.energy(run.x), all_coordinates(run)[0]
    work = run.u[:, 0] * np.diff(q[:, 3]) + run.wrenches[:, 0, 0] * np.diff(q[:, 0])
    off = largest(np.diff(energy).cumsum() - work.cumsum())
    yield Check("energy", "balancing, less the work of motor and push", off, "J", high=1e-9)


def drift(energy: Array, kinetic: Array) -> float:
    return largest(energy - energy[0]) / float(np.max(kinetic))


def forces(torque: float = 0.2, seconds: float = 0.4) -> Iterator[Check]:
    """The ground's force is what the whole robot's momentum and weight ask for."""
    here = world(DT / 4.0)
    x = here.rollout(here.state(leaning()), np.full((round(seconds / here.dt), 1), torque))
    y, w = here.split(x)
    momentum = unconstrained().momentum(*rolling().lift(y, w))
    # differences of fourth order
    rate = (momentum[:-4] - 8.0 * momentum[1:-3] + 8.0 * momentum[3:-1] - momentum[4:])[:, [0, 2]] / (12.0 * here.dt)
    found = rolling().reactions(y, w, joint_torques(np.full(len(x), torque)))
    weight = unconstrained().mass * GRAVITY
    yield Check(
        "force of the ground",
        "normal, less weight and rate of momentum, by the weight",
        largest(found["axle.normal"][2:-2] - weight - rate[:, 1]) / weight,
        high=1e-8,
    )
    yield Check(
        "force of the ground",
        "friction, less rate of momentum, by the weight",
        largest(found["axle.forward"][2:-2] - rate[:, 0]) / weight,
        high=1e-8,
    )


def by_contact() -> Iterator[Check]:
    """The same robot held by nothing but contact and friction comes as near as its steps are short."""
    group = "rolling by contact instead"
    coarse, fine = (wheeled_pendulum_contact.apart(dt) for dt in (wheeled_pendulum_contact.COARSE, wheeled_pendulum_contact.FINE))
    yield Check(group, "x apart in 1 s, steps of 1 ms", 1e3 * coarse[0], "mm", high=0.05, form=".4f")
    yield Check(group, "x apart in 1 s, steps of 1/8 ms", 1e3 * fine[0], "mm", high=0.00625, form=".4f")
    yield Check(group, "angle apart, steps of 1 ms", 1e3 * coarse[1], "mrad", high=2.0, form=".3f")
    yield Check(group, "angle apart, steps of 1/8 ms", 1e3 * fine[1], "mrad", high=0.25, form=".3f")
    yield Check(group, "how many times nearer, x", coarse[0] / fine[0], "", 7.5, 8.5, ".2f")
    yield Check(group, "how many times nearer, angle", coarse[1] / fine[1], "", 7.5, 8.5, ".2f")


# -- the controller


def controlled(run: Run) -> Iterator[Check]:
    group, normal = f"LQR from {LEAN:g} rad, pushed", ground_forces(run)[0]
    before = round(PUSHED_AT / run.dt)
    # the initial angle of 0.25 is the largest
    yield near(group, "largest angle", largest(run.x[:, 1]), LEAN, 0.0, "rad", ".3f")
    yield Check(group, "largest angle after the push", largest(run.x[before:, 1]), "rad", 0.2, 0.215, ".3f")
    wanted = np.sum(-np.array(GAIN) * run.x[:-1], axis=-1)
    yield Check(group, "largest torque before the limit", largest(wanted), "N m", TORQUE, 1.2 * TORQUE, ".3f")
    limited = float(1e3 * run.dt * np.sum(np.abs(run.u) >= TORQUE))
    yield Check(group, "time at the motor's limit of 0.5 N m", limited, "ms", high=10.0, form=".0f")
    # the weight, 14.7 N, but for what raising and lowering the body takes
    weight = (F.BODY + F.WHEEL) * GRAVITY
    yield Check(group, "smallest normal force / weight", float(normal.min()) / weight, "", 0.9, 1.0, ".3f")
    yield near(group, "mean normal force / weight", float(normal.mean()) / weight, 1.0, 1e-5, "", ".6f")
    yield Check(group, "friction coefficient needed", largest(friction_needed(run)), "", high=FRICTION, form=".3f")
    for what, k in (("4 s after the start", before), ("4 s after the push", -1)):
        yield Check(group, f"|x|, {what}", 1e3 * abs(run.x[k, 0]), "mm", high=0.3, form=".3f")
        yield Check(group, f"|phi|, {what}", 1e3 * abs(run.x[k, 1]), "mrad", high=0.6, form=".3f")
