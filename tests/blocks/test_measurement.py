"""The errors that all sensors share, against their definitions: values, statistics, bits and sentences."""

from typing import Any
from zlib import crc32

import numpy as np
import pytest

import condyle as cd
from condyle.blocks import IMU, Encoders, Measurement, Quantity, Sensor

DT, SEED, ROBOTS, TICKS = 0.01, 7, 64, 1024
T = np.arange(TICKS) * DT
TRUTH = np.stack([np.sin(3.0 * T), 5.0 * T], axis=-1)


class Gyroscope(Sensor):
    """A sensor whose noise is a density."""

    def __init__(self, **options: Any) -> None:
        super().__init__([Quantity("rate", (2,), "rad/s", density=True)], options)

    def step(self, state: dict[str, Any], rate: Any) -> tuple[Any, dict[str, Any]]:
        return self.measure(state, {"rate": rate})


noisy = Measurement(2, "V", noise=0.1, name="noisy")
walking = Measurement(2, "V", walk=0.3, name="walking")
late = Measurement(2, "V", delay=0.03, name="late")
between = Measurement(2, "V", delay=0.0175, max_delay=0.04, name="between")
lossy = Measurement(2, "V", dropout=0.2, name="lossy")
slow = Measurement(2, "V", noise=0.1, every=4, name="slow")
coarse = Measurement(2, "V", scale=1.5, bias=(0.1, -0.2), noise=0.02, limit=1.0, resolution=0.25, name="coarse")
complete = Measurement(
    2, "V", delay=0.02, scale=1.5, bias=(0.1, -0.2), walk=0.3, noise=0.1, limit=2.0, resolution=0.1, dropout=0.2, every=2,
    name="complete",
)  # fmt: skip
dense = Gyroscope(noise=0.02, every=4, name="dense")
BLOCKS: tuple[Any, ...] = (noisy, walking, late, between, lossy, slow, coarse, complete, dense)
RECORD = [f"{block.name}.value" for block in BLOCKS[:-1]] + ["dense.rate", "lossy.valid", "complete.valid"]


def measured(x: Any, values: Any) -> Any:
    for block in BLOCKS:
        block(values)
    return {}


@pytest.fixture(scope="module")
def loop() -> Any:
    return cd.Loop(None, measured, dt=DT, values=2)


@pytest.fixture(scope="module")
def records(loop: Any) -> Any:
    """Of all robots, (robots, ticks, 2)."""
    x = np.tile(loop.state(), (ROBOTS, 1))
    return loop.rollout(x, TRUTH, TICKS, seed=SEED, record=RECORD)


def numbers(block: Any, draw: int, count: int, kind: Any = cd.random.normal) -> np.ndarray:
    """The random numbers of a block's draw, (robots, ticks, count): keyed by seed, robot, tick and channel."""
    channel = crc32(block.name.encode()) + draw
    found: np.ndarray = kind(SEED, np.arange(ROBOTS)[:, None], np.arange(TICKS), channel, shape=count)
    return found


# ---- values


def test_noise_is_the_random_number_of_its_keys(records: Any) -> None:
    expected = TRUTH + numbers(noisy, 0, 2) * 0.1
    assert np.abs(records["noisy.value"] - expected).max() < 1e-15 * 64


def test_a_random_walk_adds_up(records: Any) -> None:
    drift = np.cumsum(numbers(walking, 0, 4)[:, :-1, 2:] * (0.3 * np.sqrt(DT)), axis=1)
    assert np.array_equal(records["walking.value"][:, 0], np.broadcast_to(TRUTH[0], (ROBOTS, 2)))
    assert np.abs(records["walking.value"][:, 1:] - TRUTH[1:] - drift).max() < 1e-12


def test_a_delay_gives_earlier_values(records: Any) -> None:
    earlier = TRUTH[np.maximum(np.arange(TICKS) - 3, 0)]
    assert np.array_equal(records["late.value"][0], earlier)
    # between two samples, linear: exact for the ramp
    assert np.allclose(records["between.value"][0, 4:, 1], 5.0 * (T[4:] - 0.0175), rtol=0.0, atol=1e-13)
    assert np.array_equal(records["between.value"][0, 0], TRUTH[0])


