"""Published robots by name: found in both packages without importing them, or one sentence that says what to install."""

import sys
from pathlib import Path

import pytest

import condyle as cd
from condyle.commands.doctor import examine, exit_code
from condyle.robot import presets

INERTIA = '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
URDF = '<robot name="{name}"><link name="base"><inertial><mass value="2"/>' + INERTIA + "</inertial></link></robot>"
MODULE = """
raise SystemExit("this module must not be run")
"""
WALKER = """
from ._cache import clone_to_cache as _clone_to_cache
REPOSITORY_PATH: str = _clone_to_cache("walker-repo", commit=_getenv("X", None))
PACKAGE_PATH: str = _path.join(REPOSITORY_PATH, "walker")
URDF_PATH: str = _path.join(PACKAGE_PATH, "walker.urdf")
"""
GRIPPER = (
    WALKER.replace("walker.urdf", "gripper.urdf.xacro").replace("URDF_PATH", "XACRO_PATH") + '\nXACRO_ARGS = {"kind": "b"}\n'
)
MUJOCO = WALKER.replace("walker.urdf", "hopper.xml").replace("URDF_PATH", "MJCF_PATH")
REPOSITORIES = 'REPOSITORIES = {"walker-repo": Repository(url="x", commit="y", cache_path="walker_cache")}'
TAGS = """
DESCRIPTIONS = {
    "walker_description": Description(formats={Format.URDF}, tags={"quadruped"}, robot="Walker"),
    "gripper_description": Description(formats={Format.URDF}, tags={"end_effector"}, robot="Gripper"),
    "hopper_mj_description": Description(formats={Format.MJCF}, tags={"biped"}, robot="Hopper"),
}
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages with both of them, and with a cache in which only the walker was downloaded."""
    example = tmp_path / "site/cmeel.prefix/share/example-robot-data/robots/anymal_c_simple_description/urdf"
    modules, clone = tmp_path / "site/robot_descriptions", tmp_path / "cache/walker_cache/walker"
    for folder in (example, modules, clone):
        folder.mkdir(parents=True)
    (example / "anymal.urdf").write_text(URDF.format(name="anymal"))
    for name, text in {"walker": WALKER, "gripper": GRIPPER, "hopper_mj": MUJOCO, "anymal_c": WALKER, "odd": "x = ("}.items():
        (modules / f"{name}_description.py").write_text(text if text[0] == "x" else text + MODULE)
    (modules / "__init__.py").write_text(MODULE)
    (modules / "_repositories.py").write_text(REPOSITORIES)
    (modules / "_descriptions.py").write_text(TAGS)
    (clone / "walker.urdf").write_text(URDF.format(name="walker"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "nowhere"))
    monkeypatch.setenv("ROBOT_DESCRIPTIONS_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_both_packages_are_read(packages: Path) -> None:
    found = presets.presets()
    assert {name: (each.package, each.base) for name, each in found.items()} == {
        "walker": ("robot_descriptions", "free"),
        "gripper": ("robot_descriptions", "fixed"),
        "hopper_mj": ("robot_descriptions", "fixed"),  # its file has the free joint
        "anymal_c": ("example-robot-data", "free"),
    }
    assert found["gripper"].xacro_args == {"kind": "b"} and found["gripper"].path is None


@pytest.mark.parametrize(("name", "root"), [("walker", "walker"), ("ANYmal-C", "anymal"), ("walker_description", "walker")])
def test_a_robot_is_loaded_by_name(packages: Path, name: str, root: str) -> None:
    robot = cd.load(name)
    assert robot.name == root and robot.nv == 6 and robot.mass == 2.0
    assert "robot_descriptions" not in sys.modules


def test_what_is_not_downloaded_is_not(packages: Path) -> None:
    with pytest.raises(cd.RobotError, match=r"'gripper' .* -m robot_descriptions pull gripper_description`, and load it again"):
        cd.load("gripper")


def test_a_robot_of_a_package_that_is_missing(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(cd.RobotError, match=r"the published robot 'talos' is not on this computer: .*pip install.*robots\]"):
        cd.load("talos")


def test_nearest_spellings(packages: Path) -> None:
    for wrong, right in {"anymal_cc": "anymal_c", "wlaker": "walker", "birotr": "birotor"}.items():
        with pytest.raises(cd.RobotError, match=rf"there is no built-in robot '{wrong}' \(did you mean '{right}'\?\)"):
            cd.load(wrong)


def test_the_doctor_takes_names(packages: Path) -> None:
    found = examine("ANYmal-C")
    assert found.path.name == "anymal.urdf" and exit_code(found) == 0
    with pytest.raises(cd.RobotError, match=r"walker is part of robot_descriptions: copy its file, .*walker.urdf, and give"):
        examine("walker", fix=True)
    with pytest.raises(cd.RobotError, match="robot_descriptions pull gripper_description"):
        examine("gripper")


@pytest.mark.skipif(presets._example_folder() is None, reason="example-robot-data is not installed")
def test_the_table_is_that_of_the_package() -> None:
    folder = presets._example_folder()
    assert folder is not None
    missing = [name for name, (file, _) in presets.EXAMPLE_ROBOTS.items() if not (folder / file).is_file()]
    assert not missing
    panda, bolt = cd.load("panda"), cd.load("bolt")
    assert panda.nv == 8 and not panda.model.base_coordinates
    assert bolt.nv == 12 and bolt.model.base_coordinates
