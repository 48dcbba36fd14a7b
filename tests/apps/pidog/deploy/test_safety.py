"""The safety of dog.py, by injected faults: what stops it, how fast, and that its angles never jump."""

import os
import signal
import subprocess
import sys
import types
from typing import ClassVar

import numpy as np
import pytest

from condyle.apps.pidog.deploy import drivers
from condyle.apps.pidog.deploy.drivers import FAULTS, SimulatedDog, SunFounderDog
from condyle.apps.pidog.deploy.program import Keyboard, Log, SimulatedClock, control, main
from condyle.apps.pidog.deploy.safety import SAFETY, Safety, lying_down
from condyle.apps.pidog.deploy.step import numpy_network, pulses

WALKS = 4.0  # s: it walks by then
FASTEST, FASTEST_STEP = 428.0 / 50.0, 36.0  # degrees in a tick, and while it walks
LEVEL = np.array([0.0, 0.0, 9.81])


class Recorded:
    """What control() logs, kept."""

    def __init__(self):
        self.lines = []

    def line(self, now, out, command):
        self.lines.append((now, out))

    @property
    def modes(self):
        return list(dict.fromkeys(out.mode for _, out in self.lines))

    def time_of(self, mode):
        return next(now for now, out in self.lines if out.mode == mode)


def changes_are_bounded(log):
    degrees = np.array([out.degrees for _, out in log.lines])
    bounds = np.array([FASTEST_STEP if out.mode == "walk" else FASTEST for _, out in log.lines])
    assert (np.abs(np.diff(degrees, axis=0)).max(axis=1) <= bounds[1:] + 1e-9).all()


def safety_of(made, **changes):
    network = numpy_network(made.data, {name: a.astype(float) for name, a in made.arrays.items()})
    data = {**made.data, "safety": {**made.data["safety"], **changes}}
    return Safety(data, made.controller, network)


def run(made, kind=SimulatedDog, fault="", at=WALKS, command=(0.1, 0.0), seconds=1.0, network=None, log=None):
    """(safety, log, driver) after a dry run with a fault; `network(safety's own, time)` is another one."""
    clock, safety, log = SimulatedClock(), safety_of(made), log or Recorded()
    driver = kind(clock, sleep=clock.sleep, fault=fault, at=at)
    if network is not None:
        good = safety.network
        safety.network = lambda x: network(good(x), clock.now)
    keyboard = Keyboard(made.data, command, watched=False)
    control(made.data, safety, driver, keyboard, log, clock=clock, sleep=clock.sleep, seconds=seconds)
    return safety, log, driver


def test_without_a_fault_all_modes_follow(made):
    safety, log, driver = run(made)
    assert log.modes == ["rest", "rise", "walk", "hold", "lie", "off"]
    assert safety.reason == "the time is over" and driver.released
    assert log.time_of("rise") == pytest.approx(SAFETY["rest"], abs=0.05)
    assert log.time_of("walk") - log.time_of("rise") == pytest.approx(SAFETY["rise"], abs=0.05)
    changes_are_bounded(log)
    rising = np.array([out.degrees for _, out in log.lines if out.mode == "rise"])
    assert np.abs(np.diff(rising, axis=0)).max() < 3.0  # degrees in 20 ms
    np.testing.assert_allclose(log.lines[-1][1].degrees, made.data["lie"], atol=1e-9)
    assert np.abs(safety.offset - 0.01).max() < 0.005  # the simulated gyroscope's


@pytest.mark.parametrize(
    ("fault", "reason", "within"),
    [
        ("silent", "the IMU was silent for", 0.101),
        ("nan", "the IMU gave a number that is not finite", 0.041),
        ("stuck", "the IMU gave the same sample 26 times", 0.541),
        ("late", "the loop was late: 120 ms", 0.201),
        ("tilt", "it tilted by", 0.301),
    ],
)
def test_faults_stop_it(made, fault, reason, within):
    safety, log, driver = run(made, fault=fault, seconds=100.0)
    assert safety.reason.startswith(reason)
    stopped = log.time_of("off" if fault == "tilt" else "hold")
    assert WALKS <= stopped <= WALKS + within
    assert driver.released
    if fault == "tilt":
        assert log.modes == ["rest", "rise", "walk", "off"]
    else:
        assert log.modes == ["rest", "rise", "walk", "hold", "lie", "off"]
        held = [out.degrees for _, out in log.lines if out.mode == "hold"]
        np.testing.assert_allclose(held[-1], made.data["stand"], atol=1e-9)
        np.testing.assert_allclose(log.lines[-1][1].degrees, made.data["lie"], atol=1e-9)
    changes_are_bounded(log)


@pytest.mark.parametrize("fault", ["silent", "nan", "stuck", "tilt", "late"])
def test_faults_while_it_rests_or_rises(made, fault):
    rests, _, driver = run(made, fault=fault, at=0.2)
    assert rests.reason and driver.released
    rises, log, _ = run(made, fault=fault, at=2.0)
    assert rises.reason and "walk" not in log.modes


