"""Everything that is checked about the four-limbed machine, one row each: its numbers, how it lands and stands, and its steps."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import numpy as np

from condyle.machines import fourlimb
from condyle.machines.fourlimb import (
    DROP,
    DT,
    FEET,
    FRICTION,
    PUSHED_AT,
    PUSHED_FOR,
    above,
    holding,
    machine,
    planar,
    tilt,
    world,
)
from condyle.machines.row import Row, Say, silent, worst
from condyle.machines.work import repeated
from condyle.robot.library import fourlimb as model
from condyle.runs.run import Run
from condyle.simulate.simulation import Simulation
from condyle.simulate.terrain import Plane

Array = np.ndarray

GRAVITY = 9.81
COPIES = 64
LIMP, LIMP_DROP = 0.4, 0.02  # s, m
AROUND = 12  # steps before and after touchdown
NUDGE = 1e-7  # of the central differences
MOMENTS = (0.24897, 0.70323, 0.77256)
LENGTHS = (0.17203, float(np.hypot(0.2865, 0.117)), float(np.hypot(0.1925, 0.117)))


def checks(run: Run | None = None, *, quick: bool = False, say: Say = silent) -> Iterator[Row]:
    """The rows, in order. `quick` takes the planar machine for derivatives and batches, and leaves out the whole one's."""
    say("masses and lengths", 0, 1)
    yield from parts()
    done = fourlimb.run(say=say) if run is None else run
    say("falling, landing, pushed", 0, 1)
    yield from landing(done)
    yield from pushed(done)
    say("steps", 0, 1)
    yield from passive()
    yield from slopes(quick, say)
    yield from together(quick)
    yield repeated("run", done)


def parts() -> Iterator[Row]:
    group, robot = "masses and lengths", machine()
    torso = robot.model.links[0].inertia
    yield Row(group, "mass", robot.mass, "kg", 99.9 - 1e-9, 99.9 + 1e-9, ".4f")
    yield Row(group, "mass of the torso", float(torso.mass), "kg", 40.0, 40.0, ".1f")
    yield Row(group, "moments of the torso, off the published ones", worst(np.diag(torso.I_com) - MOMENTS), "kg m^2", high=1e-12)
    q = robot.neutral()
    hips = np.array([robot.frame_pose(q, f"roll_1_{limb}")[1] for limb in model.LIMBS])
    wanted = np.array([(front * 0.29326, left * 0.2094, -0.0365) for front, left in model.LIMBS.values()])
    yield Row(group, "hips, off the published places", worst(hips - wanted), "m", high=1e-12)
    ends = [robot.frame_pose(q, name)[1] for name in ("roll_1_fl", "roll_2_fl", "roll_3_fl", "foot_fl")]
    found = [float(np.linalg.norm(b - a)) for a, b in pairwise(ends)]
    yield Row(
        group, "segments, off 0.17203, 0.2865 / 0.117 and 0.1925 / 0.117", worst(np.array(found) - LENGTHS), "m", high=1e-12
    )
    light = [float(link.inertia.mass) for link in robot.model.links[1:]]
    yield Row(group, "lightest limb link, foot included", min(light), "kg", 0.4, 4.0, ".2f")
    yield Row(group, "heaviest limb link", max(light), "kg", 0.4, 4.0, ".2f")
    here = planar_world()
    yield Row(group, "planar version: states", float(here.nx), "", 30.0, 30.0, ".0f")
    yield Row(group, "planar version: controls", float(here.nu), "", 12.0, 12.0, ".0f")


# -- the run


def landing(done: Run) -> Iterator[Row]:
    """The fall, the impact, and how it stands before it is pushed."""
    group, robot = "dropped by 0.15 m", done.robot
    falling = int(0.95 * np.sqrt(2.0 * DROP / GRAVITY) / DT)
    t = DT * np.arange(falling)
    # semi-implicit Euler falls by g h t / 2 more
    fall = done.x[0, 2] - 0.5 * GRAVITY * t * (t + DT)
    yield Row(group, "height while it falls, less that of free fall", worst(done.x[:falling, 2] - fall), "m", high=1e-9)
    forces, weight = done.contact_forces, robot.mass * GRAVITY
    yield Row(
        group,
        "largest force of the ground, by the weight",
        float(forces[..., 2].sum(axis=1).max()) / weight,
        "",
        2.0,
        40.0,
        ".1f",
    )
    k = round(PUSHED_AT / DT) - 1
    stands = done.x[0, 2] - DROP
    yield Row(group, "lowest, below where it was posed", 1e3 * float(stands - done.x[:, 2].min()), "mm", 5.0, 60.0, ".1f")
    yield Row(group, "stands, below where it was posed", 1e3 * float(stands - done.x[k, 2]), "mm", 0.0, 10.0, ".1f")
    yield Row(group, "tilt", float(np.degrees(tilt(done.x[k]))), "degrees", high=0.2, form=".3f")
    yield Row(group, "fastest coordinate 1.8 s after landing", worst(done.v[k]), "m/s or rad/s", high=0.05, form=".3f")
    carried = forces[k - 400 : k + 1, :, 2].sum(axis=1)
    yield Row(
        group, "mean force of the ground over 0.4 s, by the weight", float(carried.mean()) / weight, "", 0.999, 1.001, ".5f"
    )
    yield Row(group, "least part of the weight on a foot", float(forces[k, :, 2].min()) / weight, "", 0.15, 0.25, ".3f")
    share = np.hypot(forces[..., 0], forces[..., 1]) - FRICTION * forces[..., 2]
    yield Row(
        group, "friction beyond 0.7 times the normal force, all steps, by the weight", float(share.max()) / weight, "", high=1e-9
    )
    off = _momentum(done)
    yield Row(group, "momentum, less the impulses of ground, weight and push, by the largest", off, "", high=3e-3)


