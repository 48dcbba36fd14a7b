"""An MJCF model gathered into memory: includes put in, and every file it names read by us, from the allowed folders only.

MuJoCo then compiles the gathered text and never opens a file. The text has one element a line, so that a line number in
MuJoCo's complaint leads back to the file and line where the element was written. Its complaints become ours.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from condyle.errors import RobotError
from condyle.robot.names import quoted
from condyle.robot.paths import SCHEME, Places
from condyle.robot.report import Report
from condyle.robot.xml import Element, read_xml

MAX_FILES = 2_000  # includes and assets of one model
MAX_TOTAL_BYTES = 2**30  # of all files of one model

FILE_ATTRIBUTES = ("file", "fileright", "fileleft", "fileup", "filedown", "filefront", "fileback")
DIRECTORIES = ("meshdir", "texturedir", "assetdir")

# these are named after their file when they have no name of their own
NAMED_BY_FILE = ("mesh", "hfield", "skin", "texture")


@dataclass
class Gathered:
    """One model without files: its text, the place each line came from, and the bytes of its assets by their new names."""

    text: str = ""
    lines: list[str] = field(default_factory=list)
    assets: dict[str, bytes] = field(default_factory=dict)
    paths: dict[str, Path] = field(default_factory=dict)
    places: dict[tuple[str, str], str] = field(default_factory=dict)  # (tag, name) -> "arm.xml:12"
    options: dict[str, str] = field(default_factory=dict)  # the attributes of <option>


def gather(source: Path | str, roots: tuple[Path, ...] = ()) -> Gathered:
    """The model of a file, or of a text that begins with `<`; RobotError with all problems if it cannot be gathered."""
    if isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith("<"):
        # a text has no folder of its own: it may name files only below the roots it is given
        collector = _Collector(Places(roots[0], (), roots) if roots else None)
        gathered = collector.model(read_xml(source, "model.xml"), roots[0] if roots else Path())
    else:
        file = Path(source)
        collector = _Collector(Places.around(str(file), roots))
        content = collector.read(file, str(file))
        gathered = collector.model(read_xml(content, str(file)), file.parent)
    if collector.report.problems:
        raise RobotError(collector.report.problems)
    return gathered


class _Collector:
    """Reads files and keeps count of them."""

    def __init__(self, places: Places | None) -> None:
        self.places = places
        self.report = Report()
        self.assets: dict[str, bytes] = {}
        self.paths: dict[str, Path] = {}
        self.open: list[str] = []  # models in models
        self.files = self.bytes = 0

    def model(self, root: Element, folder: Path) -> Gathered:
        """The model below a root element; `folder` is where the paths in it begin."""
        if root.tag != "mujoco":
            raise RobotError([f"{root.where}: the outermost element is {quoted(root.tag)}, not 'mujoco': this is no MJCF"])
        if root.file in self.open:
            raise RobotError([f"{root.where}: the model contains itself"])
        self.open.append(root.file)
        self.include(root, folder)
        self.take_files(root, folder)
        self.open.pop()
        text, lines = _written(root)
        places = {(e.tag, e.attributes["name"]): e.where for e in root.walk() if "name" in e.attributes}
        options = {name: text for e in root.children if e.tag == "option" for name, text in e.attributes.items()}
        return Gathered(text, lines, self.assets, self.paths, places, options)

    def include(self, root: Element, folder: Path) -> None:
        """Put what each <include> names in its place: the main file's folder is tried first, then the including file's."""
        waiting, seen = [root], {Path(root.file).resolve()}
        while waiting:
            element = waiting.pop()
            children = []
            queue = list(reversed(element.children))
            while queue:
                child = queue.pop()
                if child.tag != "include":
                    children.append(child)
                    continue
                queue += reversed(self.included(child, folder, seen))
            element.children = children
            waiting += children

    def included(self, element: Element, folder: Path, seen: set[Path]) -> list[Element]:
        name = element.attributes.get("file", "")
        path = self.find(element, name, folder, Path(element.file).parent)
        if path is None:
            return []
        if path in seen:
            self.report.problem(element.where, f"<include> of {quoted(name)}: this file was included before")
            return []
        seen.add(path)
        return read_xml(self.read(path, element.where), str(path)).children

    def take_files(self, root: Element, folder: Path) -> None:
        """Read every file that is named, and name it after its content instead."""
        compiler: dict[str, str] = {}
        for element in root.walk():
            if element.tag == "compiler":
                compiler |= element.attributes
                for name in DIRECTORIES:
                    element.attributes.pop(name, None)
        strip = compiler.get("strippath", "false") == "true"
        for element in root.walk():
            kind = "texturedir" if element.tag == "texture" else "meshdir"
            # the folder that the compiler names, then that of an included file
            folders = [folder / compiler.get(kind, compiler.get("assetdir", "")), Path(element.file).parent]
            if element.tag == "model":
                folders[0] = folder
            for attribute in FILE_ATTRIBUTES:
                if attribute in element.attributes:
                    self.take(element, attribute, folders, strip)

    def take(self, element: Element, attribute: str, folders: Sequence[Path], strip: bool) -> None:
        name = element.attributes[attribute]
        if strip:
            name = name.replace("\\", "/").rpartition("/")[2]
        path = self.find(element, name, *folders)
        if path is None:
            return
        content = self.read(path, element.where)
        if element.tag == "model":
            # a model in the model: gathered by the same rules, its paths begin in its own folder
            content = self.model(read_xml(content, str(path)), path.parent).text.encode()
        key = f"{hashlib.sha256(content).hexdigest()[:16]}-{path.name}"
        self.assets[key], self.paths[key] = content, path
        element.attributes[attribute] = key
        if element.tag in NAMED_BY_FILE and attribute == "file":
            element.attributes.setdefault("name", path.stem)

    def find(self, element: Element, name: str, *folders: Path) -> Path | None:
        """The file of this name in the first folder that has it; a problem when there is none, or it may not be read."""
        place = f"<{element.tag}> file {quoted(name)}"
        if self.places is None:
            self.report.problem(element.where, f"{place}: a model given as text names no files: save it, or give `roots`")
            return None
        why = ""
        # one folder after the other: one that is not allowed matters only if the file is in no other
        for folder in folders:
            try:
                if SCHEME.match(name):
                    raise ValueError("only plain paths are allowed")
                if (path := self.places.find(name, folder)) is not None:
                    return path
            except ValueError as error:
                why = why or str(error).replace("`roots`", "`package_dirs`")
        missing = f"there is no such file in '{folders[0]}'"
        self.report.problem(element.where, f"{place}: {why or missing}")
        return None

    def read(self, path: Path, where: str) -> bytes:
        try:
            self.files += 1
            self.bytes += path.stat().st_size
            if self.files > MAX_FILES or self.bytes > MAX_TOTAL_BYTES:
                raise RobotError([f"{where}: the model has more than {MAX_FILES:,} files or {MAX_TOTAL_BYTES:,} bytes"])
            return path.read_bytes()
        except OSError as error:
            raise RobotError([f"{where}: the file '{path}' cannot be read ({error.strerror})"]) from None


def _written(root: Element) -> tuple[str, list[str]]:
    """The text of a tree, one element a line, and where each line came from."""
    text, lines = [], []
    for element, opens in _tags(root):
        attributes = "".join(f" {name}={quoteattr(value)}" for name, value in element.attributes.items())
        words = escape(" ".join(element.text.split()))
        text.append(f"<{element.tag}{attributes}>{words}" if opens else f"</{element.tag}>")
        lines.append(element.where)
    return "\n".join(text) + "\n", lines


def _tags(root: Element) -> Iterator[tuple[Element, bool]]:
    """Opening and closing tags in order, without recursion."""
    waiting = [(root, True)]
    while waiting:
        element, opens = waiting.pop()
        yield element, opens
        if opens:
            waiting.append((element, False))
            waiting += [(child, True) for child in reversed(element.children)]


MAX_BODIES = 10_000
MAX_NUMBER = 1e10  # MuJoCo's own limit for coordinates (mjMAXVAL), here for every number of the robot
MAX_GAIN = 1e20  # of damping and the like: published files hold a slide still with 1e11

# the tables that are read, by whose numbers they hold
READ = {
    "body": ("body_pos", "body_quat", "body_mass", "body_ipos", "body_iquat", "body_inertia", "body_gravcomp"),
    "joint": ("jnt_pos", "jnt_axis", "jnt_range", "jnt_stiffness"),
    "geom": ("geom_pos", "geom_quat", "geom_size", "geom_rgba", "geom_friction"),
    "site": ("site_pos", "site_quat"),
    "actuator": ("actuator_gear", "actuator_armature", "actuator_damping"),
    "mat": ("mat_rgba",),
    "eq": ("eq_data",),
    "key": ("key_qpos", "key_qvel", "key_ctrl"),
}
# and those with one row per coordinate
READ_BY_COORDINATE = ("qpos0", "qpos_spring", "dof_damping", "dof_frictionloss", "dof_armature")
GAINS = ("dof_damping", "dof_frictionloss", "dof_armature", "jnt_stiffness", "actuator_armature", "actuator_damping", "key_ctrl")


def compiled(mujoco: ModuleType, gathered: Gathered, warnings: list[str]) -> Any:
    """MuJoCo's model of the text, or a RobotError that says what MuJoCo said, and where."""
    # left alone, MuJoCo prints its warnings and writes them to a file in the working directory
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(warnings.append)
    try:
        model = mujoco.MjModel.from_xml_string(gathered.text, gathered.assets)
    except (ValueError, mujoco.FatalError) as error:
        raise RobotError([_sentence(str(error), gathered)]) from None
    finally:
        mujoco.set_mju_user_warning(before)
    file = gathered.lines[0].rpartition(":")[0]
    if model.nbody > MAX_BODIES:
        raise RobotError([f"{file}: the model has {model.nbody:,} bodies, more than {MAX_BODIES:,}"])
    problems = _wild_numbers(model, file)
    if problems:
        raise RobotError(problems)
    return model


