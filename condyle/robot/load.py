"""Loading: a built-in or published name, a URDF, xacro or MJCF file, or a description made in code, becomes a checked model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

from condyle.errors import RobotError
from condyle.robot.description import Description
from condyle.robot.model import Model
from condyle.robot.packages import python_packages
from condyle.robot.paths import Places
from condyle.robot.report import Report
from condyle.robot.xml import read_xml

Source = str | PathLike[str] | Description
EARTH = (0.0, 0.0, -9.81)


def load_model(
    source: Source,
    *,
    base: str | None = None,
    gravity: Sequence[float] | None = None,
    package_dirs: Sequence[str | PathLike[str]] = (),
    xacro_args: Mapping[str, str] | None = None,
    strict: bool = False,
) -> Model:
    """The model of a robot; `base` and `gravity` as in `condyle.load`, None for what the robot is meant for."""
    from condyle.robot import library, presets
    from condyle.robot.build import build
    from condyle.robot.check import checked
    from condyle.robot.stance import chosen_base

    if isinstance(source, str) and not _is_file(source) and not library.knows(source):
        preset = presets.find(source, library.names())
        source, base = str(preset.path), preset.base if base in (None, "auto") else base
        package_dirs, xacro_args = (*package_dirs, *preset.package_dirs), {**preset.xacro_args, **(xacro_args or {})}
    description = describe(source, package_dirs, xacro_args or {})
    built_in = isinstance(source, str) and not _is_file(source)
    if built_in and base in (None, "auto"):
        base = library.base(source)  # type: ignore[arg-type]
    description = checked(description, strict=strict)
    if not built_in:
        base, notes = chosen_base(description, base or "fixed")
        description = replace(description, notes=(*description.notes, *notes))
    return build(description, base or "fixed", description.gravity or EARTH if gravity is None else gravity)


def describe(source: Source, package_dirs: Sequence[str | PathLike[str]], xacro_args: Mapping[str, str]) -> Description:
    """What a source says, unchecked."""
    if isinstance(source, Description):
        return source
    if isinstance(source, str) and not _is_file(source):
        from condyle.robot import library

        return library.description(source)
    path = Path(source)
    if not path.is_file():
        raise RobotError([f"{path}: there is no such file; give a path to a .urdf, .xacro or .xml file, or a built-in name"])
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RobotError([f"{path}: cannot be read ({error.strerror}); check its permissions"]) from None
    places = Places.near(path, package_dirs)
    if path.suffix != ".xacro" and is_mjcf(content):
        from condyle.robot.mjcf import read_mjcf

        return read_mjcf(path, roots=(*places.roots, *python_packages(path)))
    from condyle.robot import urdf, xacro

    report = Report()
    if path.suffix != ".xacro":
        root = read_xml(content, str(path))
        if not xacro.is_xacro(root):
            return urdf.describe(root, str(path), places, report)
        what = "the file has xacro elements and is not called .xacro: it is read as xacro"
        report.ignored(root.where, what)
    return xacro.describe_xacro(content, str(path), places, dict(xacro_args), report)


def _is_file(source: str) -> bool:
    return (
        "/" in source or "\\" in source or Path(source).suffix in (".urdf", ".xacro", ".xml", ".mjcf") or Path(source).is_file()
    )


def is_mjcf(content: bytes) -> bool:
    """Whether the content of a file is a MuJoCo model."""
    # the first element decides; a comment or declaration may stand before it
    head = content[:65536]
    mujoco, robot = head.find(b"<mujoco"), head.find(b"<robot")
    return mujoco >= 0 and (robot < 0 or mujoco < robot)
