"""Mesh files: all formats hold the same vertices, and malformed files give one sentence."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from condyle.errors import CondyleError, FileError
from condyle.robot.mesh import read_vertices


def ball(radius: float, centre=(0.0, 0.0, 0.0), count: int = 400) -> np.ndarray:
    """Vertices spread evenly over a sphere."""
    k = np.arange(count) + 0.5
    z, turn = 1.0 - 2.0 * k / count, np.pi * (1.0 + np.sqrt(5.0)) * k
    r = np.sqrt(1.0 - z * z)
    return radius * np.column_stack([r * np.cos(turn), r * np.sin(turn), z]) + centre


def binary_stl(vertices: np.ndarray, header: bytes = b"made by a test") -> bytes:
    """Triangles of three vertices in a row."""
    triangles = vertices[: len(vertices) // 3 * 3].reshape(-1, 9)
    packed = b"".join(struct.pack("<12fH", 0.0, 0.0, 0.0, *t, 0) for t in triangles)
    return header.ljust(80, b" ") + struct.pack("<I", len(triangles)) + packed


def text_stl(vertices: np.ndarray) -> str:
    lines = [f"  vertex {x!r} {y!r} {z!r}" for x, y, z in vertices.tolist()]
    return "solid thing\nfacet normal 0 0 1\n outer loop\n" + "\n".join(lines) + "\n endloop\nendfacet\nendsolid thing\n"


def test_all_formats_hold_the_same_vertices(tmp_path: Path) -> None:
    vertices = np.float32(ball(0.1, count=60)).astype(float)
    (tmp_path / "b.stl").write_bytes(binary_stl(vertices))
    (tmp_path / "solid.STL").write_bytes(binary_stl(vertices, b"solid says the header, and it is binary"))
    (tmp_path / "t.stl").write_text(text_stl(vertices))
    rows = [f"v {x!r} {y!r} {z!r}" for x, y, z in vertices.tolist()]
    (tmp_path / "o.obj").write_text("# made\n" + "\n".join(rows) + "\nvn 0 0 1\nvt 0 0\nv 0 0 0 1.0\nf 1//1 2//1 3//1\n")
    expected = np.unique(vertices, axis=0)
    for name in ("b.stl", "solid.STL", "t.stl"):
        np.testing.assert_array_equal(read_vertices(tmp_path / name), expected)
    assert len(read_vertices(tmp_path / "o.obj")) == len(expected) + 1


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("a.blend", b"BLENDER", r"\.stl, \.obj"),
        ("a.stl", b"", "no STL"),
        ("a.stl", binary_stl(ball(0.1))[:-7], "no STL"),
        ("a.stl", b"x" * 80 + b"\xff\xff\xff\xff" + b"x" * 50, "4,294,967,295 triangles"),
        ("a.stl", b"x" * 80 + bytes(4), "no vertices"),
        ("a.stl", binary_stl(np.full((3, 3), np.nan)), "not finite"),
        ("a.stl", b"solid\nvertex 1 2\nendsolid", "a.stl:2"),
        ("a.stl", b"solid\nvertex 1 2 3 4\n", "a.stl:2"),
        ("a.stl", b"solid\nvertex 1 nan 3\n", "only finite"),
        ("a.stl", b"solid\nvertex 1 2 1e999\n", "too large"),
        ("a.stl", b"solid nothing\nendsolid", "no vertices"),
        ("a.obj", b"v 1 2\n", "a.obj:1"),
        ("a.obj", b"v 1,5 2 3\n", "a.obj:1"),
        ("a.obj", b"v \xff\xfe 2 3\n", "a.obj:1"),
        ("a.obj", b"f 1 2 3\n", "no vertices"),
        ("a.obj", b"\0" * 1000, "no vertices"),
    ],
)
def test_hostile_files(tmp_path: Path, name: str, content: bytes, part: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FileError, match=part) as caught:
        read_vertices(tmp_path / name)
    assert "\n" not in str(caught.value)


@given(st.sampled_from(["a.stl", "a.obj"]), st.binary(max_size=300), st.sampled_from([b"", b"solid ", b"v ", b"solid\nvertex "]))
def test_any_bytes_give_vertices_or_an_error(tmp_path_factory, name, content, start) -> None:
    path = tmp_path_factory.mktemp("mesh") / name
    path.write_bytes(start + content)
    try:
        vertices = read_vertices(path)
    except CondyleError:
        return
    assert vertices.ndim == 2 and vertices.shape[1] == 3 and np.all(np.isfinite(vertices))


def test_files_that_are_not_there_or_too_large(tmp_path: Path, monkeypatch) -> None:
    with pytest.raises(FileError, match="no such file"):
        read_vertices(tmp_path / "none.stl")
    with pytest.raises(FileError, match="no such file"):
        read_vertices(tmp_path.with_suffix(".stl"))
    monkeypatch.setattr("condyle.robot.mesh.MAX_BYTES", 100)
    (tmp_path / "a.stl").write_bytes(binary_stl(ball(0.1)))
    with pytest.raises(FileError, match="larger than"):
        read_vertices(tmp_path / "a.stl")


def test_a_file_one_triangle_short_of_a_header_is_text_or_refused(tmp_path: Path) -> None:
    # found by the test above: 34 bytes are 84 - 50
    file = tmp_path / "a.stl"
    file.write_bytes(bytes(34))
    with pytest.raises(FileError, match="no STL"):
        read_vertices(file)
