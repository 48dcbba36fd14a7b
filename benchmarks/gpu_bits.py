"""Whether a GPU gives the bits of the processor: dynamics, derivatives, contact, closed loops, gradients and MPC, f64 and f32.

Where there is LLVM, the processor computes, and everything that the GPU needs is written to one file: the tapes of all kernels,
their inputs, and hashes of their outputs. The GPU computes from that file alone, so that it may be in another computer, without
LLVM and without robot files:

    python -m benchmarks.gpu_bits --write bits.zip
    python -m benchmarks.gpu_bits bits.zip                   # one line for each case, and their number

Inputs that are outputs of a kernel before are not in the file. All NaNs count as equal.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.errors import BackendError, CondyleError
from condyle.tape.function import Function
from condyle.tape.tape import Port, Tape
from condyle.tape.tape_codec import decode_block, encode_block

if TYPE_CHECKING:
    from rich.console import Console

DTYPES = {"f64": np.float64, "f32": np.float32}

Make = Callable[[], Callable[[type], object]]  # prepares a case, and gives the call in a precision whose kernels are compared
Print = Callable[[str], object]


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Compare this processor with the GPU of this computer; `tiny`: one small case, on the processor where there is no GPU."""
    from benchmarks.gpu_bits_cases import CASES, TINY

    if not find_spec("llvmlite"):
        console.print("needs LLVM: pip install llvmlite; or a file that was written where there is LLVM")
        return {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "bits.zip")
        try:
            if not tiny:
                require_gpu()
            write(file, TINY if tiny else CASES, console.print)
            return compare(file, console.print, backend="cpu" if tiny else "cuda")
        except BackendError as error:
            console.print(str(error))
            return {}


def require_gpu() -> str:
    """The name of the first GPU, or an error."""
    from condyle.tape.cuda_driver import device

    return device(0).name


# ---- the processor


@dataclass
class Kernel:
    """One call of a kernel: its tape, and the hashes of its inputs and outputs by name."""

    tape: str
    inputs: dict[str, str]
    outputs: dict[str, str]


def write(file: Path, cases: dict[str, Make], say: Print) -> None:
    """Compute all cases on the processor, and write what a GPU needs to compute them, too."""
    kept: dict[str, bytes] = {}
    index: dict[str, list[dict[str, Any]]] = {}
    for name, make in cases.items():
        start = perf_counter()
        call = make()
        for precision, dtype in DTYPES.items():
            with recorded() as calls:
                call(dtype)
            index[f"{name}, {precision}"] = [vars(kernel) for kernel in described(calls, kept)]
        size = sum(map(len, kept.values())) / 1e6
        say(f"{name}: {len(calls)} kernels, {perf_counter() - start:.1f} s; {size:.1f} MB so far")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for place, content in kept.items():
            archive.writestr(place, content)
        archive.writestr("index.json", json.dumps(index))


@contextmanager
def recorded() -> Iterator[list[tuple[Tape, list[Any], Any]]]:
    """A list that all calls of compiled functions are appended to: (tape, inputs, results)."""
    calls: list[tuple[Tape, list[Any], Any]] = []
    original = Function.__call__

    def spy(self: Function, *args: Any, out: Any = None, **named: Any) -> Any:
        found = original(self, *args, out=out, **named)
        calls.append((self.tape, self._arguments.values(args, named), found))
        return found

    Function.__call__ = spy  # type: ignore[method-assign]
    try:
        yield calls
    finally:
        Function.__call__ = original  # type: ignore[method-assign]


def described(calls: list[tuple[Tape, list[Any], Any]], kept: dict[str, bytes]) -> Iterator[Kernel]:
    """The calls of one case; `kept` gains the tapes and arrays that a GPU cannot compute."""
    computed: set[str] = set()
    for tape, inputs, results in calls:
        place = f"tape/{tape.hash}"
        if place not in kept:
            kept[place] = encode_tape(tape)
        results = results if isinstance(results, tuple) else (results,)
        # the arrays that are given decide the precision, as in the call
        given = [a for a, port in zip(inputs, tape.inputs, strict=True) if a is not port.parameter]
        single = all(isinstance(a, np.ndarray | np.float32) and a.dtype == np.float32 for a in given)
        arrays = [np.asarray(getattr(a, "default", a), np.float32 if single else np.float64) for a in inputs]
        hashes = [digest(a) for a in arrays]
        for array, name in zip(arrays, hashes, strict=True):
            if name not in computed and f"array/{name}" not in kept:
                kept[f"array/{name}"] = encode_array(array)
        outputs = [digest(np.asarray(a)) for a in results]
        computed |= set(outputs)
        ports = [p.name for p in tape.inputs], [p.name for p in tape.outputs]
        yield Kernel(tape.hash, dict(zip(ports[0], hashes, strict=True)), dict(zip(ports[1], outputs, strict=True)))


