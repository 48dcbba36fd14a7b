"""The vertices of mesh files: STL, binary or text, and OBJ. Only vertices are read, and nothing a file says is trusted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from condyle.errors import SimulationError
from condyle.robot.numbers import numbers

MAX_BYTES = 64 * 2**20
MAX_VERTICES = 2_000_000

HEADER, TRIANGLE = 84, 50  # bytes, of a binary STL


def read_vertices(path: Path) -> np.ndarray:
    """The different vertices of a mesh file, sorted, of shape (n, 3), in the file's own units."""
    readers = {".stl": _stl, ".obj": _obj}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise SimulationError(
            f"{path}: vertices can be read from .stl and .obj files, not from '{path.suffix}'; convert the mesh"
        )
    vertices = reader(path, _content(path))
    if not len(vertices):
        raise SimulationError(f"{path}: the mesh has no vertices; export it again")
    if len(vertices) > MAX_VERTICES:
        raise SimulationError(f"{path}: {len(vertices):,} vertices are more than {MAX_VERTICES:,}; simplify the mesh")
    if not np.all(np.isfinite(vertices)):
        row = int(np.argwhere(~np.isfinite(vertices))[0][0])
        raise SimulationError(f"{path}: vertex {row} is {vertices[row]}, not finite; repair the mesh")
    unique: np.ndarray = np.unique(vertices, axis=0)
    return unique


def _content(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise SimulationError(f"{path}: there is no such file")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SimulationError(f"{path}: cannot be read ({error.strerror}); check its permissions") from None
    if len(content) > MAX_BYTES:
        raise SimulationError(f"{path}: the file is larger than {MAX_BYTES // 2**20} MiB; simplify the mesh")
    return content


def _stl(path: Path, content: bytes) -> np.ndarray:
    """Binary if the size is what the number of triangles asks for, whatever the header says; else text."""
    count = int.from_bytes(content[80:HEADER], "little") if len(content) >= HEADER else -1
    if count >= 0 and len(content) == HEADER + TRIANGLE * count:
        triangles = np.frombuffer(content, dtype=np.uint8, offset=HEADER).reshape(count, TRIANGLE)
        # a triangle is twelve float32: the normal, then three vertices
        corners = np.ascontiguousarray(triangles[:, 12:48]).view("<f4")
        return corners.reshape(-1, 3).astype(np.float64)
    if content.lstrip()[:5].lower() != b"solid":
        wanted = f"{HEADER + TRIANGLE * count:,} for its {count:,} triangles" if count >= 0 else f"at least {HEADER}"
        raise SimulationError(f"{path}: no STL: it has {len(content):,} bytes, and would need {wanted}; export it again")
    return _lines(path, content, b"vertex", exactly=True)


def _obj(path: Path, content: bytes) -> np.ndarray:
    return _lines(path, content, b"v", exactly=False)


def _lines(path: Path, content: bytes, word: bytes, *, exactly: bool) -> np.ndarray:
    """The three numbers behind `word` in every line that begins with it; an OBJ may have a weight or a colour behind them."""
    rows: list[tuple[float, ...]] = []
    for number, parts in _words(content):
        if parts[0].lower() != word:
            continue
        if len(rows) == MAX_VERTICES * 6:
            # a text STL repeats every vertex about six times
            raise SimulationError(f"{path}: there are more than {len(rows):,} vertices; simplify the mesh")
        given = parts[1:] if exactly else parts[1:4]
        try:
            rows.append(numbers(b" ".join(given[:8]).decode("ascii", "replace"), 3))
        except ValueError as error:
            raise SimulationError(f"{path}:{number}: a vertex needs three numbers: {error}") from None
    return np.array(rows, dtype=np.float64).reshape(-1, 3)


def _words(content: bytes) -> Iterable[tuple[int, list[bytes]]]:
    """(line number, words) of every line that is not empty."""
    for number, line in enumerate(content.splitlines(), start=1):
        parts = line.split(maxsplit=8)
        if parts:
            yield number, parts
