"""Object code as one position-independent image, linked by us: it runs after a copy into memory, without LLVM or a linker.

A kernel calls nothing from outside and has no writable data, so only its own code and constants have to find each other.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from dataclasses import dataclass

from condyle.errors import BackendError

X86_64, AARCH64 = 62, 183  # processors of ELF files
ALLOCATED = 2  # flag of sections that are loaded
PROGBITS, SYMTAB, RELA = 1, 2, 4  # kinds of sections
PAGE = 4096


@dataclass(frozen=True)
class Image:
    """Code and constants, and where the functions `kernel` and `single` begin in them."""

    data: bytes
    entries: dict[str, int]


@dataclass(frozen=True)
class _Section:
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


def linked(code: bytes, names: tuple[str, ...] = ("kernel", "single")) -> Image:
    """The image of an ELF object file of x86-64 or AArch64, with these functions."""
    processor, sections = _sections(code)
    places, size = _places(code, sections)
    image = bytearray(size)
    for k, place in places.items():
        section = sections[k]
        image[place : place + section.size] = code[section.offset : section.offset + section.size]
    symbols = _symbols(code, sections, places)
    for section in sections:
        if section.kind == RELA and section.info in places:
            for at in range(section.offset, section.offset + section.size, 24):
                offset, info, addend = struct.unpack_from("<QQq", code, at)
                target = symbols[info >> 32][1]
                if target is None:
                    raise BackendError("the compiled object refers to something outside of it, so it cannot be bundled")
                _relocate(processor, image, places[section.info] + offset, info & 0xFFFFFFFF, target + addend)
    found = {name: place for name, place in symbols if name in names and place is not None}
    if set(found) != set(names):
        raise BackendError(f"the compiled object lacks {', '.join(sorted(set(names) - set(found)))}")
    return Image(bytes(image), found)


def _sections(code: bytes) -> tuple[int, list[_Section]]:
    if code[:6] != b"\x7fELF\x02\x01":
        raise BackendError("bundles are made from 64-bit little-endian ELF objects, as LLVM writes them on Linux")
    processor = struct.unpack_from("<H", code, 18)[0]
    (start,), (count,) = struct.unpack_from("<Q", code, 40), struct.unpack_from("<H", code, 60)
    found = []
    for k in range(count):
        _, kind, flags, _, offset, size, link, info, align, _ = struct.unpack_from("<IIQQQQIIQQ", code, start + 64 * k)
        found.append(_Section(kind, flags, offset, size, link, info, align))
    return processor, found


def _places(code: bytes, sections: list[_Section]) -> tuple[dict[int, int], int]:
    """Where each loaded section lies in the image, and the size of the image; constants begin at a page of their own."""
    places, at = {}, 0
    for k, section in enumerate(sections):
        if section.flags & ALLOCATED and section.kind == PROGBITS and section.size:
            at += -at % max(section.align, 64)
            places[k] = at
            at += section.size
    return places, at


def _symbols(code: bytes, sections: list[_Section], places: dict[int, int]) -> list[tuple[str, int | None]]:
    table = next(section for section in sections if section.kind == SYMTAB)
    names = sections[table.link]
    found: list[tuple[str, int | None]] = []
    for at in range(table.offset, table.offset + table.size, 24):
        name, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", code, at)
        end = code.index(b"\0", names.offset + name)
        found.append((code[names.offset + name : end].decode(), places[section] + value if section in places else None))
    return found


def _relocate(processor: int, image: bytearray, at: int, kind: int, target: int) -> None:
    """Write the distance to a target into an instruction, by the rules of the processor's ELF supplement."""
    distance = target - at
    if processor == X86_64 and kind in (2, 4):  # PC32, PLT32
        struct.pack_into("<i", image, at, distance)
    elif processor == X86_64 and kind == 24:  # PC64
        struct.pack_into("<q", image, at, distance)
    elif processor == AARCH64:
        word = struct.unpack_from("<I", image, at)[0]
        struct.pack_into("<I", image, at, _aarch64(word, at, kind, target))
    else:
        raise BackendError(f"the compiled object has relocations of kind {kind}, which bundles do not know")


def _aarch64(word: int, at: int, kind: int, target: int) -> int:
    if kind in (282, 283):  # JUMP26, CALL26
        return word & 0xFC000000 | (target - at) >> 2 & 0x3FFFFFF
    if kind in (275, 276):  # ADR_PREL_PG_HI21: images begin at a page
        pages = (target >> 12) - (at >> 12)
        return word & 0x9F00001F | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5
    shift = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}.get(kind)  # ADD and LDST8 to LDST128 by the lower 12 bits
    if shift is None:
        raise BackendError(f"the compiled object has AArch64 relocations of kind {kind}, which bundles do not know")
    return word & 0xFFC003FF | ((target & 0xFFF) >> shift) << 10


class LoadedImage:
    """An image in executable memory, for as long as the object lives."""

    def __init__(self, image: Image) -> None:
        size = -(-len(image.data) // PAGE) * PAGE
        self._memory = mmap.mmap(-1, size, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        self._memory.write(image.data)
        self._view = ctypes.c_char.from_buffer(self._memory)
        self.start = ctypes.addressof(self._view)
        # written first, executable then, never both
        if ctypes.CDLL(None).mprotect(ctypes.c_void_p(self.start), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
            raise BackendError("this computer does not allow code from a bundle to run (mprotect failed)")
        self.entries = image.entries

    def address(self, name: str) -> int:
        """Where a function begins."""
        return self.start + self.entries[name]
