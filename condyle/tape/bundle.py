"""Bundles: compiled functions for several processors and GPUs in one file, which needs no compiler where it is used.

    save_bundle("arm.bundle", {"forward_dynamics": robot.function("forward_dynamics")}, ["cpu:x86-64-v3", "cuda:sm_90"])
    arm = load_bundle("arm.bundle")               # with NumPy alone; arrays on a GPU also need CuPy or PyTorch
    a = arm["forward_dynamics"](q, v, tau)

    magic, version, bytes of the header | header: JSON | sha256 of the header | code of each kernel

The header holds shapes, targets, and the sha256 of every piece of code: what is damaged, cut or foreign is refused with a reason.
A bundle is a program: load only those that you would run. Before a function is used, the golden vector must have its bits.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from operator import getitem
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from condyle.atomic_write import READ_ADVICE, PathLike, file_errors, write_bytes
from condyle.errors import BackendError, FileError
from condyle.tape.backends.cpu import CpuKernel
from condyle.tape.backends.reference import check_golden, golden_tape
from condyle.tape.device import on_device
from condyle.tape.device_call import device_call
from condyle.tape.flat_code import Image, LoadedImage, linked
from condyle.tape.function import Arguments, Function, outputs_class
from condyle.tape.host_info import available_threads
from condyle.tape.limbs import lanes_of
from condyle.tape.parameter import parameter
from condyle.tape.passes import lower
from condyle.tape.progress import compiling
from condyle.tape.ptx import ENTRY, ptx_source
from condyle.tape.tape import EXPECTED_ITERATIONS, Block, Port, Tape, operations

MAGIC, VERSION = b"\x89CDB\r\n\x1a\n", 1
HEAD = struct.Struct("<8sIQ")
LONGEST_HEADER = 64 << 20
GOLDEN = "golden vector"
# name -> (LLVM's triple, processor, bytes of a vector)
PROCESSORS = {
    "x86-64-v3": ("x86_64-unknown-linux-gnu", "x86-64-v3", 32),
    "x86-64-v4": ("x86_64-unknown-linux-gnu", "x86-64-v4", 64),
    "aarch64": ("aarch64-unknown-linux-gnu", "generic", 16),
}
FLAGS = {  # of /proc/cpuinfo, that a processor needs
    "x86-64-v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx2", "fma"},
    "x86-64-v3": {"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe"},
}
DTYPES = {"f64": "float64", "f32": "float32"}


# ---- targets


def targets(names: Sequence[str] | str) -> list[str]:
    """The targets of a list, or of text with commas, checked: "cpu:x86-64-v3", "cuda:sm_90"."""
    given = [name.strip() for name in (names.split(",") if isinstance(names, str) else names)]
    for name in given:
        kind, _, of = name.partition(":")
        if (kind == "cpu" and of in PROCESSORS) or (kind == "cuda" and re.fullmatch(r"sm_[1-9]\d{1,2}", of)):
            continue
        raise BackendError(
            f"there is no target '{name:.40}'; there are {', '.join(f'cpu:{x}' for x in PROCESSORS)}, and cuda:sm_90"
        )
    return list(dict.fromkeys(given))


@cache
def this_processor() -> tuple[str, ...]:
    """The processors of bundles that this computer can run, the fastest first."""
    if platform.machine() in ("aarch64", "arm64"):
        return ("aarch64",)
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    flags = next((set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), set())
    narrow = os.environ.get("CONDYLE_VECTOR_BYTES") == "32"
    return tuple(name for name, needed in FLAGS.items() if needed <= flags and not (narrow and name == "x86-64-v4"))


# ---- writing


def save_bundle(
    path: PathLike, functions: Mapping[str, Function], to: Sequence[str] | str, precisions: Sequence[str] = ("f64", "f32")
) -> None:
    """Write compiled functions for some targets into one file; `precisions`: "f64", "f32" or both."""
    chosen = targets(to)
    if not functions:
        raise BackendError("a bundle needs at least one function")
    everything = {**{name: function.tape for name, function in functions.items()}, GOLDEN: golden_tape()}
    blobs: list[bytes] = []
    listed = []
    for name, tape in everything.items():
        kernels = []
        for precision in precisions:
            for target in chosen:
                with compiling(f"{name} for {target}, {DTYPES[precision]}"):
                    kernel, code = _compiled(tape, precision, target)
                kernels.append(kernel | {"target": target, "precision": precision, "blob": len(blobs)})
                blobs.append(code)
        listed.append(
            {"name": name, "tape": tape.hash, "inputs": _ports(tape.inputs), "outputs": _ports(tape.outputs), "kernels": kernels}
        )
    pieces = [{"bytes": len(blob), "sha256": hashlib.sha256(blob).hexdigest()} for blob in blobs]
    header = json.dumps({"targets": chosen, "functions": listed, "blobs": pieces}).encode()
    head = HEAD.pack(MAGIC, VERSION, len(header))
    write_bytes(path, b"".join([head, header, hashlib.sha256(head + header).digest(), *blobs]))


def _ports(ports: Sequence[Port]) -> list[dict[str, Any]]:
    out = []
    for port in ports:
        default = None if port.parameter is None else port.parameter.default
        plain = None if default is None else [float(x) for x in _flat(default)]
        out.append({"name": port.name, "shape": port.shape, "table": port.table, "uniform": port.uniform, "default": plain})
    return out


def _flat(value: Any) -> list[float]:
    found: list[float] = np.asarray(value, dtype=float).ravel().tolist()
    return found


def _compiled(tape: Tape, precision: str, target: str) -> tuple[dict[str, Any], bytes]:
    """What the header says of a kernel, and its code."""
    low = lower(tape, precision)
    kind, _, of = target.partition(":")
    if kind == "cuda":
        from condyle.tape.partition import device_form

        # one kernel for rows and for states side by side
        form, ports = device_form(tape, precision), range(len(low.inputs) + len(low.outputs))
        ptx = ptx_source(form, precision, sm=int(of[3:]), strided=ports).encode()
        return {"ptx": len(ptx), "lanes": lanes_of(form.block)}, ptx + _cubin(ptx, of)
    from condyle.tape.llvm import kernel_ir
    from condyle.tape.target import cpu_target

    triple, cpu, vector = PROCESSORS[of]
    lanes = vector // (8 if precision == "f64" else 4)
    text, scratch = kernel_ir(low, precision, lanes, cpu_target(triple, vector))
    image = linked(_object_code(text, triple, cpu))
    expected = operations(low.block, until=EXPECTED_ITERATIONS)
    return {"lanes": lanes, "scratch": scratch, "expected": expected, "entries": image.entries}, image.data


def _object_code(text: str, triple: str, cpu: str) -> bytes:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()
    features = "+fma" if triple.startswith("x86_64") else ""
    module = llvm.parse_assembly(text)
    target = llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, features=features, opt=2, reloc="pic", codemodel="small"
    )
    code: bytes = target.emit_object(module)
    return code


def _cubin(ptx: bytes, sm: str) -> bytes:
    """Code of the GPU by ptxas, where there is one; the driver compiles the PTX otherwise, when it is first used."""
    tool = shutil.which("ptxas")
    if tool is None:
        return b""
    with tempfile.TemporaryDirectory(prefix="condyle-") as folder:
        source, made = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        source.write_bytes(ptx)
        done = subprocess.run([tool, f"-arch={sm}", "-O1", str(source), "-o", str(made)], capture_output=True, check=False)
        return made.read_bytes() if done.returncode == 0 else b""


# ---- reading


def load_bundle(path: PathLike) -> Bundle:
    """The functions of a bundle, for this computer; a FileError says what is wrong with the file."""
    with file_errors(path, "read", READ_ADVICE):
        data = Path(path).read_bytes()
    if len(data) < HEAD.size or data[:8] != MAGIC:
        raise FileError(f"{path} is no bundle: it does not begin as one; make it with `condyle compile` or condyle.save_bundle.")
    _, version, size = HEAD.unpack_from(data)
    if version != VERSION:
        raise FileError(f"{path} is a bundle of version {version}, and this Condyle reads version {VERSION}: make it again.")
    end = HEAD.size + size
    if size > LONGEST_HEADER or len(data) < end + 32:
        raise FileError(f"{path} ends early, after {len(data):,} bytes: copy it again.")
    if hashlib.sha256(data[:end]).digest() != data[end : end + 32]:
        raise FileError(f"{path} is damaged: its header does not have its sha256; copy it again.")
    header, blobs, at = json.loads(data[HEAD.size : end]), [], end + 32
    for number, piece in enumerate(header["blobs"]):
        blob = data[at : at + piece["bytes"]]
        at += piece["bytes"]
        if len(blob) < piece["bytes"]:
            raise FileError(f"{path} ends early, in piece {number + 1} of {len(header['blobs'])}: copy it again.")
        if hashlib.sha256(blob).hexdigest() != piece["sha256"]:
            raise FileError(f"{path} is damaged: piece {number + 1} does not have its sha256; copy it again.")
        blobs.append(blob)
    if at != len(data):
        raise FileError(f"{path} has {len(data) - at:,} bytes behind its end: copy it again.")
    return Bundle(str(path), header, blobs)


class Bundle(Mapping[str, "BundledFunction"]):
    """Compiled functions by name."""

    def __init__(self, path: str, header: dict[str, Any], blobs: list[bytes]) -> None:
        self.path, self.targets = path, tuple(header["targets"])
        self._content = header, blobs
        self._functions = {f["name"]: BundledFunction(self, f, blobs) for f in header["functions"]}
        self._golden = self._functions.pop(GOLDEN)
        self._checked: set[tuple[str, str]] = set()

    def __getitem__(self, name: str) -> BundledFunction:
        if name not in self._functions:
            raise BackendError(f"{self.path} has no function '{name!s:.60}'; it has {', '.join(self._functions)}")
        return self._functions[name]

    def __iter__(self) -> Any:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def __reduce__(self) -> tuple[Any, ...]:
        return Bundle, (self.path, *self._content)

    def __repr__(self) -> str:
        return f"<condyle bundle of {', '.join(self._functions)} for {', '.join(self.targets)}>"

    def check(self, precision: str, where: str) -> None:
        """Raise unless the golden vector has its bits here."""
        if (precision, where) not in self._checked:
            kernel = self._golden.kernel(precision, where, checked=True)
            check_golden(kernel, precision, f"{where} (bundle)")
            self._checked.add((precision, where))


class BundledFunction:
    """A function of a bundle: called like any compiled function, on NumPy arrays or on arrays of a GPU."""

    def __init__(self, bundle: Bundle, listed: dict[str, Any], blobs: list[bytes]) -> None:
        self.path, self.name, self._blobs, self._bundle = bundle.path, listed["name"], blobs, bundle
        self._listed, self._kernels, self.device_plans = listed["kernels"], dict[Any, Any](), dict[Any, Any]()
        inputs, outputs = (tuple(_port(p) for p in listed[side]) for side in ("inputs", "outputs"))
        self.tape = Tape(self.name, Block((), 0, ()), inputs, outputs)
        self._arguments = Arguments(self.tape)
        self._result = outputs_class(self.tape)

    def __reduce__(self) -> tuple[Any, ...]:
        return getitem, (self._bundle, self.name)

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the inputs, without batch axes."""
        return {p.name: p.shape for p in self.tape.inputs if p.parameter is None}

    @property
    def outputs(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the outputs, without batch axes."""
        return {p.name: p.shape for p in self.tape.outputs}

    def __call__(self, *args: Any, out: Any = None, **named: Any) -> Any:
        """The outputs for one state or a batch."""
        if on_device((*args, *named.values())):
            results = device_call(self, self._arguments.values(args, named), out)
        else:
            arrays, lead, dtype = self._arguments.bind(args, named, objects=False)
            outputs = self._arguments.outputs(lead, dtype, out, arrays)
            if len(outputs[0]):
                self.kernel("f32" if dtype.itemsize == 4 else "f64", "cpu")(arrays, outputs)
            results = self._arguments.shaped(outputs, lead, out)
        return results[0] if self._result is None else self._result(*results)

    def device_kernel(self, precision: str, number: int) -> Any:
        """The kernel on a GPU, by its number."""
        return self.kernel(precision, f"cuda:{number}")

    def kernel(self, precision: str, where: str, *, checked: bool = False) -> Any:
        """The loaded kernel of "cpu", or of a GPU such as "cuda:0"."""
        if (precision, where) not in self._kernels:
            if not checked:
                self._bundle.check(precision, where)
            make = self._on_processor if where == "cpu" else self._on_gpu
            self._kernels[precision, where] = make(precision, where)
        return self._kernels[precision, where]

    def _on_processor(self, precision: str, where: str) -> Any:
        for name in this_processor():
            for kernel in self._listed:
                if kernel["target"] == f"cpu:{name}" and kernel["precision"] == precision:
                    image = Image(self._blobs[kernel["blob"]], kernel["entries"])
                    return BundledKernel(self.tape, image, kernel, available_threads())
        self._missing(precision, f"this processor ({', '.join(this_processor()) or platform.machine()})")

    def _on_gpu(self, precision: str, where: str) -> Any:
        from condyle.tape.backends.cuda import CudaKernel, level_of
        from condyle.tape.cuda_driver import Code, device

        gpu = device(int(where.partition(":")[2]))
        fitting = [k for k in self._listed if k["target"].startswith("cuda:") and k["precision"] == precision]
        older = [k for k in fitting if int(k["target"][8:]) <= gpu.capability]
        if not older:
            self._missing(precision, f"{gpu.name} (sm_{gpu.capability})")
        best = max(older, key=lambda k: int(k["target"][8:]))
        ptx, cubin = self._blobs[best["blob"]][: best["ptx"]], self._blobs[best["blob"]][best["ptx"] :]
        exact = bool(cubin) and int(best["target"][8:]) == gpu.capability
        code = Code(gpu, cubin if exact else gpu.compiled(ptx.decode(), level_of(best["lanes"])), ENTRY)
        return CudaKernel(self.tape, precision, gpu, code, best["lanes"])

    def _missing(self, precision: str, what: str) -> NoReturn:
        there = ", ".join(dict.fromkeys(f"{k['target']} {DTYPES[k['precision']]}" for k in self._listed))
        raise BackendError(f"{self.path}: '{self.name}' has no code in {DTYPES[precision]} for {what}; it has {there}")


class BundledKernel(CpuKernel):
    """A kernel of a bundle on this processor."""

    def __init__(self, tape: Tape, image: Image, listed: dict[str, Any], threads: int) -> None:
        self._image = LoadedImage(image)
        super().__init__(tape, b"", listed["scratch"], listed["lanes"], listed["expected"], threads)

    def _load(self, code: bytes) -> Any:
        return None

    def _address(self, name: str) -> int:
        return self._image.address(name)


def _port(listed: dict[str, Any]) -> Port:
    shape = tuple(listed["shape"])
    default = None if listed["default"] is None else parameter(listed["name"], np.array(listed["default"]).reshape(shape))
    return Port(listed["name"], shape, listed["table"], listed["uniform"], default)
