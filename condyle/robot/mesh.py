"""Mesh files: STL and OBJ with NumPy alone, DAE, PLY, GLB and OFF through trimesh. Every size and index in a file is checked."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from condyle.errors import CondyleError, FileError, require
from condyle.robot.fields import numbers

Color = tuple[float, float, float, float]

MAX_BYTES = 64 * 2**20  # of a mesh file
MAX_FACES = 500_000
MAX_VERTICES = 1_500_000  # of MAX_FACES separate triangles
MAX_CORNERS = 3_000  # of one face of an OBJ file
OWN_READERS = (".stl", ".obj")
THROUGH_TRIMESH = (".dae", ".ply", ".glb", ".off")
UNIT = re.compile(rb"<unit\b[^>]{0,200}?\bmeter=[\"']([0-9.eE+-]{1,30})[\"']")
HEADER = 84  # bytes, of a binary STL
TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles in the file's own frame: vertices (n, 3), faces (m, 3), and a colour (r, g, b, a) if the file has one."""

    vertices: np.ndarray
    faces: np.ndarray
    color: Color | None = None


def read_mesh(path: Path, sha256: str | None = None) -> tuple[Mesh, ...]:
    """The meshes of a file, one for each colour it has: float32 vertices, each once, int32 faces. FileError if there are none.

    `sha256` is the hash that the content must have, where a run names the file: other files are not opened for it.
    """
    if sha256 is not None and str(path).startswith(("\\\\", "//")):
        raise FileError(f"{path.name}: a run names a file in the network, which is not opened")
    return _merged(path, *_version(path), sha256)


def read_vertices(path: Path) -> np.ndarray:
    """The distinct vertices of a mesh file, sorted, float64 (n, 3), in the file's own units. Faces are not needed."""
    _version(path)
    vertices = np.concatenate([mesh.vertices for mesh in _parsed(path, _content(path))])
    if not len(vertices):
        raise FileError(f"{path.name}: the mesh has no vertices; export it again")
    if len(vertices) > MAX_VERTICES:
        raise FileError(f"{path.name}: {len(vertices):,} vertices are more than {MAX_VERTICES:,}; simplify the mesh")
    unique: np.ndarray = np.unique(vertices, axis=0)
    return unique


def mesh_hash(path: Path) -> str:
    """The sha256 of a mesh file, "" for what is no readable file or is too large to be shown."""
    try:
        return _hash(path, *_version(path))
    except (OSError, ValueError):
        return ""


# -- content


def _version(path: Path) -> tuple[int, int]:
    """(time of the last change, size) of a file that may be read."""
    try:
        if not path.is_file():
            raise FileError(f"{path.name}: there is no such file")
        stat = path.stat()
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path.name}: cannot be read ({error.strerror}); check its permissions") from None
    if stat.st_size > MAX_BYTES:
        raise FileError(f"{path.name}: the file is larger than {MAX_BYTES // 2**20} MiB; simplify the mesh")
    return stat.st_mtime_ns, stat.st_size


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise FileError(f"{path.name}: cannot be read ({error.strerror}); check its permissions") from None


@lru_cache(maxsize=1024)
def _hash(path: Path, _changed: int, _size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=64)
def _merged(path: Path, _changed: int, _size: int, sha256: str | None) -> tuple[Mesh, ...]:
    """The meshes of one version of a file, with equal vertices merged and faces without area left out."""
    content = _content(path)
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise FileError(f"{path.name}: the file is not the one that the run was recorded with, so it is not opened")
    meshes = []
    for mesh in _parsed(path, content):
        if problem := _wrong_faces(mesh):
            raise FileError(f"{path.name}: {problem}")
        # minus zero is zero
        vertices, where = np.unique(mesh.vertices.astype(np.float32) + np.float32(0.0), axis=0, return_inverse=True)
        faces = where.reshape(-1)[mesh.faces]
        apart = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
        meshes.append(Mesh(vertices, faces[apart].astype(np.int32), mesh.color))
    return tuple(meshes)


def _wrong_faces(mesh: Mesh) -> str:
    """What is wrong with the faces, "" if nothing is."""
    faces, count = mesh.faces, len(mesh.vertices)
    if not len(faces):
        return "the mesh has no faces; export it again"
    if len(faces) > MAX_FACES:
        return f"{len(faces):,} faces are more than {MAX_FACES:,}; simplify the mesh"
    if faces.min() < 0 or faces.max() >= count:
        return f"a face names a vertex that is not among the {count:,} of the mesh; export it again"
    return ""


def _parsed(path: Path, content: bytes) -> list[Mesh]:
    """What the content of a file says: float64 vertices, which are finite, and int64 faces, which are not checked."""
    kind = path.suffix.lower()
    try:
        if kind == ".stl":
            found = [_stl(content)]
        elif kind == ".obj":
            found = [_obj(content)]
        elif kind in THROUGH_TRIMESH:
            found = _by_trimesh(content, kind)
        else:
            raise ValueError(f"a mesh is a {', '.join(OWN_READERS + THROUGH_TRIMESH)} file, not '{kind}'; convert it")
    except _LineError as error:
        raise FileError(f"{path.name}:{error}") from None
    except CondyleError:
        raise
    except Exception as error:  # readers of others may raise anything: the view goes on, with a note
        reason = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
        raise FileError(f"{path.name}: {reason}") from None
    for mesh in found:
        if not np.all(np.isfinite(mesh.vertices)):
            row = int(np.argwhere(~np.isfinite(mesh.vertices))[0][0])
            raise FileError(f"{path.name}: vertex {row} is {mesh.vertices[row]}, not finite; repair the mesh")
    return found


# -- formats