def _wild_numbers(model: Any, file: str) -> list[str]:
    """A problem for everything whose numbers are not finite, or larger than any robot has."""
    problems = []
    if not np.all(np.abs([*model.opt.gravity, model.opt.timestep]) <= MAX_NUMBER):
        problems.append(f"{file}: gravity {model.opt.gravity.tolist()} and timestep {model.opt.timestep} must be finite")
    tables = [(kind, column) for kind, columns in READ.items() for column in columns]
    for kind, column in [*tables, *(("coordinate", column) for column in READ_BY_COORDINATE)]:
        table, most = getattr(model, column, ()), MAX_GAIN if column in GAINS else MAX_NUMBER
        for i in range(len(table)):
            if not np.all(np.abs(table[i]) <= most):
                name = "" if kind == "coordinate" else getattr(model, kind)(i).name
                value = np.asarray(table[i]).tolist()
                problems.append(f"{file}: {kind} '{name or i}': {column} is {value}: numbers must be finite and at most {most:g}")
    return problems


def _sentence(message: str, gathered: Gathered) -> str:
    """MuJoCo's message in one line, after the place it is about."""
    where = gathered.lines[0].rpartition(":")[0]
    if (found := re.search(r"line (\d+)", message)) and 0 < int(found[1]) <= len(gathered.lines):
        where = gathered.lines[int(found[1]) - 1]
        message = message[: found.start()] + message[found.end() :]
    for key, path in gathered.paths.items():
        message = message.replace(key, str(path))
    parts = [part.strip(" ,") for part in message.splitlines()]
    said = "; ".join(part for part in parts if part).replace("Error: ", "").replace("XML ", "")
    return f"{where}: MuJoCo cannot compile this: {said}"


