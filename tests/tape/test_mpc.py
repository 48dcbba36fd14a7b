"""A model-predictive controller as a user writes it: an interior-point solver around Riccati scans, traced and differentiated."""

import ctypes
import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

import gmpy2
import numpy as np
import pytest
from tape.test_export_c import COMPILERS, build

import condyle as cd
from condyle.tape.export.c import c_source
from condyle.tape.passes import lower

STAGES, ITERATIONS = 3, 2


@cache
def example() -> ModuleType:
    """The example, with a short horizon."""
    path = Path(__file__).parents[2] / "examples" / "16_birotor_mpc.py"
    spec = importlib.util.spec_from_file_location("birotor_mpc", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.N = STAGES
    return module


@cache
def controller() -> cd.Function:
    """One real-time iteration."""
    m, n = example(), STAGES
    shapes = m.SHAPES | {"path": (n + 1, 15), "controls": (n, 4), "duals": (n, 2 * m.NB), "references": (n + 1, 11)}
    return cd.function(lambda **given: m.solve(**given, iterations=ITERATIONS), **shapes)


def arguments(seed: int = 0) -> tuple[np.ndarray, ...]:
    """A state near hover, a trajectory, multipliers, a reference and weights."""
    m, rng = example(), np.random.default_rng(seed)
    x = np.array([0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0.0])
    path = x + 0.05 * rng.normal(size=(STAGES + 1, 15))
    controls = np.array([m.HOVER, m.HOVER, 0, 0]) + 0.1 * rng.normal(size=(STAGES, 4))
    references = np.tile([0.3, 0.6, 1.0, 0, 0, 0, 1, 0, 0, 0, m.HOVER], (STAGES + 1, 1))
    return path[0] + 0.01, path, controls, rng.uniform(0.5, 2.0, size=(STAGES, 2 * m.NB)), references, m.WEIGHTS


def test_same_bits_everywhere(tmp_path: Path):
    """One lane, a full vector, the reference and C compute the same bits."""
    f, args = controller(), [np.stack(each) for each in zip(arguments(0), arguments(1), strict=True)]
    wanted = f.on("reference")(*args)
    for lanes in (1, 8):
        for a, b in zip(f.on("cpu", lanes=lanes)(*args), wanted, strict=True):
            assert np.array_equal(a, b)
    if COMPILERS:
        source = c_source(lower(f.tape, "f64"), name="mpc")
        library = build(source, tmp_path, ["-std=c99", "-O1"])
        outputs = [np.empty_like(a[0]) if np.ndim(a[0]) else np.empty(1) for a in wanted]
        work = np.empty(200_000)
        inputs = [np.ascontiguousarray(a[0]) for a in args]
        library.mpc(*[ctypes.c_void_p(a.ctypes.data) for a in (*inputs, *outputs, work)])
        for a, b in zip(outputs, wanted, strict=True):
            assert np.array_equal(a.reshape(np.shape(b[0])), b[0])
        assert source.count("\n") < 5000


def test_derivatives_of_the_first_control():
    """Forward and reverse derivatives by state, references and weights, against differences in 512 bits."""
    f, args = controller(), arguments()
    names = ["x0", "references", "weights"]
    rng = np.random.default_rng(1)
    directions = {name: rng.normal(size=f.inputs[name]) for name in names}
    weights = rng.normal(size=4)

    def first(**given):
        return f(**given).controls[0]

    g = cd.function(first, **f.inputs)
    gradient = g.vjp(names).on("cpu", lanes=1)(*args, weights)
    along = g.jvp(names).on("cpu", lanes=1)(*args, *directions.values())
    assert weights @ along == pytest.approx(
        sum(np.sum(a * d) for a, d in zip(gradient, directions.values(), strict=True)), rel=1e-12
    )
    exact, total = g.on("mpfr:512"), np.zeros(4)
    with gmpy2.context(gmpy2.get_context(), precision=512):
        h, base = gmpy2.mpfr(2) ** -200, exact(*args)
        for name, by in zip(names, gradient, strict=True):
            moved = [a + h * directions[name] if n == name else a for n, a in zip(f.inputs, args, strict=True)]
            difference = ((exact(*moved) - base) / h).astype(float)
            assert np.sum(by * directions[name]) == pytest.approx(weights @ difference, rel=1e-9)
            total += difference
    np.testing.assert_allclose(along, total, rtol=1e-9)
