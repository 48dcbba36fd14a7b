"""float32: the arrays decide, and robots stand, slide, fall and walk as in float64, within the band of docs/contact.md."""

from typing import Any

import numpy as np
import pytest
from simulate.bodies import HALF, REST, G, Standing, a_box, a_pendulum, box_on, light_feet, random_drops, simulation, upright
from simulate.test_constrained import on_the_ground

import condyle as cd
from condyle.errors import SimulationError
from condyle.simulate.solver import LIMIT_SINGLE
from condyle.tape.precision import by_precision

F32 = np.float32
MU = 0.5
GROUND = cd.Plane(MU)
DT = 2e-3

# the band: float32 against float64
VELOCITY = 1e-3  # after one step from any state, relative to the velocities and g dt
TYPICAL = 1e-5  # the same, of nine states in ten
AGAIN = 1e-2  # the same, of states that are solved again with a least smoothing
POSITION = 1e-4  # after 2 s of standing, falling and sliding, m
FRICTION = 1e-4  # of the deceleration


def box(**options: Any) -> cd.Simulation:
    return box_on(GROUND, DT, **options)


def feet() -> cd.Simulation:
    return simulation(light_feet(), DT, GROUND, ("foot0", "foot1", "foot2", "foot3"))


def states_in_the_ground(s: cd.Simulation, count: int, seed: int = 0) -> np.ndarray:
    """Bodies turned any way, in and above the ground, at speeds from 1e-4 to 1 of those of `random_drops`."""
    rng = np.random.default_rng(seed)
    q, v = random_drops(rng, count)
    q[:, 2] = rng.uniform(-0.1, 0.15, count)
    return s.state(q, v * 10.0 ** rng.uniform(-4.0, 0.0, (count, 1))).astype(F32)


def feet_in_the_ground(s: cd.Simulation, count: int) -> np.ndarray:
    """Gram-sized feet at and beyond the ends of their slides, at up to 2 m/s."""
    rng = np.random.default_rng(1)
    q = np.tile(s.robot.neutral(), (count, 1))
    q[:, 2], q[:, 7:] = rng.uniform(0.15, 0.25, count), rng.uniform(-0.03, 0.03, (count, 4))
    return s.state(q, rng.uniform(-2.0, 2.0, (count, s.robot.nv))).astype(F32)


# -- the arrays decide


def test_all_arrays_in_float32_give_float32_and_one_in_float64_gives_float64() -> None:
    s = simulation(a_pendulum(), DT, wrenches=("rod",))
    x, u, us, w = np.zeros((3, 2), F32), np.ones((3, 1), F32), np.ones((3, 2, 1), F32), np.zeros((3, 1, 6), F32)
    for single in (s.step(x), s.step(x, u), s.step(x, u, wrenches=w), s.rollout(x, us), s.contact_forces(x), s.energy(x)):
        assert single.dtype == F32
    x1, A, B = s.step(x, u, derivatives=True)
    assert x1.dtype == A.dtype == B.dtype == s.status.residual.dtype == F32
    mixed = (s.step(x, u.astype(float)), s.step(x, wrenches={"rod": w[:, 0].astype(float)}), s.step(x, u.tolist()))
    for double in (*mixed, s.rollout(x, us.astype(float)), s.rollout(x.astype(float), us)):
        assert double.dtype == np.float64
    # mixed arrays are those of float64
    assert mixed[0].tobytes() == s.step(x.astype(float), u.astype(float)).tobytes()


def test_states_keep_the_precision_of_their_parts() -> None:
    s = box()
    q = upright(np.ones(2))
    assert s.state(q.astype(F32)).dtype == s.state(v=np.zeros(6, F32)).dtype == F32
    assert s.state(q.astype(F32), np.zeros(6)).dtype == s.state().dtype == np.float64
    assert all(part.dtype == F32 for part in s.split(s.state(q.astype(F32))))


def test_a_traced_step_has_the_tolerances_of_the_arrays_it_is_called_with() -> None:
    s = box()
    step = cd.function(lambda x: {"x1": s.step(x), "residual": s.status.residual, "ok": np.where(s.status.ok, 1.0, 0.0)}, x=s.nx)
    x = states_in_the_ground(s, 8)
    single, double = step(x), step(x.astype(float))
    assert single.x1.dtype == F32 and np.all(single.ok == 1.0) and np.max(single.residual) > 1e-10
    assert double.x1.dtype == np.float64 and np.all(double.ok == 1.0) and np.max(double.residual) < 1e-10


