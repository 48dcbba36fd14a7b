"""Rows in memory to vectors of lanes and back: each lane is one row of the batch, so tiles of entries are transposed."""

from __future__ import annotations

from collections.abc import Callable

from condyle.tape.vector_type import Format

Put = Callable[[str], str]  # writes `%new = text` and returns %new


class Rows:
    """The rows of a lane block in every port. `put` writes one instruction, `do` one that gives nothing."""

    def __init__(self, form: Format, put: Put, do: Callable[[str], None]) -> None:
        self.format, self.put, self.do = form, put, do
        self.pointers: dict[int, list[str]] = {}
        # lanes beyond the batch repeat its last row: they read and write the same bits as that lane
        self.rows = []
        first = put(f"mul i64 %b, {form.lanes}")
        for lane in range(form.lanes):
            row = put(f"add i64 {first}, {lane}")
            self.rows.append(put(f"call i64 @llvm.smin.i64(i64 {row}, i64 %last_row)"))

    def point(self, port: int) -> None:
        """Compute each lane's pointer into a port; the port's address and stride are read from `%ports`."""
        at = [self.put(f"getelementptr i64, ptr %ports, i64 {2 * port + k}") for k in (0, 1)]
        base, stride = self.put(f"load ptr, ptr {at[0]}"), self.put(f"load i64, ptr {at[1]}")
        offsets = [self.put(f"mul i64 {row}, {stride}") for row in self.rows]
        self.pointers[port] = [self.put(f"getelementptr i8, ptr {base}, i64 {offset}") for offset in offsets]

    def load(self, port: int, size: int, wanted: set[int], shift: str = "0") -> dict[int, str]:
        """entry -> vector for the wanted ones of `size` entries that start `shift` entries into each row."""
        width = tile_width(size, self.format.lanes)
        found: dict[int, str] = {}
        for start in tile_starts(size, width):
            if not any(start + k in wanted and start + k not in found for k in range(width)):
                continue
            tile = f"<{width} x {self.format.element}>"
            parts = [self.put(f"load {tile}, ptr {p}, align {self.format.bytes}") for p in self._at(port, start, shift)]
            groups = [self._transpose(parts[g : g + width], width) for g in range(0, self.format.lanes, width)]
            for k in range(width):
                if start + k in wanted:
                    found[start + k] = self._join([group[k] for group in groups], width)
        return found

    def store(self, port: int, vectors: list[str], shift: str = "0") -> None:
        """Write one vector per entry, `shift` entries into each row."""
        width = tile_width(len(vectors), self.format.lanes)
        for start in tile_starts(len(vectors), width):
            pointers = self._at(port, start, shift)
            for g in range(0, self.format.lanes, width):
                columns = [self._part(vectors[start + k], g, width) for k in range(width)]
                for row, pointer in zip(self._transpose(columns, width), pointers[g : g + width], strict=True):
                    self.do(f"store <{width} x {self.format.element}> {row}, ptr {pointer}, align {self.format.bytes}")

    def _at(self, port: int, start: int, shift: str) -> list[str]:
        element = self.format.element
        if shift == "0":
            return [self.put(f"getelementptr {element}, ptr {p}, i64 {start}") for p in self.pointers[port]]
        entry = self.put(f"add i64 {shift}, {start}")
        return [self.put(f"getelementptr {element}, ptr {p}, i64 {entry}") for p in self.pointers[port]]

    def _transpose(self, rows: list[str], n: int) -> list[str]:
        """n vectors of n entries, transposed by exchanging halves, quarters, ... of pairs."""
        kind = f"<{n} x {self.format.element}>"
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
                    out[where] = self.put(f"shufflevector {kind} {a}, {kind} {b}, <{n} x i32> <{lanes}>")
            rows = out
            distance *= 2
        return rows

    def _join(self, parts: list[str], width: int) -> str:
        """Short vectors side by side as one."""
        while len(parts) > 1:
            kind = f"<{width} x {self.format.element}>"
            lanes = ", ".join(f"i32 {m}" for m in range(2 * width))
            mask = f"<{2 * width} x i32> <{lanes}>"
            parts = [
                self.put(f"shufflevector {kind} {a}, {kind} {b}, {mask}") for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
            width *= 2
        return parts[0]

    def _part(self, vector: str, first: int, width: int) -> str:
        """`width` lanes of a vector."""
        if width == self.format.lanes:
            return vector
        lanes = ", ".join(f"i32 {first + k}" for k in range(width))
        kind = self.format.vector
        return self.put(f"shufflevector {kind} {vector}, {kind} poison, <{width} x i32> <{lanes}>")


def tile_width(size: int, lanes: int) -> int:
    """The largest power of two that is neither wider than the row nor than the vector."""
    return min(lanes, 1 << (size.bit_length() - 1))


def tile_starts(size: int, width: int) -> list[int]:
    """Tiles that cover the row; the last one overlaps its neighbour rather than reach beyond the row."""
    return [*range(0, size - width, width), size - width]
