"""Published robots by name, from the packages `example-robot-data` and `robot_descriptions` where these are installed.

Neither package is imported: example-robot-data would load Pinocchio, and a module of robot_descriptions would download its
robot. Their files are found beside the other installed packages, and what a module of robot_descriptions says is read from
its syntax tree. Nothing is ever downloaded.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from condyle.errors import RobotError, install_command
from condyle.robot.names import nearest

# robots of example-robot-data: {name: (file below its folder `robots`, base)}
EXAMPLE_ROBOTS = {
    "a1": ("a1_description/urdf/a1.urdf", "free"),
    "allegro_left_hand": ("allegro_hand_description/urdf/allegro_left_hand.urdf", "fixed"),
    "allegro_right_hand": ("allegro_hand_description/urdf/allegro_right_hand.urdf", "fixed"),
    "anymal_b": ("anymal_b_simple_description/robots/anymal.urdf", "free"),
    "anymal_b_kinova": ("anymal_b_simple_description/robots/anymal-kinova.urdf", "free"),
    "anymal_c": ("anymal_c_simple_description/urdf/anymal.urdf", "free"),
    "b1": ("b1_description/urdf/b1.urdf", "free"),
    "b1_z1": ("b1_description/urdf/b1-z1.urdf", "free"),
    "baxter": ("baxter_description/urdf/baxter.urdf", "fixed"),
    "bluevolta": ("bluevolta_description/urdf/bluevolta.urdf", "free"),
    "bolt": ("bolt_description/robots/bolt.urdf", "free"),
    "borinot": ("borinot_description/urdf/borinot_flying_arm_2.urdf", "free"),
    "bravo7": ("bravo7_description/urdf/bravo7_gripper.urdf", "fixed"),
    "centauro": ("centauro_description/urdf/centauro.urdf", "free"),
    "finger_edu": ("finger_edu_description/robots/finger_edu.urdf", "fixed"),
    "g1": ("g1_description/urdf/g1_29dof_rev_1_0.urdf", "free"),
    "g1_hands": ("g1_description/urdf/g1_29dof_with_hand_rev_1_0.urdf", "free"),
    "go1": ("go1_description/urdf/go1.urdf", "free"),
    "go2": ("go2_description/urdf/go2.urdf", "free"),
    "hector": ("hector_description/robots/quadrotor_base.urdf", "free"),
    "hextilt": ("hextilt_description/urdf/hextilt_flying_arm_5.urdf", "free"),
    "human": ("human_description/robots/human.urdf", "free"),
    "hyq": ("hyq_description/robots/hyq_no_sensors.urdf", "free"),
    "icub": ("icub_description/robots/icub.urdf", "free"),
    "iris": ("iris_description/robots/iris_simple.urdf", "free"),
    "kinova": ("kinova_description/robots/kinova.urdf", "fixed"),
    "laikago": ("laikago_description/urdf/laikago.urdf", "free"),
    "panda": ("panda_description/urdf/panda.urdf", "fixed"),
    "pr2": ("pr2_description/urdf/pr2.urdf", "free"),
    "quadruped": ("quadruped_description/urdf/quadruped.urdf", "free"),
    "romeo": ("romeo_description/urdf/romeo_small.urdf", "free"),
    "simple_humanoid": ("simple_humanoid_description/urdf/simple_humanoid.urdf", "free"),
    "so100": ("so_arm_description/urdf/so100.urdf", "fixed"),
    "so101": ("so_arm_description/urdf/so101.urdf", "fixed"),
    "solo8": ("solo_description/robots/solo.urdf", "free"),
    "solo12": ("solo_description/robots/solo12.urdf", "free"),
    "talos": ("talos_data/robots/talos_reduced.urdf", "free"),
    "talos_full": ("talos_data/robots/talos_full_v2.urdf", "free"),
    "talos_arm": ("talos_data/robots/talos_left_arm.urdf", "fixed"),
    "tiago": ("tiago_description/robots/tiago.urdf", "free"),
    "tiago_dual": ("tiago_description/robots/tiago_dual.urdf", "free"),
    "tiago_pro": ("tiago_pro_description/robots/tiago_pro.urdf", "free"),
    "ur5": ("ur_description/urdf/ur5_robot.urdf", "fixed"),
    "ur10": ("ur_description/urdf/ur10_robot.urdf", "fixed"),
    "xarm7": ("xarm_description/urdf/xarm7.urdf", "fixed"),
    "z1": ("z1_description/urdf/z1.urdf", "fixed"),
}
# what robot_descriptions calls a robot that stands, drives or flies by itself
MOVING = {"biped", "drone", "humanoid", "mobile_manipulator", "quadruped", "wheeled"}
FILES = ("URDF_PATH", "MJCF_PATH", "XACRO_PATH")


@dataclass(frozen=True)
class Preset:
    """A published robot: the package that has it, its file (None: not downloaded), its base, and how to read the file."""

    name: str
    package: str
    path: Path | None
    base: str
    package_dirs: tuple[Path, ...] = ()
    xacro_args: Mapping[str, str] = field(default_factory=dict)
    module: str = ""  # of robot_descriptions


def find(name: str, built_in: tuple[str, ...] = ()) -> Preset:
    """The preset of this name, whose file exists, or a RobotError that says what to install, or names the nearest one."""
    word = spelled(name).removesuffix("_description")
    preset = next((each for each in _example_robots() if each.name == word), None)
    known = presets() if preset is None else {}
    preset = preset or known.get(word)
    if preset is None and word in EXAMPLE_ROBOTS:
        raise RobotError([f"the published robot '{word}' is not on this computer: {install_command('robots')}"])
    if preset is None:
        raise RobotError([f"there is no built-in robot '{name:.60}'{nearest(name, (*built_in, *known))}"])
    if preset.path is None:
        raise RobotError(
            [
                f"the robot '{name:.60}' of robot_descriptions is not on this computer: download it with "
                f"`{os.path.basename(sys.executable)} -m robot_descriptions pull {preset.module}`, and load it again"
            ]
        )
    return preset


def known(name: str) -> bool:
    """Whether there is a published robot of this name, on this computer or not."""
    word = spelled(name).removesuffix("_description")
    return word in EXAMPLE_ROBOTS or word in presets()


def spelled(name: str) -> str:
    """The name as the tables have it: ANYmal-C is anymal_c."""
    return name.lower().replace("-", "_")


def presets() -> dict[str, Preset]:
    """All presets of the packages that are installed, by name; example-robot-data before robot_descriptions."""
    found = {preset.name: preset for preset in _robot_descriptions()}
    return {**found, **{preset.name: preset for preset in _example_robots()}}


# -- example-robot-data


def _example_robots() -> Iterator[Preset]:
    folder = _example_folder()
    if folder is None:
        return
    for name, (file, base) in EXAMPLE_ROBOTS.items():
        if (folder / file).is_file():
            yield Preset(name, "example-robot-data", folder / file, base, (folder.parents[1],))


def _example_folder() -> Path | None:
    """The folder `robots` of example-robot-data: from pip beside the packages, from conda or apt below the prefix."""
    places = [Path(entry) / "cmeel.prefix" for entry in sys.path if entry] + [Path(sys.prefix)]
    for place in places:
        folder = place / "share" / "example-robot-data" / "robots"
        if folder.is_dir():
            return folder
    return None


# -- robot_descriptions


def _robot_descriptions() -> Iterator[Preset]:
    folder = next((found for entry in sys.path if (found := Path(entry or ".") / "robot_descriptions").is_dir()), None)
    if folder is None:
        return
    cache = Path(os.environ.get("ROBOT_DESCRIPTIONS_CACHE", "~/.cache/robot_descriptions")).expanduser()
    tables = _tree(folder / "_repositories.py"), _tree(folder / "_descriptions.py")
    clones = {key: cache / path for key, path in _keyword(tables[0], "cache_path").items() if isinstance(path, str)}
    tags = _keyword(tables[1], "tags")
    for file in sorted(folder.glob("[a-z]*_description.py")):
        values = _assigned(_tree(file), clones)
        path = next((Path(str(values[key])) for key in FILES if isinstance(values.get(key), Path)), None)
        if path is None:
            continue
        name, roots = file.stem.removesuffix("_description"), [values.get("PACKAGE_PATH"), values.get("REPOSITORY_PATH")]
        around = [place for root in roots if isinstance(root, Path) for place in (root, root.parent)]
        given = values.get("XACRO_ARGS")
        # a MuJoCo file has its own free joint
        moves = MOVING & set(tags.get(file.stem) or ()) and path.suffix != ".xml"  # type: ignore[call-overload]
        base = "free" if moves else "fixed"
        exists = path if path.is_file() else None
        args = {str(k): str(v) for k, v in given.items()} if isinstance(given, dict) else {}
        yield Preset(name, "robot_descriptions", exists, base, tuple(dict.fromkeys(around)), args, file.stem)


def _tree(path: Path) -> ast.Module:
    """The syntax tree of a file; an empty one if it cannot be read."""
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])


def _keyword(tree: ast.Module, name: str) -> dict[str, object]:
    """{key: value of the keyword `name`} of the table of calls in a file."""
    found: dict[str, object] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and isinstance(value, ast.Call):
                    found |= {str(key.value): _value(each.value, {}, {}) for each in value.keywords if each.arg == name}
    return found


def _assigned(tree: ast.Module, clones: Mapping[str, Path]) -> dict[str, object]:
    """{name: value} of the assignments of a module, as far as they are paths and constants."""
    values: dict[str, object] = {}
    for node in tree.body:
        target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Name) and isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            values[target.id] = _value(node.value, values, clones)
    return values


def _value(node: ast.expr, values: Mapping[str, object], clones: Mapping[str, Path]) -> object:
    """A constant, a name that is known, the clone of a repository, or paths joined; None for anything else."""
    if isinstance(node, ast.Name):
        return values.get(node.id)
    if isinstance(node, ast.Call):
        function = ast.unparse(node.func)
        first = _value(node.args[0], values, clones) if node.args else None
        if function.endswith("clone_to_cache"):
            return clones.get(first) if isinstance(first, str) else None
        if function.endswith("path.join") and isinstance(first, Path):
            rest = [_value(each, values, clones) for each in node.args[1:]]
            return first.joinpath(*rest) if all(isinstance(each, str) for each in rest) else None  # type: ignore[arg-type]
        return None
    try:
        constant: object = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return constant