def test_a_number_by_precision() -> None:
    f = cd.function(lambda x: {"y": x * 0.0 + by_precision(1e-10, 1e-4)}, x=1)
    assert f(np.zeros(1))[0] == f.on("reference")(np.zeros(1))[0] == by_precision(1e-10, 1e-4) == 1e-10
    assert f(np.zeros(1, F32))[0] == f.on("reference")(np.zeros(1, F32))[0] == F32(1e-4)
    assert float(f.on("mpfr:200")(np.zeros(1))[0]) == 1e-10


def test_backward_euler_is_refused() -> None:
    s = simulation(a_box(), DT, integrator="backward_euler")
    with pytest.raises(SimulationError, match=r"^box: backward_euler converges in float64 only; pass float64 arrays$"):
        s.step(s.state().astype(F32))


# -- one step, from any state


@pytest.mark.slow
@pytest.mark.parametrize("which", ("box", "feet"))
def test_every_state_converges_to_that_of_float64(which: str) -> None:
    s = box() if which == "box" else feet()
    x = states_in_the_ground(s, 4000) if which == "box" else feet_in_the_ground(s, 2000)
    found = s.step(x).astype(float)
    assert s.status is not None and np.max(s.status.residual) <= LIMIT_SINGLE
    nq = s.robot.nq
    # deep contacts come up at up to 0.2 m/s: the velocities are those before and after the step
    speed = np.max(np.abs(np.stack([x, found])[..., nq:]), axis=(0, 2))
    error = np.max(np.abs(found - s.step(x.astype(float)))[:, nq:], axis=1) / (speed + G * DT)
    assert np.max(error) <= VELOCITY
    assert np.quantile(error, 0.9) <= TYPICAL


@pytest.mark.slow
def test_dropped_robots_go_on() -> None:
    s = cd.Simulation(cd.load("pidog"), DT, cd.Plane(0.8))
    rng, count, nq = np.random.default_rng(11), 256, s.robot.nq
    q, v = s.robot.random_configuration(rng, count), rng.uniform(-1.0, 1.0, (count, s.robot.nv))
    q[:, :2], q[:, 2] = 0.0, rng.uniform(0.1, 0.4, count)
    x, errors = s.state(q, v).astype(F32), []
    for _ in range(8):
        path = s.rollout(x, np.zeros((32, s.nu), F32))
        assert s.status is not None and np.max(s.status.residual) <= LIMIT_SINGLE
        # states on the way against float64
        x, before = path[:, -1], path[:, ::4].reshape(-1, s.nx)
        expected = s.step(before.astype(float))
        speed = np.max(np.abs(np.stack([before, expected])[..., nq:]), axis=(0, 2))
        errors.append(np.max(np.abs(s.step(before) - expected)[:, nq:], axis=1) / (speed + G * DT))
    # of light links in states that were solved again
    assert np.quantile(errors, 0.999) <= VELOCITY and np.max(errors) <= AGAIN


def test_hostile_numbers_freeze_their_own_lane() -> None:
    s = box()
    rng = np.random.default_rng(3)
    x = states_in_the_ground(s, 600, seed=3)
    clean = s.step(x)
    bad = x.copy()
    rows = np.arange(0, 600, 3)
    values = np.array([np.nan, np.inf, -np.inf, 1e38, -1e38, 1e30, 1e20, 1e10, 1e-40], F32)
    bad[rows, rng.integers(0, s.nx, len(rows))] = rng.choice(values, len(rows))
    found = s.step(bad, freeze=True)
    assert s.status is not None
    ok = s.status.ok
    others = np.setdiff1d(np.arange(600), rows)
    assert np.all(ok[others]) and found[others].tobytes() == clean[others].tobytes()
    # what is not stepped stays, bit for bit, and what is stepped is finite
    assert found[~ok].tobytes() == bad[~ok].tobytes()
    assert np.all(np.isfinite(found[ok]))
    assert not np.any(ok[~np.all(np.isfinite(bad), axis=1)])


@pytest.mark.slow
def test_same_bits_on_all_lanes_batches_threads_and_in_the_reference() -> None:
    s = box()
    x = states_in_the_ground(s, 37, seed=5)
    expected = s.step(x, threads=1)
    for lanes in (1, 2, 4, 8, 16):
        assert s.step(x, lanes=lanes).tobytes() == expected.tobytes()
    assert s.step(x, threads=2).tobytes() == expected.tobytes()
    assert np.concatenate([s.step(x[:5]), s.step(x[5:6]), s.step(x[6:])]).tobytes() == expected.tobytes()
    assert s.step(x[:2], backend="reference").tobytes() == expected[:2].tobytes()