class _LineError(ValueError):
    """A ValueError that begins with the number of a line."""


def _stl(content: bytes) -> Mesh:
    """Binary if the size is what the number of triangles asks for, whatever the header says; else text."""
    count = int.from_bytes(content[80:HEADER], "little") if len(content) >= HEADER else -1
    wanted = HEADER + TRIANGLE.itemsize * count
    if count >= 0 and len(content) == wanted:
        corners = np.frombuffer(content, dtype=TRIANGLE, offset=HEADER)["corners"].reshape(-1, 3).astype(np.float64)
    elif content.lstrip()[:5].lower() == b"solid":
        corners = _lines(content, {b"vertex": lambda words, rows: rows.append(_vertex(words))})
        if len(corners) % 3:
            raise ValueError("a triangle lacks a vertex: the file is cut; export it again")
    else:
        needed = f"{wanted:,} for its {count:,} triangles" if count >= 0 else f"at least {HEADER}"
        raise ValueError(f"it is no STL: it has {len(content):,} bytes, and would need {needed}; export it again")
    return Mesh(corners, np.arange(len(corners)).reshape(-1, 3))


def _obj(content: bytes) -> Mesh:
    """Vertices and faces; polygons become fans, and everything else in the file is left aside."""
    faces: list[tuple[int, int, int]] = []

    def face(words: list[bytes], rows: list[tuple[float, ...]]) -> None:
        corners = [_index(word, len(rows)) for word in words]
        if not 3 <= len(corners) <= MAX_CORNERS:
            raise ValueError(f"a face has {len(corners)} corners, not 3 to {MAX_CORNERS:,}; export it again")
        faces.extend((corners[0], b, c) for b, c in pairwise(corners[1:]))
        if len(faces) > MAX_FACES:
            raise ValueError(f"there are more than {MAX_FACES:,} faces; simplify the mesh")

    # a weight or a colour may stand behind the three numbers of a vertex
    vertices = _lines(content, {b"v": lambda words, rows: rows.append(_vertex(words[:3])), b"f": face})
    return Mesh(vertices, np.array(faces, dtype=np.int64).reshape(-1, 3))


def _lines(content: bytes, read: dict[bytes, Callable[[list[bytes], list[tuple[float, ...]]], None]]) -> np.ndarray:
    """The vertices (n, 3) of a text file, each line read by the function for its first word."""
    rows: list[tuple[float, ...]] = []
    for number, line in enumerate(content.splitlines(), start=1):
        words = line.split()
        reader = read.get(words[0].lower()) if words else None
        if reader is None:
            continue
        try:
            reader(words[1:], rows)
        except ValueError as error:
            raise _LineError(f"{number}: {error}") from None
        if len(rows) > MAX_VERTICES:
            raise ValueError(f"there are more than {MAX_VERTICES:,} vertices; simplify the mesh")
    return np.array(rows, dtype=np.float64).reshape(-1, 3)


def _vertex(words: list[bytes]) -> tuple[float, ...]:
    try:
        return numbers(b" ".join(words[:8]).decode("ascii", "replace"), 3)
    except ValueError as error:
        raise ValueError(f"a vertex needs three numbers: {error}") from None


def _index(word: bytes, count: int) -> int:
    """The vertex that "7", "7/1/3" or "-1" names, counted from zero."""
    number = word.split(b"/", 1)[0]
    if len(number) > 12 or not number.removeprefix(b"-").isdigit():
        raise ValueError(f"'{word[:20].decode('ascii', 'replace')}' names no vertex; export it again")
    index = int(number)
    return index - 1 if index > 0 else count + index


def _by_trimesh(content: bytes, kind: str) -> list[Mesh]:
    """What trimesh reads from the bytes alone: no file beside this one, and nothing from a network, is opened."""
    if kind == ".dae" and (b"<!DOCTYPE" in content or b"<!ENTITY" in content):
        raise ValueError("a .dae file with a DOCTYPE or ENTITY is not read; export it again")
    trimesh = require("trimesh", "viewer", f"{kind} meshes")
    if kind == ".dae":
        require("collada", "viewer", ".dae meshes")
    scene: Any = trimesh.load_scene(BytesIO(content), file_type=kind[1:], resolver=None)
    scale = _metres(content) if kind == ".dae" else 1.0
    found = []
    for geometry in scene.dump():
        if len(getattr(geometry, "faces", ())):
            vertices, faces = np.asarray(geometry.vertices, dtype=np.float64), np.asarray(geometry.faces, dtype=np.int64)
            found.append(Mesh(vertices.reshape(-1, 3) * scale, faces.reshape(-1, 3), _main_color(geometry)))
    if not found:
        raise ValueError("the file has no faces; export it again")
    if sum(len(mesh.faces) for mesh in found) > MAX_FACES:
        raise ValueError(f"there are more than {MAX_FACES:,} faces; simplify the mesh")
    return found


def _metres(content: bytes) -> float:
    """The length in metres of the unit of a .dae file; its axes are taken as they are written, as ROS does."""
    found = UNIT.search(content[:100_000])
    try:
        scale = float(found[1]) if found else 1.0
    except ValueError:
        return 1.0
    return scale if 1e-9 < scale < 1e9 else 1.0


def _main_color(geometry: Any) -> Color | None:
    """The colour of the geometry's material, or of most of its faces; None if it has none of its own."""
    visual = geometry.visual
    if not getattr(visual, "defined", False):
        return None
    material = getattr(visual, "material", visual)
    color = np.asarray(material.main_color, dtype=float).ravel() / 255.0
    if len(color) != 4 or not np.all(np.isfinite(color)):
        return None
    r, g, b, a = (float(min(max(c, 0.0), 1.0)) for c in color)
    return r, g, b, a