def test_a_short_silence_is_no_fault(made):
    class Gaps(SimulatedDog):
        count = 0

        def read(self):
            self.count += 1
            return None if self.count % 4 in (1, 2) else super().read()  # 40 ms of every 80

    assert run(made, Gaps, seconds=0.5)[0].reason == "the time is over"


def test_a_policy_that_gives_nan_stops(made):
    safety, log, _ = run(made, network=lambda action, now: action if now < WALKS else action * np.nan, seconds=100.0)
    assert safety.reason == "the policy gave a number that is not finite"
    assert all(np.isfinite(out.degrees).all() for _, out in log.lines)


def test_wrong_commands_are_bounded_or_stop(made):
    _, log, _ = run(made, command=(1e6, -1e6))
    assert np.abs([out.degrees for _, out in log.lines]).max() <= 90.0
    safety, _, _ = run(made, command=(np.nan, 0.0))
    assert safety.reason == "the command is not finite"


def test_servo_boards_that_do_not_answer(made):
    class Deaf(SimulatedDog):
        def write(self, counts):
            if self.clock() > WALKS:
                raise OSError(121, "Remote I/O error")

        def release(self):
            raise OSError(121, "Remote I/O error")

    safety, _, _ = run(made, Deaf, seconds=100.0)
    assert safety.reason == "the servo board does not answer"


def test_it_waits_until_it_lies_still(made):
    safety = safety_of(made)
    for k in range(600):
        shaken = 0.5 * (-1.0) ** k * np.ones(3)
        if safety.tick(0.02 * k, (shaken + 1e-3 * k, LEVEL), (0.0, 0.0)).mode == "off":
            break
    assert safety.reason == "it did not lie still" and 10.0 <= 0.02 * k <= 10.2
    turning = safety_of(made)
    for k in range(60):
        turning.tick(0.02 * k, (np.full(3, 0.5) + 1e-4 * (k % 2), LEVEL), (0.0, 0.0))
    assert turning.reason.startswith("the gyroscope shows 0.50 rad/s at rest")


def test_a_dog_that_did_not_get_up_does_not_walk(made):
    safety, leaning = safety_of(made), 9.81 * np.array([np.sin(0.6), 0.0, np.cos(0.6)])
    modes = []
    for k in range(400):
        acceleration = LEVEL if k < 100 else leaning
        modes.append(safety.tick(0.02 * k, (np.full(3, 1e-3 * (k % 2)), acceleration), (0.1, 0.0)).mode)
    assert safety.reason.startswith("it did not get up: it is tilted by 2")
    assert list(dict.fromkeys(modes)) == ["rest", "rise", "hold", "lie", "off"]


def test_it_walks_to_a_stop_and_stops_at_once_when_asked_twice(made):
    for asked, seconds in ((1, SAFETY["halt"]), (2, 0.0)):
        safety, modes = safety_of(made), []
        for k in range(300):
            if k >= 250 and k - 250 < asked:
                safety.halt("asked")
            modes.append(safety.tick(0.02 * k, (np.full(3, 1e-3 * (k % 2)), LEVEL), (0.0, 0.0)).mode)
        for k in range(300, 600):
            modes.append(safety.tick(0.02 * k, (np.full(3, 1e-3 * (k % 2)), LEVEL), (0.0, 0.0)).mode)
        assert modes[249] == "walk" and safety.reason == "asked" and modes[-1] == "off"
        assert 0.02 * (modes.index("hold") - 250) == pytest.approx(seconds, abs=0.041)


def test_the_first_reason_is_kept(made):
    safety = safety_of(made)
    for k in range(200):
        safety.tick(0.02 * k, (np.full(3, 1e-3 * (k % 2)), LEVEL), (0.0, 0.0))
    safety.stop("first")
    safety.stop("second")
    assert (safety.reason, safety.mode) == ("first", "hold")


def test_lying_down_without_measurements(made):
    start = np.linspace(-60.0, 60.0, 8)
    hold = int(SAFETY["hold"] * 50)
    for walking in (False, True):
        path = np.array([start, *lying_down(made.data, start, walking)])
        np.testing.assert_allclose(path[hold], made.data["stand"] if walking else start)
        np.testing.assert_allclose(path[-1], made.data["lie"], atol=1e-9)
        assert np.abs(np.diff(path, axis=0)).max() <= FASTEST + 1e-9


# ---- processes


SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
import dog
dog.DATA["safety"].update(rest=0.1, rise=0.2, halt=0.1, hold=0.1, lie=0.2, late=30.0, silent=30.0)
dog.program(dog.DATA, dog.WEIGHTS, dog.Controller(dog.initial, dog.observe, dog.act))
"""


def start(folder, tmp_path, *options):
    command = [sys.executable, "-c", SCRIPT.format(folder=str(folder)), "--dry-run", "--log", "log.csv", *options]
    return subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def lines_of(path, mode):
    return [line for line in path.read_text().splitlines() if line.split(",")[1:2] == [mode]]


@pytest.mark.parametrize("fault", ["kill", "hang"])
def test_the_second_process_lies_the_dog_down(folder, tmp_path, made, fault):
    process = start(folder, tmp_path, "--fault", f"{fault}:0.5")
    output, _ = process.communicate(timeout=60)  # until the second process has ended, too
    assert process.returncode == -signal.SIGKILL
    assert f"the control process {'ended' if fault == 'kill' else 'hangs'}: lying down" in output
    down = lines_of(tmp_path / "log.csv", "supervisor")
    assert 15 <= len(down) <= 30  # 0.1 s and 0.2 s, or as long as the servos take
    assert [int(x) for x in down[-1].split(",")[-8:]] == pulses(np.array(made.data["lie"])).tolist()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_lie_it_down(folder, tmp_path, number):
    process = start(folder, tmp_path)
    wait_for_walking(process)
    os.kill(process.pid, number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert output.splitlines()[-1] in ("off: Ctrl-C", "off: asked to end", "off: the terminal was closed")
    assert lines_of(tmp_path / "log.csv", "lie") and not lines_of(tmp_path / "log.csv", "supervisor")


def test_without_its_second_process_it_lies_down(folder, tmp_path):
    process = start(folder, tmp_path)
    wait_for_walking(process)
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=True)
    os.kill(int(children.stdout.split()[0]), signal.SIGKILL)
    output, _ = process.communicate(timeout=60)
    assert output.splitlines()[-1] == "off: the second process ended"
    assert process.returncode == 1


def wait_for_walking(process):
    os.set_blocking(process.stdout.fileno(), True)
    for line in process.stdout:
        if " walk " in line:
            return
    raise AssertionError("it ended before it walked")


# ---- the dog's own interface


def test_the_driver_of_the_manufacturer(monkeypatch, tmp_path):
    class Servo:
        made: ClassVar = {}

        def __init__(self, pin):
            self.written = Servo.made.setdefault(pin, [])

        def pulse_width(self, counts):
            self.written.append(counts)

        def angle(self, degrees):
            self.written.append(("angle", degrees))

    class FileDB:
        def __init__(self, path):
            assert path == str(tmp_path / ".config/pidog/pidog.conf")

        def get(self, name, default_value):
            return "[1.0, 0, 0, 0, 0, 0, 0, -100]" if name == "legs_servo_offset_list" else default_value

    class Sh3001:
        def __init__(self, db):
            self.answers = [([-16384, -100, 50], [164, 328, 0]), False]

        def _sh3001_getimudata(self):
            return self.answers.pop(0)

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SUDO_USER", raising=False)
    monkeypatch.setitem(sys.modules, "robot_hat", types.SimpleNamespace(Servo=Servo, fileDB=FileDB))
    monkeypatch.setitem(sys.modules, "pidog", types.SimpleNamespace())
    monkeypatch.setitem(sys.modules, "pidog.sh3001", types.SimpleNamespace(Sh3001=Sh3001))
    dog = SunFounderDog(sleep=lambda seconds: None)
    rate, acceleration = dog.read()
    np.testing.assert_allclose(np.degrees(rate), [-20.0, 0.0, -10.0])
    np.testing.assert_allclose(acceleration, np.array([100.0, 50.0, 16384.0]) * 9.80665 / 16384.0)
    assert dog.read() is None
    dog.begin([300] * 8)
    dog.write([310] * 8)
    dog.release()
    assert [Servo.made[pin] for pin in drivers.LEG_PINS] == [[302, 312, 0], *[[300, 310, 0]] * 6, [102, 102, 0]]
    assert [Servo.made[pin] for pin in drivers.HEAD_PINS] == [[("angle", 0.0)], [("angle", 0.0)], [("angle", 45.0)]]


def test_sentences_of_the_program(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "robot_hat", None)
    weights = "AAAA"
    monkeypatch.setattr(
        "condyle.apps.pidog.deploy.program.unpacked", lambda data, text: {k: a.astype(float) for k, a in made.arrays.items()}
    )
    for options, sentence in (
        (["--axes"], "install SunFounder's robot-hat and pidog on the dog, or use --dry-run"),
        (["--replay", "none.csv"], "No such file"),
        (["--fault", "silent"], "--fault is for dry runs"),
        (["--dry-run", "--fault", "fire"], f"one of {', '.join(FAULTS)}"),
        (["--command", "nan", "0"], "--command must be numbers"),
    ):
        with pytest.raises(SystemExit, match=sentence):
            main(made.data, weights, made.controller, options)


def test_the_log_of_a_run_is_text(made, tmp_path):
    _, log, _ = run(made, log=Log(tmp_path / "log.csv", made.data), seconds=0.1)
    log.close()
    lines = (tmp_path / "log.csv").read_text().splitlines()
    assert lines[2].split(",")[:9] == [
        "time",
        "mode",
        "rate_x",
        "rate_y",
        "rate_z",
        "acceleration_x",
        "acceleration_y",
        "acceleration_z",
        "speed",
    ]
    assert {len(line.split(",")) for line in lines[2:]} == {2 + 6 + 2 + 8 + 8}
