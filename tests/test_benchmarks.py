"""The benchmarks run: each one once, tiny, so that they cannot rot. What they measure is never asserted."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import NAMES, app
from benchmarks.instructions import loop_instructions


@pytest.mark.parametrize("name", NAMES)
def test_it_runs(name: str, tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    result = CliRunner().invoke(app, [name, "--tiny", "--json", str(file)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert set(json.loads(file.read_text())) == {"computer", name}


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