# -- in time


def both(s: cd.Simulation, x: np.ndarray, seconds: float) -> tuple[np.ndarray, np.ndarray]:
    """(the run in float64, the run in float32) without controls."""
    us = np.zeros((round(seconds / s.dt), s.nu))
    return s.rollout(x, us), s.rollout(x.astype(F32), us.astype(F32)).astype(float)


@pytest.mark.parametrize("away", (0.0, 100.0))
def test_a_box_stands_where_it_is(away: float) -> None:
    s = box()
    x = s.state(upright(np.full(4, HALF)))
    x[:, :2] = away
    double, single = both(s, x, 2.0)
    assert np.max(np.abs(single[:, -1, :3] - double[:, -1, :3])) <= 1e-7
    assert np.max(np.abs(single[:, -100:, 7:])) <= 1e-7
    assert np.all(single[:, -1, :2] == away)


def test_boxes_fall_and_come_to_rest() -> None:
    s = box()
    q = upright(np.full(16, HALF + 0.02))
    q[:, 3:5] = np.random.default_rng(0).uniform(-0.05, 0.05, (16, 2))
    q[:, 3:] /= np.linalg.norm(q[:, 3:], axis=1, keepdims=True)
    double, single = both(s, s.state(q), 2.0)
    assert np.max(np.abs(single[:, -1, :7] - double[:, -1, :7])) <= POSITION
    assert np.max(np.abs(single[:, -1, 7:] - double[:, -1, 7:])) <= 1e-5


def test_boxes_slide_and_stop() -> None:
    s = box()
    v = np.zeros((8, 6))
    v[:, 0] = np.linspace(0.5, 4.0, 8)
    double, single = both(s, s.state(upright(np.full(8, HALF - REST)), v), 2.0)
    deceleration = [(xs[:, 0, 7] - xs[:, 20, 7]) / (20 * DT) for xs in (double, single)]
    np.testing.assert_allclose(deceleration[1], deceleration[0], rtol=FRICTION)
    np.testing.assert_allclose(single[:, -1, :3], double[:, -1, :3], rtol=0.0, atol=POSITION)


@pytest.mark.slow
def test_a_dog_moves_its_legs() -> None:
    standing = Standing.of("pidog", DT)
    s, count = standing.simulation, 4
    phase = np.random.default_rng(0).uniform(0.0, 2.0 * np.pi, (count, s.nu))
    runs = []
    for dtype in (np.float64, F32):
        x = np.tile(s.state(standing.target), (count, 1)).astype(dtype)
        for k in range(200):
            q, v = s.split(x)
            target = standing.target[7:] + 0.2 * np.sin(4.0 * np.pi * k * DT + phase)
            u = standing.kp * (target - q[:, 7:]) - standing.kd * v[:, 6:]
            x = s.step(x, u.astype(dtype))
        runs.append(x.astype(float))
        assert x.dtype == dtype
    # up and down by centimetres, in and out of contact
    assert np.max(np.abs(runs[0][:, :2])) > 0.01
    assert np.max(np.abs(runs[1] - runs[0])[:, :7]) <= POSITION


def test_closed_loops_with_contact() -> None:
    world, x = on_the_ground("planar")
    double, single = both(world, np.tile(x, (2, 1)), 0.1)
    assert np.max(np.abs(single[:, -1, : world.robot.nq] - double[:, -1, : world.robot.nq])) <= POSITION


def test_a_cart_that_sticks_goes_on() -> None:
    """Dry friction holds a cart that creeps at a speed far below what rounding leaves of the forces on it."""
    world = cd.Simulation(cd.load("cartpole"), 0.01)
    rng, count = np.random.default_rng(5), 4000
    x = world.state(np.stack([np.zeros(count), rng.normal(size=count) * 3e-3], axis=1)).astype(np.float32)
    u = np.zeros((count, 100, world.nu), np.float32)
    u[..., 0] = rng.normal(size=(count, 100)) * 0.1
    world.rollout(x, u, freeze=True, parameters={"slide.friction": rng.uniform(0.1, 0.5, count).astype(np.float32)})
    assert world.status is not None and np.all(world.status.ok)
