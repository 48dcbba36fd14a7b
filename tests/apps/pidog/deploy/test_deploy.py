"""`condyle deploy`: the folder, the same pulses from Python, C, ONNX and the kernel, and one sentence for each wrong input."""

import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from command_line import CliRunner

from condyle.apps.pidog import controller, servos
from condyle.apps.pidog.deploy import drivers, program, safety, step
from condyle.apps.pidog.deploy.c_file import base85, packed
from condyle.apps.pidog.deploy.c_outline import outlined, renamed
from condyle.apps.pidog.deploy.deploy import FILES, c_output, check_log, deploy
from condyle.apps.pidog.deploy.deployment import deployment
from condyle.apps.pidog.deploy.program import Log, read_log
from condyle.apps.pidog.deploy.safety import Output
from condyle.commands.cli import app
from condyle.errors import ControlError, FileError, MissingExtraError

STEPS = 100
CC = shutil.which("gcc") or shutil.which("cc")


def inputs(steps=STEPS, seed=1):
    """Rates, accelerations and commands of a shaken dog."""
    rng = np.random.default_rng(seed)
    rate = rng.normal(scale=0.5, size=(steps, 3))
    acceleration = np.array([0.0, 0.0, 9.81]) + rng.normal(size=(steps, 3))
    command = np.column_stack([np.linspace(0.0, 0.25, steps), np.linspace(-1.0, 1.0, steps)])
    return rate, acceleration, command


@pytest.fixture(scope="module")
def log(made, tmp_path_factory):
    """A log whose pulses are the kernel's."""
    path = tmp_path_factory.mktemp("log") / "log.csv"
    rate, acceleration, command = inputs()
    pulses, degrees = made.replay(rate, acceleration, command)
    written = Log(path, made.data)
    for k in range(STEPS):
        written.line(0.02 * k, Output("walk", pulses[k].tolist(), degrees[k], rate[k], acceleration[k]), command[k])
    written.close()
    return path


# ---- agreement


def test_all_files_give_the_pulses_of_the_kernel(file, folder, log):
    found = check_log(file, log, folder)
    assert [name for name, *_ in found] == ["kernel", "dog.py", "policy.onnx", "policy.c"]
    for name, same, text in found:
        assert same or (same is None and name == "policy.c" and CC is None), (name, text)
        assert f"{STEPS} steps" in text or same is None


@pytest.mark.skipif(CC is None, reason="needs a C compiler")
@pytest.mark.parametrize("flags", ["-O2", "-O0", "-O3 -march=native"])
def test_c_compiles_without_warnings_and_gives_the_same_bits(made, folder, log, flags, tmp_path):
    sources = [folder / "policy.c", folder / "replay.c"]
    strict = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", *flags.split()]
    subprocess.run([CC, *strict, *sources, "-lm", "-o", tmp_path / "replay"], check=True)
    same_bits(made, log, [tmp_path / "replay"])


def test_c_gives_the_same_bits_on_aarch64(made, folder, log, tmp_path):
    compiler, emulator = shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64")
    if compiler is None or emulator is None:
        pytest.skip("needs aarch64-linux-gnu-gcc and qemu-aarch64")
    sources = [folder / "policy.c", folder / "replay.c"]
    subprocess.run([compiler, "-std=c99", "-O2", "-static", *sources, "-lm", "-o", tmp_path / "replay"], check=True)
    same_bits(made, log, [emulator, tmp_path / "replay"])


def same_bits(made, log, command):
    with open(log, "rb") as lines:
        ran = subprocess.run(command, stdin=lines, capture_output=True, text=True, check=True)
    pulses, degrees = c_output(ran.stdout)
    wanted, angles = made.replay(*inputs())
    assert (pulses == wanted).all()
    assert degrees.tobytes() == angles.tobytes()


def test_kernel_has_the_bits_of_the_reference(made):
    rate, acceleration, command = inputs(3)
    state = np.concatenate([x.reshape(-1) for x in made.state().values()])
    arrays = [a.astype(float) for a in made.arrays.values()]
    given = (rate[0], acceleration[0], command[2], state, *arrays)
    for a, b in zip(made.kernel(*given), made.kernel.on("reference")(*given), strict=True):
        assert a.tobytes() == b.tobytes()


def test_sizes_stay_within_their_bounds(folder):
    sizes = {name: (folder / name).stat().st_size for name in FILES}
    assert sizes["policy.c"] <= 60_000, sizes
    assert "malloc" not in (folder / "policy.c").read_text()


