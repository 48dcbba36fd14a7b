"""Python in processes that believe to run on other processors: the kernels of BLAS, of the C library and of NumPy are chosen by
the processor; here, by hand. Each has a cache of its own, so that nothing compiled elsewhere is used."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

OLD = {
    "OPENBLAS_CORETYPE": "Prescott",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA,-FMA_Usable,-AVX2,-AVX2_Usable,-AVX512F",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
}


def elsewhere(code: str, cache: Path, settings: Mapping[str, str] = OLD, *arguments: str) -> str:
    """What the code prints there."""
    environment = {**os.environ, **settings, "CONDYLE_CACHE": str(cache)}
    child = subprocess.run([sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True, timeout=300)
    assert child.returncode == 0, child.stderr
    return child.stdout
