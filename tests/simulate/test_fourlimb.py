"""The four-limbed robot, 99.9 kg, in space and in the plane: it stands, drops, is pushed, and stands on slopes."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from markers import slow_except

import condyle as cd

FEET = ("foot_fl", "foot_fr", "foot_hl", "foot_hr")
# knees bent, each foot below its hip: l1 sin(q1) + l2 sin(q1 + q2) + l3 sin(q1 + q2 + q3) = 0
BENT = (0.5, -1.0, 0.789)
RADIUS = 0.05  # of a foot
REACH = 0.0365 + 0.17203 * np.cos(0.5) + 0.2865 * np.cos(0.5) + 0.1925 * np.cos(0.289) + RADIUS  # torso above flat ground
KP, KD, EFFORT = 1000.0, 5.0, 300.0  # with 20 the light roll joints chatter: servos act at the start of a step
WEIGHT = 99.9 * 9.81
LIMIT = 1e-10  # the largest residual of a step
CLOSE = 1e-9  # float64 against 128 bits over ten steps, relative to the largest entry
STAY = 1e-3  # how far the middle of a foot may go in a second, m: the robot sways, and its feet roll
BASES = ("planar", "free")


@cache
def robot(base: str) -> cd.Robot:
    full_robot = cd.load("fourlimb", base)
    return full_robot.lock(["roll_"]) if base == "planar" else full_robot


@cache
def world(base: str, degrees: float = 0.0, wrenches: tuple[str, ...] = ()) -> cd.Simulation:
    ground = cd.Slope(degrees, friction=0.8) if degrees else cd.Plane(friction=0.8)
    return cd.Simulation(robot(base), 0.002, ground, FEET, wrenches=wrenches)


def pose(base: str, degrees: float = 0.0) -> np.ndarray:
    """The joints with bent knees, roll joints at zero; on a slope the limbs hang straight down from a torso parallel to it."""
    limb = np.array(BENT if base == "planar" else np.ravel([(0.0, bend) for bend in BENT]))
    limb[0 if base == "planar" else 1] += np.radians(degrees)
    return np.tile(limb, 4)


def above(base: str, height: float, degrees: float = 0.0) -> np.ndarray:
    """The state at rest with bent knees, the lowest foot this high over the ground and the torso parallel to it."""
    a, r = np.radians(degrees), robot(base)
    normal, place = np.array([-np.sin(a), 0.0, np.cos(a)]), [0, 1] if base == "planar" else [0, 2]
    q = r.neutral()
    if base == "planar":
        q[2] = -a
    else:
        q[[4, 6]] = -np.sin(a / 2.0), np.cos(a / 2.0)
    q[-12 if base == "planar" else -24 :] = pose(base, degrees)
    lowest = min(normal @ r.frame_pose(q, foot)[1] for foot in FEET[::2])
    q[place] += (height + RADIUS - lowest) * normal[[0, 2]]
    return world(base, degrees).state(q)


def holding(target: np.ndarray, x: np.ndarray, kd: float = KD) -> np.ndarray:
    """Torques of servos that hold a pose, within the motors' effort."""
    n, nq = len(target), x.shape[-1] // 2 + x.shape[-1] % 2
    return np.clip(KP * (target - x[..., nq - n : nq]) - kd * x[..., -n:], -EFFORT, EFFORT)


def run(w: cd.Simulation, x: np.ndarray, steps: int, target: np.ndarray, kd: float = KD, **options: Any) -> np.ndarray:
    """All states while servos hold a pose; every step's residual is checked."""
    xs = [x]
    for _ in range(steps):
        xs.append(w.step(xs[-1], holding(target, xs[-1], kd), **options))
        assert w.status is not None
        assert np.all(w.status.residual <= LIMIT)
    return np.array(xs)


def height(base: str, x: np.ndarray) -> np.ndarray:
    return x[..., 1 if base == "planar" else 2]


def tilt(base: str, x: np.ndarray) -> np.ndarray:
    """The angle of the torso from the vertical, or in the plane its pitch."""
    if base == "planar":
        return np.abs(x[..., 2])
    return 2.0 * np.arcsin(np.linalg.norm(x[..., 3:5], axis=-1))


# ---- flat ground


@pytest.mark.parametrize("kd", [1.0, KD])
@pytest.mark.parametrize("base", slow_except(["planar"], BASES))
def test_it_stands(base, kd):
    w = world(base)
    xs = run(w, above(base, 0.0), 2500, pose(base), kd)
    late = xs[2000:]
    forces = w.contact_forces(late, holding(pose(base), late, kd))
    assert np.all(np.abs(height(base, late) - REACH) < 0.01) and np.all(tilt(base, late) < 0.02)
    # it may still sway: over a second, what it is carried by is its weight
    assert forces[..., 2].sum(axis=-1).mean() == pytest.approx(WEIGHT, rel=2e-3)
    assert np.all(forces[..., 2] > 0.1 * WEIGHT), "on all four feet"
    friction = np.linalg.norm(forces[..., :2], axis=-1)
    assert np.all(friction <= 0.8 * forces[..., 2] * (1.0 + 1e-9)), "within the cone"


