"""Bundles: the bits of the compiler that made them, without LLVM, and one sentence for every file that is not whole."""

import hashlib
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import condyle as cd
from condyle.errors import BackendError, FileError
from condyle.tape.bundle import HEAD, load_bundle, save_bundle, targets, this_processor

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the bundle is for x86-64")


@pytest.fixture(scope="module")
def functions() -> dict[str, cd.Function]:
    robot = cd.load("double_pendulum")
    closed = cd.function(lambda x, rows: cd.scan(lambda i, s, r: (s + r[0], s * r[0]), x[0], rows)[1], x=1, rows=cd.Rows(None, 1))
    gain = cd.parameter("gain", 2.5)
    scaled = cd.function(lambda x: gain * np.sin(x), x=3)
    return {"forward_dynamics": robot.function("forward_dynamics"), "sums": closed, "scaled": scaled}


@pytest.fixture(scope="module")
def path(functions: dict[str, cd.Function], tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bundle") / "arm.bundle"
    save_bundle(made, functions, "cpu:x86-64-v3,cpu:x86-64-v4,cpu:aarch64,cuda:sm_90")
    return made


def test_the_bits_are_those_of_the_compiler(path: Path, functions: dict[str, cd.Function]) -> None:
    bundle = load_bundle(path)
    assert list(bundle) == list(functions) and "forward_dynamics" in repr(bundle)
    rng = np.random.default_rng(0)
    for dtype in (np.float64, np.float32):
        q, v, tau = (rng.normal(size=(37, 2)).astype(dtype) for _ in range(3))
        found, here = bundle["forward_dynamics"](q, v, tau), functions["forward_dynamics"](q, v, tau)
        assert all(np.array_equal(a, b) for a, b in zip(found, here, strict=True)) and found[0].dtype == dtype
        x, rows = rng.normal(size=(5, 1)).astype(dtype), rng.normal(size=(5, 7, 1)).astype(dtype)
        assert np.array_equal(bundle["sums"](x, rows), functions["sums"](x, rows))
    x = rng.normal(size=(4, 3))
    assert np.array_equal(bundle["scaled"](x), functions["scaled"](x))
    assert np.array_equal(bundle["scaled"](x, gain=0.5), functions["scaled"](x, gain=0.5))
    assert bundle["forward_dynamics"].inputs == functions["forward_dynamics"].inputs


@pytest.mark.slow
def test_it_needs_no_llvm(path: Path) -> None:
    code = f"""
import sys
sys.modules["llvmlite"] = None          # an import of it fails
sys.path.insert(0, {str(ROOT)!r})
import numpy as np
from condyle.tape.bundle import load_bundle
print(load_bundle({str(path)!r})["scaled"](np.ones(3)).tolist())
"""
    for width in ("", "32"):
        environment = {**os.environ, "CONDYLE_VECTOR_BYTES": width}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == (2.5 * np.sin(np.ones(3))).tolist()


@given(st.data())
def test_a_damaged_file_is_refused(path: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    other = tmp_path_factory.mktemp("damaged") / "x.bundle"
    flipped = bytearray(whole)
    flipped[at] ^= 1 << data.draw(st.integers(0, 7))
    other.write_bytes(data.draw(st.sampled_from([bytes(flipped), whole[:at], whole + b"x"])))
    with pytest.raises(FileError, match=r"(no bundle|version|ends early|damaged|behind its end)"):
        load_bundle(other)


def test_wrong_code_is_noticed(path: Path, tmp_path: Path) -> None:
    """A bundle whose golden vector has other bits, with hashes that are right."""
    data = bytearray(path.read_bytes())
    _, _, size = HEAD.unpack_from(data)
    header = json.loads(data[HEAD.size : HEAD.size + size])
    golden = next(f for f in header["functions"] if f["name"] == "golden vector")
    here = f"cpu:{this_processor()[0]}"
    first = next(k for k in golden["kernels"] if k["target"] == here and k["precision"] == "f64")
    # the constants of the golden kernel, which lie behind its code, are changed in their last bits
    start = HEAD.size + size + 32 + sum(b["bytes"] for b in header["blobs"][: first["blob"]])
    length = header["blobs"][first["blob"]]["bytes"]
    for number in range(1, 40):
        data[start + length - 8 * number] ^= 1
    blob = bytes(data[start : start + length])
    header["blobs"][first["blob"]]["sha256"] = hashlib.sha256(blob).hexdigest()
    text = json.dumps(header).encode()
    head = HEAD.pack(bytes(data[:8]), 1, len(text))
    forged = tmp_path / "forged.bundle"
    forged.write_bytes(head + text + hashlib.sha256(head + text).digest() + bytes(data[HEAD.size + size + 32 :]))
    with pytest.raises(BackendError, match="golden bits"):
        load_bundle(forged)["scaled"](np.ones(3))


def test_what_is_missing_is_one_sentence(functions: dict[str, cd.Function], path: Path, tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="no function 'nosuch'; it has forward_dynamics, sums, scaled"):
        load_bundle(path)["nosuch"]
    with pytest.raises(BackendError, match=r"no target 'cpu:z80'; there are cpu:x86-64-v3"):
        targets("cpu:z80")
    only = tmp_path / "arm.bundle"
    save_bundle(only, {"scaled": functions["scaled"]}, ["cpu:aarch64"], ["f64"])
    with pytest.raises(BackendError, match=r"no code in float64 for this processor .*it has cpu:aarch64 float64"):
        load_bundle(only)["scaled"](np.ones(3))
    with pytest.raises(FileError, match="check its name"):
        load_bundle(tmp_path / "absent.bundle")
    with pytest.raises(BackendError, match="at least one function"):
        save_bundle(only, {}, "cpu:aarch64")
