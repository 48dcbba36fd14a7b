"""A run names its meshes by hash: no other file of the disk is opened for it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from workbench.runs.small import pendulum

import condyle as cd
from condyle.multibody.robot import Robot
from condyle.robot.description import Shape
from condyle.robot.mesh import mesh_hash, read_mesh
from condyle.workbench.runs.json_codec import DecodeError
from condyle.workbench.runs.serialize import decode_robot, encode_robot
from condyle.workbench.view.geometry import Piece, pieces

PART = "v 0 0 0\nv 1.25 0 0\nv 0 7.5 0\nf 1 2 3\n"


def with_mesh(path: Path) -> Robot:
    """The double pendulum with a mesh as the picture of its first link."""
    model = cd.load("double_pendulum").model
    shown = replace(model.links[0], visuals=(Shape("mesh", (1.0, 1.0, 1.0), name="part", mesh=path),))
    return Robot(replace(model, links=(shown, *model.links[1:])))


def record(robot: Robot, path: Path) -> cd.Run:
    simulation = cd.Simulation(robot, 0.002)
    with cd.Recorder(simulation, simulation.state(), path) as recorder:
        recorder.step()
    assert recorder.run is not None
    return recorder.run


def first(run: cd.Run) -> tuple[bool, str]:
    """(whether the mesh is shown, its warnings)."""
    found: list[Piece] = [piece for piece in pieces(run.robot.model) if piece.link == 0]
    return any(np.any(piece.vertices == 7.5) for piece in found), " ".join(piece.warning for piece in found)


def test_only_the_recorded_mesh_is_shown(tmp_path: Path) -> None:
    part = tmp_path / "part.obj"
    part.write_text(PART)
    fresh = record(with_mesh(part), tmp_path / "a.cdl")
    assert first(fresh) == (True, "") and first(cd.read_run(tmp_path / "a.cdl")) == (True, "")
    part.write_text(PART + "# changed\n")
    shown, note = first(cd.read_run(tmp_path / "a.cdl"))
    assert not shown and "part.obj: the file is not the one that the run was recorded with, so it is not opened" in note
    # the process that recorded it shows the present file
    assert first(fresh) == (True, "")
    part.unlink()
    assert "there is no such file" in first(cd.read_run(tmp_path / "a.cdl"))[1]


@pytest.mark.parametrize("sha256", ["", None, "0" * 64, "missing", 7])
def test_mesh_with_another_hash_is_not_opened(sha256: Any, tmp_path: Path) -> None:
    part = tmp_path / "secret.obj"
    part.write_text(PART)
    robot = with_mesh(part)
    data = json.loads(json.dumps(encode_robot(robot)))
    shape = data["model"]["links"][0]["visuals"][0]
    assert shape["sha256"] == mesh_hash(part)
    if sha256 == "missing":
        del shape["sha256"]
    else:
        shape["sha256"] = sha256
    if sha256 in (7, None, "missing"):
        with pytest.raises(DecodeError, match="sha256"):
            decode_robot(data)
        return
    read = decode_robot(data)
    assert not any(np.any(piece.vertices == 7.5) for piece in pieces(read.model))
    # recording it again does not make the file known
    again = decode_robot(json.loads(json.dumps(encode_robot(read))))
    assert again.model.links[0].visuals[0].sha256 == sha256


@pytest.mark.parametrize("name", [r"\\host\share\x.obj", "//host/share/x.obj"])
def test_network_paths_are_not_opened(name: str) -> None:
    with pytest.raises(cd.CondyleError, match="in the network, which is not opened"):
        read_mesh(Path(name), "0" * 64)


def test_hash_of_other_files(tmp_path: Path) -> None:
    part = tmp_path / "part.obj"
    assert mesh_hash(part) == mesh_hash(tmp_path) == mesh_hash(Path("/dev/zero")) == mesh_hash(Path("a\0b")) == ""
    part.write_text("1")
    before = mesh_hash(part)
    part.write_text("22")
    assert before != mesh_hash(part) and len(before) == 64
    with part.open("wb") as out:
        out.truncate(65 * 2**20)
    assert mesh_hash(part) == ""
    assert pendulum().robot.model.links[0].visuals[0].sha256 is None
