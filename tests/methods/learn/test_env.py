"""Environments: the same bits anywhere, episodes that end and begin rightly, and sentences for what is wrong."""

import gc
import weakref
from threading import Barrier, Thread
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.errors import ControlError
from condyle.methods.learn.env import RecentValues
from condyle.methods.learn.gradients import rollout_vjp

STEPS = 40


class Sensor(cd.Block):
    """Noisy angles with a bias, every third tick."""

    def __init__(self) -> None:
        super().__init__(name="sensor", every=3)
        self.bias = self.parameter("bias", 0.0, "rad")

    def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
        (q,) = inputs
        return {"q": q + 0.01 * self.normal(2) + self.bias}, {}


SENSOR = Sensor()


def closed(x: Any, action: Any, push: Any) -> Any:
    return {"u": cd.array([10.0 * action[0] + push[0], 0.0]), "measured": SENSOR(x.q)["q"]}


def observe(s: Any) -> Any:
    return np.concatenate([s["sensor.q"], s.x.v, s.action, s["push"], 0.01 * s.normal(1)])


def privileged(s: Any) -> Any:
    return cd.array([*s.x.q, s["pole.mass"], s["cart.mass"], s["scale"]])


def reward(s: Any) -> Any:
    return {
        "upright": s["scale"] * np.cos(s.x.q[1]),
        "effort": -0.01 * s.action[0] ** 2 - 0.1 * (s.action[0] - s.previous_action[0]) ** 2,
        "moved": -abs(s.x.q[0] - s.before.q[0]),
    }


def terminate(s: Any) -> Any:
    return (abs(s.x.q[0]) > 1.0) | (abs(s.x.q[1]) > 0.5)


def reset(draw: Any) -> Any:
    return {"q": draw.uniform(-0.2, 0.2, 2), "push": draw.uniform(-1.0, 1.0, 1), "episodes": draw["episodes"] + 1.0}


def update(s: Any, draw: Any) -> Any:
    return {"push": 0.9 * s["push"] + 0.3 * draw.normal(1)}


def loop() -> cd.Loop:
    return cd.Loop(cd.Simulation(cd.load("cartpole"), 0.01), closed, action=1, push=1)


LOOP = loop()
OPTIONS: dict[str, Any] = {
    "num_envs": 12,
    "every": 2,
    "time_limit": 0.5,
    "privileged": privileged,
    "randomize": {"sensor.bias": (-0.1, 0.1), "pole.mass": (0.05, 0.2)},
    "variables": {"push": 1, "episodes": -1.0},
    "update": update,
    "shared": {"scale": 1.0},
    "clip": 1.0,
    "seed": 3,
}


def make(dtype: Any = np.float64, **options: Any) -> cd.VectorEnv:
    return cd.VectorEnv(LOOP, observe, reward, terminate, reset, dtype=dtype, **OPTIONS | options)


def policy(scale: float = 1.0) -> cd.blocks.MLP:
    rng = np.random.default_rng(0)
    layers = [(scale * rng.normal(size=(n, m)), np.zeros(n)) for m, n in ((7, 8), (8, 1))]
    return cd.blocks.MLP(layers, "elu", mean=np.full(7, 0.01), std=np.full(7, 1.1), observation_clip=5.0)


@pytest.fixture(scope="module")
def env() -> cd.VectorEnv:
    return make()


@pytest.fixture(scope="module")
def rollouts(env: cd.VectorEnv) -> Any:
    env.reset(seed=3)
    return env.rollout(policy(), STEPS, std=0.3, final=True, record=["q", "pole.mass", "sensor.q"])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_same_bits_for_any_lanes_threads_and_position(dtype: Any) -> None:
    first = make(dtype)
    wanted = first.rollout(policy(), 25, std=0.3)
    assert wanted.terminated.any() and wanted.observations.dtype == dtype
    others: Any = ({"lanes": 4}, {"threads": 2, "num_envs": 5}) if dtype == np.float64 else ({"lanes": 1},)
    for options in (*others, {"backend": "reference", "num_envs": 2}):
        other = make(dtype, **options)
        found = other.rollout(policy(), 25, std=0.3)
        n = other.num_envs
        for name in ("observations", "privileged", "actions", "means", "rewards", "terminated", "truncated"):
            assert np.array_equal(getattr(found, name), getattr(wanted, name)[:n]), (options, name)
        assert np.array_equal(other.state, first.state[:n])