@pytest.mark.parametrize("delay", [0.0, 0.01, 0.0175, 0.04])
def test_a_delay_can_be_given_with_a_call(loop: Any, delay: float) -> None:
    found = loop.rollout(loop.state(), TRUTH, TICKS, parameters={"between.delay": delay}, record=["between.value"])
    assert np.allclose(found["between.value"][4:, 1], 5.0 * (T[4:] - delay), rtol=0.0, atol=1e-13)


def test_saturation_and_quantisation_come_last(records: Any) -> None:
    before = TRUTH * 1.5 + [0.1, -0.2] + numbers(coarse, 0, 2) * 0.02
    expected = np.rint(np.clip(before, -1.0, 1.0) / 0.25) * 0.25
    same = np.abs(records["coarse.value"] - expected) < 1e-12
    # a value between two steps may be rounded to the other one
    assert same.mean() > 0.9999 and np.abs(records["coarse.value"]).max() == 1.0


def test_lost_samples_are_held(records: Any) -> None:
    valid = (numbers(lossy, 0, 1, cd.random.uniform)[..., 0] >= 0.2) | (np.arange(TICKS) == 0)
    assert np.array_equal(records["lossy.valid"], valid)
    last = np.maximum.accumulate(np.where(valid, np.arange(TICKS), 0), axis=1)
    assert np.array_equal(records["lossy.value"], TRUTH[last])


def test_a_slow_sensor_holds_its_value(records: Any) -> None:
    value = records["slow.value"].reshape(ROBOTS, -1, 4, 2)
    assert np.array_equal(value, np.broadcast_to(value[:, :, :1], value.shape))
    expected = TRUTH[::4] + numbers(slow, 0, 2)[:, ::4] * 0.1
    assert np.abs(value[:, :, 0] - expected).max() < 1e-13


