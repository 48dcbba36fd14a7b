"""Gradients of rollouts: against 512-bit differences over 100 ticks, with contact, checkpoints, frozen robots, on every lane."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from markers import slow_except
from simulate.bodies import a_box, a_pendulum, a_sphere

import condyle as cd
from condyle.errors import ControlError

gmpy2: Any = pytest.importorskip("gmpy2")

TICKS = 100
AGREES = 1e-7  # relative, of a gradient and of 512-bit differences along a random direction: what the issue of rollouts asks for


@cache
def pendulum_loop() -> cd.Loop:
    """A pendulum under a PD law with a lag, whose gains are parameters."""
    world = cd.Simulation(a_pendulum(damping=0.1), dt=0.01, ground=None)
    pd = Proportional(30.0, 3.0, name="pd")
    return cd.Loop(world, lambda x, r: pd(r, x.q, x.v), r=1)


class Proportional(cd.Block):
    """u' = (K (r - q) - B v - u) / lag."""

    def __init__(self, stiffness: float, damping: float, **options: Any) -> None:
        super().__init__(**options)
        self.stiffness = self.parameter("stiffness", stiffness, "N m")
        self.damping = self.parameter("damping", damping, "N m s")
        self.state("u", np.zeros(1))

    def step(self, state: Any, r: Any, q: Any, v: Any) -> Any:
        u = state["u"] + 0.3 * (self.stiffness * (r - q) - self.damping * v - state["u"])
        return u, {"u": u}


@cache
def ball_loop() -> cd.Loop:
    """A ball that bounces and rolls on a plane, pushed at its centre."""
    world = cd.Simulation(a_sphere(), dt=0.004, ground=cd.Plane())
    return cd.Loop(world, lambda x, push: {"wrenches": {"ball": np.concatenate([push, np.zeros(3)])}}, push=3)


def pendulum_call(rng: np.random.Generator, count: int) -> dict[str, Any]:
    loop = pendulum_loop()
    x = loop.state(rng.normal(size=(count, 1)), rng.normal(size=(count, 1)))
    gains = {"pd.stiffness": rng.uniform(20.0, 40.0, count), "pd.damping": np.array(3.0)}
    return {"x": x, "references": {"r": rng.normal(size=(count, TICKS, 1))}, "parameters": gains}


def ball_call(rng: np.random.Generator, count: int) -> dict[str, Any]:
    loop = ball_loop()
    q = np.zeros((count, 7))
    q[:, 2], q[:, 6] = rng.uniform(0.1, 0.13, count), 1.0
    x = loop.state(q, rng.normal(scale=0.5, size=(count, 6)))
    pushes = {"push": rng.normal(scale=2.0, size=(count, TICKS, 3))}
    return {
        "x": x,
        "references": pushes,
        "parameters": {"ground.friction": rng.uniform(0.3, 0.9, count), "ball.mass": np.array(1.1)},
    }


LOOPS = {"pendulum": (pendulum_loop, pendulum_call), "ball": (ball_loop, ball_call)}


def one_robot(call: dict[str, Any], k: int) -> dict[str, Any]:
    return {
        "x": call["x"][k],
        "references": {name: value[k] for name, value in call["references"].items()},
        "parameters": {name: value if value.ndim == 0 else value[k] for name, value in call["parameters"].items()},
    }


def difference(loop: cd.Loop, call: dict[str, Any], direction: dict[str, np.ndarray], weights: dict[str, np.ndarray]) -> float:
    """The derivative of the weighted results of one robot along a direction, in 512 bits."""
    gmpy2.get_context().precision = 512
    h = gmpy2.mpfr(2) ** -150
    names = tuple(name for name in weights if name != "x1")
    _, schedule, rows = loop.schedule(call["references"], None, 1)
    values = loop._values(call["parameters"])
    function = loop._function(names, schedule, values, ("mpfr:512", None, None))
    arrays = {"x": call["x"], **loop._keys(call["x"], 0, None), **rows, **values}
    ends = []
    for sign in (1, -1):
        moved = {}
        for name, value in arrays.items():
            exact = np.array([gmpy2.mpfr(float(v)) for v in np.ravel(value)], dtype=object)
            step = np.ravel(direction[name]) * sign if name in direction else np.zeros(exact.size)
            moved[name] = np.array([a + h * gmpy2.mpfr(float(b)) for a, b in zip(exact, step, strict=True)]).reshape(
                np.shape(value)
            )
        x1, _, *written = function(**moved)
        found = {"x1": x1, **dict(zip(names, written, strict=True))}
        ends.append(
            sum(
                gmpy2.mpfr(float(w)) * v
                for key in weights
                for w, v in zip(np.ravel(weights[key]), np.ravel(found[key]), strict=True)
            )
        )
    return float((ends[0] - ends[1]) / (2 * h))


