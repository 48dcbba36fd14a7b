"""A robot whose limbs are computed as one: the same step as without, and the same bits on a GPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from markers import slow_except
from tape.ptx_interpreter import Code, Device

import condyle as cd
from condyle.dynamics.limbs import find_limbs
from condyle.dynamics.solve import ancestor_dofs
from condyle.simulate import folded_world, integrate, solver
from condyle.simulate.folded_derivatives import folded_for_derivatives
from condyle.simulate.kernels import Stepper, jacobians, rollout, step
from condyle.tape.captured import BYTES
from condyle.tape.function import Function
from condyle.tape.limbs import has_limbs, lanes_of
from condyle.tape.partition import device_form, partition
from condyle.tape.ptx import ptx_source
from condyle.tape.trace import Rows, trace_values

AGREE = 1e-9  # of two orders of the same sums, relative to the largest change of a state


@pytest.fixture(scope="module")
def worlds() -> dict[str, cd.Simulation]:
    """Quadrupeds: with equal limbs, with mirrored ones and a neck, with all points that can touch, on a slope, planar."""
    heights = 0.01 * np.random.default_rng(0).normal(size=(9, 9))
    field = cd.HeightField(heights, 0.1, (-0.4, -0.4))
    return {
        "fourlimb": cd.Simulation(cd.load("fourlimb"), 0.002, cd.Plane(0.7), "feet"),
        "pidog": cd.Simulation(cd.load("pidog"), 0.002, cd.Plane(0.5), "*_foot"),
        "pidog, all points": cd.Simulation(cd.load("pidog"), 0.002, cd.Plane(0.5)),
        "fourlimb on a slope": cd.Simulation(cd.load("fourlimb"), 0.002, cd.Slope(10.0, friction=0.7), "feet"),
        "pidog on rough ground": cd.Simulation(cd.load("pidog"), 0.002, cd.Uneven(roughness=0.02, step=0.01), "*_foot"),
        "pidog on a height field": cd.Simulation(cd.load("pidog"), 0.002, field, "*_foot"),
        "planar fourlimb": cd.Simulation(cd.load("fourlimb", "planar"), 0.002, cd.Plane(0.7), "feet"),
    }


def stepper(world: cd.Simulation) -> Stepper:
    return Stepper(world.world, world.integrator, 1)


def traced(world: cd.Simulation) -> Function:
    """The step as it is traced now, not from a cache."""
    return Function(trace_values(lambda x, u: step(stepper(world), x, u), x=world.nx, u=world.nu))


def states(world: cd.Simulation, count: int = 24, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Random states near the ground: some stand, some fall, some have joints beyond their limits."""
    rng = np.random.default_rng(seed)
    x = np.tile(world.stand(), (count, 1))
    nq, nv = world.robot.nq, world.robot.nv
    q = np.array([world.robot.integrate(x[k, :nq], 0.05 * rng.normal(size=nv) * (k % 4)) for k in range(count)])
    q[::5, -1] += 4.0  # beyond a limit
    x[:, :nq], x[:, nq:] = q, 0.3 * rng.normal(size=(count, nv)) * (np.arange(count) % 3)[:, None]
    return x, 0.1 * rng.normal(size=(count, world.nu))


@pytest.mark.parametrize(
    "name",
    slow_except(
        ["pidog"],
        [
            "fourlimb",
            "pidog",
            "pidog, all points",
            "fourlimb on a slope",
            "pidog on rough ground",
            "pidog on a height field",
            "planar fourlimb",
        ],
    ),
)
def test_the_step_is_that_without_limbs(worlds: dict[str, cd.Simulation], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = worlds[name]
    x, u = states(world)
    folded = traced(world)
    assert has_limbs(folded.tape.block)
    for module in (folded_world, solver):
        monkeypatch.setattr(module, "find_limbs", lambda pattern: None)
    plain = traced(world)
    assert not has_limbs(plain.tape.block)
    a, b = folded(x, u), plain(x, u)
    assert np.all(a.residual < 1e-10) and np.all(b.residual < 1e-10)
    assert np.max(np.abs(a.x1 - b.x1)) < AGREE * np.max(np.abs(b.x1 - x))


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["f64", "f32"])
def test_a_gpu_gives_the_bits_of_the_processor(worlds: dict[str, cd.Simulation], precision: str) -> None:
    """Three steps of one PiDog that stands and one beyond a limit, in one launch, by the interpreter of PTX."""
    world, dtype = worlds["pidog"], np.float64 if precision == "f64" else np.float32
    function = Function(trace_values(lambda x, us: rollout(stepper(world), x, us), x=world.nx, us=Rows(None, world.nu)))
    x, u = (a.astype(dtype) for a in states(world, 6))
    x, us = x[[1, 5]], np.repeat(u[[1, 5], None], 2, axis=1)
    expected = function(x, us)
    form = device_form(function.tape, precision)
    assert lanes_of(form.block) == 4
    out = [np.full((2, 2 * world.nx), 7.5, dtype), np.full((2, 1), 7.5, dtype)]
    given = [x, us.reshape(2, -1)]
    words = np.array([w for a in (*given, *out) for w in (a.ctypes.data, a.strides[0], a.itemsize)], np.int64)
    code = Code(Device(), ptx_source(form, precision, sm=90).encode(), "kernel")
    assert code.number(BYTES) > 1000  # what its solver takes from outside
    code.launch(1, 32, words.tobytes(), (2, 2), shared=code.number(BYTES))
    assert np.array_equal(out[0].reshape(2, 2, -1), expected.xs, equal_nan=True)
    assert np.array_equal(out[1], expected.residual.reshape(2, 1), equal_nan=True)