def active(mujoco: ModuleType, model: Any, i: int) -> bool:
    """Whether equality i acts when the simulation begins."""
    off = mujoco.mjtDisableBit
    return bool(model.eq_active0[i]) and not model.opt.disableflags & (off.mjDSBL_EQUALITY | off.mjDSBL_CONSTRAINT)


def loop_kind(mujoco: ModuleType, model: Any, i: int) -> str:
    """ "connect" or "weld"; "" for an equality of another kind, one that is not active, and one to a mocap body.

    A mocap body is moved by a program, and what is welded to it is drawn along softly: held exactly, it could not move.
    """
    kinds = {int(mujoco.mjtEq.mjEQ_CONNECT): "connect", int(mujoco.mjtEq.mjEQ_WELD): "weld"}
    kind = kinds.get(int(model.eq_type[i]), "") if active(mujoco, model, i) else ""
    ends = [int(model.eq_obj1id[i]), int(model.eq_obj2id[i])] if kind else []
    if int(model.eq_objtype[i]) == mujoco.mjtObj.mjOBJ_SITE:
        ends = [int(model.site_bodyid[site]) for site in ends]
    return "" if any(model.body_mocapid[body] >= 0 for body in ends) else kind


def text_at(table: bytes, start: int) -> str:
    """The text that begins at `start` in one of MuJoCo's tables of names or paths."""
    return table[start : table.index(b"\0", start)].decode()
