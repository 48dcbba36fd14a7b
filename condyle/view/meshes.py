"""Triangles of mesh files: STL and OBJ by our own readers, DAE, PLY and GLB through trimesh. Nothing a file says is trusted."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from condyle.errors import CondyleError, FileError, require

Color = tuple[float, float, float, float]

MAX_BYTES = 64 * 2**20
MAX_FACES = 500_000
MAX_CORNERS = 3_000  # of one face of an OBJ file
THROUGH_TRIMESH = (".dae", ".ply", ".glb", ".off")
UNIT = re.compile(rb"<unit\b[^>]{0,200}?\bmeter=[\"']([0-9.eE+-]{1,30})[\"']")
HEADER = 84  # bytes, of a binary STL
TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("more", "<u2")])


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles in the file's own frame: vertices (n, 3) float32, faces (m, 3) int32, and a colour if the file has one."""

    vertices: np.ndarray
    faces: np.ndarray
    color: Color | None = None


def read_mesh(path: Path, sha256: str | None = None) -> tuple[Mesh, ...]:
    """The meshes of a file, one for each colour it has; FileError with a sentence if it cannot be shown.

    `sha256`: what its content must have, where a run names the file. Whoever made the run knows the files that he recorded it
    with; any other file of this disk is none of his business.
    """
    if sha256 is not None and str(path).startswith(("\\\\", "//")):
        raise FileError(f"{path.name}: a run names a file in the network, which is not opened")
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
    return _read(path, stat.st_mtime_ns, stat.st_size, sha256)


@lru_cache(maxsize=64)
def _read(path: Path, _changed: int, _size: int, sha256: str | None) -> tuple[Mesh, ...]:
    """The meshes of one version of a file, with this hash if one is given."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise FileError(f"{path.name}: cannot be read ({error.strerror}); check its permissions") from None
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise FileError(f"{path.name}: the file is not the one that the run was recorded with, so it is not opened")
    kind = path.suffix.lower()
    try:
        if kind == ".stl":
            found = [_stl(content)]
        elif kind == ".obj":
            found = [_obj(content)]
        elif kind in THROUGH_TRIMESH:
            found = _by_trimesh(content, kind)
        else:
            raise ValueError(f"a mesh is a .stl, .obj, {', '.join(THROUGH_TRIMESH)} file, not '{kind}'; convert it")
        return tuple(_checked(mesh) for mesh in found)
    except CondyleError:
        raise
    except Exception as error:  # readers of others may raise anything: the view goes on, with a note
        reason = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
        raise FileError(f"{path.name}: {reason}") from None


def _checked(mesh: Mesh) -> Mesh:
    """The mesh with equal vertices merged and flat faces left out."""
    vertices = np.ascontiguousarray(mesh.vertices, dtype=np.float32).reshape(-1, 3)
    faces = np.asarray(mesh.faces, dtype=np.int64).reshape(-1, 3)
    if not len(faces):
        raise ValueError("the mesh has no faces; export it again")
    if len(faces) > MAX_FACES:
        raise ValueError(f"{len(faces):,} faces are more than {MAX_FACES:,}; simplify the mesh")
    if faces.min() < 0 or faces.max() >= len(vertices):
        raise ValueError(f"a face names a vertex that is not among the {len(vertices):,} of the mesh; export it again")
    if not np.all(np.isfinite(vertices)):
        raise ValueError("a vertex is not finite; repair the mesh")
    # minus zero is zero
    vertices, where = np.unique(vertices + np.float32(0.0), axis=0, return_inverse=True)
    faces = where.reshape(-1)[faces]
    apart = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
    return Mesh(vertices, faces[apart].astype(np.int32), mesh.color)


def _stl(content: bytes) -> Mesh:
    """Binary if the size is what the number of triangles asks for, whatever the header says; else text."""
    count = int.from_bytes(content[80:HEADER], "little") if len(content) >= HEADER else -1
    if count >= 0 and len(content) == HEADER + TRIANGLE.itemsize * count:
        corners = np.frombuffer(content, dtype=TRIANGLE, offset=HEADER)["corners"].reshape(-1, 3)
    elif content.lstrip()[:5].lower() == b"solid":
        rows = [line.split()[1:] for line in content.splitlines() if line.lstrip()[:6].lower() == b"vertex"]
        corners = _numbers(rows)
        if len(corners) % 3:
            raise ValueError("a triangle lacks a vertex: the file is cut; export it again")
    else:
        raise ValueError(f"it is no STL: {len(content):,} bytes do not fit its number of triangles; export it again")
    return Mesh(corners, np.arange(len(corners)).reshape(-1, 3))


def _obj(content: bytes) -> Mesh:
    """Vertices and faces; polygons become fans, and everything else in the file is left aside."""
    rows: list[list[bytes]] = []
    faces: list[tuple[int, int, int]] = []
    for line in content.splitlines():
        if line.startswith((b"v ", b"v\t")):
            rows.append(line.split()[1:4])
        elif line.startswith((b"f ", b"f\t")):
            corners = [_index(word, len(rows)) for word in line.split()[1:]]
            if not 3 <= len(corners) <= MAX_CORNERS:
                raise ValueError(f"a face has {len(corners)} corners, not 3 to {MAX_CORNERS:,}; export it again")
            faces += [(corners[0], b, c) for b, c in pairwise(corners[1:])]
            if len(faces) > MAX_FACES:
                raise ValueError(f"there are more than {MAX_FACES:,} faces; simplify the mesh")
    return Mesh(_numbers(rows), np.array(faces, dtype=np.int64).reshape(-1, 3))


def _index(word: bytes, count: int) -> int:
    """The vertex that "7", "7/1/3" or "-1" names, counted from zero."""
    number = word.split(b"/", 1)[0]
    if len(number) > 12 or not number.removeprefix(b"-").isdigit():
        raise ValueError(f"'{word[:20].decode('ascii', 'replace')}' names no vertex; export it again")
    index = int(number)
    return index - 1 if index > 0 else count + index


def _numbers(rows: list[list[bytes]]) -> np.ndarray:
    if any(len(row) != 3 for row in rows):
        raise ValueError("a vertex needs three numbers; export it again")
    try:
        return np.array(rows, dtype="S40").astype(np.float64).reshape(-1, 3)
    except ValueError:
        raise ValueError("a vertex has something that is not a number; export it again") from None


def _by_trimesh(content: bytes, kind: str) -> list[Mesh]:
    """What trimesh reads from the bytes alone: no file beside this one, and nothing from a network, is looked at."""
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
            found.append(Mesh(geometry.vertices * scale, geometry.faces, _main_color(geometry)))
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