# ---- A and B

DERIVATIVES = 1e-9  # of two orders of the same sums, relative to the largest entry: contacts are stiff


def traced_derivatives(made: Stepper) -> Function:
    """A step with A and B as they are traced now."""
    nx, nu = made.nx, made.world.nu
    return Function(trace_values(lambda x, u: jacobians(made, x, u), x=nx, u=nu))


def with_drives(made: Stepper) -> Stepper:
    """Drives of other numbers at each joint with a motor, some of them with a limit of effort."""
    world, joints = made.world, list(made.world.joints)
    for k in world.actuated:
        numbers = {"drive_stiffness": 30.0 + k, "drive_damping": 0.5, "drive_target": 0.01 * k}
        joints[k] = replace(joints[k], **numbers, drive_effort=2.0 if k % 3 else None)
    return replace(made, world=replace(world, joints=tuple(joints)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pidog", "pidog on rough ground", "planar fourlimb", "explicit", "drives on a slope"])
def test_derivatives_are_those_without_limbs(
    worlds: dict[str, cd.Simulation], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = worlds.get(name, worlds["fourlimb on a slope" if "slope" in name else "pidog"])
    made = stepper(world)
    if name == "explicit":
        made = replace(made, integrator="explicit_euler", world=replace(made.world, implicit=False))
    elif name.startswith("drives"):
        made = with_drives(made)
    x, u = states(world)
    x[-1, world.robot.nq + 3 :] = 400.0  # so fast that momentum is lost
    folded = traced_derivatives(made)
    monkeypatch.setattr(integrate, "folded_for_derivatives", lambda world: None)
    plain = traced_derivatives(made)
    assert len(folded.tape.block.nodes) < 0.7 * len(plain.tape.block.nodes)
    a, b = folded(x, u), plain(x, u)
    assert np.array_equal(a.x1, b.x1)
    for found, expected in ((a.A, b.A), (a.B, b.B)):
        scale = np.max(np.abs(expected), axis=(1, 2), keepdims=True)
        assert np.max(np.abs(found - expected) / scale) < DERIVATIVES


def test_forces_and_tables_are_not_folded(worlds: dict[str, cd.Simulation]) -> None:
    robot = cd.load("pidog")
    pulled = cd.Simulation(robot, 0.002, cd.Plane(0.5), "*_foot", force=lambda model, q, v: 0.1 * v)
    for world in (worlds["pidog, all points"], pulled):
        assert folded_for_derivatives(world.world) is None


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["f64", "f32"])
def test_a_gpu_gives_the_bits_of_derivatives(worlds: dict[str, cd.Simulation], precision: str) -> None:
    """A step with A and B as two kernels with a thread for each limb, by the interpreter of PTX."""
    world, dtype = worlds["pidog"], np.float64 if precision == "f64" else np.float32
    function = traced_derivatives(stepper(world))
    x, u = (np.ascontiguousarray(a[[1, 5]], dtype) for a in states(world, 6))
    expected = function(x, u)
    parts = partition(function.tape, precision)
    assert [lanes_of(part.tape.block) for part in parts] == [4, 4]
    arrays = [x, u, *[np.full((2, port.size), 7.5, dtype) for port in function.tape.outputs]]
    arrays.append(np.zeros((2, parts[0].tape.outputs[0].size), dtype))  # what the first one passes on
    for part in parts:
        own = [arrays[p] for p in part.ports]
        words = np.array([w for a in own for w in (a.ctypes.data, a.strides[0], a.itemsize)], np.int64)
        code = Code(Device(), ptx_source(part.tape, precision, sm=90).encode(), "kernel")
        code.launch(1, 32, words.tobytes(), (2, 2), shared=code.number(BYTES))
    for found, wanted in zip(arrays[2:], expected, strict=False):
        assert np.array_equal(found, np.asarray(wanted).reshape(found.shape), equal_nan=True)


def test_limbs_are_branches_with_one_pattern() -> None:
    found = find_limbs(ancestor_dofs(cd.load("pidog").model))
    assert found is not None and found.count == 4
    assert len(found.limbs[0]) == 2 and found.coordinates == cd.load("pidog").nv
    assert find_limbs(ancestor_dofs(cd.load("ur3").model)) is None
    assert find_limbs(ancestor_dofs(cd.load("birotor").model)) is None  # two are not enough


def test_folding_and_unfolding_gives_the_numbers_back() -> None:
    limbs = find_limbs(ancestor_dofs(cd.load("pidog").model))
    assert limbs is not None
    n = limbs.coordinates
    both = Function(trace_values(lambda a: {"a": limbs.unfold(limbs.fold(a))}, a=n))
    a = np.random.default_rng(0).normal(size=n)
    assert np.array_equal(both(a), a)
