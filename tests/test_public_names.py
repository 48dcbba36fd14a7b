"""The names of the package `condyle`: all of them public, importable, and listed once."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import condyle

ROOT = Path(__file__).resolve().parent.parent


def test_dir_lists_the_public_names_only() -> None:
    assert dir(condyle) == sorted([*condyle.__all__, "__version__"])
    assert len(set(condyle.__all__)) == len(condyle.__all__) and not any(name.startswith("_") for name in condyle.__all__)


@pytest.mark.parametrize("name", condyle.__all__)
def test_every_name_can_be_imported_and_has_a_docstring(name: str) -> None:
    found = getattr(condyle, name)
    assert found.__name__.rpartition(".")[2] == name and found.__doc__


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse((ROOT / "condyle" / "__init__.py").read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    imported = {alias.asname: node.module for node in block.body for alias in node.names}
    assert imported == condyle._MODULES


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        _ = condyle.nosuch


def test_names_are_loaded_when_used() -> None:
    code = "import sys, condyle; before = 'numpy' in sys.modules; condyle.load; print(before, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.stdout.split() == ["False", "True"], done.stderr
