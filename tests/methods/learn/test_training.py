"""Training of a task: the same weights for the same seed, also after kill -9; the report; errors of `condyle train`."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import CliRunner

import condyle as cd
from condyle.commands.app import app
from condyle.errors import ControlError, FileError
from condyle.methods.learn.policy_file import PolicyFile
from condyle.methods.learn.task import load_task
from condyle.methods.learn.training import Training
from condyle.workbench.view.training_report import report_html

TASK = load_task("cartpole", "balance")
ENVS = 64
COMMAND = ["train", "cartpole", "--task", "balance", "--envs", str(ENVS), "--seed", "5"]


def run(*arguments: object) -> object:
    import condyle.commands.cli  # noqa: F401  (adds the commands)

    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def trained() -> Training:
    training = Training(TASK, seed=5, envs=ENVS)
    numbers = [done.numbers for done in training.run(8)]
    assert numbers[-1]["reward"] > 0.5 and all(np.isfinite(n["kl"]) for n in numbers)
    return training


def test_the_same_seed_gives_the_same_weights_and_another_does_not(trained: Training) -> None:
    again, other = (Training(TASK, seed=seed, envs=ENVS, threads=threads) for seed, threads in ((5, 1), (6, 2)))
    assert [done.number for done in again.run(8)] == list(range(1, 9))
    for _ in other.run(2):
        pass
    assert again.policy_file().hash == trained.policy_file().hash != other.policy_file().hash
    assert np.array_equal(again.env.state, trained.env.state)


def test_a_killed_training_resumes_to_the_same_bits(trained: Training, tmp_path: Path) -> None:
    out, checkpoint = tmp_path / "p.cdp", tmp_path / "p.cdp.checkpoint"
    arguments = [*COMMAND, "-o", str(out), "--iterations", "1000000", "--checkpoint", "0", "--no-report"]
    child = subprocess.Popen([sys.executable, "-m", "condyle", *arguments], stderr=subprocess.PIPE)
    try:
        limit = time.monotonic() + 60.0
        while not out.exists() and child.poll() is None and time.monotonic() < limit:
            time.sleep(0.02)
    finally:
        child.send_signal(signal.SIGKILL)
        _, said = child.communicate()
    assert out.exists(), said
    resumed = Training.resume(checkpoint)
    first = resumed.iteration
    assert first >= 1
    for _ in resumed.run(max(8, first)):
        pass
    if first <= 8:
        assert resumed.policy_file().hash == trained.policy_file().hash and np.array_equal(resumed.env.state, trained.env.state)
        assert np.array_equal(resumed.curve("reward"), trained.curve("reward"))
    # and the command goes on, too
    found = run(*COMMAND, "-o", out, "--resume", "--iterations", first + 1, "--no-report", "--json")
    assert found.exit_code == 0, found.output
    assert PolicyFile.load(out).training["iterations"] >= first + 1 and '"hash"' in found.output


@pytest.mark.parametrize(
    "options",
    [{"hyperparameters": {"units": 8}}, pytest.param({"algorithm": "shac"}, marks=pytest.mark.slow)],
    ids=["lstm", "shac"],
)
def test_other_actors_and_algorithms_resume_to_the_same_bits(options: dict, tmp_path: Path) -> None:
    whole, first = (Training(TASK, seed=2, envs=8, **options) for _ in range(2))
    for _ in whole.run(4):
        pass
    for _ in first.run(2):
        pass
    first.save(tmp_path / "checkpoint")
    resumed = Training.resume(tmp_path / "checkpoint", TASK, threads=1)
    for done in resumed.run(4):
        assert all(np.isfinite(done.numbers[name]) for name in ("reward", "std", "value_loss", "learning_rate", "term upright"))
    file = resumed.policy_file()
    assert file.hash == whole.policy_file().hash != first.policy_file().hash
    assert np.array_equal(resumed.env.state, whole.env.state) and np.array_equal(resumed.curve("reward"), whole.curve("reward"))
    assert file.training["algorithm"] == options.get("algorithm", "ppo")
    file.save(tmp_path / "p.cdp")
    loaded = PolicyFile.load(tmp_path / "p.cdp")
    assert loaded.hash == file.hash
    if loaded.policy.kind == "lstm":  # it goes on with an LSTM, and SHAC does not
        assert Training(TASK, envs=8, init=loaded).settings.units == 8
        with pytest.raises(ControlError, match="SHAC begins with a policy of the kind 'mlp', and this one is of the kind 'lstm'"):
            Training(TASK, envs=8, init=loaded, algorithm="shac")


def test_a_dead_band_is_zero_where_gradients_are_used() -> None:
    world, servo = cd.Simulation(cd.load("cartpole"), 0.01), cd.blocks.HobbyServo(["slide"], name="servo")
    loop = cd.Loop(world, lambda x, action: servo(action, x), action=1)
    parts = (lambda s: s.x.q, lambda s: s.x.q[0], None, None)
    env = cd.VectorEnv(loop, *parts, num_envs=2, randomize={"servo.dead_band": (0.1, 0.2), "slide.friction": (0.1, 0.2)})
    smooth = env.with_parameters(env.smooth_parameters)
    assert (env["servo.dead_band"] >= 0.1).all() and (smooth["servo.dead_band"] == 0.0).all()
    assert (smooth["servo.resolution"] == 0.0).all() and (smooth["slide.friction"] >= 0.1).all()
    smooth.without_randomization().reset(seed=1)
    assert (smooth["servo.dead_band"] == 0.0).all()


def test_schedules_and_initial_policies(trained: Training) -> None:
    seen = []
    file = trained.policy_file()
    task = replace(TASK, schedule=lambda iteration: seen.append(iteration) or {"randomization": 0.5})
    training = Training(task, seed=1, envs=ENVS, init=file)
    training.step()
    assert seen == [0, 0] and training.env.shared["randomization"] == 0.5
    assert training.policy_file().training["init"] == file.hash
    assert np.abs(training.learner.policy.layers[0][0] - file.policy.layers[0][0]).max() < 0.2  # it began there
    with pytest.raises(ControlError, match="trained for the robot 'dog', not for 'cartpole'"):
        Training(TASK, envs=ENVS, init=replace(file, robot="dog"))


def test_the_report_has_curves_a_player_and_the_score(trained: Training) -> None:
    file = trained.policy_file({"upright": 0.99})
    curves = {name: trained.curve(name) for name in trained.names}
    from condyle.workbench.view.trajectory import trajectory

    t = np.linspace(0.0, 1.0, 11)
    motion = trajectory(trained.env.loop.world.robot, t, np.stack([0.1 * t, np.sin(t)], axis=1))
    page = report_html(TASK, file, curves, motion)
    assert page.count("<svg") >= 7 and "condyle-player" in page and "iteration" in page and "Score" in page and "0.99" in page
    assert file.hash in page and "nan," not in page


def test_the_command_judges_shortly_and_names_the_example_of_rsl_rl(tmp_path: Path) -> None:
    out = tmp_path / "p.cdp"
    found = run(*COMMAND, "-o", out, "--iterations", 2, "--json")
    assert found.exit_code == 0, found.output
    score = PolicyFile.load(out).score
    assert score["episodes"] == 200 and score["episode_seconds"] == 10.0 and 0.0 < score["upright"] <= 1.0
    assert "Judged in 200 randomised episodes of 10 s" in out.with_suffix(".html").read_text()
    said = run(*COMMAND, "--force", "-o", out, "--library", "rsl-rl")
    assert said.exit_code != 0 and "examples/26_train_with_rsl_rl.py trains a task by rsl-rl" in said.output
    assert said.output.count("\n") == 1


def test_errors_are_sentences(trained: Training, tmp_path: Path) -> None:
    out = tmp_path / "p.cdp"

    def error(*arguments: object, code: int = 2) -> str:
        found = run(*arguments)
        assert found.exit_code == code, found.output
        assert found.output.count("\n") == 1 and found.output.startswith("condyle: ")
        return found.output

    assert "no tasks for the robot 'fish'" in error("train", "fish", "--task", "walk", "-o", out)
    assert "has no task 'balanse' (did you mean 'balance'?)" in error("train", "cartpole", "--task", "balanse", "-o", out)
    assert "a device is 'cpu', 'cuda', or one of" in error(*COMMAND, "-o", out, "--device", "gpu")
    assert "ends in .cdp" in error(*COMMAND, "-o", tmp_path / "p.txt")
    assert "--seconds must be above zero" in error(*COMMAND, "-o", out, "--seconds", "-1")
    assert "one of ppo, shac; got 'sack' (did you mean 'shac'?)" in error(*COMMAND, "-o", out, "--algorithm", "sack")
    checkpoint = tmp_path / "p.cdp.checkpoint"
    assert "cannot be read" in error(*COMMAND, "-o", out, "--resume")
    trained.save(checkpoint)
    content = checkpoint.read_bytes()
    checkpoint.write_bytes(content[: len(content) // 2])
    assert "truncated or damaged" in error(*COMMAND, "-o", out, "--resume")
    trained.policy_file().save(checkpoint)
    with pytest.raises(FileError, match="is not a checkpoint file of Condyle"):
        Training.resume(checkpoint)
    checkpoint.write_bytes(content)
    assert "is of a training by ppo: leave --algorithm shac out" in error(*COMMAND, "-o", out, "--resume", "--algorithm", "shac")
    with pytest.raises(ControlError, match="is of a training of 'cartpole' for 'balance', not of 'cartpole' for 'swing-up'"):
        Training.resume(checkpoint, load_task("cartpole", "swing-up"))
    trained.policy_file().save(out)
    assert "exists: give another name, --resume" in error(*COMMAND, "-o", out)
    wrong = PolicyFile(trained.learner.policy, "cartpole", "balance", 50.0, [("all", 5)], ["slide"])
    with pytest.raises(ControlError, match=r"names 6 observations, and its environment gives 5"):
        Training(replace(TASK, observation=(("x", 6),)), envs=ENVS)
    smaller = replace(wrong, policy=type(wrong.policy)(((np.ones((1, 4)), np.ones(1)),)), observation=[("all", 4)])
    with pytest.raises(ControlError, match=r"takes 4 observations \(all 4\), and 5 are given"):
        Training(TASK, envs=ENVS, init=smaller)
    assert os.listdir(tmp_path)
