"""Reference checks of the four-limbed robot: how it lands and stands, and its steps."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
from apps.demos.comparison import sliding_distance
from apps.demos.facts import GRAVITY
from apps.demos.facts import FourLimb as F
from apps.demos.fourlimb_model import model_checks

from condyle.apps.demos import fourlimb
from condyle.apps.demos.checks import Check, largest, near, replays
from condyle.apps.demos.fourlimb import (
    DROP,
    DT,
    FEET,
    FRICTION,
    PUSH,
    PUSHED_AT,
    PUSHED_FOR,
    above,
    planar,
    static_residual,
    tilt,
    world,
)
from condyle.robot.library.fourlimb import FOOT_RADIUS
from condyle.simulate.simulation import Simulation
from condyle.simulate.terrain import Plane
from condyle.workbench.runs.run import Run

Array = np.ndarray

COPIES = 64
LIMP, LIMP_DROP = 0.4, 0.02  # s, m
AROUND = 12  # steps before and after touchdown
NUDGE = 1e-7  # of the central differences
FOUND = 0.05  # of numbers for which there is no formula: how far from what they were found to be
STILL = 5e-4  # mm/s that are left of other motion where creep is measured


def checks(done: Run) -> Iterator[Check]:
    """All checks of a run; derivatives and batches of the planar robot."""
    yield from model_checks()
    yield from planar_size()
    yield from landing(done)
    yield from pushed(done)
    yield from sliding(done)
    yield from passive()
    yield from derivatives()
    yield from batches()
    yield replays("run", done)


def planar_size() -> Iterator[Check]:
    here = planar_world()
    yield near("planar version", "states", here.nx, F.STATES, 0.0, "", ".0f")
    yield near("planar version", "controls", here.nu, F.CONTROLS, 0.0, "", ".0f")


# -- the run


def landing(done: Run) -> Iterator[Check]:
    """The fall, the impact, and how it stands before it is pushed."""
    group, robot = "dropped by 0.15 m", done.robot
    falling = int(0.95 * np.sqrt(2.0 * DROP / GRAVITY) / DT)
    t = DT * np.arange(falling)
    # semi-implicit Euler falls by g h t / 2 more
    fall = done.x[0, 2] - 0.5 * GRAVITY * t * (t + DT)
    yield Check(group, "height while it falls, less that of free fall", largest(done.x[:falling, 2] - fall), "m", high=1e-12)
    forces, weight = done.contact_forces, robot.mass * GRAVITY
    peak = float(forces[..., 2].sum(axis=1).max()) / weight
    yield near(group, "largest force of the ground, by the weight", peak, 23.5, FOUND * 23.5, "", ".1f")
    k = round(PUSHED_AT / DT) - 1
    stands = done.x[0, 2] - DROP
    lowest = 1e3 * float(stands - done.x[:, 2].min())
    yield near(group, "lowest, below where it was posed", lowest, 19.6, FOUND * 19.6, "mm", ".1f")
    yield near(group, "stands, below where it was posed", 1e3 * float(stands - done.x[k, 2]), 1.94, FOUND * 1.94, "mm", ".2f")
    yield Check(group, "torques, less what weight and ground ask for, by the largest", static_residual(done, k), "", high=1e-4)
    yield Check(group, "tilt", float(np.degrees(tilt(done.x[k]))), "degrees", high=1e-9, form=".3f")
    yield Check(group, "fastest coordinate 1.8 s after landing", largest(done.v[k]), "m/s or rad/s", high=1e-4)
    mean = float(forces[k - 400 : k + 1, :, 2].sum(axis=1).mean()) / weight
    yield near(group, "mean force of the ground over 0.4 s, by the weight", mean, 1.0, 1e-4, "", ".5f")
    yield near(group, "least part of the weight on a foot", float(forces[k, :, 2].min()) / weight, 0.25, 1e-4, "", ".4f")
    slip = np.hypot(forces[..., 0], forces[..., 1]) - FRICTION * forces[..., 2]
    yield Check(
        group, "friction beyond 0.7 times the normal force, all steps, by the weight", float(slip.max()) / weight, "", high=1e-9
    )
    off = _momentum(done)
    yield Check(group, "momentum, less the impulses of ground, weight and push, by the largest", off, "", high=2e-3)


def _momentum(done: Run) -> float:
    """The linear momentum gained in each step against what all forces from outside give; the push is a force as well."""
    momentum = done.robot.momentum(done.q, done.v)[:, :3]
    force = done.contact_forces.sum(axis=1) + done.wrenches[:, 0, :3]
    force[:, 2] -= done.robot.mass * GRAVITY
    # a step weighs velocities with the masses of its beginning: the residual is in proportion to dt
    gained = np.cumsum(force, axis=0) * DT
    return largest(momentum[1:] - gained - momentum[0]) / largest(momentum)


def pushed(done: Run) -> Iterator[Check]:
    group = "pushed with 500 N for 0.15 s"
    k, after = round(PUSHED_AT / DT), round((PUSHED_AT + PUSHED_FOR) / DT)
    tilted = np.degrees(tilt(done.x))
    # friction takes its part of the impulse of 75 N s
    kept = float(done.robot.momentum(done.q[after], done.v[after])[1]) / (PUSH * PUSHED_FOR)
    yield near(group, "part of its impulse that is left when it ends", kept, 0.65, FOUND * 0.65, "", ".3f")
    yield near(group, "largest tilt", float(tilted[k:].max()), 7.2, FOUND * 7.2, "degrees", ".2f")
    yield Check(group, "torque at most, by the motors' effort", largest(done.u) / F.EFFORT, "", high=0.6, form=".2f")
    yield Check(group, "tilt at the end", float(tilted[-1]), "degrees", high=0.05, form=".3f")
    moved = 1e3 * (done.x[-1, :3] - done.x[k, :3])
    # as bent in front as behind, it has no reason to go forward or backward
    yield Check(group, "moved forward or backward", abs(float(moved[0])), "mm", high=1e-6)
    yield Check(group, "off to the left at the end", float(moved[1]), "mm", 0.0, 12.0, ".1f")
    yield Check(group, "lower than before", float(-moved[2]), "mm", 0.0, 1.0, ".2f")
    yield Check(group, "fastest coordinate at the end", largest(done.v[-1]), "m/s or rad/s", high=0.05, form=".3f")
    feet = np.stack([done.robot.frame_pose(done.q, foot)[1] for foot in FEET], axis=1)
    deepest = 1e3 * float((FOOT_RADIUS - feet[:, :, 2]).max())
    yield Check(group, "deepest foot in the whole run", deepest, "mm", high=3.0, form=".2f")


def sliding(done: Run) -> Iterator[Check]:
    """Loaded feet stick: they roll, and creep as the smoothing of the contact law says."""
    group, distance = "feet on the ground", 1e3 * sliding_distance(done, FEET, FOOT_RADIUS)
    k = round(PUSHED_AT / DT)
    yield Check(
        group, "distance a loaded foot slides while it lands", float(distance[:k].sum(axis=0).max()), "mm", high=0.6, form=".2f"
    )
    yield Check(
        group,
        "distance a loaded foot slides after that, pushed",
        float(distance[k:].sum(axis=0).max()),
        "mm",
        high=0.5,
        form=".2f",
    )
    for what, end in (("standing", k), ("standing, at the end", done.steps)):
        still = slice(end - 500, end)
        speed = distance[still].sum(axis=0) / (500 * DT)
        forces = done.contact_forces[still]
        part = (np.hypot(forces[..., 0], forces[..., 1]) / forces[..., 2]).mean(axis=0) / FRICTION
        wanted = 1e3 * world().config.smoothing * GRAVITY * DT * 2.0 * part / (FRICTION * (1.0 - part**2))
        i = int(np.argmax(np.abs(speed - wanted)))
        name = f"creep of a foot, {what}; by the law {wanted[i]:.5f}"
        yield near(group, name, speed[i], float(wanted[i]), 0.05 * float(wanted[i]) + STILL, "mm/s", ".5f")


# -- single steps


def passive() -> Iterator[Check]:
    """Without any torque it falls and folds: contact and friction only take energy away."""
    here = world()
    steps = round(LIMP / DT)
    x = np.empty((steps + 1, here.nx))
    x[0] = above(here, LIMP_DROP)
    for k in range(steps):
        x[k + 1] = here.step(x[k])
    energy = np.asarray(here.energy(x))
    lost = float(energy[0] - energy[-1])
    rise = float(np.diff(energy).max())
    yield Check("limp", f"energy lost in {LIMP:g} s", lost, "J", 9.0, 10.5, ".1f")
    yield Check("limp", "largest rise of the energy in a step, by what is lost", rise / lost, "", high=0.0)


@cache
def planar_world() -> Simulation:
    return Simulation(planar(), DT, Plane(FRICTION), "foot_*")


def derivatives() -> Iterator[Check]:
    """Derivatives of steps before, during and after touchdown against central differences."""
    name = "planar - central differences, by the largest"
    yield Check("derivatives through touchdown", name, _derivative_error(planar_world()), "", high=1e-7)


@cache
def touchdown(here: Simulation) -> tuple[Array, Array]:
    """States (steps + 1, nx) and controls of a landing from half a millimetre, step by step."""
    x = above(here, 0.0005)
    loop = fourlimb.loop(here, x)
    out = loop.rollout(loop.state(here.split(x)[0]), None, 2 * AROUND, record=["q", "v", "u"])
    return np.concatenate([x[None], np.concatenate([out["q"], out["v"]], axis=1)]), out["u"]


def _derivative_error(here: Simulation) -> float:
    xs, u = touchdown(here)
    x = xs[:-1]
    _, A, B = here.step(x, u, derivatives=True)
    n, nv = here.ndx, here.robot.nv
    found = np.concatenate([A, B], axis=-1)
    other = np.empty_like(found)

    def ahead(change: Array) -> tuple[Array, Array]:
        q, v = here.split(x)
        q = here.robot.integrate(q, np.tile(change[:nv], (len(x), 1)))
        return here.split(here.step(np.concatenate([q, v + change[nv:n]], axis=-1), u + change[n:]))

    # fourth order: next to the edge of contact the second derivatives are large, and those of second order see them
    for column in range(n + here.nu):
        nudge = np.zeros(n + here.nu)
        nudge[column] = NUDGE
        near, far = (_between(here, ahead(-k * nudge), ahead(k * nudge)) for k in (1.0, 2.0))
        other[..., column] = (8.0 * near - far) / (12.0 * NUDGE)
    return largest(found - other) / largest(found)


def _between(here: Simulation, low: tuple[Array, Array], high: tuple[Array, Array]) -> Array:
    return np.concatenate([here.robot.difference(low[0], high[0]), high[1] - low[1]], axis=-1)


def batches() -> Iterator[Check]:
    """64 copies in a batch while it lands: each has the bits of one alone."""
    here = planar_world()
    xs, u = touchdown(here)
    out = here.step(np.repeat(xs[:-1, None], COPIES, axis=1), u[:, None])
    differ = np.sum(out.view(np.int64) != xs[1:, None].view(np.int64))
    name = f"planar: entries of {COPIES} copies that differ from one alone"
    yield Check("same bits", name, float(differ), "", high=0.0, form=".0f")
