"""The CUDA driver by ctypes: devices, compiled code, memory and launches. Neither the toolkit nor a Python package is needed.

Contexts are the primary ones of each device, which PyTorch, CuPy and JAX use as well, so that pointers are valid everywhere.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from functools import cache, cached_property
from typing import Any

from condyle.errors import BackendError

LIBRARIES = ("libcuda.so.1", "libcuda.so")
OUT_OF_MEMORY, NOT_INITIALIZED, NO_DEVICE, INVALID_PTX, UNSUPPORTED_PTX, WRONG_KERNEL = 2, 3, 100, 218, 222, 209  # results
MAJOR, MINOR = 75, 76  # attributes: compute capability
POINTER_DEVICE = 9  # attribute of a pointer: the device whose memory it is
OPTIMIZATION, LOG, LOG_BYTES, TARGET_FROM_CONTEXT = 7, 5, 6, 8  # options of the compiler
SHARED_BYTES = 8  # attribute of a kernel: the most dynamic shared memory of a block
PTX = 1  # kind of input of the linker
LEAST_CAPABILITY = 70


class Driver:
    """The loaded library."""

    def __init__(self) -> None:
        for name in LIBRARIES:
            try:
                self.library: Any = ctypes.CDLL(name)
                break
            except OSError:
                continue
        else:
            raise BackendError(
                "the cuda backend needs an NVIDIA GPU and its driver, and this computer has no libcuda.so.1; use backend 'cpu'"
            )
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver; any result but success is an error."""
        code = getattr(self.library, name)(*arguments)
        if code:
            raise BackendError(self.sentence(code, name))

    def sentence(self, code: int, name: str) -> str:
        """What went wrong and what to do."""
        if code == NO_DEVICE:
            return "there is an NVIDIA driver, but no GPU that it can use (see nvidia-smi); use backend 'cpu'"
        if code == NOT_INITIALIZED:
            return "a forked process cannot use a GPU that its parent has used; start processes by 'spawn' or 'forkserver'"
        if code == OUT_OF_MEMORY:
            return "the GPU is out of memory; use a smaller batch, record less, or free arrays of other libraries"
        if code == UNSUPPORTED_PTX:
            return "the NVIDIA driver is too old for this code, which needs one for CUDA 11.8 or newer; update the driver"
        text = c_char_p()
        self.library.cuGetErrorString(code, byref(text))
        return f"the CUDA driver failed in {name}: {(text.value or b'unknown error').decode()} ({code})"


@cache
def driver() -> Driver:
    """The driver of this computer, or an error that says what is missing."""
    return Driver()


