"""Model-predictive control of an arm's joints: it tracks, keeps speeds and torques within their limits, alone and in a batch."""

from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.errors import ControlError
from condyle.methods.control.arm_controller import ToolSample
from condyle.methods.mpc.arm_mpc import ArmMPC
from condyle.methods.planning.profiles import Sample, quintic

ROBOT = cd.load("double_pendulum")
WORLD = cd.Simulation(ROBOT, dt=0.002, ground=None)
START, GOAL = np.array([0.2, -0.3]), np.array([1.1, 0.4])


def limits() -> np.ndarray:
    """Little more than gravity takes at the goal."""
    return 1.3 * np.abs(ROBOT.gravity_forces(GOAL)) + 1.0


@pytest.fixture(scope="module")
def reaching() -> Any:
    """A loop that reaches a target of the joints, at most 1.5 rad/s, with weak motors."""
    mpc = ArmMPC(WORLD, horizon=0.4, steps=10, every=5, torque=limits(), speed=1.5, friction=True, name="mpc")
    return cd.Loop(WORLD, lambda x, target: mpc(x, Sample(target, 0.0, 0.0)), target=2)


@pytest.mark.slow
def test_it_reaches_a_target_within_its_limits(reaching: Any) -> None:
    out = reaching.rollout(reaching.state(START), GOAL, 1500, record=["q", "v", "u", "mpc_solver.status"])
    np.testing.assert_allclose(out["q"][-1], GOAL, atol=1e-3)
    assert np.all(np.abs(out["u"]) <= limits())
    assert np.max(np.abs(out["u"]) / limits()) > 0.99, "the limit is reached, so it was kept"
    assert np.max(np.abs(out["v"])) < 1.5 * 1.02
    assert np.all(out["mpc_solver.status"][50:] == 0.0)
    free = np.abs(ROBOT.inverse_dynamics(START, np.zeros(2), 100.0 * (GOAL - START)))
    assert np.any(free > limits()), "computed torque would need more"


@pytest.mark.slow
def test_same_bits_alone_and_in_a_batch(reaching: Any) -> None:
    q, targets = START + np.linspace(0.0, 0.5, 5)[:, None], GOAL + np.linspace(0.0, -0.5, 5)[:, None]
    whole = reaching.rollout(reaching.state(q), targets[:, None], 100)
    alone = reaching.rollout(reaching.state(q[3]), targets[3], 100, robots=3)
    assert np.array_equal(alone.x, whole.x[3])


def test_a_motion_is_seen_ahead_and_weights_are_parameters() -> None:
    """With the preview of a motion the tracking error is that of the sampling, and more effort weight makes it larger."""
    move = quintic(START, GOAL, 1.0)
    mpc = ArmMPC(WORLD, horizon=0.2, steps=5, every=5, torque=60.0, friction=True, name="mpc")
    loop = cd.Loop(WORLD, lambda x: mpc(x, move))
    x = loop.state(START)
    error = {}
    for effort in (1e-3, 10.0):
        out = loop.rollout(x, steps=500, every=10, parameters={"mpc.effort": effort})
        error[effort] = np.abs(out["q"] - move.at(0.02 * np.arange(1, 51)).position).max()
    assert error[1e-3] < 5e-3 < 0.02 < np.abs(GOAL - START).min()
    assert error[1e-3] < error[10.0]


def test_it_reaches_a_position_of_a_frame() -> None:
    frame = ROBOT.frame_names[-1]
    R, p = ROBOT.frame_pose(GOAL, frame)
    mpc = ArmMPC(WORLD, horizon=0.4, steps=10, every=5, torque=limits(), frame=frame, friction=True)
    loop = cd.Loop(WORLD, lambda x: mpc(x, ToolSample(R, p)))
    out = loop.rollout(loop.state(START), steps=2000, every=2000)
    np.testing.assert_allclose(ROBOT.frame_pose(out["q"][-1], frame)[1], p, atol=2e-3)


def test_wrong_arguments_are_explained() -> None:
    mpc = ArmMPC(WORLD)
    cases: list[tuple[Any, str]] = [
        (lambda: ArmMPC(WORLD, steps=1), "steps must be"),
        (lambda: ArmMPC(WORLD, horizon=-1.0), "horizon must be"),
        (lambda: ArmMPC(WORLD, torque=[1.0, 2.0, 3.0]), "torque must be"),
        (lambda: ArmMPC(WORLD, frame="tol"), "no frame 'tol'"),
        (lambda: cd.Loop(WORLD, lambda x: mpc(x, START)), "takes a Sample"),
    ]
    for make, words in cases:
        with pytest.raises(ControlError, match=words):
            make()


@pytest.mark.slow
def test_the_solver_of_a_large_arm_is_called_alone() -> None:
    """A kernel too long for lanes inside of one problem is the ordinary one, which LLVM compiles in seconds."""
    world = cd.Simulation(cd.load("ur3"), dt=0.001)
    solver = ArmMPC(world, horizon=0.4, steps=10).solver.solver
    first = solver(np.zeros(12))
    both = solver(np.zeros((2, 12)))
    assert np.all(np.isfinite(first.u)) and np.array_equal(both.u[1], first.u)
