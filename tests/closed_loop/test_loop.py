"""A closed loop in one kernel: the same bits as its step from Python, in any batch and on any backend; names, rates, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from closed_loop.parts import Delay, Lag, NoisyPD, arm_loop

import condyle as cd
from condyle.errors import ControlError, SimulationError

TARGET = np.array([0.4, 0.5])
RECORD = ["q", "v", "u", "pd.error", "servo.angle", "speed", "load", "episode.count", "episode.terminated", "episode.truncated"]


@pytest.fixture(scope="module")
def batch() -> tuple[np.ndarray, Any]:
    """(states, records) of 19 robots over 120 ticks, with noise, delays and resets."""
    loop = arm_loop()
    X = loop.state(np.random.default_rng(2).uniform(-0.2, 0.2, (19, 2)))
    return X, loop.rollout(X, TARGET, 120, seed=7, record=RECORD)


def test_an_episode_is_checked_every_few_ticks() -> None:
    episode = cd.Episode(terminated=lambda x: x.q[0] > -10.0, reset=lambda draw: {"q": np.array([0.1])}, every=5)
    loop = cd.Loop(cd.Simulation(cd.load("chain:1"), 0.004), lambda x: np.zeros(1), episode=episode)
    out = loop.rollout(loop.state(), None, 17, record=["episode.terminated", "episode.count"])
    assert np.array_equal(np.flatnonzero(out["episode.terminated"].ravel()), [4, 9, 14])
    assert np.array_equal(out["episode.count"].ravel(), np.arange(1, 18) // 5)


def test_episodes_end_and_begin_by_themselves(batch: Any) -> None:
    _, out = batch
    counts = out["episode.count"][:, -1]
    assert out["episode.terminated"].sum() > 0 and out["episode.truncated"].sum() > 0 and len(set(counts)) > 1
    ends = (out["episode.terminated"] + out["episode.truncated"]) > 0
    # each robot starts again when its own episode ends, within the reset's bounds, and the others go on
    assert np.array_equal(np.cumsum(ends, axis=1), out["episode.count"])
    assert np.all(np.abs(out["q"][ends]) <= 0.3) and len(np.unique(out["q"][ends][:, 0])) == ends.sum()
    # a random number of an episode changes when the next one begins, and only then
    changed = np.diff(out["load"], axis=1) != 0.0
    assert np.array_equal(changed, ends[:, :-1])


def test_episodes_begin_at_given_states() -> None:
    starts = np.array([[0.1], [0.2], [0.3]])
    episode = cd.Episode(time_limit=0.02, states={"q": starts, "v": 0.0 * starts})
    loop = cd.Loop(cd.Simulation(cd.load("pendulum"), 0.01), lambda x: {}, episode=episode)
    X = loop.state(np.zeros((16, 1)))
    out = loop.rollout(X, None, 8, record=["q"])
    after = out["q"][:, 1::2, 0]
    assert set(np.unique(after)) == {0.1, 0.2, 0.3}
    other = loop.rollout(X, None, 8, record=["q"], parameters={"episode.q": starts + 1.0})["q"][:, 1::2, 0]
    np.testing.assert_array_equal(other, after + 1.0)
    with pytest.raises(ControlError, match="states gives 'speed', which the loop does not have"):
        cd.Loop(None, lambda x: 0.0, dt=0.1, episode=cd.Episode(states={"speed": starts}))


def test_the_step_from_python_has_the_same_bits(batch: Any) -> None:
    X, out = batch
    loop, x = arm_loop(), X[5]
    for k in range(120):
        x, found = loop.step(x, TARGET, seed=7, robots=5, record=["q", "u", "pd.error"])
        for name, value in found.items():
            if name != "q" or not (out["episode.terminated"] + out["episode.truncated"])[5, k]:
                np.testing.assert_array_equal(value, out[name][5, k])
    np.testing.assert_array_equal(x, out.x[5])


@pytest.mark.parametrize("options", [{"lanes": 1}, {"lanes": 2}, {"threads": 2}, {"backend": "reference"}], ids=str)
def test_any_part_of_the_batch_has_the_same_bits(batch: Any, options: dict[str, Any]) -> None:
    X, out = batch
    some = [3, 17, 4]
    ticks = 60 if "backend" in options else 120
    part = arm_loop().rollout(X[some], TARGET, ticks, seed=7, robots=np.array(some), record=RECORD, **options)
    for name in RECORD:
        np.testing.assert_array_equal(part[name], out[name][some, :ticks])


def test_other_seeds_and_robots_have_other_noise(batch: Any) -> None:
    X, out = batch
    loop = arm_loop()
    for options in ({"seed": 8}, {"seed": 7, "robots": np.arange(1, 20)}):
        other = loop.rollout(X, TARGET, 4, record=["pd.error"], **options)["pd.error"]
        assert not np.any(other == out["pd.error"][:, :4])


@pytest.mark.parametrize(("rows", "every"), [(120, 6), (12, 10), (6, 5), (24, 10)])
def test_records_and_references_at_other_rates(batch: Any, rows: int, every: int) -> None:
    X, out = batch
    references = np.broadcast_to(TARGET, (rows, 2))
    found = arm_loop().rollout(X[:3], references, 120, seed=7, record=["q", "u"], every=every)
    for name in ("q", "u"):
        np.testing.assert_array_equal(found[name], out[name][:3, every - 1 :: every])


def test_rows_of_references_are_held() -> None:
    loop = cd.Loop(None, lambda x, r: {"seen": r, "time": x.t}, dt=0.5, r=1)
    out = loop.rollout(loop.state(), np.arange(4.0)[:, None], 12, record=["seen", "time"])
    np.testing.assert_array_equal(out["seen"][:, 0], np.repeat(np.arange(4.0), 3))
    np.testing.assert_array_equal(out["time"], 0.5 * np.arange(12))


def test_a_slow_block_holds_its_output_and_state() -> None:
    class Count(cd.Block):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.state("n", 0.0)

        def step(self, state: Any, *inputs: Any) -> Any:
            return (state["n"], {"dt": self.dt + 0.0 * inputs[0]}), {"n": state["n"] + 1.0}

    count = Count(every=3, name="count")
    loop = cd.Loop(None, lambda x: {"both": count(x.t)}, dt=0.1)
    out = loop.rollout(loop.state(), None, 8, record=["count.0", "count.1.dt", "count.n"])
    np.testing.assert_array_equal(out["count.0"], [0, 0, 0, 1, 1, 1, 2, 2])
    np.testing.assert_array_equal(out["count.n"], [1, 1, 1, 2, 2, 2, 3, 3])
    np.testing.assert_allclose(out["count.1.dt"], 0.3, rtol=1e-15)


def test_a_lag_follows_its_closed_form_and_takes_parameters_without_compiling_again() -> None:
    lag = Lag(1, 0.1, name="lag")
    loop = cd.Loop(None, lambda x, target: lag(target), dt=0.01, target=1)
    lags = np.array([0.02, 0.1, 0.7])
    out = loop.rollout(np.repeat(loop.state()[None], 3, 0), np.ones(1), 50, parameters={"lag.lag": lags}, record=["out"])
    t = 0.01 * np.arange(1, 51)
    np.testing.assert_allclose(out["out"][..., 0], 1.0 - np.exp(-t / lags[:, None]), rtol=1e-12)
    default = loop.rollout(loop.state(), np.ones(1), 50, record=["out"])
    np.testing.assert_array_equal(default["out"], out["out"][1])
    kernels = len(loop._functions)
    loop.rollout(loop.state(), np.ones(1), 20, parameters={"lag.lag": 0.3}, record=["out"])
    assert len(loop._functions) == kernels


def test_states_have_names_and_pack_into_x() -> None:
    loop = arm_loop()
    x = loop.state(q=[0.1, 0.2], **{"servo.angle": np.full((3, 2), 0.5)})
    parts = loop.unpacked(x)
    assert x.shape == (3, loop.nx) and parts["delay.line"].shape == (3, 3, 2)
    np.testing.assert_array_equal(parts["servo.angle"], 0.5)
    np.testing.assert_array_equal(parts["q"], [[0.1, 0.2]] * 3)
    assert list(loop.layout)[:3] == ["q", "v", "tick"] and "pd.output" in loop.layout


def test_a_robot_that_diverges_stays_as_it_is() -> None:
    loop = cd.Loop(cd.Simulation(cd.load("pendulum"), 0.01), lambda x, u: u, u=1)
    X = loop.state(q=np.zeros((3, 1)))
    us = np.zeros((3, 5, 1))
    us[1, 2] = np.nan
    out = loop.rollout(X, us, record=["q", "tick", "residual"], freeze=True)
    assert list(out.status.ok) == [True, False, True] and np.isinf(out["residual"][1, 2:]).all()
    np.testing.assert_array_equal(out["tick"], [[1, 2, 3, 4, 5], [1, 2, 2, 2, 2], [1, 2, 3, 4, 5]])
    with pytest.raises(ControlError, match=r"robot \[1\] stops at tick 2"):
        loop.rollout(X, us)


def test_wrenches_and_contact_forces_balance() -> None:
    """A box at rest: the ground carries its weight and the wrench that pushes it down."""
    from simulate.bodies import a_box

    world = cd.Simulation(a_box(), 0.002, cd.Plane(0.8))

    def control(x: Any) -> Any:
        force = x.contact_forces
        return {"wrenches": {"box": [0.0, 0.0, -3.0, 0.0, 0.0, 0.0]}, "ground": sum(force), "a": x.acceleration}

    loop = cd.Loop(world, control)
    q = world.robot.neutral()
    q[2] = 0.05
    out = loop.rollout(loop.state(q), None, 400, record=["ground", "a", "v"])
    np.testing.assert_allclose(out["ground"][-1], [0.0, 0.0, 9.81 + 3.0], atol=1e-4)
    assert np.abs(out["a"][-1]).max() < 1e-3


def test_loops_begin_where_their_world_does_and_in_the_ground_only_if_told() -> None:
    from simulate.bodies import a_box

    # lifted: its neutral configuration is half in the ground
    world = cd.Simulation(a_box(), 0.002, cd.Plane(0.8))
    loop = cd.Loop(world, lambda x: {})
    assert loop.initial["q"][2] > 0.04 and np.array_equal(loop.state()[: loop.nq], loop.initial["q"])
    assert np.array_equal(loop.state()[: loop.nq + loop.nv], world.state())
    # an arm that cannot be lifted is built, and begins at states that are given
    arm = cd.Loop(cd.Simulation(cd.load("ur3"), 0.002, cd.Plane(offset=0.5)), lambda x: -x.v)
    assert np.array_equal(arm.initial["q"], np.zeros(6))
    with pytest.raises(SimulationError, match="deep in the ground"):
        arm.state()
    assert np.array_equal(arm.state(np.ones(6), np.zeros(6))[:6], np.ones(6))


def test_numbers_of_the_robot_and_of_blocks_vary_from_robot_to_robot() -> None:
    """A mass per robot, and a damping that the function sets for each tick, as in simulations built with these numbers."""
    from simulate.bodies import a_pendulum

    lag = Lag(1, 0.1, name="lag")

    def control(x: Any, target: Any) -> Any:
        return {"u": 5.0 * (lag(target) - x.q), "parameters": {"hinge.damping": 0.1 + 0.0 * x.t}}

    loop = cd.Loop(cd.Simulation(a_pendulum(), 0.005), control, target=1)
    assert {"rod.mass", "hinge.damping", "gravity", "dt", "lag.lag"} <= loop.parameters.keys()
    masses = np.array([0.5, 1.0, 2.0])
    X = np.repeat(loop.state()[None], 3, 0)
    out = loop.rollout(X, np.ones(1), 40, parameters={"rod.mass": masses}, record=["q", "u"])
    for mass, q, u in zip(masses, out["q"], out["u"], strict=True):
        # torque and damping of a mass of 1 kg; the moment of the bob about itself, 1e-9 of the whole, is the same for all
        world = cd.Simulation(a_pendulum(damping=0.1 / mass), 0.005)
        np.testing.assert_allclose(q, world.rollout(world.state(), u / mass)[1:, :1], rtol=1e-7, atol=1e-9)


class Wrong(cd.Block):
    """A block whose step returns what it is given."""

    def __init__(self, found: Any, **options: Any) -> None:
        super().__init__(**options)
        self.found = found
        self.state("s", np.zeros(2))

    def step(self, state: dict[str, Any], *inputs: Any) -> Any:
        """What it was given."""
        return self.found


TWICE = Wrong((1.0, {}))


def _loop(function: Any, **references: Any) -> cd.Loop:
    return cd.Loop(None, function, dt=0.1, **references)


def _wrong(*found: Any) -> cd.Loop:
    """A loop that calls blocks whose steps return these."""
    blocks = [Wrong(each) for each in found]
    return _loop(lambda x: sum(block() for block in blocks))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: cd.Loop("world", lambda x: 0.0), "needs a condyle.Simulation"),
        (lambda: cd.Loop(None, lambda x: 0.0), "needs the length of a tick"),
        (lambda: _loop(3), "needs a function"),
        (lambda: _loop(lambda x: 0.0, r=0), "needs its number of entries"),
        (lambda: _loop(lambda x: 0.0, r=2), "must take \\(x, r\\)"),
        (lambda: _wrong(1.0), "must return \\(output, next state\\)"),
        (lambda: _wrong((1.0, {"t": 1.0})), "gives a state 't', which it does not have; its states are s"),
        (lambda: _wrong((1.0, {"s": np.ones(3)})), "state 'wrong.s' has shape \\(2,\\)"),
        (lambda: _loop(lambda x: TWICE() + TWICE()), "is called twice"),
        (lambda: _wrong((1.0, {}), (1.0, {})), "has the name of another block"),
        (lambda: Lag(1, 0.1, name="two words"), "a name of letters"),
        (lambda: Lag(1, 0.1, every=0), "every must be a whole number"),
        (lambda: Lag(1, -1.0), "parameter 'lag.lag' must be finite and at least 1e-06 s, got -1"),
        (lambda: Lag(1, 0.1)(0.5), "is called inside of a loop's function"),
        (lambda: Lag(1, 0.1).dt, "only inside of a loop's function"),
        (lambda: cd.Episode(time_limit=-1.0), "time_limit must be a positive"),
        (lambda: cd.Episode(terminated=3), "terminated must be a function"),
    ],
)
def test_mistakes_are_one_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(ControlError, match=sentence):
        make()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"record": ["servo.angel"]}, "no 'servo.angel' to record.*servo.angle"),
        ({"parameters": {"pd.kq": 1.0}}, "no parameter 'pd.kq'.*pd.kp"),
        ({"parameters": {"pd.kp": -1.0}}, "parameter 'pd.kp' must be finite and at least 0"),
        ({"steps": 10, "every": 3}, "cannot be recorded every 3"),
        ({"seed": -1}, "seed must be whole numbers"),
        ({"references": np.zeros(3)}, "reference 'target' has 2 entries"),
        ({"references": {"aim": np.zeros(2)}}, "no reference 'aim'"),
        ({"references": np.zeros((3, 2)), "steps": 10}, "do not fit 10 ticks"),
        ({"x": np.zeros(3)}, "x must have"),
    ],
)
def test_mistakes_in_calls_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    loop = arm_loop()
    given: dict[str, Any] = {"x": loop.state(), "references": TARGET, "steps": 10} | options
    with pytest.raises(ControlError, match=sentence):
        loop.rollout(**given)


def test_a_loop_is_traced_once_and_its_kernel_is_kept(tmp_path: Any) -> None:
    """The same loop made again gives the same tape, and blocks with other weights do not compile again."""
    tapes = []
    for scale in (1.0, 2.0):

        class Linear(cd.Block):
            def __init__(self, W: Any) -> None:
                super().__init__(name="linear")
                self.W = self.weights("W", W)

            def step(self, state: Any, *inputs: Any) -> Any:
                W = self.W.value
                return cd.array([sum(W[i, j] * inputs[0][j] for j in range(2)) for i in range(2)]), {}

        linear = Linear(scale * np.eye(2))
        loop = _loop(lambda x, r, linear=linear: linear(r), r=2)
        out = loop.rollout(loop.state(), np.array([1.0, 2.0]), 2, record=["out"])
        np.testing.assert_array_equal(out["out"], [[scale, 2.0 * scale]] * 2)
        tapes += [f.tape.hash for f in loop._functions.values()]
        other = loop.rollout(loop.state(), np.ones(2), 2, record=["out"], parameters={"linear.W": np.ones((2, 2))})
        np.testing.assert_array_equal(other["out"], [[2.0, 2.0]] * 2)
    assert len(set(tapes)) == 1


def test_unused_parts_are_there(batch: Any) -> None:
    """Loops print what they are made of."""
    assert "servo" in repr(arm_loop()) and "pd" in repr(NoisyPD(2, name="pd")) and "delay" in repr(Delay(1))


def test_a_thousand_frictions_masses_and_gains_are_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mass on a rail with dry friction f under kp (1 - q): its first speed is h (kp - f) / m, its last error below f / kp."""
    from simulate.bodies import a_slider

    from condyle.tape.backends import cpu

    kernels: list[str] = []
    original = cpu.cached_kernel
    monkeypatch.setattr(cpu, "cached_kernel", lambda tape, *rest: kernels.append(tape.name) or original(tape, *rest))

    class PD(cd.Block):
        def __init__(self) -> None:
            super().__init__(name="pd")
            self.kp, self.kd = self.parameter("kp", 10.0, minimum=0.0), self.parameter("kd", 1.0)

        def step(self, state: Any, *inputs: Any) -> Any:
            target, x = inputs
            return self.kp * (target - x.q) - self.kd * x.v, state

    pd = PD()
    h, ones = 0.005, np.ones(1)
    loop = cd.Loop(cd.Simulation(a_slider(), h), lambda x, target: pd(target, x), target=1)
    rng = np.random.default_rng(0)
    f, m, kp = rng.uniform(0.1, 2.0, 1000), rng.uniform(0.5, 2.0, 1000), rng.uniform(5.0, 50.0, 1000)
    given = {"rail.friction": f, "mass.mass": m, "pd.kp": kp, "pd.kd": 1.4 * np.sqrt(kp * m)}
    x = np.repeat(loop.state()[None], 1000, 0)
    out = loop.rollout(x, ones, 800, parameters=given, record=["q", "v"])
    np.testing.assert_allclose(out["v"][:, 0, 0], h * (kp - f) / m, rtol=1e-3)  # the smoothing of dry friction
    assert np.all(kp * np.abs(1.0 - out["q"][:, -1, 0]) < f) and np.all(np.abs(out["v"][:, -1]) < 1e-3)
    # other values, and fewer robots: the same kernel, and the same bits
    half = loop.rollout(x[:500], ones, 20, parameters={name: value[:500] for name, value in given.items()}, record=["q", "v"])
    assert np.array_equal(half["q"], out["q"][:500, :20]) and kernels.count("rollout") == 1


@pytest.mark.parametrize("name", ["q", "v", "tick", "seed"])
def test_a_reference_cannot_have_the_name_of_a_state(name: str) -> None:
    with pytest.raises(ControlError, match=f"a reference cannot be called '{name}'"):
        cd.Loop(None, lambda x, **references: 0.0, dt=0.1, **{name: 1})


def test_outputs_without_entries():
    world = cd.Simulation(cd.load("double_pendulum"), dt=0.002)
    loop = cd.Loop(world, lambda x: {"u": np.zeros(2), "nothing": np.zeros(0)})
    found = loop.rollout(np.tile(loop.state(), (3, 1)), steps=4, every=2, record=["nothing", "q"])
    assert found["nothing"].shape == (3, 2, 0) and found["q"].shape == (3, 2, 2)
    function = cd.function(lambda x: {"a": x, "b": np.zeros(0)}, x=3)
    assert function(np.ones((5, 3))).b.shape == (5, 0)
