"""dog.py on the simulated dog: a trained policy walks with all of its safety on, and its log gives the same pulses everywhere.

walk.cdp is `condyle train pidog --task walk`, seed 0. If PiDog's controller gets other inputs or outputs, train it again.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest
from command_line import CliRunner

from condyle.apps.pidog import controller
from condyle.apps.pidog.deploy.deploy import check_log, deploy
from condyle.apps.pidog.deploy.deployment import deployment
from condyle.apps.pidog.deploy.program import read_log
from condyle.apps.pidog.deploy.simulation import SimulatedPiDog, dog_program, imported_as, simulate
from condyle.commands.cli import app
from condyle.methods.learn.policy_file import PolicyFile

COMMAND = (0.22, 0.0)
SECONDS = 6.0


@pytest.fixture(scope="module")
def trained():
    return PolicyFile.load(Path(__file__).with_name("walk.cdp"))


@pytest.fixture(scope="module")
def walked(trained, tmp_path_factory):
    """(folder, what a run of its dog.py gave, the log, the dog)."""
    folder = tmp_path_factory.mktemp("walked") / "dog"
    deploy(trained, folder)
    dog, log = SimulatedPiDog(), folder / "log.csv"
    return folder, simulate(dog_program(folder / "dog.py"), SECONDS, COMMAND, dog=dog, log=log), log, dog


@pytest.mark.slow
def test_a_trained_policy_walks_with_its_safety(walked):
    _, found, _, dog = walked
    assert found.reason == "the time is over"
    assert list(dict.fromkeys(found.modes)) == ["rest", "rise", "walk", "hold", "lie", "off"]
    assert found.commanded.sum() == pytest.approx(SECONDS * controller.RATE, abs=2)
    assert 0.15 < found.speed < 0.3 and found.tilt < 20.0 and abs(found.turned) < 20.0
    assert found.q[found.walking, 2].min() > 0.09  # m: it stands
    assert found.q[-1, 2] < 0.05  # it lies
    assert not dog.pulses.any()


@pytest.mark.slow
def test_limits_of_the_safety_do_not_change_the_gait(walked):
    folder, found, _, _ = walked
    program = dog_program(folder / "dog.py")
    largest = np.abs(np.diff(found.degrees[found.walking], axis=0)).max()
    assert largest < program.DATA["limits"]["fastest_step"]
    program.DATA["limits"].update(lowest=[-1e3] * 8, highest=[1e3] * 8, fastest_step=1e3)
    free = simulate(program, 1.0, COMMAND)
    rows = free.commanded.sum()
    assert free.degrees[free.commanded].tobytes() == found.degrees[found.commanded][:rows].tobytes()


@pytest.mark.slow
def test_all_files_give_the_pulses_of_the_simulated_dogs_log(trained, walked):
    folder, found, log, _ = walked
    checked = check_log(trained, log, folder)
    assert [name for name, *_ in checked] == ["kernel", "dog.py", "policy.onnx", "policy.c"]
    for name, same, text in checked:
        assert same or (same is None and shutil.which("cc") is None and name == "policy.c"), (name, text)
        assert f"{found.walking.sum()} steps" in text or same is None
    recorded = read_log(log, deployment(trained).data)
    assert np.abs(recorded["rate"]).max() > 0.3  # it moves: no dry run
    np.testing.assert_array_equal(recorded["degrees"], found.degrees[found.walking])


@pytest.mark.slow
def test_a_sample_moves_the_servos_in_the_next_frame(walked):
    _, _, log, _ = walked
    order = []
    program = dog_program(log.parent / "dog.py")

    class Watched(SimulatedPiDog):
        def pulse(self, pin, counts):
            order.append(("pulse", self.ticks))
            super().pulse(pin, counts)

        def imu_counts(self):
            order.append(("sample", self.ticks))
            return super().imu_counts()

    simulate(program, 0.2, COMMAND, dog=Watched())
    kinds = {}
    for kind, tick in order:
        kinds.setdefault(tick, []).append(kind)
    frames = [each for each in kinds.values() if "sample" in each][1:-1]  # between the first one and the release
    assert len(frames) > 100 and all(each == ["pulse"] * 8 + ["sample"] for each in frames)


@pytest.mark.slow
def test_a_dog_that_is_pushed_over_releases_its_servos(walked):
    class Pushed(SimulatedPiDog):
        def sleep(self, seconds):
            super().sleep(seconds)
            if self.time > 6.0:
                self.parameters.update({"push.force": np.asarray(15.0), "push.rate": np.asarray(5.0)})

    dog = Pushed()
    found = simulate(dog_program(walked[0] / "dog.py"), 60.0, COMMAND, dog=dog)
    assert found.reason.startswith("it tilted by") and list(dict.fromkeys(found.modes)) == ["rest", "rise", "walk", "off"]
    assert not dog.pulses.any()
    assert 40.0 < tilt(found.q[-1]) < 70.0  # not before, and soon enough


@pytest.mark.slow
def test_it_lies_down_when_the_imu_falls_silent_in_the_middle_of_a_step(walked):
    class Silent(SimulatedPiDog):
        def imu_counts(self):
            return False if self.time > self.silent else super().imu_counts()

    program = dog_program(walked[0] / "dog.py")
    for k in range(3):
        dog = Silent()
        dog.silent = 6.0 + 0.06 * k
        found = simulate(program, 60.0, COMMAND, dog=dog)
        after = [tilt(q) for q, mode in zip(found.q, found.modes, strict=True) if mode in ("hold", "lie")]
        assert found.reason.startswith("the IMU was silent") and max(after) < 20.0 and found.q[-1, 2] < 0.05


def tilt(q):
    return float(np.degrees(np.arccos(1.0 - 2.0 * (q[3] ** 2 + q[4] ** 2))))


@pytest.mark.slow
def test_the_driver_reads_the_simulated_imu(walked):
    dog, turning = SimulatedPiDog(), [0.3, -0.6, 0.9]
    with imported_as(dog.packages):
        driver = dog_program(walked[0] / "dog.py").SunFounderDog(sleep=dog.sleep)
    driver.begin([307] * 8)
    dog.sleep(2.0)
    rate, acceleration = driver.read()
    np.testing.assert_allclose(rate, np.zeros(3), atol=0.01)
    np.testing.assert_allclose(acceleration, [0.0, 0.0, 9.81], atol=0.5)  # the ground is rough
    dog.parameters["imu.delay"] = np.zeros(())
    dog.x[dog.loop.layout["v"][0].start + 3 : dog.loop.layout["v"][0].start + 6] = turning
    np.testing.assert_allclose(driver.read()[0], turning, atol=0.02)


@pytest.mark.slow
def test_weak_and_heavy_dogs_get_up(walked):
    program = dog_program(walked[0] / "dog.py")
    nominal = SimulatedPiDog().parameters
    for seed in range(4):
        dog = SimulatedPiDog(seed)
        dog.parameters.update({"servo.effort": 0.7 * nominal["servo.effort"], "torso.mass": 1.2 * nominal["torso.mass"]})
        found = simulate(program, 0.5, COMMAND, dog=dog)
        assert found.reason == "the time is over", (seed, found.reason)
        risen = found.q[found.walking][0]
        assert tilt(risen) < 12.0 and risen[2] > 0.09, seed


@pytest.mark.slow
def test_command(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = trained.save(tmp_path / "walk.cdp")
    runner = CliRunner()
    found = runner.invoke(app, ["deploy", str(path), "-o", "dog", "--no-onnx", "--simulate", "3", "--speed", "0.2"])
    assert found.exit_code == 0 and "off: the time is over" in found.output and "walked 3.0 s at 0." in found.output, found.output
    assert (tmp_path / "dog" / "log.csv").read_text().startswith("# condyle dog log 1")
    many = ["deploy", str(path), "-o", "dogs", "--no-onnx", "--simulate", "1", "--dogs", "2", "--seed", "5"]
    counted = runner.invoke(app, many)
    assert counted.exit_code == 0 and "simulated: 2 random dogs" in counted.output, counted.output
    assert (
        sum(int(line.split()[0]) for line in counted.output.splitlines() if "walked to the end" in line or "stopped" in line) == 2
    )
    wrong = runner.invoke(app, ["deploy", str(path), "-o", "dog", "--no-onnx", "--simulate", "-1"])
    assert wrong.exit_code == 2 and "a simulated run takes up to 600 s" in wrong.output, wrong.output