@pytest.mark.parametrize("name", slow_except([name for name in LOOPS if name != "ball"], LOOPS))
def test_gradients_of_a_hundred_ticks(name: str) -> None:
    rng = np.random.default_rng(11)
    make, arguments = LOOPS[name]
    loop, call = make(), arguments(rng, 8)
    out, pullback = loop.vjp(**call, record=["v"])
    same = loop.rollout(**call, record=["v"])
    assert np.array_equal(out.x, same.x) and np.array_equal(out["v"], same["v"])
    weights = {"x1": rng.normal(size=out.x.shape), "v": rng.normal(size=out["v"].shape)}
    gradients = pullback(**weights)
    given = {"x": call["x"], **call["references"], **call["parameters"]}
    assert {key: value.shape for key, value in gradients.items()} == {key: value.shape for key, value in given.items()}
    for k in (0, 5) if name == "pendulum" else (5,):
        # a shared parameter has the gradient of all robots together: it is looked at alone
        direction = {key: rng.normal(size=value[k].shape) for key, value in given.items() if value.ndim}
        along = sum(float(np.sum(gradients[key][k] * d)) for key, d in direction.items())
        exact = difference(loop, one_robot(call, k), direction, {key: w[k] for key, w in weights.items()})
        assert abs(along - exact) <= AGREES * abs(exact)
    # a parameter that all robots share
    alone = one_robot(call, 2)
    _, one = loop.vjp(**alone)
    shared = next(key for key, value in call["parameters"].items() if value.ndim == 0)
    exact = difference(loop, alone, {shared: np.ones(())}, {"x1": weights["x1"][2]})
    assert abs(one(x1=weights["x1"][2])[shared] - exact) <= AGREES * abs(exact)


def test_every_lane_batch_and_backend_gives_the_same_bits() -> None:
    rng = np.random.default_rng(3)
    loop, call = pendulum_loop(), pendulum_call(rng, 11)
    call["references"]["r"] = call["references"]["r"][:, :20]
    weights = rng.normal(size=call["x"].shape)

    def gradients(**options: Any) -> dict[str, np.ndarray]:
        return loop.vjp(**call, wrt=["x", "r", "pd.stiffness"], **options)[1](x1=weights)

    expected = gradients()
    for options in ({"lanes": 1}, {"lanes": 2}, {"lanes": 8, "threads": 2}, {"backend": "reference"}):
        for key, value in gradients(**options).items():
            assert np.array_equal(value, expected[key]), (options, key)
    alone = loop.vjp(**one_robot(call, 9), wrt=["x", "r", "pd.stiffness"])[1](x1=weights[9])
    assert all(np.array_equal(value, expected[key][9]) for key, value in alone.items())


def test_checkpoints_change_memory_not_gradients() -> None:
    rng = np.random.default_rng(4)
    loop, call = pendulum_loop(), pendulum_call(rng, 5)
    whole, few = (loop.vjp(**call, record=["q"], checkpoint=n) for n in (1, 10))
    assert np.array_equal(whole[0].x, few[0].x) and np.array_equal(whole[0]["q"], few[0]["q"])
    weights = rng.normal(size=whole[0]["q"].shape)
    for key, value in whole[1](q=weights).items():
        assert np.allclose(few[1](q=weights)[key], value, rtol=1e-12, atol=1e-12), key
    with pytest.raises(ControlError, match="100 rows of 1 ticks cannot have checkpoints at every 7 rows"):
        loop.vjp(**call, checkpoint=7)


def test_constant_and_held_references() -> None:
    rng = np.random.default_rng(5)
    loop, call = pendulum_loop(), pendulum_call(rng, 4)
    constant = loop.vjp(call["x"], np.array([0.4]), 20)[1](x1=np.ones(loop.nx))["r"]
    rows = loop.vjp(call["x"], np.full((4, 20, 1), 0.4))[1](x1=np.ones(loop.nx))["r"]
    assert constant.shape == (1,) and np.allclose(constant, rows.sum((0, 1)), rtol=1e-12)
    held = loop.vjp(call["x"], np.full((4, 5, 1), 0.4), 20, record=["q"], every=2)[1](x1=np.ones(loop.nx))["r"]
    assert np.allclose(held, rows.reshape(4, 5, 4, 1).sum(2), rtol=1e-12)


