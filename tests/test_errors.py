"""One exception family, and a missing optional package is a sentence with its cure."""

import math

import pytest

from condyle import errors
from condyle.errors import CondyleError, MissingExtraError, require


def test_every_exception_is_of_the_family() -> None:
    raised = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, BaseException)]
    assert len(raised) >= 5
    assert all(issubclass(e, CondyleError) for e in raised)


def test_require_gives_the_module() -> None:
    assert require("math", "precision", "arithmetic") is math


@pytest.mark.parametrize("module", ["nosuchpackage", "nosuchpackage.part"])
def test_require_names_the_extra(module: str) -> None:
    with pytest.raises(MissingExtraError) as caught:
        require(module, "precision", "the mpfr machine")
    assert str(caught.value) == "nosuchpackage is needed for the mpfr machine: pip install 'condyle[precision]'"
    assert isinstance(caught.value, ImportError)


def test_require_does_not_blame_the_wrong_package(tmp_path, monkeypatch) -> None:
    (tmp_path / "halfinstalled.py").write_text("import nosuchpackage\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="nosuchpackage") as caught:
        require("halfinstalled", "precision", "the mpfr machine")
    assert not isinstance(caught.value, CondyleError)