class Device:
    """One GPU."""

    def __init__(self, number: int) -> None:
        self.number = number
        handle, count = c_int(), c_int()
        driver().call("cuDeviceGetCount", byref(count))
        if not 0 <= number < count.value:
            raise BackendError(f"there is no GPU {number}: the driver shows {count.value}; use backend 'cpu', or another device")
        driver().call("cuDeviceGet", byref(handle), number)
        self.handle = handle
        if self.capability < LEAST_CAPABILITY:
            raise BackendError(
                f"{self.name} has compute capability {self.capability / 10:.1f}, and the cuda backend needs "
                f"{LEAST_CAPABILITY / 10:.1f} or newer (Volta); use backend 'cpu'"
            )

    @cached_property
    def name(self) -> str:
        """The name of the GPU."""
        text = ctypes.create_string_buffer(256)
        driver().call("cuDeviceGetName", text, len(text), self.handle)
        return text.value.decode()

    @cached_property
    def capability(self) -> int:
        """Ten times the compute capability: 90 for 9.0."""
        value = [c_int(), c_int()]
        for each, attribute in zip(value, (MAJOR, MINOR), strict=True):
            driver().call("cuDeviceGetAttribute", byref(each), attribute, self.handle)
        return 10 * value[0].value + value[1].value

    @cached_property
    def context(self) -> c_void_p:
        """Its primary context, which stays for the life of the process."""
        context = c_void_p()
        driver().call("cuDevicePrimaryCtxRetain", byref(context), self.handle)
        return context

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make its context that of the thread."""
        driver().call("cuCtxPushCurrent_v2", self.context)
        try:
            yield
        finally:
            driver().call("cuCtxPopCurrent_v2", byref(c_void_p()))

    def compiled(self, ptx: str, level: int) -> bytes:
        """PTX as code of this GPU, by the compiler inside of the driver; `level`: of optimisation, 0 to 4."""
        log = ctypes.create_string_buffer(8192)
        options = (c_int * 4)(OPTIMIZATION, LOG, LOG_BYTES, TARGET_FROM_CONTEXT)
        values = (c_void_p * 4)(level, ctypes.cast(log, c_void_p).value, len(log), 0)
        state, code, size, text = c_void_p(), c_void_p(), c_size_t(), ptx.encode() + b"\0"
        with self.current():
            driver().call("cuLinkCreate_v2", 4, options, values, byref(state))
            try:
                library = driver().library
                failed = library.cuLinkAddData_v2(state, PTX, text, c_size_t(len(text)), b"kernel", 0, None, None)
                failed = failed or library.cuLinkComplete(state, byref(code), byref(size))
                if failed:
                    what = log.value.decode(errors="replace").strip().splitlines()
                    raise BackendError(
                        f"{driver().sentence(failed, 'cuLinkComplete')}; {what[0] if what else 'no further message'}"
                    )
                return ctypes.string_at(code, size.value)
            finally:
                driver().call("cuLinkDestroy", state)


@cache
def device(number: int = 0) -> Device:
    """A GPU by its number."""
    return Device(number)


def device_of(pointer: int) -> int:
    """The number of the GPU whose memory an address is in."""
    found = c_int()
    driver().call("cuPointerGetAttribute", byref(found), POINTER_DEVICE, c_uint64(pointer))
    return found.value


class Code:
    """A kernel loaded on a GPU."""

    def __init__(self, on: Device, cubin: bytes, entry: str) -> None:
        self.device, self._module, self._function = on, c_void_p(), c_void_p()
        with on.current():
            driver().call("cuModuleLoadData", byref(self._module), cubin)
            driver().call("cuModuleGetFunction", byref(self._function), self._module, entry.encode())

    def number(self, name: str) -> int:
        """A 32-bit number of the module; 0 if it has none of that name."""
        address, size, found = c_uint64(), c_size_t(), c_uint()
        with self.device.current():
            if driver().library.cuModuleGetGlobal_v2(byref(address), byref(size), self._module, name.encode()):
                return 0
            driver().call("cuMemcpyDtoH_v2", byref(found), address, c_size_t(4))
        return found.value

    def allow_shared(self, size: int) -> None:
        """Let blocks have so many bytes of shared memory."""
        with self.device.current():
            driver().call("cuFuncSetAttribute", self._function, SHARED_BYTES, size)

    def launch(self, blocks: int, threads: int, ports: bytes, numbers: Sequence[int], stream: int = 0, shared: int = 0) -> None:
        """Queue the kernel on a stream; nothing waits for it. `shared`: bytes of shared memory of a block."""
        memory = ctypes.create_string_buffer(ports, len(ports))
        words = [c_uint64(n) for n in numbers]
        arguments = (c_void_p * (1 + len(words)))(ctypes.addressof(memory), *[ctypes.addressof(word) for word in words])
        size = [c_uint(n) for n in (blocks, 1, 1, threads, 1, 1, shared)]
        with self.device.current():
            driver().call("cuLaunchKernel", self._function, *size, c_void_p(stream), arguments, None)


class Buffer:
    """Memory of a GPU, freed with the object."""

    def __init__(self, on: Device, size: int) -> None:
        self.device, self.size, self._address = on, size, c_uint64()
        with on.current():
            driver().call("cuMemAlloc_v2", byref(self._address), c_size_t(max(size, 1)))

    @property
    def address(self) -> int:
        """Where it begins."""
        return self._address.value

    def fill(self, source: Any) -> None:
        """Copy a contiguous NumPy array to it."""
        with self.device.current():
            driver().call("cuMemcpyHtoD_v2", self._address, c_void_p(source.ctypes.data), c_size_t(source.nbytes))

    def read(self, target: Any) -> None:
        """Copy it to a contiguous NumPy array, when everything queued before is done."""
        with self.device.current():
            driver().call("cuMemcpyDtoH_v2", c_void_p(target.ctypes.data), self._address, c_size_t(target.nbytes))

    def __del__(self) -> None:
        if self._address.value:
            driver().library.cuMemFree_v2(self._address)


class Timer:
    """Milliseconds between two points of a stream, by events of the GPU."""

    def __init__(self, on: Device, stream: int = 0) -> None:
        self.device, self.stream, self.events = on, c_void_p(stream), [c_void_p(), c_void_p()]
        with on.current():
            for event in self.events:
                driver().call("cuEventCreate", byref(event), 0)

    def mark(self, k: int) -> None:
        """Queue the first (0) or second (1) point."""
        with self.device.current():
            driver().call("cuEventRecord", self.events[k], self.stream)

    @property
    def milliseconds(self) -> float:
        """The time between both points, when the second one is reached."""
        found = c_float()
        with self.device.current():
            driver().call("cuEventSynchronize", self.events[1])
            driver().call("cuEventElapsedTime", byref(found), *self.events)
        return found.value
