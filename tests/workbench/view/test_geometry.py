"""The triangles of robots: closed, with faces outward, of the right size; meshes from files, good and bad."""

import struct
from dataclasses import replace
from math import pi
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condyle as cd
from condyle.errors import FileError, RobotError
from condyle.robot import mesh as meshes
from condyle.robot.description import Shape
from condyle.robot.mesh import read_mesh
from condyle.robot.model import Model
from condyle.robot.parts import box, cylinder, pose, rod, sphere
from condyle.workbench.view.geometry import SIDES, Piece, pieces, with_normals
from condyle.workbench.view.scene import merge

LENGTH = st.floats(0.01, 3.0)


def model_with(*shapes: Shape, collisions: tuple[Shape, ...] = ()) -> Model:
    """A pendulum whose only link looks like these shapes."""
    model = cd.load("pendulum").model
    link = replace(model.links[0], visuals=shapes, collisions=collisions)
    return replace(model, links=(link,), visuals=(), collisions=())


def edges(piece: Piece) -> set[tuple[int, int]]:
    """Directed edges; each may occur once."""
    found = [(int(f[k]), int(f[(k + 1) % 3])) for f in piece.faces for k in range(3)]
    assert len(found) == len(set(found)), "an edge is used twice in the same direction"
    return set(found)


def assert_closed(piece: Piece) -> None:
    found = edges(piece)
    assert all((b, a) in found for a, b in found), "an edge has a face on one side only"
    assert set(np.unique(piece.faces)) == set(range(len(piece.vertices))), "a vertex is in no face"


def volume(piece: Piece) -> float:
    """The volume inside a closed piece, negative if its faces look inward."""
    a, b, c = (piece.vertices[piece.faces[:, k]].astype(float) for k in range(3))
    return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6.0)


# -- simple shapes


@settings(max_examples=25, deadline=None)
@given(a=LENGTH, b=LENGTH, c=LENGTH, turn=st.floats(-3.0, 3.0))
def test_simple_shapes_are_closed_and_have_their_volume(a: float, b: float, c: float, turn: float) -> None:
    at = pose((a, -b, c), (turn, 0.3, -turn))
    shapes = [box((a, b, c), at), sphere(a, (c, a, b)), cylinder(a, b, at), rod((a, b, c), (0.0, -c, -a), b)]
    length = float(np.linalg.norm([a, b + c, c + a]))
    true = [a * b * c, 4 / 3 * pi * a**3, pi * a * a * b, pi * b * b * length + 4 / 3 * pi * b**3]
    # a prism of n sides has (n / 2 pi) sin(2 pi / n) of the area of its circle
    prism = SIDES / (2 * pi) * np.sin(2 * pi / SIDES)
    smallest = [1.0, 0.96, prism, 0.96]
    for piece, wanted, part in zip(pieces(model_with(*shapes)), true, smallest, strict=True):
        assert_closed(piece)
        assert piece.vertices.dtype == np.float32
        assert piece.faces.dtype == np.int32
        assert part - 1e-3 < volume(piece) / wanted < 1.0 + 1e-3, "faces must look outward, and the size be right"


@pytest.mark.parametrize("name", ["birotor", "ur3", "pidog", "fourlimb", "wheeled_pendulum", "two_wheeled", "cartpole"])
def test_robots_of_the_library_are_closed(name: str) -> None:
    found = pieces(cd.load(name).model)
    assert found
    for piece in found:
        assert_closed(piece)
        assert volume(piece) > 0.0
        assert not piece.warning


def test_normals_are_smooth_on_round_sides_and_sharp_on_edges() -> None:
    ball, block, tin = pieces(model_with(sphere(0.5), box((1.0, 2.0, 3.0)), cylinder(0.5, 1.0)))
    v, n, _ = with_normals(ball.vertices, ball.faces)
    assert len(v) == len(ball.vertices)
    np.testing.assert_allclose(n, v / 0.5, atol=0.02)
    v, n, _ = with_normals(block.vertices, block.faces)
    assert len(v) == 24, "each corner of a box has three normals"
    np.testing.assert_allclose(np.sort(np.abs(n), axis=1), [[0.0, 0.0, 1.0]] * 24, atol=1e-6)
    v, n, f = with_normals(tin.vertices, tin.faces)
    side = np.abs(n[:, 2]) < 0.5
    np.testing.assert_allclose(n[side], v[side] * (2.0, 2.0, 0.0), atol=1e-5)
    # the corners of each face are where they were
    assert np.array_equal(v[f], tin.vertices[tin.faces])


