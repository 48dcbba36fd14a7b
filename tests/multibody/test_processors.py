"""No number of a tape comes from BLAS, LAPACK or the C library, whose last bits depend on the processor."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from multibody.tapes_of_robots import hashes
from processors import OLD, elsewhere

# BLAS without and with AVX, and with AVX2 and fma; NumPy and the C library without what came later
NO_FMA = "glibc.cpu.hwcaps=-FMA,-FMA_Usable,-AVX2,-AVX2_Usable,-AVX512F"
SETTINGS = [
    OLD,
    {"OPENBLAS_CORETYPE": "Sandybridge", "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR", "GLIBC_TUNABLES": NO_FMA},
    {"OPENBLAS_CORETYPE": "Haswell"},
]

CHILD = f"""
import json, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from pathlib import Path
from multibody.tapes_of_robots import hashes
print(json.dumps(hashes(Path(sys.argv[1]), sys.argv[2:])))
"""

GUARD = f"""
import json, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import blas_guard
from pathlib import Path
from multibody.tapes_of_robots import hashes
hashes(Path(sys.argv[1]), sys.argv[2:])
print(json.dumps(sorted(blas_guard.found)))
"""

# where the result decides whether something is an error, and is no number of a robot
SHOWN = "robot/parameters.py _placement"  # angles of placements that a list of parameters shows; nothing is traced of them
DECISIONS = ("robot/check.py ", "robot/couplings.py ", "robot/ordered.py singular_values", "robot/rounded.py ", SHOWN)


def icub() -> list[str]:
    """The file of a robot that people have, if it is installed."""
    pin = pytest.importorskip("pinocchio")
    folders = [parent / "share" / "example-robot-data" / "robots" for parent in Path(pin.__file__).parents]
    files = [folder / "icub_description" / "robots" / "icub_reduced.urdf" for folder in folders]
    return [str(path) for path in files if path.is_file()]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The hashes on this processor."""
    return hashes(tmp_path_factory.mktemp("robots"), icub())


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: next(iter(settings.values())))
def test_tapes_have_the_same_hash_on_every_processor(settings: dict[str, str], here: dict[str, str], tmp_path: Path) -> None:
    found = json.loads(elsewhere(CHILD, tmp_path / "cache", settings, str(tmp_path), *icub()))
    assert [name for name in here if found[name] != here[name]] == []


@pytest.mark.slow
def test_nothing_is_computed_by_blas_while_robots_are_loaded_and_traced(tmp_path: Path) -> None:
    found = json.loads(elsewhere(GUARD, tmp_path / "cache", {}, str(tmp_path), *icub()))
    assert [row for row in found if not row[1].startswith(DECISIONS)] == []


def test_the_guard_finds_what_it_looks_for() -> None:
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import blas_guard, numpy as np
import condyle.robot.check as check
from condyle.robot.spatial import Pose, product
product(np.eye(3), np.eye(3))
assert not blas_guard.found, blas_guard.found
np.linalg.det(np.eye(3)), np.sin(0.5), blas_guard.matmul(np.eye(3), np.eye(3)), blas_guard.power(0.3, 2)
print(sorted(what for what, _, _ in blas_guard.found))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.stdout.strip() == "['**', '@', 'np.linalg.det', 'np.sin']", done.stderr


def test_a_clone_may_have_the_package_s_name(tmp_path: Path) -> None:
    """What is noted is the line of the package, not that of a file beside it."""
    root, clone = Path(__file__).parents[2], tmp_path / "condyle"
    clone.mkdir()
    for folder in ("condyle", "tests"):
        (clone / folder).symlink_to(root / folder)
    code = f"""
import sys
sys.path[:0] = [{str(clone)!r}, {str(clone / "tests")!r}]
import blas_guard
names = {{"note": blas_guard.note}}
exec(compile("def beside():\\n note('x')", {str(clone / "beside.py")!r}, "exec"), names)
exec(compile("def inside():\\n beside()", {str(clone / "condyle" / "robot" / "check.py")!r}, "exec"), names)
names["inside"]()
print(blas_guard.found)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert done.stdout.strip() == "{('x', 'robot/check.py inside', False)}", done.stderr
