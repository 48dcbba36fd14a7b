"""Inputs and outputs in memory as vectors of lanes: rows, transposed in tiles; columns (structure of arrays); or one state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from condyle.tape.ir_writer import IRWriter

if TYPE_CHECKING:
    from condyle.tape.emit_table import TableEmitter


class Ports:
    """The words of the ports of a kernel, `WORDS` of them each, in `%ports`."""

    WORDS: int

    def __init__(self, writer: IRWriter) -> None:
        self.writer, self.type = writer, writer.type
        self.data = writer.target.data

    def words(self, port: int) -> list[str]:
        """The words of a port: its address, then numbers of bytes."""
        kinds = [self.data, *["i64"] * (self.WORDS - 1)]
        ports = self.writer.target.ports
        places = [self.writer.put(f"getelementptr i64, {ports} %ports, i64 {self.WORDS * port + k}") for k in range(self.WORDS)]
        return [self.writer.put(f"load {kind}, {ports} {place}") for kind, place in zip(kinds, places, strict=True)]


class ColumnPorts(Ports):
    """Structure of arrays for one lane: (address, bytes from entry to entry, bytes from state to state). 0 repeats one state."""

    WORDS = 3

    def __init__(self, writer: IRWriter) -> None:
        super().__init__(writer)
        assert self.type.lanes == 1, "columns are read by one lane; the threads beside it read the states beside it"
        self.known: dict[int, tuple[str, str]] = {}  # port -> (pointer to this state, bytes from entry to entry)

    @staticmethod
    def tile_width(size: int, lanes: int) -> int:
        """Entries of a port that are moved together: one, because they lie apart."""
        return 1

    def point(self, port: int) -> None:
        """Prepare the access to a port."""
        base, entry, state = self.words(port)
        offset = self.writer.put(f"mul i64 %b, {state}")
        self.known[port] = (self.writer.put(f"getelementptr i8, {self.data} {base}, i64 {offset}"), entry)

    def load(self, port: int, size: int, wanted: set[int], shift: str = "0") -> dict[int, str]:
        """entry -> vector for the wanted ones of `size` entries that start `shift` entries into the port."""
        kind, bytes_ = self.type.vector, self.type.bytes
        places = {k: self._at(port, k, shift) for k in sorted(wanted)}
        return {k: self.writer.put(f"load {kind}, {self.data} {p}, align {bytes_}") for k, p in places.items()}

    def store(self, port: int, vectors: list[str], shift: str = "0") -> None:
        """Write one vector per entry, `shift` entries into the port."""
        for k, vector in enumerate(vectors):
            place = self._at(port, k, shift)
            self.writer.do(f"store {self.type.vector} {vector}, {self.data} {place}, align {self.type.bytes}")

    def _at(self, port: int, entry: int, shift: str) -> str:
        pointer, stride = self.known[port]
        index = str(entry) if shift == "0" else self.writer.put(f"add i64 {shift}, {entry}")
        offset = self.writer.put(f"mul i64 {stride}, {index}")
        return self.writer.put(f"getelementptr i8, {self.data} {pointer}, i64 {offset}")


class VectorPorts(Ports):
    """A vector of lanes for each entry, side by side: (address, 0)."""

    WORDS = 2

    def __init__(self, writer: IRWriter) -> None:
        super().__init__(writer)
        self.pointers: dict[int, str] = {}

    @staticmethod
    def tile_width(size: int, lanes: int) -> int:
        """Entries of a port that are moved together: one."""
        return 1

    def point(self, port: int) -> None:
        """Prepare the access to a port."""
        self.pointers[port], _ = self.words(port)

    def load(self, port: int, size: int, wanted: set[int], shift: str = "0") -> dict[int, str]:
        """entry -> vector for the wanted ones of `size` entries that start `shift` entries into the port."""
        kind = self.type.vector
        return {k: self.writer.put(f"load {kind}, {self.data} {self.places(port, k, shift)[0]}") for k in sorted(wanted)}

    def store(self, port: int, vectors: list[str], shift: str = "0") -> None:
        """Write one vector per entry, `shift` entries into the port."""
        for k, vector in enumerate(vectors):
            self.writer.do(f"store {self.type.vector} {vector}, {self.data} {self.places(port, k, shift)[0]}")

    def places(self, port: int, start: int, shift: str) -> list[str]:
        """Pointer to an entry."""
        entry = str(start) if shift == "0" else self.writer.put(f"add i64 {shift}, {start}")
        return [self.writer.put(f"getelementptr {self.type.vector}, {self.data} {self.pointers[port]}, i64 {entry}")]


class RowPorts(Ports):
    """A state is a row: (address, bytes from row to row). Tiles of as many rows as there are lanes are transposed."""

    WORDS = 2

    def __init__(self, writer: IRWriter) -> None:
        super().__init__(writer)
        self.pointers: dict[int, list[str]] = {}
        # lanes beyond the batch repeat its last row: they read and write the same bits as that lane
        self.rows = []
        first = writer.put(f"mul i64 %b, {self.type.lanes}")
        for lane in range(self.type.lanes):
            row = writer.put(f"add i64 {first}, {lane}")
            self.rows.append(writer.put(f"call i64 @llvm.smin.i64(i64 {row}, i64 %last_row)"))

    @staticmethod
    def tile_width(size: int, lanes: int) -> int:
        """Entries of a port that are moved together: the largest power of two that fits into the row and the vector."""
        return min(lanes, 1 << max(size.bit_length() - 1, 0))

    def point(self, port: int) -> None:
        """Prepare the access to a port."""
        base, stride = self.words(port)
        offsets = [self.writer.put(f"mul i64 {row}, {stride}") for row in self.rows]
        self.pointers[port] = [self.writer.put(f"getelementptr i8, {self.data} {base}, i64 {offset}") for offset in offsets]

    def start(self, port: int) -> str:
        """Pointer to the row of the first lane."""
        return self.pointers[port][0]

    def load(self, port: int, size: int, wanted: set[int], shift: str = "0") -> dict[int, str]:
        """entry -> vector for the wanted ones of `size` entries that start `shift` entries into the port."""
        width = self.tile_width(size, self.type.lanes)
        found: dict[int, str] = {}
        for start in tile_starts(size, width):
            if not any(start + k in wanted and start + k not in found for k in range(width)):
                continue
            tile, bytes_ = f"<{width} x {self.type.element}>", self.type.bytes
            parts = [self.writer.put(f"load {tile}, {self.data} {p}, align {bytes_}") for p in self.places(port, start, shift)]
            groups = [self._transpose(parts[g : g + width], width) for g in range(0, self.type.lanes, width)]
            for k in range(width):
                if start + k in wanted:
                    found[start + k] = self._join([group[k] for group in groups], width)
        return found

    def store(self, port: int, vectors: list[str], shift: str = "0") -> None:
        """Write one vector per entry, `shift` entries into the port."""
        if not vectors:
            return
        width = self.tile_width(len(vectors), self.type.lanes)
        for start in tile_starts(len(vectors), width):
            pointers = self.places(port, start, shift)
            for g in range(0, self.type.lanes, width):
                columns = [self._part(vectors[start + k], g, width) for k in range(width)]
                for row, pointer in zip(self._transpose(columns, width), pointers[g : g + width], strict=True):
                    self.writer.do(f"store <{width} x {self.type.element}> {row}, {self.data} {pointer}, align {self.type.bytes}")

    def places(self, port: int, start: int, shift: str) -> list[str]:
        """Pointers to an entry in the row of each lane."""
        element = self.type.element
        entry = str(start) if shift == "0" else self.writer.put(f"add i64 {shift}, {start}")
        return [self.writer.put(f"getelementptr {element}, {self.data} {p}, i64 {entry}") for p in self.pointers[port]]

    def _transpose(self, rows: list[str], n: int) -> list[str]:
        """n vectors of n entries, transposed by exchanging halves, quarters, ... of pairs."""
        kind = f"<{n} x {self.type.element}>"
        distance = 1
        while distance < n:
            out = list(rows)
            for i in range(n):
                if i & distance:
                    continue
                a, b = rows[i], rows[i + distance]
                low = [j + n - distance if j & distance else j for j in range(n)]
                high = [j + n if j & distance else j + distance for j in range(n)]
                for where, mask in ((i, low), (i + distance, high)):
                    lanes = ", ".join(f"i32 {m}" for m in mask)
                    out[where] = self.writer.put(f"shufflevector {kind} {a}, {kind} {b}, <{n} x i32> <{lanes}>")
            rows = out
            distance *= 2
        return rows

    def _join(self, parts: list[str], width: int) -> str:
        """Short vectors side by side as one."""
        while len(parts) > 1:
            kind = f"<{width} x {self.type.element}>"
            lanes = ", ".join(f"i32 {m}" for m in range(2 * width))
            mask = f"<{2 * width} x i32> <{lanes}>"
            parts = [
                self.writer.put(f"shufflevector {kind} {a}, {kind} {b}, {mask}")
                for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
            width *= 2
        return parts[0]

    def _part(self, vector: str, first: int, width: int) -> str:
        """`width` lanes of a vector."""
        if width == self.type.lanes:
            return vector
        lanes = ", ".join(f"i32 {first + k}" for k in range(width))
        kind = self.type.vector
        return self.writer.put(f"shufflevector {kind} {vector}, {kind} poison, <{width} x i32> <{lanes}>")


class LimbPorts(Ports):
    """One state in all lanes: (address, bytes from row to row). An entry is read into every lane, and written from the first."""

    WORDS = 2

    def __init__(self, writer: TableEmitter) -> None:
        super().__init__(writer)
        self.table_writer = writer
        self.pointers: dict[int, str] = {}

    @staticmethod
    def tile_width(size: int, lanes: int) -> int:
        """Entries of a port that are moved together: one."""
        return 1

    def point(self, port: int) -> None:
        """Prepare the access to a port."""
        base, stride = self.words(port)
        offset = self.writer.put(f"mul i64 %b, {stride}")
        self.pointers[port] = self.writer.put(f"getelementptr i8, {self.data} {base}, i64 {offset}")

    def load(self, port: int, size: int, wanted: set[int], shift: str = "0") -> dict[int, str]:
        """entry -> vector for the wanted ones of `size` entries that start `shift` entries into the port."""
        found: dict[int, str] = {}
        for k in sorted(wanted):
            (place,) = self.places(port, k, shift)
            number = self.writer.put(f"load {self.type.element}, {self.data} {place}, align {self.type.bytes}")
            found[k] = self.table_writer.broadcast(number)
            self.table_writer.scalars[found[k]] = number
        return found

    def store(self, port: int, vectors: list[str], shift: str = "0") -> None:
        """Write one number per entry, `shift` entries into the port."""
        for k, vector in enumerate(vectors):
            (place,) = self.places(port, k, shift)
            number = self.writer.put(f"extractelement {self.type.vector} {vector}, i64 0")
            self.writer.do(f"store {self.type.element} {number}, {self.data} {place}, align {self.type.bytes}")

    def places(self, port: int, start: int, shift: str) -> list[str]:
        """Pointer to an entry."""
        entry = str(start) if shift == "0" else self.writer.put(f"add i64 {shift}, {start}")
        return [self.writer.put(f"getelementptr {self.type.element}, {self.data} {self.pointers[port]}, i64 {entry}")]


def tile_starts(size: int, width: int) -> list[int]:
    """Tiles that cover the row; the last one overlaps its neighbour rather than reach beyond the row."""
    return [*range(0, size - width, width), size - width]