def test_the_forces_are_what_the_motion_needs():
    # in the plane the base is two slides and a hinge, so its rows of inverse dynamics are the force and torque from outside
    w, r = world("planar"), robot("planar")
    x = run(w, above("planar", 0.02), 80, pose("planar"))  # it lands after 32 steps
    u = holding(pose("planar"), x)
    (q, v), after = w.split(x), w.step(x, u)[:, r.nq :]
    needed = r.inverse_dynamics(q, v, (after - v) / w.dt)
    force = w.contact_forces(x, u).sum(axis=1)
    assert np.abs(force[:, [0, 2]] - needed[:, :2]).max() < 1e-8 * WEIGHT
    assert force[:, 2].max() > WEIGHT and force[:20, 2].max() < 1e-9 * WEIGHT


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("drop", [0.05, 0.3])
def test_it_drops_and_stands_again(base, drop):
    w = world(base)
    xs = run(w, above(base, drop), 1500, pose(base))
    # it falls freely until it contact_constraints
    fall = int(0.9 * np.sqrt(2.0 * drop / 9.81) / w.dt)
    t = w.dt * np.arange(fall)
    # semi-implicit Euler falls by g h t / 2 more
    assert np.allclose(height(base, xs[:fall]), REACH + drop - 0.5 * 9.81 * t * (t + w.dt), atol=1e-9)
    assert height(base, xs).min() < REACH - 0.005, "the knees give way"
    assert np.all(np.abs(height(base, xs[-200:]) - REACH) < 0.02) and np.all(tilt(base, xs[-200:]) < 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("base", BASES)
def test_it_is_pushed(base):
    w = world(base, wrenches=("torso",))
    rest = run(w, above(base, 0.0), 400, pose(base))[-1]
    # a batch: nothing, forwards, backwards, down; in space also sideways and a turn
    pushes = np.zeros((6, 1, 6))
    pushes[1:, 0, :3] = [[300.0, 0.0, 0.0], [-300.0, 0.0, 0.0], [0.0, 0.0, -500.0], [0.0, 200.0, 0.0], [0.0, 0.0, 0.0]]
    pushes[5, 0, 5] = 50.0
    x = np.tile(rest, (6, 1))
    at = 0 if base == "planar" else slice(0, 2)
    during = run(w, x, 50, pose(base), wrenches=pushes)
    moved = during[-1] - during[-1][0]
    x_axis = 0
    assert moved[1, x_axis] > 1e-3 and moved[2, x_axis] < -1e-3, "it gives way in the direction of the push"
    assert height(base, during[-1])[3] < height(base, during[-1])[0]
    if base == "free":
        assert moved[4, 1] > 1e-3 and during[-1][5, 5] > 1e-3
    after = run(w, during[-1], 1200, pose(base))
    last = after[-1]
    assert np.all(np.abs(height(base, last) - REACH) < 0.02) and np.all(tilt(base, last) < 0.05), "and stands again"
    assert np.abs(last[:, at] - last[0, at]).max() < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("base", BASES)
def test_a_push_is_carried_by_the_ground(base):
    # at rest the ground carries the weight and what pushes down; taken over a full_robot second, while it settles
    w = world(base, wrenches=("torso",))
    down = np.array([[0.0, 0.0, -400.0, 0.0, 0.0, 0.0]])
    xs = run(w, above(base, 0.0), 1500, pose(base), wrenches=down)
    late = xs[1000:]
    supported = w.contact_forces(late, holding(pose(base), late), wrenches=down)[..., 2].sum(axis=-1)
    assert supported.mean() == pytest.approx(WEIGHT + 400.0, rel=5e-3)


# ---- slopes


# each slope is a world to compile: in space, the steeper one
@pytest.mark.slow
@pytest.mark.parametrize(("base", "degrees"), [("planar", -10.0), ("planar", 20.0), ("free", 20.0)])
def test_it_stands_on_slopes(base, degrees):
    # tan 20 degrees is 0.36: well within the friction of 0.8
    w = world(base, degrees)
    xs = run(w, above(base, 0.0, degrees), 1500, pose(base, degrees))
    late = xs[1000:]
    forces = w.contact_forces(late, holding(pose(base, degrees), late)).sum(axis=-2)
    assert forces[:, 2].mean() == pytest.approx(WEIGHT, rel=2e-3)
    assert np.abs(forces[:, :2].mean(axis=0)).max() < 1e-2 * WEIGHT, "what carries it is vertical: gravity does not win"
    feet = np.array([robot(base).frame_pose(late[:, : robot(base).nq], foot)[1] for foot in FEET[::2]])
    assert np.linalg.norm(feet[:, -1] - feet[:, 0], axis=-1).max() < STAY, "a second later the feet are where they were"


# ---- more digits


@pytest.mark.parametrize("base", slow_except(["planar"], BASES))
def test_128_bits_agree(base):
    pytest.importorskip("gmpy2")
    w = world(base)
    # just before the feet touch: the impact is within the ten steps
    x = y = above(base, 2e-4)
    x[-3:] = y[-3:] = 0.3
    steps = 10 if base == "planar" else 5
    for _ in range(steps):
        u = holding(pose(base), x)
        x = w.step(x, u)
        y = w.step(y, u, backend="mpfr:128")
    y = np.asarray(y, dtype=float)
    assert np.abs(x - y).max() <= CLOSE * np.abs(y).max()
    assert np.any(w.contact_forces(x, holding(pose(base), x))[:, 2] > 0.0), "it has landed"


def test_a_batch_of_wrenches_goes_through_a_rollout() -> None:
    w = cd.Simulation(cd.load("pendulum"), 0.002, wrenches=[cd.load("pendulum").frame_names[-1]])
    push = np.zeros((3, 1, 6))
    push[:, 0, 0] = (0.0, 1.0, 2.0)
    us = np.zeros((5, w.nu))
    xs, As, Bs = w.rollout(w.state(), us, wrenches=push, derivatives=True)
    assert xs.shape == (3, 6, w.nx) and As.shape == (3, 5, w.ndx, w.ndx) and Bs.shape == (3, 5, w.ndx, w.nu)
    for k in range(3):
        alone = w.rollout(w.state(), us, wrenches=push[k], derivatives=True)
        assert all(np.array_equal(a, b[k]) for a, b in zip(alone, (xs, As, Bs), strict=True))