def test_colors_are_kept_and_odd_ones_made_good() -> None:
    shown = pieces(model_with(box((1, 1, 1), color=(0.1, 0.2, 0.3, 0.4)), box((1, 1, 1), color=(float("nan"), 7.0, -1.0, 1.0))))
    assert shown[0].color == (0.1, 0.2, 0.3, 0.4)
    assert shown[1].color == (0.5, 1.0, 0.0, 1.0)


def test_what_is_shown_when_shapes_are_missing() -> None:
    touching = (sphere(0.2),)
    assert len(pieces(model_with(collisions=touching))[0].vertices) == len(pieces(model_with(sphere(0.2)))[0].vertices)
    bare = pieces(model_with())
    assert bare, "rods and balls"
    for piece in bare:
        assert_closed(piece)
    with pytest.raises(RobotError, match='"visual" or "collision"'):
        pieces(model_with(), which="inertia")


def test_rods_reach_from_joint_to_joint() -> None:
    model = cd.load("chain:3").model
    model = replace(model, visuals=(), collisions=(), links=tuple(replace(l, visuals=(), collisions=()) for l in model.links))
    rods = [piece for piece in pieces(model) if piece.link == 0]
    child = np.asarray(model.links[1].placement.p)
    reach = max(float((piece.vertices @ child).max()) for piece in rods) / float(child @ child)
    assert 1.0 <= reach < 1.1


def test_bounds_hold_all_that_is_shown() -> None:
    low, high = merge(pieces(model_with(box((1.0, 2.0, 3.0))))).bounds(np.eye(3)[None], np.array([[10.0, 0.0, 0.0]]))
    np.testing.assert_allclose(low, [9.5, -1.0, -1.5])
    np.testing.assert_allclose(high, [10.5, 1.0, 1.5])


# -- mesh files

CUBE_OBJ = """# a cube
v 0 0 0
v 1 0 0
v 1 1 0
v 0 1 0
v 0 0 1
v 1 0 1
v 1 1 1
v 0 1 1
f 4 3 2 1
f 5/1 6/2 7/3 8/4
f 1//1 2//1 6//1 5//1
f -7 -6 -2 -3
f 3 4 8 7
f 4 1 5 8
"""


def cube_stl(path: Path, *, text: bool = False) -> Path:
    (path.parent / "cube.obj").write_text(CUBE_OBJ)
    mesh = read_mesh(path.parent / "cube.obj")[0]
    triangles = mesh.vertices[mesh.faces]
    if text:
        lines = ["facet normal 0 0 0\nouter loop\n" + "".join(f"vertex {x} {y} {z}\n" for x, y, z in t) for t in triangles]
        path.write_text("solid cube\n" + "endloop\nendfacet\n".join(lines) + "endloop\nendfacet\nendsolid\n")
    else:
        body = b"".join(struct.pack("<12fH", 0, 0, 0, *t.ravel(), 0) for t in triangles)
        path.write_bytes(b"solid but binary".ljust(80) + struct.pack("<I", len(triangles)) + body)
    return path


@pytest.mark.parametrize("kind", ["obj", "stl", "text.stl", "ply", "glb"])
@pytest.mark.parametrize("scale", [(1.0, 1.0, 1.0), (-2.0, 1.0, 1.0), (-1.0, -1.0, 0.5)])
def test_a_cube_from_a_file(tmp_path: Path, kind: str, scale: tuple[float, float, float]) -> None:
    path = tmp_path / f"cube.{kind}"
    if kind.endswith("stl"):
        cube_stl(path, text=kind.startswith("text"))
    else:
        (tmp_path / "cube.obj").write_text(CUBE_OBJ)
    if kind in ("ply", "glb"):
        trimesh = pytest.importorskip("trimesh")
        mesh = read_mesh(tmp_path / "cube.obj")[0]
        trimesh.Trimesh(mesh.vertices, mesh.faces, process=False).export(path)
    (piece,) = pieces(model_with(Shape("mesh", scale, mesh=path)))
    assert_closed(piece)
    assert volume(piece) == pytest.approx(abs(np.prod(scale)), rel=1e-6), "a mirrored mesh still looks outward"


