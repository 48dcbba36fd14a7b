"""Contact points in a table: the same solution as one by one, work only for those that touch, and the same bits for everybody."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from markers import slow_except
from tape.random_tapes import same_bits

import condyle as cd
from condyle.robot.description import Description, JointSpec, Limits
from condyle.robot.parts import X, Y, box, link, pose, solid, sphere
from condyle.simulate.points import ContactPoint
from condyle.simulate.step import Inputs, next_velocity

H = 0.004
GROUNDS: dict[str, Any] = {
    "plane": cd.Plane(0.7),
    "stairs": cd.Stairs(0.03, 0.2, 5, friction=0.6),
}


@cache
def chain(base: str = "free") -> cd.Robot:
    """Two arms of two links on a trunk; the trunk and the hands are boxes, the upper arms have a ball each."""
    trunk = box((0.3, 0.2, 0.1), name="trunk")
    links, joints = [link("trunk", solid(2.0, trunk), [], [trunk])], []
    for name, side in (("left", 1.0), ("right", -1.0)):
        ball, hand = sphere(0.03, (0.0, 0.05 * side, 0.0), name=f"ball_{name}"), box((0.06, 0.1, 0.02), name=f"hand_{name}")
        links += [link(f"arm_{name}", solid(0.4, ball), [], [ball]), link(f"hand_{name}", solid(0.2, hand), [], [hand])]
        places = pose((0.0, 0.1 * side, 0.0)), pose((0.0, 0.15 * side, 0.0))
        joints.append(
            JointSpec(f"shoulder_{name}", "revolute", "trunk", f"arm_{name}", places[0], np.array(X), Limits(-1.0, 1.0))
        )
        joints.append(
            JointSpec(f"wrist_{name}", "revolute", f"arm_{name}", f"hand_{name}", places[1], np.array(Y), Limits(-1.5, 1.5))
        )
    return cd.load(Description("chain", tuple(links), tuple(joints)), base=base)


@cache
def world(ground: str, base: str = "free") -> cd.Simulation:
    return cd.Simulation(chain(base), H, GROUNDS[ground], "collisions")


def states(robot: cd.Robot, count: int, seed: int, height: float = 0.06) -> tuple[np.ndarray, np.ndarray]:
    """Poses near the ground, some above it, at random speeds."""
    rng = np.random.default_rng(seed)
    q = robot.random_configuration(rng, count)
    q[:, 7:] = rng.uniform(-0.9, 0.9, (count, 4))
    q[:, :2], q[:, 2] = rng.uniform(-0.1, 0.1, (count, 2)), rng.uniform(0.3 * height, 4.0 * height, count)
    return q, rng.normal(size=(count, robot.nv))


def velocity(simulation: cd.Simulation, table: bool) -> Any:
    """The velocity after a step and the impulses, with the points in a table or one by one."""
    world = simulation._world
    masses = world.effective_masses
    if not table:
        world = type(world)(**{name: getattr(world, name) for name in world.__dataclass_fields__})
        world.__dict__.update(point_table=None, effective_masses=masses)  # the same scales
    assert (world.point_table is not None) == table

    def step(q: Any, v: Any) -> Any:
        found = next_velocity(world, Inputs(q, v, np.zeros(world.nu)))
        return {"v": found.v, "impulses": found.contact_impulses, "residual": found.residual}

    return cd.function(step, q=simulation.robot.nq, v=simulation.robot.nv)


@pytest.mark.parametrize("ground", slow_except(["stairs"], ["plane", "stairs"]))
def test_the_solution_is_that_of_points_one_by_one(ground: str) -> None:
    simulation = cd.Simulation(chain(), H, GROUNDS[ground], ["hand_left", "arm_right", "trunk"])
    q, v = states(simulation.robot, 400, 1)
    found, wanted = velocity(simulation, table=True)(q, v), velocity(simulation, table=False)(q, v)
    assert found[2].max() < 1e-10
    assert 0.3 < np.mean(np.any(found[1][..., 2] > 0.0, axis=1)) < 0.99, "some touch, some do not"
    scale = np.abs(wanted[0]).max(axis=1, keepdims=True)
    assert np.abs((found[0] - wanted[0]) / scale).max() < 1e-8
    assert np.abs(found[1] - wanted[1]).max() < 1e-8 * np.abs(wanted[1]).max()


@pytest.mark.slow
def test_neighbours_that_touch_change_no_bit() -> None:
    simulation = world("plane")
    q, v = states(simulation.robot, 64, 2)
    x = np.concatenate([q, v], axis=1)
    u = np.zeros((64, simulation.nu))
    wanted = simulation.step(x, u, lanes=1)
    order = np.random.default_rng(3).permutation(64)
    for lanes in (2, 4, 8):
        assert same_bits(simulation.step(x, u, lanes=lanes), wanted)
        assert same_bits(simulation.step(x[order], u, lanes=lanes), wanted[order])
    assert same_bits(simulation.step(x[:3], u[:3], backend="reference"), wanted[:3])
    # a state that is no number stays one, and its neighbours do not see it
    broken = x.copy()
    broken[5, 3] = np.nan
    frozen = simulation.step(broken, u, freeze=True)
    others = np.arange(64) != 5
    assert same_bits(frozen[others], wanted[others])


@pytest.mark.slow
def test_gradients_through_the_table() -> None:
    simulation = cd.Simulation(chain(), H, GROUNDS["stairs"], "collisions", smoothing=1e-3)
    q, v = states(simulation.robot, 6, 4)
    x, u = np.concatenate([q, v], axis=1), np.zeros((6, simulation.nu))
    step = cd.function(
        lambda x, mu: {"y": simulation.step(x, np.zeros(simulation.nu), parameters={"ground.friction": mu[0]})},
        x=simulation.nx,
        mu=1,
    )
    rng, friction = np.random.default_rng(5), np.full((6, 1), 0.6)
    weight, ahead = rng.normal(size=x.shape), rng.normal(size=x.shape)
    by_x, by_friction = step.vjp()(x, friction, weight)
    e = 1e-8  # the second derivative by the depth is large
    along = (step(x + e * ahead, friction) - step(x - e * ahead, friction)) / (2.0 * e)
    assert np.allclose((along * weight).sum(1), (by_x * ahead).sum(1), rtol=1e-6, atol=1e-6 * np.abs(by_x).max())
    e = 1e-6
    along = (step(x, friction + e) - step(x, friction - e)) / (2.0 * e)
    assert np.allclose((along * weight).sum(1), by_friction[:, 0], rtol=1e-5, atol=1e-7 * np.abs(by_x).max())
    forces = simulation.contact_forces(x, u)
    assert np.all(np.isfinite(forces)) and forces.shape == (6, len(simulation.contact_points), 3)


@pytest.mark.slow
def test_hundreds_of_points() -> None:
    """A ball covered with 200 points rolls; the code of its step is that of one point."""
    golden = np.pi * (3.0 - np.sqrt(5.0))
    z = np.linspace(-1.0, 1.0, 200)
    around = np.stack(
        [np.sqrt(1.0 - z * z) * np.cos(golden * np.arange(200)), np.sqrt(1.0 - z * z) * np.sin(golden * np.arange(200)), z]
    )
    shape = sphere(0.1, name="ball")
    ball = cd.load(Description("ball", (link("ball", solid(1.0, shape), [], [shape]),), ()), base="free")
    points = [ContactPoint(f"p{k}", 0, tuple(0.1 * p), 0.0) for k, p in enumerate(around.T)]
    simulation = cd.Simulation(ball, H, cd.Plane(0.8), points)
    x = simulation.state()
    x[2], x[simulation.robot.nq] = 0.1, 0.5
    end = simulation.rollout(x, np.zeros((250, 0)))[-1]
    assert end[0] > 0.0 and 0.09 < end[2] < 0.102
    few = cd.Simulation(ball, H, cd.Plane(0.8), points[:20])
    sizes = [w._function("rollout", ("x", "us"), ("cpu", None, None)).tape.block for w in (simulation, few)]
    assert len(sizes[0].nodes) < 1.2 * len(sizes[1].nodes)
