"""Without torch or JAX, a function of their arrays is an error that names the extra; the names cd.torch and cd.jax exist."""

import sys

import pytest
from connect.samples import compiled_network

import condyle as cd
from condyle.errors import MissingExtraError


@pytest.mark.parametrize(("library", "name"), [("torch", "PyTorch tensors"), ("jax", "JAX arrays")])
def test_the_extra_is_named(library: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf"^{library} is needed for functions of {name}: .*\[{library}\]"):
        getattr(cd, library).function(compiled_network())