@pytest.mark.slow
def test_steps_from_python_have_the_bits_of_a_rollout(env: cd.VectorEnv, rollouts: Any) -> None:
    observations, _ = env.reset(seed=3)
    for k in range(STEPS):
        assert np.array_equal(observations, rollouts.observations[:, k])
        observations, rewards, terminated, truncated, infos = env.step(rollouts.actions[:, k])
        assert np.array_equal(rewards, rollouts.rewards[:, k])
        assert np.array_equal(terminated, rollouts.terminated[:, k]) and np.array_equal(truncated, rollouts.truncated[:, k])
        assert np.array_equal(infos["final_obs"], rollouts.final_observations[:, k])
        ended = terminated | truncated
        assert np.array_equal(infos["final_obs"][~ended], observations[~ended])
        assert sum(infos["reward_terms"].values()) == pytest.approx(rewards, abs=1e-12)
    assert np.array_equal(observations, rollouts.last_observations)
    again, _ = env.reset(seed=3)
    given = env.rollout(rollouts.actions)
    assert np.array_equal(given.rewards, rollouts.rewards) and np.array_equal(again, rollouts.observations[:, 0])


def test_a_state_restores_everything(env: cd.VectorEnv) -> None:
    env.reset(seed=5)
    env.rollout(policy(), 7, std=0.3)
    state = env.state
    wanted = env.rollout(policy(), 9, std=0.3).observations
    other = make(seed=77)
    other.restore(state)
    assert np.array_equal(other.rollout(policy(), 9, std=0.3).observations, wanted)


def test_episodes_end_and_begin_rightly(env: cd.VectorEnv, rollouts: Any) -> None:
    ended = rollouts.terminated | rollouts.truncated
    assert rollouts.terminated.any() and rollouts.truncated.any() and not (rollouts.terminated & rollouts.truncated).any()
    assert not rollouts.failed.any()
    out = (abs(rollouts["q"][..., 0]) > 1.0) | (abs(rollouts["q"][..., 1]) > 0.5)
    assert np.array_equal(out, rollouts.terminated)
    # lengths and returns are those of the rewards between two ends
    returns, lengths = [], []
    for robot in range(env.num_envs):
        begin = 0
        for k in np.flatnonzero(ended[robot]):
            returns.append(rollouts.rewards[robot, begin : k + 1].sum())
            lengths.append(k + 1 - begin)
            begin = k + 1
    assert rollouts.episode_lengths.tolist() == lengths and max(lengths) == env.max_episode_steps == 25
    assert rollouts.episode_returns == pytest.approx(returns, abs=1e-12)


def test_randomisation_stays_in_an_episode_and_within_bounds(env: cd.VectorEnv, rollouts: Any) -> None:
    mass, ended = rollouts["pole.mass"], rollouts.terminated | rollouts.truncated
    assert mass.min() >= 0.05 and mass.max() <= 0.2 and len(np.unique(mass)) > env.num_envs
    changed = mass[:, 1:] != mass[:, :-1]
    assert np.array_equal(changed, ended[:, :-1])
    assert np.array_equal(rollouts.privileged[..., 2], mass) and np.all(rollouts.privileged[..., 3] == 1.0)
    plain = make(num_envs=3).without_randomization()
    plain.reset()
    assert np.all(plain["pole.mass"] == 0.1) and np.all(plain["sensor.bias"] == 0.0)


def test_no_random_number_repeats(env: cd.VectorEnv) -> None:
    starts = []
    for _ in range(3):
        env.reset()
        starts.append(env["q"].copy())
        env.step(np.zeros((env.num_envs, 1)))
    assert len(np.unique(np.concatenate(starts)[:, 0])) == 3 * env.num_envs
    env.reset(seed=4)
    masked, _ = env.reset(mask=np.arange(env.num_envs) == 2)
    fresh, _ = env.reset(seed=4)
    assert np.flatnonzero((masked != fresh).any(axis=1)).tolist() == [2]