DAE = """<?xml version="1.0"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><unit name="centimeter" meter="0.01"/><up_axis>Z_UP</up_axis></asset>
<library_effects><effect id="e"><profile_COMMON><technique sid="t"><lambert><diffuse><color>1 0 0 1</color></diffuse></lambert>
</technique></profile_COMMON></effect></library_effects>
<library_materials><material id="m"><instance_effect url="#e"/></material></library_materials>
<library_geometries><geometry id="g"><mesh>
<source id="p"><float_array id="a" count="12">0 0 0 1 0 0 0 1 0 0 0 1</float_array><technique_common>
<accessor source="#a" count="4" stride="3">
<param name="X" type="float"/><param name="Y" type="float"/><param name="Z" type="float"/></accessor></technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
<triangles count="4" material="m"><input semantic="VERTEX" source="#v" offset="0"/><p>0 2 1 0 1 3 0 3 2 1 2 3</p></triangles>
</mesh></geometry></library_geometries>
<library_visual_scenes><visual_scene id="s"><node><instance_geometry url="#g"><bind_material><technique_common>
<instance_material symbol="m" target="#m"/></technique_common></bind_material></instance_geometry></node></visual_scene>
</library_visual_scenes><scene><instance_visual_scene url="#s"/></scene></COLLADA>"""


def test_a_dae_file_with_its_unit_and_color(tmp_path: Path) -> None:
    pytest.importorskip("trimesh")
    pytest.importorskip("collada")
    path = tmp_path / "corner.dae"
    path.write_text(DAE)
    (piece,) = pieces(model_with(Shape("mesh", (1.0, 1.0, 1.0), mesh=path)))
    assert_closed(piece)
    assert volume(piece) == pytest.approx(1e-6 / 6.0, rel=1e-5)
    assert piece.color == (1.0, 0.0, 0.0, 1.0)
    assert not piece.warning


def test_a_dae_file_that_would_read_other_files_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "evil.dae"
    path.write_text('<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>' + DAE.split("?>", 1)[1])
    with pytest.raises(FileError, match="DOCTYPE"):
        read_mesh(path)


BAD = {
    "empty.stl": b"",
    "cut.stl": b"x" * 80 + struct.pack("<I", 5) + b"y" * 60,
    "words.stl": b"solid a\nvertex 1 2 three\nvertex 0 0 0\nvertex 1 1 1\n",
    "two.stl": b"solid a\nvertex 1 2 3\nvertex 0 0 0\n",
    "nan.stl": b"solid a\nvertex nan 2 3\nvertex 0 0 0\nvertex 1 1 1\n",
    "nothing.obj": b"v 0 0 0\n",
    "beyond.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n",
    "before.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 -9\n",
    "face.obj": b"v 0 0 0\nf 1 x 2\n",
    "long.obj": b"v 0 0 0\nf " + b"1 " * 5000,
    "no.dae": b"<not xml",
    "no.glb": b"glTF\x02\x00\x00\x00garbage",
    "model.blend": b"?",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_mesh_is_a_warning_and_never_stops_the_view(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(BAD[name])
    with pytest.raises(FileError, match=name):
        read_mesh(path)
    mesh = Shape("mesh", (1.0, 1.0, 1.0), mesh=path)
    shown = pieces(model_with(mesh))
    assert shown
    assert all(name in piece.warning and "rods shown instead" in piece.warning for piece in shown)
    shown = pieces(model_with(mesh, collisions=(sphere(0.1),)))
    assert [len(piece.faces) for piece in shown] == [len(pieces(model_with(sphere(0.1)))[0].faces)]
    assert "collision shapes shown instead" in shown[0].warning
    shown = pieces(model_with(mesh, box((1.0, 1.0, 1.0)), collisions=(sphere(0.1),)))
    assert len(shown) == 1, "what can be shown of a link is enough"
    assert name in shown[0].warning
    assert "left out" in shown[0].warning


def test_meshes_that_are_not_there_or_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "mesh not found" in pieces(model_with(Shape("mesh", (1.0, 1.0, 1.0))))[0].warning
    gone = Shape("mesh", (1.0, 1.0, 1.0), mesh=tmp_path / "gone.stl")
    assert "no such file" in pieces(model_with(gone))[0].warning
    path = cube_stl(tmp_path / "cube.stl")
    monkeypatch.setattr(meshes, "MAX_FACES", 11)
    with pytest.raises(FileError, match="12 faces are more than 11"):
        read_mesh(path)
    monkeypatch.setattr(meshes, "MAX_BYTES", 100)
    with pytest.raises(FileError, match="larger"):
        read_mesh(path)


def test_without_trimesh_a_dae_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "trimesh", None)
    path = tmp_path / "other.dae"
    path.write_text(DAE)
    (warning,) = {piece.warning for piece in pieces(model_with(Shape("mesh", (1.0, 1.0, 1.0), mesh=path)))}
    assert "trimesh" in warning