def test_all_effects_in_their_order(records: Any) -> None:
    valid = (numbers(complete, 0, 1, cd.random.uniform)[:, ::2, 0] >= 0.2) | (np.arange(TICKS // 2) == 0)
    draws = numbers(complete, 1, 4)[:, ::2]
    drift = np.cumsum(draws[..., 2:] * (0.3 * np.sqrt(2.0 * DT)), axis=1)
    drift = np.concatenate([np.zeros((ROBOTS, 1, 2)), drift[:, :-1]], axis=1)
    delayed = TRUTH[np.maximum(np.arange(0, TICKS, 2) - 2, 0)]
    fresh = np.clip(delayed * 1.5 + ([0.1, -0.2] + drift + draws[..., :2] * 0.1), -2.0, 2.0)
    fresh = np.rint(fresh / 0.1) * 0.1
    last = np.maximum.accumulate(np.where(valid, np.arange(TICKS // 2), 0), axis=1)
    expected = np.take_along_axis(fresh, last[..., None], axis=1)
    assert np.array_equal(records["complete.valid"][:, ::2], valid)
    assert (np.abs(records["complete.value"][:, ::2] - expected) < 1e-9).mean() > 0.9999


# ---- statistics


def test_noise_is_white_and_independent(records: Any) -> None:
    error = (records["noisy.value"] - TRUTH) / 0.1
    count = error.size
    assert abs(error.mean()) < 4.0 / np.sqrt(count) and abs(error.var() - 1.0) < 4.0 * np.sqrt(2.0 / count)
    # between channels, between neighbouring ticks, between robots
    for a, b in ((error[..., 0], error[..., 1]), (error[:, 1:], error[:, :-1]), (error[1:], error[:-1])):
        assert abs((a * b).mean()) < 4.0 / np.sqrt(a.size)


def test_allan_deviations_have_their_slopes(records: Any) -> None:
    """White noise falls with tau^-1/2; a random walk grows with tau^1/2 and is walk sqrt(tau / 3)."""
    sizes = np.array([1, 2, 4, 8, 16, 32])
    white = [allan_deviation(records["noisy.value"] - TRUTH, n) for n in sizes]
    walk = [allan_deviation(records["walking.value"] - TRUTH, n) for n in sizes]
    assert np.polyfit(np.log(sizes), np.log(white), 1)[0] == pytest.approx(-0.5, abs=0.02)
    assert np.polyfit(np.log(sizes[2:]), np.log(walk[2:]), 1)[0] == pytest.approx(0.5, abs=0.04)
    assert walk[-1] == pytest.approx(0.3 * np.sqrt(sizes[-1] * DT / 3.0), rel=0.05)


def allan_deviation(y: np.ndarray, n: Any) -> float:
    """The square root of half the mean squared difference of neighbouring means over n samples."""
    means = y.reshape(ROBOTS, -1, n, 2).mean(axis=2)
    return float(np.sqrt(0.5 * np.mean(np.diff(means, axis=1) ** 2)))


def test_a_density_becomes_a_deviation_by_the_rate(records: Any) -> None:
    expected = TRUTH[::4] + numbers(dense, 0, 2)[:, ::4] * (0.02 / np.sqrt(4 * DT))
    assert np.abs(records["dense.rate"][:, ::4] - expected).max() < 1e-13
    assert dense.parameters["noise"].unit == "rad/s/sqrt(Hz)"


# ---- bits


def test_lanes_batches_and_backends_have_the_same_bits(loop: Any, records: Any) -> None:
    steps, few = 24, 5
    x = np.tile(loop.state(), (few, 1))

    def run(x: Any, robots: Any, **options: Any) -> Any:
        return loop.rollout(x, TRUTH[:steps], steps, seed=SEED, robots=robots, record=RECORD, **options)

    found = [run(x, np.arange(few), lanes=lanes) for lanes in (1, 4)]
    found.append(run(x, np.arange(few), backend="reference"))
    for each in found:
        for name in RECORD:
            assert np.array_equal(each[name], records[name][:few, :steps]), name
    alone = run(x[3], 3)
    assert all(np.array_equal(alone[name], records[name][3, :steps]) for name in RECORD)


def test_python_steps_have_the_bits_of_the_rollout(loop: Any, records: Any) -> None:
    x = loop.state()
    for k in range(12):
        x, found = loop.step(x, TRUTH[k], seed=SEED, record=RECORD)
        assert all(np.array_equal(found[name], records[name][0, k]) for name in RECORD)


def test_a_loop_without_references_has_the_same_bits_on_the_reference_backend() -> None:
    sensor = Measurement((), "s", noise=0.1, name="sensor")
    loop = cd.Loop(None, lambda x: {"y": sensor(x.t)["value"]}, dt=DT)
    compiled, interpreted = (
        loop.rollout(loop.state(), None, 5, record=["y"], backend=backend)["y"] for backend in ("cpu", "reference")
    )
    assert np.array_equal(compiled, interpreted) and compiled.shape == (5,)


# ---- sentences


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rate_nois": 0.1}, "has no option 'rate_nois' (did you mean 'rate_noise'?)"),
        ({"rate_noise": -0.1}, "at least 0 rad/s/sqrt(Hz), got -0.1"),
        ({"rate_noise": (0.1, 0.2)}, "rate_noise must be one number or 3, got shape (2,)"),
        ({"delay": -0.1}, "delay must be greater than zero seconds, got -0.1"),
        ({"delay": 0.2, "max_delay": 0.1}, "at most 0.1 s, got 0.2"),
        ({"delay": 0.0}, "max_delay must be greater than zero"),
        ({"dropout": 1.5}, "at most 1, got 1.5"),
        ({"position": (1.0, 2.0)}, "position must be three numbers"),
    ],
)
def test_wrong_options_are_sentences(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(cd.ControlError) as error:
        IMU("frame", **options)
    assert sentence in str(error.value) and "\n" not in str(error.value)


def test_a_delay_beyond_its_maximum_is_refused_with_a_call(loop: Any) -> None:
    with pytest.raises(cd.ControlError, match=r"'between.delay' must be .*at most 0.04 s, got 0.05"):
        loop.rollout(loop.state(), TRUTH, TICKS, parameters={"between.delay": 0.05}, record=RECORD)


def test_a_line_of_too_many_samples_is_refused() -> None:
    long = Measurement((), "V", delay=100.0, name="long")
    with pytest.raises(cd.ControlError, match=r"10000 updates of 0.01 s, more than 1024"):
        cd.Loop(None, lambda x: {"y": long(x.t)["value"]}, dt=DT)


def test_counts_and_resolution_exclude_each_other() -> None:
    with pytest.raises(cd.ControlError, match="not both"):
        Encoders(["hinge"], counts=100, position_resolution=0.1)
