"""The cuda backend without a GPU: its PTX, run by an interpreter, gives the bits of the reference; calls with device arrays, too.

Where there is a GPU, the same is checked on it.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from markers import slow_except
from tape.evaluation import reference
from tape.ptx_interpreter import Buffer, Code, Device
from tape.random_tapes import inputs_from, same_bits, tape_from

import condyle as cd
from condyle.errors import BackendError, ShapeError
from condyle.tape import cuda_driver, device
from condyle.tape.backends import cuda
from condyle.tape.backends.reference import golden_tape
from condyle.tape.device_call import one_step
from condyle.tape.loop import loop, scan
from condyle.tape.passes import lower
from condyle.tape.ptx import ptx_source
from condyle.tape.table import zeros_table
from condyle.tape.trace import trace

HAS_GPU = shutil.which("nvidia-smi") is not None


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The interpreter in the place of a GPU."""
    monkeypatch.setattr(cuda, "Code", Code)
    monkeypatch.setattr(cuda, "Buffer", Buffer)
    monkeypatch.setattr(cuda, "device", lambda number: Device())
    monkeypatch.setattr(cuda, "FEW", 64)
    monkeypatch.setattr(cuda, "block_threads", lambda lanes: 64)
    monkeypatch.setattr(cuda_driver, "device_of", lambda pointer: 0)
    device._library.cache_clear()
    cuda._check_device.cache_clear()
    yield
    cuda._check_device.cache_clear()


