"""The rules of scripts/check_layers.py themselves, and how `import condyle` starts."""

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from check_layers import LONGEST_FILE, dangers, file_faults, wrong_way

ROOT = Path(__file__).resolve().parent.parent

# `import condyle` loads none of these
NOT_AT_START = {
    "llvmlite",
    "typer",
    "rich",
    "gmpy2",
    "flint",
    "casadi",
    "matplotlib",
    "mujoco",
    "torch",
    "jax",
    "viser",
    "gymnasium",
}

SLOWEST_IMPORT = 0.6  # s of one processor, at best of five: 0.25 on an idle computer, up to twice that on a busy one


# -- the rules


@pytest.mark.parametrize(
    ("inside", "source", "allowed"),
    [
        ("tape/ops.py", "from condyle.tape.graph import Tape", True),
        ("tape/ops.py", "from . import graph", True),
        ("tape/ops.py", "from condyle import __version__", True),
        ("tape/ops.py", "from ..errors import ShapeError", True),
        ("tape/cache.py", "from condyle.atomic_write import replacing", True),
        ("atomic_write.py", "from condyle.errors import FileError", True),
        ("tape/ops.py", "from ..robot import model", False),
        ("tape/ops.py", "def f():\n    import condyle.dynamics.rnea", False),
        ("tape/ops.py", "from condyle import Function", False),
        ("tape/ops.py", "import condyle", False),
        ("robot/library/arm.py", "from ...tape import ops", True),
        ("robot/library/arm.py", "from .. import model", True),
        ("robot/library/arm.py", "from ... import view", False),
        ("methods/planning/sample.py", "from condyle.methods.control import lqr", False),
        ("workbench/view/window.py", "from condyle.methods.learn import policy", True),
        ("workbench/view/window.py", "importlib.import_module('condyle.apps.compat.gym')", False),
        ("methods/mpc/sqp.py", "TABLE = {'arm': 'condyle.apps.lab.run'}", False),
        ("methods/mpc/sqp.py", "print('condyle sim arm.urdf writes condyle.csv')", True),
        ("errors.py", "from condyle.tape import ops", False),
        ("errors.py", "from importlib import import_module", True),
    ],
)
def test_the_rule_itself(inside: str, source: str, allowed: bool) -> None:
    faults = wrong_way(ast.parse(source), tuple(inside.split("/")))
    assert (not faults) == allowed


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("eval('1')", 1),
        ("exec(code, {})", 1),
        ("builtins.exec(code)", 1),
        ("model.eval()", 0),
        ("import pickle", 1),
        ("from pickle import loads", 1),
        ("os.system('ls')", 1),
        ("from os import system, path", 1),
        ("subprocess.run('ls', shell=True)", 1),
        ("subprocess.run(['ls'], shell=False)", 0),
        ("np.load(path, allow_pickle=True)", 1),
    ],
)
def test_the_dangers_themselves(source: str, count: int) -> None:
    assert len(dangers(ast.parse(source))) == count


@pytest.mark.parametrize(
    ("inside", "source", "line", "fault"),
    [
        ("nosuch/a.py", "", 1, "condyle/nosuch/a.py has no place"),
        ("tape/a.py", "\n" * LONGEST_FILE + "x = 1", LONGEST_FILE, "split it"),
        ("tape/a.py", "\nimport gmpy2", 2, "imports gmpy2 when loaded"),
        ("tape/a.py", "import gmpy2.mpfr", 1, "imports gmpy2.mpfr when loaded"),
    ],
)
def test_faults_of_a_file(inside: str, source: str, line: int, fault: str) -> None:
    ((number, text),) = file_faults(tuple(inside.split("/")), source)
    assert number == line and fault in text


@pytest.mark.parametrize(
    "source", ["def f():\n    import gmpy2", "if TYPE_CHECKING:\n    import gmpy2", "import numpy, json", "\n" * LONGEST_FILE]
)
def test_files_without_faults(source: str) -> None:
    assert file_faults(("tape", "a.py"), source) == []


# -- how it starts

CHILD = """
import time; start = time.process_time()
import condyle
seconds = time.process_time() - start
import json, sys
print(json.dumps([seconds, condyle.__version__, sorted(sys.modules)]))
"""


def test_import_is_fast_silent_and_light() -> None:
    times = []
    for _ in range(5):
        child = subprocess.run([sys.executable, "-c", CHILD], cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert child.returncode == 0, child.stderr
        printed = child.stdout + child.stderr
        assert printed.count("\n") == 1, f"`import condyle` printed: {printed}"
        seconds, version, modules = json.loads(child.stdout)
        times.append(seconds)
        if seconds < SLOWEST_IMPORT:
            break
    assert not NOT_AT_START & set(modules), "`import condyle` loads a package that belongs where it is used"
    assert version == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert min(times) < SLOWEST_IMPORT, f"`import condyle` took {min(times):.3f} s at best"
