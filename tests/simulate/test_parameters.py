"""Parameters of a world: the list of them, values against worlds built with them, derivatives, sweeps, impossible values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from constraints.test_parameters import linkage, with_foot
from simulate import bodies

import condyle as cd
from condyle.robot.description import Description, JointSpec, Limits
from condyle.robot.parts import Y, body, link, pose
from condyle.simulate.ground_parameters import with_ground_parameters
from condyle.simulate.kernels import KERNELS, Stepper, compiled
from condyle.simulate.parameters import parameterized
from condyle.simulate.points import ContactPoint
from condyle.tape.backends import cpu
from condyle.tape.trace import trace

SAME = 1e-12  # the same formula with another order of operations
EXACT = 1e-9  # derivatives in float64 against differences in 512 bits, relative to the largest entry
INERTIA = np.array([[0.02, 0.001, 0.0], [0.001, 0.03, 0.002], [0.0, 0.002, 0.025]])


# ---- two worlds with every kind of number


@cache
def pendulum(other: bool = False) -> cd.Simulation:
    """A pendulum with all joint forces; the other one has other numbers everywhere."""
    a = ARM if other else {}
    hinge = JointSpec(
        "hinge", "revolute", "stand", "rod", pose(rpy=a.get("hinge.rpy", (0.0, 0.0, 0.0))), np.array(Y),
        Limits(a.get("hinge.lower", -0.8), a.get("hinge.upper", 1.2), None, a.get("hinge.effort", 3.0)),
        a.get("hinge.damping", 0.1), a.get("hinge.friction", 0.2), a.get("hinge.armature", 0.01),
    )  # fmt: skip
    I = a.get("rod.inertia", 1e-3 * np.eye(3))
    moments = (I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2])
    rod = link("rod", body(a.get("rod.mass", 1.0), a.get("rod.com", (1.0, 0.0, 0.0)), moments))
    robot = cd.load(Description("pendulum", (link("stand"), rod), (hinge,)), gravity=a.get("gravity", (0.0, 0.0, -9.81)))
    spring = (a.get("hinge.stiffness", 5.0), a.get("hinge.rest", 0.3))
    return cd.Simulation(
        robot,
        a.get("dt", 0.002),
        springs={"hinge": spring},
        smoothing=a.get("contact.smoothing", 1e-3),
        limit_depth=a.get("limit.depth", 0.01),
    )


ARM: dict[str, Any] = {
    "rod.mass": 1.7,
    "rod.com": (0.8, 0.1, -0.05),
    "rod.inertia": INERTIA,
    "hinge.armature": 0.05,
    "hinge.friction": 0.6,
    "hinge.damping": 0.4,
    "hinge.stiffness": 9.0,
    "hinge.rest": -0.2,
    "hinge.effort": 1.5,
    "hinge.lower": -0.7,
    "hinge.upper": 1.1,
    "hinge.rpy": (0.2, 0.1, 0.3),
    "gravity": (1.0, 0.5, -5.0),
    "contact.smoothing": 2e-3,
    "limit.depth": 0.02,
    "dt": 0.003,
}


@cache
def box(other: bool = False) -> cd.Simulation:
    """A box on a slope, and another box on another one."""
    a = BOX if other else {}
    robot = bodies.a_box()
    if other:
        part = link("box", body(a["box.mass"], a["box.com"], tuple(np.diag(a["box.inertia"]))))
        robot = cd.load(Description("box", (part,), ()), base="free")
    points = [replace(point, friction=None) for point in bodies.lower_corners()]
    if other:
        points[1] = ContactPoint("corner1", 0, a["corner1.position"], a["corner1.radius"], a["corner1.friction"])
    ground = cd.Slope(a.get("ground.slope", 10.0), a.get("ground.azimuth", 20.0), a.get("ground.friction", 0.3))
    return cd.Simulation(
        robot,
        a.get("dt", 0.002),
        ground,
        points,
        rest_depth_mm=1000.0 * a.get("contact.rest_depth", 1e-3),
        recovery_time=a.get("contact.recovery_time", 0.1),
        smoothing=a.get("contact.smoothing", 1e-3),
    )


BOX: dict[str, Any] = {
    "box.mass": 3.0,
    "box.com": (0.01, -0.02, 0.005),
    "box.inertia": np.diag([0.02, 0.03, 0.04]),
    "corner1.position": (-0.11, 0.1, -0.045),
    "corner1.radius": 0.004,
    "corner1.friction": 0.9,
    "ground.slope": 14.0,
    "ground.azimuth": -30.0,
    "ground.friction": 0.5,
    "contact.rest_depth": 2e-3,
    "contact.smoothing": 2e-3,
    "contact.recovery_time": 0.2,
    "dt": 0.003,
}
WORLDS: list[tuple[Callable[..., cd.Simulation], dict[str, Any]]] = [(pendulum, ARM), (box, BOX)]


def states(simulation: cd.Simulation, count: int = 40) -> np.ndarray:
    """Swings into both limits, or boxes that touch the slope, hit it, and fly."""
    rng = np.random.default_rng(0)
    if simulation.robot.nq == 1:
        return simulation.state(rng.uniform(-0.85, 1.25, (count, 1)), rng.standard_normal((count, 1)))
    q = np.tile(bodies.on_slope(10.0, bodies.HALF - 5e-4), (count, 1))
    q[:, :3] += 0.003 * rng.standard_normal((count, 3))
    return simulation.state(q, rng.standard_normal((count, 6)))


def close(a: Any, b: Any, tolerance: float = SAME) -> bool:
    """Whether all entries agree, relative to the largest one."""
    return bool(np.max(np.abs(np.asarray(a) - b)) <= tolerance * max(1.0, float(np.max(np.abs(b)))))


# ---- the list


def test_the_list_has_units_defaults_and_bounds() -> None:
    known = pendulum().parameters
    assert known["hinge.damping"].default == 0.1 and known["hinge.damping"].unit == "N m s/rad"
    assert known["hinge.stiffness"].default == 5.0 and known["rod.stiffness"] is known["hinge.stiffness"]
    assert known["gravity"].shape == (3,) and known["rod.inertia"].shape == (3, 3)
    assert known["rod.mass"].minimum == 0.0 and known["dt"].default == 0.002
    lines = repr(known).splitlines()
    assert lines[0].split() == ["parameter", "unit", "default"] and len(lines) == len(known) + 1
    assert any(line.split() == ["hinge.friction", "N", "m", "0.2"] for line in lines)
    feet = cd.Simulation(cd.load("pidog"), 0.004, cd.Plane(), ["*_foot"]).parameters
    with pytest.raises(cd.SimulationError, match=r"'lf_foot' is fixed to link 'lf_lower', and 'lf_lower\.mass' is that of both"):
        feet.require("lf_foot.mass", cd.SimulationError)
    # a frame and a contact point have the same name
    assert {"lf_foot.position", "contact:lf_foot.position", "lf_foot.friction", "ground.slope"} <= set(feet)


@pytest.mark.parametrize("kernel", ["step", "jacobians"])
def test_default_numbers_give_the_same_tape(kernel: str) -> None:
    """Numbers that are not traced are constants: no operation is added."""
    rounded = ("com", "inertia", "rpy", "slope", "azimuth")  # computed from the numbers of the world, and back
    for make, _ in WORLDS:
        simulation = make()
        hashes = []
        for names in ([], [n for n in simulation.parameters if n.rpartition(".")[2] not in rounded]):
            world = parameterized(simulation._world, {name: simulation.parameters[name].default for name in names})
            stepper = Stepper(world, simulation.integrator, 1)
            tape = trace(lambda x, u, stepper=stepper: KERNELS[kernel](stepper, x, u), x=simulation.nx, u=max(simulation.nu, 1))
            hashes.append(tape.hash)
        assert hashes[0] == hashes[1]


# ---- values


@pytest.mark.parametrize(("make", "values"), WORLDS, ids=["pendulum", "box"])
def test_a_call_gives_the_world_built_with_the_numbers(make: Callable[..., cd.Simulation], values: dict[str, Any]) -> None:
    one, other = make(), make(True)
    x, u = states(one), np.full((40, one.nu), 2.0)
    assert close(one.step(x, u, parameters=values), other.step(x, u))
    # the values of the world itself: nothing but roundings of 1/mass changes
    own = {name: one.parameters[name].default for name in values}
    assert close(one.step(x, u, parameters=own), one.step(x, u))
    # each by itself changes the step
    for name, value in values.items():
        assert np.any(one.step(x, u, parameters=own | {name: value}) != one.step(x, u, parameters=own)), name


@pytest.mark.slow
def test_outputs_of_a_world_follow_its_parameters() -> None:
    one, other, x = box(), box(True), states(box(), 5)
    assert close(one.contact_forces(x, parameters=BOX), other.contact_forces(x))
    own = {name: BOX[name] for name in ("box.mass", "box.com", "box.inertia")}
    assert close(one.energy(x, parameters=own), other.energy(x))
    x1, A, B = pendulum().step(states(pendulum(), 5), np.zeros((5, 1)), parameters=ARM, derivatives=True)
    for found, built in zip(
        (x1, A, B), pendulum(True).step(states(pendulum(), 5), np.zeros((5, 1)), derivatives=True), strict=True
    ):
        assert close(found, built)


@pytest.mark.slow
def test_derivatives_of_a_backward_step_follow_its_parameters() -> None:
    one, other = (
        cd.Simulation.from_config(s.robot, replace(s.config, integrator="backward_euler")) for s in (pendulum(), pendulum(True))
    )
    x, u, weight = states(one)[3], np.array([0.4]), np.array([1.0, 2.0])
    found = (
        *one.step(x, u, parameters=ARM, derivatives=True, backend="reference"),
        one.step_hessian(x, u, weight, parameters=ARM, backend="reference"),
    )
    built = (*other.step(x, u, derivatives=True, backend="reference"), other.step_hessian(x, u, weight, backend="reference"))
    assert all(close(a, b, EXACT) for a, b in zip(found, built, strict=True))


def test_time_and_substeps_follow_dt() -> None:
    def force(model: Any, q: Any, v: Any, t: Any) -> Any:
        return np.sin(3.0 * t) - q

    def made(dt: float) -> cd.Simulation:
        return cd.Simulation(bodies.a_slider(damping=0.5), dt, integrator="rk2", substeps=2, force=force)

    x, us = made(0.01).state([0.1]), np.zeros((8, 1))
    for dt in (0.01, 0.025):
        assert close(made(0.01).rollout(x, us, parameters={"dt": dt}), made(dt).rollout(x, us))
    xs, As, _ = made(0.01).rollout(x, us, parameters={"dt": [0.01, 0.025]}, derivatives=True)
    assert xs.shape == (2, 9, 3) and close(As[1], made(0.025).rollout(x, us, derivatives=True)[1])


def test_lengths_of_a_closed_loop() -> None:
    at = np.array([1.0625, 0.0, -0.25])
    one, other = (cd.Simulation(robot, 0.001) for robot in (linkage(), with_foot(at)))
    x = one.state([0.7], [-1.5])
    found = one.step(
        x, parameters={"rocker.position": at, "coupler.mass": one.parameters["coupler.mass"].default}, backend="reference"
    )
    assert close(found, other.step(x, backend="reference"))


def test_other_grounds_have_heights_and_frictions() -> None:
    p, heights = np.array([0.13, 0.2, 0.31]), 0.1 * np.arange(9.0).reshape(3, 3)
    stairs = with_ground_parameters(cd.Stairs(0.1, 0.3, 4), {"rise": 0.2, "run": 0.4, "rounding": 0.1, "start": 0.05})
    for found, built in (
        (stairs, cd.Stairs(0.2, 0.4, 4, rounding=0.1, start=0.05)),
        (with_ground_parameters(cd.HeightField(heights * 0.0, 0.5), {"heights": heights}), cd.HeightField(heights, 0.5)),
        (with_ground_parameters(cd.Plane(offset=0.1), {"slope": 10.0, "azimuth": 20.0, "height": 0.0}), cd.Slope(10.0, 20.0)),
        (
            with_ground_parameters(cd.Slope(10.0, 20.0), {"height": 0.2}),
            cd.Plane(0.8, cd.Slope(10.0, 20.0).plane.normal, 0.2 * np.cos(np.radians(10.0))),
        ),
        (
            with_ground_parameters(cd.Terrain(lambda x, y: 0.1 * x), {"height": 0.2, "friction": 0.1}),
            cd.Terrain(lambda x, y: 0.1 * x + 0.2, 0.1),
        ),
    ):
        assert close(np.hstack(found.distance(p)), np.hstack(built.distance(p))) and found.friction == built.friction


# ---- derivatives


def differences(simulation: cd.Simulation, x: np.ndarray, u: np.ndarray, values: dict[str, Any]) -> dict[str, np.ndarray]:
    """Central differences of the step by each parameter, in 512 bits."""
    gmpy2 = pytest.importorskip("gmpy2")
    specs = [simulation.parameters[name] for name in values]
    precise = replace(simulation._stepper, world=replace(simulation._world, tolerance=2.0**-410))
    shapes: dict[str, Any] = {"x": simulation.nx, "u": max(simulation.nu, 1)} | {s.port: s.shape for s in specs}
    step = compiled(precise, "step", {s.port: s.name for s in specs}, **shapes).on("mpfr:512")
    out = {}
    with gmpy2.context(precision=512):
        e = gmpy2.mpfr(2) ** -200
        for spec in specs:
            columns = []
            for k in range(max(int(np.prod(spec.shape)), 1)):
                ends = []
                for sign in (1, -1):
                    moved = dict(values)
                    entries = [gmpy2.mpfr(float(v)) for v in np.ravel(values[spec.name])]
                    entries[k] = entries[k] + sign * e
                    moved[spec.name] = np.array([*entries, None], dtype=object)[:-1].reshape(spec.shape)
                    ends.append(step(x, u, *moved.values())[0])
                columns.append(np.array((ends[0] - ends[1]) / (2 * e), dtype=float))
            out[spec.port] = np.stack(columns, axis=-1).reshape(simulation.nx, *spec.shape)
    return out


@pytest.mark.parametrize("make", [pendulum, box], ids=["pendulum", "box"])
def test_derivatives_are_those_of_512_bits(make: Callable[..., cd.Simulation]) -> None:
    simulation = make()
    names = list(ARM) if make is pendulum else ["box.mass", "ground.slope", "ground.friction", "corner1.radius", "dt"]
    values = {name: simulation.parameters[name].default for name in names}
    x, u = states(simulation)[3], np.full(max(simulation.nu, 1), 4.0)
    f = simulation.step_function(names)
    ports = [simulation.parameters[name].port for name in names]
    assert list(f.inputs) == ["x", "u", *ports]
    found = f.jacobian("x1", ports).on("reference")(x, u, *values.values())
    unused = []
    for port, J, exact in zip(ports, found, differences(simulation, x, u, values).values(), strict=True):
        assert close(J, exact, EXACT), port
        unused += [] if np.any(exact) else [port]
    assert unused == (["hinge_upper"] if make is pendulum else [])  # it is in its lower limit


def test_a_step_inside_a_trace_takes_traced_parameters() -> None:
    world, x = pendulum(), states(pendulum())[3]

    def swing(mass: Any, friction: Any) -> Any:
        return world.step(x, [0.4], parameters={"rod.mass": mass, "hinge.friction": friction, "hinge.damping": 0.1})

    f = cd.function(swing, mass=(), friction=()).on("reference")
    given = {"rod.mass": 1.5, "hinge.friction": 0.3, "hinge.damping": 0.1}
    assert close(f(1.5, 0.3), world.step(x, [0.4], parameters=given))
    g = world.step_function(["rod.mass", "hinge.friction"]).jacobian("x1", "rod_mass").on("reference")
    assert close(f.jacobian("out", "mass")(1.5, 0.3), g(x, [0.4], 1.5, 0.3))


# ---- sweeps


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the kernels that are compiled or loaded during a test."""
    found: list[str] = []
    compiled_before = cpu.cached_kernel

    def counted(tape: Any, *options: Any) -> Any:
        found.append(tape.name)
        return compiled_before(tape, *options)

    monkeypatch.setattr(cpu, "cached_kernel", counted)
    yield found