def test_variables_and_shared_values(env: cd.VectorEnv) -> None:
    env.reset(seed=0)
    assert np.all(env["episodes"] == 0.0)
    found = env.rollout(policy(), STEPS, std=0.3)
    ends = (found.terminated | found.truncated).sum(axis=1)
    assert np.array_equal(env["episodes"], ends)
    env.shared["scale"] = 0.0
    try:
        assert env.rollout(policy(), 2).reward_terms["upright"] == 0.0
    finally:
        env.shared["scale"] = 1.0
    env.set("push", np.full((env.num_envs, 1), 0.5))
    assert np.all(env["push"] == 0.5)


def test_a_policy_without_noise_gives_its_means(env: cd.VectorEnv) -> None:
    block = policy()
    found = env.rollout(block, 3, deterministic=True)
    assert np.array_equal(found.actions, found.means)
    W = [layer.default for layer in block.layers]
    x = np.clip((found.observations - 0.01) / 1.1, -5.0, 5.0) @ W[0][:, :-1].T
    x = np.where(x > 0.0, x, np.exp(np.minimum(x, 0.0)) - 1.0) @ W[1][:, :-1].T
    assert found.means == pytest.approx(x, abs=1e-12)


def test_a_policy_may_remember(env: cd.VectorEnv) -> None:
    class Sum(cd.Block):
        def __init__(self) -> None:
            super().__init__(name="sum")
            self.state("count", 0.0)

        def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
            return cd.array([0.001 * state["count"] + 0.0 * inputs[0][0]]), {"count": state["count"] + 1.0}

    env.reset(seed=0)
    block = Sum()
    found = [env.rollout(block, n) for n in (20, 10)]
    actions = np.concatenate([each.actions[..., 0] for each in found], axis=1)
    ended = np.concatenate([each.terminated | each.truncated for each in found], axis=1)
    for robot in range(env.num_envs):
        count = 0
        for k in range(30):
            assert actions[robot, k] == pytest.approx(0.001 * count)
            count = 0 if ended[robot, k] else count + 1


