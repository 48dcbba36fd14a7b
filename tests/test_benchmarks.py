"""The benchmarks run: each one once, tiny, so that they cannot rot. What they measure is never asserted."""

import json
import zipfile
from pathlib import Path

import pytest
from command_line import CliRunner

from benchmarks import gpu_arrays, gpu_bits, gpu_bits_cases
from benchmarks.__main__ import NAMES, app
from benchmarks.instructions import loop_instructions


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_it_runs(name: str, tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    result = CliRunner().invoke(app, [name, "--tiny", "--json", str(file)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert set(json.loads(file.read_text())) == {"computer", name}


def test_bits_are_compared_kernel_by_kernel(tmp_path: Path) -> None:
    """The second kernel of a gradient reads what the first one gave; a single other bit is noticed."""
    file, said = tmp_path / "bits.zip", list[str]()
    gpu_bits.write(file, {"gradient": gpu_bits_cases.pendulum_gradient, **gpu_bits_cases.TINY}, said.append)
    found = gpu_bits.compare(file, said.append, only="gradient", backend="cpu")
    assert list(found) == ["gradient, f64", "gradient, f32"] and all(row["same_bits"] for row in found.values())
    assert said[-1] == "2 of 2 cases have the bits of the processor"
    changed = tmp_path / "changed.zip"
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.startswith("array/"):
                content = content[:-1] + bytes([content[-1] ^ 1])  # the last number has another exponent
            new.writestr(name, content)
    found = gpu_bits.compare(changed, said.append, backend="cpu")
    assert not any(row["same_bits"] for row in found.values())
    assert any("not computed before" in text for text in found["gradient, f64"]["different"])


@pytest.mark.gpu
def test_arrays_on_a_gpu_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    from tape import fake_gpu

    fake_gpu.install(monkeypatch)
    monkeypatch.setattr(gpu_arrays, "require_gpu", lambda: "a fake GPU")
    monkeypatch.setattr(gpu_arrays, "find_spec", lambda name: name == "torch")
    monkeypatch.setattr(gpu_arrays, "placing", lambda library: (fake_gpu.there, lambda: None, gpu_arrays.anything))
    monkeypatch.setattr(gpu_arrays, "refused", dict)
    said: list[str] = []
    found = gpu_arrays.exercise(said.append, 32)
    assert said[-1] == f"{len(found)} of {len(found)} calls have the bits of NumPy arrays on the GPU", said


def test_the_list_names_each_one() -> None:
    output = CliRunner().invoke(app, ["--list"]).output
    assert all(name in output for name in NAMES)


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    result = CliRunner().invoke(app, ["thruput"])
    assert result.exit_code == 2
    assert "throughput" in result.output


ASSEMBLY = """
kernel:
	vbroadcastsd	.LC0(%rip), %zmm9
.L2:
	vmovupd	(%rdi,%rax,8), %zmm0
	vmovapd	%zmm0, %zmm1
	vfmadd213pd	64(%rsp), %zmm9, %zmm0
	vmulpd	.LC1(%rip){1to8}, %zmm1, %zmm1
	vmovapd	%zmm1, 128(%rsp)
	vmovupd	%zmm0, (%rsi,%rax,8)
	addq	$8, %rax
	jne	.L2
	vzeroupper
"""


def test_instructions_of_a_loop_are_counted() -> None:
    counts = {kind: n for kind, n in loop_instructions(ASSEMBLY).items() if n}
    assert counts == {
        "fma": 1,
        "mul": 1,
        "load constant": 1,
        "load stack": 1,
        "load other": 1,
        "store stack": 1,
        "store other": 1,
        "copy": 1,
        "all": 6,
    }
