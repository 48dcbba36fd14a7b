"""Where a ROS package lies: named by its package.xml or its folder, among the given folders and beside the robot's own package.

No ROS has to be installed. Only folders near the robot file are looked into: those that were given, its own package, the packages
beside it, and those of the workspace (a folder called `src` or `share`) around it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

MAX_FOLDERS = 2_000  # looked into, in all
MAX_MANIFEST = 65_536  # bytes of a package.xml
WORKSPACES = ("src", "share", "install")
DEPTH = 3  # of packages below a given folder or a workspace: src/repository/group/package

# what a folder has that holds a robot, with or without a package.xml
PARTS = ("package.xml", "urdf", "xacro", "meshes", "robots", "robot", "config")
NAME = re.compile(rb"<name>\s*([A-Za-z0-9_.-]{1,200})\s*</name>")
SUFFIX = re.compile(r"([_-](description|descriptions|support|model|models|robot|ros|ros2|main|master|devel))+$")


def package_of(path: Path) -> Path:
    """The folder whose files a description may use: the nearest one above it with a package.xml.

    Without one, the parent of its folder; and if that holds no robot, the nearest of the next two above that holds meshes.
    """
    folder = path.resolve().parent
    above = [folder, *list(folder.parents)[:4]]
    for candidate in above:
        if (candidate / "package.xml").is_file():
            return candidate
    fallback = folder.parent if folder.parent != folder else folder
    for candidate in above[2:4] if not is_package(fallback) else ():
        # never the root of the file system, nor a folder right below it
        if len(candidate.parts) > 2 and any((candidate / part).is_dir() for part in ("meshes", "mesh", "assets")):
            return candidate
    return fallback


def python_packages(path: Path) -> list[Path]:
    """The outermost Python package that a file is part of, whose assets are often in another branch; none, or one folder."""
    above = list(path.resolve().parents)[:8]
    return [folder for folder in above if len(folder.parts) > 2 and (folder / "__init__.py").is_file()][-1:]


def package_name(folder: Path) -> str:
    """The name in the package.xml of a folder, "" when it has none."""
    try:
        with open(folder / "package.xml", "rb") as file:
            found = NAME.search(re.sub(rb"<!--.*?-->", b"", file.read(MAX_MANIFEST), flags=re.DOTALL))
    except OSError:
        return ""
    return found[1].decode() if found else ""


class Packages:
    """The packages that can be reached from a robot file, looked for when they are first asked for."""

    def __init__(self, own: Path | None, given: Sequence[Path]) -> None:
        self.own, self.given = own, tuple(given)
        self._homes: dict[str, list[Path]] = {}
        self._named: dict[str, list[Path]] | None = None
        self.outside: set[Path] = set()  # packages beside the robot's own that it uses

    def homes(self, name: str) -> list[Path]:
        """Folders that are the package of this name, the likeliest first: given or the robot's own, else those beside it."""
        if name not in self._homes:
            self._homes[name] = list(dict.fromkeys(self._given(name))) or list(dict.fromkeys(self._beside(name)))
        return self._homes[name]

    def _given(self, name: str) -> Iterator[Path]:
        for folder in self.given:
            if name in (os.path.basename(os.path.abspath(folder)), package_name(folder)):
                yield folder
            if (folder / name).is_dir():
                yield folder / name
        if self.own is not None and name in (self.own.name, package_name(self.own)):
            yield self.own

    def _beside(self, name: str) -> Iterator[Path]:
        if self._named is None:
            self._named = self._scan()
        found = self._named.get(name, [])
        if self.own is not None:
            beside = self.own.parent / name
            if beside not in found and len(beside.parts) > 2 and is_package(beside):
                found = [*found, beside]
        self.outside.update(folder for folder in found if not any(folder.is_relative_to(given) for given in self.given))
        yield from found

    def renamed(self, name: str) -> Path | None:
        """The robot's own folder, if it has no package.xml and may be this package renamed: ur5 for ur5_support."""
        if self.own is None or package_name(self.own) or not is_package(self.own):
            return None
        ours, theirs = (SUFFIX.sub("", each.lower()) for each in (self.own.name, name))
        return self.own if ours and (ours == theirs or ours.startswith(theirs + "_") or theirs.startswith(ours + "_")) else None

    def _scan(self) -> dict[str, list[Path]]:
        """Packages by the names in their package.xml: below the given folders, beside the robot's own, and in its workspace."""
        starts = [(folder, DEPTH) for folder in self.given]
        if self.own is not None:
            # never the root of the file system, nor a folder right below it
            above = [folder for folder in self.own.parents if len(folder.parts) > 2]
            starts += [(folder, 2) for folder in above[:1]]
            starts += [(folder, DEPTH) for folder in above[:4] if folder.name in WORKSPACES][:1]
        found: dict[str, list[Path]] = {}
        budget = MAX_FOLDERS
        for start, depth in starts:
            waiting = [(start, 0)]
            while waiting and budget > 0:
                folder, level = waiting.pop()
                budget -= 1
                name = package_name(folder) if level else ""
                if name:
                    found.setdefault(name, []).append(folder)
                elif level < depth:
                    waiting.extend((inner, level + 1) for inner in reversed(_folders(folder)))
        return found


def is_package(folder: Path) -> bool:
    """Whether a folder looks like one that holds a robot."""
    return folder.is_dir() and not folder.is_symlink() and any((folder / part).exists() for part in PARTS)


def _folders(folder: Path) -> list[Path]:
    """The folders in a folder, in order; links are not followed."""
    try:
        with os.scandir(folder) as inside:
            names = [entry.name for entry in inside if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")]
    except OSError:
        return []
    return [folder / name for name in sorted(names)]