def test_a_robot_that_fails_begins_again() -> None:
    def broken(s: Any) -> Any:
        return np.sqrt(0.15 - s.x.q[1])

    env = cd.VectorEnv(LOOP, observe, broken, None, reset, **OPTIONS | {"dtype": np.float64})
    found = env.rollout(policy(0.0), 25)
    assert found.failed.any() and np.array_equal(found.failed, found.terminated)
    assert np.all(np.isfinite(found.observations)) and np.all(np.isfinite(found.rewards)) and np.all(np.isfinite(env.state))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"observe": lambda s: s.x.q[0]}, "observe must return a vector"),
        ({"reward": lambda s: s.x.q}, "must be one number for each robot"),
        ({"terminate": lambda s: s.x.q > 0.0}, "one comparison"),
        ({"reset": lambda draw: {"p": 0.0}}, "reset gives 'p', which is not a state of the loop or a variable"),
        ({"reset": lambda draw: {"q": np.zeros(3)}}, r"reset gives 'q' with shape \(3,\), expected \(2,\)"),
        ({"observe": lambda s: s["sensor.p"]}, "has no 'sensor.p'.*did you mean 'sensor.q'"),
        ({"randomize": {"pole.mas": (0.0, 1.0)}}, "no parameter 'pole.mas'.*pole.mass"),
        ({"randomize": {"pole.mass": (-1.0, 1.0)}}, "pole.mass"),
        ({"randomize": {"pole.mass": (0.2, 0.1)}}, "low end 0.2 above its high end 0.1"),
        ({"randomize": {"pole.mass": 0.1}}, "needs \\(low, high\\)"),
        ({"update": lambda s, draw: {"q": 0.0}}, "update gives 'q', which is not a variable"),
        ({"variables": {"episodes": 0.0}}, "the loop has a reference 'push'"),
        ({"variables": {"push": 2, "episodes": 0.0}}, "is a reference of 1 numbers, got 2"),
        ({"action": "actions"}, "must be a reference of the loop .did you mean 'action'"),
        ({"time_limit": -1.0}, "time_limit must be a positive number"),
        ({"num_envs": 0}, "num_envs must be a whole number"),
        ({"dtype": np.int32}, "float32 or float64"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(change: dict[str, Any], sentence: str) -> None:
    functions = {"observe": observe, "reward": reward, "terminate": terminate, "reset": reset}
    with pytest.raises(ControlError, match=sentence):
        cd.VectorEnv(LOOP, **functions | OPTIONS | change)


def test_calls_that_are_wrong(env: cd.VectorEnv) -> None:
    for call, sentence in (
        (lambda: env.step(np.zeros((3, 1))), r"actions must have shape \(12, 1\)"),
        (lambda: env.step(np.full((12, 1), np.nan)), "actions must be finite; robot 0"),
        (lambda: env.step("left"), "actions must be an array of numbers"),
        (lambda: env.rollout("policy", 3), "needs a policy"),
        (lambda: env.rollout(policy(), 0), "steps must be a whole number"),
        (lambda: env.rollout(policy(), 2, record=["qq"]), "has no 'qq'"),
        (lambda: env.rollout(policy(), 2, std=-1.0), "at least 0"),
        (lambda: env.reset(seed=-1), "a seed is a whole number"),
        (lambda: env.restore(np.zeros((2, 2))), "the state of this environment"),
        (lambda: env.set("pole.mass", -1.0), "pole.mass"),
        (lambda: env["pole.maas"], "did you mean 'pole.mass'"),
    ):
        with pytest.raises(ControlError, match=sentence):
            call()
    with pytest.raises(ControlError, match="no shared value 'scal'"):
        env.shared["scal"] = 1.0
    with pytest.raises(ControlError, match="has an Episode of its own"):
        cd.VectorEnv(
            cd.Loop(LOOP.world, lambda x, action: cd.array([action[0], 0.0]), episode=cd.Episode(time_limit=1.0), action=1),
            observe,
            reward,
            num_envs=1,
        )


class Lag(cd.Block):
    """A first-order lag."""

    def __init__(self) -> None:
        super().__init__()
        self.rate = self.parameter("rate", 0.5)
        self.state("y", np.zeros(2))

    def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
        y = state["y"] + self.rate * (inputs[0] - state["y"])
        return y, {"y": y}


LAG = Lag()


def lag() -> cd.VectorEnv:
    """An environment without a robot, which is compiled at once."""
    free = cd.Loop(None, lambda t, action: {"y": LAG(action)}, dt=0.1, action=2)
    return cd.VectorEnv(free, lambda s: s["lag.y"], lambda s: -s["lag.y"] @ s["lag.y"], num_envs=3, dtype=np.float64)


def test_records_given_anew_with_each_call_add_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecentValues, "LIMIT", 3)
    kept, actions, env = [], np.ones((3, 2, 2)), lag()
    for scale in (1.0, 2.0, 3.0, 1.0, 2.0, 3.0):
        record = {"scaled": lambda s, scale=scale: scale * s["lag.y"]}
        kept.append(weakref.ref(record["scaled"]))
        found = env.rollout(actions, record=record | {"lag.y": None})
        assert np.array_equal(found["scaled"], scale * found["lag.y"]) and found["scaled"].all()
    del record
    gc.collect()
    assert sum(function() is not None for function in kept) <= 3


def test_gradients_of_an_environment_with_other_parameters_are_its_own() -> None:
    block = cd.blocks.MLP([(np.zeros((2, 2)), np.ones(2))], "elu")

    def gradient(env: cd.VectorEnv) -> Any:
        found, pullback = rollout_vjp(env, block, 1, np.zeros(2))
        return found["reward"][:, 0], pullback(reward=np.ones((3, 1)))["policy.layer0"][:, :, -1]

    # y = rate, reward = -2 rate^2, and by each bias -2 rate^2
    for env, rate in ((lag(), 0.5), (lag().with_parameters({"lag.rate": 0.25}), 0.25)):
        rewards, by = gradient(env)
        assert np.array_equal(rewards, np.full(3, -2.0 * rate**2)) and np.array_equal(by, np.full((3, 2), -2.0 * rate**2))
    env = lag()
    gradient(env)
    assert np.array_equal(gradient(env.with_parameters({"lag.rate": 0.25}))[0], np.full(3, -0.125))


