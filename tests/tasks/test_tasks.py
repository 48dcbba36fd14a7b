"""Tasks by name: their environments run, their names and sizes fit, and levels rise and fall."""

import numpy as np
import pytest

import condyle as cd
from condyle.errors import ControlError
from condyle.learn.curriculum import levels
from condyle.tasks import quadruped
from condyle.tasks.registry import load_task, task_names


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