def digest(array: np.ndarray) -> str:
    """Sha256 of type, shape and bits; all NaNs are one."""
    array = np.ascontiguousarray(np.where(np.isnan(array), np.asarray(np.nan, array.dtype), array))
    return hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode() + array.tobytes()).hexdigest()


def encode_array(array: np.ndarray) -> bytes:
    """An array in the format of NumPy."""
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def encode_tape(tape: Tape) -> bytes:
    """A tape: its ports as a line of JSON, then its operations. Parameters become inputs."""
    ports = [[{f.name: getattr(p, f.name) for f in fields(p) if f.name != "parameter"} for p in side] for side in _sides(tape)]
    return json.dumps({"name": tape.name, "ports": ports}).encode() + b"\n" + encode_block(tape.block)


def decode_tape(stored: bytes) -> Tape:
    """The tape that was encoded."""
    head, _, block = stored.partition(b"\n")
    found = json.loads(head)
    inputs, outputs = (tuple(Port(**{**p, "shape": tuple(p["shape"])}) for p in side) for side in found["ports"])
    return Tape(found["name"], decode_block(block), inputs, outputs)


def _sides(tape: Tape) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    return tape.inputs, tape.outputs


# ---- the GPU


def compare(file: Path, say: Print, *, only: str = "", backend: str = "cuda") -> dict[str, Any]:
    """Compute the cases of a file whose names contain `only`, and say which have all bits of the processor."""
    if backend == "cuda":
        say(require_gpu())
    found: dict[str, Any] = {}
    functions: dict[str, Function] = {}
    with zipfile.ZipFile(file) as archive:
        index = json.loads(archive.read("index.json"))
        for name, kernels in index.items():
            if only not in name:
                continue
            start, arrays, wrong, error = perf_counter(), dict[str, np.ndarray](), list[str](), ""
            try:
                for kernel in kernels:
                    wrong += different(Kernel(**kernel), archive, arrays, functions, backend)
            except CondyleError as failed:
                error = str(failed)
            found[name] = {"same_bits": not wrong and not error, "different": wrong, "error": error}
            result = error or (f"DIFFERENT: {', '.join(wrong)}" if wrong else "same bits")
            say(f"{name:<48} {result}  ({len(kernels)} kernels, {perf_counter() - start:.1f} s)")
    same = sum(row["same_bits"] for row in found.values())
    say(f"{same} of {len(found)} cases have the bits of the processor")
    return found


def different(
    kernel: Kernel, archive: zipfile.ZipFile, arrays: dict[str, np.ndarray], functions: dict[str, Function], backend: str
) -> list[str]:
    """The outputs of a kernel that have other bits; `arrays`: those that are known by their hash, which gain the outputs."""
    if kernel.tape not in functions:
        functions[kernel.tape] = Function(decode_tape(archive.read(f"tape/{kernel.tape}")), backend)
    function, missing = functions[kernel.tape], []
    for name, place in kernel.inputs.items():
        if place not in arrays:
            try:
                arrays[place] = np.load(io.BytesIO(archive.read(f"array/{place}")))
            except KeyError:
                missing.append(f"{function.tape.name}.{name} (not computed before)")
    if missing:
        return missing
    results = function(**{name: arrays[place] for name, place in kernel.inputs.items()})
    results = results if isinstance(results, tuple) else (results,)
    outputs = [np.asarray(a) for a in results]
    hashes = [digest(a) for a in outputs]
    arrays |= dict(zip(hashes, outputs, strict=True))
    both = zip(kernel.outputs.items(), hashes, strict=True)
    return [f"{function.tape.name}.{name}" for (name, wanted), found in both if wanted != found]


def main() -> None:
    """The command line; neither Rich nor Typer is needed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_bits", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="the file with tapes, inputs and hashes")
    parser.add_argument("--write", action="store_true", help="compute on this processor, and write the file")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--backend", default="cuda", help="what computes the second time")
    given = parser.parse_args()
    if given.write:
        from benchmarks.gpu_bits_cases import CASES

        write(given.file, {name: make for name, make in CASES.items() if given.only in name}, _say)
        _say(f"{given.file}: {given.file.stat().st_size / 1e6:.1f} MB")
        return
    found = compare(given.file, _say, only=given.only, backend=given.backend)
    sys.exit(not all(row["same_bits"] for row in found.values()))


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
