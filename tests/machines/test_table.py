"""The table of machines: every one runs, and gives the same bits on what looks like another processor."""

import json
import os
import subprocess
import sys

import pytest

from condyle.machines.table import MACHINES

CHILD = """
import json, sys
from condyle.machines.table import MACHINES
print(json.dumps({name: MACHINES[name].run().hash for name in sys.argv[1:]}))
"""
# the kernels of BLAS, of the C library and of NumPy are chosen by the processor; here, by hand
OTHER = {
    "OPENBLAS_CORETYPE": "Prescott",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-FMA_Usable,-AVX2,-AVX2_Usable,-AVX512F",
    "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F",
}


@pytest.mark.parametrize("name", MACHINES)
def test_a_run_is_the_same_on_another_processor(name: str) -> None:
    child = subprocess.run(
        [sys.executable, "-c", CHILD, name], env={**os.environ, **OTHER}, capture_output=True, text=True, timeout=240
    )
    assert child.returncode == 0, child.stderr
    assert json.loads(child.stdout) == {name: MACHINES[name].run().hash}
