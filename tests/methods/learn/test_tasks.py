"""Tasks by name: their environments run, their names and sizes fit, and levels rise and fall."""

import numpy as np
import pytest

import condyle as cd
from condyle.apps import quadrupeds as quadruped
from condyle.errors import ControlError
from condyle.methods.learn.curriculum import levels
from condyle.methods.learn.mirror import mirrored
from condyle.methods.learn.task import load_task, task_names


def calm(env: cd.VectorEnv) -> cd.blocks.MLP:
    return cd.blocks.MLP([(np.zeros((env.action_size, env.observation_size)), np.zeros(env.action_size))])


def test_unknown_names_are_said_with_the_nearest() -> None:
    with pytest.raises(ControlError, match=r"no tasks for the robot 'cartpol' .did you mean 'cartpole'"):
        load_task("cartpol", "balance")
    with pytest.raises(ControlError, match=r"'cartpole' has no task 'balanc' .did you mean 'balance'"):
        load_task("cartpole", "balanc")
    assert ("birotor", "hover") in task_names() and all(robot == "cartpole" for robot, _ in task_names("cartpole"))


@pytest.mark.parametrize(("robot", "name"), [("cartpole", "swing-up"), ("birotor", "hover")])
def test_small_tasks_run(robot: str, name: str) -> None:
    task = load_task(robot, name)
    env = task.make(4)
    assert env.observation_size == sum(size for _, size in task.observation) and env.action_size == len(task.action)
    found = env.rollout(calm(env), 30, std=0.1)
    assert not found.failed.any() and np.all(np.isfinite(found.rewards)) and set(task.measure(found)) >= {"falls"}
    plain = task.make(2, randomize=False)
    assert not plain.plan.randomized


def test_a_pole_is_swung_up_when_it_was_upright_for_two_seconds() -> None:
    env = load_task("cartpole", "swing-up").make(2, randomize=False, anywhere=True)
    env.set("q", np.array([[0.0, 0.0], [0.0, np.pi]]))
    env.set("v", 0.0)
    env.rollout(np.zeros((2, 90, 1), np.float32))
    assert np.all(env["succeeded"] == 0.0) and env["held"] == pytest.approx([1.8, 0.0], abs=1e-3)
    env.rollout(np.zeros((2, 20, 1), np.float32))
    assert env["succeeded"] == pytest.approx([2.0, 0.0], abs=0.03)
    # half of the training's episodes begin anywhere, those of a judging hang
    starts = np.abs(load_task("cartpole", "swing-up").make(64, anywhere=True)["q"][:, 1])
    assert 16 < (starts < 3.0).sum() < 48


@pytest.mark.slow
def test_the_mirror_of_a_quadruped_is_one_of_its_physics() -> None:
    """Two robots of which one is the mirror image of the other, under mirrored actions, stay mirror images."""
    try:
        task = load_task("solo12", "walk")
        env = task.make(2, randomize=False, level=0.0, dtype=np.float64)
    except cd.RobotError:
        pytest.skip("Solo12 is not installed (extra robots)")
    rng = np.random.default_rng(0)
    q, v, action = env["q"][0].copy(), 0.3 * rng.standard_normal(18), rng.uniform(-1.0, 1.0, (10, 12))
    angles, signs = task.mirror.action
    image = q.copy()
    image[7:] = np.array(signs) * q[7:][list(angles)]
    order, flips = [*range(6), *(6 + k for k in angles)], np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0, *signs])
    env.set("q", np.stack([q, image]))
    env.set("v", np.stack([v, flips * v[order]]))
    command = np.array([0.5, 0.2, 0.3])
    env.set("command", np.stack([command, [1.0, -1.0, -1.0] * command]))
    env.rollout(np.stack([action, mirrored(action, task.mirror.action)]))
    seen = env.privileged_observations
    # its masses are symmetric to 1e-5
    assert mirrored(seen[0], task.mirror.privileged) == pytest.approx(seen[1], abs=1e-3) and np.abs(seen[0]).max() > 0.5
    assert len(task.mirror.observation[0]) == env.observation_size


@pytest.mark.slow
def test_a_quadruped_stands_on_its_own_ground() -> None:
    """PiDog as a quadruped by the names of its feet and joints: no robot of another package is needed."""
    dog = cd.load("pidog").lock(["head", "tail"])
    stand = {"lf_hip": 0.7, "lf_knee": 0.2, "rf_hip": -0.7, "rf_knee": -0.2}
    stand |= {"lh_hip": 1.0, "lh_knee": 0.05, "rh_hip": -1.0, "rh_knee": -0.05}
    legs = quadruped.Legs(dog, ("lf_foot", "rf_foot", "lh_foot", "rh_foot"), stand, kp=4.0, kd=0.05, effort=0.3)
    env = quadruped.make(8, legs=legs)
    assert np.all(env["level"] == 0.0) and np.all(env["ground.roughness"] == 0.0)
    env.set("level", 1.0)
    env.reset()
    assert np.all(env["level"] == 1.0) and env["ground.roughness"].max() > 0.0 and len(np.unique(env["ground.slope"])) == 8
    found = env.rollout(calm(env), 10, record=["q"])
    assert not found.failed.any() and found["q"][..., 2].min() > 0.0
    judged = quadruped.make(2, legs=legs, level=0.5)
    assert np.all(judged["level"] == 0.5) and judged["ground.roughness"].max() > 0.0
    with pytest.raises(ControlError, match=r"no frame 'lf_fot' for a foot .did you mean 'lf_foot'"):
        quadruped.make(2, legs=quadruped.Legs(dog, ("lf_fot",), stand, 4.0, 0.05, 0.3))
    with pytest.raises(ControlError, match="no angle for the joint"):
        quadruped.make(2, legs=quadruped.Legs(dog, ("lf_foot",), {"hip": 0.0}, 4.0, 0.05, 0.3))


def test_levels_rise_and_fall() -> None:
    loop = cd.Loop(cd.Simulation(cd.load("cartpole"), 0.01), lambda x, action: cd.array([action[0], 0.0]), action=1)
    env = cd.VectorEnv(
        loop,
        lambda s: s.x.q,
        lambda s: 0.0 * s.x.q[0],
        lambda s: abs(s.x.q[1]) > 0.3,
        lambda draw: {"q": np.array([0.0, 0.4]) * draw["falls"], "falls": draw["falls"]},
        num_envs=4,
        time_limit=0.2,
        variables={"level": 0.5, "falls": 0.0},
        curriculum=levels(up=0.2, down=0.1),
        randomize={"pole.mass": lambda draw: 0.1 + draw["level"]},
        dtype=np.float64,
    )
    env.set("falls", np.array([0.0, 1.0, 0.0, 1.0]))
    env.reset()
    assert np.all(env["level"] == 0.5) and env["pole.mass"] == pytest.approx(0.6)
    for k in range(3):
        env.rollout(np.zeros((4, 20, 1)))
        rising, falling = min(0.5 + 0.2 * (k + 1), 1.0), env["level"][1]
        assert env["level"][0] == pytest.approx(rising) and env["pole.mass"][0] == pytest.approx(0.1 + rising)
    assert falling == 0.0
