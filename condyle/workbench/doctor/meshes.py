"""Mesh files that are not where a robot file says: where they are, if they are anywhere near."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path

from condyle.robot.paths import SCHEME, Places

MAX_VISITED = 4000  # files and folders looked at in search of a mesh
MAX_DEPTH = 4  # folders in folders
MESH_FOLDERS = ("meshes", "mesh", "Meshes", "assets", "stl", "visual", "collision", "models", "objects")


class MeshSearch:
    """The files near a robot file, listed once, without following links, and not more than a few thousand."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.folder = Path(os.path.realpath(places.folder))

    def find(self, name: str) -> str | None:
        """How to write the one file that is called like this, from the robot's folder; None if there is none, or several."""
        parts = [part.lower() for part in name.replace("\\", "/").split("/")]
        last = SCHEME.sub("", name.replace("\\", "/")).rpartition("/")[2].lower()
        found = self._files.get(last, []) if last else []
        # of several, the one that lies in folders of the same names
        if len(found) > 1:
            alike = [sum(part.lower() in parts for part in path.parts[-4:]) for path in found]
            found = [path for path, score in zip(found, alike, strict=True) if score == max(alike)]
        if len(found) != 1:
            return None
        written = Path(os.path.relpath(found[0], self.folder)).as_posix()
        try:
            return written if self.places.find(written) is not None else None
        except ValueError:
            return None

    def package(self, package: str) -> Path | None:
        """The folder that holds a package of this name: one of the folders above, or one beside them."""
        if not package or package in (".", "..") or "/" in package or "\0" in package or len(package) > 200:
            return None
        for folder in list(self.folder.parents)[:4]:
            for candidate in (folder / package, folder / "share" / package, folder / "src" / package):
                try:
                    if candidate.is_dir():
                        return candidate.parent
                except OSError:
                    return None
        return None

    def _around(self) -> list[Path]:
        """Where else meshes may lie: the whole package, or, without one, folders beside the robot's that are named for them."""
        found: list[Path] = []
        for root in self.places.roots:
            top = Path(os.path.realpath(root))
            all_of_it = (top / "package.xml").is_file() or root in self.places.package_dirs
            found += [top] if all_of_it else [top / name for name in MESH_FOLDERS]
        return found

    @cached_property
    def _files(self) -> dict[str, list[Path]]:
        files: dict[str, list[Path]] = {}
        visited, seen = 0, set[Path]()
        waiting = [(self.folder, 0), *[(folder, 0) for folder in self._around()]]
        while waiting and visited < MAX_VISITED:
            folder, depth = waiting.pop(0)
            if folder in seen:
                continue
            seen.add(folder)
            try:
                entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError:
                continue
            for entry in entries[:MAX_VISITED]:
                visited += 1
                if entry.is_dir(follow_symlinks=False):
                    if depth < MAX_DEPTH and not entry.name.startswith("."):
                        waiting.append((Path(entry.path), depth + 1))
                elif entry.is_file(follow_symlinks=False):
                    files.setdefault(entry.name.lower(), []).append(Path(entry.path))
        return files
