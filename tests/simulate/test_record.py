"""A saved file gives back the same bits or one sentence, whatever happens to it, to the disk, or to the process."""

import hashlib
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from condyle.errors import FileError
from condyle.simulate import record
from condyle.simulate.record import HASH_BYTES, MAGIC, PREFIX, digest_of, load, save

OLD, NEW = {"x": np.arange(3.0), "ok": np.array([True, False])}, {"x": np.full(5, np.nan)}


def refused(path: Path, says: str = "", *given: Any) -> None:
    """None; `load`, or `save` of what is given, refuses the file with one sentence that names it and contains `says`."""
    with pytest.raises(FileError) as caught:
        save(path, *given) if given else load(path)
    sentence, name = str(caught.value), str(path)
    assert sentence.startswith((name, "array ")) and sentence.count(name) < 2 and says in sentence and sentence[-1] == "."


def forge(path: Path, header: Any, data: bytes = b"", *, version: int = 1, declared: dict[str, int] | None = None) -> None:
    """A file with a right hash over whatever content; the `declared` sizes may lie."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    sizes = {"header": len(text), "file": PREFIX.size + len(text) + len(data) + HASH_BYTES} | (declared or {})
    prefix = PREFIX.pack(MAGIC, version, sizes["header"], sizes["file"])
    path.write_bytes(prefix + text + data + hashlib.sha256(prefix + text + data).digest())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save(tmp_path / "state.cdl", OLD, {"robot": "Gelenk 关节", "dt": 1e-3, "gravity": [0.0, 0.0, -9.81]})
    return tmp_path / "state.cdl"


@st.composite
def any_array(draw: st.DrawFn) -> np.ndarray:
    """Random bits of any dtype and either endianness, among them all NaNs; 0-d, empty, transposed, reversed, strided."""
    dtype = np.dtype(draw(st.sampled_from(record.DTYPES))).newbyteorder(draw(st.sampled_from("<>")))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    bits = draw(hnp.arrays(np.uint8, dtype.itemsize * math.prod(shape)))
    array = (bits & 1 if dtype.kind == "b" else bits).view(dtype).reshape(shape).T
    return array[..., :: draw(st.sampled_from([-1, 1, 2]))] if array.ndim else array


leaves = st.text() | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5)


@given(st.dictionaries(st.text(), any_array(), max_size=4), st.dictionaries(st.text(), json_values, max_size=4))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, np.ndarray], about: dict[str, Any]) -> None:
    path = tmp_path_factory.getbasetemp() / "round trip – Zustand.cdl"
    save(path, arrays, about)
    before, saved = path.read_bytes(), load(path)
    save(path, saved.arrays, saved.about)
    assert path.read_bytes() == before
    assert saved.about == about and list(saved.arrays) == list(arrays) and set(saved.versions) == {"condyle", "numpy", "python"}
    for back, array in zip(saved.arrays.values(), arrays.values(), strict=True):
        assert back.shape == array.shape and back.dtype == array.dtype.newbyteorder("<")
        assert back.tobytes() == array.astype(array.dtype.newbyteorder("<")).tobytes()
        assert back.flags.writeable and back.flags.aligned and back.flags.c_contiguous
    assert digest_of(saved.arrays) == digest_of(arrays) == digest_of(dict(reversed(arrays.items())))


def test_digest_tells_bits_names_shapes_and_kinds_apart() -> None:
    x, nan = np.zeros(4), np.array([0x7FF8000000000001], np.uint64).view(float)
    variants = [{}, {"x": x}, {"y": x}, {"x": -x}, {"x": x.reshape(2, 2)}, {"x": x.view(np.int64)}, {"x": x[:3]}]
    variants += [{"x": x, "y": x}, {"x": np.append(x, x)}, {"x": nan}, {"x": np.array([np.nan])}]
    assert len({digest_of(arrays) for arrays in variants}) == len(variants)


def test_every_truncated_extended_or_flipped_file_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        refused(path, f"truncated, it has {size} of ")
    path.write_bytes(whole + b"\0")
    refused(path, f"too long, it has {len(whole) + 1} of {len(whole)} bytes")
    for position, flip in itertools.product(range(len(whole)), (1, 255)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ flip]) + whole[position + 1 :])
        refused(path, "not a Condyle file" if position < 8 else "hash differs" if position >= PREFIX.size else "")


def test_other_files_are_refused(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    for other in (path.parent, path.with_name("pipe"), Path("/dev/zero")):
        refused(other, "not a plain file")
    refused(path.with_name("nosuch.cdl"), "No such file")
    path.write_text("<robot/>")
    refused(path, "not a Condyle file")
    forge(path, {}, version=2)
    refused(path, "newer Condyle, in format 2, not 1: pip install --upgrade condyle")


ROW: dict[str, Any] = {"name": "x", "dtype": "float64", "shape": [2], "offset": 0}
GOOD: dict[str, Any] = {"arrays": [ROW], "about": {}, "versions": {}}


def test_forged_headers_are_refused(path: Path) -> None:
    values = {
        "shape": ([1], [3], [-2], [2.0], [True, 2], [1 << 62], [1 << 70], [0, 1 << 70], [[2]], "2", None),
        "dtype": ("object", "O", ">f8", "float128", "bool", ["float64"], None),
        "offset": (8, -8, 1 << 70, "0", None),
        "name": (1, None, ["x"]),
    }
    rows: list[Any] = [[ROW | {key: value}] for key in values for value in values[key]]
    rows += [[ROW | {"shape": [1]}, ROW | {"shape": [1]} | c] for c in ({"offset": 8}, {"name": "y"}, {"name": "y", "offset": 1})]
    rows += [[], [{}], ["x"], {}, None, [ROW | {"dtype": "bool", "shape": [16]}], [ROW | {"shape": [0]}] * 1001]
    headers = [GOOD | {"arrays": r} for r in rows] + [GOOD | {"about": []}, GOOD | {"versions": 1}, {"arrays": [ROW]}]
    for header in [*headers, [], "header", 1, None, b"", b"{", b"\xff", b"[" * 100_000, b"9" * 10_000]:
        forge(path, header, data=b"\2" * 16)
        refused(path, "header is wrong")


def test_huge_declared_sizes_take_no_memory(path: Path) -> None:
    tracemalloc.start()
    for declared in ({"file": 1 << 63}, {"file": 1 << 35}, {"header": (1 << 32) - 1}, {"header": 1 << 20}):
        forge(path, GOOD, bytes(16), declared=declared)
        refused(path)
    forge(path, GOOD, bytes(16), declared={"file": record.MOST_FILE_BYTES + 1})
    os.truncate(path, record.MOST_FILE_BYTES + 1)
    refused(path, "cannot be")
    forge(path, GOOD | {"arrays": [ROW | {"shape": [1 << 50]}]}, bytes(16))
    refused(path, "header is wrong")
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_what_cannot_be_saved_is_said(path: Path) -> None:
    for value in ("a", None, 1j, np.datetime64("now"), np.longdouble(1)):
        refused(path, "dtype", {"x": np.array(value)}, {})
    for value in (float("nan"), float("inf"), (1, 2), {1: 2}, {"b"}, np.arange(2), 10**5000):
        refused(path, "JSON", {}, {"a": value})
    refused(path, "names must be strings", {1: np.zeros(1)}, {})
    for arrays, about in (({}, {"a": "b" * (1 << 20)}), ({str(i): np.zeros(0) for i in range(1001)}, {})):
        refused(path, "at most", arrays, about)
    for place in ("nosuch/x.cdl", "state.cdl/x.cdl", "/sys/x.cdl", "/dev/null", ".", "a\0b", "x" * 300):
        refused(path.parent / place, "cannot be saved", NEW, {})
    assert os.listdir(path.parent) == ["state.cdl"] and digest_of(load(path).arrays) == digest_of(OLD)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_failed_writers_leave_the_old_file(path: Path, monkeypatch: Any, call: str, error: BaseException) -> None:
    monkeypatch.setattr(os, call, Mock(side_effect=error))
    with pytest.raises(FileError if isinstance(error, OSError) else KeyboardInterrupt):
        save(path, NEW, {})
    assert os.listdir(path.parent) == ["state.cdl"] and digest_of(load(path).arrays) == digest_of(OLD)


def test_a_link_stays_and_an_unsynced_folder_is_said(path: Path, monkeypatch: Any) -> None:
    link = path.with_name("link.cdl")
    link.symlink_to(path)
    monkeypatch.setattr(os, "fsync", Mock(side_effect=[None, OSError(5, "Input/output error")]))
    refused(link, "cannot be made to last (Input/output error): it is saved and complete", NEW, {})
    assert link.is_symlink() and digest_of(load(path).arrays) == digest_of(NEW)


# saves k = 1, 2, ... and dies at k = 3 just before or after a call; without a call, its parent kills it after so many reads
WRITER = """
import itertools, os, sys; import numpy as np; from condyle.simulate.record import save
path, call, moment = sys.argv[1:]; real = getattr(os, call, None)
def deadly(*given):
    if k < 3 or moment == "after": real(*given)
    if k == 3: os.kill(os.getpid(), 9)
if real: setattr(os, call, deadly)
for k in itertools.count(1):
    save(path, {"x": np.full(50_000, k)}, {"k": k}); k == 1 and print(flush=True)
"""


@pytest.mark.parametrize("death", ["fsync before 2", "fsync after 2", "replace before 2", "replace after 3", "- 0 0", "- 99 0"])
def test_readers_of_killed_writers_see_a_whole_file(path: Path, death: str) -> None:
    call, moment, last = death.split()
    command = [sys.executable, "-c", WRITER, path, call, moment]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as writer:
        assert writer.stdout and writer.stdout.readline()
        if call == "-":
            for _ in range(int(moment)):
                load(path)
            writer.kill()
        assert writer.wait(60) == -signal.SIGKILL
    saved = load(path)
    assert (saved.arrays["x"] == saved.about["k"]).all() and int(last) in (0, saved.about["k"])