def test_threads_that_step_one_environment_are_told_what_is_lost() -> None:
    env, counts = make(num_envs=600), {"steps": 0, "lost": 0}
    first, actions = env["step"].copy(), np.zeros((600, 10, 1))
    env.rollout(actions)
    barrier = Barrier(4)

    def steps() -> None:
        barrier.wait()
        for _ in range(5):
            try:
                env.rollout(actions)
            except ControlError as error:
                assert "give each thread its own environment" in str(error)
                counts["lost"] += 1
            else:
                counts["steps"] += 1

    threads = [Thread(target=steps) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts["steps"] + counts["lost"] == 20
    assert np.array_equal(env["step"], first + 10.0 + 10.0 * counts["steps"])


@pytest.mark.parametrize("change", [lambda env: env.set("push", 1.0), cd.VectorEnv.reset, lambda env: env.restore(env.state)])
def test_a_step_during_which_the_environment_is_changed_is_dropped(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    env = make(num_envs=2)
    call, seen = env._arrays.call, []

    def interrupted(function: Any, arrays: Any) -> Any:
        found = call(function, arrays)
        monkeypatch.setattr(env._arrays, "call", call)
        change(env)
        seen.append(env.state)
        return found

    monkeypatch.setattr(env._arrays, "call", interrupted)
    with pytest.raises(ControlError, match="changed, by another thread or a signal handler, while it computed this call"):
        env.step(np.ones((2, 1)))
    assert np.array_equal(env.state, seen[0])
    env.step(np.ones((2, 1)))


def test_states_that_a_reset_gives_are_arrays_of_traced_values() -> None:
    def seen(s: Any) -> Any:
        return np.concatenate([np.clip(s.x.v, -0.05, 0.05), np.where(s["v"] > 0.0, s.x.q, -s.x.q)])

    free = cd.Loop(cd.Simulation(cd.load("double_pendulum"), 0.01), lambda x, action: action, action=2)
    env = cd.VectorEnv(free, seen, reward=lambda s: 1.0 * (s.x.v[0] > 0.0), reset=lambda draw: {"v": draw.normal(2)}, num_envs=6)
    v = env["v"]
    assert np.array_equal(
        env.observations, np.concatenate([np.clip(v, -0.05, 0.05), np.where(v > 0.0, env["q"], -env["q"])], axis=1)
    )
    _, rewards, *_ = env.step(np.zeros((6, 2)))
    assert np.array_equal(rewards, 1.0 * (env["v"][:, 0] > 0.0)) and 0.0 < rewards.sum() < 6.0


def test_quaternions_of_resets_have_length_one() -> None:
    world = cd.Simulation(cd.load("quadruped"), 0.002)
    nq, start = world.robot.nq, world.state()[: world.robot.nq]
    free = cd.Loop(world, lambda x, action: np.concatenate([action, np.zeros(world.nu - 1)]), action=1)

    def turned(draw: Any, scale: float = 1.0) -> Any:
        angle = draw.uniform(-0.5, 0.5)
        quaternion = np.array([0.0, 0.0, np.sin(angle), np.cos(angle)]) * scale
        return {"q": np.concatenate([start[:3], quaternion, start[7:]])}

    def make_env(reset: Any) -> cd.VectorEnv:
        return cd.VectorEnv(free, lambda s: s.x.q, lambda s: 1.0, reset=reset, num_envs=3)

    sentence = r"reset: the quaternion \(x, y, z, w\) of joint '.*' in q must have length 1, got (1.1|2)"
    for wrong in (lambda draw: turned(draw, 1.1), lambda draw: {"q": np.concatenate([start[:6], [2.0], start[7:]])}):
        with pytest.raises(ControlError, match=sentence):
            make_env(wrong)
        with pytest.raises(ControlError, match=sentence):
            cd.Loop(world, lambda x: np.zeros(world.nu), episode=cd.Episode(time_limit=1.0, reset=wrong))
    states = {"q": np.tile(start, (2, 1)) * np.array([[1.0], [1.1]])}
    with pytest.raises(ControlError, match=sentence):
        cd.Loop(world, lambda x: np.zeros(world.nu), episode=cd.Episode(time_limit=1.0, states=states))
    cd.Loop(world, lambda x: np.zeros(world.nu), episode=cd.Episode(time_limit=1.0, reset=turned))
    env = make_env(turned)
    with pytest.raises(ControlError, match=sentence):
        env.set("q", 1.1 * env["q"])
    env.set("q", env["q"])
    assert env["q"].shape == (3, nq)