def run(tape: Any, precision: str, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a tape by the interpreter."""
    outputs = [np.full((len(inputs[0]), port.size), 7.5, inputs[0].dtype) for port in tape.outputs]
    cuda.CudaKernel(tape, precision, Device())(inputs, outputs)  # type: ignore[arg-type]
    return outputs


# ---- the bits


@pytest.mark.parametrize("precision", ["f64", "f32"])
def test_golden_vector(interpreted: None, precision: str) -> None:
    cuda._check_device(precision, 0)


def test_a_wrong_instruction_is_noticed(interpreted: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "ptx_source", lambda *given, **named: ptx_source(*given, **named).replace("setp.ltu", "setp.gtu"))
    monkeypatch.setattr(cuda, "shared_cache", lambda: SimpleNamespace(found=lambda key, make: make()))
    with pytest.raises(BackendError, match="golden bits"):
        cuda._check_device("f64", 0)


@pytest.mark.parametrize("seed", slow_except(range(20), range(40)))
@pytest.mark.parametrize(("precision", "dtype"), [("f64", "float64"), ("f32", "float32")])
def test_random_tapes(interpreted: None, seed: int, precision: str, dtype: str) -> None:
    pick = random.Random(seed).randrange
    tape = tape_from(pick)
    inputs = inputs_from(pick, tape, dtype=dtype)
    expected = reference(lower(tape, precision), inputs)
    for found, wanted in zip(run(tape, precision, inputs), expected, strict=True):
        assert same_bits(found, wanted)


def tables(x: Any, rows: Any) -> Any:
    """Tables that are carried, updated at computed rows, scanned backwards and read at offsets beyond their ends."""
    start = zeros_table((4, 3))

    def body(i: Any, state: Any) -> Any:
        table = state["t"].set((i, 1), x[0] * i + state["s"])
        return {"t": table.set((3 - i, 2), table[i, 1] - 1.0), "s": state["s"] * 1.5 + x[1]}

    end = loop(body, {"t": start, "s": x[2]}, 4)
    total, written = scan(lambda i, s, row: (s + row[0] * row[1], {"partial": s - i}), 0.0, rows, reverse=True)
    far = end["t"][x[0] * 100.0, 1] + end["t"][np.rint(x[1]), 2]
    return {"table": end["t"], "sum": total + far + end["s"], "partial": written["partial"]}


@pytest.mark.parametrize("precision", ["f64", "f32"])
def test_comparisons_are_of_the_unordered_kind(interpreted: None, precision: str) -> None:
    # the compiler of the driver takes 0 <= |NaN| to be true, but not the negation of its opposite
    function = cd.function(lambda a: {"le": cd.where(abs(a) >= 0.0, 1.0, 0.0), "lt": cd.where(abs(a) > -1.0, 1.0, 0.0)}, a=())
    text = ptx_source(lower(function.tape, precision), precision)
    assert "setp.gtu" in text and "setp.geu" in text and not re.search(r"setp\.l[te]\.f", text)
    values = np.array([np.nan, -np.nan, 0.0, -0.0, 1.0, -np.inf], np.float32 if precision == "f32" else np.float64)
    for found in function.on("cuda")(values):
        assert np.array_equal(found, ~np.isnan(values))


def test_tables_and_rows_known_at_run_time(interpreted: None) -> None:
    function = cd.function(tables, cache=False, x=3, rows=cd.Rows(None, 2))
    rng = np.random.default_rng(0)
    for steps in (1, 5):
        x, rows = rng.normal(size=(3, 3)), rng.normal(size=(3, steps, 2))
        here = function(x, rows)
        there = function.on("cuda")(x, rows)
        assert all(np.array_equal(a, b) for a, b in zip(here, there, strict=True))


def test_a_robot_and_its_loop(interpreted: None) -> None:
    robot = cd.load("double_pendulum")
    rng = np.random.default_rng(1)
    q, v, tau = rng.normal(size=(3, 2)), rng.normal(size=(3, 2)), rng.normal(size=(3, 2))
    here = robot.forward_dynamics_derivatives(q, v, tau)
    there = robot.forward_dynamics_derivatives(q, v, tau, backend="cuda")
    assert all(np.array_equal(a, b) for a, b in zip(here, there, strict=True))
    noise = cd.blocks.LowPass(2, 5.0, name="filter", every=2)
    world = cd.Simulation(robot, dt=0.01)
    closed = cd.Loop(world, lambda x, target: 20.0 * (target - noise(x.q)) - 2.0 * x.v, target=2)
    x0 = closed.state(q)
    options = {"steps": 6, "every": 3, "seed": 3, "parameters": {"elbow.mass": np.array([0.5, 1.0, 2.0])}}
    a, b = (closed.rollout(x0, [0.1, 0.2], backend=name, **options) for name in ("cpu", "cuda"))  # type: ignore[arg-type]
    assert np.array_equal(a.x, b.x) and np.array_equal(a["q"], b["q"])


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas")
@pytest.mark.parametrize("precision", ["f64", "f32"])
def test_ptxas_takes_it(precision: str, tmp_path: Path) -> None:
    tape = cd.function(tables, cache=False, x=3, rows=cd.Rows(None, 2)).tape
    for name, each in (("golden", golden_tape()), ("tables", tape)):
        file = tmp_path / f"{name}.ptx"
        file.write_text(ptx_source(lower(each, precision), precision, strided=(0,)))
        done = subprocess.run(["ptxas", "-arch=sm_90", str(file), "-o", str(tmp_path / "x")], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


# ---- arrays on the device


class OnDevice(np.ndarray):
    """An array of this process that says it is on a GPU."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        view = np.asarray(self)
        return {
            "shape": view.shape,
            "typestr": view.dtype.str,
            "data": (view.ctypes.data, False),
            "strides": view.strides,
            "version": 3,
        }


def there(array: Any, dtype: Any = np.float64) -> OnDevice:
    return np.array(array, dtype=dtype).view(OnDevice)


@pytest.fixture
def cupy(interpreted: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library of arrays on the device: NumPy under the name of CuPy."""
    module = SimpleNamespace(
        empty=lambda shape, dtype: np.full(shape, 7.5, dtype).view(OnDevice),
        asarray=lambda a: np.asarray(a).view(OnDevice),
        broadcast_to=lambda a, shape: np.broadcast_to(a, shape).view(OnDevice),
        ascontiguousarray=lambda a: np.ascontiguousarray(a).view(OnDevice),
        concatenate=lambda parts, axis: np.concatenate(parts, axis).view(OnDevice),
        cuda=SimpleNamespace(
            Device=lambda number: nullcontext(),
            get_current_stream=lambda: SimpleNamespace(ptr=0, synchronize=lambda: None),
        ),
    )
    monkeypatch.setitem(sys.modules, "cupy", module)


def test_the_device_follows_the_arrays(cupy: None) -> None:
    robot = cd.load("double_pendulum")
    rng = np.random.default_rng(2)
    q, v, tau = rng.normal(size=(3, 2)), rng.normal(size=(3, 2)), rng.normal(size=2)
    here = robot.forward_dynamics(q, v, tau)
    found, ok = robot.forward_dynamics(there(q), there(v), tau, mask=True)
    assert isinstance(found, OnDevice) and np.array_equal(found, here) and bool(np.all(ok))
    # states side by side, as a transposed array has them
    columns = robot.forward_dynamics(there(q.T.copy()).T, there(v), there(tau))
    assert np.array_equal(columns, here)
    world = cd.Simulation(robot, dt=0.01)
    x, us = world.state(q, v), 0.1 * rng.normal(size=(3, 4, 2))
    assert np.array_equal(world.step(there(x), there(us[:, 0])), world.step(x, us[:, 0]))
    assert isinstance(world.step(there(x)), OnDevice) and isinstance(world.status.ok, OnDevice)  # type: ignore[union-attr]
    assert np.array_equal(world.rollout(there(x), there(us)), world.rollout(x, us))
    closed = cd.Loop(world, lambda x, target: 20.0 * (target - x.q) - 2.0 * x.v, target=2)
    start = closed.state(q)
    out = closed.rollout(there(start), there([0.1, 0.2]), 4)
    assert isinstance(out.x, OnDevice) and np.array_equal(out["q"], closed.rollout(start, [0.1, 0.2], 4)["q"])
    single = robot.forward_dynamics(there(q, np.float32), there(v, np.float32), there(tau, np.float32))
    assert single.dtype == np.float32


def test_a_solver_and_a_gradient(cupy: None) -> None:
    """A quadratic program with bounds, and both passes of a rollout, as PTX."""
    A = np.array([[1.0, 0.1], [0.0, 1.0]])
    problem = cd.ocp(
        lambda x, u: A @ x + np.array([0.0, 0.1]) * u[0], N=2, x=2, u=1, residual=lambda x, u: np.concatenate([x, u]),
        weights=[1.0, 1.0, 0.1], bounds={"u": 0.5},
    )  # fmt: skip
    solver, x = problem.rti(qp_iterations=4), np.array([[1.0, 0.5], [0.1, -0.2]])
    solved, expected = solver(there(x)), solver(x)
    assert isinstance(solved.status, OnDevice) and np.array_equal(solved.u, expected.u)
    assert all(np.array_equal(solved.plan[name], expected.plan[name]) for name in expected.plan)
    loop = cd.Loop(cd.Simulation(cd.load("pendulum"), dt=0.01), lambda x, r: 20.0 * (r - x.q) - 2.0 * x.v, r=1)
    start, r = loop.state(np.array([[0.3], [-0.4]])), np.array([[[0.1], [0.2]], [[0.0], [0.5]]])
    wanted, found = (loop.vjp(place(start), place(r))[1](x1=np.ones(loop.nx)) for place in (np.asarray, there))
    assert all(isinstance(found[name], OnDevice) and np.array_equal(found[name], wanted[name]) for name in wanted)


def test_large_results_lie_side_by_side(cupy: None) -> None:
    function = cd.function(lambda x: np.outer(x, x), cache=False, x=6)
    x = np.random.default_rng(3).normal(size=(5, 6))
    found = function(there(x))
    assert found.strides[0] == found.itemsize and np.array_equal(found, function(x))
    out = there(np.zeros((5, 6, 6)))
    assert function(there(x), out=out) is out and np.array_equal(out, function(x))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: (there(np.zeros((4, 2))), there(np.zeros((4, 3)))), r"input 'x' has shape \(4, 2\), expected \(3\)"),
        (lambda: (there(np.zeros((4, 3))), there(np.zeros((5, 3)))), "batch axes of the inputs do not fit"),
        (lambda: (there(np.zeros(3)), there(np.zeros(3), np.float32)), "one type for all inputs"),
        (
            lambda: (there(np.zeros(3), np.int64), there(np.zeros(3))),
            "float64 or float32 on the GPU, got the type <i8; convert it",
        ),
        (lambda: (there(np.zeros(3)), there(np.zeros(3), np.float16)), "input 'y' must be .* got the type <f2; convert it"),
        (lambda: (there(np.zeros((4, 5, 3)))[:, :2], there(np.zeros(3))), "make it contiguous"),
    ],
)
def test_wrong_arrays(cupy: None, make: Any, message: str) -> None:
    function = cd.function(lambda x, y: x + y, cache=False, x=3, y=3)
    with pytest.raises(ShapeError, match=message):
        function(*make())


# ---- without a GPU


@pytest.mark.skipif(HAS_GPU, reason="there is a GPU")
def test_no_driver_is_one_sentence() -> None:
    with pytest.raises(BackendError, match=r"needs an NVIDIA GPU and its driver.*use backend 'cpu'"):
        cd.load("pendulum").gravity_forces([0.1], backend="cuda")


def test_too_large_tables_are_refused() -> None:
    def wide(x: Any) -> Any:
        return loop(lambda i, t: t.set((i, 0), x[0] * i), zeros_table((100, 1000)), 100)[3, 0]

    with pytest.raises(BackendError, match="kB of memory for each state"):
        ptx_source(lower(trace(wide, x=1), "f64"), "f64")


@pytest.mark.skipif(not HAS_GPU, reason="no GPU")
def test_on_a_gpu() -> None:
    robot = cd.load("ur3")
    rng = np.random.default_rng(0)
    q, v, tau = robot.random_configuration(rng, 1000), rng.normal(size=(1000, 6)), rng.normal(size=(1000, 6))
    for dtype in (np.float64, np.float32):
        arrays = [a.astype(dtype) for a in (q, v, tau)]
        assert np.array_equal(robot.forward_dynamics(*arrays, backend="cuda"), robot.forward_dynamics(*arrays))


def test_steps_of_axes() -> None:
    assert one_step((4, 3), (24, 8), 0) == 8
    assert one_step((4, 1, 3), (24, 99, 8), 0) == 8
    assert one_step((4, 3), (32, 8), 0) is None
    assert one_step((1,), (99,), 5) == 5
    assert one_step((0, 3), (0, 8), 5) == 5
    assert one_step((), (), 7) == 7
