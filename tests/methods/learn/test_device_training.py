"""Training and judging with tensors: checkpoints, the same bits for a seed, what NumPy reaches, and sentences."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import CliRunner

from condyle.apps.pidog.gait_episodes import Trial
from condyle.apps.pidog.judge import judge
from condyle.commands.app import app
from condyle.errors import ControlError
from condyle.methods.learn.judge_task import short_score
from condyle.methods.learn.policy_file import PolicyFile
from condyle.methods.learn.task import load_task
from condyle.methods.learn.training import Training, on_gpu
from condyle.workbench.view.training_report import episode

torch = pytest.importorskip("torch")
TASK = load_task("cartpole", "balance")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads of small products wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def run(*arguments: object) -> Any:
    import condyle.commands.cli  # noqa: F401  (adds the commands)

    return CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.mark.gpu
def test_reaches_what_numpy_reaches() -> None:
    reached = {}
    for device in (None, "cpu"):
        training = Training(TASK, seed=0, envs=256, device=device)
        for _ in training.run(25):
            pass
        file = training.policy_file()
        reached[device] = short_score(TASK, file, device=device)
        assert reached[device]["falls"] == 0.0 and reached[device]["return"] > 480.0, device
        assert training.curve("reward")[-1] > 0.9
    assert file.training["device"] == "cpu"
    assert abs(reached[None]["return"] - reached["cpu"]["return"]) < 10.0
    # the same policy has the same score and the same episode with arrays and with tensors
    assert short_score(TASK, file) == pytest.approx(reached["cpu"], rel=1e-6)
    assert np.array_equal(episode(TASK, file).q, episode(TASK, file, device="cpu").q)


@pytest.mark.gpu
def test_a_seed_gives_the_same_bits_and_a_checkpoint_goes_on(tmp_path: Path) -> None:
    whole, first, other = (Training(TASK, seed=seed, envs=32, device="cpu") for seed in (2, 2, 3))
    for training, count in ((whole, 4), (first, 2), (other, 4)):
        for done in training.run(count):
            assert done.numbers["samples"] == 32 * 24 and np.isfinite(done.numbers["kl"])
    first.save(tmp_path / "checkpoint")
    resumed = Training.resume(tmp_path / "checkpoint", TASK, device="cpu")
    for _ in resumed.run(4):
        pass
    assert resumed.policy_file().hash == whole.policy_file().hash != other.policy_file().hash
    assert torch.equal(resumed.env.state, whole.env.state) and np.array_equal(resumed.curve("reward"), whole.curve("reward"))
    # and NumPy goes on with it, too
    plain = Training.resume(tmp_path / "checkpoint", TASK)
    assert plain.step().number == 3 and plain.device is None


@pytest.mark.gpu
def test_a_walk_is_judged_with_tensors() -> None:
    file = Training(load_task("pidog", "walk"), seed=0, envs=4).policy_file()
    trial = Trial(3, 2.0)
    here, there = judge(file, trial), judge(file, trial, device="cpu")
    assert here == there
    with pytest.raises(ControlError, match="the engine 'mujoco' runs on the processor only"):
        judge(file, trial, "mujoco", device="cpu")


def test_more_robots_and_fewer_iterations_on_a_gpu() -> None:
    found = on_gpu({"envs": 1024, "anneal": (270, 800), "steps": 24}, 900)
    assert found == {"envs": 16384, "anneal": (135, 400), "steps": 24, "iterations": 450}
    assert on_gpu({}, 1) == {"envs": 32768, "iterations": 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "shac"}, "SHAC trains on the processor only: leave the device out, or use PPO"),
        ({"hyperparameters": {"units": 8}}, "an LSTM is trained on the processor only"),
    ],
)
def test_what_needs_the_processor(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ControlError, match=message):
        Training(TASK, envs=4, device="cpu", **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "tpu"], "a device is 'cpu', 'cuda', or one of several GPUs such as 'cuda:1'; got 'tpu'"),
        (["--device", "cuda", "--algorithm", "shac"], "--algorithm shac trains on the processor only: leave --device cuda or"),
        (["--set", "minibatches"], "--set minibatches: write NAME=VALUE with a number"),
        (["--set", "minibatches=many"], "--set minibatches=many: write NAME=VALUE with a number"),
        (["--set", "minibatch=4"], "PPO has no setting 'minibatch'"),
    ],
)
def test_wrong_options_are_one_sentence(options: list[str], message: str, tmp_path: Path) -> None:
    found = run("train", "cartpole", "--task", "balance", "-o", tmp_path / "p.cdp", *options)
    assert found.exit_code != 0 and message in " ".join(found.output.split())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("command", [["train", "cartpole", "--task", "balance"], ["judge", "p.cdp"]])
def test_no_gpu_is_one_sentence(command: list[str], tmp_path: Path) -> None:
    found = run(*command, "-o", tmp_path / ("p.cdp" if command[0] == "train" else "p.png"), "--device", "cuda")
    assert "device 'cuda' needs an NVIDIA GPU that PyTorch can use" in " ".join(found.output.split())


def test_hyperparameters_by_the_command(tmp_path: Path) -> None:
    out = tmp_path / "p.cdp"
    options = ["--envs", 8, "--iterations", 1, "--set", "minibatches=2", "--set", "hidden=[8,8]", "--no-report"]
    found = run("train", "cartpole", "--task", "balance", "-o", out, *options)
    assert found.exit_code == 0, found.output
    settings = PolicyFile.load(out).training["settings"]
    assert settings["minibatches"] == 2 and list(settings["hidden"]) == [8, 8]