def test_pulses_are_those_of_the_servos():
    degrees = np.linspace(-90.0, 90.0, 1001)
    assert (step.pulses(degrees) == servos.counts(degrees)).all()
    assert tuple(servos.counts([-90.0, 90.0])) == (drivers.SHORTEST_PULSE, drivers.LONGEST_PULSE)


def test_angles_and_rates_are_bounded(made):
    rate, acceleration, command = inputs()
    _, degrees = made.replay(50.0 * rate, -acceleration, 100.0 * command)
    assert np.abs(degrees).max() <= 89.0
    assert np.abs(np.diff(degrees, axis=0)).max() <= 36.0 + 1e-9
    assert np.abs(degrees[0] - made.data["stand"]).max() <= 36.0 + 1e-9


def test_network_is_the_policy(file, made):
    network = step.numpy_network(made.data, {name: a.astype(float) for name, a in made.arrays.items()})
    x = np.random.default_rng(3).normal(size=(5, file.policy.sizes[0]))
    np.testing.assert_allclose([network(row) for row in x], file.policy(x), atol=2e-6)  # the policy's own is float32


# ---- dog.py


def test_dog_is_one_file_for_python_3_9(folder):
    text = (folder / "dog.py").read_text()
    tree = ast.parse(text, feature_version=(3, 9))
    imported = {alias.name.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {(node.module or "").partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported - set(sys.stdlib_module_names) == {"numpy", "robot_hat", "pidog", "onnxruntime"}
    newer = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and any(k.arg == "strict" for k in node.keywords)  # zip, Python 3.10
    ]
    assert not newer
    for module in (step, safety, drivers, program):
        assert "condyle" not in {node.module for node in ast.parse(text).body if isinstance(node, ast.ImportFrom)}, module


def test_dry_run_replays(folder, tmp_path):
    python = [sys.executable, folder / "dog.py"]
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = [*python, "--dry-run", "--fast", "--command", "0.1", "0.2", "--seconds", "1"]
    ran = subprocess.run(run, cwd=tmp_path, env=clean, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "off: the time is over"
    again = subprocess.run([*python, "--replay", "log.csv"], cwd=tmp_path, env=clean, capture_output=True, text=True, check=True)
    assert again.stdout.endswith("steps: all pulses are the same\n")


def test_data_of_dog_is_that_of_the_deployment(folder, made):
    spec = importlib.util.spec_from_file_location("dog", folder / "dog.py")
    dog = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(dog)
    assert json.loads(json.dumps(made.data)) == dog.DATA
    arrays = dog.unpacked(dog.DATA, dog.WEIGHTS)
    assert all((arrays[name] == made.arrays[name]).all() for name in made.arrays)


# ---- shorter C


def test_repeated_statements_become_functions():
    one = ["    const double x1 = fma(p[0], p[1], 0x1p+0);", f"    const double x2 = sqrt(x1) / (x1 + 0x1.8p+1){' + x1' * 90};"]
    two = [line.replace(" x1", " x11").replace("(x1", "(x11").replace("x2", "x12").replace("p[", "q[") for line in one]
    lines = outlined(["void f(void)", "{", *one, *two, "    out[0] = x2 + x12;", "}"], "part")
    assert lines[0].startswith("static double part0(double a0_0, double a0_1)")
    assert lines[-6:] == [
        "void f(void)",
        "{",
        "    const double x2 = part0(p[0], p[1]);",
        "    const double x12 = part0(q[0], q[1]);",
        "    out[0] = x2 + x12;",
        "}",
    ]
    assert renamed(lines)[-4:] == [
        "  double v1 = part0(p[0], p[1]);",
        "  double v0 = part0(q[0], q[1]);",
        "  out[0] = v1 + v0;",
        "}",
    ]


def test_packed_numbers_keep_their_bits():
    rng = np.random.default_rng(2)
    numbers = rng.normal(size=101).astype(np.float32)
    numbers[[3, 50, 100]] = 0.0, 1e-20, -(2.0**-14)
    words, smallest, wrong = packed(numbers)
    codes = words.reshape(-1, 7) & 0xFFFFFFF
    eighth = ((words.reshape(-1, 7) >> 28) << np.arange(0, 28, 4, dtype=np.uint32)).sum(axis=1)[:, None]
    codes = np.hstack([codes, eighth]).astype(np.uint32).reshape(-1)[:101]
    bits = np.where(codes == 0, 0, (codes >> 27 << 31) | ((smallest + (codes >> 23 & 15)) << 23) | (codes & 0x7FFFFF))
    found = bits.astype(np.uint32).view(np.float32)
    found[wrong] = numbers[wrong]
    assert found.tobytes() == numbers.tobytes() and 50 in wrong and len(wrong) < 4
    text = base85(words)
    assert len(text) == 5 * len(words) and not set(text) & set('?\\"')


# ---- wrong input


def test_policies_that_cannot_be_deployed(policy_file):
    with pytest.raises(ControlError, match="trained for the robot 'anymal', not for 'pidog'"):
        deployment(policy_file(robot="anymal"))
    parts = [["everything", policy_file().policy.sizes[0]]]
    with pytest.raises(ControlError, match="observes everything 40 and has 11 actions, and PiDog's controller gives rate 3"):
        deployment(policy_file(observation=parts))
    with pytest.raises(ControlError, match="runs at 50 Hz, and this policy was trained at 100 Hz"):
        deployment(policy_file(rate=100.0))
    with pytest.raises(ControlError, match="lacks the number"):
        deployment(replace(policy_file(), controller={}))
    with pytest.raises(ControlError, match="must be like"):
        deployment(replace(policy_file(), controller={**controller.NUMBERS, "frequency": [1.0, 2.0]}))
    with pytest.raises(ControlError, match="takes 2 commands, and the policy has none"):
        deployment(replace(policy_file(), commands={}))


def test_folders_that_cannot_be_written(small, tmp_path):
    foreign = tmp_path / "full"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("x")
    with pytest.raises(FileError, match=r"holds other files, such as thesis\.tex: give another folder, or --force"):
        deploy(small, foreign, onnx=False)
    assert os.listdir(foreign) == ["thesis.tex"]
    deploy(small, foreign, onnx=False, force=True)
    assert sorted(os.listdir(foreign)) == sorted(["thesis.tex", *(set(FILES) - {"policy.onnx"})])
    taken = tmp_path / "taken"
    taken.write_text("x")
    with pytest.raises(FileError, match="is a file: give a folder"):
        deploy(small, taken)
    with pytest.raises(FileError, match=r"cannot be written \("):
        deploy(small, taken / "below", onnx=False)


def test_an_earlier_onnx_file_goes_with_its_policy(small, tmp_path):
    deploy(small, tmp_path / "dog")
    deploy(small, tmp_path / "dog", onnx=False)
    assert not (tmp_path / "dog" / "policy.onnx").exists()


def test_without_onnx_a_sentence_and_the_rest(small, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtraError, match=r"onnx is needed for policy\.onnx"):
        deploy(small, tmp_path / "dog")
    assert not (tmp_path / "dog").exists()
    assert "dog.py" in deploy(small, tmp_path / "dog", onnx=False)


def test_command(file, folder, log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = file.save(tmp_path / "policy.cdp")
    runner = CliRunner()
    written = runner.invoke(app, ["deploy", str(path), "-o", "dog"])
    assert written.exit_code == 0 and "next: python3 dog/dog.py --dry-run" in written.output, written.output
    assert sorted(os.listdir("dog")) == sorted(FILES)
    checked = runner.invoke(app, ["deploy", str(path), "-o", "dog", "--check", str(log)])
    assert checked.exit_code == 0 and "the same bits as the kernel" in checked.output, checked.output
    Path("cut.cdp").write_bytes(path.read_bytes()[:-500])
    cut = runner.invoke(app, ["deploy", "cut.cdp"])
    assert cut.exit_code == 2 and "truncated or damaged" in cut.output
    changed = tmp_path / "changed.csv"
    lines = log.read_text().splitlines()
    changed.write_text("\n".join([*lines[:-1], lines[-1].rpartition(",")[0] + ",1"]) + "\n")
    differs = runner.invoke(app, ["deploy", str(path), "-o", "nothing", "--check", str(changed)])
    assert differs.exit_code == 1 and "other pulses in 1 of 100 steps" in differs.output, differs.output


def test_logs_that_cannot_be_read(made, file, log, tmp_path):
    bad = tmp_path / "bad.csv"
    for text, sentence in (
        ("hello\n", "is not a log of dog.py"),
        (log.read_text().replace(made.data["policy"], "0" * 64), "logged with another policy"),
        (log.read_text().replace("0.020000,walk,", "0.020000,walk,x"), "line 5 of .* must have"),
    ):
        bad.write_text(text)
        with pytest.raises(FileError, match=sentence):
            check_log(file, bad, tmp_path)
    bad.write_text(log.read_text()[:-30])  # the program was killed while it wrote
    assert len(read_log(bad, made.data)["rate"]) == STEPS - 1
    bad.write_text("".join(log.read_text().splitlines(keepends=True)[:3]))
    with pytest.raises(FileError, match="has no steps of the policy"):
        check_log(file, bad, tmp_path)