def _momentum(done: Run) -> float:
    """The linear momentum gained in each step against what all forces from outside give; the push is a force as well."""
    momentum = done.robot.momentum(done.q, done.v)[:, :3]
    force = done.contact_forces.sum(axis=1) + done.wrenches[:, 0, :3]
    force[:, 2] -= done.robot.mass * GRAVITY
    # a step weighs velocities with the masses of its beginning: what is left is in proportion to dt
    gained = np.cumsum(force, axis=0) * DT
    return worst(momentum[1:] - gained - momentum[0]) / worst(momentum)


def pushed(done: Run) -> Iterator[Row]:
    group = "pushed with 500 N for 0.15 s"
    k, after = round(PUSHED_AT / DT), round((PUSHED_AT + PUSHED_FOR) / DT)
    turned = np.degrees(tilt(done.x))
    yield Row(group, "impulse", float(done.wrenches[:, 0, 1].sum() * DT), "N s", 74.9, 75.1, ".1f")
    yield Row(group, "largest tilt", float(turned[k:].max()), "degrees", 2.0, 15.0, ".2f")
    yield Row(group, "sideways speed of the torso when the push ends", float(done.v[after, 1]), "m/s", 0.1, 1.0, ".3f")
    yield Row(group, "torque at most", worst(done.u), "N m", high=model.EFFORT, form=".1f")
    yield Row(group, "tilt at the end", float(turned[-1]), "degrees", high=0.5, form=".3f")
    moved = 1e3 * (done.x[-1, :3] - done.x[k, :3])
    yield Row(group, "moved to the left for good", float(moved[1]), "mm", -50.0, 50.0, ".1f")
    yield Row(group, "lower than before", float(-moved[2]), "mm", -10.0, 10.0, ".2f")
    yield Row(group, "fastest coordinate at the end", worst(done.v[-1]), "m/s or rad/s", high=0.05, form=".3f")
    feet = np.stack([done.robot.frame_pose(done.q, foot)[1] for foot in FEET], axis=1)
    deepest = 1e3 * float((model.FOOT_RADIUS - feet[:, :, 2]).max())
    yield Row(group, "deepest foot in the whole run", deepest, "mm", high=10.0, form=".2f")


# -- single steps


def passive() -> Iterator[Row]:
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
    yield Row("limp", f"energy lost in {LIMP:g} s", lost, "J", 5.0, None, ".1f")
    yield Row("limp", "largest rise of the energy in a step, by what is lost", rise / lost, "", high=0.0)


@cache
def planar_world() -> Simulation:
    return Simulation(planar(), DT, Plane(FRICTION), "foot_*")


def slopes(quick: bool, say: Say) -> Iterator[Row]:
    """Derivatives of steps before, during and after touchdown against central differences."""
    group = "derivatives through touchdown"
    yield Row(group, "planar, less central differences, by the largest", _slopes(planar_world()), "", high=1e-7)
    value = None
    if not quick:
        say("derivatives of the whole machine", 0, 1)
        value = _slopes(world())
    yield Row(group, "whole machine, less central differences, by the largest", value, "", high=1e-7)


@cache
def touchdown(here: Simulation) -> tuple[Array, Array]:
    """States (steps + 1, nx) and controls of a landing from half a millimetre, step by step."""
    x = above(here, 0.0005)
    control = holding(here, x)
    xs, us = [x], []
    for k in range(2 * AROUND):
        us.append(control(k, xs[-1])[0])
        xs.append(here.step(xs[-1], us[-1]))
    return np.array(xs), np.array(us)


def _slopes(here: Simulation) -> float:
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
    return worst(found - other) / worst(found)


def _between(here: Simulation, low: tuple[Array, Array], high: tuple[Array, Array]) -> Array:
    return np.concatenate([here.robot.difference(low[0], high[0]), high[1] - low[1]], axis=-1)


def together(quick: bool) -> Iterator[Row]:
    """64 copies in a batch while it lands: each comes out as it did alone."""
    here = planar_world() if quick else world()
    xs, u = touchdown(here)
    batch = np.repeat(xs[:-1, None], COPIES, axis=1)
    out = here.step(batch, u[:, None])
    differ = np.sum(out.view(np.int64) != xs[1:, None].view(np.int64))
    what = "planar" if quick else "whole machine"
    yield Row(
        "same bits", f"{what}: entries of {COPIES} copies that differ from one alone", float(differ), "", high=0.0, form=".0f"
    )
