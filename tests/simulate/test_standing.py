"""world.stand: robots placed on their lowest contact points; the error for states that begin in the ground."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from simulate.bodies import BOX, HALF, a_box, light_feet, lower_corners, simulation

import condyle as cd
from condyle.errors import SimulationError
from condyle.robot.description import Description
from condyle.robot.parts import box, link, solid
from condyle.simulate.standing import contact_centers, gaps
from condyle.simulate.terrain import Ground

GROUNDS = (
    cd.Plane(normal=(0.1, -0.2, 0.9), offset=0.3),
    cd.Slope(20.0, 30.0),
    cd.Stairs(0.1, 0.3, 4, start=-0.2),
    cd.HeightField(np.array([[0.0, 0.1, 0.2], [0.1, -0.1, 0.0], [0.3, 0.2, 0.1]]), 0.5, (-0.5, -0.5)),
    cd.Terrain(lambda x, y: 0.1 * np.sin(3.0 * x) * np.cos(2.0 * y)),
)


@pytest.mark.parametrize("ground", GROUNDS, ids=lambda ground: type(ground).__name__)
@pytest.mark.parametrize("height", (0.0, 0.02))
def test_the_lowest_point_is_on_the_surface(ground: Ground, height: float) -> None:
    robot = light_feet()
    s = cd.Simulation(robot, 0.002, ground, "shin*")
    q = robot.random_configuration(np.random.default_rng(0), 9)
    x = s.stand(q, height=height)
    assert x.shape == (9, s.nx) and np.all(s.split(x)[1] == 0.0)
    np.testing.assert_allclose(gaps(s, contact_centers(s, x[:, : s.robot.nq]))[0].min(axis=1), height, atol=1e-14)
    # only the height changes, and a state of a batch is that alone, bit for bit
    assert np.all(np.delete(x[:, : robot.nq], 2, axis=1) == np.delete(q, 2, axis=1))
    assert np.array_equal(s.stand(q[3], height=height), x[3])


def test_a_box_that_stands_is_at_rest() -> None:
    s = simulation(a_box(), 2e-3, cd.Plane(0.8), lower_corners())
    x = s.stand()
    assert np.max(np.abs(s.rollout(x, np.zeros((256, s.nu))) - x)) < 1e-12
    for base in ("free", "euler", "planar"):
        s = simulation(a_box(base=base), 2e-3, cd.Plane(0.5))
        assert np.sum(s.stand()[: s.robot.nq][:3]) == HALF
        assert s.stand(s.robot.neutral().astype(np.float32)).dtype == np.float32


def test_gravity_says_where_down_is_and_backward_euler_how_deep_it_carries() -> None:
    shape = box(BOX, name="box")
    thing = Description("box", (link("box", solid(1.0, shape), [], [shape]),), ())
    tilted = simulation(cd.load(thing, base="free", gravity=(9.0, 0.0, -9.0)), 2e-3, cd.Plane(2.0))
    np.testing.assert_allclose(tilted.stand()[:3], (-HALF, 0.0, HALF), atol=1e-14)
    soft = simulation(a_box(), 2e-3, cd.Plane(0.5), integrator="backward_euler")
    assert soft.stand()[2] == pytest.approx(HALF - soft.rest_depth, abs=1e-14)


def test_a_fixed_base_and_a_world_without_ground_are_refused() -> None:
    arm = cd.load("ur3")
    with pytest.raises(SimulationError, match=r'base is fixed.*base="free"'):
        cd.Simulation(arm, ground=cd.Plane(offset=-2.0), contacts={"tool": 0.01}).stand()
    with pytest.raises(SimulationError, match="nothing to stand on"):
        simulation(a_box(), 2e-3).stand()
    with pytest.raises(SimulationError, match="no keyframe 'home'"):
        simulation(a_box(), 2e-3, cd.Plane(0.5)).stand("home")
    with pytest.raises(SimulationError, match="7 entries"):
        simulation(a_box(), 2e-3, cd.Plane(0.5)).stand([0.0, 0.0])


def test_a_state_that_begins_in_the_ground_is_an_error() -> None:
    s = simulation(a_box(), 2e-3, cd.Plane(0.5))
    q = np.tile(a_box().neutral(), (3, 1))
    q[:, 2] = HALF, HALF - 9e-3, HALF - 0.03
    s.state(q[:2])
    with pytest.raises(SimulationError, match=r"0.03 m deep in the ground \(state 2 of 3\), with 'box_corner0'.* more; .*stand"):
        s.state(q)
    with pytest.raises(SimulationError, match="deep in the ground"):
        cd.Loop(s, lambda x: {}).state(q[2])
    # by default, and with a velocity, as a step gives it, a state is taken as it is
    s.state(), s.state(q, np.zeros(6))
    assert np.all(s.split(s.stand(q))[0][:, 2] == HALF)


def warned(function: Callable[[], Any]) -> list[str]:
    """The texts of the warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return [str(warning.message) for warning in caught if warning.category is cd.CondyleWarning]


def test_the_default_state_of_a_free_robot_stands() -> None:
    world = cd.Simulation(cd.load("pidog"), 0.002, cd.Plane(friction=0.5), "*_foot")
    with pytest.raises(cd.SimulationError, match="deep in the ground"):
        world.state(world.robot.neutral())
    np.testing.assert_array_equal(world.state(), world.stand())
    # what is above the ground stays there, and a base that cannot move is refused as by state(q)
    high = cd.Simulation(cd.load("pidog"), 0.002, cd.Plane(offset=-1.0), "*_foot")
    np.testing.assert_array_equal(high.state(), high.state(high.robot.neutral()))
    arm = cd.Simulation(cd.load("ur3"), 0.002, cd.Plane(offset=1.0))
    with pytest.raises(cd.SimulationError, match="deep in the ground"):
        arm.state()


def test_unusual_numbers_are_said_once() -> None:
    robot = cd.load("pidog")
    assert warned(lambda: cd.Simulation(robot, 0.05)) == []
    assert warned(lambda: cd.Simulation(robot, 2.0)) == ["a time step of 2 s is too long for most motions; 0.002 s is usual"]
    world, q = cd.Simulation(robot), np.tile(robot.neutral(), (3, 1))
    q[1, 9] = world.robot.upper[9] + 0.09
    assert warned(lambda: world.state(q)) == []
    q[1, 9] = world.robot.upper[9] + 4.0
    (said,) = warned(lambda: world.state(q, np.zeros(world.robot.nv)))
    joint = next(link.joint for link in robot.model.links if link.q.start == 9)
    assert f"joint '{joint}' at {q[1, 9]:.6g} rad, far beyond its limits" in said
    assert warned(lambda: world.state(q)) == []
    assert warned(lambda: cd.Simulation(robot, limits=False).state(q)) == []