def test_a_robot_that_stops_has_the_gradient_of_its_ticks_before() -> None:
    rng = np.random.default_rng(6)
    loop, call = pendulum_loop(), pendulum_call(rng, 3)
    call["references"]["r"][1, 40:] = np.nan
    out, pullback = loop.vjp(**call, record=["q"])
    assert list(out.status.ok) == [True, False, True]
    found = pullback(x1=np.ones(loop.nx), q=np.ones((TICKS, 1)))
    short = {**call, "references": {"r": call["references"]["r"][:, :40]}}
    _, before = loop.vjp(**short, record=["q"])
    # the state of tick 40 is recorded 60 times more
    last = np.zeros((3, 40, 1))
    last[:, -1] = TICKS - 40
    expected = before(x1=np.ones(loop.nx), q=1.0 + last)
    assert np.all(found["r"][1, 40:] == 0.0) and np.allclose(found["r"][1, :40], expected["r"][1], rtol=1e-12)
    assert np.allclose(found["x"][1], expected["x"][1], rtol=1e-12)
    assert np.all(np.isfinite(found["pd.damping"])) and np.all(np.isfinite(found["x"]))


def test_episodes_end_gradients() -> None:
    """Robot 0 runs through, robot 1 fails and robot 2 falls: a new episode does not depend on the one before."""
    episode = cd.Episode(terminated=lambda x: abs(x.q[0]) > 1.0, reset=lambda draw: {"q": np.array([0.1]), "v": np.zeros(1)})
    world = cd.Simulation(a_pendulum(), dt=0.01, ground=None)
    loop = cd.Loop(world, lambda x, r: 10.0 * (r - x.q), r=1, episode=episode)
    r = np.zeros((3, 30, 1))
    r[1, 10], r[2] = np.nan, 3.0
    out, pullback = loop.vjp(loop.state(np.array([[0.0], [0.5], [0.2]])), r, record=["episode.failed", "episode.terminated"])
    assert np.array_equal(out["episode.failed"].sum(1), [0.0, 1.0, 0.0]) and out["episode.terminated"].sum(1)[2] >= 1.0
    gradients = pullback(x1=np.ones(loop.nx))
    assert np.all(np.isfinite(gradients["r"])) and np.all(gradients["r"][1, :11] == 0.0) and np.any(gradients["r"][1, 11:] != 0.0)
    moving = gradients["x"][:, :2] != 0.0
    assert np.array_equal(moving, [[True, True], [False, False], [False, False]])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda pull, loop, x: loop.vjp(x, np.zeros(1), 5, wrt=["pd.stifness"]), "there is no gradient by 'pd.stifness'"),
        (lambda pull, loop, x: pull(q=1.0), "the rollout gives no 'q' that could have a weight"),
        (lambda pull, loop, x: pull(x1=np.ones(2)), r"the weight of 'x1' has shape (2,), expected (4,)"),
    ],
)
def test_wrong_calls(call: Any, sentence: str) -> None:
    loop = pendulum_loop()
    x = loop.state()
    _, pullback = loop.vjp(x, np.zeros(1), 5)
    with pytest.raises(ControlError) as caught:
        call(pullback, loop, x)
    assert str(caught.value).startswith(sentence) and "\n" not in str(caught.value)


def test_gradients_of_contact_forces() -> None:
    # eight corners are the rows of a table; the impulse of a row depends on the velocity that all of them give
    world = cd.Simulation(a_box(), 0.002, cd.Plane(friction=0.5))
    loop = cd.Loop(world, lambda x: np.zeros(0))
    q, v = world.split(world.stand())
    x = loop.state(q, v + np.array([0.3, 0.1, -0.2, 0.1, -0.4, 0.2]))
    rng = np.random.default_rng(0)
    out, pullback = loop.vjp(x, None, 2, record=["contact_forces"])
    weights = rng.normal(size=out["contact_forces"].shape)
    gradient = pullback(contact_forces=weights)["x"]
    direction = np.concatenate([np.zeros(loop.nq), rng.normal(size=6), np.zeros(loop.nx - loop.nq - 6)])

    def weighted(d: float) -> float:
        return float(np.sum(weights * loop.rollout(x + d * direction, None, 2, record=["contact_forces"])["contact_forces"]))

    assert abs(weighted(0.0)) > 0.1  # it touches
    difference = (weighted(1e-6) - weighted(-1e-6)) / 2e-6
    assert gradient @ direction == pytest.approx(difference, rel=1e-5)
