"""One exception family, and a missing optional package is a sentence with its remedy."""

import math
import os
import shlex
import sys
from pathlib import Path

import pytest

from condyle import errors
from condyle.errors import CondyleError, MissingExtraError, install_command, require
from condyle.tape.host_info import program


def test_every_exception_is_of_the_family() -> None:
    known = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, BaseException)]
    raised = [e for e in known if not issubclass(e, Warning)]
    assert len(raised) >= 5
    assert all(issubclass(e, CondyleError) for e in raised)


def test_require_gives_the_module() -> None:
    assert require("math", "precision", "arithmetic") is math


@pytest.mark.parametrize("module", ["nosuchpackage", "nosuchpackage.part"])
def test_require_names_the_extra(module: str) -> None:
    with pytest.raises(MissingExtraError) as caught:
        require(module, "precision", "the mpfr backend")
    assert str(caught.value) == "nosuchpackage is needed for the mpfr backend: " + install_command("precision")
    assert isinstance(caught.value, ImportError)


def test_the_command_that_installs_an_extra_runs_as_printed(tmp_path, monkeypatch) -> None:
    source = Path(errors.__file__).parent.parent
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(source)
    assert shlex.split(install_command("plot", "viewer"))[1:] == ["-m", "pip", "install", "-e", ".[plot,viewer]"]
    monkeypatch.chdir(tmp_path)
    python, *_, what = shlex.split(install_command("plot"))
    assert os.path.samefile(python, sys.executable) and what == f"{source}[plot]"
    # a package that pip unpacked is no checkout
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "site-packages" / "condyle" / "errors.py"))
    assert install_command("plot") == "pip install 'condyle[plot]'"


def test_a_program_is_typed_as_the_shell_finds_it(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "my venv" / "bin"
    folder.mkdir(parents=True)
    (folder / "condyle").write_text("#!/bin/sh\n")
    (folder / "condyle").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(folder / "condyle")])
    assert program() == "'my venv/bin/condyle'"
    monkeypatch.chdir(folder.parent)
    assert program() == "bin/condyle"
    monkeypatch.setenv("PATH", str(folder))
    assert program() == "condyle"
    monkeypatch.setattr(sys, "argv", ["-c"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert program() == f"{tmp_path / 'python'} -m condyle"


def test_require_does_not_blame_the_wrong_package(tmp_path, monkeypatch) -> None:
    (tmp_path / "halfinstalled.py").write_text("import nosuchpackage\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="nosuchpackage") as caught:
        require("halfinstalled", "precision", "the mpfr backend")
    assert not isinstance(caught.value, CondyleError)