def test_a_thousand_frictions_and_masses_are_one_call(kernels: list[str]) -> None:
    """Boxes that slide at 1 m/s stop after v^2 / (2 mu g), and the scales of contact follow the mass: it changes nothing."""
    world = cd.Simulation(bodies.a_box(), 0.004, cd.Plane(), bodies.lower_corners())
    friction = np.repeat(np.linspace(0.3, 1.0, 500), 2)
    mass = np.stack([np.geomspace(0.01, 1.0, 500), np.geomspace(1.0, 100.0, 500)], axis=1).ravel()
    inertia = mass[:, None, None] * world.parameters["box.inertia"].default
    given = {"ground.friction": friction, "box.mass": mass, "box.inertia": inertia}
    x = world.state(bodies.upright(bodies.HALF - 1e-3), [1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    xs = world.rollout(x, np.zeros((150, 0)), parameters=given)
    assert xs.shape == (1000, 151, world.nx)
    assert np.max(np.abs(xs[:, -1, 0] - 1.0 / (2.0 * friction * 9.81)) * friction) < 2.5e-3  # v dt / 2, relative
    assert np.max(np.abs(xs[::2] - xs[1::2])) < 1e-9
    # other values, and one alone: nothing is compiled for them
    again = world.rollout(x, np.zeros((20, 0)), parameters=given | {"box.mass": 2.0 * mass})
    assert np.array_equal(
        again[:3],
        world.rollout(x, np.zeros((20, 0)), parameters={k: v[:3] * (2.0 if k == "box.mass" else 1.0) for k, v in given.items()}),
    )
    assert kernels.count("rollout") == 1 and "step" not in kernels


def test_a_thousand_gains_are_one_call(kernels: list[str]) -> None:
    """Springs and dampers as gains of an implicit controller: each holds its weight where K (rest - q) = m g cos(q)."""
    world = pendulum()
    stiffness, mass = np.linspace(40.0, 4000.0, 1000), np.linspace(0.1, 1.0, 1000)
    given = {
        "hinge.stiffness": stiffness,
        "hinge.damping": 0.05 * stiffness,
        "hinge.rest": 0.5,
        "hinge.friction": 0.0,
        "rod.mass": mass,
    }
    x = world.rollout(world.state([0.5]), np.zeros((400, 1)), parameters=given)[:, -1]
    # at angle zero the rod points along x, and gravity turns it by m g cos(q)
    assert np.max(np.abs(stiffness * (0.5 - x[:, 0]) + mass * 9.81 * np.cos(x[:, 0]))) < 1e-3
    assert kernels.count("rollout") == 1 and "step" not in kernels


def test_a_sweep_has_the_same_bits_anywhere() -> None:
    world, x = pendulum(), states(pendulum(), 7)
    given = {"rod.mass": np.linspace(0.5, 2.0, 7), "hinge.friction": np.linspace(0.0, 0.6, 7)}
    found = world.step(x, np.zeros((7, 1)), parameters=given)
    for k in (0, 6):
        alone = {name: value[k] for name, value in given.items()}
        assert np.array_equal(world.step(x[k], [0.0], parameters=alone), found[k])
        assert np.array_equal(world.step(x[k], [0.0], parameters=alone, backend="reference"), found[k])
    assert np.array_equal(world.step(x, np.zeros((7, 1)), parameters=given, lanes=2), found)


def test_parameters_follow_states_to_float32() -> None:
    world, x = pendulum(), states(pendulum(), 100)
    given = {"rod.mass": np.geomspace(0.1, 10.0, 100), "hinge.friction": np.linspace(0.0, 0.5, 100), "hinge.upper": np.inf}
    single = world.step(x.astype(np.float32), np.zeros((100, 1), np.float32), parameters=given)
    assert single.dtype == np.float32 and close(single, world.step(x, np.zeros((100, 1)), parameters=given), 1e-5)


# ---- impossible values


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"rod.mass": -1.0}, "'rod.mass' must be finite and greater than 0 kg, got -1$"),
        ({"rod.mass": [1.0, np.nan]}, r"'rod.mass' .* got nan for robot \[1\]"),
        ({"hinge.friction": [[0.1, -0.1]]}, r"'hinge.friction' must be .* at least 0 N m, got -0.1 for robot \[0, 1\]"),
        ({"hinge.lower": [0.0, 3.0]}, r"'hinge.lower' must not be above 'hinge.upper', got 3 and 1.2 for robot \[1\]"),
        ({"dt": 0.0}, "'dt' must be finite and greater than 0 s, got 0"),
        ({"rod.inertia": np.diag([1.0, 1.0, 3.0])}, r"'rod.inertia' must obey a \+ b >= c .* 1, 1, 3"),
        ({"rod.inertia": np.diag([1.0, 1.0, -1.0])}, "'rod.inertia' must be positive definite"),
        ({"rod.inertia": np.arange(9.0).reshape(3, 3)}, "'rod.inertia' must be symmetric"),
        ({"rod.com": 1.0}, r"'rod.com' must be an array of shape \(3,\) \(m\), or one for each robot; got shape \(\)"),
        ({"rod.mass": "heavy"}, "'rod.mass' must be a number .kg., got 'heavy'"),
        ({"rod.mas": 1.0}, r"no parameter 'rod.mas' \(did you mean 'rod.mass'\?\)"),
        ({"hing.friction": 1.0}, r"no parameter 'hing.friction' \(did you mean 'hinge.friction'\?\)"),
        ({"rod.mass": 1.0, "hinge.mass": 1.0}, "'rod.mass' is given twice, once as 'hinge.mass'"),
        ({"rod.mass": [1.0, 2.0, 3.0]}, "batch"),
        (["rod.mass"], "given as {name: value}"),
    ],
)
def test_impossible_values_are_said(given: Any, sentence: str) -> None:
    world = pendulum()
    with pytest.raises(cd.CondyleError, match=sentence):
        world.rollout(states(world, 2), np.zeros((2, 3, 1)), parameters=given)
